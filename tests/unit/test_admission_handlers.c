/* The two handlers: what injection and validation decide becomes a verdict; what is not theirs passes. */
#include "test_tpu_owners.h"

#include <unistd.h>

#include "admission/admission.h"

static struct admission_policy
policy_of (bool strict)
{
  struct admission_policy policy = { .tpu = tpu_default_options, .ray = &ray_default_options };

  policy.tpu.strict = strict;
  return policy;
}

static struct admission_request
request_for (const char *group, const char *kind, const char *operation, const cJSON *object, const cJSON *old)
{
  return (struct admission_request){
    .uid = "u",
    .group = group,
    .kind = kind,
    .subresource = "",
    .operation = operation,
    .namespace = "ml",
    .name = "",
    .object = object,
    .old_object = old,
  };
}

static int
warning_count (const struct admission_verdict *v)
{
  return cJSON_GetArraySize (v->warnings);
}

/* ---- pods ---- */

static struct admission_verdict
mutate_with (const cJSON *pod, const char *operation, bool strict, bool dry_run)
{
  struct admission_policy policy = policy_of (strict);
  struct admission_request request = request_for ("", "Pod", operation, pod, NULL);
  struct admission_verdict verdict = { 0 };
  struct error err = { "" };

  request.dry_run = dry_run;
  if (admission_mutate_pod (&policy, &request, &verdict, &err) < 0)
    fail_msg ("%s", err.message);
  return verdict;
}

static struct admission_verdict
mutate (const cJSON *pod, const char *operation, bool strict)
{
  return mutate_with (pod, operation, strict, false);
}

#define HOST(n) "v6e-16-0-" #n ".ray-torchtpu-cluster-headless"

static void
a_tutorial_worker_leaves_with_its_environment (void **state)
{
  static const char *const wanted[] = { "TPU_WORKER_ID=3", "TPU_NAME=v6e-16-0", "TORCH_TPU_TOPOLOGY=4,4,1",
                                        "TPU_WORKER_HOSTNAMES=" HOST (0) "," HOST (1) "," HOST (2) "," HOST (3) };
  cleanup_json cJSON *pod = make_ray_pod ("tpu-v6e-slice", "4x4", "4", "ray-torchtpu-cluster", "v6e-16", 0, 3);
  cleanup_verdict struct admission_verdict v = mutate (pod, "CREATE", false);
  cleanup_verdict struct admission_verdict again = { 0 };
  struct error err = { "" };

  (void) state;
  assert_true (v.allowed);
  assert_int_equal (json_patch_apply (pod, v.patch, &err), 0);
  for (size_t i = 0; i < ARRAY_LEN (wanted); i++)
    {
      cleanup_free char *name = xstrndup (wanted[i], strcspn (wanted[i], "="));

      assert_string_equal (json_str (env_entry (container_at (pod, "containers", 0), name), "value"),
                           strchr (wanted[i], '=') + 1);
    }
  again = mutate (pod, "CREATE", true);
  assert_true (again.allowed);
  assert_int_equal (cJSON_GetArraySize (again.patch), 0);
}

static void
pods_that_are_not_ours_pass_untouched (void **state)
{
  cleanup_json cJSON *tpu = make_ray_pod ("tpu-v6e-slice", "4x4", "4", "c", "g", 0, 0);
  cleanup_json cJSON *plain = make_pod (NULL, NULL, NULL);
  const struct
  {
    const char *name, *group, *kind, *subresource, *operation;
    const cJSON *object;
  } cases[] = {
    { "no TPU", "", "Pod", "", "CREATE", plain },
    { "update", "", "Pod", "", "UPDATE", tpu },
    { "another kind", "", "Service", "", "CREATE", tpu },
    { "another group's Pod", "example.com", "Pod", "", "CREATE", tpu },
    { "eviction", "", "Pod", "eviction", "CREATE", tpu },
  };
  struct admission_policy policy = policy_of (true);

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (cases); i++)
    {
      struct admission_request request
          = request_for (cases[i].group, cases[i].kind, cases[i].operation, cases[i].object, NULL);
      cleanup_verdict struct admission_verdict v = { 0 };
      struct error err = { "" };

      request.subresource = cases[i].subresource;
      if (admission_mutate_pod (&policy, &request, &v, &err) != 0 || !v.allowed || cJSON_GetArraySize (v.patch) != 0
          || warning_count (&v) != 0)
        fail_msg ("%s: not left alone", cases[i].name);
    }
}

static void
a_wrong_pod_is_admitted_with_a_warning_or_denied_when_strict (void **state)
{
  static const char *const topologies[] = { "4x", "3x3", "4x4x4", "0x4" };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (topologies); i++)
    {
      cleanup_json cJSON *pod = make_ray_pod ("tpu-v6e-slice", topologies[i], "4", "c", "g", 0, 0);
      cleanup_verdict struct admission_verdict lenient = mutate (pod, "CREATE", false);
      cleanup_verdict struct admission_verdict strict = mutate (pod, "CREATE", true);

      if (!lenient.allowed || warning_count (&lenient) != 1 || cJSON_GetArraySize (lenient.patch) != 0)
        fail_msg ("%s: should be admitted unchanged with one warning", topologies[i]);
      if (strict.allowed || strict.code != 422 || strict.message == NULL)
        fail_msg ("%s: should be denied", topologies[i]);
      assert_string_equal (lenient.warnings->child->valuestring, strict.message);
      assert_non_null (strstr (log_nonnull (strict.message), topologies[i]));
    }
}

static void
an_unknown_identity_is_a_warning_or_denied_when_strict (void **state)
{
  cleanup_json cJSON *pod = make_pod ("tpu-v6e-slice", "4x4", "4"); /* bare: which of the four hosts is it? */
  cleanup_verdict struct admission_verdict lenient = mutate (pod, "CREATE", false);
  cleanup_verdict struct admission_verdict strict = mutate (pod, "CREATE", true);

  (void) state;
  assert_true (lenient.allowed);
  assert_int_equal (warning_count (&lenient), 1);
  assert_false (strict.allowed);
  assert_int_equal (strict.code, 422);
}

/* What the handler has logged about a pod, from standard error. Owned by the caller. */
static char *
logged_about (const cJSON *pod)
{
  FILE *file = tmpfile ();
  int saved = dup (STDERR_FILENO);
  cleanup_verdict struct admission_verdict v = { 0 };
  char text[2048] = "";

  assert_non_null (file);
  fflush (stderr);
  dup2 (fileno (file), STDERR_FILENO);
  v = mutate (pod, "CREATE", false);
  dup2 (saved, STDERR_FILENO);
  close (saved);
  rewind (file);
  text[fread (text, 1, sizeof (text) - 1, file)] = '\0';
  fclose (file);
  return xstrdup (text);
}

static void
the_log_names_a_slice_only_where_there_is_one (void **state)
{
  cleanup_json cJSON *placed = make_ray_pod ("tpu-v6e-slice", "4x4", "4", "c", "g", 0, 3);
  cleanup_json cJSON *lost = make_ray_pod ("tpu-v6e-slice", "4x4", "4", "c", "g", 0, -1);
  cleanup_free char *known = logged_about (placed), *unknown = logged_about (lost);

  (void) state;
  assert_non_null (strstr (known, "injected pod"));
  assert_non_null (strstr (known, "owner=RayCluster slice=g-0 worker_id=3 hosts=4 env=7"));
  assert_non_null (strstr (unknown, "injected pod")); /* where the node's metrics are */
  assert_non_null (strstr (unknown, "owner=RayCluster env=2"));
  assert_null (strstr (unknown, "slice="));
}

/* What every owner's mistake comes to, and what it is the same as: with dryRun, as without. */
static void
each_owner_is_denied_only_when_strict_and_unknown (void **state)
{
  static const struct
  {
    const char *name;
    const char *edit, *remedy; /* NULL remedy: known */
  } rows[] = {
    { "StatefulSet", NULL, NULL },
    { "StatefulSet without a Service", "[{'op': 'remove', 'path': '/spec/subdomain'}]", "spec.serviceName" },
    { "NonIndexed Job", "[{'op': 'replace', 'path': '/metadata/labels', 'value': {'job-name': 'j'}}]",
      "completionMode: Indexed" },
    { "Job without subdomain",
      "[{'op': 'replace', 'path': '/metadata/labels', 'value': {'job-name': 'j', "
      "'batch.kubernetes.io/job-completion-index': '1'}}, {'op': 'remove', 'path': '/spec/subdomain'}]",
      "spec.subdomain" },
    { "Deployment",
      "[{'op': 'remove', 'path': '/metadata/labels'}, {'op': 'replace', 'path': '/metadata/ownerReferences', 'value': "
      "[{'kind': 'ReplicaSet', 'controller': true}]}]",
      "JobSet" },
    { "LeaderWorkerSet without size",
      "[{'op': 'add', 'path': '/metadata/labels/leaderworkerset.sigs.k8s.io~1name', 'value': 'l'}]", "size" },
    { "opted out",
      "[{'op': 'remove', 'path': '/spec/subdomain'}, {'op': 'add', 'path': '/metadata/annotations', 'value': "
      "{'ray-tpu-operator/inject': 'false'}}]",
      NULL },
  };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (rows); i++)
    for (int dry_run = 0; dry_run < 2; dry_run++)
      {
        cleanup_json cJSON *pod = make_statefulset_pod ("tpu-v6e-slice", "4x4", "4", 1);
        cleanup_verdict struct admission_verdict lenient = { 0 }, strict = { 0 };

        if (rows[i].edit != NULL)
          edit (pod, rows[i].edit);
        lenient = mutate_with (pod, "CREATE", false, dry_run);
        strict = mutate_with (pod, "CREATE", true, dry_run);
        if (!lenient.allowed || strict.allowed != (rows[i].remedy == NULL))
          fail_msg ("%s: %s", rows[i].name, log_nonnull (strict.message));
        assert_int_equal (warning_count (&lenient), rows[i].remedy != NULL);
        if (rows[i].remedy != NULL && strstr (log_nonnull (strict.message), rows[i].remedy) == NULL)
          fail_msg ("%s: %s", rows[i].name, strict.message);
      }
}

/* ---- RayClusters ---- */

static cJSON *
load_cluster (const char *edits)
{
  cleanup_buf struct buf text = { 0 };
  cleanup_json cJSON *docs = NULL;
  cJSON *cluster;
  struct error err = { "" };

  if (text_read_file (TEST_FIXTURES "/tutorial_a_v6e_4x4.yaml", 1 << 20, &text, &err) < 0
      || yaml_parse (&docs, text.data, text.len, &err) < 0)
    fail_msg ("%s", err.message);
  cluster = cJSON_DetachItemFromArray (docs, 0);
  if (edits != NULL)
    edit (cluster, edits);
  return cluster;
}

static struct admission_verdict
validate (const char *operation, const char *old_edits, const char *new_edits)
{
  cleanup_json cJSON *object = load_cluster (new_edits);
  cleanup_json cJSON *old = text_eq (operation, "UPDATE") ? load_cluster (old_edits) : NULL;
  struct admission_policy policy = policy_of (false);
  struct admission_request request = request_for ("ray.io", "RayCluster", operation, object, old);
  struct admission_verdict verdict = { 0 };
  struct error err = { "" };

  if (admission_validate_raycluster (&policy, &request, &verdict, &err) < 0)
    fail_msg ("%s", err.message);
  return verdict;
}

#define HOSTS(n) "{'op':'replace','path':'/spec/workerGroupSpecs/0/numOfHosts','value':" #n "}"
#define REPLICAS(n) "{'op':'replace','path':'/spec/workerGroupSpecs/0/replicas','value':" #n "}"
#define GROUP(name) "{'op':'replace','path':'/spec/workerGroupSpecs/0/groupName','value':'" name "'}"
#define CPU_TEMPLATE "'template':{'spec':{'containers':[{'name':'w','image':'i'}]}}"
#define GROUP_FIRST(name, replicas)                                                                                    \
  "{'op':'add','path':'/spec/workerGroupSpecs/0','value':{'groupName':'" name "','replicas':" #replicas                \
  ",'minReplicas':0,'maxReplicas':9," CPU_TEMPLATE "}}"

static void
a_cluster_is_judged_by_what_it_brings (void **state)
{
  static const struct
  {
    const char *name, *operation, *old_edits, *new_edits;
    bool allowed;
    int warnings;
    const char *says, *says_not;
  } cases[] = {
    { "the tutorial", "CREATE", NULL, NULL, true, 0, NULL, NULL },
    { "wrong number of hosts", "CREATE", NULL, "[" HOSTS (2) "]", false, 0, "numOfHosts", NULL },
    { "every problem at once", "CREATE", NULL, "[" HOSTS (2) "," GROUP ("Not_A_Label") "]", false, 0, "Not_A_Label",
      NULL },
    { "both are named", "CREATE", NULL, "[" HOSTS (2) "," GROUP ("Not_A_Label") "]", false, 0, "numOfHosts", NULL },
    { "an update that brings a problem", "UPDATE", NULL, "[" HOSTS (2) "]", false, 0, "numOfHosts", NULL },
    { "an update that mends one", "UPDATE", "[" HOSTS (2) "]", NULL, true, 0, NULL, NULL },
    { "scaling while an old problem stays", "UPDATE", "[" HOSTS (2) "]", "[" HOSTS (2) "," REPLICAS (3) "]", true, 1,
      NULL, NULL },
    { "a second problem beside the old one", "UPDATE", "[" HOSTS (2) "]",
      "[" HOSTS (2) "," GROUP_FIRST ("Bad_Name", 1) "]", false, 1, "Bad_Name", "numOfHosts" },
    { "the same mistake in another group", "UPDATE", "[" GROUP_FIRST ("cpu", -1) "]",
      "[" GROUP_FIRST ("cpu", -1) "," GROUP_FIRST ("cpu-2", -1) "]", false, 1, "replicas", NULL },
    { "an old problem that moved to another index", "UPDATE", "[" HOSTS (2) "]",
      "[" HOSTS (2) "," GROUP_FIRST ("cpu", 1) "]", true, 1, NULL, NULL },
    { "another value of the wrong field", "UPDATE", "[" HOSTS (2) "]", "[" HOSTS (3) "]", false, 0, "numOfHosts",
      NULL },
    { "metadata only", "UPDATE", "[" HOSTS (2) "]",
      "[" HOSTS (2) ",{'op':'add','path':'/metadata/finalizers','value':[]}]", true, 0, NULL, NULL },
    { "scaling a group whose problem counts replicas", "UPDATE", "[" REPLICAS (30000) "]", "[" REPLICAS (29999) "]",
      true, 1, NULL, NULL },
    { "scaling beyond what a group may have", "UPDATE", NULL, "[" REPLICAS (30000) "]", false, 0, "replicas", NULL },
    { "suspending it", "UPDATE", "[" REPLICAS (30000) "]",
      "[" REPLICAS (30001) ",{'op':'add','path':'/spec/suspend','value':true}]", true, 1, NULL, NULL },
    { "naming workers to delete", "UPDATE", "[" REPLICAS (30000) "]",
      "[" REPLICAS (
          30001) ",{'op':'add','path':'/spec/workerGroupSpecs/0/scaleStrategy','value':{'workersToDelete':['a']}}]",
      true, 1, NULL, NULL },
    { "scaling and more", "UPDATE", "[" REPLICAS (30000) "]",
      "[" REPLICAS (30001) ",{'op':'add','path':'/spec/rayVersion','value':'2.50.0'}]", false, 0, "replicas", NULL },
    { "the problem moves to another group by scaling", "UPDATE",
      "[" GROUP_FIRST ("cpu", -1) "," GROUP_FIRST ("cpu-2", 1) "]",
      "[" GROUP_FIRST ("cpu", 1) "," GROUP_FIRST ("cpu-2", -1) "]", false, 0, "workerGroupSpecs[0].replicas", NULL },
    { "being deleted", "UPDATE", NULL,
      "[" HOSTS (2) ",{'op':'add','path':'/metadata/deletionTimestamp','value':'2026-01-01T00:00:00Z'}]", true, 0, NULL,
      NULL },
    { "another controller's", "CREATE", NULL,
      "[" HOSTS (2) ",{'op':'add','path':'/spec/managedBy','value':'kueue.x-k8s.io/multikueue'}]", true, 0, NULL,
      NULL },
    { "no name", "CREATE", NULL, "[{'op':'remove','path':'/metadata/name'}]", false, 0, "name", NULL },
    { "deleted", "DELETE", NULL, "[" HOSTS (2) "]", true, 0, NULL, NULL },
    { "what this version leaves out", "CREATE", NULL,
      "[{'op':'add','path':'/spec/tlsOptions','value':{'enabled':true}}]", true, 1, NULL, NULL },
    { "what its pods would be warned of", "CREATE", NULL,
      "[{'op':'add','path':'/spec/workerGroupSpecs/0/template/spec/hostNetwork','value':true}]", true, 1, NULL, NULL },
  };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (cases); i++)
    {
      cleanup_verdict struct admission_verdict v
          = validate (cases[i].operation, cases[i].old_edits, cases[i].new_edits);

      if (v.allowed != cases[i].allowed)
        fail_msg ("%s: %s%s", cases[i].name, v.allowed ? "allowed" : "denied: ", v.message ? v.message : "");
      if (!v.allowed && v.code != 422)
        fail_msg ("%s: code %d", cases[i].name, v.code);
      if (warning_count (&v) != cases[i].warnings)
        fail_msg ("%s: %d warnings: %s", cases[i].name, warning_count (&v), json_print (v.warnings));
      if (cases[i].says != NULL && strstr (v.message, cases[i].says) == NULL)
        fail_msg ("%s: \"%s\" does not name %s", cases[i].name, v.message, cases[i].says);
      if (cases[i].says_not != NULL && strstr (v.message, cases[i].says_not) != NULL)
        fail_msg ("%s: \"%s\" speaks of %s", cases[i].name, v.message, cases[i].says_not);
    }
}

static void
other_kinds_pass_the_validator (void **state)
{
  static const struct
  {
    const char *group, *kind, *subresource;
  } cases[] = { { "ray.io", "RayJob", "" }, { "example.com", "RayCluster", "" }, { "ray.io", "RayCluster", "status" } };
  cleanup_json cJSON *bad = load_cluster ("[" HOSTS (2) "]");
  struct admission_policy policy = policy_of (true);

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (cases); i++)
    {
      struct admission_request request = request_for (cases[i].group, cases[i].kind, "CREATE", bad, NULL);
      cleanup_verdict struct admission_verdict v = { 0 };
      struct error err = { "" };

      request.subresource = cases[i].subresource;
      assert_int_equal (admission_validate_raycluster (&policy, &request, &v, &err), 0);
      assert_true (v.allowed);
    }
}

static void
a_denial_stays_readable_however_much_is_wrong (void **state)
{
  cleanup_json cJSON *cluster = load_cluster (NULL);
  struct admission_policy policy = policy_of (false);
  struct admission_request request = request_for ("ray.io", "RayCluster", "CREATE", cluster, NULL);
  cleanup_verdict struct admission_verdict v = { 0 };
  struct error err = { "" };

  (void) state;
  for (int i = 0; i < 500; i++)
    edit (cluster, "[" GROUP_FIRST ("Bad_Name", -1) "]");
  assert_int_equal (admission_validate_raycluster (&policy, &request, &v, &err), 0);
  assert_false (v.allowed);
  assert_in_range (strlen (v.message), 1000, 4200);
  assert_true (text_ends_with (v.message, " more problems"));
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (a_tutorial_worker_leaves_with_its_environment),
    cmocka_unit_test (pods_that_are_not_ours_pass_untouched),
    cmocka_unit_test (a_wrong_pod_is_admitted_with_a_warning_or_denied_when_strict),
    cmocka_unit_test (an_unknown_identity_is_a_warning_or_denied_when_strict),
    cmocka_unit_test (the_log_names_a_slice_only_where_there_is_one),
    cmocka_unit_test (each_owner_is_denied_only_when_strict_and_unknown),
    cmocka_unit_test (a_cluster_is_judged_by_what_it_brings),
    cmocka_unit_test (other_kinds_pass_the_validator),
    cmocka_unit_test (a_denial_stays_readable_however_much_is_wrong),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
