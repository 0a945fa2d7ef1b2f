/* LeaderWorkerSet: every row of facts/tpu_injection.md §1.4, before and after the set's own webhook. */
#include "test_tpu_owners.h"

#define LWS "leaderworkerset.sigs.k8s.io/"

/* ---- one TPU container ---- */

static const struct
{
  const char *name, *pod;
  bool leader, leader_tpus;
  const char *size, *subgroup;
  const char *label, *value; /* one more label */
  const char *id, *hosts;    /* without ".default"; NULL: nothing is injected, and `why` says why */
  const char *slice, *why;
} rows[] = {
  { "leader, size 2", "test-sample-0", true, false, "2", NULL, NULL, NULL, "0", "test-sample-0,test-sample-0-1",
    "test-sample-0", NULL },
  { "worker, leader with TPUs", "test-sample-0-1", false, true, "2", NULL, NULL, NULL, "1",
    "test-sample-0,test-sample-0-1", "test-sample-0", NULL },
  { "worker, leader without", "test-sample-0-1", false, false, "2", NULL, NULL, NULL, "0", "test-sample-0-1",
    "test-sample-0", NULL },
  { "worker, after its label was written", "test-sample-0-1", false, true, "2", NULL, LWS "worker-index", "1", "1",
    "test-sample-0,test-sample-0-1", "test-sample-0", NULL },
  { "size 1", "test-sample-0", true, false, "1", NULL, NULL, NULL, "0", "test-sample-0", "test-sample-0", NULL },
  { "no ordinal in the name", "invalidname", false, false, "2", NULL, NULL, NULL, NULL, NULL, NULL,
    "its name invalidname does not end in its index" },
  { "sub: leader, 1", "test-sample-0", true, false, "2", "1", NULL, NULL, "0", "test-sample-0", "test-sample-0", NULL },
  { "sub: leader, 2", "test-sample-0", true, false, "4", "2", NULL, NULL, "0", "test-sample-0,test-sample-0-1",
    "test-sample-0", NULL },
  { "sub: 1-3, leader with TPUs, 5, index 0", "test-sample-1-3", false, true, "5", "5", LWS "subgroup-index", "0", "3",
    "test-sample-1,test-sample-1-1,test-sample-1-2,test-sample-1-3,test-sample-1-4", "test-sample-1", NULL },
  { "sub: 1-7, leader with TPUs, 4, index 1", "test-sample-1-7", false, true, "8", "4", LWS "subgroup-index", "1", "3",
    "test-sample-1-4,test-sample-1-5,test-sample-1-6,test-sample-1-7", "test-sample-1", NULL },
  { "sub: the same before the label", "test-sample-1-7", false, true, "8", "4", NULL, NULL, "3",
    "test-sample-1-4,test-sample-1-5,test-sample-1-6,test-sample-1-7", "test-sample-1", NULL },
  { "sub: 1-5, leader without, 4", "test-sample-1-5", false, false, "9", "4", LWS "subgroup-index", "1", "0",
    "test-sample-1-5,test-sample-1-6,test-sample-1-7,test-sample-1-8", "test-sample-1", NULL },
  { "sub: prefill-0-1, 1, leader with TPUs", "prefill-0-1", false, true, "3", "1", NULL, NULL, "0", "prefill-0-1",
    "prefill-0", NULL },
  { "sub: prefill-0-2, 1, leader with TPUs", "prefill-0-2", false, true, "3", "1", NULL, NULL, "0", "prefill-0-2",
    "prefill-0", NULL },
  { "sub: prefill-0-1, 1, leader without", "prefill-0-1", false, false, "3", "1", LWS "subgroup-index", "1", "0",
    "prefill-0-1", "prefill-0", NULL },
  { "sub: prefill-0-2, 1, leader without", "prefill-0-2", false, false, "3", "1", NULL, NULL, "0", "prefill-0-2",
    "prefill-0", NULL },
  { "sub: bad size", "test-sample-1-3", false, true, "5", "five", NULL, NULL, NULL, NULL, NULL,
    "subgroup-size is no size" },
  { "sub: size 0", "test-sample-1-3", false, true, "5", "0", NULL, NULL, NULL, NULL, NULL, "subgroup-size is no size" },
  { "sub: bad index", "test-sample-1-3", false, true, "5", "5", LWS "subgroup-index", "x", NULL, NULL, NULL,
    "subgroup-index is no number" },
  { "sub: an extra leader with TPUs fits into no subgroup", "test-sample-0-5", false, true, "11", "5", NULL, NULL, NULL,
    NULL, NULL, "its subgroup of 5 hosts does not hold it at index 0" },
  { "size 5, leader", "test-sample-1", true, false, "5", NULL, NULL, NULL, "0",
    "test-sample-1,test-sample-1-1,test-sample-1-2,test-sample-1-3,test-sample-1-4", "test-sample-1", NULL },
  { "size 11, sub 5, worker 7, leader without", "test-sample-1-7", false, false, "11", "5", NULL, NULL, "1",
    "test-sample-1-6,test-sample-1-7,test-sample-1-8,test-sample-1-9,test-sample-1-10", "test-sample-1", NULL },
  { "no size", "test-sample-0", true, false, NULL, NULL, NULL, NULL, NULL, NULL, NULL, "size is no size" },
  { "bad size", "test-sample-0", true, false, "many", NULL, NULL, NULL, NULL, NULL, NULL, "size is no size" },
  { "index beyond the group", "test-sample-0-2", false, true, "2", NULL, NULL, NULL, NULL, NULL, NULL,
    "its index 2 is beyond the slice: run 2 hosts" },
};

/* "a,b" -> "a.default<suffix>,b.default<suffix>" */
static char *
qualify (const char *hosts, const char *suffix)
{
  struct buf out = { 0 };

  for (const char *p = hosts;; p++)
    if (*p == ',' || *p == '\0')
      {
        buf_printf (&out, ".default%s", suffix);
        if (*p == '\0')
          return buf_take (&out);
        buf_char (&out, ',');
      }
    else
      buf_char (&out, *p);
}

static void
check_row (size_t i, const cJSON *pod, const struct tpu_injection *in)
{
  cleanup_free char *hosts = NULL, *processes = NULL;

  if (rows[i].hosts == NULL)
    {
      if (!warned (in, rows[i].why) || json_get (container_at (pod, "containers", 0), "env") != NULL)
        fail_msg ("%s: %s", rows[i].name, json_print (in->warnings));
      return;
    }
  hosts = qualify (rows[i].hosts, "");
  processes = qualify (rows[i].hosts, ":8476");
  if (!text_eq (env_of (pod, "TPU_WORKER_HOSTNAMES"), hosts) || !text_eq (env_of (pod, "TPU_WORKER_ID"), rows[i].id)
      || !text_eq (env_of (pod, "TPU_PROCESS_ADDRESSES"), processes)
      || !text_eq (env_of (pod, "TPU_PROCESS_PORT"), "8476") || !text_eq (env_of (pod, "TPU_NAME"), rows[i].slice))
    fail_msg ("%s: %s %s", rows[i].name, json_print (container_at (pod, "containers", 0)), json_print (in->warnings));
  assert_int_equal (in->owner, TPU_OWNER_LWS);
  assert_int_equal (in->hosts, count_entries (hosts));
}

static void
test_rows_without_topology (void **state)
{
  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (rows); i++)
    {
      cleanup_json cJSON *pod = make_lws_pod (make_pod (NULL, NULL, "4"), rows[i].pod, rows[i].leader, rows[i].size,
                                              rows[i].subgroup, rows[i].leader_tpus);
      cleanup_injection struct tpu_injection in = { 0 };

      if (rows[i].label != NULL)
        set_label (pod, rows[i].label, rows[i].value);
      in = admit (pod, NULL);
      check_row (i, pod, &in);
      assert_null (env_of (pod, "TORCH_TPU_TOPOLOGY"));
    }
}

/* Strict refuses what the set's webhook refuses, and nothing else. */
static void
test_strict (void **state)
{
  struct tpu_options strict = tpu_default_options;

  (void) state;
  strict.strict = true;
  for (size_t i = 0; i < ARRAY_LEN (rows); i++)
    {
      cleanup_json cJSON *pod = make_lws_pod (make_pod (NULL, NULL, "4"), rows[i].pod, rows[i].leader, rows[i].size,
                                              rows[i].subgroup, rows[i].leader_tpus);
      cleanup_injection struct tpu_injection in = { 0 };
      struct error err = { 0 };

      if (rows[i].label != NULL)
        set_label (pod, rows[i].label, rows[i].value);
      assert_int_equal (tpu_inject (&in, pod, &strict, &err) == 0, rows[i].hosts != NULL);
    }
}

static void
test_leader_excluded (void **state)
{
  cleanup_json cJSON *pod = make_lws_pod (make_pod (NULL, NULL, "4"), "test-sample-0-2", false, "5", "2", false);
  cleanup_json cJSON *leader = make_lws_pod (make_pod (NULL, NULL, "4"), "test-sample-0", true, "5", "2", false);
  cleanup_injection struct tpu_injection in = { 0 };

  (void) state;
  set_annotation (pod, LWS "subgroup-policy-type", "LeaderExcluded");
  set_annotation (leader, LWS "subgroup-policy-type", "LeaderExcluded");
  admit_quietly (pod);
  assert_string_equal (env_of (pod, "TPU_WORKER_ID"), "1");
  assert_string_equal (env_of (pod, "TPU_WORKER_HOSTNAMES"), "test-sample-0-1.default,test-sample-0-2.default");
  in = admit (leader, NULL);
  assert_true (warned (&in, "the leader is in no subgroup"));
}

/* ---- several TPU containers, ports of the user's ---- */

static void
split_in_two (cJSON *pod)
{
  edit (pod, "[{'op': 'add', 'path': '/spec/containers/0/resources/limits/google.com~1tpu', 'value': 2},"
             "{'op': 'add', 'path': '/spec/containers/1/resources', 'value': {'requests': {'google.com/tpu': 2}}}]");
}

static const struct
{
  const char *pod;
  bool leader;
  const char *ports[2]; /* the user's */
  const char *ids[2], *addresses;
} pairs[] = {
  { "test-sample-0",
    true,
    { NULL, NULL },
    { "0", "1" },
    "test-sample-0.default:8476,test-sample-0.default:8477,test-sample-0-1.default:8476,test-sample-0-1.default:8477" },
  { "test-sample-0-1",
    false,
    { NULL, NULL },
    { "2", "3" },
    "test-sample-0.default:8476,test-sample-0.default:8477,test-sample-0-1.default:8476,test-sample-0-1.default:8477" },
  { "test-sample-0",
    true,
    { "8478", "8479" },
    { "0", "1" },
    "test-sample-0.default:8478,test-sample-0.default:8479,test-sample-0-1.default:8478,test-sample-0-1.default:8479" },
  { "test-sample-0-1",
    false,
    { "8478", "8479" },
    { "2", "3" },
    "test-sample-0.default:8478,test-sample-0.default:8479,test-sample-0-1.default:8478,test-sample-0-1.default:8479" },
};

static void
test_two_containers (void **state)
{
  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (pairs); i++)
    {
      cleanup_json cJSON *pod
          = make_lws_pod (make_pod ("tpu7x", "2x2x2", "4"), pairs[i].pod, pairs[i].leader, "2", NULL, !pairs[i].leader);

      split_in_two (pod);
      for (int c = 0; c < 2 && pairs[i].ports[c] != NULL; c++)
        {
          cJSON *entry = json_push_obj (json_arr (cJSON_GetArrayItem (json_get (pod, "spec", "containers"), c), "env"));

          json_set_str (entry, "name", "TPU_PROCESS_PORT");
          json_set_str (entry, "value", pairs[i].ports[c]);
        }
      admit_quietly (pod);
      for (int c = 0; c < 2; c++)
        {
          cleanup_free char *id = xasprintf ("TPU_WORKER_ID=%s", pairs[i].ids[c]);
          cleanup_free char *addresses = xasprintf ("TPU_PROCESS_ADDRESSES=%s", pairs[i].addresses);
          cleanup_free char *port = pairs[i].ports[c] ? xasprintf ("TPU_PROCESS_PORT=%s", pairs[i].ports[c])
                                                      : xasprintf ("TPU_PROCESS_PORT=%d", 8476 + c);
          const char *const expected[] = { id,
                                           addresses,
                                           port,
                                           "TPU_WORKER_HOSTNAMES=test-sample-0.default,test-sample-0.default,"
                                           "test-sample-0-1.default,test-sample-0-1.default",
                                           "TPU_NAME=test-sample-0",
                                           "TORCH_TPU_TOPOLOGY",
                                           NULL };

          check_env (pairs[i].pod, container_at (pod, "containers", c), expected);
        }
    }
}

static void
test_only_an_init_container_asks (void **state)
{
  cleanup_json cJSON *pod = make_lws_pod (make_pod (NULL, NULL, NULL), "sample-0", true, "1", NULL, false);
  static const char *const expected[]
      = { "TPU_WORKER_HOSTNAMES=sample-0.default",       "TPU_WORKER_ID=0",       "TPU_NAME=sample-0",
          "TPU_PROCESS_ADDRESSES=sample-0.default:8476", "TPU_PROCESS_PORT=8476", NULL };

  (void) state;
  edit (pod, "[{'op': 'add', 'path': '/spec/initContainers', 'value': [{'name': 'i', 'resources': {'limits': "
             "{'google.com/tpu': 4}}}]}]");
  admit_quietly (pod);
  check_env ("init", container_at (pod, "initContainers", 0), expected);
  assert_null (json_get (container_at (pod, "containers", 0), "env"));
}

static void
test_subgroups_tell_the_first_container (void **state)
{
  cleanup_json cJSON *pod = make_lws_pod (make_pod ("tpu7x", "2x2x2", "4"), "test-sample-0-1", false, "4", "2", true);
  cleanup_injection struct tpu_injection in = { 0 };

  (void) state;
  split_in_two (pod);
  in = admit (pod, NULL);
  assert_string_equal (env_of (pod, "TPU_WORKER_HOSTNAMES"), "test-sample-0.default,test-sample-0-1.default");
  assert_string_equal (env_of (pod, "TPU_WORKER_ID"), "1");
  assert_string_equal (env_of (pod, "TPU_PROCESS_ADDRESSES"),
                       "test-sample-0.default:8476,test-sample-0-1.default:8476");
  assert_null (json_get (container_at (pod, "containers", 1), "env"));
  assert_true (warned (&in, "container idle is not told its place"));
}

/* ---- nothing to do ---- */

static void
test_no_tpu_container (void **state)
{
  cleanup_json cJSON *pod = make_lws_pod (make_pod (NULL, NULL, NULL), "test-sample-0", true, "2", NULL, false);
  cleanup_injection struct tpu_injection in = admit (pod, NULL);

  (void) state;
  assert_int_equal (cJSON_GetArraySize (in.patch), 0);
}

/* The first container speaks for all of them. */
static void
test_hostnames_or_id_are_there (void **state)
{
  static const char *const entries[] = {
    "{'name': 'TPU_WORKER_HOSTNAMES', 'value': 'x'}",
    "{'name': 'TPU_WORKER_HOSTNAMES', 'value': ''}",
    "{'name': 'TPU_WORKER_ID', 'value': '5'}",
    "{'name': 'TPU_WORKER_ID', 'valueFrom': {'fieldRef': {'fieldPath': 'x'}}}",
  };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (entries); i++)
    {
      cleanup_json cJSON *pod
          = make_lws_pod (make_pod ("tpu-v6e-slice", "4x4", "4"), "test-sample-0", true, "4", NULL, false);
      const char *const both[] = { "TPU_WORKER_HOSTNAMES", "TPU_WORKER_ID", "TPU_PROCESS_ADDRESSES", NULL };

      split_in_two (pod);
      json_push (json_arr (json_get (pod, "spec", "containers")->child, "env"), parse_json (entries[i]));
      admit_quietly (pod);
      check_env (entries[i], container_at (pod, "containers", 1), both);
      assert_null (env_of (pod, "TPU_PROCESS_ADDRESSES"));
    }
}

/* Without the set's label it is a StatefulSet's pod, alone on a slice of several hosts. */
static void
test_no_set_label (void **state)
{
  cleanup_json cJSON *pod
      = make_lws_pod (make_pod ("tpu-v6e-slice", "4x4", "4"), "test-sample-0", true, "4", NULL, false);
  cleanup_injection struct tpu_injection in = { 0 };

  (void) state;
  json_drop (json_get (pod, "metadata", "labels"), LWS "name");
  json_drop (json_get (pod, "metadata", "labels"), "apps.kubernetes.io/pod-index");
  in = admit (pod, NULL);
  assert_int_equal (in.owner, TPU_OWNER_BARE);
  assert_null (json_get (container_at (pod, "containers", 0), "env"));
}

/* ---- with the set's webhook ---- */

static void
test_unique_subdomains (void **state)
{
  cleanup_json cJSON *leader = make_lws_pod (make_pod (NULL, NULL, "4"), "test-sample-1", true, "2", NULL, false);
  cleanup_json cJSON *worker = make_lws_pod (make_pod (NULL, NULL, "4"), "test-sample-1-1", false, "2", NULL, true);

  (void) state;
  set_annotation (leader, LWS "subdomainPolicy", "UniquePerReplica");
  set_annotation (worker, LWS "subdomainPolicy", "UniquePerReplica");
  json_set_str (json_get (worker, "spec"), "subdomain", "test-sample-1");
  admit_quietly (leader);
  admit_quietly (worker);
  assert_string_equal (env_of (leader, "TPU_WORKER_HOSTNAMES"),
                       "test-sample-1.test-sample-1,test-sample-1-1.test-sample-1");
  assert_string_equal (env_of (worker, "TPU_WORKER_HOSTNAMES"), env_of (leader, "TPU_WORKER_HOSTNAMES"));
}

/* It came first: only what it does not know is added. */
static void
test_the_sets_webhook_came_first (void **state)
{
  cleanup_json cJSON *pod
      = make_lws_pod (make_pod ("tpu-v6e-slice", "2x4", "4"), "test-sample-0-1", false, "2", NULL, true);
  const char *const expected[] = { "TPU_WORKER_HOSTNAMES=test-sample-0.default,test-sample-0-1.default",
                                   "TPU_WORKER_ID=1",
                                   "TPU_NAME=test-sample-0",
                                   "TORCH_TPU_TOPOLOGY=2,4,1",
                                   "TORCH_TPU_SLICEBUILDER_ADDRESSES=test-sample-0.default:8471,test-sample-0.default:"
                                   "8472,test-sample-0.default:8473,test-sample-0.default:8474,test-sample-0-1.default:"
                                   "8471,test-sample-0-1.default:8472,test-sample-0-1.default:8473,test-sample-0-1."
                                   "default:8474",
                                   NULL };
  cleanup_injection struct tpu_injection in = { 0 };

  (void) state;
  edit (pod, ADD_ENV ("{'name': 'LWS_LEADER_ADDRESS', 'value': 'test-sample-0.default.ns'},"
                      "{'name': 'TPU_WORKER_HOSTNAMES', 'value': 'test-sample-0.default,test-sample-0-1.default'},"
                      "{'name': 'TPU_WORKER_ID', 'value': '1'}, {'name': 'TPU_NAME', 'value': 'test-sample-0'},"
                      "{'name': 'TPU_PROCESS_ADDRESSES', 'value': "
                      "'test-sample-0.default:8476,test-sample-0-1.default:8476'},"
                      "{'name': 'TPU_PROCESS_PORT', 'value': '8476'}"));
  in = admit (pod, NULL);
  check_env ("after", container_at (pod, "containers", 0), expected);
  assert_int_equal (cJSON_GetArraySize (in.patch), 2);
  assert_int_equal (cJSON_GetArraySize (in.warnings), 0);
}

/* What the set's webhook of 0.9 writes for the leader of subgroups of one (issue 917 of LeaderWorkerSet). */
static void
test_the_sets_id_is_none (void **state)
{
  static const struct
  {
    const char *id, *subgroup, *warning; /* NULL: none */
  } ids[] = {
    { "-1", "1", "TPU_WORKER_ID of container main is \"-1\", which is no index from 0 to 0" },
    { "0", "1", NULL },
    { "1", "1", "from 0 to 0" },
    { "-1", NULL, "from 0 to 3" },
    { "4", NULL, "upgrade it" },
    { "3", NULL, NULL }, /* not this one's, but the set's to know */
  };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (ids); i++)
    {
      cleanup_json cJSON *pod
          = make_lws_pod (make_pod (NULL, NULL, "4"), "test-sample-0", true, "4", ids[i].subgroup, false);
      cleanup_json cJSON *entry = parse_json ("{'name': 'TPU_WORKER_ID'}");
      cleanup_injection struct tpu_injection in = { 0 };

      json_set_str (entry, "value", ids[i].id);
      json_push (json_arr (json_get (pod, "spec", "containers")->child, "env"), take_ptr (entry));
      in = admit (pod, NULL);
      assert_string_equal (env_of (pod, "TPU_WORKER_ID"), ids[i].id);
      if (ids[i].warning ? !warned (&in, ids[i].warning) : warned (&in, "is no index"))
        fail_msg ("%s of %s: %s", ids[i].id, log_nonnull (ids[i].subgroup), json_print (in.warnings));
    }
}

/* 8477 is what the second container would count to: LeaderWorkerSet's webhook has it so, and all others are to agree.
 */
static void
test_a_port_of_the_users_is_counted_to (void **state)
{
  cleanup_json cJSON *pod = make_lws_pod (make_pod ("tpu7x", "2x2x2", "4"), "test-sample-0", true, "2", NULL, false);
  cleanup_injection struct tpu_injection in = { 0 };

  (void) state;
  split_in_two (pod);
  edit (pod, ADD_ENV ("{'name': 'TPU_PROCESS_PORT', 'value': '8477'}"));
  in = admit (pod, NULL);
  assert_string_equal (env_of (pod, "TPU_PROCESS_ADDRESSES"),
                       "test-sample-0.default:8477,test-sample-0.default:8477,test-sample-0-1.default:8477,"
                       "test-sample-0-1.default:8477");
  assert_true (warned (&in, "two TPU containers of the Pod listen on port 8477: give each a TPU_PROCESS_PORT"));
}

/* A group that is no slice keeps the set's values, and somebody is told. */
static void
test_group_and_topology_disagree (void **state)
{
  cleanup_json cJSON *pod
      = make_lws_pod (make_pod ("tpu-v6e-slice", "2x4", "4"), "test-sample-0", true, "4", NULL, false);
  cleanup_injection struct tpu_injection in = admit (pod, NULL);

  (void) state;
  assert_int_equal (count_entries (env_of (pod, "TPU_WORKER_HOSTNAMES")), 4);
  assert_null (env_of (pod, "TORCH_TPU_TOPOLOGY"));
  assert_true (warned (&in, "makes a slice of 4 TPU hosts, but topology 2x4 with 4 google.com/tpu per Pod has 2"));
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_rows_without_topology),
    cmocka_unit_test (test_strict),
    cmocka_unit_test (test_leader_excluded),
    cmocka_unit_test (test_two_containers),
    cmocka_unit_test (test_only_an_init_container_asks),
    cmocka_unit_test (test_subgroups_tell_the_first_container),
    cmocka_unit_test (test_no_tpu_container),
    cmocka_unit_test (test_hostnames_or_id_are_there),
    cmocka_unit_test (test_no_set_label),
    cmocka_unit_test (test_unique_subdomains),
    cmocka_unit_test (test_the_sets_webhook_came_first),
    cmocka_unit_test (test_the_sets_id_is_none),
    cmocka_unit_test (test_a_port_of_the_users_is_counted_to),
    cmocka_unit_test (test_group_and_topology_disagree),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
