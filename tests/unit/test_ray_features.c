/* What features add to pods: fault tolerance, authentication, RayService, the configuration file's defaults. */
#include "test_ray.h"

#include "ray/plan.h"

#define CLUSTER                                                                                                        \
  "metadata: {name: c, namespace: ns, uid: u}\n"                                                                       \
  "spec:\n"                                                                                                            \
  "  rayVersion: 2.55.0\n"                                                                                             \
  "  enableInTreeAutoscaling: true\n"                                                                                  \
  "  headGroupSpec: {template: {spec: {containers: [{name: head, image: i}, {name: other, image: o}]}}}\n"             \
  "  workerGroupSpecs:\n"                                                                                              \
  "  - {groupName: g, replicas: 1, template: {spec: {containers: [{name: w, image: i}]}}}\n"

#define ADD(path, value) "{\"op\":\"add\",\"path\":\"" path "\",\"value\":" value "}"
#define ONE(path, value) "[" ADD (path, value) "]"
#define HEAD "/spec/headGroupSpec"
#define FTO "/spec/gcsFaultToleranceOptions"

/* An environment entry, without its name, as JSON. */
static char *
env_text (const cJSON *container, const char *name)
{
  cleanup_json cJSON *copy = cJSON_Duplicate (env_entry (container, name), true);

  json_drop (copy, "name");
  return json_print (copy);
}

#define WORKER true
#define NONE "null"

static void
test_environment (void **state)
{
  static const struct
  {
    const char *patch;
    bool worker;
    const char *name, *entry;
  } rows[] = {
    { "[]", false, "RAY_external_storage_namespace", NONE },
    { "[]", WORKER, "RAY_gcs_rpc_server_reconnect_timeout_s", NONE },
    { ONE (FTO, "{\"redisAddress\":\"r:1\"}"), false, "RAY_REDIS_ADDRESS", "{\"value\":\"r:1\"}" },
    { ONE (FTO, "{\"redisAddress\":\"r:1\"}"), false, "RAY_external_storage_namespace", "{\"value\":\"u\"}" },
    { ONE (FTO, "{\"redisAddress\":\"r:1\",\"externalStorageNamespace\":\"n\"}"), false,
      "RAY_external_storage_namespace", "{\"value\":\"n\"}" },
    { ONE (FTO, "{\"redisAddress\":\"r:1\",\"redisUsername\":{\"value\":\"me\"}}"), false, "REDIS_USERNAME",
      "{\"value\":\"me\"}" },
    { ONE (FTO, "{\"redisAddress\":\"r:1\",\"redisPassword\":{\"valueFrom\":{\"secretKeyRef\":{\"name\":\"s\",\"key\":"
                "\"k\"}}}}"),
      false, "REDIS_PASSWORD", "{\"valueFrom\":{\"secretKeyRef\":{\"name\":\"s\",\"key\":\"k\"}}}" },
    { ONE (FTO, "{\"redisAddress\":\"r:1\"}"), WORKER, "RAY_gcs_rpc_server_reconnect_timeout_s",
      "{\"value\":\"600\"}" },
    { ONE (FTO, "{\"redisAddress\":\"r:1\"}"), WORKER, "RAY_REDIS_ADDRESS", NONE },
    { "[" ADD (FTO, "{\"redisAddress\":\"r:1\"}") "," ADD (
          "/spec/workerGroupSpecs/0/template/spec/containers/0/env",
          "[{\"name\":\"RAY_gcs_rpc_server_reconnect_timeout_s\",\"value\":\"60\"}]") "]",
      WORKER, "RAY_gcs_rpc_server_reconnect_timeout_s", "{\"value\":\"60\"}" },
    { ONE ("/metadata/annotations", "{\"ray.io/ft-enabled\":\"true\",\"ray.io/external-storage-namespace\":\"a\"}"),
      false, "RAY_external_storage_namespace", "{\"value\":\"a\"}" },
    { "[" ADD ("/metadata/annotations", "{\"ray.io/ft-enabled\":\"true\"}") "," ADD (HEAD "/rayStartParams",
                                                                                     "{\"redis-password\":\"p\"}") "]",
      false, "REDIS_PASSWORD", "{\"value\":\"p\"}" },
    { ONE (FTO, "{\"backend\":\"rocksdb\"}"), false, "RAY_gcs_storage", "{\"value\":\"rocksdb\"}" },
    { ONE (FTO, "{\"backend\":\"rocksdb\"}"), false, "RAY_gcs_storage_path", "{\"value\":\"/data/gcs\"}" },
    { ONE (FTO, "{\"backend\":\"rocksdb\"}"), false, "RAY_external_storage_namespace", NONE },
    { ONE ("/spec/authOptions", "{\"mode\":\"token\"}"), false, "RAY_AUTH_MODE", "{\"value\":\"token\"}" },
    { ONE ("/spec/authOptions", "{\"mode\":\"token\"}"), WORKER, "RAY_AUTH_TOKEN",
      "{\"valueFrom\":{\"secretKeyRef\":{\"name\":\"c\",\"key\":\"auth_token\"}}}" },
    { ONE ("/spec/authOptions", "{\"mode\":\"token\",\"secretName\":\"mine\"}"), false, "RAY_AUTH_TOKEN",
      "{\"valueFrom\":{\"secretKeyRef\":{\"name\":\"mine\",\"key\":\"auth_token\"}}}" },
    { ONE ("/spec/authOptions", "{\"mode\":\"token\",\"enableK8sTokenAuth\":true}"), WORKER,
      "RAY_ENABLE_K8S_TOKEN_AUTH", "{\"value\":\"true\"}" },
    { ONE ("/spec/authOptions", "{\"mode\":\"token\",\"enableK8sTokenAuth\":true}"), WORKER, "RAY_AUTH_TOKEN", NONE },
    { ONE ("/spec/authOptions", "{\"mode\":\"disabled\"}"), false, "RAY_AUTH_MODE", NONE },
    { ONE ("/spec/authOptions", "{}"), false, "RAY_AUTH_MODE", NONE },
  };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (rows); i++)
    {
      cleanup_scene struct scene s = scene_patched (CLUSTER, rows[i].patch);
      cleanup_json cJSON *pod = rows[i].worker ? build_worker (&s, 0, 0) : build_head (&s);
      cleanup_free char *entry = env_entry (ray_container_of (pod), rows[i].name) != NULL
                                     ? env_text (ray_container_of (pod), rows[i].name)
                                     : xstrdup (NONE);

      if (strcmp (entry, rows[i].entry) != 0)
        fail_msg ("%s: %s is %s", rows[i].patch, rows[i].name, entry);
    }
}

static void
test_annotations_of_the_head (void **state)
{
  static const struct
  {
    const char *patch, *enabled, *storage;
  } rows[] = {
    { "[]", "false", NULL },
    { ONE (FTO, "{\"redisAddress\":\"r\"}"), "true", "u" },
    { ONE (FTO, "{\"redisAddress\":\"r\",\"externalStorageNamespace\":\"n\"}"), "true", "n" },
    { ONE (FTO, "{\"backend\":\"rocksdb\"}"), "true", NULL },
    { ONE ("/metadata/annotations", "{\"ray.io/ft-enabled\":\"true\"}"), "true", "u" },
    { ONE ("/metadata/annotations", "{\"ray.io/ft-enabled\":\"false\"}"), "false", NULL },
  };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (rows); i++)
    {
      cleanup_scene struct scene s = scene_patched (CLUSTER, rows[i].patch);
      cleanup_json cJSON *head = build_head (&s), *worker = build_worker (&s, 0, 0);
      const cJSON *annotations = json_get (head, "metadata", "annotations");
      char hash[RAY_RECREATE_HASH_SIZE];

      ray_recreate_hash (hash, &s.cluster);
      assert_string_equal (json_str (annotations, "ray.io/ft-enabled"), rows[i].enabled);
      assert_true (text_eq (json_str (annotations, "ray.io/external-storage-namespace"), rows[i].storage));
      assert_string_equal (json_str (annotations, "ray.io/upgrade-strategy-recreate-hash"), hash);
      assert_null (other_annotations (worker));
    }
}

static void
test_redis_credentials_reach_the_start_line (void **state)
{
  cleanup_scene struct scene s
      = scene_patched (CLUSTER, ONE (FTO, "{\"redisAddress\":\"r\",\"redisUsername\":{\"value\":\"m\"},"
                                          "\"redisPassword\":{\"value\":\"p\"}}"));
  cleanup_free char *head = ray_start_command (&s.cluster, &s.cluster.head, &ray_default_options);
  cleanup_free char *worker = ray_start_command (&s.cluster, &s.cluster.groups[0], &ray_default_options);

  (void) state;
  assert_non_null (strstr (head, " --redis-password=$REDIS_PASSWORD  --redis-username=$REDIS_USERNAME "));
  assert_null (strstr (worker, "redis"));
}

static void
test_rocksdb_volume (void **state)
{
  cleanup_scene struct scene s
      = scene_patched (CLUSTER, ONE (FTO, "{\"backend\":\"rocksdb\",\"storage\":{\"subPath\":\"a\"}}"));
  cleanup_json cJSON *head = build_head (&s), *worker = build_worker (&s, 0, 0);

  (void) state;
  assert_json_text (json_find (json_get (head, "spec", "volumes"), "name", "gcs-storage"),
                    "{\"name\":\"gcs-storage\",\"persistentVolumeClaim\":{\"claimName\":\"c-gcs-pvc\"}}");
  assert_json_text (json_find (json_get (ray_container_of (head), "volumeMounts"), "name", "gcs-storage"),
                    "{\"name\":\"gcs-storage\",\"mountPath\":\"/data/gcs\",\"subPath\":\"a\"}");
  assert_null (json_find (json_get (worker, "spec", "volumes"), "name", "gcs-storage"));
}

/* Ray, the autoscaler and wait-gcs-ready authenticate; containers of the user do not. */
static void
test_who_authenticates (void **state)
{
  cleanup_scene struct scene s
      = scene_patched (CLUSTER, ONE ("/spec/authOptions", "{\"mode\":\"token\",\"enableK8sTokenAuth\":true}"));
  cleanup_json cJSON *head = build_head (&s), *worker = build_worker (&s, 0, 0);
  const cJSON *containers = json_get (head, "spec", "containers");
  const cJSON *wait = json_find (json_get (worker, "spec", "initContainers"), "name", "wait-gcs-ready");

  (void) state;
  assert_string_equal (env_value (json_find (containers, "name", "autoscaler"), "RAY_AUTH_MODE"), "token");
  assert_string_equal (env_value (wait, "RAY_ENABLE_K8S_TOKEN_AUTH"), "true");
  assert_null (env_entry (json_find (containers, "name", "other"), "RAY_AUTH_MODE"));
  assert_json_text (
      json_find (json_get (wait, "volumeMounts"), "name", "ray-token"),
      "{\"name\":\"ray-token\",\"mountPath\":\"/var/run/secrets/ray.io/serviceaccount\",\"readOnly\":true}");
  assert_json_text (json_find (json_get (worker, "spec", "volumes"), "name", "ray-token"),
                    "{\"name\":\"ray-token\",\"projected\":{\"sources\":[{\"serviceAccountToken\":{\"path\":"
                    "\"token\"}}]}}");
}

static void
test_serve_label (void **state)
{
  cleanup_scene struct scene plain = scene_yaml (CLUSTER);
  cleanup_scene struct scene s
      = scene_patched (CLUSTER, ONE ("/metadata/labels", "{\"ray.io/originated-from-crd\":\"RayService\"}"));
  cleanup_json cJSON *head = build_head (&s), *worker = build_worker (&s, 0, 0), *other = build_worker (&plain, 0, 0);

  (void) state;
  assert_string_equal (json_str (head, "metadata", "labels", "ray.io/serve"), "false");
  assert_string_equal (json_str (worker, "metadata", "labels", "ray.io/serve"), "true");
  assert_null (json_get (other, "metadata", "labels", "ray.io/serve"));
}

static void
test_user_account_is_taken_as_it_is (void **state)
{
#define LONG "a23456789012345678901234567890123456789012345678901234567890"
  cleanup_scene struct scene s
      = scene_patched (CLUSTER, ONE (HEAD "/template/spec/serviceAccountName", "\"" LONG "\""));
  cleanup_json cJSON *head = build_head (&s);

  (void) state;
  assert_string_equal (json_str (head, "spec", "serviceAccountName"), LONG);
}

/* ---- the configuration file ---- */

static void
test_configured_defaults (void **state)
{
  cleanup_scene struct scene s = scene_patched (
      CLUSTER, "[" ADD (HEAD "/template/spec/containers/0/env", "[{\"name\":\"A\",\"value\":\"mine\"}]") "]");
  cleanup_json cJSON *config = yaml_one ("env: [{name: A, value: a}, {name: B, value: b}]\n"
                                         "labels: {ray.io/cluster: x, team: t}\n"
                                         "annotations: {ray.io/ft-enabled: x, note: hi}\n"
                                         "head: [{name: h, image: s}, {name: other, image: s}]\n"
                                         "worker: [{name: k, image: s}]\n");
  struct ray_options options = ray_default_options;
  cleanup_json cJSON *head = NULL, *worker = NULL;

  (void) state;
  options.default_env = json_get (config, "env");
  options.default_labels = json_get (config, "labels");
  options.default_annotations = json_get (config, "annotations");
  options.head_sidecars = json_get (config, "head");
  options.worker_sidecars = json_get (config, "worker");
  head = build_with (&s, &s.cluster.head, 0, 0, &options);
  worker = build_with (&s, &s.cluster.groups[0], 0, 0, &options);
  assert_string_equal (env_value (ray_container_of (head), "A"), "mine");
  assert_string_equal (env_value (ray_container_of (head), "B"), "b");
  assert_string_equal (env_value (ray_container_of (worker), "A"), "a");
  assert_string_equal (json_str (head, "metadata", "labels", "ray.io/cluster"), "c");
  assert_string_equal (json_str (worker, "metadata", "labels", "team"), "t");
  assert_string_equal (json_str (head, "metadata", "annotations", "ray.io/ft-enabled"), "false");
  assert_string_equal (json_str (worker, "metadata", "annotations", "note"), "hi");
  assert_string_equal (json_str (json_find (json_get (head, "spec", "containers"), "name", "h"), "image"), "s");
  assert_string_equal (json_str (json_find (json_get (head, "spec", "containers"), "name", "other"), "image"), "o");
  assert_non_null (json_find (json_get (worker, "spec", "containers"), "name", "k"));
}

/* ---- the hash of upgradeStrategy Recreate ---- */

static void
test_recreate_hash (void **state)
{
  static const struct
  {
    const char *patch;
    bool same;
  } rows[] = {
    { ONE ("/spec/workerGroupSpecs/0/replicas", "5"), true },
    { ONE ("/spec/workerGroupSpecs/0/minReplicas", "0"), true },
    { ONE ("/spec/workerGroupSpecs/0/scaleStrategy", "{\"workersToDelete\":[\"a\"]}"), true },
    { ONE (HEAD "/template/spec/tolerations", "[{}]"), true },
    { ONE ("/spec/upgradeStrategy", "{\"type\":\"Recreate\"}"), true },
    { ONE ("/spec/suspend", "true"), true },
    { ONE ("/metadata/labels", "{\"a\":\"b\"}"), true },
    { ONE (HEAD "/template/spec/containers/0/env", "null"), true },
    { ONE (HEAD "/template/spec/containers/0/image", "\"j\""), false },
    { ONE (HEAD "/template/spec/nodeSelector", "{\"a\":\"b\"}"), false },
    { ONE ("/spec/workerGroupSpecs/0/numOfHosts", "2"), false },
    { ONE ("/spec/rayVersion", "\"2.56.0\""), false },
  };
  cleanup_scene struct scene plain = scene_yaml (CLUSTER);
  char expected[RAY_RECREATE_HASH_SIZE];

  (void) state;
  ray_recreate_hash (expected, &plain.cluster);
  /* Stable for ever: an upgrade of the operator that changed it would restart everybody's pods. */
  assert_string_equal (expected, "rto1-54a1644a89272206");
  for (size_t i = 0; i < ARRAY_LEN (rows); i++)
    {
      cleanup_scene struct scene s = scene_patched (CLUSTER, rows[i].patch);
      char hash[RAY_RECREATE_HASH_SIZE];

      ray_recreate_hash (hash, &s.cluster);
      if ((strcmp (hash, expected) == 0) != rows[i].same)
        fail_msg ("%s: %s", rows[i].patch, hash);
    }
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_environment),
    cmocka_unit_test (test_annotations_of_the_head),
    cmocka_unit_test (test_redis_credentials_reach_the_start_line),
    cmocka_unit_test (test_rocksdb_volume),
    cmocka_unit_test (test_who_authenticates),
    cmocka_unit_test (test_serve_label),
    cmocka_unit_test (test_user_account_is_taken_as_it_is),
    cmocka_unit_test (test_configured_defaults),
    cmocka_unit_test (test_recreate_hash),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
