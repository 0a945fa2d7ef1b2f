/* What the user is told: status, conditions, and that an unchanged world writes nothing. */
#include "test_ray.h"

#include "plan_world.h"

static const char manifest[]
    = "apiVersion: ray.io/v1\n"
      "kind: RayCluster\n"
      "metadata: {name: c, namespace: default}\n"
      "spec:\n"
      "  headGroupSpec: {template: {spec: {containers: [{name: h, resources: {limits: {cpu: '4', memory: 16Gi}}}]}}}\n"
      "  workerGroupSpecs:\n"
      "  - groupName: tpu\n"
      "    replicas: 2\n"
      "    maxReplicas: 4\n"
      "    numOfHosts: 4\n"
      "    template: {spec: {containers: [{name: w, resources: {requests: {cpu: 500m}, limits: {cpu: '2', memory: 1Gi, "
      "google.com/tpu: '4'}}},\n"
      "                                   {name: g, resources: {limits: {nvidia.com/gpu: 1}}}]}}\n";

/* The status for the world as it is; owned by the caller. */
static cJSON *
status_of (struct world *w, const struct ray_problems *problems, const struct ray_failure *failure)
{
  struct ray_observed observed = { .pods = (const struct ray_pod **) w->pods, .npods = w->npods };
  static const struct ray_problems none = { 0 };

  ray_plan_free (&w->plan); /* it points into the cluster that is decoded anew */
  ray_cluster_free (&w->cluster);
  assert_int_equal (ray_cluster_decode (&w->cluster, w->object, NULL, NULL), 0);
  return ray_status_make (&w->cluster, &observed, &ray_default_plan_options, problems ? problems : &none, failure,
                          w->now_ms);
}

/* As the API server does with a merge patch (RFC 7386). */
static void
merge (cJSON *into, const cJSON *patch)
{
  const cJSON *item;

  cJSON_ArrayForEach (item, patch)
    if (cJSON_IsNull (item))
      json_drop (into, item->string);
    else if (cJSON_IsObject (item))
      merge (json_obj (into, item->string), item);
    else
      json_set_copy (into, item->string, item);
}

/* Writes the status, as the controller does; whether there was anything to write. */
static bool
write_status (struct world *w)
{
  cleanup_json cJSON *status = status_of (w, NULL, NULL), *patch = ray_status_patch (&w->cluster, status, w->now_ms);

  merge (json_obj (w->object, "status"), json_get (patch, "status"));
  ray_cluster_free (&w->cluster);
  return patch != NULL;
}

static const cJSON *
condition (const struct world *w, const char *type)
{
  return json_find (json_get (w->object, "status", "conditions"), "type", type);
}

static void
assert_condition (const struct world *w, const char *type, const char *status, const char *reason)
{
  const cJSON *c = condition (w, type);

  if (!text_eq (json_str (c, "status"), status) || !text_eq (json_str (c, "reason"), reason))
    fail_msg ("%s is %s/%s, not %s/%s", type, log_nonnull (json_str (c, "status")),
              log_nonnull (json_str (c, "reason")), status, reason);
}

static void
test_counts_are_in_pods_and_resources_are_those_wanted (void **state)
{
  static const struct
  {
    const char *field;
    int value;
  } counts[] = { { "desiredWorkerReplicas", 8 },   { "minWorkerReplicas", 0 },   { "maxWorkerReplicas", 16 },
                 { "availableWorkerReplicas", 0 }, { "readyWorkerReplicas", 0 }, { "observedGeneration", 1 } };
  static const struct
  {
    const char *field, *value;
  } resources[] = { { "desiredCPU", "8" }, { "desiredMemory", "24Gi" }, { "desiredGPU", "8" }, { "desiredTPU", "32" } };
  struct world w;

  (void) state;
  world_init (&w, manifest);
  write_status (&w);
  for (size_t i = 0; i < ARRAY_LEN (counts); i++)
    assert_int_equal (json_int (w.object, -1, "status", counts[i].field), counts[i].value);
  for (size_t i = 0; i < ARRAY_LEN (resources); i++)
    assert_string_equal (json_str (w.object, "status", resources[i].field), resources[i].value);
  assert_condition (&w, "HeadPodReady", "False", "HeadPodNotFound");
  assert_condition (&w, "RayClusterProvisioned", "False", "RayClusterPodsProvisioning");
  world_free (&w);
}

static void
test_ready_is_true_only_while_it_is_true (void **state)
{
  struct world w;

  (void) state;
  world_init (&w, manifest);
  world_settle (&w);
  write_status (&w);
  assert_null (json_str (w.object, "status", "state"));
  world_run_all (&w);
  assert_true (write_status (&w));
  assert_string_equal (json_str (w.object, "status", "state"), "ready");
  assert_non_null (json_str (w.object, "status", "stateTransitionTimes", "ready"));
  assert_int_equal (json_int (w.object, 0, "status", "readyWorkerReplicas"), 8);
  assert_condition (&w, "HeadPodReady", "True", "HeadPodRunningAndReady");
  assert_condition (&w, "RayClusterProvisioned", "True", "AllPodRunningAndReadyFirstTime");
  world_find (&w, "tpu", 1, 2)->ready = false;
  assert_true (write_status (&w));
  assert_null (json_str (w.object, "status", "state"));
  assert_int_equal (json_int (w.object, 0, "status", "availableWorkerReplicas"), 8);
  assert_int_equal (json_int (w.object, 0, "status", "readyWorkerReplicas"), 7);
  assert_condition (&w, "RayClusterProvisioned", "True", "AllPodRunningAndReadyFirstTime"); /* it was, once */
  world_free (&w);
}

static void
test_provisioned_needs_the_desired_count (void **state)
{
  struct world w;

  (void) state;
  world_init (&w, manifest);
  world_settle (&w);
  world_run_all (&w);
  for (size_t i = 0; i < w.npods; i++)
    if (w.pods[i] == world_find (&w, "tpu", 1, 3))
      world_vanish (&w, i);
  write_status (&w);
  assert_condition (&w, "RayClusterProvisioned", "False", "RayClusterPodsProvisioning");
  world_free (&w);
}

static void
test_pods_being_deleted_do_not_count (void **state)
{
  struct world w;

  (void) state;
  world_init (&w, manifest);
  world_settle (&w);
  world_run_all (&w);
  for (size_t i = 0; i < w.npods; i++)
    world_delete (&w, i);
  write_status (&w);
  assert_int_equal (json_int (w.object, -1, "status", "availableWorkerReplicas"), 0);
  assert_condition (&w, "HeadPodReady", "False", "HeadPodTerminating");
  world_free (&w);
}

static void
test_an_unchanged_world_writes_nothing (void **state)
{
  struct world w;

  (void) state;
  world_init (&w, manifest);
  world_settle (&w);
  world_run_all (&w);
  assert_true (write_status (&w));
  w.now_ms += 3600000;
  assert_false (write_status (&w));
  json_set_int (json_obj (w.object, "metadata"), "generation", 2);
  assert_true (write_status (&w));
  assert_int_equal (json_int (w.object, 0, "status", "observedGeneration"), 2);
  world_free (&w);
}

static void
test_transition_times_move_only_with_the_status (void **state)
{
  struct world w;
  char first[64];

  (void) state;
  world_init (&w, manifest);
  world_settle (&w);
  write_status (&w);
  snprintf (first, sizeof (first), "%s", json_str (condition (&w, "RayClusterProvisioned"), "lastTransitionTime"));
  w.now_ms += 60000;
  world_find (&w, "tpu", 0, 0)->phase = RAY_RUNNING;
  write_status (&w);
  assert_string_equal (json_str (condition (&w, "RayClusterProvisioned"), "lastTransitionTime"), first);
  world_run_all (&w);
  write_status (&w);
  assert_string_not_equal (json_str (condition (&w, "RayClusterProvisioned"), "lastTransitionTime"), first);
  world_free (&w);
}

static void
test_failures_and_problems_are_conditions_that_go_away (void **state)
{
  struct ray_problem item
      = { .reason = "InvalidRayClusterSpec", .field = "spec.x", .message = "7 is too many: write 5" };
  struct ray_problems problems = { .items = &item, .count = 1 };
  struct ray_failure failure = { "FailedCreateWorkerPod", "exceeded quota" };
  struct world w;
  const cJSON *c;

  (void) state;
  world_init (&w, manifest);
  world_settle (&w);
  {
    cleanup_json cJSON *status = status_of (&w, &problems, NULL);

    c = json_find (json_get (status, "conditions"), "type", "InvalidSpec");
    assert_string_equal (json_str (c, "reason"), "InvalidRayClusterSpec");
    assert_string_equal (json_str (c, "message"), "spec.x: 7 is too many: write 5");
  }
  {
    cleanup_json cJSON *status = status_of (&w, NULL, &failure);

    c = json_find (json_get (status, "conditions"), "type", "ReplicaFailure");
    assert_string_equal (json_str (c, "reason"), "FailedCreateWorkerPod");
    assert_string_equal (json_str (c, "message"), "exceeded quota");
    assert_null (json_get (status, "state"));
  }
  {
    cleanup_json cJSON *status = status_of (&w, NULL, NULL);

    assert_null (json_find (json_get (status, "conditions"), "type", "ReplicaFailure"));
    assert_null (json_find (json_get (status, "conditions"), "type", "InvalidSpec"));
  }
  world_free (&w);
}

static void
test_pods_of_an_earlier_template_are_told_of (void **state)
{
  struct world w;
  const cJSON *group;

  (void) state;
  world_init (&w, manifest);
  world_settle (&w);
  for (size_t i = 0; i < w.npods; i++)
    w.pods[i]->template_hash
        = ray_template_hash (strcmp (w.pods[i]->group, "tpu") == 0 ? &w.cluster.groups[0] : &w.cluster.head);
  w.pods[0]->template_hash = 0; /* another operator's: unknown is not old */
  write_status (&w);
  assert_null (condition (&w, "PodTemplateOutOfDate"));
  group = cJSON_GetArrayItem (json_get (w.object, "spec", "workerGroupSpecs"), 0);
  json_set_int ((cJSON *) (uintptr_t) group, "replicas", 1); /* scaling is no other template */
  write_status (&w);
  assert_null (condition (&w, "PodTemplateOutOfDate"));
  json_set_str (cJSON_GetArrayItem (json_get (group, "template", "spec", "containers"), 0), "image", "new");
  write_status (&w);
  assert_condition (&w, "PodTemplateOutOfDate", "True", "SpecChanged");
  assert_non_null (strstr (json_str (condition (&w, "PodTemplateOutOfDate"), "message"), "8 Pods of group tpu"));
  world_free (&w);
}

static void
test_features_left_out_are_a_condition (void **state)
{
  struct world w;

  (void) state;
  world_init (&w, manifest);
  write_status (&w);
  assert_null (condition (&w, "UnsupportedFeature"));
  json_set_bool (json_obj (json_obj (w.object, "spec"), "tlsOptions"), "enabled", true);
  write_status (&w);
  assert_condition (&w, "UnsupportedFeature", "True", "UnsupportedRayClusterFeature");
  assert_non_null (strstr (json_str (condition (&w, "UnsupportedFeature"), "message"), "tlsOptions"));
  json_drop (json_get (w.object, "spec"), "tlsOptions");
  write_status (&w);
  assert_null (condition (&w, "UnsupportedFeature"));
  world_free (&w);
}

static void
test_suspension_goes_through_once_begun (void **state)
{
  struct world w;

  (void) state;
  world_init (&w, manifest);
  world_settle (&w);
  json_set_bool (json_obj (w.object, "spec"), "suspend", true);
  write_status (&w);
  assert_condition (&w, "RayClusterSuspending", "True", "RayClusterSuspending");
  json_drop (json_obj (w.object, "spec"), "suspend");
  write_status (&w);
  assert_condition (&w, "RayClusterSuspending", "True", "RayClusterSuspending"); /* pods are still there */
  while (w.npods > 0)
    world_vanish (&w, 0);
  write_status (&w);
  assert_condition (&w, "RayClusterSuspending", "False", "RayClusterSuspending");
  assert_condition (&w, "RayClusterSuspended", "True", "RayClusterSuspended");
  write_status (&w); /* an absent suspend counts as false: resumed */
  assert_condition (&w, "RayClusterSuspended", "False", "RayClusterSuspended");
  world_free (&w);
}

/* On a dead node a pod is Terminating for ever; it held up the suspension, and with it resuming. */
static void
test_a_suspension_ends_although_a_pod_is_stuck (void **state)
{
  struct world w;

  (void) state;
  world_init (&w, manifest);
  world_settle (&w);
  json_set_bool (json_obj (w.object, "spec"), "suspend", true);
  write_status (&w);
  while (w.npods > 1)
    world_vanish (&w, 0);
  world_delete (&w, 0);
  w.now_ms += 30000 + ray_default_plan_options.terminating_timeout_ms - 1;
  write_status (&w);
  assert_condition (&w, "RayClusterSuspended", "False", "RayClusterSuspended");
  w.now_ms++;
  write_status (&w);
  assert_condition (&w, "RayClusterSuspended", "True", "RayClusterSuspended");
  world_free (&w);
}

/* A merge patch leaves alone what it does not name: the same status was written for ever. */
static void
test_what_vanishes_inside_the_status_is_taken_back (void **state)
{
  struct world w;
  struct ray_pod *head;

  (void) state;
  world_init (&w, manifest);
  world_settle (&w);
  head = world_find (&w, RAY_HEAD_GROUP, -1, -1);
  head->ip = "10.0.0.1";
  write_status (&w);
  assert_string_equal (json_str (w.object, "status", "head", "podIP"), "10.0.0.1");
  head->ip = "";
  assert_true (write_status (&w));
  assert_null (json_get (w.object, "status", "head", "podIP"));
  assert_false (write_status (&w));
  world_free (&w);
}

static void
test_digest_explains_why_the_head_is_not_ready (void **state)
{
  static const char pod[]
      = "{\"metadata\":{\"name\":\"h\",\"labels\":{\"ray.io/cluster\":\"c\",\"ray.io/node-type\":\"head\"}},"
        "\"spec\":{\"containers\":[{\"name\":\"ray-head\"}]},\"status\":{\"phase\":\"Running\",\"conditions\":[{"
        "\"type\":\"Ready\","
        "\"status\":\"False\",\"reason\":\"ContainersNotReady\",\"message\":\"containers with unready status: "
        "[ray-head]\"}],"
        "\"containerStatuses\":[{\"name\":\"ray-head\",\"state\":{\"waiting\":{\"reason\":\"ImagePullBackOff\","
        "\"message\":\"no such image\"}}}]}}";
  cleanup_json cJSON *v = NULL;
  cleanup_free struct ray_pod *digest = NULL;

  (void) state;
  assert_int_equal (json_parse (&v, pod, strlen (pod), NULL), 0);
  digest = ray_pod_digest (v);
  assert_string_equal (digest->ready_reason, "ImagePullBackOff");
  assert_string_equal (digest->ready_message, "containers with unready status: [ray-head]; ray-head: no such image");
}

static void
test_digest_knows_a_dead_pod (void **state)
{
  static const struct
  {
    const char *phase, *policy, *container_state;
    bool dead;
  } cases[] = {
    { "Failed", "Always", "running", true },     { "Succeeded", "Always", "running", true },
    { "Running", "Never", "terminated", true },  { "Running", "Always", "terminated", false },
    { "Running", "Never", "running", false },    { "Pending", "Never", "terminated", false },
    { "Unknown", "Never", "terminated", false },
  };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (cases); i++)
    {
      cleanup_free char *text = xasprintf ("{\"metadata\":{\"name\":\"p\",\"labels\":{\"ray.io/"
                                           "cluster\":\"c\"}},\"spec\":{\"restartPolicy\":\"%s\",\"containers\":"
                                           "[{\"name\":\"ray\"},{\"name\":\"side\"}]},\"status\":{\"phase\":\"%s\","
                                           "\"containerStatuses\":[{\"name\":\"side\",\"state\":"
                                           "{\"terminated\":{}}},{\"name\":\"ray\",\"state\":{\"%s\":{}}}]}}",
                                           cases[i].policy, cases[i].phase, cases[i].container_state);
      cleanup_json cJSON *v = NULL;
      cleanup_free struct ray_pod *digest = NULL;

      assert_int_equal (json_parse (&v, text, strlen (text), NULL), 0);
      digest = ray_pod_digest (v);
      assert_int_equal (digest->dead, cases[i].dead);
    }
}

/* §1.5: how HeadPodReady speaks. */
static void
test_condition_of_the_head (void **state)
{
  static const struct
  {
    const char *ready; /* the Pod's condition, or NULL */
    const char *status, *reason, *message;
  } rows[] = {
    { NULL, "Unknown", "Unknown", "" },
    { "{\"type\":\"Ready\",\"status\":\"True\"}", "True", "HeadPodRunningAndReady", "" },
    { "{\"type\":\"Ready\",\"status\":\"True\",\"reason\":\"Mine\",\"message\":\"m\"}", "True", "Mine", "m" },
    { "{\"type\":\"Ready\",\"status\":\"False\",\"reason\":\"PodFailed\",\"message\":\"m\"}", "False", "PodFailed",
      "m" },
    { "{\"type\":\"Ready\",\"status\":\"False\"}", "False", "Unknown", "" },
  };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (rows); i++)
    {
      cleanup_free char *text = xasprintf (
          "{\"metadata\":{\"name\":\"h\",\"labels\":{\"ray.io/cluster\":\"c\",\"ray.io/node-type\":\"head\"},"
          "\"ownerReferences\":[{\"controller\":true,\"uid\":\"uid-1\"}]},\"status\":{\"conditions\":[%s]}}",
          log_nonnull (rows[i].ready));
      cleanup_json cJSON *v = NULL, *status = NULL;
      cleanup_free struct ray_pod *head = NULL;
      const struct ray_pod *pods[1];
      struct ray_observed observed = { .pods = pods, .npods = 1 };
      static const struct ray_problems none = { 0 };
      struct world w;
      const cJSON *c;

      assert_int_equal (json_parse (&v, text, strlen (text), NULL), 0);
      pods[0] = head = ray_pod_digest (v);
      world_init (&w, manifest);
      assert_int_equal (ray_cluster_decode (&w.cluster, w.object, NULL, NULL), 0);
      status = ray_status_make (&w.cluster, &observed, &ray_default_plan_options, &none, NULL, w.now_ms);
      c = json_find (json_get (status, "conditions"), "type", "HeadPodReady");
      assert_string_equal (json_str (c, "status"), rows[i].status);
      assert_string_equal (json_str (c, "reason"), rows[i].reason);
      assert_string_equal (json_str (c, "message"), rows[i].message);
      world_free (&w);
    }
}

/* §1.5: which resources count as GPUs, as TPUs, and what no resources are. */
static void
test_desired_resources (void **state)
{
  static const struct
  {
    const char *resources, *cpu, *memory, *gpu, *tpu;
  } rows[] = {
    { "{}", "0", "0", "0", "0" },
    { "{limits: {cpu: 1500m, memory: 1Gi}, requests: {cpu: 1}}", "1", "1Gi", "0", "0" },
    { "{limits: {nvidia.com/gpu: 2, amd.com/gpu: 1}}", "0", "0", "3", "0" },
    { "{limits: {nvidia.com/mig-1g.5gb: 2, nvidia.com/mig-2g.10gb: 1}}", "0", "0", "3", "0" },
    { "{limits: {nvidia.com/mig-1g.5gbx: 2, nvidia.com/mig-big-gb: 1, mig-1g.5gb: 1}}", "0", "0", "0", "0" },
    { "{limits: {google.com/tpu: 4, aws.amazon.com/neuroncore: 4}}", "0", "0", "0", "4" },
  };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (rows); i++)
    {
      cleanup_free char *yaml = xasprintf ("metadata: {name: c, namespace: ns}\n"
                                           "spec: {headGroupSpec: {template: {spec: {containers: [{name: h, "
                                           "resources: %s}]}}}}",
                                           rows[i].resources);
      cleanup_json cJSON *status = NULL;
      struct world w;

      world_init (&w, yaml);
      status = status_of (&w, NULL, NULL);
      assert_string_equal (json_str (status, "desiredCPU"), rows[i].cpu);
      assert_string_equal (json_str (status, "desiredMemory"), rows[i].memory);
      assert_string_equal (json_str (status, "desiredGPU"), rows[i].gpu);
      assert_string_equal (json_str (status, "desiredTPU"), rows[i].tpu);
      world_free (&w);
    }
}

/* §1.5: the node port, else the target port. */
static void
test_endpoints (void **state)
{
  static const char service[]
      = "{\"metadata\":{\"name\":\"s\",\"labels\":{\"ray.io/cluster\":\"c\",\"ray.io/"
        "node-type\":\"head\"}},\"spec\":{\"ports\":"
        "[{\"name\":\"a\",\"port\":1,\"targetPort\":11,\"nodePort\":30001},{\"name\":\"b\",\"port\":2,\"targetPort\":"
        "12},"
        "{\"name\":\"c\",\"port\":3},{\"name\":\"d\",\"port\":4,\"targetPort\":\"http\"},{\"port\":5}]}}";
  cleanup_json cJSON *v = NULL;
  cleanup_free struct ray_service *digest = NULL;

  (void) state;
  assert_int_equal (json_parse (&v, service, strlen (service), NULL), 0);
  digest = ray_service_digest (v);
  assert_string_equal (digest->endpoints, "{\"a\":\"30001\",\"b\":\"12\",\"c\":\"3\",\"d\":\"http\"}");
}

/* Appendix A, when every Pod is Running and ready. */
static void
test_worked_example (void **state)
{
  static const struct ray_problems none = { 0 };
  cleanup_free char *text = read_fixture ("raycluster_v4_multihost.yaml");
  cleanup_free struct ray_service *head = NULL;
  cleanup_json cJSON *service = NULL, *status = NULL;
  struct ray_observed observed;
  struct world w;

  (void) state;
  world_init (&w, text);
  world_settle (&w);
  world_run_all (&w);
  for (size_t i = 0; i < w.npods; i++)
    w.pods[i]->ip = "10.1.2.3";
  service = ray_build_head_service (&w.cluster, &ray_default_options);
  head = ray_service_digest (service);
  observed = (struct ray_observed){ .pods = (const struct ray_pod **) w.pods,
                                    .npods = w.npods,
                                    .services = (const struct ray_service *[]){ head },
                                    .nservices = 1 };
  status = ray_status_make (&w.cluster, &observed, &ray_default_plan_options, &none, NULL, w.now_ms);
  json_drop (status, "conditions");
  json_drop (status, "stateTransitionTimes");
  json_drop (json_get (status, "head"), "podName");
  assert_json_text (
      status, "{\"state\":\"ready\",\"desiredWorkerReplicas\":2,\"minWorkerReplicas\":2,\"maxWorkerReplicas\":2,"
              "\"availableWorkerReplicas\":2,\"readyWorkerReplicas\":2,\"desiredCPU\":\"10\",\"desiredMemory\":"
              "\"120G\",\"desiredGPU\":\"0\",\"desiredTPU\":\"8\",\"head\":{\"podIP\":\"10.1.2.3\","
              "\"serviceName\":\"raycluster-tpu-v4-multihost-head-svc\",\"serviceIP\":\"10.1.2.3\"},\"endpoints\":{"
              "\"client\":\"10001\",\"dashboard\":\"8265\",\"gcs\":\"6379\",\"metrics\":\"8080\",\"mxla\":\"8081\","
              "\"serve\":\"8000\",\"slicebuilder\":\"8471\"},\"observedGeneration\":1}");
  world_free (&w);
}

/* A head Service of an earlier name stays beside the present one; others' do not count. */
static void
test_the_head_service_is_the_one_of_the_present_name (void **state)
{
  struct ray_service services[] = {
    { .name = "old", .owner_uid = "uid-1", .cluster_ip = "10.0.0.1", .endpoints = "", .is_head = true },
    { .name = "c-head-svc", .owner_uid = "uid-1", .cluster_ip = "10.0.0.2", .endpoints = "", .is_head = true },
    { .name = "older", .owner_uid = "uid-1", .cluster_ip = "10.0.0.3", .endpoints = "", .is_head = true },
    { .name = "c-head-svc", .owner_uid = "uid-2", .cluster_ip = "10.0.0.4", .endpoints = "", .is_head = true },
  };
  const struct ray_service *pointers[] = { &services[0], &services[1], &services[2], &services[3] };
  struct ray_observed observed = { .services = pointers, .nservices = ARRAY_LEN (pointers) };
  static const struct ray_problems none = { 0 };
  cleanup_json cJSON *status = NULL;
  struct world w;

  (void) state;
  world_init (&w, manifest);
  assert_int_equal (ray_cluster_decode (&w.cluster, w.object, NULL, NULL), 0);
  status = ray_status_make (&w.cluster, &observed, &ray_default_plan_options, &none, NULL, w.now_ms);
  assert_string_equal (json_str (status, "head", "serviceName"), "c-head-svc");
  assert_string_equal (json_str (status, "head", "serviceIP"), "10.0.0.2");
  world_free (&w);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_counts_are_in_pods_and_resources_are_those_wanted),
    cmocka_unit_test (test_ready_is_true_only_while_it_is_true),
    cmocka_unit_test (test_provisioned_needs_the_desired_count),
    cmocka_unit_test (test_pods_being_deleted_do_not_count),
    cmocka_unit_test (test_an_unchanged_world_writes_nothing),
    cmocka_unit_test (test_transition_times_move_only_with_the_status),
    cmocka_unit_test (test_failures_and_problems_are_conditions_that_go_away),
    cmocka_unit_test (test_pods_of_an_earlier_template_are_told_of),
    cmocka_unit_test (test_features_left_out_are_a_condition),
    cmocka_unit_test (test_suspension_goes_through_once_begun),
    cmocka_unit_test (test_a_suspension_ends_although_a_pod_is_stuck),
    cmocka_unit_test (test_what_vanishes_inside_the_status_is_taken_back),
    cmocka_unit_test (test_digest_explains_why_the_head_is_not_ready),
    cmocka_unit_test (test_digest_knows_a_dead_pod),
    cmocka_unit_test (test_condition_of_the_head),
    cmocka_unit_test (test_desired_resources),
    cmocka_unit_test (test_endpoints),
    cmocka_unit_test (test_worked_example),
    cmocka_unit_test (test_the_head_service_is_the_one_of_the_present_name),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
