/* What a RayCluster asks for beyond plain pods: fault tolerance of the GCS (§1.4, §3.4) and authentication (§1.1). */
#include "ray/ray_internal.h"

#include <stdio.h>

enum ray_fault_tolerance
ray_fault_tolerance (const struct ray_cluster *cluster)
{
  const cJSON *options = json_get (cluster->object, "spec", "gcsFaultToleranceOptions");

  if (cJSON_IsObject (options))
    return text_eq (json_str (options, "backend"), "rocksdb") ? RAY_FT_ROCKSDB : RAY_FT_REDIS;
  if (text_eq_nocase (json_str (cluster->object, "metadata", "annotations", RAY_ANNOTATION_FT_ENABLED), "true"))
    return RAY_FT_REDIS_BY_ANNOTATION;
  return RAY_FT_NONE;
}

const char *
ray_storage_namespace (const struct ray_cluster *cluster)
{
  const char *name = json_str (cluster->object, "spec", "gcsFaultToleranceOptions", "externalStorageNamespace");

  if (name == NULL || *name == '\0')
    name = json_str (cluster->object, "metadata", "annotations", RAY_ANNOTATION_STORAGE_NAMESPACE);
  return name != NULL && *name != '\0' ? name : cluster->uid;
}

void
ray_claim_name (char out[RAY_NAME_SIZE + 16], const struct ray_cluster *cluster)
{
  const char *given = json_str (cluster->object, "spec", "gcsFaultToleranceOptions", "storage", "claimName");

  if (given != NULL && *given != '\0')
    snprintf (out, RAY_NAME_SIZE + 16, "%.*s", RAY_NAME_SIZE - 1, given);
  else
    snprintf (out, RAY_NAME_SIZE + 16, "%.*s-gcs-pvc", RAY_NAME_SIZE - 1, cluster->name);
}

enum ray_auth
ray_auth (const struct ray_cluster *cluster)
{
  const cJSON *options = json_get (cluster->object, "spec", "authOptions");

  if (!text_eq (json_str (options, "mode"), "token"))
    return RAY_AUTH_NONE;
  return json_bool (options, false, "enableK8sTokenAuth") ? RAY_AUTH_K8S_TOKEN : RAY_AUTH_TOKEN;
}

void
ray_token_secret_name (char out[RAY_NAME_SIZE], const struct ray_cluster *cluster)
{
  const char *given = json_str (cluster->object, "spec", "authOptions", "secretName");

  if (given != NULL && *given != '\0')
    snprintf (out, RAY_NAME_SIZE, "%.*s", RAY_NAME_SIZE - 1, given);
  else
    ray_check_name (out, cluster->name);
}

/* Upstream also makes the Secret for `authOptions: {}`, in which nothing uses it (§1.1): not here. */
bool
ray_needs_token_secret (const struct ray_cluster *cluster)
{
  const char *given = json_str (cluster->object, "spec", "authOptions", "secretName");

  return ray_auth (cluster) == RAY_AUTH_TOKEN && (given == NULL || *given == '\0');
}
