/* Slice affinity of Ray pods: merged into what the user wrote, never in its place. */
#include "test_tpu_pods.h"

#define REQUIRED "requiredDuringSchedulingIgnoredDuringExecution"
#define PREFERRED "preferredDuringSchedulingIgnoredDuringExecution"

#define ATTRACT(key)                                                                                                   \
  "{'labelSelector': {'matchExpressions': ["                                                                           \
  "{'key': 'ray.io/cluster', 'operator': 'In', 'values': ['c']},"                                                      \
  "{'key': 'ray.io/worker-group-replica-name', 'operator': 'In', 'values': ['g-abcdf']}]},"                            \
  "'topologyKey': '" key "'}"
#define EVERYWHERE                                                                                                     \
  "'namespaceSelector': {'matchExpressions': ["                                                                        \
  "{'key': 'kubernetes.io/metadata.name', 'operator': 'NotIn', 'values': ['kube-system']}]}"
#define REPEL_OWN(key)                                                                                                 \
  "{'labelSelector': {'matchExpressions': ["                                                                           \
  "{'key': 'ray.io/cluster', 'operator': 'In', 'values': ['c']},"                                                      \
  "{'key': 'ray.io/worker-group-replica-name', 'operator': 'Exists'},"                                                 \
  "{'key': 'ray.io/worker-group-replica-name', 'operator': 'NotIn', 'values': ['g-abcdf']}]}," EVERYWHERE              \
  ", 'topologyKey': '" key "'}"
#define REPEL_OTHERS(key)                                                                                              \
  "{'labelSelector': {'matchExpressions': ["                                                                           \
  "{'key': 'ray.io/cluster', 'operator': 'NotIn', 'values': ['c']},"                                                   \
  "{'key': 'ray.io/worker-group-replica-name', 'operator': 'Exists'}]}," EVERYWHERE ", 'topologyKey': '" key "'}"
#define POOL "cloud.google.com/gke-nodepool"
#define BLOCK "cloud.google.com/gke-tpu-slice-4x4-id"
#define OURS(key)                                                                                                      \
  "'podAffinity': {'" REQUIRED "': [" ATTRACT (key) "]}, 'podAntiAffinity': {'" REQUIRED                               \
                                                    "': [" REPEL_OWN (key) ", " REPEL_OTHERS (key) "]}"
#define USER_TERM(key) "{'labelSelector': {'matchLabels': {'app': 'x'}}, 'topologyKey': '" key "'}"
#define PREFERENCE "'" PREFERRED "': [{'weight': 1, 'podAffinityTerm': " USER_TERM ("kubernetes.io/hostname") "}]"
#define NODES                                                                                                          \
  "'nodeAffinity': {'" REQUIRED "': {'nodeSelectorTerms': [{'matchExpressions': [{'key': 'zone', 'operator': "         \
  "'Exists'}]}]}}"

static const struct
{
  const char *name, *users, *merged; /* spec.affinity before and after */
} merges[] = {
  { "none", NULL, "{" OURS (POOL) "}" },
  { "null", "null", "{" OURS (POOL) "}" },
  { "empty", "{}", "{" OURS (POOL) "}" },
  { "nulls inside", "{'podAffinity': null, 'podAntiAffinity': {'" REQUIRED "': null}}", "{" OURS (POOL) "}" },
  { "node affinity stays", "{" NODES "}", "{" NODES ", " OURS (POOL) "}" },
  { "preferences stay", "{'podAffinity': {" PREFERENCE "}}",
    "{'podAffinity': {" PREFERENCE ", '" REQUIRED
    "': [" ATTRACT (POOL) "]}, 'podAntiAffinity': {'" REQUIRED "': [" REPEL_OWN (POOL) ", " REPEL_OTHERS (POOL) "]}}" },
  { "the user's terms stay in front",
    "{'podAffinity': {'" REQUIRED "': [" USER_TERM ("zone") "]}, 'podAntiAffinity': {'" REQUIRED
                                                            "': [" USER_TERM ("a") ", " USER_TERM ("b") "]}}",
    "{'podAffinity': {'" REQUIRED
    "': [" USER_TERM ("zone") ", " ATTRACT (POOL) "]}, 'podAntiAffinity': {'" REQUIRED "': [" USER_TERM (
        "a") ", " USER_TERM ("b") ", " REPEL_OWN (POOL) ", " REPEL_OTHERS (POOL) "]}}" },
  { "an equal term is not repeated",
    "{'podAffinity': {'" REQUIRED "': [" ATTRACT (POOL) "]}, 'podAntiAffinity': {'" REQUIRED
                                                        "': [" REPEL_OTHERS (POOL) "]}}",
    "{'podAffinity': {'" REQUIRED "': [" ATTRACT (POOL) "]}, 'podAntiAffinity': {'" REQUIRED
                                                        "': [" REPEL_OTHERS (POOL) ", " REPEL_OWN (POOL) "]}}" },
  { "a topology key of GKE's is taken over",
    "{'podAffinity': {'" REQUIRED "': [" USER_TERM ("zone") ", " USER_TERM (BLOCK) "]}}",
    "{'podAffinity': {'" REQUIRED "': [" USER_TERM ("zone") ", " USER_TERM (BLOCK) ", " ATTRACT (
        BLOCK) "]}, 'podAntiAffinity': {'" REQUIRED "': [" REPEL_OWN (BLOCK) ", " REPEL_OTHERS (BLOCK) "]}}" },
};

static void
set_affinity (cJSON *pod, const char *text)
{
  if (text != NULL)
    json_set (json_get (pod, "spec"), "affinity", parse_json (text));
}

static void
test_merges (void **state)
{
  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (merges); i++)
    {
      cleanup_json cJSON *pod = make_ray_pod ("tpu-v6e-slice", "4x4", "4", "c", "g", 0, 1);
      cleanup_json cJSON *expected = parse_json (merges[i].merged);
      cleanup_injection struct tpu_injection in = { 0 };

      set_affinity (pod, merges[i].users);
      in = admit (pod, NULL);
      if (!json_equal (json_get (pod, "spec", "affinity"), expected))
        fail_msg ("%s: %s", merges[i].name, json_print (json_get (pod, "spec", "affinity")));
      assert_int_equal (cJSON_GetArraySize (in.warnings), 0);
    }
}

static const struct
{
  const char *users, *says;
} mistyped[] = {
  { "7", "spec.affinity must be an object, this is number" },
  { "{'podAffinity': []}", "spec.affinity.podAffinity must be an object, this is array" },
  { "{'podAntiAffinity': {'" REQUIRED "': {}}}", "spec.affinity.podAntiAffinity." REQUIRED " must be an array" },
};

static void
test_affinity_of_a_wrong_type_is_refused (void **state)
{
  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (mistyped); i++)
    {
      cleanup_json cJSON *pod = make_ray_pod ("tpu-v6e-slice", "4x4", "4", "c", "g", 0, 1);
      struct tpu_injection in;
      struct error err = { 0 };

      set_affinity (pod, mistyped[i].users);
      assert_int_equal (tpu_inject (&in, pod, NULL, &err), -EINVAL);
      assert_non_null (strstr (err.message, mistyped[i].says));
    }
}

static void
test_names_are_added_only_where_absent (void **state)
{
  cleanup_json cJSON *pod = make_ray_pod ("tpu-v6e-slice", "4x4", "4", "c", "g", 2, 3);
  cleanup_injection struct tpu_injection in = { 0 };

  (void) state;
  json_set_str (json_get (pod, "spec"), "hostname", "");
  in = admit (pod, NULL);
  assert_string_equal (json_str (pod, "spec", "hostname"), "g-2-3");
  assert_string_equal (json_str (pod, "spec", "subdomain"), "c-headless");
  tpu_injection_free (&in);
  /* As our controller builds it: only the rest is added. */
  edit (pod, "[{'op': 'remove', 'path': '/spec/affinity'}]");
  in = admit (pod, NULL);
  assert_null (json_find (in.patch, "path", "/spec/hostname"));
  assert_null (json_find (in.patch, "path", "/spec/subdomain"));
  assert_non_null (json_get (pod, "spec", "affinity"));
}

static void
test_no_placement_without_a_replica_name_or_for_one_host (void **state)
{
  cleanup_json cJSON *pod = make_ray_pod ("tpu-v6e-slice", "4x4", "4", "c", "g", 0, 1);
  cleanup_json cJSON *one = make_ray_pod ("tpu-v6e-slice", "2x4", "8", "c", "g", 0, -1);
  cleanup_injection struct tpu_injection in = { 0 };

  (void) state;
  json_drop (json_get (pod, "metadata", "labels"), "ray.io/worker-group-replica-name");
  in = admit (pod, NULL);
  assert_null (json_get (pod, "spec", "affinity"));
  assert_string_equal (json_str (pod, "spec", "hostname"), "g-0-1");
  tpu_injection_free (&in);
  in = admit (one, NULL);
  assert_null (json_get (one, "spec", "affinity"));
  assert_null (json_get (one, "spec", "hostname"));
  assert_null (json_get (one, "spec", "subdomain"));
}

/* A part of a slice, or a slice of several pools: one pool is not its boundary, and requiring that would never
 * schedule. */
static void
test_partial_slices_need_a_key_of_the_users (void **state)
{
  cleanup_json cJSON *pod = make_ray_pod ("tpu-v6e-slice", "16x16", "4", "c", "g", 0, 1);
  cleanup_injection struct tpu_injection in = { 0 };

  (void) state;
  json_set_str (json_obj (json_get (pod, "metadata"), "annotations"), "cloud.google.com/gke-tpu-slice-topology", "4x4");
  in = admit (pod, NULL);
  assert_null (json_get (pod, "spec", "affinity"));
  assert_true (warned (&in, "slice affinity is not injected"));
  tpu_injection_free (&in);
  set_affinity (pod, "{'podAffinity': {'" REQUIRED "': [" USER_TERM (BLOCK) "]}}");
  in = admit (pod, NULL);
  assert_int_equal (cJSON_GetArraySize (in.warnings), 0);
  assert_int_equal (cJSON_GetArraySize (json_get (pod, "spec", "affinity", "podAntiAffinity", REQUIRED)), 2);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_merges),
    cmocka_unit_test (test_affinity_of_a_wrong_type_is_refused),
    cmocka_unit_test (test_names_are_added_only_where_absent),
    cmocka_unit_test (test_no_placement_without_a_replica_name_or_for_one_host),
    cmocka_unit_test (test_partial_slices_need_a_key_of_the_users),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
