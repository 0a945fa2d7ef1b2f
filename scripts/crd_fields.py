"""The RayCluster API as a table: every field of ray.io/v1 RayCluster that we define ourselves.

This is data, not logic. Names, types, defaults and validation are those of the published KubeRay API
(facts/kuberay.md section 0.1 and 1.1-1.5), so that an object accepted there is accepted here; the wording is ours.
Types that belong to Kubernetes (a Pod template, a Service, a NetworkPolicy rule) are named with core() and
networking() and are filled in by gen-crd.py from the OpenAPI documents that Kubernetes publishes.

Where we are stricter, the object could never have run: negative replica counts, and group names that are no
DNS label (they become Pod names, label values and, for multi-host slices, host names).
"""

GROUP = "ray.io"
KIND = "RayCluster"
PLURAL = "rayclusters"
SINGULAR = "raycluster"
INT32_MAX = 2147483647


def _field(description, **schema):
    return {"description": description, **schema}


def string(description, **more):
    return _field(description, type="string", **more)


def boolean(description, **more):
    return _field(description, type="boolean", **more)


def int32(description, **more):
    return _field(description, type="integer", format="int32", **more)


def int64(description, **more):
    return _field(description, type="integer", format="int64", **more)


def time(description, **more):
    return _field(description, type="string", format="date-time", **more)


def obj(description, fields, required=(), **more):
    schema = _field(description, type="object", properties=fields, **more)
    if required:
        schema["required"] = list(required)
    return schema


def array(description, items, **more):
    return _field(description, type="array", items=items, **more)


def strings(description, **more):
    return array(description, {"type": "string"}, **more)


def mapping(description, values=None, **more):
    return _field(description, type="object", additionalProperties=values or {"type": "string"}, **more)


def core(description, kind):
    """A core/v1 type, expanded by the generator."""
    return _field(description, **{"$kubernetes": "io.k8s.api.core.v1." + kind})


def networking(description, kind):
    """A networking/v1 type, expanded by the generator."""
    return _field(description, **{"$kubernetes": "io.k8s.api.networking.v1." + kind})


def quantity(description):
    return _field(description, **{"$kubernetes": "io.k8s.apimachinery.pkg.api.resource.Quantity"})


def array_of(description, reference, **more):
    """A list of a Kubernetes type; the item carries no description of its own."""
    item = dict(reference)
    item.pop("description", None)
    return array(description, item, **more)


def rule(expression, message=None, message_expression=None):
    """One CEL rule. `message` names the remedy; `message_expression` additionally shows the value."""
    entry = {"rule": expression}
    if message_expression:
        entry["messageExpression"] = message_expression
    if message:
        entry["message"] = message
    return entry


# A DNS-1123 label. The group name becomes part of Pod names, is a label value, and for a multi-host slice part of
# every host name. maxLength bounds the estimated cost of the rule as well.
GROUP_NAME = string(
    "Name of the group, unique in the cluster: a DNS label, as it becomes part of Pod and host names.",
    maxLength=63,
    **{
        "x-kubernetes-validations": [
            rule(
                "self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",
                message="groupName must be a DNS label: use lower case letters, digits and '-', "
                "begin and end with a letter or digit, at most 63 characters",
                message_expression="\"groupName '\" + self + \"' is not a DNS label: use lower case letters, digits "
                "and '-', begin and end with a letter or digit, at most 63 characters\"",
            )
        ]
    },
)

NETWORK_RULES = {
    "ingressRules": array_of(
        "Ingress rules added to the ones that let the cluster's own Pods talk to each other.",
        networking("", "NetworkPolicyIngressRule"),
    ),
    "egressRules": array_of(
        "Egress rules added to the built-in ones; with egress denied, DNS must be allowed here.",
        networking("", "NetworkPolicyEgressRule"),
    ),
}

REDIS_CREDENTIAL = {
    "value": string("The value itself."),
    "valueFrom": core("Where the value comes from, usually a Secret.", "EnvVarSource"),
}

# facts/kuberay.md section 1.3
AUTOSCALER_OPTIONS = obj(
    "Settings of the Ray autoscaler, which runs as a sidecar of the head.",
    {
        "resources": core("Resources of the sidecar; 500m CPU and 512Mi memory when not set.", "ResourceRequirements"),
        "image": string("Image of the sidecar; the head's image when not set."),
        "imagePullPolicy": string("Image pull policy of the sidecar; IfNotPresent when not set."),
        "securityContext": core("Security context of the sidecar.", "SecurityContext"),
        "idleTimeoutSeconds": int32("Seconds a worker may be idle before it is removed; read by the autoscaler, 60 when not set."),
        "upscalingMode": string(
            "How fast the autoscaler adds workers; read by the autoscaler.", enum=["Default", "Aggressive", "Conservative"]
        ),
        "version": string("Autoscaler version; chosen by Ray when not set.", enum=["v1", "v2"]),
        "env": array_of("Environment variables added to the sidecar.", core("", "EnvVar")),
        "envFrom": array_of("Environment sources added to the sidecar.", core("", "EnvFromSource")),
        "volumeMounts": array_of("Volume mounts added to the sidecar.", core("", "VolumeMount")),
        "command": strings("Replaces the sidecar's command."),
        "args": strings("Replaces the sidecar's arguments."),
    },
)

# facts/kuberay.md section 1.4
GCS_FAULT_TOLERANCE_OPTIONS = obj(
    "Keeps the state of the cluster's control service (GCS) outside the head, so that a new head can take over.",
    {
        "backend": string(
            "Where the state is kept; redis when not set. Cannot be changed later.",
            enum=["redis", "rocksdb"],
            **{
                "x-kubernetes-validations": [
                    rule("self == oldSelf", "backend cannot be changed: create a new RayCluster with the other backend")
                ]
            },
        ),
        "redisAddress": string("Address of the Redis server, host:port or a redis:// URL."),
        "redisUsername": obj("User name for Redis.", REDIS_CREDENTIAL),
        "redisPassword": obj("Password for Redis.", REDIS_CREDENTIAL),
        "externalStorageNamespace": string("Key prefix in Redis; the RayCluster's uid when not set."),
        "storage": obj(
            "Volume of the rocksdb backend.",
            {
                "claimName": string("An existing PersistentVolumeClaim of yours; excludes size, storageClassName and accessModes."),
                "size": quantity("Size of the claim that the operator creates; 1Gi when not set."),
                "storageClassName": string("Storage class of the claim; the default class when not set."),
                "accessModes": strings("Access modes of the claim; ReadWriteOnce when not set."),
                "subPath": string("Folder inside the volume."),
                "deletionPolicy": string(
                    "Whether the claim goes with the cluster; DeleteWithCluster when not set.", enum=["DeleteWithCluster", "Retain"]
                ),
            },
        ),
    },
)

NETWORK_POLICY = obj(
    "Isolates the cluster's Pods with NetworkPolicies.",
    {
        "mode": string("What is denied.", enum=["DenyAll", "DenyAllIngress", "DenyAllEgress"], default="DenyAll"),
        "head": obj("Additional rules for the head.", NETWORK_RULES),
        "worker": obj("Additional rules for workers.", NETWORK_RULES),
        "workerGroups": array(
            "Rules per worker group, which replace those of worker for that group.",
            {
                "type": "object",
                "properties": {"groupName": string("Name of the worker group."), **NETWORK_RULES},
                "required": ["groupName"],
            },
            **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["groupName"]},
        ),
    },
)

# facts/kuberay.md section 1.2
RAY_RESOURCES = mapping("Ray's logical resources of every Pod of the group, for example TPU; they do not change the containers.")
RAY_LABELS = mapping("Ray node labels of the group; also put on its Pods.")
RAY_START_PARAMS = mapping("Parameters of `ray start`, without the leading dashes.")

HEAD_GROUP_SPEC = obj(
    "The head: one Pod and its Service.",
    {
        "template": core("Template of the head Pod; its first container runs Ray.", "PodTemplateSpec"),
        "headService": core("Template of the head Service, for example for its name or annotations.", "Service"),
        "serviceType": string("Type of the head Service; ClusterIP when not set."),
        "enableIngress": boolean("Creates an Ingress for the dashboard."),
        "ingressOptions": obj(
            "Settings of the dashboard's Ingress.",
            {
                "host": string("Host name; any host when not set."),
                "path": string("Path; / when not set."),
                "pathType": string(
                    "How the path is matched; Prefix when not set.", enum=["Exact", "Prefix", "ImplementationSpecific"]
                ),
                "tls": array_of("TLS hosts and their Secrets.", networking("", "IngressTLS")),
            },
        ),
        "resources": RAY_RESOURCES,
        "labels": RAY_LABELS,
        "rayStartParams": RAY_START_PARAMS,
    },
    required=["template"],
)

WORKER_GROUP_SPEC = {
    "type": "object",
    "required": ["groupName", "maxReplicas", "minReplicas", "template"],
    "properties": {
        "groupName": GROUP_NAME,
        "replicas": int32(
            "Wanted replicas. A replica is one Pod, or one slice of numOfHosts Pods. Kept between minReplicas and maxReplicas.",
            default=0,
            minimum=0,
        ),
        "minReplicas": int32("Lower bound of replicas.", default=0, minimum=0),
        "maxReplicas": int32("Upper bound of replicas.", default=INT32_MAX, minimum=0),
        # No minimum: KubeRay accepts 0 here, which is treated as 1 (facts/kuberay.md section 1.2).
        "numOfHosts": int32("Pods per replica: the number of hosts of a TPU slice.", default=1),
        "suspend": boolean("Removes the group's Pods while true; set by RayJob."),
        "idleTimeoutSeconds": int32("Seconds a worker of this group may be idle; read by autoscaler v2."),
        "priority": int32("Groups of higher priority are scaled up first; read by autoscaler v2 from Ray 2.56 on.", default=0),
        "resources": RAY_RESOURCES,
        "labels": RAY_LABELS,
        "rayStartParams": RAY_START_PARAMS,
        "template": core("Template of the worker Pods; its first container runs Ray.", "PodTemplateSpec"),
        "scaleStrategy": obj(
            "Which workers to remove; written by the Ray autoscaler.",
            {"workersToDelete": strings("Names of the Pods to remove.")},
        ),
    },
}

# facts/kuberay.md section 1.1
SPEC = obj(
    "What the cluster should be.",
    {
        "headGroupSpec": HEAD_GROUP_SPEC,
        # A plain list: the Ray autoscaler addresses groups by index (facts/kuberay.md section 2.9). maxItems is far
        # above what one cluster uses; without it the API server's estimate of the groupName rule is unbounded.
        "workerGroupSpecs": array("The groups of workers.", WORKER_GROUP_SPEC, maxItems=1000),
        "rayVersion": string("Version of Ray in the images, for example 2.52.0; decides which probes and options apply."),
        "enableInTreeAutoscaling": boolean("Runs the Ray autoscaler, which then owns replicas and scaleStrategy of every group."),
        "autoscalerOptions": AUTOSCALER_OPTIONS,
        "headServiceAnnotations": mapping("Annotations of the head Service."),
        "suspend": boolean("Removes all Pods while true and keeps the rest; used by Kueue."),
        "managedBy": string(
            "Which controller owns this object; ours when not set.",
            **{
                "x-kubernetes-validations": [
                    rule("self == oldSelf", "managedBy cannot be changed: delete the RayCluster and create it anew"),
                    rule(
                        "self in ['ray.io/kuberay-operator', 'kueue.x-k8s.io/multikueue']",
                        "managedBy must be ray.io/kuberay-operator or kueue.x-k8s.io/multikueue, or not be set",
                    ),
                ]
            },
        ),
        "gcsFaultToleranceOptions": GCS_FAULT_TOLERANCE_OPTIONS,
        "upgradeStrategy": obj(
            "What happens to running Pods when the spec changes.",
            {"type": string("Recreate replaces all Pods, None keeps them; None when not set.", enum=["Recreate", "None"])},
        ),
        "authOptions": obj(
            "Authentication of Ray's clients and dashboard.",
            {
                "mode": string("token asks for a token, disabled does not.", enum=["disabled", "token"]),
                "secretName": string("Secret with the token under the key auth_token; made by the operator when not set."),
                "enableK8sTokenAuth": boolean("Lets Kubernetes decide with service account tokens."),
            },
        ),
        "historyServerOptions": obj(
            "Settings of Ray's history server.",
            {
                "collectorOptions": obj(
                    "The sidecar that collects events.",
                    {
                        "image": string("Image of the sidecar."),
                        "imagePullPolicy": string("Image pull policy of the sidecar."),
                        "resources": core("Resources of the sidecar.", "ResourceRequirements"),
                        "env": array_of("Environment variables added to the sidecar.", core("", "EnvVar")),
                    },
                )
            },
        ),
        "networkPolicy": NETWORK_POLICY,
        "tlsOptions": obj("mTLS between the cluster's Pods.", {"enabled": boolean("Turns mTLS on; off when not set.")}),
    },
    required=["headGroupSpec"],
)

# The shape of metav1.Condition; reason and type keep its published limits, so that any client's types can read them.
CONDITION = {
    "type": "object",
    "required": ["lastTransitionTime", "message", "reason", "status", "type"],
    "properties": {
        "type": string("Name of the condition, for example HeadPodReady.", maxLength=316),
        "status": string("True, False or Unknown.", enum=["True", "False", "Unknown"]),
        "reason": string("Reason of the last change, one word.", minLength=1, maxLength=1024),
        "message": string("Details for people.", maxLength=32768),
        "lastTransitionTime": time("When the status last changed."),
        "observedGeneration": int64("Generation of the spec that the condition describes.", minimum=0),
    },
}

# facts/kuberay.md section 1.5
STATUS = obj(
    "What the cluster is; written by the operator.",
    {
        "state": string("Summary: ready, suspended, or empty while the cluster is coming up."),
        "reason": string("Why the cluster is not ready."),
        "desiredWorkerReplicas": int32("Wanted worker Pods."),
        "minWorkerReplicas": int32("Lower bound of worker Pods."),
        "maxWorkerReplicas": int32("Upper bound of worker Pods."),
        "availableWorkerReplicas": int32("Worker Pods that are running."),
        "readyWorkerReplicas": int32("Worker Pods that are running and ready."),
        "desiredCPU": quantity("CPUs of the whole cluster."),
        "desiredMemory": quantity("Memory of the whole cluster."),
        "desiredGPU": quantity("GPUs of the whole cluster."),
        "desiredTPU": quantity("TPU chips of the whole cluster."),
        "endpoints": mapping("Ports of the head Service by name."),
        "head": obj(
            "Where the head is.",
            {
                "podName": string("Name of the head Pod."),
                "podIP": string("IP address of the head Pod."),
                "serviceName": string("Name of the head Service."),
                "serviceIP": string("IP address of the head Service, or of the head Pod when the Service is headless."),
            },
        ),
        "conditions": array(
            "State of the cluster in detail.",
            CONDITION,
            **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
        ),
        "lastUpdateTime": time("When the status was last written.", nullable=True),
        "stateTransitionTimes": mapping("When each state was last entered.", {"type": "string", "format": "date-time"}),
        "observedGeneration": int64("Generation of the spec that the status describes."),
    },
)

# (name, type, JSON path, priority): names and order are what `kubectl get rayclusters` prints today; priority 1
# shows with -o wide (facts/kuberay.md section 1.5).
PRINTER_COLUMNS = [
    ("desired workers", "integer", ".status.desiredWorkerReplicas", 0),
    ("available workers", "integer", ".status.availableWorkerReplicas", 0),
    ("cpus", "string", ".status.desiredCPU", 0),
    ("memory", "string", ".status.desiredMemory", 0),
    ("gpus", "string", ".status.desiredGPU", 0),
    ("tpus", "string", ".status.desiredTPU", 1),
    ("status", "string", ".status.state", 0),
    ("age", "date", ".metadata.creationTimestamp", 0),
    ("head pod IP", "string", ".status.head.podIP", 1),
    ("head service IP", "string", ".status.head.serviceIP", 1),
]
