/* Who lowers the slices of a group whose Pods KubeRay does not number is warned. A server in this process plays the API
 * server. */
#include "test_tpu_pods.h"

#include "admission/allocate.h"
#include "kube_test_server.h"

#define QUERY                                                                                                          \
  "/api/v1/namespaces/ml/pods?limit=1&labelSelector=ray.io%2Fcluster%3Dc%2Cray.io%2Fgroup%3Dg%2C%21ray.io%2F"          \
  "replica-host-index"

struct world
{
  bool unlabelled; /* there are Pods without index labels */
  int asked, status;
};

static void
serve (void *data, const struct test_request *request, struct test_answer *answer)
{
  struct world *w = data;

  w->asked++;
  answer->status = text_eq (request->path, QUERY) ? w->status : 404;
  answer->body = xstrdup (w->unlabelled ? "{\"items\":[{\"metadata\":{\"name\":\"p\"}}]}" : "{\"items\":[]}");
}

/* A group of slices of `topology`; `more` is a member of it. */
static cJSON *
make_cluster (const char *topology, int hosts, int replicas, const char *more)
{
  cleanup_json cJSON *pod = make_pod ("tpu-v6e-slice", topology, topology != NULL ? "4" : NULL);
  cleanup_free char *template = json_print (pod);
  cleanup_free char *text = xasprintf (
      "{'metadata': {'name': 'c', 'namespace': 'ml'}, 'spec': {'rayVersion': '2.53.0', 'headGroupSpec': {'template': "
      "{'spec': {'containers': [{'name': 'h', 'image': 'i'}]}}}, 'workerGroupSpecs': [{'groupName': 'g', "
      "'numOfHosts': %d, 'replicas': %d, 'template': %s%s}]}}",
      hosts, replicas, template, more);

  return parse_json (text);
}

static bool
is_warned (const struct admission_policy *policy, const char *operation, const cJSON *now, const cJSON *before)
{
  const struct admission_request request = { .uid = "u",
                                             .group = "ray.io",
                                             .kind = "RayCluster",
                                             .subresource = "",
                                             .operation = operation,
                                             .namespace = "ml",
                                             .name = "c",
                                             .object = now,
                                             .old_object = before };
  cleanup_verdict struct admission_verdict v = { 0 };
  struct error err = { "" };
  const cJSON *warning;
  bool found = false;

  assert_int_equal (admission_validate_raycluster ((void *) policy, &request, &v, &err), 0);
  if (!v.allowed)
    fail_msg ("%s", v.message);
  cJSON_ArrayForEach (warning, v.warnings)
    found = found || strstr (warning->valuestring, "spec.workerGroupSpecs[0].replicas: fewer slices") != NULL;
  return found;
}

static void
who_may_leave_holes_is_told (void **state)
{
  static const struct
  {
    const char *name, *operation, *topology;
    int hosts, before, now;
    const char *more; /* of the group, afterwards */
    bool unlabelled;
    int status;
    bool asked, warned;
  } rows[] = {
    { "fewer slices", "UPDATE", "4x4", 4, 3, 1, "", true, 200, true, true },
    { "of labelled pods", "UPDATE", "4x4", 4, 3, 1, "", false, 200, true, false },
    { "the API server does not say", "UPDATE", "4x4", 4, 3, 1, "", true, 403, true, false },
    { "more slices", "UPDATE", "4x4", 4, 1, 3, "", true, 200, false, false },
    { "all of them", "UPDATE", "4x4", 4, 3, 0, "", true, 200, false, false },
    { "suspended", "UPDATE", "4x4", 4, 3, 1, ", 'suspend': true", true, 200, false, false },
    { "named pods", "UPDATE", "4x4", 4, 3, 2, ", 'scaleStrategy': {'workersToDelete': ['a', 'b', 'c', 'd']}", true, 200,
      false, false },
    { "below the group's maximum", "UPDATE", "4x4", 4, 3, 3, ", 'maxReplicas': 2", true, 200, true, true },
    { "single hosts", "UPDATE", "2x2", 1, 3, 1, "", true, 200, false, false },
    { "no TPUs", "UPDATE", NULL, 4, 3, 1, "", true, 200, false, false },
    { "nothing before", "CREATE", "4x4", 4, 3, 1, "", true, 200, false, false },
  };
  struct world w = { 0 };
  struct test_server *server = test_server_start (serve, &w, false);
  struct kube_client *client = test_server_client (server, NULL);
  struct admission_policy policy = { .tpu = tpu_default_options, .ray = &ray_default_options };

  (void) state;
  policy.allocator = admission_allocator_new (client, "system", &policy.tpu, 60000, 60000);
  for (size_t i = 0; i < ARRAY_LEN (rows); i++)
    {
      cleanup_json cJSON *before = make_cluster (rows[i].topology, rows[i].hosts, rows[i].before, "");
      cleanup_json cJSON *now = make_cluster (rows[i].topology, rows[i].hosts, rows[i].now, rows[i].more);

      w = (struct world){ .unlabelled = rows[i].unlabelled, .status = rows[i].status };
      if (is_warned (&policy, rows[i].operation, now, before) != rows[i].warned || (w.asked > 0) != rows[i].asked)
        fail_msg ("%s: asked %d times", rows[i].name, w.asked);
    }
  admission_allocator_free (policy.allocator);
  kube_client_free (client);
  test_server_stop (server);
}

static void
without_an_api_server_nothing_is_said (void **state)
{
  const struct admission_policy policy = { .tpu = tpu_default_options, .ray = &ray_default_options };
  cleanup_json cJSON *before = make_cluster ("4x4", 4, 3, ""), *now = make_cluster ("4x4", 4, 1, "");

  (void) state;
  assert_false (is_warned (&policy, "UPDATE", now, before));
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (who_may_leave_holes_is_told),
    cmocka_unit_test (without_an_api_server_nothing_is_said),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
