/* What TPU pods are told: the fixtures byte for byte, then every rule of facts/tpu_injection.md §6.2 and §8 by example.
 */
#include "test_tpu_pods.h"

/* Makes another completion of base JOB or JOB7. */
#define COMPLETION(i)                                                                                                  \
  "{'op': 'replace', 'path': '/metadata/annotations/batch.kubernetes.io~1job-completion-index', 'value': '" i "'},"    \
  "{'op': 'replace', 'path': '/metadata/labels/batch.kubernetes.io~1job-completion-index', 'value': '" i "'},"         \
  "{'op': 'replace', 'path': '/metadata/generateName', 'value': 'j-" i "-'},"                                          \
  "{'op': 'replace', 'path': '/spec/hostname', 'value': 'j-" i "'}"

/* ---- fixtures ---- */

static cJSON *
load_object (const char *file, const char *kind)
{
  cleanup_free char *path
      = xasprintf ("%s/%s", getenv ("RAY_TPU_TESTDATA") ? getenv ("RAY_TPU_TESTDATA") : TEST_FIXTURES, file);
  cleanup_buf struct buf text = { 0 };
  cleanup_json cJSON *docs = NULL;
  struct error err = { 0 };

  if (text_read_file (path, 1 << 20, &text, &err) < 0 || yaml_parse (&docs, buf_text (&text), text.len, &err) < 0)
    fail_msg ("%s: %s", path, err.message);
  return cJSON_Duplicate (json_find (docs, "kind", kind), true);
}

/* "NAME=value\n" of the five variables, in the order of the container's env: what the tutorial's kubectl command
 * prints. */
static char *
five_variables (const cJSON *pod)
{
  static const char *const names[] = { "TPU_WORKER_HOSTNAMES", "TORCH_TPU_TOPOLOGY", "TORCH_TPU_SLICEBUILDER_ADDRESSES",
                                       "TPU_WORKER_ID", "TPU_NAME" };
  struct buf out = { 0 };
  const cJSON *entry;

  cJSON_ArrayForEach (entry, json_get (container_at (pod, "containers", 0), "env"))
    if (text_index (json_str (entry, "name"), names, ARRAY_LEN (names)) >= 0)
      buf_printf (&out, "%s=%s\n", json_str (entry, "name"), log_nonnull (json_str (entry, "value")));
  return buf_take (&out);
}

/* The .env file of one worker with another worker's id in it. */
static char *
expected_variables (const char *file, int id)
{
  cleanup_free char *path
      = xasprintf ("%s/%s", getenv ("RAY_TPU_TESTDATA") ? getenv ("RAY_TPU_TESTDATA") : TEST_FIXTURES, file);
  cleanup_buf struct buf text = { 0 };
  struct error err = { 0 };
  char *at;

  if (text_read_file (path, 1 << 20, &text, &err) < 0)
    fail_msg ("%s", err.message);
  at = strstr (text.data, "\nTPU_WORKER_ID=");
  assert_non_null (at);
  at[strlen ("\nTPU_WORKER_ID=")] = (char) ('0' + id);
  return buf_take (&text);
}

static void
check_tutorial (const char *manifest, const char *env_file, const char *group, int hosts)
{
  cleanup_json cJSON *cluster = load_object (manifest, "RayCluster");
  const cJSON *template = json_get (json_get (cluster, "spec", "workerGroupSpecs")->child, "template");

  for (int h = 0; h < hosts; h++)
    {
      cleanup_json cJSON *pod = make_ray_pod (NULL, NULL, NULL, "ray-torchtpu-cluster", group, 0, h);
      cleanup_free char *expected = expected_variables (env_file, h), *got = NULL, *hostname = NULL;
      struct tpu_injection in;

      json_set_copy (pod, "spec", json_get (template, "spec"));
      in = admit (pod, NULL);
      got = five_variables (pod);
      assert_string_equal (got, expected);
      assert_int_equal (cJSON_GetArraySize (in.warnings), 0);
      assert_int_equal (in.owner, TPU_OWNER_RAY);
      assert_int_equal (in.worker_id, h);
      assert_int_equal (in.hosts, hosts);
      hostname = xasprintf ("%s-0-%d", group, h);
      assert_string_equal (json_str (pod, "spec", "hostname"), hostname);
      assert_string_equal (json_str (pod, "spec", "subdomain"), "ray-torchtpu-cluster-headless");
      assert_non_null (json_get (env_entry (container_at (pod, "containers", 0), "HF_TOKEN"), "valueFrom"));
      tpu_injection_free (&in);
    }
}

static void
test_tutorial_v6e_workers (void **state)
{
  (void) state;
  check_tutorial ("tutorial_a_v6e_4x4.yaml", "tutorial_a_v6e_4x4.worker3.env", "v6e-16", 4);
}

static void
test_tutorial_tpu7x_workers (void **state)
{
  (void) state;
  check_tutorial ("tutorial_a_tpu7x_2x2x2.yaml", "tutorial_a_tpu7x_2x2x2.worker1.env", "tpu7x-16", 2);
}

static void
test_indexed_job_fixture (void **state)
{
  cleanup_json cJSON *job = load_object ("indexed_job_v6e_4x4.yaml", "Job");

  (void) state;
  for (int i = 0; i < 4; i++)
    {
      cleanup_json cJSON *pod = make_job_pod (NULL, NULL, NULL, "train-v6e16", i, "train-v6e16-svc");
      cleanup_free char *hostname = xasprintf ("train-v6e16-%d", i), *id = xasprintf ("TPU_WORKER_ID=%d", i);
      cleanup_injection struct tpu_injection in = { 0 };
      const char *const expected[] = { "TPU_WORKER_HOSTNAMES=train-v6e16-0.train-v6e16-svc,train-v6e16-1.train-v6e16-"
                                       "svc,train-v6e16-2.train-v6e16-svc,"
                                       "train-v6e16-3.train-v6e16-svc",
                                       "TORCH_TPU_TOPOLOGY=4,4,1",
                                       id,
                                       "TPU_NAME=train-v6e16",
                                       "JAX_PLATFORMS=tpu,cpu",
                                       "TPU_PROCESS_ADDRESSES",
                                       "TPU_PROCESS_PORT",
                                       "MEGASCALE_SLICE_ID",
                                       "TPU_DEVICE_PLUGIN_ADDR",
                                       NULL };

      json_set_copy (pod, "spec", json_get (job, "spec", "template", "spec"));
      json_set_str (json_get (pod, "spec"), "hostname", hostname);
      in = admit (pod, NULL);
      check_env ("job", container_at (pod, "containers", 0), expected);
      assert_int_equal (count_entries (env_of (pod, "TORCH_TPU_SLICEBUILDER_ADDRESSES")), 16);
      assert_null (json_get (container_at (pod, "containers", 1), "env"));
      assert_null (json_get (pod, "spec", "affinity"));
      assert_int_equal (in.owner, TPU_OWNER_JOB);
      assert_string_equal (in.slice, "train-v6e16");
    }
}

/* ---- one pod, one change, what must come out ---- */

#define HOSTS_V6E "g-0-0.c-headless,g-0-1.c-headless,g-0-2.c-headless,g-0-3.c-headless"
#define HOSTS_V7X "g-1-0.c-headless,g-1-1.c-headless"
#define EIGHT_LOCAL                                                                                                    \
  "localhost:8471,localhost:8472,localhost:8473,localhost:8474,localhost:8475,localhost:8476,localhost:8477,"          \
  "localhost:8478"

static const struct injection_case
{
  const char *name;
  enum base base;
  const char *edit;
  const char *expected[12];
  const char *warning; /* NULL: none */
} cases[] = {
  { "a Ray worker on v6e",
    RAY,
    "[]",
    { "TPU_WORKER_HOSTNAMES=" HOSTS_V6E, "TPU_WORKER_ID=1", "TPU_NAME=g-0", "TORCH_TPU_TOPOLOGY=4,4,1",
      "TPU_DEVICE_PLUGIN_ADDR=$(TPU_DEVICE_PLUGIN_HOST_IP):2112", "TPU_PROCESS_ADDRESSES", "TPU_PROCESS_PORT",
      "MEGASCALE_SLICE_ID" },
    NULL },
  { "a Ray worker on tpu7x has processes",
    RAY7,
    "[]",
    { "TPU_WORKER_HOSTNAMES=" HOSTS_V7X, "TPU_WORKER_ID=1", "TPU_NAME=g-1", "TORCH_TPU_TOPOLOGY=2,2,2,2",
      "TPU_PROCESS_ADDRESSES=g-1-0.c-headless:8471,g-1-1.c-headless:8471", "TPU_PROCESS_PORT=8471" },
    NULL },
  { "a Job on tpu7x uses the port of GKE and LWS",
    JOB7,
    "[]",
    { "TPU_WORKER_HOSTNAMES=j-0.s,j-1.s", "TPU_WORKER_ID=1", "TPU_NAME=j",
      "TPU_PROCESS_ADDRESSES=j-0.s:8476,j-1.s:8476", "TPU_PROCESS_PORT=8476", "TPU_DEVICE_PLUGIN_ADDR" },
    NULL },
  { "single-host Ray",
    RAY_ONE,
    "[]",
    { "TPU_WORKER_HOSTNAMES=localhost", "TPU_WORKER_ID=0", "TPU_NAME=g-3", "TORCH_TPU_TOPOLOGY=2,4,1",
      "TORCH_TPU_SLICEBUILDER_ADDRESSES=" EIGHT_LOCAL, "TPU_DEVICE_PLUGIN_ADDR=$(TPU_DEVICE_PLUGIN_HOST_IP):2112" },
    NULL },
  { "single-host tpu7x has no process addresses",
    BARE,
    "[" SELECT ("tpu7x", "2x2x1") "]",
    { "TPU_WORKER_HOSTNAMES=localhost", "TPU_WORKER_ID=0", "TORCH_TPU_TOPOLOGY=2,2,1,2",
      "TORCH_TPU_SLICEBUILDER_ADDRESSES=" EIGHT_LOCAL, "TPU_PROCESS_ADDRESSES", "TPU_PROCESS_PORT" },
    NULL },
  { "a bare pod is its own slice",
    BARE,
    "[]",
    { "TPU_WORKER_HOSTNAMES=localhost", "TPU_WORKER_ID=0", "TPU_NAME=p", "TORCH_TPU_TOPOLOGY=2,2,1",
      "TPU_DEVICE_PLUGIN_ADDR" },
    NULL },
  { "a generated name is all there is",
    BARE,
    "[{'op': 'remove', 'path': '/metadata/name'}, {'op': 'add', 'path': '/metadata/generateName', 'value': 'web-7f-'}]",
    { "TPU_NAME=web-7f", "TPU_WORKER_ID=0" },
    NULL },
  { "completions of a single-host Job are slices of their own",
    JOB,
    "[" SELECT ("tpu-v6e-slice", "2x2") "]",
    { "TPU_WORKER_HOSTNAMES=localhost", "TPU_WORKER_ID=0", "TPU_NAME=j" },
    NULL },
  { "Ray without a replica index, single-host",
    RAY_ONE,
    "[{'op': 'remove', 'path': '/metadata/labels/ray.io~1worker-group-replica-index'}]",
    { "TPU_WORKER_HOSTNAMES=localhost", "TPU_WORKER_ID=0", "TPU_NAME=c-g-worker" },
    NULL },
  { "a JobSet's pod is a pod of its Job",
    JOB,
    "[{'op': 'add', 'path': '/metadata/labels/jobset.sigs.k8s.io~1jobset-name', 'value': 'set'}]",
    { "TPU_NAME=j", "TPU_WORKER_ID=2", "MEGASCALE_SLICE_ID" },
    NULL },
  { "a user's subdomain is the Service of the hosts",
    RAY,
    "[{'op': 'add', 'path': '/spec/subdomain', 'value': 'mine'}]",
    { "TPU_WORKER_HOSTNAMES=g-0-0.mine,g-0-1.mine,g-0-2.mine,g-0-3.mine", "TPU_WORKER_ID=1" },
    "spec.subdomain is mine: a headless Service of that name must select these Pods; remove it to use c-headless" },
  { "the Service's own name is no subdomain of the user's",
    RAY,
    "[{'op': 'add', 'path': '/spec/subdomain', 'value': 'c-headless'}]",
    { "TPU_WORKER_ID=1" },
    NULL },
  { "v3 has no TORCH variables",
    JOB,
    "[" SELECT ("tpu-v3-slice", "4x4") "]",
    { "TPU_WORKER_ID=2", "TPU_NAME=j", "TORCH_TPU_TOPOLOGY", "TORCH_TPU_SLICEBUILDER_ADDRESSES" },
    NULL },
  { "an unknown generation",
    JOB,
    "[" SELECT ("tpu8t", "4x4") "]",
    { "TPU_WORKER_ID=2", "TPU_NAME=j", "TORCH_TPU_TOPOLOGY", "TORCH_TPU_SLICEBUILDER_ADDRESSES", "TPU_PROCESS_PORT" },
    "\"tpu8t\" is not known" },
  { "an empty label is no name of a Job",
    JOB,
    "[{'op': 'replace', 'path': '/metadata/labels/batch.kubernetes.io~1job-name', 'value': ''}]",
    { "TPU_NAME=j", "TPU_WORKER_ID=2" },
    NULL },
  { "no accelerator",
    JOB,
    "[{'op': 'remove', 'path': '/spec/nodeSelector/cloud.google.com~1gke-tpu-accelerator'}]",
    { "TPU_WORKER_ID=2", "TPU_NAME=j", "TORCH_TPU_TOPOLOGY" },
    "the Pod names no accelerator: add cloud.google.com/gke-tpu-accelerator to spec.nodeSelector" },
  { "TORCH follows a user's list of hosts",
    JOB,
    "[" SELECT ("tpu-v6e-slice", "2x4") ", " COMPLETION (
        "1") ", {'op': 'add', 'path': "
             "'/spec/containers/0/env', 'value': [{'name': 'TPU_WORKER_HOSTNAMES', 'value': 'a.x,a.x,10.0.0.7'}]}]",
    { "TPU_WORKER_HOSTNAMES=a.x,a.x,10.0.0.7", "TPU_WORKER_ID", "TPU_NAME=j",
      "TORCH_TPU_SLICEBUILDER_ADDRESSES=a.x:8471,a.x:8472,a.x:8473,a.x:8474,10.0.0.7:8471,10.0.0.7:8472,10.0.0.7:8473,"
      "10.0.0.7:8474" },
    NULL },
  { "a user's hosts that are not the slice's",
    JOB,
    ADD_ENV ("{'name': 'TPU_WORKER_HOSTNAMES', 'value': 'a,b'}"),
    { "TPU_WORKER_HOSTNAMES=a,b", "TORCH_TPU_TOPOLOGY", "TORCH_TPU_SLICEBUILDER_ADDRESSES", "TPU_NAME=j" },
    "container main keeps its own TPU_WORKER_HOSTNAMES" },
  { "as many hosts as the slice has, but not different ones",
    JOB,
    ADD_ENV ("{'name': 'TPU_WORKER_HOSTNAMES', 'value': 'a,b,a,b'}"),
    { "TPU_WORKER_HOSTNAMES=a,b,a,b", "TORCH_TPU_TOPOLOGY", "TORCH_TPU_SLICEBUILDER_ADDRESSES" },
    "which is not a literal list of 4 hosts" },
  { "localhost from a copied template is kept",
    RAY7,
    ADD_ENV ("{'name': 'TPU_WORKER_HOSTNAMES', 'value': 'localhost'}"),
    { "TPU_WORKER_HOSTNAMES=localhost", "TPU_WORKER_ID", "TPU_PROCESS_ADDRESSES", "TORCH_TPU_TOPOLOGY",
      "TPU_NAME=g-1" },
    "TPU_PROCESS_ADDRESSES is not injected" },
  { "a literal port of the user's is in the addresses",
    RAY7,
    ADD_ENV ("{'name': 'TPU_PROCESS_PORT', 'value': '8478'}"),
    { "TPU_PROCESS_PORT=8478", "TPU_PROCESS_ADDRESSES=g-1-0.c-headless:8478,g-1-1.c-headless:8478" },
    NULL },
  { "a port that is none leaves the family alone",
    RAY7,
    ADD_ENV ("{'name': 'TPU_PROCESS_PORT', 'value': '$(PORT)'}"),
    { "TPU_PROCESS_PORT=$(PORT)", "TPU_PROCESS_ADDRESSES" },
    NULL },
  { "the last entry of a name counts",
    RAY7,
    ADD_ENV ("{'name': 'TPU_PROCESS_PORT', 'value': '1'}, {'name': 'TPU_PROCESS_PORT', 'value': '2'}"),
    { "TPU_PROCESS_ADDRESSES=g-1-0.c-headless:2,g-1-1.c-headless:2" },
    NULL },
  { "chips that no machine of a slice has",
    JOB,
    "[{'op': 'add', 'path': '/spec/containers/0/resources/limits/google.com~1tpu', 'value': 8}, " COMPLETION ("1") "]",
    { "TPU_WORKER_HOSTNAMES=j-0.s,j-1.s", "TPU_WORKER_ID=1" },
    "made of 4-chip machines, but the Pod asks for 8 google.com/tpu, 2 hosts for topology 4x4: ask for 4" },
  { "hostNetwork needs cluster DNS",
    JOB,
    "[{'op': 'add', 'path': '/spec/hostNetwork', 'value': true}]",
    { "TPU_WORKER_ID=2" },
    "set dnsPolicy: ClusterFirstWithHostNet" },
  { "hostNetwork with cluster DNS",
    JOB,
    "[{'op': 'add', 'path': '/spec/hostNetwork', 'value': true}, {'op': 'add', 'path': '/spec/dnsPolicy', 'value': "
    "'ClusterFirstWithHostNet'}]",
    { "TPU_WORKER_ID=2" },
    NULL },
  { "MEGASCALE when the user counts slices",
    RAY,
    ADD_ENV ("{'name': 'MEGASCALE_NUM_SLICES', 'value': '2'}"),
    { "MEGASCALE_NUM_SLICES=2", "MEGASCALE_SLICE_ID=0", "MEGASCALE_COORDINATOR_ADDRESS=g-0-0.c-headless",
      "MEGASCALE_PORT=8081" },
    NULL },
  { "MEGASCALE on tpu7x names the port",
    RAY7,
    ADD_ENV ("{'name': 'MEGASCALE_NUM_SLICES', 'valueFrom': {'fieldRef': {'fieldPath': 'metadata.name'}}}"),
    { "MEGASCALE_SLICE_ID=1", "MEGASCALE_COORDINATOR_ADDRESS=g-0-0.c-headless:8081", "MEGASCALE_PORT=8081" },
    NULL },
  { "MEGASCALE with a port of the user's",
    RAY7,
    ADD_ENV ("{'name': 'MEGASCALE_NUM_SLICES', 'value': '2'}, {'name': 'MEGASCALE_PORT', 'value': '9915'}"),
    { "MEGASCALE_SLICE_ID=1", "MEGASCALE_COORDINATOR_ADDRESS=g-0-0.c-headless", "MEGASCALE_PORT=9915" },
    NULL },
  { "MEGASCALE of the user's own",
    RAY,
    ADD_ENV ("{'name': 'MEGASCALE_NUM_SLICES', 'value': '2'}, {'name': 'MEGASCALE_SLICE_ID', 'value': '1'}"),
    { "MEGASCALE_SLICE_ID=1", "MEGASCALE_COORDINATOR_ADDRESS", "MEGASCALE_PORT" },
    NULL },
  { "MEGASCALE for fewer slices than there are",
    RAY7,
    ADD_ENV ("{'name': 'MEGASCALE_NUM_SLICES', 'value': '1'}"),
    { "MEGASCALE_SLICE_ID", "MEGASCALE_COORDINATOR_ADDRESS", "TPU_WORKER_ID=1" },
    "MEGASCALE_NUM_SLICES is 1, and replica index 1 is not one of these" },
  { "MEGASCALE with a number of slices that is none",
    RAY,
    ADD_ENV ("{'name': 'MEGASCALE_NUM_SLICES', 'value': 'two'}"),
    { "MEGASCALE_NUM_SLICES=two", "MEGASCALE_SLICE_ID", "MEGASCALE_PORT", "TPU_WORKER_ID=1" },
    "MEGASCALE_NUM_SLICES of container main is \"two\", no number of slices" },
  { "MEGASCALE with no slices",
    RAY,
    ADD_ENV ("{'name': 'MEGASCALE_NUM_SLICES', 'value': '0'}"),
    { "MEGASCALE_SLICE_ID" },
    "is \"0\", no number of slices: write 1 or more" },
  { "MEGASCALE with a port that is none",
    RAY7,
    ADD_ENV ("{'name': 'MEGASCALE_NUM_SLICES', 'value': '2'}, {'name': 'MEGASCALE_PORT', 'value': 'http'}"),
    { "MEGASCALE_SLICE_ID=1", "MEGASCALE_PORT=http" },
    "MEGASCALE_PORT of container main is \"http\", no port from 1 to 65535" },
  { "a process port that is none",
    RAY7,
    ADD_ENV ("{'name': 'TPU_PROCESS_PORT', 'value': '84710'}"),
    { "TPU_PROCESS_PORT=84710", "TPU_PROCESS_ADDRESSES" },
    "TPU_PROCESS_PORT of container main is \"84710\", no port from 1 to 65535: mend it, or remove it" },
  { "an empty process port is a decision",
    RAY7,
    ADD_ENV ("{'name': 'TPU_PROCESS_PORT', 'value': ''}"),
    { "TPU_PROCESS_ADDRESSES", "TPU_WORKER_ID=1" },
    NULL },
  { "an id of the user's that is another host's",
    RAY,
    ADD_ENV ("{'name': 'TPU_WORKER_ID', 'value': '0'}"),
    { "TPU_WORKER_ID=0", "TPU_WORKER_HOSTNAMES" },
    "container main keeps its own TPU_WORKER_ID \"0\", which is not its index in the slice: remove it" },
  { "an id of the user's that is right",
    RAY,
    ADD_ENV ("{'name': 'TPU_WORKER_ID', 'value': '1'}"),
    { "TPU_WORKER_ID=1", "TPU_WORKER_HOSTNAMES" },
    NULL },
  { "an annotation that is neither true nor false",
    RAY,
    "[{'op': 'add', 'path': '/metadata/annotations', 'value': {'ray-tpu-operator/inject': 'False'}}]",
    { "TPU_WORKER_ID=1" },
    "annotation ray-tpu-operator/inject is \"False\" and has no effect: write \"false\"" },
  { "an annotation that nearly is one",
    RAY,
    "[{'op': 'add', 'path': '/metadata/annotations', 'value': {'ray-tpu-operator/injection': 'false'}}]",
    { "TPU_WORKER_ID=1" },
    "annotation ray-tpu-operator/injection is not known and has no effect" },
  { "an annotation whose prefix nearly is ours",
    RAY,
    "[{'op': 'add', 'path': '/metadata/annotations', 'value': {'ray-tpu-operator.io/inject': 'false'}}]",
    { "TPU_WORKER_ID=1" },
    "annotation ray-tpu-operator.io/inject is not known and has no effect" },
  { "annotations that the operator writes",
    RAY,
    "[{'op': 'add', 'path': '/metadata/annotations', 'value': {'ray-tpu-operator/template-hash': '1', "
    "'ray-tpu-operator/reserved-until': '2', 'ray-tpu-operator/inject': 'true'}}]",
    { "TPU_WORKER_ID=1" },
    NULL },
  { "the annotation as a label",
    RAY,
    "[{'op': 'add', 'path': '/metadata/labels/ray-tpu-operator~1inject', 'value': 'false'}]",
    { "TPU_WORKER_ID=1" },
    "label ray-tpu-operator/inject has no effect: make it an annotation" },
  { "MEGASCALE is not for Jobs",
    JOB,
    ADD_ENV ("{'name': 'MEGASCALE_NUM_SLICES', 'value': '2'}"),
    { "MEGASCALE_SLICE_ID", "MEGASCALE_COORDINATOR_ADDRESS", "MEGASCALE_PORT" },
    NULL },
};

static void
test_cases (void **state)
{
  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (cases); i++)
    {
      const struct injection_case *c = &cases[i];
      cleanup_json cJSON *pod = make_base (c->base);
      cleanup_injection struct tpu_injection in = { 0 };

      edit (pod, c->edit);
      in = admit (pod, NULL);
      check_env (c->name, container_at (pod, "containers", 0), c->expected);
      assert_null (json_get (container_at (pod, "containers", 1), "env"));
      if (c->warning == NULL ? cJSON_GetArraySize (in.warnings) != 0 : !warned (&in, c->warning))
        fail_msg ("%s: warnings are %s", c->name, json_print (in.warnings));
    }
}

/* ---- large pods: what they are told and what they cost is bounded ---- */

/* `count` more containers in the section, each asking for a chip. */
static void
add_containers (cJSON *pod, const char *section, int count)
{
  cJSON *list = json_arr (json_get (pod, "spec"), section);

  for (int i = 0; i < count; i++)
    json_set_str (json_obj (json_obj (json_push_obj (list), "resources"), "limits"), "google.com/tpu", "1");
}

static void
test_environment_too_large_for_an_object (void **state)
{
  /* A list of 1024 hosts, eight times each. */
  cleanup_json cJSON *pod = make_job_pod ("tpu-v6e-slice", "64x128", "1", "train", 3, "s");
  cleanup_json cJSON *larger = NULL;
  cleanup_injection struct tpu_injection in = { 0 }, refused = { 0 };

  (void) state;
  add_containers (pod, "containers", 7);
  larger = cJSON_Duplicate (pod, true);
  in = admit (pod, NULL);
  assert_string_equal (env_of (pod, "TPU_WORKER_ID"), "24");
  add_containers (larger, "initContainers", 8);
  refused = admit (larger, NULL);
  assert_int_equal (cJSON_GetArraySize (refused.patch), 0);
  assert_true (warned (&refused, "longer than 1 MiB"));
  assert_true (warned (&refused, "let fewer containers ask for TPUs"));
}

static void
test_unknown_annotations_are_one_warning (void **state)
{
  cleanup_json cJSON *pod = make_base (RAY);
  cleanup_injection struct tpu_injection in = { 0 };
  char key[40];

  (void) state;
  for (int i = 0; i < 1000; i++)
    {
      snprintf (key, sizeof (key), "ray-tpu-operator%d", i);
      json_set_str (json_obj (json_get (pod, "metadata"), "annotations"), key, "");
    }
  in = admit (pod, NULL);
  assert_int_equal (cJSON_GetArraySize (in.warnings), 1);
  assert_true (warned (&in, "annotation ray-tpu-operator0 and 999 more are not known"));
}

/* Each of 16 containers has three entries to complain about. */
static void
test_warnings_are_few (void **state)
{
  cleanup_json cJSON *pod = make_job_pod ("tpu-v6e-slice", "8x8", "1", "j", 0, "s");
  cleanup_injection struct tpu_injection in = { 0 };
  cJSON *container;
  char name[16];
  int i = 0;

  (void) state;
  add_containers (pod, "containers", 7);
  add_containers (pod, "initContainers", 8);
  cJSON_ArrayForEach (container, json_get (pod, "spec", "containers"))
    {
      cleanup_json cJSON *env = parse_json ("[{'name': 'TPU_PROCESS_PORT', 'value': 'x'}, {'name': 'MEGASCALE_PORT', "
                                            "'value': 'x'}, {'name': 'MEGASCALE_NUM_SLICES', 'value': 'x'}]");

      snprintf (name, sizeof (name), "c%d", i++);
      json_set_str (container, "name", name);
      json_set (container, "env", take_ptr (env));
    }
  in = admit (pod, NULL);
  assert_int_equal (cJSON_GetArraySize (in.warnings), 20);
  assert_true (warned (&in, "there is more to say"));
}

/* ---- opt-out, no TPU, strict ---- */

static void
test_opt_out (void **state)
{
  cleanup_json cJSON *pod = make_base (RAY), *before = NULL;
  cleanup_injection struct tpu_injection in = { 0 };

  (void) state;
  /* Even what would be refused is none of our business then. */
  edit (pod, "[{'op': 'add', 'path': '/metadata/annotations', 'value': {'ray-tpu-operator/inject': 'false'}},"
             "{'op': 'add', 'path': '/spec/nodeSelector/cloud.google.com~1gke-tpu-topology', 'value': '4x'}]");
  before = cJSON_Duplicate (pod, true);
  in = admit (pod, NULL);
  assert_int_equal (cJSON_GetArraySize (in.patch), 0);
  assert_int_equal (cJSON_GetArraySize (in.warnings), 0);
  assert_true (json_equal (pod, before));
  tpu_injection_free (&in);
  edit (pod, "[{'op': 'add', 'path': '/metadata/annotations', 'value': {'ray-tpu-operator/inject': 'true'}},"
             "{'op': 'add', 'path': '/spec/nodeSelector/cloud.google.com~1gke-tpu-topology', 'value': '4x4'}]");
  in = admit (pod, NULL);
  assert_string_equal (env_of (pod, "TPU_WORKER_ID"), "1");
}

static void
test_what_is_no_tpu_pod (void **state)
{
  static const char *const pods[] = { "{}",
                                      "[]",
                                      "null",
                                      "7",
                                      "{'spec': {'containers': [{'name': 'a'}]}}",
                                      "{'metadata': {'labels': {'ray.io/cluster': 'c'}}, 'spec': {}}" };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (pods); i++)
    {
      cleanup_json cJSON *pod = parse_json (pods[i]);
      cleanup_injection struct tpu_injection in = { 0 };
      struct error err = { 0 };

      assert_int_equal (tpu_inject (&in, pod, NULL, &err), 0);
      assert_int_equal (cJSON_GetArraySize (in.patch), 0);
      assert_int_equal (cJSON_GetArraySize (in.warnings), 0);
      assert_int_equal (in.worker_id, -1);
      assert_int_equal (in.hosts, 0);
    }
}

#define DROP_LABEL(label) "[{'op': 'remove', 'path': '/metadata/labels/" label "'}]"
#define CONTROLLED_BY(kind, name)                                                                                      \
  "[{'op': 'add', 'path': '/metadata/ownerReferences', 'value': [{'kind': '" kind "', 'name': '" name                  \
  "', 'controller': true}]}]"
#define SET_LABEL(label, value) "[{'op': 'add', 'path': '/metadata/labels/" label "', 'value': '" value "'}]"

static const struct
{
  const char *name;
  enum base base;
  const char *edit, *why, *remedy;
} unknown[] = {
  { "Ray without host index", RAY, DROP_LABEL ("ray.io~1replica-host-index"), "ray.io/replica-host-index",
    "KubeRay 1.6" },
  { "Ray without replica index", RAY, DROP_LABEL ("ray.io~1worker-group-replica-index"), "replica-index",
    "KubeRay 1.6" },
  { "Ray without group", RAY, DROP_LABEL ("ray.io~1group"), "ray.io/group", "KubeRay 1.6" },
  { "Ray with a negative index", RAY, SET_LABEL ("ray.io~1replica-host-index", "-1"), "replica-host-index",
    "KubeRay 1.6" },
  { "Ray with an index that is none", RAY, SET_LABEL ("ray.io~1replica-host-index", "1x"), "host-index",
    "KubeRay 1.6" },
  { "Ray with an index beyond the slice", RAY, SET_LABEL ("ray.io~1replica-host-index", "4"), "its index 4 is beyond",
    "run 4 hosts per slice" },
  { "Ray group name that is no DNS label", RAY, SET_LABEL ("ray.io~1group", "V6e_16"), "V6e_16-0-3 is no DNS label",
    "shorten" },
  { "Ray names that are too long", RAY,
    SET_LABEL ("ray.io~1group", "gggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggg"), "no DNS label",
    "at most 63" },
  { "Ray cluster name that is too long", RAY,
    SET_LABEL ("ray.io~1cluster", "cccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"), "subdomain",
    "at most 63" },
  { "Ray with a hostname of the user's", RAY, "[{'op': 'add', 'path': '/spec/hostname', 'value': 'mine'}]",
    "spec.hostname is mine", "remove it" },
  { "NonIndexed Job", JOB,
    "[{'op': 'remove', 'path': '/metadata/annotations'}, {'op': 'remove', 'path': "
    "'/metadata/labels/batch.kubernetes.io~1job-completion-index'}]",
    "no completion index", "completionMode: Indexed" },
  { "Job without a name", JOB,
    "[{'op': 'replace', 'path': '/metadata/labels', 'value': {'batch.kubernetes.io/job-name': '', 'job-name': ''}}]",
    "label batch.kubernetes.io/job-name names no Job", "leave it as the Job controller writes it" },
  { "Job without subdomain", JOB, "[{'op': 'remove', 'path': '/spec/subdomain'}]", "spec.subdomain",
    "headless Service" },
  { "Job with an empty subdomain", JOB, "[{'op': 'add', 'path': '/spec/subdomain', 'value': ''}]", "spec.subdomain",
    "headless Service" },
  { "Job with more completions than hosts", JOB, "[" COMPLETION ("4") "]", "its index 4 is beyond the slice",
    "run 4 hosts per slice" },
  { "Job whose index is in the template", JOB, "[{'op': 'remove', 'path': '/spec/hostname'}]",
    "completion index 2 is not the Job controller's", "completionMode: Indexed" },
  { "Job whose index and hostname are in the template", JOB,
    "[{'op': 'replace', 'path': '/metadata/generateName', 'value': 'j-'}]",
    "completion index 2 is not the Job controller's", "remove the index from the template" },
  { "Job whose label and annotation disagree", JOB, SET_LABEL ("batch.kubernetes.io~1job-completion-index", "1"),
    "1 as a label and 2 as an annotation", "remove batch.kubernetes.io/job-completion-index" },
  { "Deployment with a Job's labels", JOB, CONTROLLED_BY ("ReplicaSet", "x"),
    "its labels are those of a Job's Pod, but a ReplicaSet controls it", "remove them" },
  { "Deployment with Ray's labels", RAY, CONTROLLED_BY ("ReplicaSet", "x"),
    "its labels are those of a RayCluster's Pod, but a ReplicaSet controls it", "remove them" },
  { "Ray with the labels of another cluster", RAY, CONTROLLED_BY ("RayCluster", "other"),
    "RayCluster c of its label ray.io/cluster does not control it", "remove the label" },
  { "Job with a hostname of its own", JOB, "[{'op': 'add', 'path': '/spec/hostname', 'value': 'mine'}]",
    "spec.hostname is mine", "remove it" },
  { "bare pod on a multi-host slice", BARE, "[" SELECT ("tpu-v6e-slice", "4x4") "]", "Pod without a controller",
    "Indexed Job" },
  { "Deployment", BARE,
    "[" SELECT ("tpu-v6e-slice", "4x4") ", {'op': 'add', 'path': '/metadata/ownerReferences', 'value': [{'kind': "
                                        "'ReplicaSet', 'controller': true}]}]",
    "ReplicaSet", "Indexed Job" },
  { "StatefulSet without a Service", BARE,
    "[" SELECT ("tpu-v6e-slice",
                "4x4") ", {'op': 'add', 'path': '/metadata/labels', 'value': {'apps.kubernetes.io/pod-index': '1'}}, "
                       "{'op': 'add', 'path': '/metadata/name', 'value': 's-1'}]",
    "no spec.subdomain", "spec.serviceName" },
  { "LeaderWorkerSet, also with Ray in it", RAY, SET_LABEL ("leaderworkerset.sigs.k8s.io~1name", "l"),
    "does not end in its index", "LeaderWorkerSet controller" },
  { "no topology", JOB, "[{'op': 'remove', 'path': '/spec/nodeSelector/cloud.google.com~1gke-tpu-topology'}]",
    "names no topology", "spec.nodeSelector" },
};

/* Nothing that depends on the place in the slice; a warning that says why and what to do; in strict mode a refusal. */
static void
test_unknown_identity (void **state)
{
  struct tpu_options strict = tpu_default_options;

  (void) state;
  strict.strict = true;
  for (size_t i = 0; i < ARRAY_LEN (unknown); i++)
    {
      cleanup_json cJSON *pod = make_base (unknown[i].base);
      cleanup_injection struct tpu_injection in = { 0 };
      struct tpu_injection none;
      struct error err = { 0 };

      edit (pod, unknown[i].edit);
      assert_int_equal (tpu_inject (&none, pod, &strict, &err), -EINVAL);
      assert_null (none.patch);
      if (strstr (err.message, unknown[i].why) == NULL || strstr (err.message, unknown[i].remedy) == NULL)
        fail_msg ("%s: %s", unknown[i].name, err.message);
      in = admit (pod, NULL);
      if (!warned (&in, unknown[i].why) || !warned (&in, unknown[i].remedy))
        fail_msg ("%s: %s", unknown[i].name, json_print (in.warnings));
      for (size_t v = 0; v < 10; v++)
        if (env_entry (container_at (pod, "containers", 0), all_variables[v]) != NULL)
          fail_msg ("%s: %s was injected", unknown[i].name, all_variables[v]);
      assert_null (json_get (pod, "spec", "affinity"));
      /* Where the node's metrics are does not depend on it. */
      assert_int_equal (env_of (pod, "TPU_DEVICE_PLUGIN_ADDR") != NULL, in.owner == TPU_OWNER_RAY);
      assert_int_equal (in.worker_id, -1);
      assert_string_equal (in.slice, "");
    }
}

static void
test_strict_admits_what_is_known (void **state)
{
  struct tpu_options strict = tpu_default_options;

  (void) state;
  strict.strict = true;
  for (enum base b = RAY; b < BASE_MAX; b++)
    {
      cleanup_json cJSON *pod = make_base (b);
      cleanup_injection struct tpu_injection in = admit (pod, &strict);

      assert_int_equal (cJSON_GetArraySize (in.warnings), 0);
      assert_non_null (env_of (pod, "TPU_WORKER_ID"));
    }
}

static void
test_owner_names (void **state)
{
  (void) state;
  assert_string_equal (tpu_owner_name (TPU_OWNER_RAY), "RayCluster");
  assert_string_equal (tpu_owner_name (TPU_OWNER_LWS), "LeaderWorkerSet");
  assert_string_equal (tpu_owner_name (TPU_OWNER_JOBSET), "JobSet");
  assert_string_equal (tpu_owner_name (TPU_OWNER_JOB), "Job");
  assert_string_equal (tpu_owner_name (TPU_OWNER_STATEFULSET), "StatefulSet");
  assert_string_equal (tpu_owner_name (TPU_OWNER_BARE), "Pod");
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_tutorial_v6e_workers),
    cmocka_unit_test (test_tutorial_tpu7x_workers),
    cmocka_unit_test (test_indexed_job_fixture),
    cmocka_unit_test (test_cases),
    cmocka_unit_test (test_environment_too_large_for_an_object),
    cmocka_unit_test (test_unknown_annotations_are_one_warning),
    cmocka_unit_test (test_warnings_are_few),
    cmocka_unit_test (test_opt_out),
    cmocka_unit_test (test_what_is_no_tpu_pod),
    cmocka_unit_test (test_unknown_identity),
    cmocka_unit_test (test_strict_admits_what_is_known),
    cmocka_unit_test (test_owner_names),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
