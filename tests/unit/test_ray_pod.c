/* Head and worker pods (§3), the worked example of Appendix A and the tutorial's manifests. */
#include "test_ray.h"

#define ULIMIT "ulimit -n ${RAY_START_ULIMIT_OPEN_FILES:-65536}; "

#define CLUSTER                                                                                                        \
  "metadata: {name: c, namespace: ns, uid: u}\n"                                                                       \
  "spec:\n"                                                                                                            \
  "  headGroupSpec: {template: {spec: {containers: [{name: head, image: i}]}}}\n"                                      \
  "  workerGroupSpecs: [{groupName: g, replicas: 1, template: {spec: {containers: [{name: w, image: i}]}}}]\n"

#define HEAD "/spec/headGroupSpec"
#define HEAD_RAY HEAD "/template/spec/containers/0"
#define GROUP "/spec/workerGroupSpecs/0"
#define WORKER_RAY GROUP "/template/spec/containers/0"
#define ADD(path, value) "{\"op\":\"add\",\"path\":\"" path "\",\"value\":" value "}"

static struct ray_options
without_tpu (void)
{
  struct ray_options options = ray_default_options;

  options.inject_tpu = false;
  return options;
}

/* ---- Appendix A ---- */

static void
test_worked_example_head (void **state)
{
  cleanup_scene struct scene s = scene_fixture ("raycluster_v4_multihost.yaml");
  cleanup_json cJSON *pod = build_head (&s);
  cJSON *ray = ray_container_of (pod);

  (void) state;
  assert_json_text (json_get (pod, "metadata", "labels"),
                    "{\"ray.io/is-ray-node\":\"yes\",\"ray.io/identifier\":\"raycluster-tpu-v4-multihost-head\","
                    "\"app.kubernetes.io/name\":\"kuberay\",\"app.kubernetes.io/created-by\":\"kuberay-operator\","
                    "\"ray.io/cluster\":\"raycluster-tpu-v4-multihost\",\"ray.io/node-type\":\"head\",\"ray.io/group\":"
                    "\"headgroup\"}");
  assert_string_equal (json_str (pod, "metadata", "annotations", "ray.io/ft-enabled"), "false");
  assert_non_null (json_str (pod, "metadata", "annotations", "ray.io/kuberay-version"));
  assert_json_text (json_get (ray, "command"), "[\"/bin/bash\",\"-c\",\"--\"]");
  assert_string_equal (only_arg (ray),
                       ULIMIT "ray start --head  --block  --dashboard-agent-listen-port=52365  "
                              "--dashboard-host=0.0.0.0  --memory=40000000000  --metrics-export-port=8080  "
                              "--num-cpus=8 ");
  assert_json_text (json_get (pod, "spec", "volumes"),
                    "[{\"name\":\"shared-mem\",\"emptyDir\":{\"medium\":\"Memory\",\"sizeLimit\":\"40G\"}}]");
  assert_null (json_get (pod, "spec", "initContainers"));
  assert_int_equal (json_int (ray, 0, "livenessProbe", "timeoutSeconds"), 5);
  assert_string_equal (item_at (json_get (ray, "livenessProbe", "exec", "command"), 2)->valuestring,
                       "wget --tries 1 -T 2 -q -O- http://localhost:52365/api/local_raylet_healthz | grep success && "
                       "wget --tries 1 -T 10 -q -O- http://localhost:8265/api/gcs_healthz | grep success");
}

static void
test_worked_example_workers (void **state)
{
  cleanup_scene struct scene s = scene_fixture ("raycluster_v4_multihost.yaml");
  struct ray_options options = without_tpu ();

  (void) state;
  for (int host = 0; host < 2; host++)
    {
      cleanup_json cJSON *pod = build_with (&s, &s.cluster.groups[0], 0, host, &options);
      cleanup_free char *labels = xasprintf (
          "{\"ray.io/is-ray-node\":\"yes\",\"ray.io/identifier\":\"raycluster-tpu-v4-multihost-worker\","
          "\"app.kubernetes.io/name\":\"kuberay\",\"app.kubernetes.io/created-by\":\"kuberay-operator\","
          "\"ray.io/cluster\":\"raycluster-tpu-v4-multihost\",\"ray.io/node-type\":\"worker\",\"ray.io/group\":"
          "\"tpu-group\",\"ray.io/worker-group-replica-index\":\"0\",\"ray.io/worker-group-replica-name\":"
          "\"tpu-group-x7k2p\",\"ray.io/replica-host-index\":\"%d\"}",
          host);
      cJSON *ray = ray_container_of (pod);

      assert_json_text (json_get (pod, "metadata", "labels"), labels);
      assert_null (other_annotations (pod));
      assert_string_equal (
          only_arg (ray),
          ULIMIT "ray start  --address=raycluster-tpu-v4-multihost-head-svc.default.svc.cluster.local:6379  --block  "
                 "--dashboard-agent-listen-port=52365  --memory=40000000000  --metrics-export-port=8080  "
                 "--num-cpus=1  --resources='{\"TPU\":4}' ");
      assert_int_equal (cJSON_GetArraySize (json_get (pod, "spec", "initContainers")), 1);
      /* As KubeRay makes it: what only an injector adds is not there. */
      assert_null (json_get (pod, "spec", "hostname"));
      assert_null (json_get (pod, "spec", "affinity"));
      assert_null (env_entry (ray, "TPU_WORKER_ID"));
    }
}

/* ---- the tutorial ---- */

/* Checks the five variables of host `host` against a fixture of NAME=VALUE lines, with TPU_WORKER_ID of this host. */
static void
check_tpu_env (const cJSON *pod, const char *fixture, int host)
{
  cleanup_free char *lines = read_fixture (fixture);
  char id[16], *save = NULL;
  int seen = 0;

  snprintf (id, sizeof (id), "%d", host);
  for (char *line = strtok_r (lines, "\n", &save); line != NULL; line = strtok_r (NULL, "\n", &save), seen++)
    {
      char *value = strchr (line, '=');

      assert_non_null (value);
      *value++ = '\0';
      assert_string_equal (env_value (ray_container_of (pod), line), strcmp (line, "TPU_WORKER_ID") == 0 ? id : value);
    }
  assert_int_equal (seen, 5);
}

static void
test_tutorial_workers (void **state)
{
  static const struct
  {
    const char *manifest, *env, *group, *args;
    int hosts;
  } rows[] = {
    { "tutorial_a_v6e_4x4.yaml", "tutorial_a_v6e_4x4.worker3.env", "v6e-16",
      ULIMIT "ray start  --address=ray-torchtpu-cluster-head-svc.default.svc.cluster.local:6379  --block  "
             "--dashboard-agent-listen-port=52365  --memory=214748364800  --metrics-export-port=8080  --num-cpus=64  "
             "--resources='{\"TPU\":4}' ",
      4 },
    { "tutorial_a_tpu7x_2x2x2.yaml", "tutorial_a_tpu7x_2x2x2.worker1.env", "tpu7x-16",
      ULIMIT "ray start  --address=ray-torchtpu-cluster-head-svc.default.svc.cluster.local:6379  --block  "
             "--dashboard-agent-listen-port=52365  --memory=268435456000  --metrics-export-port=8080  --num-cpus=64  "
             "--resources='{\"TPU\":8}' ",
      2 },
  };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (rows); i++)
    {
      cleanup_scene struct scene s = scene_fixture (rows[i].manifest);

      assert_int_equal (s.cluster.groups[0].hosts, rows[i].hosts);
      for (int host = 0; host < rows[i].hosts; host++)
        {
          cleanup_json cJSON *pod = build_worker (&s, 0, host);
          cleanup_free char *hostname = xasprintf ("%s-0-%d", rows[i].group, host);

          assert_string_equal (only_arg (ray_container_of (pod)), rows[i].args);
          assert_string_equal (json_str (pod, "spec", "hostname"), hostname);
          assert_string_equal (json_str (pod, "spec", "subdomain"), "ray-torchtpu-cluster-headless");
          /* The user mounts /dev/shm himself. */
          assert_int_equal (cJSON_GetArraySize (json_get (pod, "spec", "volumes")), 1);
          assert_string_equal (json_str (item_at (json_get (pod, "spec", "volumes"), 0), "name"), "dshm");
          assert_non_null (json_get (pod, "spec", "affinity", "podAffinity"));
          check_tpu_env (pod, rows[i].env, host);
        }
    }
}

/* Born complete: what the webhook does to a pod built without injection is what the builder does itself. */
static void
test_webhook_finds_nothing_to_add (void **state)
{
  static const char *const manifests[]
      = { "tutorial_a_v6e_4x4.yaml", "tutorial_a_tpu7x_2x2x2.yaml", "raycluster_v4_multihost.yaml" };
  struct ray_options options = without_tpu ();

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (manifests); i++)
    {
      cleanup_scene struct scene s = scene_fixture (manifests[i]);
      cleanup_json cJSON *born = build_worker (&s, 2, 1);
      cleanup_json cJSON *bare = build_with (&s, &s.cluster.groups[0], 2, 1, &options);
      cleanup_injection struct tpu_injection again = { 0 }, first = { 0 };

      assert_int_equal (tpu_inject (&again, born, &options.tpu, NULL), 0);
      assert_int_equal (cJSON_GetArraySize (again.patch), 0);
      assert_int_equal (tpu_inject (&first, bare, &options.tpu, NULL), 0);
      assert_int_equal (json_patch_apply (bare, first.patch, NULL), 0);
      assert_true (json_equal (born, bare));
    }
}

static void
test_tutorial_head (void **state)
{
  cleanup_scene struct scene s = scene_fixture ("tutorial_a_v6e_4x4.yaml");
  cleanup_json cJSON *pod = build_head (&s);
  cJSON *ray = ray_container_of (pod);
  cleanup_free char *ports = ports_text (json_get (ray, "ports"), "containerPort");

  (void) state;
  assert_string_equal (only_arg (ray),
                       ULIMIT "ray start --head  --block  --dashboard-agent-listen-port=52365  "
                              "--dashboard-host=0.0.0.0  --memory=17179869184  --metrics-export-port=8080  "
                              "--num-cpus=0 ");
  assert_string_equal (ports, "gcs=6379,dashboard=8265,client=10001,metrics=8080");
  assert_json_text (json_get (pod, "spec", "volumes"),
                    "[{\"name\":\"shared-mem\",\"emptyDir\":{\"medium\":\"Memory\",\"sizeLimit\":\"16Gi\"}}]");
  assert_json_text (json_get (ray, "volumeMounts"), "[{\"name\":\"shared-mem\",\"mountPath\":\"/dev/shm\"}]");
  assert_string_equal (json_str (env_entry (ray, "HF_TOKEN"), "valueFrom", "secretKeyRef", "name"), "hf-secret");
}

/* ---- environment (§3.4) ---- */

static char *
env_names (const cJSON *container)
{
  struct buf text = { 0 };
  const cJSON *entry;

  cJSON_ArrayForEach (entry, json_get (container, "env"))
    buf_printf (&text, "%s%s", text.len > 0 ? " " : "", json_str (entry, "name"));
  return buf_take (&text);
}

static void
test_env_order_and_values (void **state)
{
  cleanup_scene struct scene s = scene_yaml (CLUSTER);
  cleanup_json cJSON *head = build_head (&s), *worker = build_worker (&s, 0, 0);
  cJSON *h = ray_container_of (head), *w = ray_container_of (worker);
  cleanup_free char *head_names = env_names (h), *worker_names = env_names (w), *tags = NULL;

  (void) state;
  assert_string_equal (head_names, "RAY_CLUSTER_NAME RAY_CLUSTER_NAMESPACE RAY_CLOUD_INSTANCE_ID RAY_NODE_TYPE_NAME "
                                   "KUBERAY_GEN_RAY_START_CMD RAY_PORT RAY_ADDRESS RAY_USAGE_STATS_KUBERAY_IN_USE "
                                   "RAY_USAGE_STATS_EXTRA_TAGS RAY_DASHBOARD_ENABLE_K8S_DISK_USAGE");
  assert_string_equal (worker_names, "FQ_RAY_IP RAY_IP RAY_CLUSTER_NAME RAY_CLUSTER_NAMESPACE RAY_CLOUD_INSTANCE_ID "
                                     "RAY_NODE_TYPE_NAME KUBERAY_GEN_RAY_START_CMD RAY_PORT RAY_ADDRESS "
                                     "RAY_USAGE_STATS_KUBERAY_IN_USE RAY_DASHBOARD_ENABLE_K8S_DISK_USAGE");
  assert_string_equal (env_value (w, "FQ_RAY_IP"), "c-head-svc.ns.svc.cluster.local");
  assert_string_equal (env_value (w, "RAY_IP"), "c-head-svc");
  assert_string_equal (env_value (w, "RAY_ADDRESS"), "c-head-svc.ns.svc.cluster.local:6379");
  assert_string_equal (env_value (h, "RAY_ADDRESS"), "127.0.0.1:6379");
  assert_string_equal (env_value (h, "RAY_PORT"), "6379");
  tags = xasprintf ("kuberay_version=%s;kuberay_crd=RayCluster", ray_default_options.version);
  assert_string_equal (env_value (h, "RAY_USAGE_STATS_EXTRA_TAGS"), tags);
  assert_string_equal (json_str (env_entry (h, "RAY_CLUSTER_NAME"), "valueFrom", "fieldRef", "fieldPath"),
                       "metadata.labels['ray.io/cluster']");
  assert_string_equal (json_str (env_entry (h, "RAY_CLOUD_INSTANCE_ID"), "valueFrom", "fieldRef", "fieldPath"),
                       "metadata.name");
  /* The bare command, without ulimit. */
  assert_string_equal (env_value (w, "KUBERAY_GEN_RAY_START_CMD"), strstr (only_arg (w), "ray start"));
}

static void
test_env_of_the_user (void **state)
{
  cleanup_scene struct scene s = scene_patched (
      CLUSTER, "[" ADD (WORKER_RAY "/env",
                        "[{\"name\":\"RAY_ADDRESS\",\"value\":\"mine\"},{\"name\":\"RAY_CLUSTER_NAME\",\"value\":"
                        "\"no\"},{\"name\":\"MINE\",\"value\":\"$(RAY_CLUSTER_NAME)\"},{\"name\":\"RAY_CLUSTER_NAME\","
                        "\"value\":\"no\"},{\"name\":\"RAY_PORT\"}]") "]");
  cleanup_json cJSON *pod = build_worker (&s, 0, 0);
  cJSON *ray = ray_container_of (pod);
  cleanup_free char *names = env_names (ray);

  (void) state;
  assert_string_equal (names, "RAY_ADDRESS RAY_CLUSTER_NAME MINE RAY_PORT FQ_RAY_IP RAY_IP RAY_CLUSTER_NAMESPACE "
                              "RAY_CLOUD_INSTANCE_ID RAY_NODE_TYPE_NAME KUBERAY_GEN_RAY_START_CMD "
                              "RAY_USAGE_STATS_KUBERAY_IN_USE RAY_DASHBOARD_ENABLE_K8S_DISK_USAGE");
  assert_string_equal (env_value (ray, "RAY_ADDRESS"), "mine");
  assert_null (env_value (ray, "RAY_CLUSTER_NAME")); /* always the operator's: a field reference */
  assert_null (env_value (ray, "RAY_PORT"));         /* the user's, empty as it is */
}

static void
test_env_of_a_rayservice (void **state)
{
  cleanup_scene struct scene s
      = scene_patched (CLUSTER, "[" ADD ("/metadata/labels", "{\"ray.io/originated-from-crd\":\"RayService\"}") "]");
  cleanup_json cJSON *pod = build_head (&s);
  cJSON *ray = ray_container_of (pod);

  (void) state;
  assert_string_equal (env_value (ray, "RAY_timeout_ms_task_wait_for_death_info"), "0");
  assert_string_equal (env_value (ray, "RAY_gcs_server_request_timeout_seconds"), "5");
  assert_string_equal (env_value (ray, "RAY_SERVE_KV_TIMEOUT_S"), "5");
  assert_non_null (strstr (env_value (ray, "RAY_USAGE_STATS_EXTRA_TAGS"), "kuberay_crd=RayService"));
}

/* ---- command (§3.3) ---- */

static void
test_command_merge (void **state)
{
  static const struct
  {
    const char *name, *patch, *command, *args;
  } rows[] = {
    { "none", "[]", "[\"/bin/bash\",\"-c\",\"--\"]", NULL },
    { "args only", "[" ADD (HEAD_RAY "/args", "[\"echo\",\"hi\"]") "]", "[\"/bin/bash\",\"-c\",\"--\"]",
      " echo  hi  && " ULIMIT "ray start --head " },
    { "command and args", "[" ADD (HEAD_RAY "/command", "[\"echo\"]") "," ADD (HEAD_RAY "/args", "[\"hi there\"]") "]",
      "[\"/bin/bash\",\"-c\",\"--\"]", " echo  hi there  && " ULIMIT "ray start --head " },
    { "the user starts ray", "[" ADD (HEAD_RAY "/command", "[\"sh\",\"-c\",\"exec ray start --head\"]") "]",
      "[\"sh\",\"-c\",\"exec ray start --head\"]", "" },
    { "overwrite annotation",
      "[" ADD (HEAD_RAY "/command", "[\"sleep\",\"9\"]") "," ADD (
          "/metadata/annotations", "{\"ray.io/overwrite-container-cmd\":\"True\",\"other\":\"x\"}") "]",
      "[\"sleep\",\"9\"]", "" },
  };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (rows); i++)
    {
      cleanup_scene struct scene s = scene_patched (CLUSTER, rows[i].patch);
      cleanup_json cJSON *pod = build_head (&s);
      cJSON *ray = ray_container_of (pod);

      assert_json_text (json_get (ray, "command"), rows[i].command);
      if (rows[i].args != NULL && *rows[i].args == '\0')
        assert_null (json_get (ray, "args"));
      else if (rows[i].args != NULL && !text_starts_with (only_arg (ray), rows[i].args))
        fail_msg ("%s: %s", rows[i].name, only_arg (ray));
      assert_true (text_starts_with (env_value (ray, "KUBERAY_GEN_RAY_START_CMD"), "ray start --head "));
      assert_null (json_get (pod, "metadata", "annotations", "other"));
    }
}

static void
test_login_shell (void **state)
{
  cleanup_scene struct scene s = scene_yaml (CLUSTER);
  struct ray_options options = ray_default_options;
  cleanup_json cJSON *pod = NULL;

  (void) state;
  options.login_shell = true;
  pod = build_with (&s, &s.cluster.groups[0], 0, 0, &options);
  assert_json_text (json_get (ray_container_of (pod), "command"), "[\"/bin/bash\",\"-cl\",\"--\"]");
}

/* ---- labels and metadata ---- */

static void
test_labels_the_user_may_override (void **state)
{
  cleanup_scene struct scene s = scene_patched (
      CLUSTER, "[" ADD (GROUP "/template/metadata",
                        "{\"name\":\"n\",\"namespace\":\"other\",\"labels\":{\"a\":\"template\",\"b\":\"template\","
                        "\"ray.io/group\":\"x\",\"ray.io/cluster\":\"x\",\"ray.io/node-type\":\"x\","
                        "\"ray.io/is-ray-node\":\"no\",\"ray.io/worker-group-replica-index\":\"9\","
                        "\"ray.io/worker-group-replica-name\":\"x\",\"ray.io/replica-host-index\":\"9\"},"
                        "\"annotations\":{\"k\":\"v\"}}") "," ADD (GROUP "/labels",
                                                                   "{\"b\":\"group\",\"ray.io/cluster\":\"y\"}") "]");
  cleanup_json cJSON *pod = build_worker (&s, 3, 0);

  (void) state;
  assert_string_equal (json_str (pod, "metadata", "name"), "c-g-worker-abcde");
  assert_string_equal (json_str (pod, "metadata", "namespace"), "ns");
  assert_json_text (other_annotations (pod), "{\"k\":\"v\"}");
  assert_json_text (json_get (pod, "metadata", "labels"),
                    "{\"a\":\"template\",\"b\":\"group\",\"ray.io/group\":\"g\",\"ray.io/cluster\":\"c\","
                    "\"ray.io/node-type\":\"worker\",\"ray.io/is-ray-node\":\"no\",\"ray.io/identifier\":\"c-worker\","
                    "\"app.kubernetes.io/name\":\"kuberay\",\"app.kubernetes.io/created-by\":\"kuberay-operator\","
                    "\"ray.io/worker-group-replica-index\":\"3\"}");
  assert_json_text (json_get (pod, "metadata", "ownerReferences"),
                    "[{\"apiVersion\":\"ray.io/v1\",\"kind\":\"RayCluster\",\"name\":\"c\",\"uid\":\"u\","
                    "\"controller\":true,\"blockOwnerDeletion\":true}]");
}

/* CPU and GPU slices of several hosts find each other by name too; a name of the user's own stays. */
static void
test_hostnames_of_multi_host_groups (void **state)
{
  static const struct
  {
    const char *patch, *hostname, *subdomain;
  } rows[] = {
    { "[]", NULL, NULL },
    { "[" ADD (GROUP "/numOfHosts", "2") "]", "g-5-1", "c-headless" },
    { "[" ADD (GROUP "/numOfHosts", "2") "," ADD (GROUP "/template/spec/hostname", "\"mine\"") "]", "mine",
      "c-headless" },
  };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (rows); i++)
    {
      cleanup_scene struct scene s = scene_patched (CLUSTER, rows[i].patch);
      cleanup_json cJSON *pod = build_worker (&s, 5, 1);

      assert_true (text_eq (json_str (pod, "spec", "hostname"), rows[i].hostname));
      assert_true (text_eq (json_str (pod, "spec", "subdomain"), rows[i].subdomain));
    }
}

/* ---- init container (§3.5) ---- */

static void
test_wait_container (void **state)
{
  cleanup_scene struct scene s = scene_patched (
      CLUSTER, "[" ADD (WORKER_RAY "/env", "[{\"name\":\"A\",\"value\":\"1\"}]") "," ADD (
                   WORKER_RAY "/volumeMounts",
                   "[{"
                   "\"nam"
                   "e\":"
                   "\"v\""
                   ",\"mo"
                   "untPa"
                   "th\":"
                   "\"/"
                   "v\"}"
                   "]") "," ADD (WORKER_RAY "/imagePullPolicy",
                                 "\"Always\"") "," ADD (WORKER_RAY "/securityContext",
                                                        "{\"runAsUser\":1}") "," ADD (GROUP "/template/spec/volumes",
                                                                                      "[{\"name\":\"v\",\"emptyDir\":{}"
                                                                                      "}]") "," ADD (GROUP "/tem"
                                                                                                           "plat"
                                                                                                           "e/"
                                                                                                           "spec"
                                                                                                           "/ini"
                                                                                                           "tCon"
                                                                                                           "tain"
                                                                                                           "ers",
                                                                                                     "[{"
                                                                                                     "\"na"
                                                                                                     "me\""
                                                                                                     ":\"f"
                                                                                                     "irst"
                                                                                                     "\","
                                                                                                     "\"im"
                                                                                                     "age"
                                                                                                     "\":"
                                                                                                     "\"i"
                                                                                                     "\"}"
                                                                                                     "]") "]");
  cleanup_json cJSON *pod = build_worker (&s, 0, 0);
  const cJSON *inits = json_get (pod, "spec", "initContainers"), *wait = item_at (inits, 1);
  cleanup_free char *user_env = env_names (item_at (inits, 0)), *env = env_names (wait);

  (void) state;
  assert_int_equal (cJSON_GetArraySize (inits), 2);
  assert_string_equal (json_str (wait, "name"), "wait-gcs-ready");
  assert_string_equal (json_str (wait, "image"), "i");
  assert_string_equal (json_str (wait, "imagePullPolicy"), "Always");
  assert_json_text (json_get (wait, "securityContext"), "{\"runAsUser\":1}");
  assert_json_text (json_get (wait, "volumeMounts"), "[{\"name\":\"v\",\"mountPath\":\"/v\"}]");
  assert_json_text (json_get (wait, "command"), "[\"/bin/bash\",\"-c\",\"--\"]");
  assert_non_null (strstr (only_arg (wait), "ray health-check --address c-head-svc.ns.svc.cluster.local:6379"));
  assert_string_equal (env, "A FQ_RAY_IP RAY_IP"); /* the user's, not the operator's of the Ray container */
  assert_string_equal (user_env, "FQ_RAY_IP RAY_IP");
}

static void
test_wait_container_resources (void **state)
{
  static const struct
  {
    const char *name, *resources, *expected;
  } rows[] = {
    { "nothing said", "{}", "{\"requests\":{\"cpu\":\"200m\",\"memory\":\"256Mi\"}}" },
    { "both said, devices left out",
      "{\"limits\":{\"cpu\":\"64\",\"memory\":\"200Gi\",\"google.com/tpu\":\"4\"},\"requests\":{\"cpu\":\"64\","
      "\"memory\":\"200Gi\",\"google.com/tpu\":\"4\"}}",
      "{\"limits\":{\"cpu\":\"64\",\"memory\":\"200Gi\"},\"requests\":{\"cpu\":\"64\",\"memory\":\"200Gi\"}}" },
    { "a small limit is not exceeded by a request", "{\"limits\":{\"memory\":\"100Mi\"}}",
      "{\"limits\":{\"memory\":\"100Mi\"},\"requests\":{\"cpu\":\"200m\"}}" },
  };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (rows); i++)
    {
      cleanup_free char *patch = xasprintf ("[" ADD (WORKER_RAY "/resources", "%s") "]", rows[i].resources);
      cleanup_scene struct scene s = scene_patched (CLUSTER, patch);
      struct ray_options options = without_tpu ();
      cleanup_json cJSON *pod = build_with (&s, &s.cluster.groups[0], 0, 0, &options);

      assert_json_text (json_get (item_at (json_get (pod, "spec", "initContainers"), 0), "resources"),
                        rows[i].expected);
    }
}

static void
test_wait_container_is_optional (void **state)
{
  cleanup_scene struct scene s = scene_yaml (CLUSTER);
  cleanup_scene struct scene own
      = scene_patched (CLUSTER, "[" ADD (GROUP "/template/spec/initContainers",
                                         "[{\"name\":\"wait-gcs-ready\",\"image\":\"own\"}]") "]");
  cleanup_json cJSON *with_own = build_worker (&own, 0, 0), *without = NULL;
  struct ray_options options = ray_default_options;

  (void) state;
  options.init_container = false;
  without = build_with (&s, &s.cluster.groups[0], 0, 0, &options);
  assert_null (json_get (without, "spec", "initContainers"));
  assert_int_equal (cJSON_GetArraySize (json_get (with_own, "spec", "initContainers")), 1);
}

/* ---- probes (§3.6) ---- */

#define WGET_AGENT "wget --tries 1 -T 2 -q -O- http://localhost:52365/api/local_raylet_healthz | grep success"

static void
test_probes (void **state)
{
  static const struct
  {
    const char *name, *patch;
    bool head;
    const char *script; /* of the readiness probe; NULL: httpGet on `port` */
    int port, timeout, failures;
  } rows[] = {
    { "no version", "[]", false, WGET_AGENT, 0, 2, 10 },
    { "2.52", "[" ADD ("/spec/rayVersion", "\"2.52.9\"") "]", false, WGET_AGENT, 0, 2, 10 },
    { "2.53", "[" ADD ("/spec/rayVersion", "\"2.53.0\"") "]", false, NULL, 52365, 2, 10 },
    { "3.0", "[" ADD ("/spec/rayVersion", "\"3.0\"") "]", true, NULL, 52365, 5, 10 },
    { "nightly", "[" ADD ("/spec/rayVersion", "\"nightly\"") "]", false, WGET_AGENT, 0, 2, 10 },
    { "other ports of a head",
      "[" ADD (HEAD "/rayStartParams", "{\"dashboard-port\":\"1\",\"dashboard-agent-listen-port\":\"2\"}") "]", true,
      "wget --tries 1 -T 2 -q -O- http://localhost:2/api/local_raylet_healthz | grep success && wget --tries 1 "
      "-T 10 -q "
      "-O- http://localhost:1/api/gcs_healthz | grep success",
      0, 5, 10 },
    { "another agent port over http",
      "[" ADD ("/spec/rayVersion", "\"2.60\"") "," ADD (GROUP "/rayStartParams",
                                                        "{\"dashboard-agent-listen-port\":\"7\"}") "]",
      false, NULL, 7, 2, 10 },
    { "a worker of a RayService, even when new",
      "[" ADD ("/spec/rayVersion", "\"2.60\"") "," ADD (
          "/metadata/labels",
          "{\"ray.io/originated-from-crd\":\"RayService\"}") "," ADD (WORKER_RAY "/ports",
                                                                      "[{\"name\":\"serve\",\"containerPort\":"
                                                                      "9000}]") "]",
      false, WGET_AGENT " && wget --tries 1 -T 10 -q -O- http://localhost:9000/-/healthz | grep success", 0, 2, 1 },
  };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (rows); i++)
    {
      cleanup_scene struct scene s = scene_patched (CLUSTER, rows[i].patch);
      cleanup_json cJSON *pod = rows[i].head ? build_head (&s) : build_worker (&s, 0, 0);
      const cJSON *probe = json_get (ray_container_of (pod), "readinessProbe");
      const cJSON *live = json_get (ray_container_of (pod), "livenessProbe");

      if (rows[i].script != NULL)
        assert_string_equal (item_at (json_get (probe, "exec", "command"), 2)->valuestring, rows[i].script);
      else
        assert_string_equal (json_str (probe, "httpGet", "path"), "/api/healthz");
      assert_int_equal (json_int (probe, 0, "httpGet", "port"), rows[i].port);
      assert_int_equal (json_int (probe, 0, "timeoutSeconds"), rows[i].timeout);
      assert_int_equal (json_int (probe, 0, "failureThreshold"), rows[i].failures);
      assert_int_equal (json_int (probe, 0, "initialDelaySeconds"), 10);
      assert_int_equal (json_int (probe, 0, "periodSeconds"), 5);
      assert_int_equal (json_int (probe, 0, "successThreshold"), 1);
      assert_int_equal (json_int (live, 0, "initialDelaySeconds"), 30);
      assert_int_equal (json_int (live, 0, "periodSeconds"), 5);
      assert_int_equal (json_int (live, 0, "timeoutSeconds"), rows[i].timeout);
      assert_int_equal (json_int (live, 0, "successThreshold"), 1);
      assert_int_equal (json_int (live, 0, "failureThreshold"), 120);
    }
}

static void
test_probes_of_the_user_stay (void **state)
{
  cleanup_scene struct scene s
      = scene_patched (CLUSTER, "[" ADD (WORKER_RAY "/livenessProbe", "{\"tcpSocket\":{\"port\":1}}") "]");
  struct ray_options options = ray_default_options;
  cleanup_json cJSON *pod = build_worker (&s, 0, 0), *off = NULL;

  (void) state;
  options.probes = false;
  off = build_with (&s, &s.cluster.groups[0], 0, 0, &options);
  assert_json_text (json_get (ray_container_of (pod), "livenessProbe"), "{\"tcpSocket\":{\"port\":1}}");
  assert_non_null (json_get (ray_container_of (pod), "readinessProbe"));
  assert_null (json_get (ray_container_of (off), "readinessProbe"));
}

/* ---- volumes and ports (§3.7) ---- */

static void
test_shared_memory (void **state)
{
  static const struct
  {
    const char *name, *patch, *volumes, *mounts; /* NULL: absent */
  } rows[] = {
    { "no memory said", "[]", "[{\"name\":\"shared-mem\",\"emptyDir\":{\"medium\":\"Memory\"}}]",
      "[{\"name\":\"shared-mem\",\"mountPath\":\"/dev/shm\"}]" },
    { "the request when there is no limit", "[" ADD (HEAD_RAY "/resources", "{\"requests\":{\"memory\":\"2Gi\"}}") "]",
      "[{\"name\":\"shared-mem\",\"emptyDir\":{\"medium\":\"Memory\",\"sizeLimit\":\"2Gi\"}}]",
      "[{\"name\":\"shared-mem\",\"mountPath\":\"/dev/shm\"}]" },
    { "plasma-directory", "[" ADD (HEAD "/rayStartParams", "{\"plasma-directory\":\"/x\"}") "]", NULL, NULL },
    { "mounted with a slash",
      "[" ADD (HEAD_RAY "/volumeMounts", "[{\"name\":\"m\",\"mountPath\":\"/dev/shm/\"}]") "," ADD (
          HEAD "/template/spec/volumes", "[{\"name\":\"m\",\"emptyDir\":{}}]") "]",
      "[{\"name\":\"m\",\"emptyDir\":{}}]", "[{\"name\":\"m\",\"mountPath\":\"/dev/shm/\"}]" },
    { "a volume of that name is used",
      "[" ADD (HEAD "/template/spec/volumes", "[{\"name\":\"shared-mem\",\"emptyDir\":{\"sizeLimit\":\"1Gi\"}}]") "]",
      "[{\"name\":\"shared-mem\",\"emptyDir\":{\"sizeLimit\":\"1Gi\"}}]",
      "[{\"name\":\"shared-mem\",\"mountPath\":\"/dev/shm\"}]" },
    { "a mount of that name gets its volume",
      "[" ADD (HEAD_RAY "/volumeMounts", "[{\"name\":\"shared-mem\",\"mountPath\":\"/dev/shm\"}]") "]",
      "[{\"name\":\"shared-mem\",\"emptyDir\":{\"medium\":\"Memory\"}}]",
      "[{\"name\":\"shared-mem\",\"mountPath\":\"/dev/shm\"}]" },
  };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (rows); i++)
    {
      cleanup_scene struct scene s = scene_patched (CLUSTER, rows[i].patch);
      cleanup_json cJSON *pod = build_head (&s);

      if (rows[i].volumes == NULL)
        assert_null (json_get (pod, "spec", "volumes"));
      else
        assert_json_text (json_get (pod, "spec", "volumes"), rows[i].volumes);
      if (rows[i].mounts == NULL)
        assert_null (json_get (ray_container_of (pod), "volumeMounts"));
      else
        assert_json_text (json_get (ray_container_of (pod), "volumeMounts"), rows[i].mounts);
    }
}

static void
test_nulls_are_absent (void **state)
{
  cleanup_scene struct scene s = scene_patched (
      CLUSTER,
      "[" ADD (HEAD_RAY "/env", "null") "," ADD (HEAD_RAY "/ports", "null") "," ADD (
          HEAD_RAY "/livenessProbe",
          "null") "," ADD (HEAD "/template/metadata",
                           "{\"labels\":null}") "," ADD (HEAD "/labels",
                                                         "{\"x\":null}") "," ADD (HEAD "/template/spec/volumes",
                                                                                  "null") "]");
  cleanup_json cJSON *pod = build_head (&s); /* checks that no null is left */

  (void) state;
  assert_non_null (json_get (ray_container_of (pod), "livenessProbe"));
  assert_int_equal (cJSON_GetArraySize (json_get (ray_container_of (pod), "ports")), 1);
}

static void
test_template_without_containers (void **state)
{
  static const char *const containers[] = { "null", "[]", "\"x\"", "[3]", "{}" };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (containers); i++)
    {
      cleanup_free char *patch = xasprintf ("[" ADD (HEAD "/template/spec/containers", "%s") "]", containers[i]);
      cleanup_scene struct scene s = scene_patched (CLUSTER, patch);
      struct ray_identity identity = { .name = "p" };
      struct error err = { 0 };
      cJSON *pod = NULL;

      assert_true (ray_build_pod (&pod, &s.cluster, &s.cluster.head, &identity, &ray_default_options, &err) < 0);
      assert_null (pod);
      assert_non_null (strstr (err.message, "headgroup"));
    }
}

/* ---- autoscaler (§3.8) ---- */

static void
test_autoscaler (void **state)
{
  cleanup_scene struct scene s = scene_patched (CLUSTER, "[" ADD ("/spec/enableInTreeAutoscaling", "true") "]");
  cleanup_json cJSON *pod = build_head (&s), *worker = build_worker (&s, 0, 0);
  const cJSON *sidecar = item_at (json_get (pod, "spec", "containers"), 1);
  cleanup_free char *env = env_names (sidecar);

  (void) state;
  assert_string_equal (json_str (sidecar, "name"), "autoscaler");
  assert_string_equal (json_str (sidecar, "image"), "i");
  assert_string_equal (json_str (sidecar, "imagePullPolicy"), "IfNotPresent");
  assert_string_equal (only_arg (sidecar), "ray kuberay-autoscaler --cluster-name $(RAY_CLUSTER_NAME) "
                                           "--cluster-namespace $(RAY_CLUSTER_NAMESPACE)");
  assert_string_equal (env, "RAY_CLUSTER_NAME RAY_CLUSTER_NAMESPACE RAY_HEAD_POD_NAME KUBERAY_CRD_VER "
                            "KUBERAY_GEN_AUTOSCALER_START_CMD");
  assert_json_text (json_get (sidecar, "resources"), "{\"limits\":{\"cpu\":\"500m\",\"memory\":\"512Mi\"},"
                                                     "\"requests\":{\"cpu\":\"500m\",\"memory\":\"512Mi\"}}");
  assert_json_text (json_get (sidecar, "volumeMounts"), "[{\"name\":\"ray-logs\",\"mountPath\":\"/tmp/ray\"}]");
  assert_json_text (json_get (ray_container_of (pod), "volumeMounts"),
                    "[{\"name\":\"shared-mem\",\"mountPath\":\"/dev/shm\"},{\"name\":\"ray-logs\",\"mountPath\":"
                    "\"/tmp/ray\"}]");
  assert_string_equal (json_str (pod, "spec", "serviceAccountName"), "c");
  assert_non_null (strstr (only_arg (ray_container_of (pod)), " --no-monitor "));
  assert_null (json_get (pod, "spec", "restartPolicy"));
  assert_null (env_entry (ray_container_of (pod), "RAY_enable_autoscaler_v2"));
  assert_null (json_get (worker, "spec", "serviceAccountName"));
  assert_int_equal (cJSON_GetArraySize (json_get (worker, "spec", "containers")), 1);
}

static void
test_autoscaler_options (void **state)
{
  cleanup_scene struct scene s
      = scene_patched (CLUSTER, "[" ADD ("/spec/enableInTreeAutoscaling", "true") "," ADD (
                                    HEAD "/template/spec/serviceAccountName",
                                    "\"sa\"") "," ADD ("/spec/autoscalerOptions",
                                                       "{\"version\":\"v2\",\"image\":\"other\",\"imagePullPolicy\":"
                                                       "\"Always\",\"command\":[\"c\"],\"args\":[\"a\"],"
                                                       "\"resources\":{\"limits\":{\"cpu\":\"1\"}},\"securityContext\":"
                                                       "{\"runAsUser\":1},\"env\":[{\"name\":\"E\","
                                                       "\"value\":\"1\"}],\"envFrom\":[{\"configMapRef\":{\"name\":"
                                                       "\"m\"}}],\"volumeMounts\":[{\"name\":"
                                                       "\"ray-logs\",\"mountPath\":\"/tmp/ray\"}]}") "]");
  cleanup_json cJSON *pod = build_head (&s), *worker = build_worker (&s, 0, 0);
  const cJSON *sidecar = item_at (json_get (pod, "spec", "containers"), 1);

  (void) state;
  assert_string_equal (json_str (sidecar, "image"), "other");
  assert_string_equal (json_str (sidecar, "imagePullPolicy"), "Always");
  assert_json_text (json_get (sidecar, "command"), "[\"c\"]");
  assert_json_text (json_get (sidecar, "args"), "[\"a\"]");
  assert_json_text (json_get (sidecar, "resources"), "{\"limits\":{\"cpu\":\"1\"}}");
  assert_string_equal (env_value (sidecar, "E"), "1");
  assert_non_null (env_entry (sidecar, "RAY_HEAD_POD_NAME"));
  assert_int_equal (cJSON_GetArraySize (json_get (sidecar, "envFrom")), 1);
  assert_int_equal (cJSON_GetArraySize (json_get (sidecar, "volumeMounts")), 1);
  assert_string_equal (json_str (pod, "spec", "serviceAccountName"), "sa");
  assert_string_equal (env_value (ray_container_of (pod), "RAY_enable_autoscaler_v2"), "true");
  assert_string_equal (json_str (pod, "spec", "restartPolicy"), "Never");
  assert_string_equal (json_str (worker, "spec", "restartPolicy"), "Never");
}

static void
test_autoscaler_v1_is_told_to_the_head (void **state)
{
  cleanup_scene struct scene s = scene_patched (CLUSTER, "[" ADD ("/spec/enableInTreeAutoscaling", "true") "," ADD (
                                                             "/spec/autoscalerOptions", "{\"version\":\"v1\"}") "]");
  cleanup_json cJSON *pod = build_head (&s);

  (void) state;
  assert_string_equal (env_value (ray_container_of (pod), "RAY_enable_autoscaler_v2"), "false");
  assert_null (json_get (pod, "spec", "restartPolicy"));
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_worked_example_head),
    cmocka_unit_test (test_worked_example_workers),
    cmocka_unit_test (test_tutorial_workers),
    cmocka_unit_test (test_webhook_finds_nothing_to_add),
    cmocka_unit_test (test_tutorial_head),
    cmocka_unit_test (test_env_order_and_values),
    cmocka_unit_test (test_env_of_the_user),
    cmocka_unit_test (test_env_of_a_rayservice),
    cmocka_unit_test (test_command_merge),
    cmocka_unit_test (test_login_shell),
    cmocka_unit_test (test_labels_the_user_may_override),
    cmocka_unit_test (test_hostnames_of_multi_host_groups),
    cmocka_unit_test (test_wait_container),
    cmocka_unit_test (test_wait_container_resources),
    cmocka_unit_test (test_wait_container_is_optional),
    cmocka_unit_test (test_probes),
    cmocka_unit_test (test_probes_of_the_user_stay),
    cmocka_unit_test (test_shared_memory),
    cmocka_unit_test (test_nulls_are_absent),
    cmocka_unit_test (test_template_without_containers),
    cmocka_unit_test (test_autoscaler),
    cmocka_unit_test (test_autoscaler_options),
    cmocka_unit_test (test_autoscaler_v1_is_told_to_the_head),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
