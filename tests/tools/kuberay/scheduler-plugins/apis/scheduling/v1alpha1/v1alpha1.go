// Package v1alpha1 stands in for the package of the same name that KubeRay's operator imports for gang scheduling, and
// that some module proxies do not serve. The tests never turn gang scheduling on: it has only to compile.
package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// PodGroup has the fields that KubeRay writes.
type PodGroup struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	Spec PodGroupSpec
}

// PodGroupSpec says how many Pods, and what resources, must be there together.
type PodGroupSpec struct {
	MinMember    int32
	MinResources corev1.ResourceList
}

// DeepCopyObject makes a PodGroup an object as client-go understands it.
func (g *PodGroup) DeepCopyObject() runtime.Object {
	return &PodGroup{
		TypeMeta:   g.TypeMeta,
		ObjectMeta: *g.ObjectMeta.DeepCopy(),
		Spec:       PodGroupSpec{MinMember: g.Spec.MinMember, MinResources: g.Spec.MinResources.DeepCopy()},
	}
}

// AddToScheme registers nothing: no client ever sends a PodGroup.
func AddToScheme(*runtime.Scheme) error { return nil }
