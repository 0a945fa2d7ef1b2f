module sigs.k8s.io/scheduler-plugins

go 1.25.0

require (
	k8s.io/api v0.35.0
	k8s.io/apimachinery v0.35.0
)
