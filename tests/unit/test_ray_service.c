/* The head Service and the headless worker Service (§2.3). */
#include "test_ray.h"

#define CLUSTER                                                                                                        \
  "metadata: {name: c, namespace: ns, uid: u}\n"                                                                       \
  "spec: {headGroupSpec: {template: {spec: {containers: [{name: head}]}}}}"

static void
test_headless_by_default (void **state)
{
  cleanup_scene struct scene s = scene_yaml (CLUSTER);
  cleanup_json cJSON *service = ray_build_head_service (&s.cluster, &ray_default_options);

  (void) state;
  assert_service_postable (service);
  assert_json_text (service,
                    "{\"apiVersion\":\"v1\",\"kind\":\"Service\",\"metadata\":{\"name\":\"c-head-svc\",\"namespace\":"
                    "\"ns\",\"labels\":{\"ray.io/cluster\":\"c\",\"ray.io/node-type\":\"head\",\"ray.io/identifier\":"
                    "\"c-head\",\"app.kubernetes.io/name\":\"kuberay\",\"app.kubernetes.io/created-by\":"
                    "\"kuberay-operator\"},\"ownerReferences\":[{\"apiVersion\":\"ray.io/v1\",\"kind\":\"RayCluster\","
                    "\"name\":\"c\",\"uid\":\"u\",\"controller\":true,\"blockOwnerDeletion\":true}]},\"spec\":{"
                    "\"clusterIP\":\"None\",\"publishNotReadyAddresses\":true,\"type\":\"ClusterIP\",\"selector\":{"
                    "\"ray.io/cluster\":\"c\",\"ray.io/"
                    "node-type\":\"head\"},\"ports\":[{\"name\":\"client\",\"port\":10001,\"appProtocol\":\"tcp\"},{"
                    "\"name\":\"dashboard\","
                    "\"port\":8265,\"appProtocol\":\"tcp\"},{\"name\":\"gcs-server\",\"port\":6379,\"appProtocol\":"
                    "\"tcp\"},{\"name\":\"metrics\",\"port\":8080,\"appProtocol\":\"tcp\"},{\"name\":\"serve\","
                    "\"port\":8000,\"appProtocol\":\"tcp\"}]}}");
}

#define PORTS "/spec/headGroupSpec/template/spec/containers/0/ports"

static void
test_ports (void **state)
{
  static const struct
  {
    const char *name, *patch, *ports;
  } rows[] = {
    { "declared ports, sorted, with metrics",
      "[{\"op\":\"add\",\"path\":\"" PORTS "\",\"value\":[{\"containerPort\":6379,\"name\":\"gcs\"},{\"containerPort\":"
      "8265,\"name\":\"dashboard\"},{\"containerPort\":10001,\"name\":\"client\"}]}]",
      "client=10001,dashboard=8265,gcs=6379,metrics=8080" },
    { "unnamed ports", "[{\"op\":\"add\",\"path\":\"" PORTS "\",\"value\":[{\"containerPort\":6379}]}]",
      "6379-port=6379,metrics=8080" },
    { "a metrics port of the user's own",
      "[{\"op\":\"add\",\"path\":\"" PORTS "\",\"value\":[{\"containerPort\":9090,\"name\":\"metrics\"}]}]",
      "metrics=9090" },
    { "another name on 8080 is not doubled",
      "[{\"op\":\"add\",\"path\":\"" PORTS "\",\"value\":[{\"containerPort\":8080,\"name\":\"prom\"}]}]", "prom=8080" },
    { "UDP and TCP may share a number",
      "[{\"op\":\"add\",\"path\":\"" PORTS "\",\"value\":[{\"containerPort\":53,\"name\":\"a\",\"protocol\":\"UDP\"},{"
      "\"containerPort\":53,\"name\":\"b\"}]}]",
      "a=53,b=53,metrics=8080" },
    { "an empty list counts as none", "[{\"op\":\"add\",\"path\":\"" PORTS "\",\"value\":[]}]",
      "client=10001,dashboard=8265,gcs-server=6379,metrics=8080,serve=8000" },
    { "custom Service: the user's ports first, generated ones without duplicates of name or number",
      "[{\"op\":\"add\",\"path\":\"/spec/headGroupSpec/headService\",\"value\":{\"spec\":{\"ports\":[{\"name\":\"z\","
      "\"port\":8265},{\"name\":\"client\",\"port\":7},{\"port\":12}]}}}]",
      "z=8265,client=7,12-port=12,gcs-server=6379,metrics=8080,serve=8000" },
  };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (rows); i++)
    {
      cleanup_scene struct scene s = scene_patched (CLUSTER, rows[i].patch);
      cleanup_json cJSON *service = ray_build_head_service (&s.cluster, &ray_default_options);
      cleanup_free char *ports = ports_text (json_get (service, "spec", "ports"), "port");

      assert_service_postable (service);
      if (strcmp (ports, rows[i].ports) != 0)
        fail_msg ("%s: %s", rows[i].name, ports);
    }
}

static void
test_types (void **state)
{
  static const struct
  {
    const char *name, *patch;
    bool cluster_ip_option;
    const char *type;
    bool headless;
  } rows[] = {
    { "NodePort", "[{\"op\":\"add\",\"path\":\"/spec/headGroupSpec/serviceType\",\"value\":\"NodePort\"}]", false,
      "NodePort", false },
    { "empty", "[{\"op\":\"add\",\"path\":\"/spec/headGroupSpec/serviceType\",\"value\":\"\"}]", false, "ClusterIP",
      true },
    { "operator-wide ClusterIP", "[]", true, "ClusterIP", false },
    { "a custom Service is not made headless",
      "[{\"op\":\"add\",\"path\":\"/spec/headGroupSpec/headService\",\"value\":{}}]", false, "ClusterIP", false },
    { "the custom Service's type wins",
      "[{\"op\":\"add\",\"path\":\"/spec/headGroupSpec/serviceType\",\"value\":\"NodePort\"},{\"op\":\"add\",\"path\":"
      "\"/spec/headGroupSpec/headService\",\"value\":{\"spec\":{\"type\":\"LoadBalancer\"}}}]",
      false, "LoadBalancer", false },
  };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (rows); i++)
    {
      cleanup_scene struct scene s = scene_patched (CLUSTER, rows[i].patch);
      struct ray_options options = ray_default_options;
      cleanup_json cJSON *service = NULL;

      options.head_cluster_ip = rows[i].cluster_ip_option;
      service = ray_build_head_service (&s.cluster, &options);
      if (!text_eq (json_str (service, "spec", "type"), rows[i].type)
          || text_eq (json_str (service, "spec", "clusterIP"), "None") != rows[i].headless
          || json_bool (service, false, "spec", "publishNotReadyAddresses") != rows[i].headless)
        fail_msg ("%s", rows[i].name);
    }
}

static void
test_custom_service_merge (void **state)
{
  cleanup_scene struct scene s
      = scene_yaml ("metadata: {name: c, namespace: ns}\n"
                    "spec:\n"
                    "  headServiceAnnotations: {a: from-spec, b: '1'}\n"
                    "  headGroupSpec:\n"
                    "    headService:\n"
                    "      metadata: {name: mine, namespace: elsewhere, labels: {ray.io/cluster: other, team: x},\n"
                    "                 annotations: {a: from-service, c: '2'}}\n"
                    "      spec: {selector: {app: mine}, sessionAffinity: ClientIP, loadBalancerIP: null}\n"
                    "    template: {spec: {containers: [{name: head}]}}\n");
  cleanup_json cJSON *service = ray_build_head_service (&s.cluster, &ray_default_options);
  const cJSON *meta = json_get (service, "metadata");

  (void) state;
  assert_service_postable (service);
  assert_string_equal (json_str (meta, "name"), "mine");
  assert_string_equal (json_str (meta, "namespace"), "ns");
  assert_string_equal (json_str (meta, "labels", "ray.io/cluster"), "c");
  assert_string_equal (json_str (meta, "labels", "team"), "x");
  assert_json_text (json_get (meta, "annotations"), "{\"a\":\"from-spec\",\"c\":\"2\",\"b\":\"1\"}");
  assert_string_equal (json_str (service, "spec", "sessionAffinity"), "ClientIP");
  assert_null (json_get (service, "spec", "selector", "app"));
  assert_string_equal (json_str (service, "spec", "selector", "ray.io/cluster"), "c");
  assert_null (json_get (meta, "ownerReferences")); /* no uid yet: a rendered manifest has no owner to name */
}

/* Whatever the user overrides, now or later, the Service selects the pod that is built. */
static void
test_selector_matches_the_head (void **state)
{
  cleanup_scene struct scene s = scene_patched (
      CLUSTER,
      "[{\"op\":\"add\",\"path\":\"/spec/headGroupSpec/template/metadata\",\"value\":{\"labels\":{"
      "\"app.kubernetes.io/name\":\"mine\",\"ray.io/identifier\":\"other\",\"ray.io/cluster\":\"stolen\"}}},"
      "{\"op\":\"add\",\"path\":\"/spec/headGroupSpec/labels\",\"value\":{\"app.kubernetes.io/created-by\":\"me\"}}]");
  cleanup_json cJSON *service = ray_build_head_service (&s.cluster, &ray_default_options), *pod = build_head (&s);
  const cJSON *label;

  (void) state;
  assert_int_equal (cJSON_GetArraySize (json_get (service, "spec", "selector")), 2);
  cJSON_ArrayForEach (label, json_get (service, "spec", "selector"))
    assert_string_equal (label->valuestring, json_str (pod, "metadata", "labels", label->string));
  assert_string_equal (json_str (service, "metadata", "labels", "app.kubernetes.io/name"), "mine");
  assert_string_equal (json_str (service, "spec", "selector", "ray.io/cluster"), "c");
}

static void
test_headless_worker_service (void **state)
{
  cleanup_scene struct scene s = scene_yaml ("metadata: {name: c, namespace: ns, uid: u}");
  cleanup_json cJSON *service = ray_build_headless_service (&s.cluster, &ray_default_options);

  (void) state;
  assert_service_postable (service);
  assert_json_text (
      service, "{\"apiVersion\":\"v1\",\"kind\":\"Service\",\"metadata\":{\"name\":\"c-headless\",\"namespace\":\"ns\","
               "\"labels\":{\"ray.io/headless-worker-svc\":\"c\"},\"ownerReferences\":[{\"apiVersion\":\"ray.io/v1\","
               "\"kind\":\"RayCluster\",\"name\":\"c\",\"uid\":\"u\",\"controller\":true,\"blockOwnerDeletion\":true}]"
               "},\"spec\":{\"type\":\"ClusterIP\",\"clusterIP\":\"None\",\"publishNotReadyAddresses\":true,"
               "\"selector\":{\"ray.io/cluster\":\"c\",\"ray.io/node-type\":\"worker\"}}}");
}

static void
test_worked_example (void **state)
{
  cleanup_scene struct scene s = scene_fixture ("raycluster_v4_multihost.yaml");
  cleanup_json cJSON *service = ray_build_head_service (&s.cluster, &ray_default_options);
  cleanup_free char *ports = ports_text (json_get (service, "spec", "ports"), "port");

  (void) state;
  assert_service_postable (service);
  assert_string_equal (json_str (service, "metadata", "name"), "raycluster-tpu-v4-multihost-head-svc");
  assert_string_equal (json_str (service, "spec", "clusterIP"), "None");
  assert_string_equal (ports,
                       "client=10001,dashboard=8265,gcs=6379,metrics=8080,mxla=8081,serve=8000,slicebuilder=8471");
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_headless_by_default),
    cmocka_unit_test (test_ports),
    cmocka_unit_test (test_types),
    cmocka_unit_test (test_custom_service_merge),
    cmocka_unit_test (test_selector_matches_the_head),
    cmocka_unit_test (test_headless_worker_service),
    cmocka_unit_test (test_worked_example),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
