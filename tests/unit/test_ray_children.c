/* What a RayCluster owns besides pods (§2.3, §2.10): which objects, their content, and how a changed one is repaired.
 */
#include "test_ray.h"

#include "ray/plan.h"

#define CLUSTER                                                                                                        \
  "metadata: {name: c, namespace: ns, uid: u}\n"                                                                       \
  "spec:\n"                                                                                                            \
  "  headGroupSpec: {template: {spec: {containers: [{name: head, ports: [{containerPort: 8000, name: serve}]}]}}}\n"   \
  "  workerGroupSpecs:\n"                                                                                              \
  "  - {groupName: g, numOfHosts: 1, template: {spec: {containers: [{name: w}]}}}\n"

#define ADD(path, value) "{\"op\":\"add\",\"path\":\"" path "\",\"value\":" value "}"
#define ONE(path, value) "[" ADD (path, value) "]"
#define TWO(p1, v1, p2, v2) "[" ADD (p1, v1) "," ADD (p2, v2) "]"
#define FOUR(p1, v1, p2, v2, p3, v3, p4, v4) "[" ADD (p1, v1) "," ADD (p2, v2) "," ADD (p3, v3) "," ADD (p4, v4) "]"
#define HEAD "/spec/headGroupSpec"
#define NAME_53 "a2345678901234567890123456789012345678901234567890123"
#define NAME_50 "r5678901234567890123456789012345678901234567890123"

static const struct ray_child *
find_child (const struct ray_children *children, const char *kind, const char *name)
{
  for (size_t i = 0; i < children->count; i++)
    if (strcmp (ray_child_types[children->items[i].kind].kind, kind) == 0
        && strcmp (ray_child_name (&children->items[i]), name) == 0)
      return &children->items[i];
  return NULL;
}

/* "Kind/name" of each, * for what pods wait for, + for what the head waits for, ! for the user's own. */
static char *
summary (const struct ray_children *children)
{
  static const char *const gates[] = { "", "+", "*" };
  struct buf text = { 0 };

  for (size_t i = 0; i < children->count; i++)
    buf_printf (&text, "%s%s/%s%s%s", i > 0 ? " " : "", ray_child_types[children->items[i].kind].kind,
                ray_child_name (&children->items[i]), gates[children->items[i].gate],
                children->items[i].external ? "!" : "");
  return buf_take (&text);
}

static void
test_which_objects (void **state)
{
  static const struct
  {
    const char *name, *patch, *objects;
  } rows[] = {
    { "plain", "[]", "Service/c-head-svc*" },
    { "multi-host", ONE ("/spec/workerGroupSpecs/0/numOfHosts", "2"), "Service/c-head-svc* Service/c-headless*" },
    { "serve Service", ONE ("/metadata/annotations", "{\"ray.io/enable-serve-service\":\"true\"}"),
      "Service/c-head-svc* Service/c-serve-svc" },
    { "serve Service refused", ONE ("/metadata/annotations", "{\"ray.io/enable-serve-service\":\"false\"}"),
      "Service/c-head-svc*" },
    { "autoscaler", ONE ("/spec/enableInTreeAutoscaling", "true"),
      "Service/c-head-svc* ServiceAccount/c+ Role/c RoleBinding/c" },
    { "autoscaler with an account of the user's",
      TWO ("/spec/enableInTreeAutoscaling", "true", HEAD "/template/spec/serviceAccountName", "\"mine\""),
      "Service/c-head-svc* ServiceAccount/mine+! Role/c RoleBinding/c" },
    { "Ingress", ONE (HEAD "/enableIngress", "true"), "Service/c-head-svc* Ingress/c-head-ingress" },
    { "token", ONE ("/spec/authOptions", "{\"mode\":\"token\"}"), "Service/c-head-svc* Secret/c*" },
    { "a token Secret of the user's", ONE ("/spec/authOptions", "{\"mode\":\"token\",\"secretName\":\"s\"}"),
      "Service/c-head-svc*" },
    { "k8s token", ONE ("/spec/authOptions", "{\"mode\":\"token\",\"enableK8sTokenAuth\":true}"),
      "Service/c-head-svc*" },
    { "authOptions without mode", ONE ("/spec/authOptions", "{}"), "Service/c-head-svc*" },
    { "redis", ONE ("/spec/gcsFaultToleranceOptions", "{\"redisAddress\":\"r:1\"}"), "Service/c-head-svc*" },
    { "rocksdb", ONE ("/spec/gcsFaultToleranceOptions", "{\"backend\":\"rocksdb\"}"),
      "Service/c-head-svc* PersistentVolumeClaim/c-gcs-pvc+" },
    { "rocksdb on a claim of the user's",
      ONE ("/spec/gcsFaultToleranceOptions", "{\"backend\":\"rocksdb\",\"storage\":{\"claimName\":\"d\"}}"),
      "Service/c-head-svc* PersistentVolumeClaim/d+!" },
    { "network policies", ONE ("/spec/networkPolicy", "{}"),
      "Service/c-head-svc* NetworkPolicy/c-head* NetworkPolicy/c-workers-g*" },
    { "names of more than 50 characters lose their beginning, those of Services do not",
      FOUR ("/metadata/name", "\"" NAME_53 "\"", "/spec/enableInTreeAutoscaling", "true", HEAD "/enableIngress", "true",
            "/spec/authOptions", "{\"mode\":\"token\"}"),
      "Service/" NAME_53 "-head-svc* ServiceAccount/" NAME_50 "+ Role/" NAME_50 " RoleBinding/" NAME_50
      " Ingress/r890123456789012345678901234567890123-head-ingress Secret/" NAME_50 "*" },
  };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (rows); i++)
    {
      cleanup_scene struct scene s = scene_patched (CLUSTER, rows[i].patch);
      cleanup_children struct ray_children children = { 0 };
      cleanup_free char *text = NULL;

      ray_children_make (&children, &s.cluster, &ray_default_options);
      text = summary (&children);
      if (strcmp (text, rows[i].objects) != 0)
        fail_msg ("%s: %s", rows[i].name, text);
      for (size_t k = 0; k < children.count; k++)
        {
          const struct ray_child *child = &children.items[k];
          const cJSON *owner = cJSON_GetArrayItem (json_get (child->object, "metadata", "ownerReferences"), 0);

          assert_no_nulls (child->object);
          assert_int_equal (owner != NULL, !child->external);
          assert_string_equal (json_str (child->object, "apiVersion"), ray_child_types[child->kind].api_version);
        }
    }
}

/* ---- content ---- */

static void
assert_part (const char *patch, const char *kind, const char *name, const char *member, const char *expected)
{
  cleanup_scene struct scene s = scene_patched (CLUSTER, patch);
  cleanup_children struct ray_children children = { 0 };
  const struct ray_child *child;

  ray_children_make (&children, &s.cluster, &ray_default_options);
  child = find_child (&children, kind, name);
  assert_non_null (child);
  assert_json_text (json_get (child->object, member), expected);
}

#define LABELS_OF_C                                                                                                    \
  "\"ray.io/cluster\":\"c\",\"app.kubernetes.io/name\":\"kuberay\",\"app.kubernetes.io/"                               \
  "created-by\":\"kuberay-operator\""
#define OWNER_C                                                                                                        \
  "[{\"apiVersion\":\"ray.io/v1\",\"kind\":\"RayCluster\",\"name\":\"c\",\"uid\":\"u\",\"controller\":true,"           \
  "\"blockOwnerDeletion\":true}]"
#define PEERS_OF_C "[{\"podSelector\":{\"matchLabels\":{\"ray.io/cluster\":\"c\"}}}]"
#define INGRESS_OF_C "{\"from\":" PEERS_OF_C "}"
#define EGRESS_OF_C "{\"to\":" PEERS_OF_C "}"
#define DNS "{\"ports\":[{\"protocol\":\"UDP\",\"port\":53},{\"protocol\":\"TCP\",\"port\":53}]}"
#define FROM_OPERATOR(port)                                                                                            \
  "{\"from\":[{\"namespaceSelector\":{},\"podSelector\":{\"matchLabels\":{\"app.kubernetes.io/name\":"                 \
  "\"ray-tpu-operator\"}}}],\"ports\":[{\"protocol\":\"TCP\",\"port\":" port "}]}"
#define HEAD_SELECTOR "{\"matchLabels\":{\"ray.io/cluster\":\"c\",\"ray.io/node-type\":\"head\"}}"
#define GROUP_SELECTOR                                                                                                 \
  "{\"matchLabels\":{\"ray.io/cluster\":\"c\",\"ray.io/node-type\":\"worker\",\"ray.io/group\":\"g\"}}"

static void
test_content (void **state)
{
  static const struct
  {
    const char *patch, *kind, *name, *member, *expected;
  } rows[] = {
    { ONE ("/spec/enableInTreeAutoscaling", "true"), "Role", "c", "rules",
      "[{\"apiGroups\":[\"\"],\"resources\":[\"pods\"],\"verbs\":[\"get\",\"list\",\"watch\",\"patch\"]},"
      "{\"apiGroups\":[\"\"],\"resources\":[\"pods/resize\"],\"verbs\":[\"patch\"]},"
      "{\"apiGroups\":[\"ray.io\"],\"resources\":[\"rayclusters\"],\"verbs\":[\"get\",\"patch\"]}]" },
    { ONE ("/spec/enableInTreeAutoscaling", "true"), "RoleBinding", "c", "subjects",
      "[{\"kind\":\"ServiceAccount\",\"name\":\"c\",\"namespace\":\"ns\"}]" },
    { TWO ("/spec/enableInTreeAutoscaling", "true", HEAD "/template/spec/serviceAccountName", "\"mine\""),
      "RoleBinding", "c", "subjects", "[{\"kind\":\"ServiceAccount\",\"name\":\"mine\",\"namespace\":\"ns\"}]" },
    { ONE ("/spec/enableInTreeAutoscaling", "true"), "RoleBinding", "c", "roleRef",
      "{\"apiGroup\":\"rbac.authorization.k8s.io\",\"kind\":\"Role\",\"name\":\"c\"}" },
    { ONE ("/metadata/annotations", "{\"ray.io/enable-serve-service\":\"true\"}"), "Service", "c-serve-svc", "metadata",
      "{\"name\":\"c-serve-svc\",\"namespace\":\"ns\",\"labels\":{" LABELS_OF_C
      ",\"ray.io/originated-from-cr-name\":\"c\",\"ray.io/originated-from-crd\":\"RayCluster\",\"ray.io/serve\":"
      "\"c-serve\"},\"ownerReferences\":" OWNER_C "}" },
    { ONE ("/spec/enableInTreeAutoscaling", "true"), "Role", "c", "metadata",
      "{\"name\":\"c\",\"namespace\":\"ns\",\"labels\":{" LABELS_OF_C "},\"ownerReferences\":" OWNER_C "}" },
    { ONE (HEAD "/enableIngress", "true"), "Ingress", "c-head-ingress", "metadata",
      "{\"name\":\"c-head-ingress\",\"namespace\":\"ns\",\"labels\":{" LABELS_OF_C
      ",\"ray.io/identifier\":\"c-head\"},\"ownerReferences\":" OWNER_C "}" },
    { TWO (HEAD "/enableIngress", "true", HEAD "/template/spec/containers/0/ports",
           "[{\"name\":\"dashboard\",\"containerPort\":8266}]"),
      "Ingress", "c-head-ingress", "spec",
      "{\"rules\":[{\"http\":{\"paths\":[{\"path\":\"/\",\"pathType\":\"Prefix\",\"backend\":{\"service\":{\"name\":"
      "\"c-head-svc\",\"port\":{\"number\":8266}}}}]}}]}" },
    { ONE (HEAD "/enableIngress", "true"), "Ingress", "c-head-ingress", "spec",
      "{\"rules\":[{\"http\":{\"paths\":[{\"path\":\"/\",\"pathType\":\"Prefix\",\"backend\":{\"service\":{\"name\":"
      "\"c-head-svc\",\"port\":{\"number\":8265}}}}]}}]}" },
    { TWO (HEAD "/enableIngress", "true", HEAD "/ingressOptions",
           "{\"host\":\"h\",\"path\":\"/d\",\"pathType\":\"Exact\",\"tls\":[{\"hosts\":[\"h\"]}]}"),
      "Ingress", "c-head-ingress", "spec",
      "{\"rules\":[{\"host\":\"h\",\"http\":{\"paths\":[{\"path\":\"/d\",\"pathType\":\"Exact\",\"backend\":{"
      "\"service\":{\"name\":\"c-head-svc\",\"port\":{\"number\":8265}}}}]}}],\"tls\":[{\"hosts\":[\"h\"]}]}" },
    { ONE ("/spec/gcsFaultToleranceOptions", "{\"backend\":\"rocksdb\"}"), "PersistentVolumeClaim", "c-gcs-pvc", "spec",
      "{\"accessModes\":[\"ReadWriteOnce\"],\"resources\":{\"requests\":{\"storage\":\"1Gi\"}}}" },
    { ONE ("/spec/gcsFaultToleranceOptions", "{\"backend\":\"rocksdb\",\"storage\":{\"size\":\"5Gi\","
                                             "\"storageClassName\":\"fast\",\"accessModes\":[\"ReadWriteMany\"]}}"),
      "PersistentVolumeClaim", "c-gcs-pvc", "spec",
      "{\"accessModes\":[\"ReadWriteMany\"],\"resources\":{\"requests\":{\"storage\":\"5Gi\"}},\"storageClassName\":"
      "\"fast\"}" },
    { ONE ("/metadata/annotations", "{\"ray.io/enable-serve-service\":\"true\"}"), "Service", "c-serve-svc", "spec",
      "{\"type\":\"ClusterIP\",\"selector\":{\"ray.io/cluster\":\"c\"},\"ports\":[{\"name\":\"serve\",\"port\":8000,"
      "\"appProtocol\":\"tcp\"}]}" },
    { ONE ("/spec/networkPolicy", "{}"), "NetworkPolicy", "c-head", "spec",
      "{\"podSelector\":" HEAD_SELECTOR ",\"policyTypes\":[\"Ingress\",\"Egress\"],\"ingress\":[" INGRESS_OF_C
      "," FROM_OPERATOR ("8265") "],\"egress\":[" EGRESS_OF_C "," DNS "]}" },
    { TWO ("/spec/networkPolicy", "{\"mode\":\"DenyAllIngress\"}", HEAD "/rayStartParams",
           "{\"dashboard-port\":\"9\"}"),
      "NetworkPolicy", "c-head", "spec",
      "{\"podSelector\":" HEAD_SELECTOR ",\"policyTypes\":[\"Ingress\"],\"ingress\":[" INGRESS_OF_C
      "," FROM_OPERATOR ("9") "]}" },
    { ONE ("/spec/networkPolicy",
           "{\"mode\":\"DenyAllEgress\",\"worker\":{\"egressRules\":[{\"ports\":[{\"port\":1}]}]}}"),
      "NetworkPolicy", "c-workers-g", "spec",
      "{\"podSelector\":" GROUP_SELECTOR ",\"policyTypes\":[\"Egress\"],\"egress\":[" EGRESS_OF_C "," DNS
      ",{\"ports\":[{\"port\":1,\"protocol\":\"TCP\"}]}]}" },
    { ONE ("/spec/networkPolicy",
           "{\"mode\":\"DenyAllEgress\",\"worker\":{\"egressRules\":[{\"ports\":[{\"port\":1}]}]},\"workerGroups\":[{"
           "\"groupName\":\"g\",\"egressRules\":[{\"ports\":[{\"port\":2,\"protocol\":\"UDP\"}]}]}]}"),
      "NetworkPolicy", "c-workers-g", "spec",
      "{\"podSelector\":" GROUP_SELECTOR ",\"policyTypes\":[\"Egress\"],\"egress\":[" EGRESS_OF_C "," DNS
      ",{\"ports\":[{\"port\":2,\"protocol\":\"UDP\"}]}]}" },
  };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (rows); i++)
    assert_part (rows[i].patch, rows[i].kind, rows[i].name, rows[i].member, rows[i].expected);
}

static void
test_ingress_takes_the_clusters_annotations_and_its_class (void **state)
{
  cleanup_scene struct scene s = scene_patched (
      CLUSTER, TWO (HEAD "/enableIngress", "true", "/metadata/annotations",
                    "{\"kubernetes.io/ingress.class\":\"nginx\",\"a\":\"b\",\"ray-tpu-operator/slices\":\"x\","
                    "\"kubectl.kubernetes.io/last-applied-configuration\":\"{}\"}"));
  cleanup_json cJSON *ingress = ray_build_ingress (&s.cluster);

  (void) state;
  assert_json_text (json_get (ingress, "metadata", "annotations"), "{\"a\":\"b\"}");
  assert_string_equal (json_str (ingress, "spec", "ingressClassName"), "nginx");
}

/* ---- repair: live objects as a real API server returned them ---- */

struct stage
{
  struct scene scene;
  struct ray_children children;
  cJSON *live; /* array */
};

static void
stage_open (struct stage *st)
{
  cleanup_free char *text = read_fixture ("children_live.json");

  st->scene = scene_fixture ("children.yaml");
  assert_int_equal (json_parse (&st->live, text, strlen (text), NULL), 0);
  ray_children_make (&st->children, &st->scene.cluster, &ray_default_options);
}

static void
stage_close (struct stage *st)
{
  ray_children_free (&st->children);
  cJSON_Delete (st->live);
  scene_close (&st->scene);
}

static const cJSON *
live_of (const struct stage *st, const char *kind, const char *name)
{
  const cJSON *item;

  cJSON_ArrayForEach (item, st->live)
    if (text_eq (json_str (item, "kind"), kind) && text_eq (json_str (item, "metadata", "name"), name))
      return item;
  fail_msg ("no %s %s in the fixture", kind, name);
  return NULL;
}

static void
test_nothing_to_repair_in_what_the_server_made (void **state)
{
  struct stage st = { 0 };
  size_t compared = 0;
  const cJSON *live;

  (void) state;
  stage_open (&st);
  cJSON_ArrayForEach (live, st.live)
    {
      const struct ray_child *child
          = find_child (&st.children, json_str (live, "kind"), json_str (live, "metadata", "name"));
      cleanup_json cJSON *patch = NULL;
      cleanup_free char *complaint = NULL, *text = NULL;

      assert_non_null (child);
      patch = ray_child_repair (child, live);
      complaint = ray_child_complaint (child, live);
      text = json_print (patch);
      if (patch != NULL)
        fail_msg ("%s %s: %s", json_str (live, "kind"), ray_child_name (child), text);
      assert_null (complaint);
      assert_true (ray_child_is_ours (child, &st.scene.cluster, live));
      compared++;
    }
  assert_int_equal (compared, 10);
  stage_close (&st);
}

#define SPEC(member) "/spec/" member
#define HEAD_PORTS_SPEC                                                                                                \
  "{\"spec\":{\"ports\":["                                                                                             \
  "{\"name\":\"dashboard\",\"port\":8265,\"appProtocol\":\"tcp\",\"protocol\":\"TCP\",\"targetPort\":8265,"            \
  "\"nodePort\":32485},"                                                                                               \
  "{\"name\":\"gcs\",\"port\":6379,\"appProtocol\":\"tcp\",\"protocol\":\"TCP\",\"targetPort\":6379,"                  \
  "\"nodePort\":31176},"                                                                                               \
  "{\"name\":\"metrics\",\"port\":8080,\"appProtocol\":\"tcp\",\"protocol\":\"TCP\",\"targetPort\":8080,"              \
  "\"nodePort\":30484},"                                                                                               \
  "{\"name\":\"serve\",\"port\":8000,\"appProtocol\":\"tcp\",\"protocol\":\"TCP\",\"targetPort\":8000,"                \
  "\"nodePort\":30135}]}}"

static void
test_repair (void **state)
{
  static const struct
  {
    const char *name, *kind, *object, *drift, *patch; /* patch NULL: nothing is to be repaired */
  } rows[] = {
    { "a foreign label and annotation stay", "Service", "c-head-svc",
      TWO ("/metadata/labels/mine", "\"1\"", "/metadata/annotations/mine", "\"1\""), NULL },
    { "a label of ours comes back", "Service", "c-head-svc",
      "[{\"op\":\"remove\",\"path\":\"/metadata/labels/ray.io~1node-type\"}]",
      "{\"metadata\":{\"labels\":{\"ray.io/node-type\":\"head\"}}}" },
    { "an annotation of ours is put right", "Service", "c-head-svc", ONE ("/metadata/annotations/a", "\"x\""),
      "{\"metadata\":{\"annotations\":{\"a\":\"b\"}}}" },
    { "selector", "Service", "c-head-svc",
      TWO ("/spec/selector/x", "\"y\"", "/spec/selector/ray.io~1cluster", "\"other\""),
      "{\"spec\":{\"selector\":{\"x\":null,\"ray.io/cluster\":\"c\"}}}" },
    { "a target port", "Service", "c-head-svc", ONE ("/spec/ports/1/targetPort", "1"), HEAD_PORTS_SPEC },
    { "a renamed port keeps its node port", "Service", "c-head-svc", ONE ("/spec/ports/1/name", "\"x\""),
      HEAD_PORTS_SPEC },
    { "an added port goes", "Service", "c-head-svc", ONE ("/spec/ports/-", "{\"name\":\"x\",\"port\":1}"),
      HEAD_PORTS_SPEC },
    { "type", "Service", "c-head-svc", ONE ("/spec/type", "\"LoadBalancer\""), "{\"spec\":{\"type\":\"NodePort\"}}" },
    { "a cluster IP is never touched", "Service", "c-headless", ONE ("/spec/clusterIP", "\"10.0.0.1\""), NULL },
    { "publishNotReadyAddresses", "Service", "c-headless",
      "[{\"op\":\"remove\",\"path\":\"/spec/publishNotReadyAddresses\"}]",
      "{\"spec\":{\"publishNotReadyAddresses\":true}}" },
    { "a load balancer's address stays", "Service", "c-head-svc",
      ONE ("/status", "{\"loadBalancer\":{\"ingress\":[{\"ip\":\"1.2.3.4\"}]}}"), NULL },
    { "what others set in the spec stays", "Service", "c-head-svc",
      TWO ("/spec/externalTrafficPolicy", "\"Local\"", "/spec/healthCheckNodePort", "31999"), NULL },
    { "an owner reference of somebody else stays, ours returns", "ServiceAccount", "c",
      ONE ("/metadata/ownerReferences",
           "[{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"name\":\"m\",\"uid\":\"1\"}]"),
      "{\"metadata\":{\"ownerReferences\":[{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"name\":\"m\",\"uid\":\"1\"},"
      "{\"apiVersion\":\"ray.io/v1\",\"kind\":\"RayCluster\",\"name\":\"c\",\"uid\":"
      "\"11111111-2222-3333-4444-555555555555\",\"controller\":true,\"blockOwnerDeletion\":true}]}}" },
    { "rules", "Role", "c", ONE ("/rules", "[]"),
      "{\"rules\":[{\"apiGroups\":[\"\"],\"resources\":[\"pods\"],\"verbs\":[\"get\",\"list\",\"watch\",\"patch\"]},"
      "{\"apiGroups\":[\"\"],\"resources\":[\"pods/resize\"],\"verbs\":[\"patch\"]},"
      "{\"apiGroups\":[\"ray.io\"],\"resources\":[\"rayclusters\"],\"verbs\":[\"get\",\"patch\"]}]}" },
    { "subjects", "RoleBinding", "c", ONE ("/subjects", "[]"),
      "{\"subjects\":[{\"kind\":\"ServiceAccount\",\"name\":\"c\",\"namespace\":\"default\"}]}" },
    { "an Ingress rule", "Ingress", "c-head-ingress", ONE ("/spec/rules/0/http/paths/0/path", "\"/x\""),
      "{\"spec\":{\"rules\":[{\"http\":{\"paths\":[{\"path\":\"/\",\"pathType\":\"Prefix\",\"backend\":{\"service\":{"
      "\"name\":\"c-head-svc\",\"port\":{\"number\":8265}}}}]}}]}}" },
    { "tls nobody asked for", "Ingress", "c-head-ingress", ONE ("/spec/tls", "[{\"hosts\":[\"h\"]}]"),
      "{\"spec\":{\"tls\":null}}" },
    { "the class we were told", "Ingress", "c-head-ingress", ONE ("/spec/ingressClassName", "\"x\""),
      "{\"spec\":{\"ingressClassName\":\"nginx\"}}" },
    { "a policy opened to everybody", "NetworkPolicy", "c-workers-g", ONE ("/spec/ingress", "[{}]"),
      "{\"spec\":{\"ingress\":[" INGRESS_OF_C "]}}" },
    { "a policy that selects nothing any more", "NetworkPolicy", "c-workers-g",
      ONE ("/spec/podSelector", "{\"matchLabels\":{\"a\":\"b\"}}"),
      "{\"spec\":{\"podSelector\":{\"matchLabels\":{\"a\":null,\"ray.io/cluster\":\"c\",\"ray.io/node-type\":"
      "\"worker\",\"ray.io/group\":\"g\"}}}}" },
    { "a claim is not resized", "PersistentVolumeClaim", "c-gcs-pvc",
      ONE ("/spec/resources/requests/storage", "\"9Gi\""), NULL },
  };
  struct stage st = { 0 };

  (void) state;
  stage_open (&st);
  for (size_t i = 0; i < ARRAY_LEN (rows); i++)
    {
      const struct ray_child *child = find_child (&st.children, rows[i].kind, rows[i].object);
      cleanup_json cJSON *live = cJSON_Duplicate (live_of (&st, rows[i].kind, rows[i].object), true), *drift = NULL;
      cleanup_json cJSON *patch = NULL;
      cleanup_free char *text = NULL;

      assert_int_equal (json_parse (&drift, rows[i].drift, strlen (rows[i].drift), NULL), 0);
      assert_int_equal (json_patch_apply (live, drift, NULL), 0);
      patch = ray_child_repair (child, live);
      text = json_print (patch);
      if ((patch == NULL) != (rows[i].patch == NULL))
        fail_msg ("%s: %s", rows[i].name, text);
      if (patch != NULL && rows[i].patch != NULL)
        assert_json_text (patch, rows[i].patch);
    }
  stage_close (&st);
}

/* Without a class of our own, the one that the cluster's default gave stays. */
static void
test_a_defaulted_ingress_class_stays (void **state)
{
  cleanup_scene struct scene s = scene_patched (CLUSTER, ONE (HEAD "/enableIngress", "true"));
  cleanup_children struct ray_children children = { 0 };
  cleanup_json cJSON *live = NULL, *patch = NULL;
  const struct ray_child *child;

  (void) state;
  ray_children_make (&children, &s.cluster, &ray_default_options);
  child = find_child (&children, "Ingress", "c-head-ingress");
  assert_non_null (child);
  live = cJSON_Duplicate (child->object, true);
  json_set_str (json_get (live, "spec"), "ingressClassName", "default-class");
  patch = ray_child_repair (child, live);
  assert_null (patch);
}

/* Becoming ClusterIP, a Service loses node ports: the server would refuse them. */
static void
test_node_ports_go_with_the_type (void **state)
{
  struct stage st = { 0 };
  cleanup_scene struct scene s = scene_fixture ("children.yaml");
  cleanup_children struct ray_children children = { 0 };
  cleanup_json cJSON *patch = NULL;

  (void) state;
  stage_open (&st);
  json_set_str (json_get (s.object, "spec", "headGroupSpec"), "serviceType", "ClusterIP");
  ray_children_make (&children, &s.cluster, &ray_default_options);
  patch = ray_child_repair (find_child (&children, "Service", "c-head-svc"), live_of (&st, "Service", "c-head-svc"));
  assert_non_null (patch);
  assert_string_equal (json_str (patch, "spec", "type"), "ClusterIP");
  assert_null (json_get (patch, "spec", "clusterIP"));
  assert_null (json_get (cJSON_GetArrayItem (json_get (patch, "spec", "ports"), 0), "nodePort"));
  stage_close (&st);
}

static void
test_a_kept_claim_has_no_owner (void **state)
{
  struct stage st = { 0 };
  cleanup_scene struct scene s = scene_fixture ("children.yaml");
  cleanup_children struct ray_children children = { 0 };
  cleanup_json cJSON *patch = NULL, *orphan = NULL;
  const struct ray_child *child;

  (void) state;
  stage_open (&st);
  json_set_str (json_get (s.object, "spec", "gcsFaultToleranceOptions"), "deletionPolicy", "Retain");
  ray_children_make (&children, &s.cluster, &ray_default_options);
  child = find_child (&children, "PersistentVolumeClaim", "c-gcs-pvc");
  patch = ray_child_repair (child, live_of (&st, "PersistentVolumeClaim", "c-gcs-pvc"));
  assert_json_text (patch, "{\"metadata\":{\"ownerReferences\":null}}");
  orphan = cJSON_Duplicate (live_of (&st, "PersistentVolumeClaim", "c-gcs-pvc"), true);
  json_drop (json_get (orphan, "metadata"), "ownerReferences");
  assert_true (ray_child_is_ours (child, &s.cluster, orphan)); /* of an earlier cluster of this name */
  json_set_str (json_get (orphan, "metadata", "labels"), RAY_LABEL_CLUSTER, "other");
  assert_false (ray_child_is_ours (child, &s.cluster, orphan));
  stage_close (&st);
}

static void
test_whose_it_is (void **state)
{
  struct stage st = { 0 };
  cleanup_json cJSON *live = NULL;
  const struct ray_child *child;

  (void) state;
  stage_open (&st);
  child = find_child (&st.children, "Service", "c-head-svc");
  live = cJSON_Duplicate (live_of (&st, "Service", "c-head-svc"), true);
  json_set_str (cJSON_GetArrayItem (json_get (live, "metadata", "ownerReferences"), 0), "uid", "somebody else");
  assert_false (ray_child_is_ours (child, &st.scene.cluster, live));
  json_drop (json_get (live, "metadata"), "ownerReferences");
  assert_false (ray_child_is_ours (child, &st.scene.cluster, live));
  stage_close (&st);
}

static void
test_complaints (void **state)
{
  static const struct
  {
    const char *kind, *object, *drift, *words;
  } rows[] = {
    { "PersistentVolumeClaim", "c-gcs-pvc", ONE ("/spec/resources/requests/storage", "\"9Gi\""), "size is \"9Gi\"" },
    { "PersistentVolumeClaim", "c-gcs-pvc", ONE ("/spec/accessModes", "[\"ReadWriteMany\"]"), "access modes" },
    { "RoleBinding", "c", ONE ("/roleRef/name", "\"admin\""), "binds Role \"admin\" instead of Role \"c\"" },
  };
  struct stage st = { 0 };

  (void) state;
  stage_open (&st);
  for (size_t i = 0; i < ARRAY_LEN (rows); i++)
    {
      cleanup_json cJSON *live = cJSON_Duplicate (live_of (&st, rows[i].kind, rows[i].object), true), *drift = NULL;
      cleanup_free char *complaint = NULL;

      assert_int_equal (json_parse (&drift, rows[i].drift, strlen (rows[i].drift), NULL), 0);
      assert_int_equal (json_patch_apply (live, drift, NULL), 0);
      complaint = ray_child_complaint (find_child (&st.children, rows[i].kind, rows[i].object), live);
      if (complaint == NULL || strstr (complaint, rows[i].words) == NULL)
        fail_msg ("%s: %s", rows[i].words, complaint != NULL ? complaint : "nothing");
    }
  stage_close (&st);
}

/* ---- digests: what may be deleted once it is not desired ---- */

static void
test_what_is_prunable (void **state)
{
  struct stage st = { 0 };
  const cJSON *live;

  (void) state;
  stage_open (&st);
  cJSON_ArrayForEach (live, st.live)
    {
      const char *kind = json_str (live, "kind"), *name = json_str (live, "metadata", "name");
      bool expected = strcmp (name, "c-serve-svc") == 0 || strcmp (kind, "Role") == 0
                      || strcmp (kind, "RoleBinding") == 0 || strcmp (kind, "Ingress") == 0
                      || strcmp (kind, "NetworkPolicy") == 0;
      const struct ray_child *child = find_child (&st.children, kind, name);

      if (child->kind == RAY_CHILD_SERVICE)
        {
          cleanup_free struct ray_service *service = ray_service_digest (live);

          assert_int_equal (service->prunable, expected);
        }
      else
        {
          cleanup_free struct ray_child_seen *seen = ray_child_digest (child->kind, live);

          assert_int_equal (seen->prunable, expected);
          assert_string_equal (seen->name, name);
          assert_string_equal (seen->cluster, "c");
          assert_string_equal (seen->owner_uid, st.scene.cluster.uid);
        }
    }
  stage_close (&st);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_which_objects),
    cmocka_unit_test (test_content),
    cmocka_unit_test (test_ingress_takes_the_clusters_annotations_and_its_class),
    cmocka_unit_test (test_nothing_to_repair_in_what_the_server_made),
    cmocka_unit_test (test_repair),
    cmocka_unit_test (test_a_defaulted_ingress_class_stays),
    cmocka_unit_test (test_node_ports_go_with_the_type),
    cmocka_unit_test (test_a_kept_claim_has_no_owner),
    cmocka_unit_test (test_whose_it_is),
    cmocka_unit_test (test_complaints),
    cmocka_unit_test (test_what_is_prunable),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
