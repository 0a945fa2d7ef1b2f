/* What ray_validate refuses (§1.6 and the rules of validate.h), one row a rule; what ray_unsupported and ray_warnings
 * tell. */
#include "test_ray.h"

/* A cluster without problems: a TPU group of four hosts and a plain one. */
#define CLUSTER                                                                                                        \
  "metadata: {name: c, namespace: ns}\n"                                                                               \
  "spec:\n"                                                                                                            \
  "  rayVersion: 2.53.0\n"                                                                                             \
  "  headGroupSpec: {template: {spec: {containers: [{name: head, image: i}]}}}\n"                                      \
  "  workerGroupSpecs:\n"                                                                                              \
  "  - groupName: tpu\n"                                                                                               \
  "    replicas: 1\n"                                                                                                  \
  "    numOfHosts: 4\n"                                                                                                \
  "    template:\n"                                                                                                    \
  "      spec:\n"                                                                                                      \
  "        containers: [{name: w, image: i, resources: {limits: {google.com/tpu: '4'}}}]\n"                            \
  "        nodeSelector: {cloud.google.com/gke-tpu-accelerator: tpu-v6e-slice, cloud.google.com/gke-tpu-topology: "    \
  "4x4}\n"                                                                                                             \
  "  - {groupName: cpu, replicas: 2, template: {spec: {containers: [{name: w, image: i}]}}}\n"

#define HEAD "/spec/headGroupSpec"
#define TPU "/spec/workerGroupSpecs/0"
#define TPU_SPEC TPU "/template/spec"
#define CPU "/spec/workerGroupSpecs/1"
#define CPU_RAY CPU "/template/spec/containers/0"
#define ADD(path, value) "{\"op\":\"add\",\"path\":\"" path "\",\"value\":" value "}"
#define ONE(path, value) "[" ADD (path, value) "]"
#define REPLACE(path, value) "[{\"op\":\"replace\",\"path\":\"" path "\",\"value\":" value "}]"
#define REMOVE(path) "[{\"op\":\"remove\",\"path\":\"" path "\"}]"
#define TOPOLOGY TPU_SPEC "/nodeSelector/cloud.google.com~1gke-tpu-topology"
#define TWO(p1, v1, p2, v2) "[" ADD (p1, v1) "," ADD (p2, v2) "]"
#define FTO "/spec/gcsFaultToleranceOptions"
#define AUTH "/spec/authOptions"
#define NETWORK "/spec/networkPolicy"
#define REDIS "{\"redisAddress\":\"r:6379\"}"
#define ROCKSDB "{\"backend\":\"rocksdb\"}"
#define T_META "spec.workerGroupSpecs[0].template.metadata"
#define W_META "spec.workerGroupSpecs[1].template.metadata"
#define W_SPEC "spec.workerGroupSpecs[1].template.spec"
#define W0 W_SPEC ".containers[0]"
#define HEAD_ENV HEAD "/template/spec/containers/0/env"
#define HEAD_ENV_FIELD "spec.headGroupSpec.template.spec.containers[0].env"
#define TPU_CHIPS TPU_SPEC "/containers/0/resources/limits/google.com~1tpu"
#define NAME_54 "a23456789012345678901234567890123456789012345678901234"

static const struct row
{
  const char *patch, *field, *message;
  const char *reason; /* NULL: RAY_REASON_SPEC */
} rows[] = {
  /* metadata */
  { ONE ("/metadata/name", "\"" NAME_54 "\""), "metadata.name", "54 characters", RAY_REASON_METADATA },
  { ONE ("/metadata/name", "\"1c\""), "metadata.name", "no DNS label", RAY_REASON_METADATA },
  { ONE ("/metadata/name", "\"Up\""), "metadata.name", "lower-case", RAY_REASON_METADATA },
  { ONE ("/metadata/namespace", "\"a.b\""), "metadata.namespace", "a.b", RAY_REASON_METADATA },
  /* fault tolerance */
  { ONE (FTO, "{}"), "spec.gcsFaultToleranceOptions.redisAddress", "is missing", NULL },
  { ONE (FTO, "{\"backend\":\"etcd\"}"), "spec.gcsFaultToleranceOptions.backend", "\"etcd\" is unknown", NULL },
  { ONE (FTO, "{\"redisAddress\":\"r\",\"storage\":{}}"), "spec.gcsFaultToleranceOptions.storage",
    "is for backend rocksdb", NULL },
  { TWO (FTO, REDIS, HEAD_ENV, "[{\"name\":\"REDIS_PASSWORD\",\"value\":\"x\"}]"), HEAD_ENV_FIELD,
    "REDIS_PASSWORD cannot stand beside", NULL },
  { TWO (FTO, REDIS, HEAD_ENV, "[{\"name\":\"RAY_REDIS_ADDRESS\",\"value\":\"x\"}]"), HEAD_ENV_FIELD,
    "RAY_REDIS_ADDRESS cannot stand beside", NULL },
  { TWO (FTO, REDIS, HEAD "/rayStartParams", "{\"redis-password\":\"x\"}"),
    "spec.headGroupSpec.rayStartParams.redis-password", "use its redisPassword", NULL },
  { TWO (FTO, REDIS, "/metadata/annotations", "{\"ray.io/external-storage-namespace\":\"x\"}"),
    "metadata.annotations[\"ray.io/external-storage-namespace\"]", "externalStorageNamespace", NULL },
  { TWO (FTO, REDIS, "/metadata/annotations", "{\"ray.io/ft-enabled\":\"false\"}"),
    "metadata.annotations[\"ray.io/ft-enabled\"]", "remove the annotation", NULL },
  { ONE (HEAD_ENV, "[{\"name\":\"RAY_REDIS_ADDRESS\",\"value\":\"x\"}]"), HEAD_ENV_FIELD, "without fault tolerance",
    NULL },
  { ONE (HEAD_ENV, "[{\"name\":\"REDIS_USERNAME\",\"value\":\"x\"}]"), HEAD_ENV_FIELD, "is not allowed", NULL },
  { ONE (HEAD "/rayStartParams", "{\"redis-username\":\"x\"}"), "spec.headGroupSpec.rayStartParams.redis-username",
    "is not allowed", NULL },
  { ONE (FTO, "{\"backend\":\"rocksdb\",\"redisAddress\":\"r\"}"), "spec.gcsFaultToleranceOptions.redisAddress",
    "no meaning for backend rocksdb", NULL },
  { ONE (FTO, "{\"backend\":\"rocksdb\",\"storage\":{\"claimName\":\"c\",\"size\":\"1Gi\"}}"),
    "spec.gcsFaultToleranceOptions.storage.size", "existing claim", NULL },
  { ONE (FTO, "{\"backend\":\"rocksdb\",\"storage\":{\"size\":\"much\"}}"),
    "spec.gcsFaultToleranceOptions.storage.size", "must be a quantity", NULL },
  { ONE (FTO, "{\"backend\":\"rocksdb\",\"deletionPolicy\":\"Keep\"}"), "spec.gcsFaultToleranceOptions.deletionPolicy",
    "\"Keep\" is unknown", NULL },
  { TWO (FTO, ROCKSDB, HEAD_ENV, "[{\"name\":\"RAY_gcs_storage\",\"value\":\"x\"}]"), HEAD_ENV_FIELD,
    "RAY_gcs_storage is set by the operator", NULL },
  { TWO (FTO, ROCKSDB, HEAD "/template/spec/volumes", "[{\"name\":\"gcs-storage\"}]"),
    "spec.headGroupSpec.template.spec.volumes", "rename yours", NULL },
  { TWO (FTO, ROCKSDB, HEAD "/template/spec/containers/0/volumeMounts",
         "[{\"name\":\"v\",\"mountPath\":\"/data/gcs\"}]"),
    "spec.headGroupSpec.template.spec.containers[0].volumeMounts", "mount yours elsewhere", NULL },
  /* authentication */
  { ONE (AUTH, "{\"mode\":\"open\"}"), "spec.authOptions.mode", "\"open\" is unknown", NULL },
  { TWO (AUTH, "{\"mode\":\"token\"}", "/spec/rayVersion", "\"2.51.0\""), "spec.rayVersion", "needs 2.52 or newer",
    NULL },
  { TWO (AUTH, "{\"mode\":\"token\"}", "/spec/rayVersion", "\"\""), "spec.rayVersion", "needs 2.52 or newer", NULL },
  { ONE (AUTH, "{\"mode\":\"token\",\"enableK8sTokenAuth\":true}"), "spec.rayVersion", "needs 2.55 or newer", NULL },
  { ONE (AUTH, "{\"enableK8sTokenAuth\":true}"), "spec.authOptions.enableK8sTokenAuth", "needs spec.authOptions.mode",
    NULL },
  { ONE (AUTH, "{\"mode\":\"token\",\"enableK8sTokenAuth\":true,\"secretName\":\"s\"}"), "spec.authOptions.secretName",
    "cannot stand beside", NULL },
  { TWO (AUTH, "{\"mode\":\"token\",\"enableK8sTokenAuth\":true}", "/metadata/labels",
         "{\"ray.io/originated-from-crd\":\"RayJob\"}"),
    "spec.authOptions.enableK8sTokenAuth", "cannot be used in a RayJob", NULL },
  /* network policies, upgrades, Ingress */
  { ONE (NETWORK, "{\"mode\":\"Allow\"}"), "spec.networkPolicy.mode", "\"Allow\" is unknown", NULL },
  { ONE (NETWORK, "{\"mode\":\"DenyAllEgress\",\"head\":{\"ingressRules\":[{}]}}"),
    "spec.networkPolicy.head.ingressRules", "no meaning in mode DenyAllEgress", NULL },
  { ONE (NETWORK, "{\"mode\":\"DenyAllIngress\",\"worker\":{\"egressRules\":[{}]}}"),
    "spec.networkPolicy.worker.egressRules", "no meaning in mode DenyAllIngress", NULL },
  { ONE (NETWORK, "{\"workerGroups\":[{\"groupName\":\"none\"}]}"), "spec.networkPolicy.workerGroups[0].groupName",
    "no worker group", NULL },
  { ONE ("/spec/upgradeStrategy", "{\"type\":\"Rolling\"}"), "spec.upgradeStrategy.type", "\"Rolling\" is unknown",
    NULL },
  { TWO ("/spec/upgradeStrategy", "{\"type\":\"None\"}", "/metadata/labels",
         "{\"ray.io/originated-from-crd\":\"RayService\"}"),
    "spec.upgradeStrategy.type", "of a RayService", NULL },
  { ONE (HEAD "/ingressOptions", "{\"pathType\":\"Regex\"}"), "spec.headGroupSpec.ingressOptions.pathType",
    "\"Regex\" is unknown", NULL },
  { ONE (HEAD "/ingressOptions", "{\"path\":\"x\"}"), "spec.headGroupSpec.ingressOptions.path", "must begin with /",
    NULL },
  /* structure and types */
  { REMOVE ("/spec"), "spec", "is missing", NULL },
  { REMOVE (HEAD), "spec.headGroupSpec", "is missing", NULL },
  { ONE ("/spec/workerGroupSpecs", "{}"), "spec.workerGroupSpecs", "must be a list of objects, not object", NULL },
  { REPLACE (CPU, "\"x\""), "spec.workerGroupSpecs[1]", "must be an object, not \"x\"", NULL },
  { ONE ("/spec/suspend", "\"yes\""), "spec.suspend", "must be true or false, not \"yes\"", NULL },
  { ONE ("/spec/rayVersion", "2.53"), "spec.rayVersion", "must be a string", NULL },
  { ONE ("/spec/managedBy", "\"me\""), "spec.managedBy", "\"me\" is not known", NULL },
  { ONE ("/spec/headServiceAnnotations", "{\"a\":1}"), "spec.headServiceAnnotations.a", "must be a string", NULL },
  { ONE (HEAD "/rayStartParams", "{\"num-cpus\":0}"), "spec.headGroupSpec.rayStartParams.num-cpus",
    "must be a string (quote it), not 0", NULL },
  { ONE (HEAD "/serviceType", "\"Cluster\""), "spec.headGroupSpec.serviceType", "no Service type", NULL },
  { ONE (HEAD "/headService", "{\"metadata\":{\"name\":\"A_b\"}}"), "spec.headGroupSpec.headService.metadata.name",
    "no Service name", NULL },
  { ONE (HEAD "/headService", "{\"spec\":{\"ports\":3}}"), "spec.headGroupSpec.headService.spec.ports",
    "must be a list", NULL },
  /* templates */
  { REMOVE (HEAD "/template"), "spec.headGroupSpec.template.spec.containers", "needs at least one container", NULL },
  { ONE (CPU "/template/spec/containers", "[]"), "spec.workerGroupSpecs[1].template.spec.containers",
    "needs at least one container", NULL },
  { ONE (CPU "/template/spec/containers", "\"x\""), "spec.workerGroupSpecs[1].template.spec.containers",
    "must be a list of objects", NULL },
  { REPLACE (CPU_RAY, "null"), "spec.workerGroupSpecs[1].template.spec.containers[0]", "must be an object, not null",
    NULL },
  { REMOVE (CPU_RAY "/name"), "spec.workerGroupSpecs[1].template.spec.containers[0].name", "is missing", NULL },
  { ONE (CPU_RAY "/name", "\"Worker\""), "spec.workerGroupSpecs[1].template.spec.containers[0].name", "no DNS label",
    NULL },
  { ONE (CPU "/template/spec/containers/-", "{\"name\":\"w\"}"),
    "spec.workerGroupSpecs[1].template.spec.containers[1].name", "there twice", NULL },
  { ONE (CPU "/template/spec/initContainers", "[{\"name\":\"w\"}]"),
    "spec.workerGroupSpecs[1].template.spec.initContainers[0].name", "also the name of a container", NULL },
  { ONE (CPU "/template/spec/volumes", "[{\"name\":\"v\"},{\"name\":\"v\"}]"),
    "spec.workerGroupSpecs[1].template.spec.volumes[1].name", "there twice", NULL },
  { ONE (CPU_RAY "/ports", "[{\"name\":\"a\",\"containerPort\":1},{\"name\":\"a\",\"containerPort\":2}]"),
    "spec.workerGroupSpecs[1].template.spec.containers[0].ports[1].name", "there twice", NULL },
  { ONE (CPU_RAY "/ports", "[{\"containerPort\":70000}]"),
    "spec.workerGroupSpecs[1].template.spec.containers[0].ports[0].containerPort", "1 to 65535", NULL },
  { ONE (CPU_RAY "/image", "\"\""), W0 ".image", "is empty: name the image", NULL },
  { REMOVE (CPU_RAY "/image"), W0 ".image", "is missing: name the image", NULL },
  { ONE (CPU_RAY "/image", "\" i\""), W0 ".image", "begins or ends with white space", NULL },
  { ONE (CPU "/template/spec/initContainers", "[{\"name\":\"i\"}]"), W_SPEC ".initContainers[0].image", "is missing",
    NULL },
  { ONE (CPU_RAY "/imagePullPolicy", "\"Sometimes\""), W0 ".imagePullPolicy", "use one of Always, IfNotPresent, Never",
    NULL },
  { ONE (CPU_RAY "/ports", "[{\"containerPort\":1,\"protocol\":\"tcp\"}]"), W0 ".ports[0].protocol",
    "one of TCP, UDP, SCTP", NULL },
  { ONE (CPU_RAY "/ports", "[{\"containerPort\":1,\"name\":\"a-name-of-sixteen\"}]"), W0 ".ports[0].name", "at most 15",
    NULL },
  { ONE (CPU_RAY "/env", "[{\"name\":\"\",\"value\":\"1\"}]"), W0 ".env[0].name", "name the variable", NULL },
  { ONE (CPU_RAY "/volumeMounts", "[{\"name\":\"data\",\"mountPath\":\"/d\"}]"), W0 ".volumeMounts[0].name",
    "there is no volume \"data\": add it to the template's spec.volumes", NULL },
  { ONE (CPU_RAY "/volumeMounts", "[{\"mountPath\":\"/d\"}]"), W0 ".volumeMounts[0].name", "is missing", NULL },
  { ONE (CPU_RAY "/volumeMounts", "[{\"name\":\"shared-mem\"}]"), W0 ".volumeMounts[0].mountPath", "is missing", NULL },
  { TWO (CPU "/template/spec/volumes", "[{\"name\":\"v\"}]", CPU_RAY "/volumeMounts",
         "[{\"name\":\"v\",\"mountPath\":\"/d\"},{\"name\":\"v\",\"mountPath\":\"/d\"}]"),
    W0 ".volumeMounts[1].mountPath", "there twice", NULL },
  { ONE (CPU "/template/spec/volumes", "[{\"name\":\"V_1\"}]"), W_SPEC ".volumes[0].name", "no DNS label", NULL },
  { ONE (CPU "/template/spec/restartPolicy", "\"Sometimes\""), W_SPEC ".restartPolicy",
    "\"Sometimes\" is unknown: use one of Always, OnFailure, Never", NULL },
  { ONE (CPU "/template/spec/dnsPolicy", "\"Cluster\""), W_SPEC ".dnsPolicy", "ClusterFirstWithHostNet", NULL },
  { ONE (CPU "/template/spec/serviceAccountName", "\"../../a/pods/b\""), W_SPEC ".serviceAccountName",
    "\"../../a/pods/b\" is no name of an object", NULL },
  { ONE (HEAD "/template/spec/serviceAccountName", "\"..\""), "spec.headGroupSpec.template.spec.serviceAccountName",
    "no name of an object", NULL },
  { ONE (FTO, "{\"backend\":\"rocksdb\",\"storage\":{\"claimName\":\"../../../pods?watch=true&x=\"}}"),
    "spec.gcsFaultToleranceOptions.storage.claimName", "no name of an object", NULL },
  { ONE (FTO, "{\"backend\":\"rocksdb\",\"storage\":{\"storageClassName\":\"a/b\"}}"),
    "spec.gcsFaultToleranceOptions.storage.storageClassName", "no name of an object", NULL },
  { ONE (AUTH, "{\"mode\":\"token\",\"secretName\":\".\"}"), "spec.authOptions.secretName", "no name of an object",
    NULL },
  { ONE (CPU "/template/spec/hostname", "\"a.b\""), W_SPEC ".hostname", "no DNS label", NULL },
  { ONE (CPU "/template/metadata", "{\"labels\":{\"team\":\"a b\"}}"), W_META ".labels[\"team\"]",
    "\"a b\" is no label value", NULL },
  { ONE (CPU "/template/metadata", "{\"labels\":{\"a/b/c\":\"x\"}}"), W_META ".labels[\"a/b/c\"]", "no label key",
    NULL },
  { ONE (CPU "/template/metadata", "{\"annotations\":{\"-a\":\"any text\"}}"), W_META ".annotations[\"-a\"]",
    "no annotation key", NULL },
  { ONE (CPU "/template/spec/nodeSelector", "{\"pool\":\"a/b\"}"), W_SPEC ".nodeSelector[\"pool\"]", "no label value",
    NULL },
  { ONE (CPU_RAY "/env", "[{\"value\":\"1\"}]"), "spec.workerGroupSpecs[1].template.spec.containers[0].env[0].name",
    "is missing", NULL },
  { ONE (CPU_RAY "/env", "[{\"name\":\"a\",\"value\":1}]"),
    "spec.workerGroupSpecs[1].template.spec.containers[0].env[0].value", "must be a string", NULL },
  { ONE (CPU_RAY "/resources", "{\"limits\":{\"memory\":\"16 GB\"}}"),
    "spec.workerGroupSpecs[1].template.spec.containers[0].resources.limits.memory", "not \"16 GB\"", NULL },
  { ONE (CPU_RAY "/resources", "{\"requests\":{\"cpu\":-1}}"),
    "spec.workerGroupSpecs[1].template.spec.containers[0].resources.requests.cpu", "0 or more", NULL },
  { ONE (CPU "/template/spec/nodeSelector", "{\"a.b/c\":true}"),
    "spec.workerGroupSpecs[1].template.spec.nodeSelector[\"a.b/c\"]", "must be a string", NULL },
  /* counts */
  { ONE (CPU "/replicas", "-1"), "spec.workerGroupSpecs[1].replicas", "replicas is -1: it must be 0 or more", NULL },
  { ONE (CPU "/minReplicas", "-2"), "spec.workerGroupSpecs[1].minReplicas", "is -2", NULL },
  { ONE (CPU "/maxReplicas", "-3"), "spec.workerGroupSpecs[1].maxReplicas", "is -3", NULL },
  { ONE (CPU "/numOfHosts", "-4"), "spec.workerGroupSpecs[1].numOfHosts", "is -4", NULL },
  { ONE (CPU "/replicas", "\"2\""), "spec.workerGroupSpecs[1].replicas", "whole number", NULL },
  { ONE (CPU "/replicas", "1.5"), "spec.workerGroupSpecs[1].replicas", "not 1.5", NULL },
  { ONE (CPU "/maxReplicas", "2147483648"), "spec.workerGroupSpecs[1].maxReplicas", "within 32 bits", NULL },
  { "[" ADD (CPU "/minReplicas", "3") "," ADD (CPU "/maxReplicas", "1") "]", "spec.workerGroupSpecs[1].minReplicas",
    "minReplicas is 3, but maxReplicas is 1", NULL },
  { ONE (CPU "/replicas", "100001"), "spec.workerGroupSpecs[1].replicas", "more than the 100000 pods", NULL },
  { ONE (CPU "/numOfHosts", "4097"), "spec.workerGroupSpecs[1].numOfHosts", "at most 4096 hosts; lower it", NULL },
  { "[" ADD (CPU "/numOfHosts", "2147483647") "," ADD (CPU "/suspend", "true") "]",
    "spec.workerGroupSpecs[1].numOfHosts", "numOfHosts is 2147483647: one replica", NULL },
  { "[" ADD (CPU "/numOfHosts", "4096") "," ADD (CPU "/replicas", "25") "]", "spec.workerGroupSpecs[1].replicas",
    "25 replicas of 4096 hosts are more than", NULL },
  /* names */
  { REMOVE (CPU "/groupName"), "spec.workerGroupSpecs[1].groupName", "is missing", NULL },
  { ONE (CPU "/groupName", "\"v6e_16\""), "spec.workerGroupSpecs[1].groupName", "\"v6e_16\" is no DNS label", NULL },
  { ONE (CPU "/groupName", "\"headgroup\""), "spec.workerGroupSpecs[1].groupName", "means the head", NULL },
  { ONE (CPU "/groupName", "\"tpu\""), "spec.workerGroupSpecs[1].groupName", "also the name of workerGroupSpecs[0]",
    NULL },
  { ONE (TPU "/groupName", "\"" NAME_54 "1234\""), "spec.workerGroupSpecs[0].groupName", "58 characters", NULL },
  { "[" ADD (TPU "/groupName", "\"" NAME_54 "\"") "," ADD (TPU "/maxReplicas", "100000") "]",
    "spec.workerGroupSpecs[0].groupName", "only up to 54", "ok" },
  { "[" ADD (TPU "/groupName", "\"" NAME_54 "1\"") "," ADD (TPU "/maxReplicas", "100000") "]",
    "spec.workerGroupSpecs[0].groupName", "only up to 54", NULL },
  /* resources, labels, start parameters */
  { "[" ADD (CPU "/resources", "{\"CPU\":\"1\"}") "," ADD (CPU "/rayStartParams", "{\"num-cpus\":\"1\"}") "]",
    "spec.workerGroupSpecs[1].resources", "rayStartParams.num-cpus", NULL },
  { "[" ADD (HEAD "/resources", "{\"X\":\"1\"}") "," ADD (HEAD "/rayStartParams", "{\"resources\":\"{}\"}") "]",
    "spec.headGroupSpec.resources", "rayStartParams.resources", NULL },
  { ONE (CPU "/resources", "{\"TPU\":8}"), "spec.workerGroupSpecs[1].resources.TPU", "quote it", NULL },
  { ONE (CPU "/resources", "{\"TPU\":\"eight\"}"), "spec.workerGroupSpecs[1].resources", "TPU: \"eight\" is not",
    NULL },
  { ONE (CPU "/rayStartParams", "{\"labels\":\"a=b\"}"), "spec.workerGroupSpecs[1].rayStartParams.labels",
    "not allowed", NULL },
  { ONE (CPU "/rayStartParams", "{\"redis-username\":\"u\"}"), "spec.workerGroupSpecs[1].rayStartParams.redis-username",
    "not allowed", NULL },
  { ONE (CPU "/labels", "{\"a b\":\"c\"}"), "spec.workerGroupSpecs[1].labels", "\"a b\" is no label key", NULL },
  { ONE (CPU "/labels", "{\"A_/x\":\"c\"}"), "spec.workerGroupSpecs[1].labels", "no label key", NULL },
  { ONE (CPU "/labels", "{\"a\":\"b,c\"}"), "spec.workerGroupSpecs[1].labels", "\"b,c\", which is no label value",
    NULL },
  { ONE (HEAD "/template/spec/containers/0/env", "[{\"name\":\"RAY_REDIS_ADDRESS\",\"value\":\"r\"}]"),
    "spec.headGroupSpec.template.spec.containers[0].env", "without GCS fault tolerance", NULL },
  { ONE (CPU_RAY "/env", "[{\"name\":\"REDIS_USERNAME\"}]"), "spec.workerGroupSpecs[1].template.spec.containers[0].env",
    "REDIS_USERNAME is not allowed", NULL },
  /* TPUs */
  { ONE (TPU "/numOfHosts", "2"), "spec.workerGroupSpecs[0].numOfHosts",
    "numOfHosts is 2, but a 4x4 v6e topology with 4 chips per host has 4 hosts: set numOfHosts to 4", NULL },
  { ONE (TPU "/labels", "{\"ray.io/replica-host-index\":\"0\"}"),
    "spec.workerGroupSpecs[0].labels[\"ray.io/replica-host-index\"]", "is written to each Pod: remove it", NULL },
  { ONE (TPU "/template/metadata", "{\"labels\":{\"ray.io/worker-group-replica-index\":\"0\"}}"),
    T_META ".labels[\"ray.io/worker-group-replica-index\"]", "remove it", NULL },
  { ONE (TPU "/template/metadata", "{\"labels\":{\"ray.io/worker-group-replica-name\":\"tpu-abcde\"}}"),
    T_META ".labels[\"ray.io/worker-group-replica-name\"]", "remove it", NULL },
  { ONE (TPU "/template/metadata", "{\"annotations\":{\"ray-tpu-operator/replica-index\":\"0\"}}"),
    T_META ".annotations[\"ray-tpu-operator/replica-index\"]", "remove it", NULL },
  { ONE (TPU "/template/metadata", "{\"annotations\":{\"ray-tpu-operator/host-index\":\"0\"}}"),
    T_META ".annotations[\"ray-tpu-operator/host-index\"]", "remove it", NULL },
  { ONE (TPU "/template/metadata", "{\"annotations\":{\"ray-tpu-operator/reserved-until\":\"1\"}}"),
    T_META ".annotations[\"ray-tpu-operator/reserved-until\"]", "remove it", NULL },
  { ONE (TPU "/numOfHosts", "0"), "spec.workerGroupSpecs[0].numOfHosts", "numOfHosts is 0, but a 4x4", NULL },
  { "[" ADD (TPU "/numOfHosts", "2") "," ADD (TPU_CHIPS, "\"8\"") "]", "spec.workerGroupSpecs[0].template.spec",
    "a pod asks for 8 chips, but the hosts of a multi-host 4x4 v6e slice have 4: ask for google.com/tpu: 4 and set "
    "numOfHosts to 4",
    NULL },
  { REMOVE (TPU "/numOfHosts"), "spec.workerGroupSpecs[0].numOfHosts", "numOfHosts is 1 (its default), but a 4x4",
    NULL },
  { ONE (TOPOLOGY, "\"4x\""),
    "spec.workerGroupSpecs[0].template.spec.nodeSelector[\"cloud.google.com/gke-tpu-topology\"]", "4x", NULL },
  { REMOVE (TOPOLOGY), "spec.workerGroupSpecs[0].template.spec.nodeSelector", "gke-tpu-topology is missing", NULL },
  { ONE (TPU_SPEC "/containers/0/resources/limits/google.com~1tpu", "\"3\""), "spec.workerGroupSpecs[0].template.spec",
    "3", NULL },
  { ONE (TPU_SPEC "/containers/0/resources/limits/google.com~1tpu", "\"0.5\""),
    "spec.workerGroupSpecs[0].template.spec", "0.5", NULL },
  { "[" ADD (HEAD "/template/spec/containers/0/resources", "{\"limits\":{\"google.com/tpu\":4}}") "," ADD (
        HEAD "/template/spec/nodeSelector", "{\"cloud.google.com/gke-tpu-topology\":\"4x4\"}") "]",
    "spec.headGroupSpec.template.spec", "the head is one pod, but a 4x4 topology", NULL },
  /* autoscaling */
  { "[" ADD ("/spec/enableInTreeAutoscaling", "true") "," ADD (CPU "/suspend", "true") "]",
    "spec.workerGroupSpecs[1].suspend", "cannot be suspended", NULL },
  { ONE ("/spec/autoscalerOptions", "{\"idleTimeoutSeconds\":-1}"), "spec.autoscalerOptions.idleTimeoutSeconds",
    "0 or more", NULL },
  { ONE ("/spec/autoscalerOptions", "{\"version\":\"v3\"}"), "spec.autoscalerOptions.version", "use v1 or v2", NULL },
  { ONE ("/spec/autoscalerOptions", "{\"env\":[{\"name\":\"KUBERAY_GEN_AUTOSCALER_START_CMD\"}]}"),
    "spec.autoscalerOptions.env", "set by the operator", NULL },
  { ONE ("/spec/autoscalerOptions", "{\"command\":\"x\"}"), "spec.autoscalerOptions.command", "list of strings", NULL },
  { ONE (HEAD "/template/spec/containers/0/env", "[{\"name\":\"RAY_enable_autoscaler_v2\",\"value\":\"1\"}]"),
    "spec.headGroupSpec.template.spec.containers[0].env", "autoscaling is off", NULL },
  { "[" ADD ("/spec/enableInTreeAutoscaling", "true") "," ADD (
        "/spec/autoscalerOptions",
        "{\"version\":\"v2\"}") "," ADD (HEAD "/template/spec/containers/0/env",
                                         "[{\"name\":\"RAY_enable_autoscaler_v2\",\"value\":\"1\"}]") "]",
    "spec.autoscalerOptions.version", "cannot stand beside", NULL },
  { "[" ADD ("/spec/enableInTreeAutoscaling",
             "true") "," ADD ("/spec/autoscalerOptions",
                              "{\"version\":\"v2\"}") "," ADD (CPU "/template/spec/restartPolicy", "\"Always\"") "]",
    "spec.workerGroupSpecs[1].template.spec.restartPolicy", "v2 needs Never", NULL },
  { ONE (CPU "/idleTimeoutSeconds", "5"), "spec.workerGroupSpecs[1].idleTimeoutSeconds", "only autoscaler v2", NULL },
  { ONE (CPU "/priority", "5"), "spec.workerGroupSpecs[1].priority", "2.56", NULL },
};

static const struct ray_problem *
find_problem (const struct ray_problems *problems, const struct row *row)
{
  for (size_t i = 0; i < problems->count; i++)
    if (strcmp (problems->items[i].field, row->field) == 0 && strstr (problems->items[i].message, row->message) != NULL)
      return &problems->items[i];
  return NULL;
}

static void
test_each_rule (void **state)
{
  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (rows); i++)
    {
      bool valid = text_eq (rows[i].reason, "ok");
      cleanup_scene struct scene s = scene_patched (CLUSTER, rows[i].patch);
      cleanup_problems struct ray_problems problems = { 0 };
      const struct ray_problem *found;
      cleanup_free char *text = NULL;

      ray_validate (&s.cluster, &ray_default_options, &problems);
      found = find_problem (&problems, &rows[i]);
      text = ray_problems_text (&problems);
      if ((found == NULL) != valid)
        fail_msg ("%s: wanted %s: %s\n got %s", rows[i].patch, rows[i].field, rows[i].message, text);
      if (found != NULL)
        assert_string_equal (found->reason, rows[i].reason != NULL ? rows[i].reason : RAY_REASON_SPEC);
    }
}

/* What must not be refused: the clusters people have. */
static void
test_valid_clusters (void **state)
{
  static const char *const patches[] = {
    "[]",
    ONE ("/metadata/name", "\"a2345678901234567890123456789012345678901234567890123\""), /* 53 */
    ONE (CPU "/replicas", "0"),
    ONE (CPU "/numOfHosts", "0"),
    /* no TPU slice of several hosts */
    TWO (CPU "/labels", "{\"ray.io/replica-host-index\":\"0\"}", CPU "/numOfHosts", "2"),
    "[" ADD (TPU "/labels", "{\"ray.io/replica-host-index\":\"0\"}") "," ADD (TPU "/numOfHosts",
                                                                              "1") "," ADD (TOPOLOGY, "\"2x2\"") "]",
    "[" ADD (CPU "/replicas", "9") "," ADD (CPU "/maxReplicas", "3") "]", /* clamped, not refused */
    ONE (CPU "/suspend", "null"),
    ONE (CPU_RAY "/resources", "{\"limits\":{\"cpu\":0.5,\"memory\":\"1Gi\",\"x.io/y\":3}}"),
    ONE (CPU "/labels", "{\"cloud.google.com/x\":\"\",\"a\":\"B-_.1\"}"),
    ONE (CPU "/resources", "{\"CPU\":\"4\",\"tpu-slice\":\"1\"}"),
    ONE ("/spec/managedBy", "\"kueue.x-k8s.io/multikueue\""),
    ONE ("/spec/workerGroupSpecs", "[]"),
    REMOVE ("/spec/workerGroupSpecs"),
    ONE (CPU "/template/spec/initContainers", "[{\"name\":\"i\",\"image\":\"i\"}]"),
    ONE (CPU "/template/spec/restartPolicy", "\"\""),
    ONE (CPU "/template/metadata",
         "{\"labels\":{\"a\":\"\",\"x.io/b\":\"B_.1\"},\"annotations\":{\"X.io/c\":\"a b \"}}"),
    TWO (CPU "/template/spec/volumes", "[{\"name\":\"v\"}]", CPU_RAY "/volumeMounts",
         "[{\"name\":\"v\",\"mountPath\":\"/d\"},{\"name\":\"shared-mem\",\"mountPath\":\"/s\"}]"),
    "[" ADD ("/spec/enableInTreeAutoscaling", "true") "," ADD (
        "/spec/autoscalerOptions", "{\"version\":\"v2\"}") "," ADD (CPU "/idleTimeoutSeconds", "5") "]",
    ONE ("/spec/gcsFaultToleranceOptions", "{\"redisAddress\":\"r\"}"),
    ONE ("/spec/unknownField", "[1,2]"),
    ONE (FTO, ROCKSDB),
    ONE (FTO, "{\"backend\":\"rocksdb\",\"storage\":{\"size\":\"5Gi\"},\"deletionPolicy\":\"Retain\"}"),
    TWO ("/metadata/annotations", "{\"ray.io/ft-enabled\":\"true\",\"ray.io/external-storage-namespace\":\"n\"}",
         HEAD_ENV,
         "[{\"name\":\"RAY_REDIS_ADDRESS\",\"value\":\"r\"},{\"name\":\"REDIS_PASSWORD\",\"value\":"
         "\"p\"}]"),
    ONE (AUTH, "{\"mode\":\"token\"}"),
    ONE (AUTH, "{}"),
    TWO (AUTH, "{\"mode\":\"token\",\"enableK8sTokenAuth\":true}", "/spec/rayVersion", "\"2.55.0\""),
    ONE (NETWORK, "{\"mode\":\"DenyAllIngress\",\"workerGroups\":[{\"groupName\":\"cpu\",\"ingressRules\":[{}]}]}"),
    ONE (HEAD "/ingressOptions", "{\"host\":\"h\",\"path\":\"/x\",\"pathType\":\"Exact\"}"),
  };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (patches); i++)
    {
      cleanup_scene struct scene s = scene_patched (CLUSTER, patches[i]);
      cleanup_problems struct ray_problems problems = { 0 };
      cleanup_free char *text = NULL;

      ray_validate (&s.cluster, &ray_default_options, &problems);
      text = ray_problems_text (&problems);
      if (problems.count > 0)
        fail_msg ("%s: %s", patches[i], text);
    }
}

static void
test_fixtures_are_valid (void **state)
{
  static const char *const names[]
      = { "tutorial_a_v6e_4x4.yaml", "tutorial_a_tpu7x_2x2x2.yaml", "raycluster_v4_multihost.yaml" };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (names); i++)
    {
      cleanup_scene struct scene s = scene_fixture (names[i]);
      cleanup_problems struct ray_problems problems = { 0 };

      ray_validate (&s.cluster, &ray_default_options, &problems);
      ray_warnings (&s.cluster, &ray_default_options, &problems);
      assert_int_equal (problems.count, 0);
    }
}

static void
test_every_problem_is_told (void **state)
{
  cleanup_scene struct scene s
      = scene_patched (CLUSTER, "[" ADD ("/metadata/name", "\"1\"") "," ADD (TPU "/numOfHosts", "2") "," ADD (
                                    CPU "/replicas", "-1") "," ADD (CPU "/groupName", "\"A\"") "]");
  cleanup_problems struct ray_problems problems = { 0 };
  cleanup_free char *text = NULL;

  (void) state;
  ray_validate (&s.cluster, &ray_default_options, &problems);
  assert_int_equal (problems.count, 4);
  text = ray_problems_text (&problems);
  assert_non_null (strstr (text, "metadata.name: \"1\""));
  assert_non_null (strstr (text, "; spec.workerGroupSpecs[0].numOfHosts: numOfHosts is 2"));
}

/* Some checks take quadratic time: a list that would keep a worker busy for minutes is refused by its length alone. */
static void
test_absurd_lists_are_refused_by_length (void **state)
{
  cleanup_scene struct scene s = scene_yaml (CLUSTER);
  cJSON *template = json_get (item_at (json_get (s.object, "spec", "workerGroupSpecs"), 1), "template");
  cJSON *env = json_arr (ray_container_of (template), "env");
  cleanup_problems struct ray_problems problems = { 0 };

  (void) state;
  for (int i = 0; i <= RAY_ITEMS_MAX; i++)
    json_set_str (json_push_obj (env), "name", "A");
  ray_validate (&s.cluster, &ray_default_options, &problems);
  assert_int_equal (problems.count, 1);
  assert_string_equal (problems.items[0].field, "spec.workerGroupSpecs[1].template.spec.containers[0].env");
  assert_non_null (strstr (problems.items[0].message, "at most 4096"));
}

static void
fill_names (cJSON *list, int count)
{
  for (int i = cJSON_GetArraySize (list); i < count; i++)
    json_push_str (list, "a");
}

/* The autoscaler may name every pod of a group, and there are no more. */
static void
test_absurd_lists_of_names_are_refused_by_length (void **state)
{
  cleanup_scene struct scene s = scene_yaml (CLUSTER);
  cJSON *group = item_at (json_get (s.object, "spec", "workerGroupSpecs"), 1);
  cJSON *names = json_arr (json_obj (group, "scaleStrategy"), "workersToDelete");
  cJSON *args = json_arr (ray_container_of (json_get (group, "template")), "args");
  cleanup_problems struct ray_problems few = { 0 }, many = { 0 };

  (void) state;
  fill_names (names, RAY_GROUP_PODS_MAX);
  fill_names (args, RAY_ITEMS_MAX);
  ray_validate (&s.cluster, &ray_default_options, &few);
  assert_int_equal (few.count, 0);
  fill_names (names, RAY_GROUP_PODS_MAX + 1);
  fill_names (args, RAY_ITEMS_MAX + 1);
  ray_validate (&s.cluster, &ray_default_options, &many);
  assert_int_equal (many.count, 2);
  assert_string_equal (many.items[0].field, "spec.workerGroupSpecs[1].scaleStrategy.workersToDelete");
  assert_string_equal (many.items[1].field, "spec.workerGroupSpecs[1].template.spec.containers[0].args");
}

static void
test_text_is_cut_between_characters (void **state)
{
  cleanup_problems struct ray_problems problems = { 0 };

  (void) state;
  for (int pad = 0; pad < 4; pad++)
    {
      cleanup_problems struct ray_problems many = { 0 };
      cleanup_free char *text = NULL;

      for (int i = 0; i < 20; i++)
        ray_problem (
            &many, RAY_REASON_SPEC, "f", "%.*s%s", pad, "aaaa",
            "\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4"
            "\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4");
      text = ray_problems_text (&many);
      assert_true (strlen (text) <= 1024 && strlen (text) > 1000);
      assert_true (text_ends_with (text, "..."));
      /* Every lead byte still has its continuation byte. */
      for (const char *p = text; *p != '\0'; p++)
        if ((*p & 0xC0) == 0xC0)
          assert_int_equal (p[1] & 0xC0, 0x80);
    }
  {
    cleanup_free char *nothing = ray_problems_text (&problems);

    assert_string_equal (nothing, "");
  }
}

static void
test_unsupported_features (void **state)
{
  static const struct
  {
    const char *patch, *field;
  } features[] = {
    { ONE ("/spec/gcsFaultToleranceOptions", "{}"), NULL },
    { ONE ("/spec/authOptions", "{\"mode\":\"token\"}"), NULL },
    { ONE ("/spec/tlsOptions", "{\"enabled\":true}"), "spec.tlsOptions.enabled" },
    { ONE ("/spec/historyServerOptions", "{}"), "spec.historyServerOptions" },
    { ONE ("/spec/networkPolicy", "{}"), NULL },
    { ONE (HEAD "/enableIngress", "true"), NULL },
    { ONE ("/spec/upgradeStrategy", "{\"type\":\"Recreate\"}"), NULL },
    { ONE ("/spec/enableInTreeAutoscaling", "true"), NULL },
    { ONE ("/spec/authOptions", "{\"mode\":\"disabled\"}"), NULL },
    { ONE ("/spec/tlsOptions", "{\"enabled\":false}"), NULL },
    { ONE ("/spec/upgradeStrategy", "{\"type\":\"None\"}"), NULL },
    { "[]", NULL },
  };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (features); i++)
    {
      cleanup_scene struct scene s = scene_patched (CLUSTER, features[i].patch);
      cleanup_problems struct ray_problems problems = { 0 };

      ray_unsupported (&s.cluster, &problems);
      assert_int_equal (problems.count, features[i].field != NULL ? 1 : 0);
      if (features[i].field == NULL)
        continue;
      assert_string_equal (problems.items[0].field, features[i].field);
      assert_string_equal (problems.items[0].reason, "UnsupportedRayClusterFeature");
      assert_non_null (strstr (problems.items[0].message, "not implemented"));
    }
}

#define TPU_ENV TPU_SPEC "/containers/0/env"
#define TPU_FIELD "spec.workerGroupSpecs[0].template"
#define TPU_ANNOTATIONS TPU "/template/metadata"

/* What the pods will be warned of is told of the cluster: its own pods are not asked about again. */
static void
test_warnings_of_the_pods (void **state)
{
  static const struct
  {
    const char *patch, *field, *message;
  } cases[] = {
    { "[]", NULL, NULL },
    { ONE (TPU_SPEC "/hostname", "\"mine\""), TPU_FIELD ".spec.hostname", "\"mine\" for every host" },
    { ONE (TPU_SPEC "/subdomain", "\"mine\""), TPU_FIELD ".spec.subdomain", "remove it to use c-headless" },
    { ONE (TPU_SPEC "/subdomain", "\"c-headless\""), NULL, NULL },
    { ONE (TPU_ENV, "[{\"name\":\"TPU_WORKER_ID\",\"value\":\"0\"}]"), TPU_FIELD ".spec.containers[0].env",
      "TPU_WORKER_ID is \"0\" for every host" },
    { ONE (TPU_ENV, "[{\"name\":\"TPU_PROCESS_PORT\",\"value\":\"x\"}]"), TPU_FIELD,
      "TPU_PROCESS_PORT of container w is \"x\"" },
    { ONE (TPU_ENV, "[{\"name\":\"MEGASCALE_NUM_SLICES\",\"value\":\"-2\"}]"), TPU_FIELD,
      "MEGASCALE_NUM_SLICES of container w is \"-2\"" },
    { ONE (TPU_SPEC "/nodeSelector/cloud.google.com~1gke-tpu-accelerator", "\"tpu9\""), TPU_FIELD,
      "\"tpu9\" is not known" },
    { ONE (TPU_ANNOTATIONS, "{\"annotations\":{\"ray-tpu-operator/inject\":\"no\"}}"), TPU_FIELD, "is \"no\"" },
    { ONE (TPU_ANNOTATIONS, "{\"annotations\":{\"ray-tpu-operator/inject\":\"false\"}}"), NULL, NULL },
    { ONE (TPU_SPEC "/hostNetwork", "true"), TPU_FIELD, "ClusterFirstWithHostNet" },
    { ONE ("/metadata/annotations", "{\"ray-tpu-operator/inject\":\"false\"}"),
      "metadata.annotations[\"ray-tpu-operator/inject\"]", "has no effect on a cluster" },
    { ONE ("/metadata/annotations", "{\"ray-tpu-operator/slices\":\"{}\"}"), NULL, NULL },
    { ONE (CPU_RAY "/env", "[{\"name\":\"TPU_PROCESS_PORT\",\"value\":\"x\"}]"), NULL, NULL },
  };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (cases); i++)
    {
      cleanup_scene struct scene s = scene_patched (CLUSTER, cases[i].patch);
      cleanup_problems struct ray_problems problems = { 0 };
      cleanup_free char *text = NULL;

      ray_warnings (&s.cluster, &ray_default_options, &problems);
      text = ray_problems_text (&problems);
      if (problems.count != (cases[i].field != NULL)
          || (cases[i].field != NULL
              && (!text_eq (problems.items[0].field, cases[i].field)
                  || strstr (problems.items[0].message, cases[i].message) == NULL)))
        fail_msg ("%s: %s", cases[i].patch, text);
    }
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_each_rule),
    cmocka_unit_test (test_valid_clusters),
    cmocka_unit_test (test_fixtures_are_valid),
    cmocka_unit_test (test_every_problem_is_told),
    cmocka_unit_test (test_absurd_lists_are_refused_by_length),
    cmocka_unit_test (test_absurd_lists_of_names_are_refused_by_length),
    cmocka_unit_test (test_text_is_cut_between_characters),
    cmocka_unit_test (test_unsupported_features),
    cmocka_unit_test (test_warnings_of_the_pods),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
