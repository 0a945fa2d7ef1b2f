/* Redis cleanup: the decisions and the Job. */
#include "ray/teardown.h"

#include "ray/ray_internal.h"

#define JOB_POLL_MS 2000
#define JOB_DEADLINE_S 300

/* ---- decisions ---- */

static bool
has_finalizer (const struct ray_cluster *cluster)
{
  const cJSON *item;

  cJSON_ArrayForEach (item, json_get (cluster->object, "metadata", "finalizers"))
    if (text_eq (cJSON_GetStringValue (item), RAY_FINALIZER_REDIS))
      return true;
  return false;
}

static bool
wants_cleanup (const struct ray_cluster *cluster, const struct ray_options *options)
{
  enum ray_fault_tolerance kind = ray_fault_tolerance (cluster);

  return options->redis_cleanup && (kind == RAY_FT_REDIS || kind == RAY_FT_REDIS_BY_ANNOTATION);
}

static int64_t
timeout_of (const struct ray_cluster *cluster)
{
  const char *text = json_str (cluster->object, "metadata", "annotations", RAY_ANNOTATION_DELETION_TIMEOUT);
  int64_t seconds;

  return text != NULL && text_to_int (text, 1, INT32_MAX, &seconds) == 0 ? seconds * 1000 : RAY_DELETION_TIMEOUT_MS;
}

static int64_t
sooner (int64_t a, int64_t b)
{
  return a < b ? a : b;
}

/* Pods first: a head that runs would write into Redis what the Job has just removed. A head that should be gone for
 * long does not count any more: its node is dead. */
static struct ray_teardown
next_by_pods (const struct ray_cluster *cluster, const struct ray_observed *observed, int64_t terminating_timeout_ms,
              int64_t now_ms)
{
  struct ray_teardown t = { .step = RAY_TEARDOWN_LOOK_AT_JOB };

  for (size_t i = 0; i < observed->npods; i++)
    {
      const struct ray_pod *pod = observed->pods[i];
      int64_t left = pod->deletion_ms + terminating_timeout_ms - now_ms;

      if (!ray_pod_owned (pod, cluster))
        continue;
      if (pod->deletion_ms == 0)
        return (struct ray_teardown){ .step = RAY_TEARDOWN_DELETE_PODS };
      if (!text_eq (pod->node_type, "head") || left <= 0)
        continue;
      t.step = RAY_TEARDOWN_WAIT;
      t.requeue_ms = t.requeue_ms == 0 ? left : sooner (left, t.requeue_ms);
    }
  return t;
}

static struct ray_teardown
next_by_job (enum ray_job_state job)
{
  static const struct ray_teardown steps[] = {
    [RAY_JOB_UNKNOWN] = { .step = RAY_TEARDOWN_LOOK_AT_JOB },
    [RAY_JOB_ABSENT] = { .step = RAY_TEARDOWN_CREATE_JOB },
    [RAY_JOB_RUNNING] = { .step = RAY_TEARDOWN_WAIT, .requeue_ms = JOB_POLL_MS },
    [RAY_JOB_FINISHED] = { .step = RAY_TEARDOWN_REMOVE_FINALIZER },
    [RAY_JOB_FORBIDDEN] = { .step = RAY_TEARDOWN_REMOVE_FINALIZER,
                            .forced = true,
                            .why = "its namespace is being deleted, in which no Job can be made" },
  };

  return steps[job];
}

struct ray_teardown
ray_teardown_next (const struct ray_cluster *cluster, const struct ray_options *options,
                   const struct ray_observed *observed, enum ray_job_state job, int64_t terminating_timeout_ms,
                   int64_t now_ms)
{
  const char *deleted = json_str (cluster->object, "metadata", "deletionTimestamp");
  bool has = has_finalizer (cluster), wants = wants_cleanup (cluster, options);
  struct ray_teardown t;
  int64_t since, left;

  if (!cluster->deleting)
    return (struct ray_teardown){ .step = wants && !has ? RAY_TEARDOWN_ADD_FINALIZER : RAY_TEARDOWN_NOTHING };
  if (!has)
    return (struct ray_teardown){ .step = RAY_TEARDOWN_NOTHING };
  if (!wants)
    return (struct ray_teardown){ .step = RAY_TEARDOWN_REMOVE_FINALIZER };
  if (clock_parse_rfc3339 (deleted, &since) < 0)
    since = now_ms;
  left = since + timeout_of (cluster) - now_ms;
  if (left <= 0)
    return (struct ray_teardown){ .step = RAY_TEARDOWN_REMOVE_FINALIZER,
                                  .forced = true,
                                  .why = "the cleanup was not done in time (annotation " RAY_ANNOTATION_DELETION_TIMEOUT
                                         ")" };
  t = next_by_pods (cluster, observed, terminating_timeout_ms, now_ms);
  if (t.step == RAY_TEARDOWN_LOOK_AT_JOB)
    t = next_by_job (job);
  t.requeue_ms = t.requeue_ms == 0 ? left : sooner (t.requeue_ms, left);
  return t;
}

/* ---- the Job ---- */

void
ray_redis_cleanup_name (char out[RAY_NAME_SIZE], const struct ray_cluster *cluster)
{
  cleanup_free char *full = xasprintf ("%s-redis-cleanup", cluster->name);

  ray_check_label (out, full);
}

/* Ray's own function, with what the head would connect with. Some versions of it know no username. */
static const char cleanup_script[]
    = "python - <<'EOF'\n"
      "import os, sys\n"
      "from urllib.parse import urlparse\n"
      "from ray._private.gcs_utils import cleanup_redis_storage\n"
      "address = os.environ.get('RAY_REDIS_ADDRESS', '').split(',')[0]\n"
      "url = urlparse(address if '://' in address else 'redis://' + address)\n"
      "options = {\n"
      "    'host': url.hostname,\n"
      "    'port': url.port or 6379,\n"
      "    'password': os.environ.get('REDIS_PASSWORD', url.password or ''),\n"
      "    'use_ssl': url.scheme == 'rediss',\n"
      "    'storage_namespace': os.environ.get('RAY_external_storage_namespace'),\n"
      "}\n"
      "if 'REDIS_USERNAME' in os.environ:\n"
      "    options['username'] = os.environ['REDIS_USERNAME']\n"
      "if not cleanup_redis_storage(**options):\n"
      "    sys.exit('The state of this RayCluster could not be removed from Redis: remove the keys of namespace '\n"
      "             + str(options['storage_namespace']) + ' by hand.')\n"
      "EOF\n";

static void
prepare_container (cJSON *ray, const struct ray_options *options)
{
  static const char *const lists[] = { "requests", "limits" };
  static const char *const useless[] = { "livenessProbe", "readinessProbe", "startupProbe", "ports", "lifecycle" };

  for (size_t i = 0; i < ARRAY_LEN (useless); i++)
    json_drop (ray, useless[i]);
  ray_set_shell (ray, options, cleanup_script);
  ray_env_set (ray, "RAY_redis_db_connect_retries", "120", NULL);
  ray_env_set (ray, "RAY_redis_db_connect_wait_milliseconds", "500", NULL);
  json_drop (ray, "resources");
  for (size_t i = 0; i < ARRAY_LEN (lists); i++)
    {
      cJSON *list = json_obj (json_obj (ray, "resources"), lists[i]);

      json_set_str (list, "cpu", "200m");
      json_set_str (list, "memory", "256Mi");
    }
}

static cJSON *
new_job (const struct ray_cluster *cluster)
{
  char name[RAY_NAME_SIZE];
  cJSON *job = cJSON_CreateObject (), *meta = json_obj (job, "metadata"), *labels, *spec;

  ray_redis_cleanup_name (name, cluster);
  json_set_str (job, "apiVersion", "batch/v1");
  json_set_str (job, "kind", "Job");
  json_set_str (meta, "name", name);
  json_set_str (meta, "namespace", cluster->namespace);
  labels = ray_add_common_labels (job, cluster);
  json_set_str (labels, RAY_LABEL_NODE_TYPE, "redis-cleanup");
  spec = json_obj (job, "spec");
  json_set_int (spec, "backoffLimit", 0);
  json_set_int (spec, "activeDeadlineSeconds", JOB_DEADLINE_S);
  ray_set_owner (job, cluster);
  return job;
}

int
ray_build_redis_cleanup_job (cJSON **job, const struct ray_cluster *cluster, const struct ray_options *options,
                             struct error *err)
{
  struct ray_options plain = *options;
  struct ray_identity nobody = { .name = "redis-cleanup" };
  cleanup_json cJSON *pod = NULL;
  cJSON *template, *meta, *spec, *ray;
  int ret;

  *job = NULL;
  plain.inject_tpu = false;
  plain.probes = false;
  plain.head_sidecars = NULL;
  ret = ray_build_pod (&pod, cluster, &cluster->head, &nobody, &plain, err);
  if (ret < 0)
    return error_wrap (err, ret, "the Redis cleanup Job");
  *job = new_job (cluster);
  template = json_obj (json_get (*job, "spec"), "template");
  meta = json_obj (template, "metadata");
  json_set_copy (meta, "labels", json_get (pod, "metadata", "labels"));
  json_set_str (json_obj (meta, "labels"), RAY_LABEL_NODE_TYPE, "redis-cleanup");
  json_set_copy (meta, "annotations", json_get (pod, "metadata", "annotations"));
  spec = json_set (template, "spec", cJSON_DetachItemFromObjectCaseSensitive (pod, "spec"));
  ray = cJSON_DetachItemFromArray (json_get (spec, "containers"), 0);
  prepare_container (ray, options);
  json_push (json_set (spec, "containers", cJSON_CreateArray ()), ray);
  json_set_str (spec, "restartPolicy", "Never");
  return 0;
}

enum ray_job_state
ray_job_state (const cJSON *job, const struct ray_cluster *cluster)
{
  static const char *const ends[] = { "Complete", "Failed", "FailureTarget" };
  const cJSON *conditions = json_get (job, "status", "conditions");

  if (json_find (json_get (job, "metadata", "ownerReferences"), "uid", cluster->uid) == NULL)
    return RAY_JOB_RUNNING;
  for (size_t i = 0; i < ARRAY_LEN (ends); i++)
    if (text_eq (json_str (json_find (conditions, "type", ends[i]), "status"), "True"))
      return RAY_JOB_FINISHED;
  return RAY_JOB_RUNNING;
}
