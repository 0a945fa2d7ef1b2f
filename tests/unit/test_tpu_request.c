/* What a pod template asks for: chips, containers, accelerator, topology, hosts. */
#include "test_tpu_pods.h"

/* A template is built from a v6e 4x4 pod of 4 chips and then edited. */
static const struct request_case
{
  const char *name, *edit;
  int64_t chips, containers, hosts;
} good[] = {
  { "as it is", "[]", 4, 1, 4 },
  { "a number instead of a string",
    "[{'op': 'add', 'path': '/spec/containers/0/resources', 'value': {'limits': {'google.com/tpu': 4}}}]", 4, 1, 4 },
  { "a whole decimal",
    "[{'op': 'add', 'path': '/spec/containers/0/resources', 'value': {'limits': {'google.com/tpu': '4.0'}}}]", 4, 1,
    4 },
  { "a suffix",
    "[{'op': 'add', 'path': '/spec/containers/0/resources', 'value': {'limits': {'google.com/tpu': '4000m'}}}]", 4, 1,
    4 },
  { "requests only",
    "[{'op': 'add', 'path': '/spec/containers/0/resources', 'value': {'requests': {'google.com/tpu': '4'}}}]", 4, 1,
    4 },
  { "limits before requests",
    "[{'op': 'add', 'path': '/spec/containers/0/resources/requests', 'value': {'google.com/tpu': '8'}}]", 4, 1, 4 },
  { "two containers",
    "[{'op': 'add', 'path': '/spec/containers/1/resources', 'value': {'limits': {'google.com/tpu': '4'}}}]", 8, 2, 2 },
  { "a sidecar counts",
    "[{'op': 'add', 'path': '/spec/initContainers', 'value': [{'name': 's', 'restartPolicy': 'Always', 'resources': "
    "{'limits': {'google.com/tpu': 4}}}]}]",
    8, 2, 2 },
  { "an ordinary init container does not",
    "[{'op': 'add', 'path': '/spec/initContainers', 'value': [{'name': 's', 'resources': {'limits': {'google.com/tpu': "
    "4}}}]}]",
    4, 1, 4 },
  { "only init containers: the largest",
    "[{'op': 'remove', 'path': '/spec/containers/0/resources'}, {'op': 'add', 'path': '/spec/initContainers', 'value': "
    "[{'resources': {'limits': {'google.com/tpu': 2}}}, {'resources': {'limits': {'google.com/tpu': 8}}}]}]",
    8, 1, 2 },
  { "no request: no TPU pod, whatever the selectors",
    "[{'op': 'remove', 'path': '/spec/containers/0/resources'}, {'op': 'add', 'path': "
    "'/spec/nodeSelector/cloud.google.com~1gke-tpu-topology', 'value': '4x'}]",
    0, 0, 0 },
  { "zero chips",
    "[{'op': 'add', 'path': '/spec/containers/0/resources', 'value': {'limits': {'google.com/tpu': '0'}}}]", 0, 0, 0 },
  { "no topology", "[{'op': 'remove', 'path': '/spec/nodeSelector'}]", 4, 1, 0 },
  { "the slice annotation wins",
    "[{'op': 'add', 'path': '/metadata/annotations', 'value': {'cloud.google.com/gke-tpu-slice-topology': '8x8'}}]", 4,
    1, 16 },
  { "unknown accelerators have any dimensions",
    "[{'op': 'add', 'path': '/spec/nodeSelector', 'value': {'cloud.google.com/gke-tpu-accelerator': 'tpu8t', "
    "'cloud.google.com/gke-tpu-topology': '4x4x4'}}]",
    4, 1, 16 },
  { "spec of a wrong type", "[{'op': 'add', 'path': '/spec', 'value': 7}]", 0, 0, 0 },
  { "containers of a wrong type", "[{'op': 'add', 'path': '/spec/containers', 'value': {}}]", 0, 0, 0 },
  { "resources of a wrong type", "[{'op': 'add', 'path': '/spec/containers/0/resources', 'value': []}]", 0, 0, 0 },
};

static void
test_requests (void **state)
{
  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (good); i++)
    {
      cleanup_json cJSON *pod = make_pod ("tpu-v6e-slice", "4x4", "4");
      struct tpu_request r;
      struct error err = { 0 };

      edit (pod, good[i].edit);
      if (tpu_request_read (&r, pod, NULL, &err) < 0)
        fail_msg ("%s: %s", good[i].name, err.message);
      if (r.chips != good[i].chips || r.containers != good[i].containers || r.hosts != good[i].hosts)
        fail_msg ("%s: %d chips, %d containers, %d hosts", good[i].name, (int) r.chips, (int) r.containers,
                  (int) r.hosts);
    }
}

#define LIMIT(value)                                                                                                   \
  "[{'op': 'add', 'path': '/spec/containers/0/resources/limits/google.com~1tpu', 'value': " value "}]"
#define TOPOLOGY(value)                                                                                                \
  "[{'op': 'add', 'path': '/spec/nodeSelector/cloud.google.com~1gke-tpu-topology', 'value': '" value "'}]"

#define ONE_CONTAINER "{'resources': {'limits': {'google.com/tpu': 1}}}"
#define TWO_CONTAINERS ONE_CONTAINER ", " ONE_CONTAINER
#define EIGHT_CONTAINERS TWO_CONTAINERS ", " TWO_CONTAINERS ", " TWO_CONTAINERS ", " TWO_CONTAINERS

static const struct
{
  const char *name, *edit, *says[3];
} bad[] = {
  { "half a chip",
    LIMIT ("'500m'"),
    { "spec.containers[0].resources.limits[google.com/tpu]", "500m", "whole number" } },
  { "half a chip as a number",
    LIMIT ("2.5"),
    { "spec.containers[0].resources.limits[google.com/tpu]", "2.5", "whole" } },
  { "negative", LIMIT ("'-4'"), { "google.com/tpu", "-4", "whole number" } },
  { "negative number", LIMIT ("-1"), { "google.com/tpu", "-1", "whole number" } },
  { "no quantity", LIMIT ("'four'"), { "google.com/tpu", "four", "not a quantity" } },
  { "empty", LIMIT ("''"), { "spec.containers[0]", "not a quantity", "write" } },
  { "a boolean", LIMIT ("true"), { "spec.containers[0]", "boolean", "write the number of chips" } },
  { "absurd", LIMIT ("'1E'"), { "spec.containers[0]", "1E", "whole number of chips between 0 and" } },
  { "beyond 64 bits", LIMIT ("'99999999999999999999999'"), { "spec.containers[0]", "too large", "2^63-1" } },
  { "env is no array",
    "[{'op': 'add', 'path': '/spec/containers/0/env', 'value': {}}]",
    { "spec.containers[0].env", "array", "object" } },
  { "one dimension", TOPOLOGY ("4x"), { "node selector cloud.google.com/gke-tpu-topology", "\"4x\"", "as in 4x4" } },
  { "annotation that does not parse",
    "[{'op': 'add', 'path': '/metadata/annotations', 'value': {'cloud.google.com/gke-tpu-slice-topology': '4x4x'}}]",
    { "annotation cloud.google.com/gke-tpu-slice-topology", "\"4x4x\"", "as in 4x4" } },
  { "three dimensions on v6e",
    TOPOLOGY ("2x2x4"),
    { "topology 2x2x4 has 3 dimensions", "tpu-v6e-slice have 2", "4x4" } },
  { "chips that do not divide",
    LIMIT ("3"),
    { "topology 4x4 has 16 chips", "google.com/tpu: 3", "ask for 4 per Pod" } },
  { "a topology that no chips divide",
    TOPOLOGY ("3x3"),
    { "topology 3x3 has 9 chips", "no slice has so many", "topology of the node pool, as in 4x4" } },
  { "chips that no machine has",
    LIMIT ("16"),
    { "no v6e machine has the 16 chips that the Pod asks for", "the largest has 8", "ask for 4 per Pod" } },
  { "many containers",
    "[{'op': 'add', 'path': '/spec/nodeSelector', 'value': {}}, {'op': 'add', 'path': '/spec/containers', 'value': "
    "[" EIGHT_CONTAINERS ", " ONE_CONTAINER "]}]",
    { "9 containers of the Pod ask for google.com/tpu", "8 may do so at a time", "let fewer ask for more" } },
  { "many init containers",
    "[{'op': 'add', 'path': '/spec/initContainers', 'value': [" EIGHT_CONTAINERS ", " EIGHT_CONTAINERS "]}]",
    { "17 containers of the Pod ask", "as many init containers", "let fewer ask" } },
  { "more chips than the slice has", TOPOLOGY ("1x1"), { "has 1 chips", "google.com/tpu: 4", "ask for 1 per Pod" } },
};

static void
test_refusals_name_field_value_and_remedy (void **state)
{
  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (bad); i++)
    {
      cleanup_json cJSON *pod = make_pod ("tpu-v6e-slice", "4x4", "4");
      struct tpu_injection in;
      struct tpu_request r;
      struct error err = { 0 };

      edit (pod, bad[i].edit);
      if (tpu_request_read (&r, pod, NULL, &err) != -EINVAL)
        fail_msg ("%s was accepted", bad[i].name);
      for (size_t s = 0; s < ARRAY_LEN (bad[i].says); s++)
        if (strstr (err.message, bad[i].says[s]) == NULL)
          fail_msg ("%s: \"%s\" does not say \"%s\"", bad[i].name, err.message, bad[i].says[s]);
      assert_int_equal (tpu_inject (&in, pod, NULL, &err), -EINVAL);
      assert_null (in.patch);
      assert_int_equal (tpu_request_read (&r, pod, NULL, NULL), -EINVAL);
    }
}

#define TERMS(terms)                                                                                                   \
  "[{'op': 'add', 'path': '/spec/affinity', 'value': {'nodeAffinity': "                                                \
  "{'requiredDuringSchedulingIgnoredDuringExecution': {'nodeSelectorTerms': " terms "}}}}]"
#define TOPOLOGY_IN(values) "{'key': 'cloud.google.com/gke-tpu-topology', 'operator': 'In', 'values': " values "}"
#define ACCELERATOR_IN "{'key': 'cloud.google.com/gke-tpu-accelerator', 'operator': 'In', 'values': ['tpu-v6e-slice']}"

static const struct
{
  const char *name, *edit, *topology;
} affinities[] = {
  { "one term, one value", TERMS ("[{'matchExpressions': [" ACCELERATOR_IN ", " TOPOLOGY_IN ("['4x8']") "]}]"), "4x8" },
  { "two terms that agree",
    TERMS (
        "[{'matchExpressions': [" TOPOLOGY_IN ("['4x8']") "]}, {'matchExpressions': [" TOPOLOGY_IN ("['4x8']") "]}]"),
    "4x8" },
  { "two terms that differ",
    TERMS (
        "[{'matchExpressions': [" TOPOLOGY_IN ("['4x8']") "]}, {'matchExpressions': [" TOPOLOGY_IN ("['4x4']") "]}]"),
    NULL },
  { "a term that says nothing", TERMS ("[{'matchExpressions': [" TOPOLOGY_IN ("['4x8']") "]}, {}]"), NULL },
  { "two values", TERMS ("[{'matchExpressions': [" TOPOLOGY_IN ("['4x8', '4x4']") "]}]"), NULL },
  { "NotIn",
    TERMS ("[{'matchExpressions': [{'key': 'cloud.google.com/gke-tpu-topology', 'operator': 'NotIn', 'values': "
           "['4x8']}]}]"),
    NULL },
  { "no terms", TERMS ("[]"), NULL },
  { "null", "[{'op': 'add', 'path': '/spec/affinity', 'value': null}]", NULL },
};

static void
test_required_node_affinity_is_a_selector (void **state)
{
  struct tpu_request r;
  struct error err = { 0 };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (affinities); i++)
    {
      cleanup_json cJSON *pod = make_pod (NULL, NULL, "4");

      edit (pod, affinities[i].edit);
      assert_int_equal (tpu_request_read (&r, pod, NULL, &err), 0);
      if (!text_eq (r.topology_text, affinities[i].topology))
        fail_msg ("%s: %s", affinities[i].name, r.topology_text ? r.topology_text : "(none)");
      if (i == 0)
        assert_string_equal (r.accelerator->generation, "v6e");
      /* The node selector goes first. */
      edit (pod,
            "[{'op': 'add', 'path': '/spec/nodeSelector', 'value': {'cloud.google.com/gke-tpu-topology': '2x2'}}]");
      assert_int_equal (tpu_request_read (&r, pod, NULL, &err), 0);
      assert_string_equal (r.topology_text, "2x2");
    }
}

static void
test_slice_annotation_of_a_part (void **state)
{
  static const struct
  {
    const char *annotation, *selector;
    bool partial;
  } rows[] = { { NULL, "4x4", false }, { "4x4", "4x4", false }, { "4x4", "16x16", true }, { "4x4", NULL, true } };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (rows); i++)
    {
      cleanup_json cJSON *pod = make_pod ("tpu-v6e-slice", rows[i].selector, "4");
      struct tpu_request r;
      struct error err = { 0 };

      json_set_str (json_obj (json_get (pod, "metadata"), "annotations"), "cloud.google.com/gke-tpu-slice-topology",
                    rows[i].annotation);
      assert_int_equal (tpu_request_read (&r, pod, NULL, &err), 0);
      assert_int_equal (r.hosts, 4);
      assert_int_equal (r.partial, rows[i].partial);
    }
}

/* Self-managed clusters label their nodes otherwise (§4.1). */
static void
test_label_keys_are_options (void **state)
{
  const struct tpu_options options = { .accelerator_labels = { "cloud.google.com/gk8s-tpu-accelerator" },
                                       .topology_labels = { "x/none", "cloud.google.com/gk8s-tpu-topology" } };
  cleanup_json cJSON *pod = make_pod ("tpu-v6e-slice", "16x16", "4");
  struct tpu_request r;
  struct error err = { 0 };

  (void) state;
  edit (pod, "[{'op': 'add', 'path': '/spec/nodeSelector/cloud.google.com~1gk8s-tpu-topology', 'value': '2x2x2'},"
             "{'op': 'add', 'path': '/spec/nodeSelector/cloud.google.com~1gk8s-tpu-accelerator', 'value': 'tpu7x'}]");
  assert_int_equal (tpu_request_read (&r, pod, &options, &err), 0);
  assert_int_equal (r.hosts, 2);
  assert_string_equal (r.accelerator->generation, "tpu7x");
  /* By default both are known, and GKE's own comes first. */
  assert_int_equal (tpu_request_read (&r, pod, NULL, &err), 0);
  assert_string_equal (r.topology_text, "16x16");
  json_drop (json_get (pod, "spec", "nodeSelector"), "cloud.google.com/gke-tpu-topology");
  json_drop (json_get (pod, "spec", "nodeSelector"), "cloud.google.com/gke-tpu-accelerator");
  assert_int_equal (tpu_request_read (&r, pod, NULL, &err), 0);
  assert_string_equal (r.topology_text, "2x2x2");
  assert_string_equal (r.accelerator->generation, "tpu7x");
  /* What is wrong with it is said of the label that has it. */
  edit (pod, "[{'op': 'add', 'path': '/spec/nodeSelector/cloud.google.com~1gk8s-tpu-topology', 'value': '2x'}]");
  assert_int_equal (tpu_request_read (&r, pod, NULL, &err), -EINVAL);
  assert_non_null (strstr (err.message, "node selector cloud.google.com/gk8s-tpu-topology"));
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_requests),
    cmocka_unit_test (test_refusals_name_field_value_and_remedy),
    cmocka_unit_test (test_required_node_affinity_is_a_selector),
    cmocka_unit_test (test_slice_annotation_of_a_part),
    cmocka_unit_test (test_label_keys_are_options),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
