/* Environment entries: the user's are final, families, order, several containers, lists that are too long. */
#include "test_tpu_pods.h"

/* ---- the user's entries are final, and so is the rest of their family ---- */

static const struct
{
  const char *name, *rest[3]; /* what must not be there when the user has `name` */
} families[] = {
  { "TPU_WORKER_HOSTNAMES", { "TPU_WORKER_ID" } },
  { "TPU_WORKER_ID", { "TPU_WORKER_HOSTNAMES" } },
  { "TPU_PROCESS_ADDRESSES", { "TPU_PROCESS_PORT" } },
  { "TPU_PROCESS_PORT", { "TPU_PROCESS_ADDRESSES" } },
  { "TORCH_TPU_TOPOLOGY", { "TORCH_TPU_SLICEBUILDER_ADDRESSES" } },
  { "TORCH_TPU_SLICEBUILDER_ADDRESSES", { "TORCH_TPU_TOPOLOGY" } },
  { "MEGASCALE_SLICE_ID", { "MEGASCALE_COORDINATOR_ADDRESS", "MEGASCALE_PORT" } },
  { "MEGASCALE_COORDINATOR_ADDRESS", { "MEGASCALE_SLICE_ID", "MEGASCALE_PORT" } },
  { "TPU_NAME", { NULL } },
  { "TPU_DEVICE_PLUGIN_ADDR", { "TPU_DEVICE_PLUGIN_HOST_IP" } },
};

static void
test_user_entries_are_final_in_any_form (void **state)
{
  static const char *const forms[] = {
    "{'name': '%s', 'value': 'mine'}",
    "{'name': '%s', 'value': ''}",
    "{'name': '%s'}",
    "{'name': '%s', 'valueFrom': {'fieldRef': {'fieldPath': 'metadata.name'}}}",
    "{'name': '%s', 'valueFrom': {'configMapKeyRef': {'name': 'c', 'key': 'k', 'optional': true}}}",
  };

  (void) state;
  for (size_t f = 0; f < ARRAY_LEN (families); f++)
    for (size_t i = 0; i < ARRAY_LEN (forms); i++)
      {
        cleanup_json cJSON *pod = make_base (RAY7), *slices = NULL, *own = NULL;
        cleanup_free char *text = xasprintf (forms[i], families[f].name);
        cleanup_injection struct tpu_injection in = { 0 };
        cJSON *env = json_arr (json_get (pod, "spec", "containers")->child, "env");
        const cJSON *entry;

        own = parse_json (text);
        slices = parse_json ("{'name': 'MEGASCALE_NUM_SLICES', 'value': '2'}");
        json_push (env, cJSON_Duplicate (slices, true));
        json_push (env, cJSON_Duplicate (own, true));
        in = admit (pod, NULL);
        assert_true (json_equal (env_entry (container_at (pod, "containers", 0), families[f].name), own));
        cJSON_ArrayForEach (entry, env)
          if (text_eq (json_str (entry, "name"), families[f].name)
              && entry != env_entry (container_at (pod, "containers", 0), families[f].name))
            fail_msg ("%s is there twice", families[f].name);
        for (size_t r = 0; r < ARRAY_LEN (families[f].rest) && families[f].rest[r] != NULL; r++)
          if (env_entry (container_at (pod, "containers", 0), families[f].rest[r]) != NULL)
            fail_msg ("%s of the user's does not keep %s out", text, families[f].rest[r]);
        if (strcmp (families[f].name, "TPU_NAME") != 0)
          assert_string_equal (env_of (pod, "TPU_NAME"), "g-1");
      }
}

static void
test_order_and_creation_of_env (void **state)
{
  cleanup_json cJSON *pod = make_base (RAY7), *with_env = make_base (RAY7);
  struct tpu_injection in = admit (pod, NULL);
  const cJSON *entry;
  size_t i = 3; /* no MEGASCALE without MEGASCALE_NUM_SLICES */

  (void) state;
  assert_int_equal (json_find (in.patch, "path", "/spec/containers/0/env") != NULL, 1);
  cJSON_ArrayForEach (entry, json_get (container_at (pod, "containers", 0), "env"))
    assert_string_equal (json_str (entry, "name"), all_variables[i++]);
  assert_int_equal (i, ARRAY_LEN (all_variables));
  assert_string_equal (json_str (env_entry (container_at (pod, "containers", 0), "TPU_DEVICE_PLUGIN_HOST_IP"),
                                 "valueFrom", "fieldRef", "fieldPath"),
                       "status.hostIP");
  tpu_injection_free (&in);
  edit (with_env, ADD_ENV ("{'name': 'A', 'value': 'b'}, {'name': 'MEGASCALE_NUM_SLICES', 'value': '2'}"));
  in = admit (with_env, NULL);
  assert_null (json_find (in.patch, "path", "/spec/containers/0/env"));
  assert_non_null (json_find (in.patch, "path", "/spec/containers/0/env/-"));
  entry = json_get (container_at (with_env, "containers", 0), "env")->child->next->next;
  for (i = 0; i < ARRAY_LEN (all_variables); i++, entry = entry->next)
    assert_string_equal (json_str (entry, "name"), all_variables[i]);
  tpu_injection_free (&in);
}

static void
test_null_and_empty_env (void **state)
{
  static const char *const edits[] = { "[{'op': 'add', 'path': '/spec/containers/0/env', 'value': null}]",
                                       "[{'op': 'add', 'path': '/spec/containers/0/env', 'value': []}]" };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (edits); i++)
    {
      cleanup_json cJSON *pod = make_base (BARE);
      cleanup_injection struct tpu_injection in = { 0 };

      edit (pod, edits[i]);
      in = admit (pod, NULL);
      assert_string_equal (env_of (pod, "TPU_NAME"), "p");
    }
}

/* ---- several TPU containers in a pod ---- */

/* tpu7x, two containers of two chips each on two hosts: four workers. */
static void
test_two_containers_are_two_workers (void **state)
{
  cleanup_json cJSON *pod = make_base (RAY7);
  cleanup_injection struct tpu_injection in = { 0 };
  static const char *const both[] = {
    "TPU_WORKER_HOSTNAMES=g-1-0.c-headless,g-1-0.c-headless,g-1-1.c-headless,g-1-1.c-headless",
    "TPU_PROCESS_ADDRESSES=g-1-0.c-headless:8471,g-1-0.c-headless:9000,g-1-1.c-headless:8471,g-1-1.c-headless:9000",
    "TPU_NAME=g-1",
    "TORCH_TPU_TOPOLOGY",
    "TORCH_TPU_SLICEBUILDER_ADDRESSES",
    NULL,
  };

  (void) state;
  edit (pod, "[{'op': 'add', 'path': '/spec/containers/0/resources/limits/google.com~1tpu', 'value': 2},"
             "{'op': 'add', 'path': '/spec/containers/1/resources', 'value': {'limits': {'google.com/tpu': 2}}},"
             "{'op': 'add', 'path': '/spec/containers/1/env', 'value': [{'name': 'TPU_PROCESS_PORT', 'value': '9000'},"
             "{'name': 'MEGASCALE_NUM_SLICES', 'value': '2'}]},"
             "{'op': 'add', 'path': '/spec/initContainers', 'value': [{'name': 'check', 'resources': {'limits': "
             "{'google.com/tpu': 4}}}]}]");
  in = admit (pod, NULL);
  assert_int_equal (in.hosts, 2);
  assert_int_equal (in.worker_id, 1);
  for (int c = 0; c < 2; c++)
    {
      const cJSON *container = container_at (pod, "containers", c);
      const char *const own[]
          = { c == 0 ? "TPU_WORKER_ID=2" : "TPU_WORKER_ID=3",
              c == 0 ? "TPU_PROCESS_PORT=8471" : "TPU_PROCESS_PORT=9000",
              c == 0 ? "MEGASCALE_PORT" : "MEGASCALE_PORT=8082",
              c == 0 ? "MEGASCALE_COORDINATOR_ADDRESS" : "MEGASCALE_COORDINATOR_ADDRESS=g-0-0.c-headless:8081", NULL };

      check_env ("two containers", container, both);
      check_env ("two containers", container, own);
    }
  /* It never runs beside the others and takes the first one's place. */
  check_env ("init container", container_at (pod, "initContainers", 0), both);
  assert_string_equal (json_str (env_entry (container_at (pod, "initContainers", 0), "TPU_WORKER_ID"), "value"), "2");
  assert_true (warned (&in, "it is defined for one TPU container, the Pod has 2"));
}

/* Ports are one Pod's: what counts up from 8471 gives way to what the user has fixed, the same in every Pod. */
static void
test_no_two_containers_share_a_port (void **state)
{
  static const struct
  {
    const char *own[2]; /* NULL: none */
    const char *ports[2];
    bool warned;
  } rows[] = {
    { { "8472", NULL }, { "8472", "8473" }, false },
    { { NULL, "8471" }, { "8473", "8471" }, false },
    { { "8471", NULL }, { "8471", "8472" }, false },
    { { "9000", "9000" }, { "9000", "9000" }, true },
  };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (rows); i++)
    for (int host = 0; host < 2; host++)
      {
        cleanup_json cJSON *pod = make_ray_pod ("tpu7x", "2x2x2", "4", "c", "g", 0, host);
        cleanup_free char *list = xasprintf (
            "TPU_PROCESS_ADDRESSES=g-0-0.c-headless:%s,g-0-0.c-headless:%s,g-0-1.c-headless:%s,g-0-1.c-headless:%s",
            rows[i].ports[0], rows[i].ports[1], rows[i].ports[0], rows[i].ports[1]);
        cleanup_injection struct tpu_injection in = { 0 };

        edit (pod,
              "[{'op': 'add', 'path': '/spec/containers/0/resources/limits/google.com~1tpu', 'value': 2},"
              "{'op': 'add', 'path': '/spec/containers/1/resources', 'value': {'limits': {'google.com/tpu': 2}}}]");
        for (int c = 0; c < 2; c++)
          if (rows[i].own[c] != NULL)
            {
              cJSON *container = cJSON_GetArrayItem (json_get (pod, "spec", "containers"), c);
              cJSON *entry = json_push_obj (json_arr (container, "env"));

              json_set_str (entry, "name", "TPU_PROCESS_PORT");
              json_set_str (entry, "value", rows[i].own[c]);
            }
        in = admit (pod, NULL);
        for (int c = 0; c < 2; c++)
          {
            cleanup_free char *port = xasprintf ("TPU_PROCESS_PORT=%s", rows[i].ports[c]);
            const char *const expected[] = { list, port, NULL };

            check_env ("two ports", container_at (pod, "containers", c), expected);
          }
        assert_int_equal (warned (&in, "two TPU containers of the Pod listen on port 9000"), rows[i].warned);
      }
}

static void
test_hidden_port_of_another_container (void **state)
{
  cleanup_json cJSON *pod = make_base (RAY7);
  cleanup_injection struct tpu_injection in = { 0 };

  (void) state;
  edit (pod, "[{'op': 'add', 'path': '/spec/containers/0/resources/limits/google.com~1tpu', 'value': 2},"
             "{'op': 'add', 'path': '/spec/containers/1/resources', 'value': {'limits': {'google.com/tpu': 2}}},"
             "{'op': 'add', 'path': '/spec/containers/1/env', 'value': [{'name': 'TPU_PROCESS_PORT', 'valueFrom': "
             "{'fieldRef': {'fieldPath': 'metadata.name'}}}]}]");
  in = admit (pod, NULL);
  assert_null (env_of (pod, "TPU_PROCESS_ADDRESSES"));
  assert_null (env_of (pod, "TPU_PROCESS_PORT"));
  assert_string_equal (env_of (pod, "TPU_WORKER_ID"), "2");
  assert_true (warned (&in, "TPU_PROCESS_PORT of another container"));
}

static void
test_sidecar_is_numbered_after_containers (void **state)
{
  cleanup_json cJSON *pod = make_base (BARE);
  cleanup_injection struct tpu_injection in = { 0 };

  (void) state;
  edit (pod,
        "[" SELECT ("tpu-v6e-slice",
                    "2x4") ", {'op': 'add', 'path': '/spec/initContainers', 'value': [{'name': 's', 'restartPolicy': "
                           "'Always', 'resources': {'limits': {'google.com/tpu': 4}}}]}]");
  in = admit (pod, NULL);
  assert_int_equal (in.hosts, 1);
  assert_string_equal (env_of (pod, "TPU_WORKER_ID"), "0");
  assert_string_equal (env_of (pod, "TPU_WORKER_HOSTNAMES"), "localhost,localhost");
  assert_string_equal (json_str (env_entry (container_at (pod, "initContainers", 0), "TPU_WORKER_ID"), "value"), "1");
}

/* ---- lists that Linux does not take ---- */

static void
test_lists_that_are_too_long (void **state)
{
  static const struct
  {
    const char *topology, *chips;
    bool hostnames;
  } rows[] = {
    { "8x16x16", "4", true },         /* 512 hosts, 4096 addresses */
    { "4096x4096x4096", "1", false }, /* 68,719,476,736 hosts: must not even be built */
    { "4096x4096x16", "4", false },
    { "64x64x64", "4", false }, /* 65,536 hosts */
  };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (rows); i++)
    {
      cleanup_json cJSON *pod
          = make_ray_pod ("tpu7x", rows[i].topology, rows[i].chips, "ray-torchtpu-cluster", "tpu7x-4096", 0, 5);
      cleanup_injection struct tpu_injection in = admit (pod, NULL);
      const cJSON *entry;

      assert_int_equal (env_of (pod, "TPU_WORKER_HOSTNAMES") != NULL, rows[i].hostnames);
      assert_int_equal (env_of (pod, "TPU_WORKER_ID") != NULL, rows[i].hostnames);
      assert_int_equal (warned (&in, "TPU_WORKER_HOSTNAMES is not injected"), !rows[i].hostnames);
      assert_null (env_of (pod, "TORCH_TPU_TOPOLOGY"));
      assert_true (warned (&in, "TORCH_TPU_SLICEBUILDER_ADDRESSES is not injected"));
      assert_string_equal (env_of (pod, "TPU_NAME"), "tpu7x-4096-0");
      cJSON_ArrayForEach (entry, json_get (container_at (pod, "containers", 0), "env"))
        assert_true (strlen (json_str (entry, "name")) + strlen (log_nonnull (json_str (entry, "value"))) + 2
                     <= 131072);
    }
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_user_entries_are_final_in_any_form),
    cmocka_unit_test (test_order_and_creation_of_env),
    cmocka_unit_test (test_null_and_empty_env),
    cmocka_unit_test (test_two_containers_are_two_workers),
    cmocka_unit_test (test_no_two_containers_share_a_port),
    cmocka_unit_test (test_hidden_port_of_another_container),
    cmocka_unit_test (test_sidecar_is_numbered_after_containers),
    cmocka_unit_test (test_lists_that_are_too_long),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
