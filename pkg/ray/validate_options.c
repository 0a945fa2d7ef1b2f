/* Rules for what a RayCluster asks for beyond pods (§1.6): fault tolerance, authentication, network policies, the
 * upgrade strategy, the Ingress. */
#include "ray/ray_internal.h"

#include <string.h>

#define FT "spec.gcsFaultToleranceOptions"
#define RAY_ENV "template.spec.containers[0].env"
#define HEAD_ENV "spec.headGroupSpec." RAY_ENV

#define PROBLEM(problems, field, ...) ray_problem ((problems), RAY_REASON_SPEC, (field), __VA_ARGS__)

static const cJSON *
ray_container (const struct ray_group *group)
{
  return cJSON_GetArrayItem (json_get (group->template, "spec", "containers"), 0);
}

static bool
has_text (const cJSON *object, const char *key)
{
  const char *text = json_str (object, key);

  return text != NULL && *text != '\0';
}

static bool
is_set (const cJSON *object, const char *key)
{
  const cJSON *v = json_get (object, key);

  return v != NULL && !cJSON_IsNull (v);
}

/* ---- fault tolerance ---- */

static const struct ray_field ft_fields[] = {
  { "backend", RAY_KIND_STRING },
  { "redisAddress", RAY_KIND_STRING },
  { "redisUsername", RAY_KIND_OBJECT },
  { "redisPassword", RAY_KIND_OBJECT },
  { "externalStorageNamespace", RAY_KIND_STRING },
  { "storage", RAY_KIND_OBJECT },
  { "deletionPolicy", RAY_KIND_STRING },
};

static const struct ray_field storage_fields[] = {
  { "claimName", RAY_KIND_STRING },
  { "storageClassName", RAY_KIND_STRING },
  { "accessModes", RAY_KIND_STRINGS },
  { "subPath", RAY_KIND_STRING },
};

/* Redis by options: everything about it is in the options. */
static void
check_redis (struct ray_problems *problems, const struct ray_cluster *cluster, const cJSON *options)
{
  static const char *const variables[] = { "REDIS_PASSWORD", "RAY_REDIS_ADDRESS" };
  static const char *const rocksdb_only[] = { "storage", "deletionPolicy" };
  const cJSON *annotations = json_get (cluster->object, "metadata", "annotations");

  if (!has_text (options, "redisAddress"))
    PROBLEM (problems, FT ".redisAddress", "is missing: give Redis's host:port, or set backend to rocksdb");
  for (size_t i = 0; i < ARRAY_LEN (rocksdb_only); i++)
    if (is_set (options, rocksdb_only[i]))
      PROBLEM (problems, ray_path (FT ".%s", rocksdb_only[i]).text,
               "is for backend rocksdb: leave it out, or set backend to rocksdb");
  for (size_t i = 0; i < ARRAY_LEN (variables); i++)
    if (ray_env_has (ray_container (&cluster->head), variables[i]))
      PROBLEM (problems, HEAD_ENV, "%s cannot stand beside " FT ": remove one of them", variables[i]);
  if (is_set (cluster->head.params, "redis-password"))
    PROBLEM (problems, "spec.headGroupSpec.rayStartParams.redis-password",
             "cannot stand beside " FT ": use its redisPassword");
  if (has_text (annotations, RAY_ANNOTATION_STORAGE_NAMESPACE))
    PROBLEM (problems, "metadata.annotations[\"" RAY_ANNOTATION_STORAGE_NAMESPACE "\"]",
             "cannot stand beside " FT ": use its externalStorageNamespace");
}

/* The volume of the embedded store is the operator's to mount. */
static void
check_reserved (struct ray_problems *problems, const struct ray_group *group)
{
  static const char *const variables[] = { "RAY_gcs_storage", "RAY_gcs_storage_path" };
  const cJSON *mounts = json_get (ray_container (group), "volumeMounts");

  for (size_t i = 0; i < ARRAY_LEN (variables); i++)
    if (ray_env_has (ray_container (group), variables[i]))
      PROBLEM (problems, HEAD_ENV, "%s is set by the operator for backend rocksdb: remove it", variables[i]);
  if (json_find (json_get (group->template, "spec", "volumes"), "name", "gcs-storage") != NULL)
    PROBLEM (problems, "spec.headGroupSpec.template.spec.volumes",
             "gcs-storage is the operator's name for the volume of backend rocksdb: rename yours");
  if (json_find (mounts, "mountPath", "/data/gcs") != NULL)
    PROBLEM (problems, "spec.headGroupSpec.template.spec.containers[0].volumeMounts",
             "/data/gcs is where the operator mounts the volume of backend rocksdb: mount yours elsewhere");
}

static void
check_rocksdb (struct ray_problems *problems, const struct ray_cluster *cluster, const cJSON *options)
{
  static const char *const redis_only[]
      = { "redisAddress", "redisUsername", "redisPassword", "externalStorageNamespace" };
  static const char *const own_claim[] = { "size", "storageClassName", "accessModes" };
  static const char *const policies[] = { "DeleteWithCluster", "Retain" };
  const cJSON *storage = json_get (options, "storage"), *size = json_get (storage, "size");
  const char *policy = json_str (options, "deletionPolicy");
  struct quantity q;

  for (size_t i = 0; i < ARRAY_LEN (redis_only); i++)
    if (is_set (options, redis_only[i]))
      PROBLEM (problems, ray_path (FT ".%s", redis_only[i]).text, "has no meaning for backend rocksdb: leave it out");
  for (size_t i = 0; has_text (storage, "claimName") && i < ARRAY_LEN (own_claim); i++)
    if (is_set (storage, own_claim[i]))
      PROBLEM (problems, ray_path (FT ".storage.%s", own_claim[i]).text,
               "has no meaning for an existing claim: leave it out, or leave out claimName");
  if (is_set (storage, "size") && (ray_quantity (&q, size, NULL) < 0 || q.nano <= 0))
    PROBLEM (problems, FT ".storage.size", "must be a quantity above 0 such as 1Gi");
  if (policy != NULL && text_index (policy, policies, ARRAY_LEN (policies)) < 0)
    PROBLEM (problems, FT ".deletionPolicy", "\"%.100s\" is unknown: use DeleteWithCluster or Retain", policy);
  check_reserved (problems, &cluster->head);
}

/* Ray's user in Redis comes from the options alone. */
static void
check_username (struct ray_problems *problems, const struct ray_cluster *cluster)
{
  if (is_set (cluster->head.params, "redis-username"))
    PROBLEM (problems, "spec.headGroupSpec.rayStartParams.redis-username", "is not allowed: use " FT ".redisUsername");
  if (ray_env_has (ray_container (&cluster->head), "REDIS_USERNAME"))
    PROBLEM (problems, HEAD_ENV, "REDIS_USERNAME is not allowed: use " FT ".redisUsername");
}

static void
check_fault_tolerance (struct ray_problems *problems, const struct ray_cluster *cluster)
{
  static const char *const backends[] = { "redis", "rocksdb" };
  const cJSON *options = json_get (cluster->object, "spec", "gcsFaultToleranceOptions");
  const cJSON *annotations = json_get (cluster->object, "metadata", "annotations");
  const cJSON *storage = json_get (options, "storage");
  const char *backend = json_str (options, "backend");

  check_username (problems, cluster);
  if (!cJSON_IsObject (options))
    {
      if (ray_fault_tolerance (cluster) == RAY_FT_NONE
          && ray_env_has (ray_container (&cluster->head), "RAY_REDIS_ADDRESS"))
        PROBLEM (problems, HEAD_ENV,
                 "RAY_REDIS_ADDRESS has no effect without fault tolerance: use " FT
                 " or the annotation " RAY_ANNOTATION_FT_ENABLED);
      return;
    }
  ray_check_kinds (problems, options, FT, ft_fields, ARRAY_LEN (ft_fields));
  ray_check_kinds (problems, storage, FT ".storage", storage_fields, ARRAY_LEN (storage_fields));
  ray_check_name_of (problems, storage, "claimName", FT ".storage");
  ray_check_name_of (problems, storage, "storageClassName", FT ".storage");
  if (has_text (annotations, RAY_ANNOTATION_FT_ENABLED))
    PROBLEM (problems, "metadata.annotations[\"" RAY_ANNOTATION_FT_ENABLED "\"]",
             "cannot stand beside " FT ": remove the annotation");
  if (backend != NULL && text_index (backend, backends, ARRAY_LEN (backends)) < 0)
    PROBLEM (problems, FT ".backend", "\"%.100s\" is unknown: use redis or rocksdb", backend);
  else if (text_eq (backend, "rocksdb"))
    check_rocksdb (problems, cluster, options);
  else
    check_redis (problems, cluster, options);
}

/* ---- authentication ---- */

static void
check_auth (struct ray_problems *problems, const struct ray_cluster *cluster)
{
  static const struct ray_field fields[]
      = { { "mode", RAY_KIND_STRING }, { "secretName", RAY_KIND_STRING }, { "enableK8sTokenAuth", RAY_KIND_BOOL } };
  static const char *const modes[] = { "disabled", "token" };
  const cJSON *options = json_get (cluster->object, "spec", "authOptions");
  const char *mode = json_str (options, "mode");
  bool k8s = json_bool (options, false, "enableK8sTokenAuth"), token = text_eq (mode, "token");
  int minor = k8s ? 55 : 52;

  ray_check_kinds (problems, options, "spec.authOptions", fields, ARRAY_LEN (fields));
  ray_check_name_of (problems, options, "secretName", "spec.authOptions");
  if (mode != NULL && text_index (mode, modes, ARRAY_LEN (modes)) < 0)
    PROBLEM (problems, "spec.authOptions.mode", "\"%.100s\" is unknown: use disabled or token", mode);
  if (k8s && !token)
    PROBLEM (problems, "spec.authOptions.enableK8sTokenAuth", "needs spec.authOptions.mode token");
  if (k8s && has_text (options, "secretName"))
    PROBLEM (problems, "spec.authOptions.secretName",
             "cannot stand beside enableK8sTokenAuth, which takes the service account's token: remove one of them");
  if (k8s && !text_eq (cluster->origin_crd, "RayCluster"))
    PROBLEM (problems, "spec.authOptions.enableK8sTokenAuth", "cannot be used in a %s: use a token Secret",
             cluster->origin_crd);
  if (token && !ray_version_at_least (cluster, 2, minor))
    PROBLEM (problems, "spec.rayVersion", "is \"%.100s\", but %s authentication needs 2.%d or newer: set it",
             cluster->ray_version, k8s ? "Kubernetes token" : "token", minor);
}

/* ---- network policies ---- */

static void
check_rules (struct ray_problems *problems, const cJSON *rules, const char *mode, const char *path)
{
  static const struct ray_field fields[]
      = { { "ingressRules", RAY_KIND_OBJECTS }, { "egressRules", RAY_KIND_OBJECTS } };
  static const struct
  {
    const char *mode, *rules;
  } senseless[] = { { "DenyAllEgress", "ingressRules" }, { "DenyAllIngress", "egressRules" } };

  ray_check_kinds (problems, rules, path, fields, ARRAY_LEN (fields));
  for (size_t i = 0; i < ARRAY_LEN (senseless); i++)
    if (text_eq (mode, senseless[i].mode) && cJSON_GetArraySize (json_get (rules, senseless[i].rules)) > 0)
      PROBLEM (problems, ray_path ("%s.%s", path, senseless[i].rules).text,
               "has no meaning in mode %s, which leaves that direction open: leave it out or change the mode", mode);
}

static void
check_network_policy (struct ray_problems *problems, const struct ray_cluster *cluster)
{
  static const struct ray_field fields[] = { { "mode", RAY_KIND_STRING },
                                             { "head", RAY_KIND_OBJECT },
                                             { "worker", RAY_KIND_OBJECT },
                                             { "workerGroups", RAY_KIND_OBJECTS } };
  static const char *const modes[] = { "DenyAll", "DenyAllIngress", "DenyAllEgress" };
  const cJSON *policy = json_get (cluster->object, "spec", "networkPolicy"),
              *groups = json_get (policy, "workerGroups");
  const char *mode = json_str (policy, "mode");
  const cJSON *entry;
  int i = 0;

  ray_check_kinds (problems, policy, "spec.networkPolicy", fields, ARRAY_LEN (fields));
  if (mode != NULL && text_index (mode, modes, ARRAY_LEN (modes)) < 0)
    PROBLEM (problems, "spec.networkPolicy.mode", "\"%.100s\" is unknown: use DenyAll, DenyAllIngress or DenyAllEgress",
             mode);
  check_rules (problems, json_get (policy, "head"), mode, "spec.networkPolicy.head");
  check_rules (problems, json_get (policy, "worker"), mode, "spec.networkPolicy.worker");
  if (!ray_is_list (groups))
    return;
  cJSON_ArrayForEach (entry, groups)
    {
      struct ray_path path = ray_path ("spec.networkPolicy.workerGroups[%d]", i++);
      const char *name = json_str (entry, "groupName");
      const struct ray_group *group = ray_cluster_group (cluster, name);

      if (group == NULL || group->is_head)
        PROBLEM (problems, ray_path ("%s.groupName", path.text).text,
                 "\"%.100s\" is no worker group of this RayCluster: name one of spec.workerGroupSpecs",
                 log_nonnull (name));
      check_rules (problems, entry, mode, path.text);
    }
}

/* ---- the rest ---- */

static void
check_upgrade_strategy (struct ray_problems *problems, const struct ray_cluster *cluster)
{
  static const char *const types[] = { "Recreate", "None" };
  const char *type = json_str (cluster->object, "spec", "upgradeStrategy", "type");

  if (type == NULL)
    return;
  if (text_index (type, types, ARRAY_LEN (types)) < 0)
    PROBLEM (problems, "spec.upgradeStrategy.type", "\"%.100s\" is unknown: use Recreate or None", type);
  if (!text_eq (cluster->origin_crd, "RayCluster"))
    PROBLEM (problems, "spec.upgradeStrategy.type", "cannot be set in a RayCluster of a %s: remove it",
             cluster->origin_crd);
}

static void
check_ingress (struct ray_problems *problems, const struct ray_cluster *cluster)
{
  static const struct ray_field fields[] = { { "host", RAY_KIND_STRING },
                                             { "path", RAY_KIND_STRING },
                                             { "pathType", RAY_KIND_STRING },
                                             { "tls", RAY_KIND_OBJECTS } };
  static const char *const types[] = { "Exact", "Prefix", "ImplementationSpecific" };
  const cJSON *options = json_get (cluster->head.spec, "ingressOptions");
  const char *type = json_str (options, "pathType"), *path = json_str (options, "path");

  ray_check_kinds (problems, options, "spec.headGroupSpec.ingressOptions", fields, ARRAY_LEN (fields));
  if (type != NULL && *type != '\0' && text_index (type, types, ARRAY_LEN (types)) < 0)
    PROBLEM (problems, "spec.headGroupSpec.ingressOptions.pathType",
             "\"%.100s\" is unknown: use Exact, Prefix or ImplementationSpecific", type);
  if (path != NULL && *path != '\0' && *path != '/')
    PROBLEM (problems, "spec.headGroupSpec.ingressOptions.path", "\"%.100s\" must begin with /", path);
}

void
ray_validate_options (struct ray_problems *problems, const struct ray_cluster *cluster)
{
  check_fault_tolerance (problems, cluster);
  check_auth (problems, cluster);
  check_network_policy (problems, cluster);
  check_upgrade_strategy (problems, cluster);
  check_ingress (problems, cluster);
}
