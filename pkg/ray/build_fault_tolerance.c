/* What lets the GCS survive its pod (§1.4, §3.4): Redis outside, or RocksDB on a volume. A user's own variable wins. */
#include "ray/ray_internal.h"

#define GCS_VOLUME "gcs-storage"
#define GCS_PATH "/data/gcs"

/* How long a worker waits for a new head before it gives up: upstream's 600 s. */
static void
patient_worker (struct pod_build *b)
{
  ray_env_default (b->ray, "RAY_gcs_rpc_server_reconnect_timeout_s", "600");
}

/* A {value} or {valueFrom} of the options as a variable. */
static void
credential (struct pod_build *b, const char *name, const cJSON *given)
{
  cJSON *entry;

  if (!cJSON_IsObject (given) || ray_env_has (b->ray, name))
    return;
  entry = json_push_obj (json_arr (b->ray, "env"));
  json_set_str (entry, "name", name);
  if (json_get (given, "valueFrom") != NULL)
    json_set_copy (entry, "valueFrom", json_get (given, "valueFrom"));
  else
    json_set_copy (entry, "value", json_get (given, "value"));
}

static void
add_redis (struct pod_build *b, const cJSON *options)
{
  const char *address = json_str (options, "redisAddress");

  if (address != NULL && *address != '\0')
    ray_env_default (b->ray, "RAY_REDIS_ADDRESS", address);
  credential (b, "REDIS_USERNAME", json_get (options, "redisUsername"));
  credential (b, "REDIS_PASSWORD", json_get (options, "redisPassword"));
}

/* A password written into the start parameters must reach the cleanup Job too, which has only the environment. */
static void
add_redis_by_annotation (struct pod_build *b)
{
  const char *password = json_str (b->params, "redis-password");

  if (password != NULL)
    ray_env_default (b->ray, "REDIS_PASSWORD", password);
}

static void
add_rocksdb (struct pod_build *b, const cJSON *options)
{
  char claim[RAY_NAME_SIZE + 16];
  cJSON *mount, *volume;

  ray_claim_name (claim, b->cluster);
  ray_env_default (b->ray, "RAY_gcs_storage", "rocksdb");
  ray_env_default (b->ray, "RAY_gcs_storage_path", GCS_PATH);
  mount = json_push_obj (json_arr (b->ray, "volumeMounts"));
  json_set_str (mount, "name", GCS_VOLUME);
  json_set_str (mount, "mountPath", GCS_PATH);
  json_set_str (mount, "subPath", json_str (options, "storage", "subPath"));
  volume = json_push_obj (json_arr (b->spec, "volumes"));
  json_set_str (volume, "name", GCS_VOLUME);
  json_set_str (json_obj (volume, "persistentVolumeClaim"), "claimName", claim);
}

void
ray_add_fault_tolerance (struct pod_build *b)
{
  const cJSON *options = json_get (b->cluster->object, "spec", "gcsFaultToleranceOptions");
  enum ray_fault_tolerance kind = ray_fault_tolerance (b->cluster);

  if (kind == RAY_FT_NONE)
    return;
  if (!b->group->is_head)
    patient_worker (b);
  else if (kind == RAY_FT_ROCKSDB)
    add_rocksdb (b, options);
  else
    {
      json_set_str (json_obj (b->meta, "annotations"), RAY_ANNOTATION_STORAGE_NAMESPACE,
                    ray_storage_namespace (b->cluster));
      ray_env_default (b->ray, "RAY_external_storage_namespace", ray_storage_namespace (b->cluster));
      if (kind == RAY_FT_REDIS)
        add_redis (b, options);
      else
        add_redis_by_annotation (b);
    }
}
