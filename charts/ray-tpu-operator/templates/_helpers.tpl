{{/* Name of every object: the release name if it contains the chart's name, else both. Leaves room for suffixes. */}}
{{- define "ray-tpu-operator.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "ray-tpu-operator.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "ray-tpu-operator.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "ray-tpu-operator.webhookServiceName" -}}
{{ include "ray-tpu-operator.fullname" . }}-webhook
{{- end -}}

{{/* The Secret in which the operator keeps its own CA and serving certificate. */}}
{{- define "ray-tpu-operator.certSecretName" -}}
{{ include "ray-tpu-operator.fullname" . }}-cert
{{- end -}}

{{- define "ray-tpu-operator.selectorLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "ray-tpu-operator.labels" -}}
{{ include "ray-tpu-operator.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{/* Which flag each of .Values.features sets. */}}
{{- define "ray-tpu-operator.featureFlags" -}}
initContainer: inject-init-container
probes: inject-probes
loginShell: login-shell
headClusterIPService: head-cluster-ip-service
deterministicHeadPodName: deterministic-head-pod-name
randomPodDelete: random-pod-delete
redisCleanup: redis-cleanup
{{- end -}}

{{/*
What the controller does in the namespaces it watches. The one list of these rules: a ClusterRole of them when all
namespaces are watched, a Role in each namespace otherwise.
*/}}
{{- define "ray-tpu-operator.controllerRules" -}}
- apiGroups: [ray.io]
  resources: [rayclusters]
  verbs: [get, list, watch, patch, update]
- apiGroups: [ray.io]
  resources: [rayclusters/status]
  verbs: [get, patch, update]
- apiGroups: [ray.io]
  resources: [rayclusters/finalizers]
  verbs: [update]
- apiGroups: [""]
  resources: [pods, services]
  verbs: [get, list, watch, create, update, patch, delete, deletecollection]
# Of the autoscaler's Role: nobody may grant what they do not hold.
- apiGroups: [""]
  resources: [pods/resize]
  verbs: [patch]
- apiGroups: [""]
  resources: [serviceaccounts, persistentvolumeclaims]
  verbs: [get, list, watch, create, patch]
# Authentication tokens: made, and looked at by name; never listed.
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, create, patch]
- apiGroups: [rbac.authorization.k8s.io]
  resources: [roles, rolebindings]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [networking.k8s.io]
  resources: [ingresses, networkpolicies]
  verbs: [get, list, watch, create, patch, delete]
# Redis cleanup.
- apiGroups: [batch]
  resources: [jobs]
  verbs: [get, create]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- end -}}

{{/* What the operator does in its own namespace: its certificate, its Leases, its own events. */}}
{{- define "ray-tpu-operator.ownNamespaceRules" -}}
{{- if .Values.webhook.enabled }}
- apiGroups: [""]
  resources: [secrets]
  verbs: [create]
- apiGroups: [""]
  resources: [secrets]
  resourceNames: [{{ include "ray-tpu-operator.certSecretName" . }}]
  verbs: [get, list, watch, update, patch]
{{- end }}
{{- if or .Values.leaderElect .Values.webhook.enabled }}
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [get, list, watch, create, update, patch, delete]
{{- end }}
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- end -}}

{{/* The webhook configurations into which the operator writes its CA. watch and list cannot be limited to a name. */}}
{{- define "ray-tpu-operator.webhookRules" -}}
- apiGroups: [admissionregistration.k8s.io]
  resources: [mutatingwebhookconfigurations, validatingwebhookconfigurations]
  resourceNames: [{{ include "ray-tpu-operator.fullname" . }}]
  verbs: [get, update, patch]
- apiGroups: [admissionregistration.k8s.io]
  resources: [mutatingwebhookconfigurations, validatingwebhookconfigurations]
  verbs: [list, watch]
{{- end -}}

{{/* Whether KubeRay's controller is at work, too. An install without cluster-wide rights does without. */}}
{{- define "ray-tpu-operator.otherControllerRules" -}}
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [ray-operator-leader]
  verbs: [get, list]
{{- end }}

{{/* What finding a place for Pods of a KubeRay without index labels reads: docs/injection.md. */}}
{{- define "ray-tpu-operator.placeRules" -}}
- apiGroups: [""]
  resources: [pods]
  verbs: [list]
- apiGroups: [ray.io]
  resources: [rayclusters]
  verbs: [get]
{{- end -}}

{{/*
Which namespaces' objects the webhooks see. Never the operator's own and never the system's: they must start while
the operator is down.
*/}}
{{- define "ray-tpu-operator.namespaceSelector" -}}
matchExpressions:
  - key: kubernetes.io/metadata.name
    operator: NotIn
    values: {{ list "kube-system" "kube-node-lease" "kube-public" .Release.Namespace | uniq | toJson }}
  {{- with .Values.watchNamespaces }}
  - key: kubernetes.io/metadata.name
    operator: In
    values: {{ toJson . }}
  {{- end }}
{{- end -}}

{{/* The clusters inside RayJobs and RayServices too; where those kinds do not exist, their rules never match. */}}
{{- define "ray-tpu-operator.rayRules" -}}
- apiGroups: [ray.io]
  apiVersions: [v1]
  resources: [rayclusters, rayjobs, rayservices]
  operations: [CREATE, UPDATE]
  scope: Namespaced
{{- end -}}

{{/* Values that are right each by itself and wrong together. */}}
{{- define "ray-tpu-operator.validate" -}}
{{- if and (not .Values.controller.enabled) (not .Values.webhook.enabled) -}}
{{- fail "controller.enabled and webhook.enabled are both false: enable at least one" -}}
{{- end -}}
{{- if and (gt (int .Values.replicas) 1) (not .Values.leaderElect) -}}
{{- fail (printf "replicas is %d and leaderElect is false: two replicas would both reconcile; set leaderElect to true or replicas to 1" (int .Values.replicas)) -}}
{{- end -}}
{{- end -}}
