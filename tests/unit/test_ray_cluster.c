/* Names (§0.2) and what a RayCluster decodes to (§2.5). */
#include "test_ray.h"

static void
test_pod_name_prefixes (void **state)
{
  static const struct
  {
    const char *cluster, *group; /* NULL group: the head */
    const char *prefix;
  } rows[] = {
    { "ray-cluster-0000000000000000000000011111111122222233333333333333", "group-name",
      "ray-cluster-00000000000000000000000111111111222222-worker-" },
    { "ray-cluster-0000000000000000000000011111111122222233333333333333", NULL,
      "ray-cluster-00000000000000000000000111111111222222-head-" },
    { "ray-torchtpu-cluster", "v6e-16", "ray-torchtpu-cluster-v6e-16-worker-" },
    { "ray-torchtpu-cluster", NULL, "ray-torchtpu-cluster-head-" },
    { "Upper", "GROUP", "upper-group-worker-" },
  };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (rows); i++)
    {
      struct ray_cluster cluster = { .name = rows[i].cluster };
      struct ray_group group = { .name = rows[i].group, .is_head = rows[i].group == NULL };
      char prefix[RAY_NAME_SIZE];

      ray_pod_name_prefix (prefix, &cluster, &group);
      assert_string_equal (prefix, rows[i].prefix);
    }
}

static void
test_shortened_names (void **state)
{
  static const struct
  {
    void (*shorten) (char out[RAY_NAME_SIZE], const char *text);
    const char *text, *expected;
  } rows[] = {
    { ray_check_name, "raycluster", "raycluster" },
    { ray_check_name, "1cluster", "rcluster" },
    { ray_check_name, "-cluster", "rcluster" },
    { ray_check_name, "72fbcc7e-a661-4b18-ca41-e903-fc3ae634b18e-lazer090scholar-director-s",
      "rca41-e903-fc3ae634b18e-lazer090scholar-director-s" },
    { ray_check_name, "aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffff",
      "bbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffff" },
    { ray_check_name, "a0bbbbbbbbbbccccccccccddddddddddeeeeeeeeeefffffffff",
      "rbbbbbbbbbbccccccccccddddddddddeeeeeeeeeefffffffff" },
    { ray_check_name, "", "" },
    { ray_check_label, "1cluster-head", "1cluster-head" },
    { ray_check_label, "aaaaa-bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb-worker",
      "rbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb-worker" },
  };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (rows); i++)
    {
      char name[RAY_NAME_SIZE];

      rows[i].shorten (name, rows[i].text);
      assert_string_equal (name, rows[i].expected);
    }
}

static void
test_suffix_is_stable_and_safe (void **state)
{
  char a[RAY_SUFFIX_SIZE], b[RAY_SUFFIX_SIZE];

  (void) state;
  for (uint64_t h = 0; h < 1000; h++)
    {
      ray_suffix (a, text_hash (h, "x", 1));
      ray_suffix (b, text_hash (h, "x", 1));
      assert_string_equal (a, b);
      assert_int_equal (strspn (a, "bcdfghjklmnpqrstvwxz2456789"), RAY_SUFFIX_SIZE - 1);
      assert_int_equal (a[RAY_SUFFIX_SIZE - 1], 0);
    }
  ray_suffix (a, 0);
  ray_suffix (b, 1);
  assert_string_equal (a, "bbbbb");
  assert_string_not_equal (a, b);
}

static void
test_service_names (void **state)
{
  cleanup_scene struct scene plain = scene_yaml ("metadata: {name: c, namespace: ns}");
  cleanup_scene struct scene custom
      = scene_yaml ("metadata: {name: c}\nspec: {headGroupSpec: {headService: {metadata: {name: mine}}}}");
  char name[RAY_NAME_SIZE], fqdn[RAY_NAME_SIZE * 2];
  struct ray_options options = ray_default_options;

  (void) state;
  ray_head_service_name (name, &plain.cluster);
  assert_string_equal (name, "c-head-svc");
  ray_headless_service_name (name, &plain.cluster);
  assert_string_equal (name, "c-headless");
  ray_head_service_name (name, &custom.cluster);
  assert_string_equal (name, "mine");
  ray_head_fqdn (fqdn, &plain.cluster, &options);
  assert_string_equal (fqdn, "c-head-svc.ns.svc.cluster.local");
  options.cluster_domain = "example.org";
  ray_head_fqdn (fqdn, &custom.cluster, &options);
  assert_string_equal (fqdn, "mine.default.svc.example.org");
}

/* CheckName would cut this one to 50 characters, which is how another webhook misses the Service (§2.9). */
static void
test_headless_name_is_never_cut (void **state)
{
  struct ray_cluster cluster = { .name = "a2345678901234567890123456789012345678901234567890123" };
  char name[RAY_NAME_SIZE];

  (void) state;
  ray_headless_service_name (name, &cluster);
  assert_string_equal (name, "a2345678901234567890123456789012345678901234567890123-headless");
}

static void
test_worker_group_counts (void **state)
{
  static const struct
  {
    const char *name, *fields;
    int64_t replicas, min, max, hosts;
  } rows[] = {
    { "nothing set", "groupName: g", 0, 0, INT32_MAX, 1 },
    { "replicas default to the minimum", "minReplicas: 3", 3, 3, INT32_MAX, 1 },
    { "null is absent", "{replicas: null, minReplicas: 2}", 2, 2, INT32_MAX, 1 },
    { "below the minimum", "{replicas: 1, minReplicas: 2}", 2, 2, INT32_MAX, 1 },
    { "above the maximum", "{replicas: 9, maxReplicas: 4}", 4, 0, 4, 1 },
    { "zero is zero", "{replicas: 0, maxReplicas: 4}", 0, 0, 4, 1 },
    { "suspended", "{replicas: 3, suspend: true}", 0, 0, INT32_MAX, 1 },
    { "suspended with a minimum", "{minReplicas: 3, suspend: true}", 0, 3, INT32_MAX, 1 },
    { "hosts", "{replicas: 2, numOfHosts: 4}", 2, 0, INT32_MAX, 4 },
    { "no hosts", "{numOfHosts: 0}", 0, 0, INT32_MAX, 1 },
    { "negative hosts", "{numOfHosts: -3}", 0, 0, INT32_MAX, 1 },
    { "negative replicas", "{replicas: -3}", 0, 0, INT32_MAX, 1 },
    { "wrong types", "{replicas: '3', minReplicas: [], maxReplicas: 1.5, numOfHosts: yes}", 0, 0, INT32_MAX, 1 },
    { "one host of many", "{replicas: 1, numOfHosts: 64}", 1, 0, INT32_MAX, 64 },
    { "absurdly many", "{replicas: 99999999999, numOfHosts: 99999999999}", INT32_MAX, 0, INT32_MAX, INT32_MAX },
  };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (rows); i++)
    {
      cleanup_json cJSON *group = yaml_one (rows[i].fields), *object = yaml_one ("metadata: {name: c}");
      cleanup_scene struct scene s = { 0 };
      const struct ray_group *g;

      json_push (json_arr (json_obj (object, "spec"), "workerGroupSpecs"), take_ptr (group));
      s = scene_of (take_ptr (object));
      g = &s.cluster.groups[0];
      if (g->replicas != rows[i].replicas || g->min != rows[i].min || g->max != rows[i].max
          || g->hosts != rows[i].hosts)
        fail_msg ("%s: replicas %d min %d max %d hosts %d", rows[i].name, (int) g->replicas, (int) g->min, (int) g->max,
                  (int) g->hosts);
    }
}

static void
test_decode_whole_cluster (void **state)
{
  cleanup_scene struct scene s = scene_yaml (
      "metadata: {name: c, namespace: ns, uid: u-1, generation: 7, deletionTimestamp: '2026-01-01T00:00:00Z',\n"
      "           labels: {ray.io/originated-from-crd: RayJob}}\n"
      "spec:\n"
      "  rayVersion: 2.53.0\n"
      "  suspend: true\n"
      "  enableInTreeAutoscaling: true\n"
      "  managedBy: kueue.x-k8s.io/multikueue\n"
      "  headGroupSpec: {rayStartParams: {port: '6380'}, template: {spec: {}}}\n"
      "  workerGroupSpecs:\n"
      "  - {groupName: a, replicas: 2, numOfHosts: 4, scaleStrategy: {workersToDelete: [x]}}\n"
      "  - nonsense\n"
      "  - {groupName: b, replicas: 3}\n");
  const struct ray_cluster *c = &s.cluster;

  (void) state;
  assert_string_equal (c->namespace, "ns");
  assert_string_equal (c->uid, "u-1");
  assert_int_equal (c->generation, 7);
  assert_true (c->deleting && c->suspend && c->autoscaling && c->managed_elsewhere);
  assert_string_equal (c->ray_version, "2.53.0");
  assert_string_equal (c->origin_crd, "RayJob");
  assert_string_equal (ray_head_port (c), "6380");
  assert_true (c->head.is_head && c->head.replicas == 1 && c->head.hosts == 1);
  assert_int_equal (c->ngroups, 3); /* positions match the manifest's */
  assert_string_equal (c->groups[1].name, "");
  assert_int_equal (cJSON_GetArraySize (c->groups[0].workers_to_delete), 1);
  assert_ptr_equal (ray_cluster_group (c, "b"), &c->groups[2]);
  assert_ptr_equal (ray_cluster_group (c, RAY_HEAD_GROUP), &c->head);
  assert_null (ray_cluster_group (c, "nope"));
  assert_true (ray_cluster_multi_host (c));
  assert_int_equal (ray_cluster_desired_workers (c), 11);
}

static void
test_decode_forgives_and_refuses (void **state)
{
  cleanup_scene struct scene odd
      = scene_yaml ("metadata: {name: c, uid: 5}\n"
                    "spec: {suspend: 'true', rayVersion: 2.5, headGroupSpec: [], workerGroupSpecs: {a: 1}}");
  static const char *const refused[] = { "[]", "metadata: {}", "metadata: {name: 3}", "metadata: {name: ''}" };

  (void) state;
  assert_string_equal (odd.cluster.uid, "");
  assert_string_equal (odd.cluster.namespace, "default");
  assert_string_equal (odd.cluster.ray_version, "");
  assert_string_equal (odd.cluster.origin_crd, "RayCluster");
  assert_false (odd.cluster.suspend || odd.cluster.managed_elsewhere);
  assert_int_equal (odd.cluster.ngroups, 0);
  assert_true (cJSON_IsObject (odd.cluster.head.template));
  for (size_t i = 0; i < ARRAY_LEN (refused); i++)
    {
      cleanup_json cJSON *object = yaml_one (refused[i]);
      struct ray_cluster cluster;
      struct error err = { 0 };

      assert_true (ray_cluster_decode (&cluster, object, NULL, &err) < 0);
      assert_true (strlen (err.message) > 0);
      ray_cluster_free (&cluster);
    }
}

static void
test_desired_workers_saturate (void **state)
{
  cleanup_scene struct scene s
      = scene_yaml ("metadata: {name: c}\n"
                    "spec: {workerGroupSpecs: [{replicas: 2147483647, numOfHosts: 2147483647},\n"
                    "                          {replicas: 2147483647, numOfHosts: 2147483647}]}");

  (void) state;
  assert_int_equal (ray_cluster_desired_workers (&s.cluster), INT32_MAX);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_pod_name_prefixes),          cmocka_unit_test (test_shortened_names),
    cmocka_unit_test (test_suffix_is_stable_and_safe),  cmocka_unit_test (test_service_names),
    cmocka_unit_test (test_headless_name_is_never_cut), cmocka_unit_test (test_worker_group_counts),
    cmocka_unit_test (test_decode_whole_cluster),       cmocka_unit_test (test_decode_forgives_and_refuses),
    cmocka_unit_test (test_desired_workers_saturate),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
