/* The end of a cluster with state in Redis (§2.2): what happens next, and the Job. */
#include "test_ray.h"

#include "ray/teardown.h"

#define DELETED_AT "2026-01-01T00:00:00Z"
#define DELETED_MS INT64_C (1767225600000)
#define GRACE_MS 30000

#define CLUSTER                                                                                                        \
  "metadata: {name: c, namespace: ns, uid: u, finalizers: [" RAY_FINALIZER_REDIS "], deletionTimestamp: '" DELETED_AT  \
  "'}\n"                                                                                                               \
  "spec:\n"                                                                                                            \
  "  rayVersion: 2.53.0\n"                                                                                             \
  "  enableInTreeAutoscaling: true\n"                                                                                  \
  "  gcsFaultToleranceOptions: {redisAddress: 'r:1', redisUsername: {value: me}}\n"                                    \
  "  headGroupSpec: {template: {spec: {initContainers: [{name: i, image: i}], containers: [{name: head, image: im,"    \
  " resources: {limits: {cpu: '4', memory: 8Gi}}}]}}}\n"

#define ADD(path, value) "{\"op\":\"add\",\"path\":\"" path "\",\"value\":" value "}"
#define REMOVE(path) "{\"op\":\"remove\",\"path\":\"" path "\"}"

/* One pod a row: none, a live or a terminating head or worker. */
enum pods
{
  NO_PODS,
  LIVE_HEAD,
  LIVE_WORKER,
  ENDING_HEAD,
  ENDING_WORKER,
  FOREIGN_HEAD,
};

static struct ray_pod
make_pod (enum pods pods)
{
  bool ending = pods == ENDING_HEAD || pods == ENDING_WORKER;

  return (struct ray_pod){
    .name = "p",
    .node_type = pods == LIVE_WORKER || pods == ENDING_WORKER ? "worker" : "head",
    .owner_uid = pods == FOREIGN_HEAD ? "x" : "u",
    .group = "",
    .deletion_ms = ending ? DELETED_MS + GRACE_MS : 0,
  };
}

static const struct row
{
  const char *name, *patch;
  enum pods pods;
  enum ray_job_state job;
  int64_t at_s; /* after the deletion */
  enum ray_teardown_step step;
  bool forced;
  int64_t requeue_ms;
} rows[] = {
  { "alive without finalizer", "[" REMOVE ("/metadata/deletionTimestamp") "," REMOVE ("/metadata/finalizers") "]",
    LIVE_HEAD, RAY_JOB_UNKNOWN, 0, RAY_TEARDOWN_ADD_FINALIZER, false, 0 },
  { "alive with it", "[" REMOVE ("/metadata/deletionTimestamp") "]", LIVE_HEAD, RAY_JOB_UNKNOWN, 0,
    RAY_TEARDOWN_NOTHING, false, 0 },
  { "alive, no Redis",
    "[" REMOVE ("/metadata/deletionTimestamp") "," REMOVE ("/metadata/finalizers") "," REMOVE (
        "/spec/gcsFaultToleranceOptions") "]",
    LIVE_HEAD, RAY_JOB_UNKNOWN, 0, RAY_TEARDOWN_NOTHING, false, 0 },
  { "alive, Redis by annotation",
    "[" REMOVE ("/metadata/deletionTimestamp") "," REMOVE ("/metadata/finalizers") "," REMOVE (
        "/spec/gcsFaultToleranceOptions") "," ADD ("/metadata/annotations", "{\"ray.io/ft-enabled\":\"true\"}") "]",
    LIVE_HEAD, RAY_JOB_UNKNOWN, 0, RAY_TEARDOWN_ADD_FINALIZER, false, 0 },
  { "deleted without finalizer", "[" REMOVE ("/metadata/finalizers") "]", LIVE_HEAD, RAY_JOB_UNKNOWN, 0,
    RAY_TEARDOWN_NOTHING, false, 0 },
  { "deleted, rocksdb by now", "[" ADD ("/spec/gcsFaultToleranceOptions", "{\"backend\":\"rocksdb\"}") "]", LIVE_HEAD,
    RAY_JOB_UNKNOWN, 0, RAY_TEARDOWN_REMOVE_FINALIZER, false, 0 },
  { "deleted, no fault tolerance by now", "[" REMOVE ("/spec/gcsFaultToleranceOptions") "]", LIVE_HEAD, RAY_JOB_UNKNOWN,
    0, RAY_TEARDOWN_REMOVE_FINALIZER, false, 0 },
  { "head lives", "[]", LIVE_HEAD, RAY_JOB_UNKNOWN, 0, RAY_TEARDOWN_DELETE_PODS, false, 300000 },
  { "worker lives", "[]", LIVE_WORKER, RAY_JOB_UNKNOWN, 0, RAY_TEARDOWN_DELETE_PODS, false, 300000 },
  { "somebody else's pod", "[]", FOREIGN_HEAD, RAY_JOB_ABSENT, 0, RAY_TEARDOWN_CREATE_JOB, false, 300000 },
  { "head ends", "[]", ENDING_HEAD, RAY_JOB_UNKNOWN, 10, RAY_TEARDOWN_WAIT, false, 50000 },
  { "kuberay#4767: head stuck on a dead node", "[]", ENDING_HEAD, RAY_JOB_ABSENT, 60, RAY_TEARDOWN_CREATE_JOB, false,
    240000 },
  { "worker ends", "[]", ENDING_WORKER, RAY_JOB_ABSENT, 10, RAY_TEARDOWN_CREATE_JOB, false, 290000 },
  { "Job not looked at", "[]", NO_PODS, RAY_JOB_UNKNOWN, 10, RAY_TEARDOWN_LOOK_AT_JOB, false, 290000 },
  { "no Job", "[]", NO_PODS, RAY_JOB_ABSENT, 10, RAY_TEARDOWN_CREATE_JOB, false, 290000 },
  { "Job runs", "[]", NO_PODS, RAY_JOB_RUNNING, 10, RAY_TEARDOWN_WAIT, false, 2000 },
  { "Job done", "[]", NO_PODS, RAY_JOB_FINISHED, 10, RAY_TEARDOWN_REMOVE_FINALIZER, false, 290000 },
  { "kuberay#3388: the namespace ends", "[]", NO_PODS, RAY_JOB_FORBIDDEN, 10, RAY_TEARDOWN_REMOVE_FINALIZER, true,
    290000 },
  { "time is up", "[]", NO_PODS, RAY_JOB_RUNNING, 300, RAY_TEARDOWN_REMOVE_FINALIZER, true, 0 },
  { "time is up, whatever the head does", "[]", LIVE_HEAD, RAY_JOB_UNKNOWN, 300, RAY_TEARDOWN_REMOVE_FINALIZER, true,
    0 },
  { "a time of the user's",
    "[" ADD ("/metadata/annotations", "{\""
                                      "ray.io/gcs-ft-deletion-timeout"
                                      "\":\"20\"}") "]",
    NO_PODS, RAY_JOB_RUNNING, 20, RAY_TEARDOWN_REMOVE_FINALIZER, true, 0 },
  { "a senseless time counts as none",
    "[" ADD ("/metadata/annotations", "{\""
                                      "ray.io/gcs-ft-deletion-timeout"
                                      "\":\"-1\"}") "]",
    NO_PODS, RAY_JOB_RUNNING, 20, RAY_TEARDOWN_WAIT, false, 2000 },
};

static void
test_each_step (void **state)
{
  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (rows); i++)
    {
      cleanup_scene struct scene s = scene_patched (CLUSTER, rows[i].patch);
      struct ray_pod pod = make_pod (rows[i].pods);
      const struct ray_pod *pods[] = { &pod };
      struct ray_observed observed = { .pods = pods, .npods = rows[i].pods != NO_PODS };
      struct ray_teardown t = ray_teardown_next (&s.cluster, &ray_default_options, &observed, rows[i].job, GRACE_MS,
                                                 DELETED_MS + rows[i].at_s * 1000);

      if (t.step != rows[i].step || t.forced != rows[i].forced || t.requeue_ms != rows[i].requeue_ms)
        fail_msg ("%s: step %d forced %d requeue %d", rows[i].name, (int) t.step, (int) t.forced, (int) t.requeue_ms);
      assert_int_equal (t.why != NULL, t.forced);
    }
}

static void
test_switched_off (void **state)
{
  cleanup_scene struct scene s = scene_yaml (CLUSTER);
  struct ray_options options = ray_default_options;
  struct ray_observed nothing = { 0 };
  struct ray_teardown t;

  (void) state;
  options.redis_cleanup = false;
  t = ray_teardown_next (&s.cluster, &options, &nothing, RAY_JOB_UNKNOWN, GRACE_MS, DELETED_MS);
  assert_int_equal (t.step, RAY_TEARDOWN_REMOVE_FINALIZER);
  assert_false (t.forced);
}

static void
test_job (void **state)
{
  cleanup_scene struct scene s = scene_yaml (CLUSTER);
  cleanup_json cJSON *job = NULL;
  const cJSON *template, *container;
  struct error err = { "" };

  (void) state;
  assert_int_equal (ray_build_redis_cleanup_job (&job, &s.cluster, &ray_default_options, &err), 0);
  assert_no_nulls (job);
  assert_string_equal (json_str (job, "metadata", "name"), "c-redis-cleanup");
  assert_string_equal (json_str (job, "metadata", "labels", "ray.io/node-type"), "redis-cleanup");
  assert_string_equal (json_str (job, "metadata", "labels", "ray.io/cluster"), "c");
  assert_int_equal (json_int (job, -1, "spec", "backoffLimit"), 0);
  assert_int_equal (json_int (job, -1, "spec", "activeDeadlineSeconds"), 300);
  assert_string_equal (json_str (cJSON_GetArrayItem (json_get (job, "metadata", "ownerReferences"), 0), "uid"), "u");
  template = json_get (job, "spec", "template");
  assert_null (json_get (template, "metadata", "name"));
  assert_string_equal (json_str (template, "metadata", "labels", "ray.io/node-type"), "redis-cleanup");
  assert_string_equal (json_str (template, "spec", "restartPolicy"), "Never");
  assert_int_equal (cJSON_GetArraySize (json_get (template, "spec", "containers")), 1);
  assert_int_equal (cJSON_GetArraySize (json_get (template, "spec", "initContainers")), 1);
  container = ray_container_of (template);
  assert_string_equal (json_str (container, "image"), "im");
  assert_non_null (strstr (only_arg (container), "cleanup_redis_storage"));
  assert_null (json_get (container, "livenessProbe"));
  assert_null (json_get (container, "readinessProbe"));
  assert_json_text (json_get (container, "resources"),
                    "{\"requests\":{\"cpu\":\"200m\",\"memory\":\"256Mi\"},\"limits\":{\"cpu\":\"200m\",\"memory\":"
                    "\"256Mi\"}}");
  assert_string_equal (env_value (container, "RAY_REDIS_ADDRESS"), "r:1");
  assert_string_equal (env_value (container, "REDIS_USERNAME"), "me");
  assert_string_equal (env_value (container, "RAY_external_storage_namespace"), "u");
  assert_string_equal (env_value (container, "RAY_redis_db_connect_retries"), "120");
  assert_string_equal (env_value (container, "RAY_redis_db_connect_wait_milliseconds"), "500");
}

static void
test_job_name_fits_a_label (void **state)
{
  cleanup_scene struct scene s
      = scene_yaml ("metadata: {name: a2345678901234567890123456789012345678901234567890123}\nspec: {}\n");
  char name[RAY_NAME_SIZE];

  (void) state;
  ray_redis_cleanup_name (name, &s.cluster);
  assert_int_equal (strlen (name), 63);
  assert_true (text_ends_with (name, "-redis-cleanup"));
}

#define OURS "metadata: {ownerReferences: [{uid: ours}]}\n"

static void
test_job_states (void **state)
{
  static const struct
  {
    const char *job;
    enum ray_job_state expected;
  } cases[] = {
    { OURS, RAY_JOB_RUNNING },
    { OURS "status: {active: 1}", RAY_JOB_RUNNING },
    { OURS "status: {conditions: [{type: Complete, status: 'False'}]}", RAY_JOB_RUNNING },
    { OURS "status: {conditions: [{type: Suspended, status: 'False'}, {type: Complete, status: 'True'}]}",
      RAY_JOB_FINISHED },
    { OURS "status: {conditions: [{type: Failed, status: 'True'}]}", RAY_JOB_FINISHED },
    { OURS "status: {conditions: [{type: FailureTarget, status: 'True'}]}", RAY_JOB_FINISHED },
    /* Of the cluster that had the name before, and of nobody. */
    { "metadata: {ownerReferences: [{uid: earlier}]}\nstatus: {conditions: [{type: Complete, status: 'True'}]}",
      RAY_JOB_RUNNING },
    { "status: {conditions: [{type: Complete, status: 'True'}]}", RAY_JOB_RUNNING },
  };
  struct ray_cluster cluster = { .uid = "ours" };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (cases); i++)
    {
      cleanup_json cJSON *job = yaml_one (cases[i].job);

      if (ray_job_state (job, &cluster) != cases[i].expected)
        fail_msg ("%s", cases[i].job);
    }
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_each_step),  cmocka_unit_test (test_switched_off),
    cmocka_unit_test (test_job),        cmocka_unit_test (test_job_name_fits_a_label),
    cmocka_unit_test (test_job_states),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
