/* What went wrong for users of other injectors (facts/tpu_injection.md §7), by its number: none of it here. Webhook
 * configurations (8, 13) are the chart's and have their test there; 35 is nothing that injection can do, and
 * docs/injection.md says what can. */
#include "test_tpu_owners.h"

static const char hosts_v6e16[] = "w-0-0.c-headless,w-0-1.c-headless,w-0-2.c-headless,w-0-3.c-headless";

static cJSON *
ray_v6e16 (int host)
{
  return make_ray_pod ("tpu-v6e-slice", "4x4", "4", "c", "w", 0, host);
}

/* 1: two pods admitted quickly got one id. 2: waits inside admission. 3: a restart lost the ids. */
static void
test_reports_1_2_3_ids_are_a_function_of_the_pod (void **state)
{
  bool seen[64] = { false };

  (void) state;
  for (int round = 0; round < 2; round++)
    for (int h = 63; h >= 0; h--)
      {
        cleanup_json cJSON *pod = make_ray_pod ("tpu-v6e-slice", "16x16", "4", "c", "w", 5, h);
        int64_t id = -1;

        admit_quietly (pod);
        assert_int_equal (text_to_int (env_of (pod, "TPU_WORKER_ID"), 0, 63, &id), 0);
        assert_int_equal (id, h);
        assert_int_equal (seen[id], round);
        seen[id] = true;
      }
}

/* 4: single-host ids grew with every recreation and the host list was "". 9: no name or id for single hosts. */
static void
test_reports_4_9_single_host_is_worker_0_of_localhost (void **state)
{
  (void) state;
  for (int replica = 0; replica < 3; replica++)
    {
      cleanup_json cJSON *pod = make_ray_pod ("tpu-v6e-slice", "2x4", "8", "c", "w", replica, -1);
      cleanup_json cJSON *job = make_job_pod ("tpu-v6e-slice", "2x4", "8", "j", replica, "s");
      cleanup_free char *name = xasprintf ("w-%d", replica);

      admit_quietly (pod);
      admit_quietly (job);
      assert_string_equal (env_of (pod, "TPU_WORKER_ID"), "0");
      assert_string_equal (env_of (pod, "TPU_WORKER_HOSTNAMES"), "localhost");
      assert_string_equal (env_of (pod, "TPU_NAME"), name);
      assert_string_equal (env_of (job, "TPU_WORKER_ID"), "0");
      assert_string_equal (env_of (job, "TPU_WORKER_HOSTNAMES"), "localhost");
    }
}

/* 5 and 41: the Service of a long cluster name was cut in one place and not in the other. */
static void
test_reports_5_41_service_names_are_not_cut (void **state)
{
  static const char cluster[] = "a-cluster-name-of-fifty-three-characters-which-is-max";
  cleanup_json cJSON *pod = make_ray_pod ("tpu-v6e-slice", "4x4", "4", cluster, "w", 0, 0);
  cleanup_free char *service = xasprintf ("%s-headless", cluster), *first = xasprintf ("w-0-0.%s,", service);

  (void) state;
  admit_quietly (pod);
  assert_int_equal (strlen (cluster), 53);
  assert_string_equal (json_str (pod, "spec", "subdomain"), service);
  assert_true (text_starts_with (env_of (pod, "TPU_WORKER_HOSTNAMES"), first));
}

/* 7: nothing was injected into pods without the label app.kubernetes.io/name. 8: decided by label, not by content. */
static void
test_reports_7_8_the_request_decides (void **state)
{
  cleanup_json cJSON *pod = ray_v6e16 (1), *no_tpu = ray_v6e16 (1);
  cleanup_injection struct tpu_injection in = { 0 }, none = { 0 };

  (void) state;
  json_drop (json_get (pod, "metadata", "labels"), "app.kubernetes.io/name");
  in = admit (pod, NULL);
  assert_string_equal (env_of (pod, "TPU_WORKER_HOSTNAMES"), hosts_v6e16);
  json_drop (json_get (no_tpu, "spec", "containers")->child, "resources");
  none = admit (no_tpu, NULL);
  assert_int_equal (cJSON_GetArraySize (none.patch), 0);
}

/* 12: v5e 2x4 was taken for two hosts. 29: v6e 2x4 as well, and every v6e host for eight chips. 36: fewer chips than
 * the VM. */
static void
test_reports_12_29_36_hosts_follow_the_request (void **state)
{
  static const struct
  {
    const char *accelerator, *topology, *chips;
    int hosts;
  } rows[] = {
    { "tpu-v5-lite-podslice", "2x4", "8", 1 }, { "tpu-v5-lite-podslice", "2x4", "4", 2 },
    { "tpu-v6e-slice", "2x4", "8", 1 },        { "tpu-v6e-slice", "2x4", "4", 2 },
    { "tpu-v6e-slice", "4x4", "4", 4 },
  };
  cleanup_json cJSON *few = make_job_pod ("tpu-v6e-slice", "2x2", "1", "j", 0, "s");
  cleanup_injection struct tpu_injection in_few = admit (few, NULL);

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (rows); i++)
    {
      cleanup_json cJSON *pod = make_job_pod (rows[i].accelerator, rows[i].topology, rows[i].chips, "j", 0, "s");
      cleanup_injection struct tpu_injection in = admit (pod, NULL);

      assert_int_equal (in.hosts, rows[i].hosts);
      assert_int_equal (cJSON_GetArraySize (in.warnings), 0);
    }
  assert_true (warned (&in_few, "the Pod asks for 1 google.com/tpu, 4 hosts for topology 2x2: ask for 4"));
}

/* 15: every pod had a TPU_NAME of its own. 31: one name for different slices. */
static void
test_reports_15_31_one_name_per_slice (void **state)
{
  static const struct
  {
    int replica, host;
    const char *name;
  } rows[] = { { 0, 0, "w-0" }, { 0, 3, "w-0" }, { 1, 0, "w-1" }, { 12, 2, "w-12" } };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (rows); i++)
    {
      cleanup_json cJSON *pod = make_ray_pod ("tpu-v6e-slice", "4x4", "4", "c", "w", rows[i].replica, rows[i].host);
      cleanup_injection struct tpu_injection in = admit (pod, NULL);

      assert_string_equal (env_of (pod, "TPU_NAME"), rows[i].name);
      assert_string_equal (in.slice, rows[i].name);
    }
}

/* 17: tpu7x needs process addresses. 24: where they are not needed, a wrong count breaks. 25: the own port is in the
 * list. */
static void
test_reports_17_24_25_process_addresses_only_on_tpu7x (void **state)
{
  static const struct
  {
    const char *accelerator, *topology;
    bool processes;
  } rows[] = {
    { "tpu-v4-podslice", "2x2x2", false },
    { "tpu-v5-lite-podslice", "2x4", false },
    { "tpu-v5p-slice", "2x2x2", false },
    { "tpu-v6e-slice", "2x4", false },
    { "tpu7x", "2x2x2", true },
  };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (rows); i++)
    {
      cleanup_json cJSON *pod = make_ray_pod (rows[i].accelerator, rows[i].topology, "4", "c", "w", 0, 1);
      cleanup_free char *own = NULL;

      admit_quietly (pod);
      assert_int_equal (env_of (pod, "TPU_PROCESS_ADDRESSES") != NULL, rows[i].processes);
      assert_int_equal (env_of (pod, "TPU_PROCESS_PORT") != NULL, rows[i].processes);
      if (!rows[i].processes)
        continue;
      own = xasprintf (",w-0-1.c-headless:%s", env_of (pod, "TPU_PROCESS_PORT"));
      assert_true (text_ends_with (env_of (pod, "TPU_PROCESS_ADDRESSES"), own));
      assert_int_equal (count_entries (env_of (pod, "TPU_PROCESS_ADDRESSES")),
                        count_entries (env_of (pod, "TPU_WORKER_HOSTNAMES")));
    }
}

/* 6: a user's variables were overwritten. 22 and 23: empty means no. 40 and 43: valueFrom was taken for empty, and an
 * id that looked like a default was replaced. */
static void
test_reports_6_22_23_40_43_existing_entries_are_final (void **state)
{
  static const char *const entries[] = {
    "{'name': 'TPU_NAME', 'value': 'TPU_WORKER_NAME'}",
    "{'name': 'TPU_WORKER_ID', 'value': '0'}",
    "{'name': 'TPU_WORKER_HOSTNAMES', 'value': ''}",
    "{'name': 'TPU_WORKER_ID', 'valueFrom': {'fieldRef': {'fieldPath': 'x'}}}",
    "{'name': 'TORCH_TPU_TOPOLOGY', 'value': ''}",
    "{'name': 'MEGASCALE_NUM_SLICES', 'value': ''}",
  };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (entries); i++)
    {
      cleanup_json cJSON *pod = ray_v6e16 (2), *entry = parse_json (entries[i]);
      cleanup_injection struct tpu_injection in = { 0 };
      const cJSON *e;
      int found = 0;

      json_push (json_arr (json_get (pod, "spec", "containers")->child, "env"), cJSON_Duplicate (entry, true));
      in = admit (pod, NULL);
      cJSON_ArrayForEach (e, json_get (container_at (pod, "containers", 0), "env"))
        if (text_eq (json_str (e, "name"), json_str (entry, "name")))
          {
            assert_true (json_equal (e, entry));
            found++;
          }
      assert_int_equal (found, 1);
      assert_null (env_of (pod, "MEGASCALE_SLICE_ID"));
      /* An empty list of hosts: this engine is to be alone, so it is not given the slice by another name either. */
      if (i == 2)
        assert_null (env_of (pod, "TORCH_TPU_SLICEBUILDER_ADDRESSES"));
    }
}

/* 21: slices were counted among live pods; for Ray pods nothing about several slices is invented. */
static void
test_report_21_no_megascale_unless_the_user_counts (void **state)
{
  cleanup_json cJSON *pod = ray_v6e16 (0);

  (void) state;
  admit_quietly (pod);
  assert_null (env_of (pod, "MEGASCALE_SLICE_ID"));
  assert_null (env_of (pod, "MEGASCALE_COORDINATOR_ADDRESS"));
  assert_null (env_of (pod, "MEGASCALE_PORT"));
}

/* 11: terms matched other clusters, or stood beside those of KubeRay. */
static void
test_report_11_placement_is_within_the_cluster (void **state)
{
  cleanup_json cJSON *pod = ray_v6e16 (0), *job = make_base (JOB);
  const cJSON *terms;

  (void) state;
  admit_quietly (pod);
  admit_quietly (job);
  terms = json_get (pod, "spec", "affinity", "podAffinity", "requiredDuringSchedulingIgnoredDuringExecution");
  assert_int_equal (cJSON_GetArraySize (terms), 1);
  assert_string_equal (
      json_str (json_find (json_get (terms->child, "labelSelector", "matchExpressions"), "key", "ray.io/cluster"),
                "operator"),
      "In");
  assert_null (json_get (job, "spec", "affinity"));
}

/* 14: a leader without TPUs was in the list. 15: names of their own. 16: subgroups of one had id -1. */
static void
test_reports_14_15_16_leaders (void **state)
{
  cleanup_json cJSON *worker = make_lws_pod (make_pod (NULL, NULL, "4"), "s-0-1", false, "3", NULL, false);
  cleanup_json cJSON *leader = make_lws_pod (make_pod (NULL, NULL, "4"), "s-0", true, "3", "1", false);

  (void) state;
  admit_quietly (worker);
  admit_quietly (leader);
  assert_string_equal (env_of (worker, "TPU_WORKER_HOSTNAMES"), "s-0-1.default,s-0-2.default");
  assert_string_equal (env_of (worker, "TPU_WORKER_ID"), "0");
  assert_string_equal (env_of (worker, "TPU_NAME"), "s-0");
  assert_string_equal (env_of (leader, "TPU_WORKER_HOSTNAMES"), "s-0.default");
  assert_string_equal (env_of (leader, "TPU_WORKER_ID"), "0");
}

/* 18: an entry that others refer to came behind them. Ours come last, and theirs keep their order. */
static void
test_report_18_order_of_entries (void **state)
{
  cleanup_json cJSON *pod = ray_v6e16 (0);
  const cJSON *env;

  (void) state;
  edit (pod, ADD_ENV ("{'name': 'A', 'value': '1'}, {'name': 'B', 'value': '$(A)'}"));
  admit_quietly (pod);
  env = json_get (container_at (pod, "containers", 0), "env");
  assert_string_equal (json_str (cJSON_GetArrayItem (env, 0), "name"), "A");
  assert_string_equal (json_str (cJSON_GetArrayItem (env, 1), "name"), "B");
  assert_true (cJSON_GetArraySize (env) > 2);
}

/* 19: nobody set MEGASCALE, or counted the CPU head. 20: an override by fieldRef was needed. 27: some of it is worse
 * than none. */
static void
test_reports_19_20_27_megascale_of_a_jobset (void **state)
{
  static const char *const names[] = { "MEGASCALE_NUM_SLICES", "MEGASCALE_SLICE_ID", "MEGASCALE_COORDINATOR_ADDRESS" };
  cleanup_json cJSON *pod = make_jobset_pod ("tpu-v6e-slice", "4x4", "4", 1, 2, 0);

  (void) state;
  admit_quietly (pod);
  assert_string_equal (env_of (pod, "MEGASCALE_NUM_SLICES"), "2");
  assert_string_equal (env_of (pod, "MEGASCALE_SLICE_ID"), "1");
  for (size_t own = 0; own < ARRAY_LEN (names); own++)
    {
      cleanup_json cJSON *theirs = make_jobset_pod ("tpu-v6e-slice", "4x4", "4", 1, 2, 0);
      cleanup_free char *entry
          = xasprintf (ADD_ENV ("{'name': '%s', 'valueFrom': {'fieldRef': {'fieldPath': 'x'}}}"), names[own]);

      edit (theirs, entry);
      admit_quietly (theirs);
      for (size_t i = 0; i < ARRAY_LEN (names); i++)
        assert_int_equal (env_entry (container_at (theirs, "containers", 0), names[i]) != NULL, i == own);
    }
}

/* 39: a StatefulSet's injector told every container, and rewrote the template when the set was scaled. */
static void
test_report_39_only_tpu_containers_of_the_pod (void **state)
{
  cleanup_json cJSON *pod = make_statefulset_pod ("tpu-v6e-slice", "4x4", "4", 1);

  (void) state;
  admit_quietly (pod);
  assert_string_equal (env_of (pod, "TPU_WORKER_ID"), "1");
  assert_null (json_get (container_at (pod, "containers", 1), "env"));
}

/* 28: a host list contained the text of a warning. */
static void
test_report_28_values_are_validated (void **state)
{
  static const char *const names[] = { "WARNING: no group", "w,x", "w.x", "W", "w_x", "-w" };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (names); i++)
    {
      cleanup_json cJSON *pod = make_ray_pod ("tpu-v6e-slice", "4x4", "4", "c", names[i], 0, 0);
      cleanup_injection struct tpu_injection in = admit (pod, NULL);

      assert_null (env_of (pod, "TPU_WORKER_HOSTNAMES"));
      assert_null (env_of (pod, "TORCH_TPU_SLICEBUILDER_ADDRESSES"));
      assert_true (warned (&in, "is no DNS label"));
    }
}

/* 32: only one of several containers was told. 33: two containers had one id. */
static void
test_reports_32_33_every_tpu_container_is_told_its_own_id (void **state)
{
  cleanup_json cJSON *pod = ray_v6e16 (1);
  cleanup_injection struct tpu_injection in = { 0 };

  (void) state;
  edit (pod, "[{'op': 'add', 'path': '/spec/containers/0/resources/limits/google.com~1tpu', 'value': 2},"
             "{'op': 'add', 'path': '/spec/containers/1/resources', 'value': {'limits': {'google.com/tpu': 2}}},"
             "{'op': 'add', 'path': '/spec/containers/-', 'value': {'name': 'third'}}]");
  in = admit (pod, NULL);
  assert_string_equal (json_str (env_entry (container_at (pod, "containers", 0), "TPU_WORKER_ID"), "value"), "2");
  assert_string_equal (json_str (env_entry (container_at (pod, "containers", 1), "TPU_WORKER_ID"), "value"), "3");
  assert_null (json_get (container_at (pod, "containers", 2), "env"));
}

/* 37: a remainder never becomes a slice. 40: a topology of 0 chips divided by zero, "-1" was a dimension. */
static void
test_reports_37_40_numbers_that_make_no_slice_are_refused (void **state)
{
  static const char *const topologies[] = { "0x4", "-1x4", "4x", "3x3", "4x4x4x4" };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (topologies); i++)
    {
      cleanup_json cJSON *pod = make_ray_pod ("tpu-v6e-slice", topologies[i], "4", "c", "w", 0, 0);
      struct tpu_injection in;
      struct error err = { 0 };

      assert_int_equal (tpu_inject (&in, pod, NULL, &err), -EINVAL);
      assert_non_null (strstr (err.message, topologies[i]));
    }
}

/* 40: init containers that use TPUs were ignored. */
static void
test_report_40_init_containers_are_told (void **state)
{
  cleanup_json cJSON *pod = ray_v6e16 (3);
  cleanup_injection struct tpu_injection in = { 0 };

  (void) state;
  edit (pod,
        "[{'op': 'add', 'path': '/spec/initContainers', 'value': [{'name': 'wait'}, {'name': 'check', 'resources': "
        "{'limits': {'google.com/tpu': '4'}}}]}]");
  in = admit (pod, NULL);
  assert_null (json_get (container_at (pod, "initContainers", 0), "env"));
  assert_string_equal (json_str (env_entry (container_at (pod, "initContainers", 1), "TPU_WORKER_ID"), "value"), "3");
  assert_string_equal (json_str (env_entry (container_at (pod, "initContainers", 1), "TPU_WORKER_HOSTNAMES"), "value"),
                       hosts_v6e16);
  assert_int_equal (count_entries (env_of (pod, "TORCH_TPU_SLICEBUILDER_ADDRESSES")), 16);
}

/* 42: a part of a slice got the whole one's topology and 64 ports per host; with the annotation alone the pod was
 * refused; single-host tpu7x had no host list at all. */
static void
test_report_42_the_effective_topology_counts (void **state)
{
  static const char *const selectors[] = { "16x16", NULL };
  cleanup_json cJSON *one = make_ray_pod ("tpu7x", "2x2x1", "4", "c", "w", 0, -1);

  (void) state;
  admit_quietly (one);
  for (size_t i = 0; i < ARRAY_LEN (selectors); i++)
    {
      cleanup_json cJSON *pod = make_ray_pod ("tpu-v6e-slice", selectors[i], "4", "c", "w", 0, 0);
      cleanup_injection struct tpu_injection in = { 0 };

      json_set_str (json_obj (json_get (pod, "metadata"), "annotations"), "cloud.google.com/gke-tpu-slice-topology",
                    "4x4");
      in = admit (pod, NULL);
      assert_string_equal (env_of (pod, "TPU_WORKER_HOSTNAMES"), hosts_v6e16);
      assert_string_equal (env_of (pod, "TORCH_TPU_TOPOLOGY"), "4,4,1");
      assert_int_equal (count_entries (env_of (pod, "TORCH_TPU_SLICEBUILDER_ADDRESSES")), 16);
    }
  assert_string_equal (env_of (one, "TPU_WORKER_HOSTNAMES"), "localhost");
  assert_string_equal (env_of (one, "TPU_WORKER_ID"), "0");
}

/* 10: one group spread over several slices, and its traffic went over the data centre network. A slice is kept together
 * and apart from others, and a host that its topology has not is told of. */
static void
test_report_10_a_group_is_as_many_slices_as_it_has_replicas (void **state)
{
  cleanup_json cJSON *pod = ray_v6e16 (1), *fifth = ray_v6e16 (4);
  cleanup_injection struct tpu_injection in = { 0 }, beyond = { 0 };
  const cJSON *together, *apart;

  (void) state;
  in = admit (pod, NULL);
  together = json_get (pod, "spec", "affinity", "podAffinity", "requiredDuringSchedulingIgnoredDuringExecution");
  apart = json_get (pod, "spec", "affinity", "podAntiAffinity", "requiredDuringSchedulingIgnoredDuringExecution");
  assert_int_equal (cJSON_GetArraySize (together), 1);
  assert_int_equal (cJSON_GetArraySize (apart), 2);
  assert_string_equal (json_str (together->child, "topologyKey"), "cloud.google.com/gke-nodepool");
  assert_int_equal (cJSON_GetArraySize (in.warnings), 0);
  beyond = admit (fifth, NULL);
  assert_null (env_of (fifth, "TPU_WORKER_ID"));
  assert_true (warned (&beyond, "its index 4 is beyond the slice: run 4 hosts per slice"));
}

/* 26: a port moved and a firewall was in the way. Those that are injected follow the user's. */
static void
test_report_26_ports_are_the_users (void **state)
{
  cleanup_json cJSON *pod = make_base (JOB7), *slices = make_base (RAY7);

  (void) state;
  edit (pod, ADD_ENV ("{'name': 'TPU_PROCESS_PORT', 'value': '9000'}"));
  admit_quietly (pod);
  assert_string_equal (env_of (pod, "TPU_PROCESS_ADDRESSES"), "j-0.s:9000,j-1.s:9000");
  edit (slices,
        ADD_ENV ("{'name': 'MEGASCALE_NUM_SLICES', 'value': '2'}, {'name': 'MEGASCALE_PORT', 'value': '9100'}"));
  admit_quietly (slices);
  assert_string_equal (env_of (slices, "MEGASCALE_PORT"), "9100");
  assert_string_equal (env_of (slices, "MEGASCALE_COORDINATOR_ADDRESS"), "g-0-0.c-headless");
}

/* 30: the number in v4-2048 counts cores, that in v6e-8 chips. */
static void
test_report_30_cores_are_not_chips (void **state)
{
  static const struct
  {
    const char *label, *topology, *type;
    int64_t chips, hosts;
  } rows[] = {
    { "tpu-v4-podslice", "8x8x16", "v4-2048", 1024, 256 },
    { "tpu-v5p-slice", "8x8x16", "v5p-2048", 1024, 256 },
    { "tpu-v5p-slice", "2x2x2", "v5p-16", 8, 2 },
    { "tpu-v3-slice", "4x4", "v3-32", 16, 4 },
    { "tpu-v5-lite-podslice", "4x4", "v5litepod-16", 16, 4 },
    { "tpu-v6e-slice", "4x4", "v6e-16", 16, 4 },
    { "tpu7x", "2x2x2", "tpu7x-16", 8, 2 },
  };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (rows); i++)
    {
      cleanup_json cJSON *pod = make_job_pod (rows[i].label, rows[i].topology, "4", "j", 0, "s");
      cleanup_free char *type = NULL;
      const struct tpu_offer *offer = NULL;
      struct tpu_request r;
      struct error err = { 0 };

      for (size_t k = 0; tpu_offer_at (k) != NULL; k++)
        if (text_eq (tpu_offer_at (k)->label, rows[i].label))
          offer = tpu_offer_at (k);
      if (offer == NULL)
        {
          fail_msg ("%s is not offered", rows[i].label);
          return;
        }
      assert_int_equal (tpu_request_read (&r, pod, NULL, &err), 0);
      assert_int_equal (tpu_topology_chips (&r.topology), rows[i].chips);
      assert_int_equal (r.hosts, rows[i].hosts);
      type = xasprintf ("%s-%d", offer->type_prefix, (int) rows[i].chips * offer->cores_per_chip);
      assert_string_equal (type, rows[i].type);
    }
}

/* 34: code assumed that the device plugin's variables are not there. They are the plugin's: kept when a user sets them,
 * never set here, and in nobody's way. */
static void
test_report_34_variables_of_the_device_plugin_are_left_to_it (void **state)
{
  static const char *const names[]
      = { "TPU_ACCELERATOR_TYPE",      "TPU_TOPOLOGY",      "TPU_CHIPS_PER_HOST_BOUNDS", "TPU_HOST_BOUNDS",
          "TPU_RUNTIME_METRICS_PORTS", "TPU_SKIP_MDS_QUERY" };
  cleanup_json cJSON *bare = ray_v6e16 (2);

  (void) state;
  admit_quietly (bare);
  for (size_t i = 0; i < ARRAY_LEN (names); i++)
    {
      cleanup_json cJSON *pod = ray_v6e16 (2);
      cleanup_free char *entry = xasprintf (ADD_ENV ("{'name': '%s', 'value': 'theirs'}"), names[i]);
      cleanup_injection struct tpu_injection in = { 0 };

      assert_null (env_of (bare, names[i]));
      edit (pod, entry);
      in = admit (pod, NULL);
      assert_int_equal (cJSON_GetArraySize (in.warnings), 0);
      assert_string_equal (env_of (pod, names[i]), "theirs");
      assert_string_equal (env_of (pod, "TPU_WORKER_ID"), "2");
      assert_string_equal (env_of (pod, "TPU_WORKER_HOSTNAMES"), hosts_v6e16);
    }
}

/* 38: two gangs on one machine wanted the same ports of its network. */
static void
test_report_38_pods_that_may_share_a_node_do_not_share_its_network (void **state)
{
  static const struct
  {
    const char *topology, *chips;
    bool host_network, collides;
  } rows[] = {
    { "4x4", "4", true, false }, /* the whole machine */
    { "2x2", "1", true, true },  { "2x2", "1", false, false }, { "1x1", "1", true, false }, { NULL, "1", true, true },
  };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (rows); i++)
    {
      cleanup_json cJSON *pod = make_job_pod ("tpu-v6e-slice", rows[i].topology, rows[i].chips, "j", 0, "s");
      cleanup_injection struct tpu_injection in = { 0 };

      json_set_bool (json_get (pod, "spec"), "hostNetwork", rows[i].host_network);
      in = admit (pod, NULL);
      assert_int_equal (warned (&in, "with hostNetwork the TPU ports are the node's"), rows[i].collides);
    }
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_reports_1_2_3_ids_are_a_function_of_the_pod),
    cmocka_unit_test (test_reports_4_9_single_host_is_worker_0_of_localhost),
    cmocka_unit_test (test_reports_5_41_service_names_are_not_cut),
    cmocka_unit_test (test_reports_7_8_the_request_decides),
    cmocka_unit_test (test_reports_12_29_36_hosts_follow_the_request),
    cmocka_unit_test (test_reports_15_31_one_name_per_slice),
    cmocka_unit_test (test_reports_17_24_25_process_addresses_only_on_tpu7x),
    cmocka_unit_test (test_reports_6_22_23_40_43_existing_entries_are_final),
    cmocka_unit_test (test_report_21_no_megascale_unless_the_user_counts),
    cmocka_unit_test (test_report_11_placement_is_within_the_cluster),
    cmocka_unit_test (test_reports_14_15_16_leaders),
    cmocka_unit_test (test_report_18_order_of_entries),
    cmocka_unit_test (test_reports_19_20_27_megascale_of_a_jobset),
    cmocka_unit_test (test_report_28_values_are_validated),
    cmocka_unit_test (test_reports_32_33_every_tpu_container_is_told_its_own_id),
    cmocka_unit_test (test_reports_37_40_numbers_that_make_no_slice_are_refused),
    cmocka_unit_test (test_report_39_only_tpu_containers_of_the_pod),
    cmocka_unit_test (test_report_40_init_containers_are_told),
    cmocka_unit_test (test_report_42_the_effective_topology_counts),
    cmocka_unit_test (test_report_10_a_group_is_as_many_slices_as_it_has_replicas),
    cmocka_unit_test (test_report_26_ports_are_the_users),
    cmocka_unit_test (test_report_30_cores_are_not_chips),
    cmocka_unit_test (test_report_34_variables_of_the_device_plugin_are_left_to_it),
    cmocka_unit_test (test_report_38_pods_that_may_share_a_node_do_not_share_its_network),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
