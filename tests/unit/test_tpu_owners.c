/* JobSet and Pathways, StatefulSet, KubeRay without indices, dynamic slices (facts/tpu_injection.md §2, §3, §5.4). */
#include "test_tpu_owners.h"

static const char *const no_megascale[]
    = { "MEGASCALE_NUM_SLICES", "MEGASCALE_SLICE_ID", "MEGASCALE_COORDINATOR_ADDRESS", "MEGASCALE_PORT", NULL };

/* ---- JobSet ---- */

/* The shape of JobSet's own sample: two slices of 4x4. */
static void
test_jobset_of_two_slices (void **state)
{
  (void) state;
  for (int job = 0; job < 2; job++)
    for (int host = 0; host < 4; host++)
      {
        cleanup_json cJSON *pod = make_jobset_pod ("tpu-v6e-slice", "4x4", "4", job, 2, host);
        cleanup_free char *hosts
            = xasprintf ("TPU_WORKER_HOSTNAMES=s-w-%d-0.s,s-w-%d-1.s,s-w-%d-2.s,s-w-%d-3.s", job, job, job, job);
        cleanup_free char *id = xasprintf ("TPU_WORKER_ID=%d", host), *name = xasprintf ("TPU_NAME=s-w-%d", job);
        cleanup_free char *slice = xasprintf ("MEGASCALE_SLICE_ID=%d", job);
        const char *const expected[] = { hosts,
                                         id,
                                         name,
                                         slice,
                                         "MEGASCALE_NUM_SLICES=2",
                                         "MEGASCALE_COORDINATOR_ADDRESS=s-w-0-0.s",
                                         "MEGASCALE_PORT",
                                         "TORCH_TPU_TOPOLOGY=4,4,1",
                                         "TPU_PROCESS_ADDRESSES",
                                         NULL };
        cleanup_injection struct tpu_injection in = { 0 };

        edit (pod, "[{'op': 'add', 'path': '/spec/hostNetwork', 'value': true}, {'op': 'add', 'path': "
                   "'/spec/dnsPolicy', 'value': 'ClusterFirstWithHostNet'}]");
        in = admit (pod, NULL);
        check_env ("jobset", container_at (pod, "containers", 0), expected);
        assert_int_equal (in.owner, TPU_OWNER_JOBSET);
        assert_int_equal (cJSON_GetArraySize (in.warnings), 0);
        assert_null (json_get (pod, "spec", "affinity"));
      }
}

static const struct
{
  const char *name, *accelerator, *topology, *chips;
  int job, jobs;
  const char *edit;
  bool megascale;
} multislice[] = {
  { "two slices", "tpu-v6e-slice", "4x4", "4", 1, 2, NULL, true },
  { "v4", "tpu-v4-podslice", "2x2x2", "4", 1, 2, NULL, true },
  { "v5e", "tpu-v5-lite-podslice", "2x4", "4", 1, 2, NULL, true },
  { "v5p", "tpu-v5p-slice", "2x2x2", "4", 1, 2, NULL, true },
  { "one slice", "tpu-v6e-slice", "4x4", "4", 0, 1, NULL, false },
  { "single hosts", "tpu-v6e-slice", "2x2", "4", 1, 2, NULL, false },
  { "v3", "tpu-v3-slice", "4x4", "4", 1, 2, NULL, false },
  { "unknown generation", "tpu9", "4x4", "4", 1, 2, NULL, false },
  { "an index beyond", "tpu-v6e-slice", "4x4", "4", 2, 2, NULL, false },
  { "facts as annotations", "tpu-v6e-slice", "4x4", "4", 1, 2,
    "[{'op': 'remove', 'path': '/metadata/labels/jobset.sigs.k8s.io~1job-index'}, {'op': 'add', 'path': "
    "'/metadata/annotations/jobset.sigs.k8s.io~1job-index', 'value': '1'}]",
    true },
  { "replicas not declared", "tpu-v6e-slice", "4x4", "4", 1, 2,
    "[{'op': 'remove', 'path': '/metadata/labels/jobset.sigs.k8s.io~1replicatedjob-replicas'}]", false },
  { "the user blanks one", "tpu-v6e-slice", "4x4", "4", 1, 2, ADD_ENV ("{'name': 'MEGASCALE_NUM_SLICES', 'value': ''}"),
    false },
  { "the user's port", "tpu-v6e-slice", "4x4", "4", 1, 2, ADD_ENV ("{'name': 'MEGASCALE_PORT', 'value': '9915'}"),
    false },
  { "the user's coordinator", "tpu-v6e-slice", "4x4", "4", 1, 2,
    ADD_ENV ("{'name': 'MEGASCALE_COORDINATOR_ADDRESS', 'valueFrom': {'fieldRef': {'fieldPath': 'x'}}}"), false },
};

static void
test_multislice (void **state)
{
  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (multislice); i++)
    {
      cleanup_json cJSON *pod = make_jobset_pod (multislice[i].accelerator, multislice[i].topology, multislice[i].chips,
                                                 multislice[i].job, multislice[i].jobs, 0);
      cleanup_injection struct tpu_injection in = { 0 };

      if (multislice[i].edit != NULL)
        edit (pod, multislice[i].edit);
      in = admit (pod, NULL);
      if (warned (&in, "MEGASCALE_* are not injected: cloud.google.com/gke-tpu-accelerator \"tpu9\" is not known")
          != text_eq (multislice[i].accelerator, "tpu9"))
        fail_msg ("%s: %s", multislice[i].name, json_print (in.warnings));
      if ((env_of (pod, "MEGASCALE_SLICE_ID") != NULL) != multislice[i].megascale)
        fail_msg ("%s: %s", multislice[i].name, json_print (container_at (pod, "containers", 0)));
      assert_non_null (env_of (pod, "TPU_WORKER_ID"));
    }
}

/* Two processes per host share its network. */
static void
test_multislice_on_tpu7x_has_ports (void **state)
{
  cleanup_json cJSON *pod = make_jobset_pod ("tpu7x", "2x2x2", "4", 1, 3, 1);

  (void) state;
  edit (pod, "[{'op': 'add', 'path': '/spec/containers/0/resources/limits/google.com~1tpu', 'value': 2},"
             "{'op': 'add', 'path': '/spec/containers/1/resources', 'value': {'limits': {'google.com/tpu': 2}}}]");
  admit_quietly (pod);
  for (int c = 0; c < 2; c++)
    {
      cleanup_free char *port = xasprintf ("MEGASCALE_PORT=%d", 8081 + c);
      cleanup_free char *id = xasprintf ("TPU_WORKER_ID=%d", 2 + c);
      const char *const expected[]
          = { port,
              id,
              "MEGASCALE_NUM_SLICES=3",
              "MEGASCALE_SLICE_ID=1",
              "MEGASCALE_COORDINATOR_ADDRESS=s-w-0-0.s:8081",
              "TPU_PROCESS_ADDRESSES=s-w-1-0.s:8476,s-w-1-0.s:8477,s-w-1-1.s:8476,s-w-1-1.s:8477",
              NULL };

      check_env ("tpu7x", container_at (pod, "containers", c), expected);
    }
}

/* 20 and 19: a CPU head is no slice; what Pathways says by fieldRef is final. */
static cJSON *
load_pathways (void)
{
  const char *dir = getenv ("RAY_TPU_TESTDATA") ? getenv ("RAY_TPU_TESTDATA") : TEST_FIXTURES;
  cleanup_free char *path = xasprintf ("%s/jobset_pathways_v6e_4x8.yaml", dir);
  cleanup_buf struct buf text = { 0 };
  cleanup_json cJSON *docs = NULL;
  struct error err = { 0 };

  if (text_read_file (path, 1 << 20, &text, &err) < 0 || yaml_parse (&docs, buf_text (&text), text.len, &err) < 0)
    fail_msg ("%s: %s", path, err.message);
  return cJSON_DetachItemFromArray (docs, 0);
}

/* As the controllers make it: the template of replicatedJob `index` with the facts of its JobSet. */
static cJSON *
pathways_pod (const cJSON *jobset, int index, int host)
{
  const cJSON *rjob = cJSON_GetArrayItem (json_get (jobset, "spec", "replicatedJobs"), index);
  const cJSON *template = json_get (rjob, "template", "spec", "template");
  cleanup_free char *job = xasprintf ("gemma4-training-%s-0", json_str (rjob, "name"));
  cleanup_free char *hostname = xasprintf ("%s-%d", job, host);
  cJSON *pod = make_job_pod (NULL, NULL, NULL, job, host, "gemma4-training");

  json_set_copy (pod, "spec", json_get (template, "spec"));
  json_set_str (json_get (pod, "spec"), "hostname", hostname);
  json_set_str (json_get (pod, "spec"), "subdomain", "gemma4-training");
  json_merge_flat (json_obj (json_get (pod, "metadata"), "annotations"), json_get (template, "metadata", "annotations"),
                   true);
  set_label (pod, "jobset.sigs.k8s.io/jobset-name", "gemma4-training");
  set_label (pod, "jobset.sigs.k8s.io/replicatedjob-name", json_str (rjob, "name"));
  set_label (pod, "jobset.sigs.k8s.io/replicatedjob-replicas", "1");
  set_label (pod, "jobset.sigs.k8s.io/job-index", "0");
  set_label (pod, "jobset.sigs.k8s.io/job-global-index", index == 0 ? "0" : "1");
  set_label (pod, "jobset.sigs.k8s.io/coordinator", "gemma4-training-pathways-head-0-0.gemma4-training");
  return pod;
}

static void
test_pathways (void **state)
{
  cleanup_json cJSON *jobset = load_pathways (), *head = pathways_pod (jobset, 0, 0);
  cleanup_json cJSON *before = cJSON_Duplicate (head, true);
  cleanup_buf struct buf hosts = { 0 };

  (void) state;
  admit_quietly (head);
  assert_true (json_equal (head, before));
  for (int h = 0; h < 8; h++)
    buf_printf (&hosts, "%sgemma4-training-worker-0-%d.gemma4-training", h ? "," : "TPU_WORKER_HOSTNAMES=", h);
  for (int h = 0; h < 8; h++)
    {
      cleanup_json cJSON *pod = pathways_pod (jobset, 1, h), *user = NULL;
      cleanup_free char *id = xasprintf ("TPU_WORKER_ID=%d", h);
      const char *const expected[]
          = { id,  buf_text (&hosts), "TPU_NAME=gemma4-training-worker-0", "TORCH_TPU_TOPOLOGY=4,8,1", "MEGASCALE_PORT",
              NULL };
      cleanup_injection struct tpu_injection in = { 0 };
      cJSON *env;

      user = cJSON_Duplicate (json_get (container_at (pod, "containers", 0), "env"), true);
      in = admit (pod, NULL);
      check_env ("pathways", container_at (pod, "containers", 0), expected);
      assert_int_equal (cJSON_GetArraySize (in.warnings), 0);
      /* All of theirs is still there, in its order, in front of ours. */
      env = json_get (container_at (pod, "containers", 0), "env");
      while (cJSON_GetArraySize (env) > cJSON_GetArraySize (user))
        cJSON_DeleteItemFromArray (env, cJSON_GetArraySize (user));
      assert_true (json_equal (env, user));
    }
}

/* The part of a larger slice that the annotation names is the slice. */
static void
test_part_of_a_slice (void **state)
{
  cleanup_json cJSON *pod = make_jobset_pod ("tpu-v6e-slice", "16x16", "4", 0, 1, 3);

  (void) state;
  set_annotation (pod, "cloud.google.com/gke-tpu-slice-topology", "4x4");
  admit_quietly (pod);
  assert_int_equal (count_entries (env_of (pod, "TPU_WORKER_HOSTNAMES")), 4);
  assert_string_equal (env_of (pod, "TORCH_TPU_TOPOLOGY"), "4,4,1");
}

/* Dynamic slicing: the annotation alone names the topology (§4.1). */
static void
test_dynamic_slice (void **state)
{
  cleanup_json cJSON *pod = make_job_pod ("tpu7x", NULL, "4", "super", 191, "svc");
  cleanup_injection struct tpu_injection in = { 0 };

  (void) state;
  set_annotation (pod, "cloud.google.com/gke-tpu-slice-topology", "4x12x16");
  in = admit (pod, NULL);
  assert_int_equal (in.hosts, 192);
  assert_string_equal (env_of (pod, "TPU_WORKER_ID"), "191");
  assert_string_equal (env_of (pod, "TORCH_TPU_TOPOLOGY"), "4,12,16,2");
  assert_int_equal (count_entries (env_of (pod, "TORCH_TPU_SLICEBUILDER_ADDRESSES")), 1536);
}

/* ---- Job without its labels ---- */

static void
test_job_by_its_controller (void **state)
{
  cleanup_json cJSON *pod = make_job_pod ("tpu-v6e-slice", "4x4", "4", "j", 2, "s");
  cJSON *owner;

  (void) state;
  json_drop (json_get (pod, "metadata"), "labels");
  owner = json_push_obj (json_arr (json_get (pod, "metadata"), "ownerReferences"));
  json_set_str (owner, "kind", "Job");
  json_set_str (owner, "name", "j");
  json_set_bool (owner, "controller", true);
  admit_quietly (pod);
  assert_string_equal (env_of (pod, "TPU_WORKER_ID"), "2");
  assert_string_equal (env_of (pod, "TPU_NAME"), "j");
}

/* ---- StatefulSet ---- */

static const struct
{
  const char *name, *topology;
  int ordinal;
  const char *edit;
  const char *id, *hosts, *slice; /* NULL: nothing, because of `why` */
  const char *why;
} sets[] = {
  { "host 2", "4x4", 2, NULL, "2", "db-0.db-svc,db-1.db-svc,db-2.db-svc,db-3.db-svc", "db", NULL },
  { "no index label", "4x4", 3, "[{'op': 'remove', 'path': '/metadata/labels'}]", "3",
    "db-0.db-svc,db-1.db-svc,db-2.db-svc,db-3.db-svc", "db", NULL },
  { "first ordinal", "4x4", 12,
    "[{'op': 'add', 'path': '/metadata/annotations', 'value': {'ray-tpu-operator/first-ordinal': '10'}}]", "2",
    "db-10.db-svc,db-11.db-svc,db-12.db-svc,db-13.db-svc", "db", NULL },
  { "single host", "2x2", 5, NULL, "0", "localhost", "db-5", NULL },
  { "more replicas than hosts", "4x4", 4, NULL, NULL, NULL, NULL, "its index 4 is beyond the slice: run 4 hosts" },
  { "no Service", "4x4", 0, "[{'op': 'remove', 'path': '/spec/subdomain'}]", NULL, NULL, NULL, "spec.serviceName" },
  { "below the first ordinal", "4x4", 2,
    "[{'op': 'add', 'path': '/metadata/annotations', 'value': {'ray-tpu-operator/first-ordinal': '10'}}]", NULL, NULL,
    NULL, "its ordinal is below" },
  { "first ordinal is no number", "4x4", 2,
    "[{'op': 'add', 'path': '/metadata/annotations', 'value': {'ray-tpu-operator/first-ordinal': 'x'}}]", NULL, NULL,
    NULL, "write spec.ordinals.start" },
  { "label and name disagree", "4x4", 2,
    "[{'op': 'add', 'path': '/metadata/labels/apps.kubernetes.io~1pod-index', 'value': '1'}]", NULL, NULL, NULL,
    "does not end in its ordinal" },
  { "a name with a leading zero", "4x4", 1, "[{'op': 'add', 'path': '/metadata/name', 'value': 'db-01'}]", NULL, NULL,
    NULL, "does not end in its ordinal" },
  { "a hostname of the user's", "4x4", 2, "[{'op': 'add', 'path': '/spec/hostname', 'value': 'mine'}]", NULL, NULL,
    NULL, "spec.hostname is mine" },
};

static void
test_statefulset (void **state)
{
  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (sets); i++)
    {
      cleanup_json cJSON *pod = make_statefulset_pod ("tpu-v6e-slice", sets[i].topology, "4", sets[i].ordinal);
      cleanup_injection struct tpu_injection in = { 0 };

      if (sets[i].edit != NULL)
        edit (pod, sets[i].edit);
      in = admit (pod, NULL);
      if (!text_eq (env_of (pod, "TPU_WORKER_ID"), sets[i].id)
          || !text_eq (env_of (pod, "TPU_WORKER_HOSTNAMES"), sets[i].hosts)
          || !text_eq (env_of (pod, "TPU_NAME"), sets[i].slice)
          || (sets[i].why ? !warned (&in, sets[i].why) : cJSON_GetArraySize (in.warnings) > 0))
        fail_msg ("%s: %s %s", sets[i].name, json_print (container_at (pod, "containers", 0)),
                  json_print (in.warnings));
    }
}

/* ---- KubeRay without indices ---- */

static cJSON *
without_indices (const char *topology, const char *chips)
{
  cJSON *pod = make_ray_pod ("tpu-v6e-slice", topology, chips, "c", "g", 0, 1);
  cJSON *labels = json_get (pod, "metadata", "labels");

  json_drop (labels, "ray.io/worker-group-replica-index");
  json_drop (labels, "ray.io/worker-group-replica-name");
  json_drop (labels, "ray.io/replica-host-index");
  return pod;
}

static void
test_place_is_asked_for_and_used (void **state)
{
  cleanup_json cJSON *pod = without_indices ("4x4", "4");
  struct tpu_place_need need;
  struct error err = { 0 };

  (void) state;
  assert_int_equal (tpu_place_needed (&need, pod, NULL, &err), 1);
  assert_string_equal (need.cluster, "c");
  assert_string_equal (need.group, "g");
  assert_int_equal (need.hosts, 4);
  set_annotation (pod, TPU_ANNOTATION_REPLICA_INDEX, "2");
  set_annotation (pod, TPU_ANNOTATION_HOST_INDEX, "3");
  assert_int_equal (tpu_place_needed (&need, pod, NULL, &err), 1); /* they may be the template's */
  admit_quietly (pod);
  assert_string_equal (env_of (pod, "TPU_WORKER_ID"), "3");
  assert_string_equal (env_of (pod, "TPU_NAME"), "g-2");
  assert_string_equal (json_str (pod, "spec", "hostname"), "g-2-3");
}

static void
test_place_is_not_asked_for (void **state)
{
  cleanup_json cJSON *single = without_indices ("2x2", "4"), *labelled = make_base (RAY), *job = make_base (JOB);
  cleanup_json cJSON *bad_label = make_base (RAY), *groupless = without_indices ("4x4", "4");
  cleanup_json cJSON *out = without_indices ("4x4", "4"), *broken = without_indices ("4x", "4");
  cJSON *const pods[] = { single, labelled, job, bad_label, groupless, out };
  struct tpu_place_need need;
  struct error err = { 0 };

  (void) state;
  set_label (bad_label, "ray.io/replica-host-index", "x");
  json_drop (json_get (groupless, "metadata", "labels"), "ray.io/group");
  set_annotation (out, TPU_ANNOTATION_INJECT, "false");
  for (size_t i = 0; i < ARRAY_LEN (pods); i++)
    assert_int_equal (tpu_place_needed (&need, pods[i], NULL, &err), 0);
  assert_int_equal (tpu_place_needed (&need, broken, NULL, &err), -EINVAL);
}

/* KubeRay labels Pods of groups with numOfHosts 1 with their replica alone. */
static void
test_labels_and_annotations_are_not_mixed (void **state)
{
  cleanup_json cJSON *pod = without_indices ("4x4", "4");
  cleanup_injection struct tpu_injection in = { 0 };

  (void) state;
  set_label (pod, "ray.io/worker-group-replica-index", "1");
  set_annotation (pod, TPU_ANNOTATION_REPLICA_INDEX, "0");
  set_annotation (pod, TPU_ANNOTATION_HOST_INDEX, "0");
  in = admit (pod, NULL);
  assert_int_equal (in.worker_id, -1);
  assert_true (warned (&in, "must name its host"));
}

/* Two Pods with a slice's labels can be had by anybody who may create Pods. */
static void
test_labels_alone_make_no_pod_of_a_raycluster (void **state)
{
  struct tpu_options options = tpu_default_options;

  (void) state;
  options.owned = true;
  for (int controlled = 0; controlled < 2; controlled++)
    for (int multi = 0; multi < 2; multi++)
      {
        cleanup_json cJSON *pod = make_base (multi ? RAY : RAY_ONE), *owner = cJSON_CreateObject ();
        cleanup_injection struct tpu_injection in = { 0 };

        json_set_str (owner, "kind", "RayCluster");
        json_set_str (owner, "name", "c");
        json_set_bool (owner, "controller", controlled);
        json_push (json_arr (json_get (pod, "metadata"), "ownerReferences"), take_ptr (owner));
        in = admit (pod, &options);
        if (multi && !controlled)
          assert_true (warned (&in, "RayCluster c of its label ray.io/cluster does not control it"));
        else
          assert_int_equal (in.worker_id, multi ? 1 : 0);
      }
}

/* KubeRay before 1.4 kept the last 50 characters and put a letter in front. */
static void
test_legacy_service_names (void **state)
{
  static const struct
  {
    const char *cluster, *service;
  } names[] = {
    { "c", "c-headless" },
    { "1c", "rc-headless" },
    { "a-cluster-name-of-forty-two-characters-aaa", "rcluster-name-of-forty-two-characters-aaa-headless" },
    { "a-cluster-name-of-forty-one-characters-aa", "a-cluster-name-of-forty-one-characters-aa-headless" },
    { "a-cluster-name-of-fifty-three-characters-which-is-max", "me-of-fifty-three-characters-which-is-max-headless" },
  };
  struct tpu_options options = tpu_default_options;

  (void) state;
  options.legacy_service_names = true;
  for (size_t i = 0; i < ARRAY_LEN (names); i++)
    {
      cleanup_json cJSON *pod = make_ray_pod ("tpu-v6e-slice", "4x4", "4", names[i].cluster, "g", 0, 1);
      cleanup_injection struct tpu_injection in = admit (pod, &options);

      assert_int_equal (in.hosts, 4);
      assert_string_equal (json_str (pod, "spec", "subdomain"), names[i].service);
      assert_non_null (strstr (env_of (pod, "TPU_WORKER_HOSTNAMES"), json_str (pod, "spec", "subdomain")));
    }
}

/* ---- who is told nothing ---- */

static void
test_owners_without_indices_run_single_hosts (void **state)
{
  static const char *const kinds[] = { "ReplicaSet", "DaemonSet", "Notebook" };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (kinds); i++)
    for (int multi = 0; multi < 2; multi++)
      {
        cleanup_json cJSON *pod = make_pod ("tpu-v6e-slice", multi ? "4x4" : "2x2", "4");
        cJSON *owner;
        cleanup_injection struct tpu_injection in = { 0 };

        json_set_str (json_get (pod, "metadata"), "generateName", "web-5f6d-");
        owner = json_push_obj (json_arr (json_get (pod, "metadata"), "ownerReferences"));
        json_set_str (owner, "kind", kinds[i]);
        json_set_bool (owner, "controller", true);
        in = admit (pod, NULL);
        if (multi)
          {
            check_env (kinds[i], container_at (pod, "containers", 0), no_megascale);
            assert_null (env_of (pod, "TPU_WORKER_ID"));
            assert_true (warned (&in, kinds[i]));
            continue;
          }
        assert_string_equal (env_of (pod, "TPU_WORKER_HOSTNAMES"), "localhost");
        assert_string_equal (env_of (pod, "TPU_NAME"), "web-5f6d");
        assert_int_equal (cJSON_GetArraySize (in.warnings), 0);
      }
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_jobset_of_two_slices),
    cmocka_unit_test (test_multislice),
    cmocka_unit_test (test_multislice_on_tpu7x_has_ports),
    cmocka_unit_test (test_pathways),
    cmocka_unit_test (test_part_of_a_slice),
    cmocka_unit_test (test_dynamic_slice),
    cmocka_unit_test (test_job_by_its_controller),
    cmocka_unit_test (test_statefulset),
    cmocka_unit_test (test_place_is_asked_for_and_used),
    cmocka_unit_test (test_place_is_not_asked_for),
    cmocka_unit_test (test_labels_and_annotations_are_not_mixed),
    cmocka_unit_test (test_labels_alone_make_no_pod_of_a_raycluster),
    cmocka_unit_test (test_legacy_service_names),
    cmocka_unit_test (test_owners_without_indices_run_single_hosts),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
