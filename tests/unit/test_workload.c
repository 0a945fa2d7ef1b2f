/* Workload objects: the Pods that their controllers make of them, and what is wrong with them. The command line's tests
 * go through the kinds; here is what they do not see. Where YAML stands is here as well. */
#include "test_tpu_pods.h"

#include "workload/workload.h"

#define TEMPLATE                                                                                                       \
  "{'metadata': {'labels': {'a': 'b'}, 'annotations': {'c': 'd'}}, 'spec': {'nodeSelector': "                          \
  "{'cloud.google.com/gke-tpu-accelerator': 'tpu-v6e-slice', 'cloud.google.com/gke-tpu-topology': '2x4'}, "            \
  "'containers': [{'name': 'm', 'env': [{'name': 'X', 'value': '$(LWS_GROUP_SIZE)'}], 'resources': {'limits': "        \
  "{'google.com/tpu': 4}}}, {'name': 'n'}]}}"

static cJSON *
expand (const char *text)
{
  cleanup_json cJSON *object = parse_json (text), *before = cJSON_Duplicate (object, true);
  struct error err = { "" };
  cJSON *pods;

  if (workload_expand (&pods, object, &err) < 0)
    fail_msg ("%s", err.message);
  assert_true (json_equal (object, before));
  return pods;
}

static void
test_template_is_kept (void **state)
{
  cleanup_json cJSON *pods
      = expand ("{'kind': 'StatefulSet', 'metadata': {'name': 's', 'namespace': 'ns'}, 'spec': "
                "{'replicas': 2, 'serviceName': 'svc', 'ordinals': {'start': 5}, 'template': " TEMPLATE "}}");
  const cJSON *pod = pods->child->next;

  (void) state;
  assert_int_equal (cJSON_GetArraySize (pods), 2);
  assert_string_equal (json_str (pod, "metadata", "name"), "s-6");
  assert_string_equal (json_str (pod, "metadata", "labels", "a"), "b");
  assert_string_equal (json_str (pod, "metadata", "annotations", "c"), "d");
  assert_string_equal (json_str (pod, "metadata", "labels", "apps.kubernetes.io/pod-index"), "6");
  assert_string_equal (json_str (json_get (pod, "metadata", "ownerReferences")->child, "kind"), "StatefulSet");
  assert_string_equal (json_str (pod, "spec", "hostname"), "s-6");
  assert_string_equal (json_str (pod, "spec", "subdomain"), "svc");
  assert_int_equal (cJSON_GetArraySize (json_get (pod, "spec", "containers")), 2);
}

/* In front of the entries that refer to them, and once. */
static void
test_group_variables_come_first (void **state)
{
  cleanup_json cJSON *pods = expand (
      "{'kind': 'LeaderWorkerSet', 'metadata': {'name': 'l', 'namespace': 'ns'}, 'spec': {'networkConfig': "
      "{'subdomainPolicy': 'UniquePerReplica'}, 'leaderWorkerTemplate': {'size': 2, 'workerTemplate': " TEMPLATE "}}}");
  const cJSON *worker = pods->child->next, *env = json_get (container_at (worker, "containers", 0), "env");
  static const char *const names[] = { "LWS_LEADER_ADDRESS", "LWS_GROUP_SIZE", "LWS_WORKER_INDEX", "X" };

  (void) state;
  for (int i = 0; i < 4; i++)
    assert_string_equal (json_str (cJSON_GetArrayItem (env, i), "name"), names[i]);
  assert_string_equal (json_str (env->child, "value"), "l-0.l-0.ns");
  assert_int_equal (cJSON_GetArraySize (json_get (container_at (worker, "containers", 1), "env")), 3);
  assert_string_equal (json_str (worker, "spec", "subdomain"), "l-0");
  assert_string_equal (json_str (worker, "metadata", "annotations", "leaderworkerset.sigs.k8s.io/leader-requests-tpus"),
                       "true");
}

/* The index that counts over all replicatedJobs is another than the one within. */
static void
test_jobset_facts (void **state)
{
  cleanup_json cJSON *pods = expand (
      "{'kind': 'JobSet', 'metadata': {'name': 's'}, 'spec': {'coordinator': {'replicatedJob': 'h', 'podIndex': 1}, "
      "'network': {'subdomain': 'net'}, 'replicatedJobs': [{'name': 'h', 'template': {'spec': {'template': " TEMPLATE
      "}}}, {'name': 'w', 'replicas': 2, 'groupName': 'g', 'template': {'spec': {'template': " TEMPLATE "}}}]}}");
  const cJSON *last = cJSON_GetArrayItem (pods, 2);
  static const char *const facts[][2]
      = { { "jobset-name", "s" }, { "replicatedjob-name", "w" }, { "replicatedjob-replicas", "2" },
          { "job-index", "1" },   { "job-global-index", "2" },   { "global-replicas", "3" },
          { "group-name", "g" },  { "restart-attempt", "0" },    { "coordinator", "s-h-0-1.net" } };

  (void) state;
  assert_int_equal (cJSON_GetArraySize (pods), 3);
  for (size_t i = 0; i < ARRAY_LEN (facts); i++)
    {
      cleanup_free char *key = xasprintf ("jobset.sigs.k8s.io/%s", facts[i][0]);

      assert_string_equal (json_str (last, "metadata", "labels", key), facts[i][1]);
      assert_string_equal (json_str (last, "metadata", "annotations", key), facts[i][1]);
    }
  assert_string_equal (json_str (last, "metadata", "labels", "job-name"), "s-w-1");
  assert_string_equal (json_str (last, "spec", "hostname"), "s-w-1-0");
  assert_string_equal (json_str (last, "spec", "subdomain"), "net");
}

static void
test_no_workload (void **state)
{
  static const char *const texts[] = {
    "{}",
    "[]",
    "{'kind': 'Service', 'metadata': {'name': 'x'}}",
    "{'kind': 'Job'}",
    "{'kind': 'Job', 'metadata': {'name': 'x'}}",
    "{'kind': 'Job', 'metadata': {'name': 'x'}, 'spec': {'template': 7}}",
    "{'kind': 'JobSet', 'metadata': {'name': 'x'}, 'spec': {'replicatedJobs': [7]}}",
    "{'kind': 'LeaderWorkerSet', 'metadata': {'name': 'x'}, 'spec': {'leaderWorkerTemplate': []}}",
    "{'kind': 'StatefulSet', 'metadata': {'name': 'x'}, 'spec': {'replicas': 1.5}}",
    "{'kind': 'StatefulSet', 'metadata': {'name': 'x'}, 'spec': {'replicas': 10001, 'template': " TEMPLATE "}}",
  };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (texts); i++)
    {
      cleanup_json cJSON *object = parse_json (texts[i]), *problems = cJSON_CreateArray ();
      struct error err = { "" };
      cJSON *pods;

      if (workload_expand (&pods, object, &err) == 0 || pods != NULL || err.message[0] == '\0')
        fail_msg ("%s", texts[i]);
      workload_validate (problems, object, NULL);
    }
}

/* ---- lines ---- */

static const char yaml[] = "# a comment\n"
                           "kind: A\n"
                           "---\n"
                           "---\n"
                           "spec:\n"
                           "  list:\n"
                           "    - one: 1\n"
                           "      two: &t {x: 1,\n"
                           "        y: 2}\n"
                           "    -\n"
                           "      - deep\n"
                           "  \"a/b.c\": 3\n"
                           "  alias: *t\n";

static void
test_lines_by_path (void **state)
{
  static const struct
  {
    int document;
    const char *path;
    size_t line;
  } rows[] = {
    { 0, "kind", 2 },
    { 0, "metadata.name", 2 }, /* not there: where the document begins */
    { 1, "", 5 },
    { 1, "spec", 5 },
    { 1, "spec.list", 6 },
    { 1, "spec.list[0]", 7 },
    { 1, "spec.list[0].one", 7 },
    { 1, "spec.list[0].two.y", 9 },
    { 1, "spec.list[0].three", 7 },
    { 1, "spec.list[1][0]", 11 },
    { 1, "spec.list[10]", 6 },
    { 1, "spec[\"a/b.c\"]", 12 },
    { 1, "spec.alias.x", 13 },
    { 1, "speck", 5 },
    { 2, "spec", 0 },
  };
  cleanup_json cJSON *docs = NULL, *none = NULL;
  struct yaml_lines *lines;
  struct error err = { "" };

  (void) state;
  assert_int_equal (yaml_parse_lines (&docs, &lines, yaml, strlen (yaml), &err), 0);
  assert_int_equal (cJSON_GetArraySize (docs), 2);
  for (size_t i = 0; i < ARRAY_LEN (rows); i++)
    if (yaml_line (lines, rows[i].document, rows[i].path) != rows[i].line)
      fail_msg ("%s is in line %zu", rows[i].path, yaml_line (lines, rows[i].document, rows[i].path));
  yaml_lines_free (lines);
  assert_int_equal (yaml_line (NULL, 0, "x"), 0);
  assert_int_equal (yaml_parse_lines (&none, &lines, "a: [", 4, &err), -EINVAL);
  assert_null (lines);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_template_is_kept), cmocka_unit_test (test_group_variables_come_first),
    cmocka_unit_test (test_jobset_facts),     cmocka_unit_test (test_no_workload),
    cmocka_unit_test (test_lines_by_path),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
