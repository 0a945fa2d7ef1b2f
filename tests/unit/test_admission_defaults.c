/* RayClusters on their own and inside RayJobs and RayServices: what is filled in, and what is said about them. */
#include "test_tpu_pods.h"

#include "admission/admission.h"

/* One group: its name, more members in front of the template (each with a comma at its end), topology and chips. */
#define ON(accelerator, name, members, topology, chips)                                                                \
  "{'groupName':'" name "'," members "'template':{'spec':{'nodeSelector':{'cloud.google.com/gke-tpu-topology':"        \
  "'" topology "'" accelerator "},'containers':[{'name':'w','image':'i','resources':{'limits':{'google.com/tpu':'"     \
  "" chips "'}}}]}}}"
#define LABEL(accelerator) ",'cloud.google.com/gke-tpu-accelerator':'" accelerator "'"
#define V6E(name, members, topology) ON (LABEL ("tpu-v6e-slice"), name, members, topology, "4")
#define CPU(name) "{'groupName':'" name "','template':{'spec':{'containers':[{'name':'w','image':'i'}]}}}"
#define OMITTED ""
#define HOSTS(n) "'numOfHosts':" #n ","
#define HEAD "'headGroupSpec':{'template':{'spec':{'containers':[{'name':'h','image':'i'}]}}},"

/* An object of this kind with these worker groups; NULL for none. */
static cJSON *
make_object (const char *kind, const char *groups, const char *edits)
{
  const char *key = text_eq (kind, "RayJob")       ? "rayClusterSpec"
                    : text_eq (kind, "RayService") ? "rayClusterConfig"
                                                   : "";
  cleanup_free char *text = NULL;
  cJSON *object;

  if (groups == NULL)
    return NULL;
  text
      = xasprintf ("{'apiVersion':'ray.io/v1','kind':'%s','metadata':{'name':'it','namespace':'ml'},'spec':%s%s%s{" HEAD
                   "'workerGroupSpecs':[%s]}%s}",
                   kind, *key != '\0' ? "{'" : "", key, *key != '\0' ? "':" : "", groups, *key != '\0' ? "}" : "");
  object = parse_json (text);
  if (edits != NULL)
    edit (object, edits);
  return object;
}

typedef int (*handler) (void *policy, const struct admission_request *request, struct admission_verdict *verdict,
                        struct error *err);

static struct admission_verdict
ask (handler fn, const char *kind, const cJSON *object, const cJSON *old)
{
  struct admission_policy policy = { .tpu = tpu_default_options, .ray = &ray_default_options };
  struct admission_request request = {
    .uid = "u",
    .group = "ray.io",
    .kind = kind,
    .subresource = "",
    .operation = old != NULL ? "UPDATE" : "CREATE",
    .namespace = "ml",
    .name = "",
    .object = object,
    .old_object = old,
  };
  struct admission_verdict verdict = { 0 };
  struct error err = { "" };

  if (fn (&policy, &request, &verdict, &err) < 0)
    fail_msg ("%s", err.message);
  return verdict;
}

/* ---- defaulting ---- */

#define SET(path, n) "[{'op':'add','path':'/spec" path "/numOfHosts','value':" #n "}]"
#define SET_0(n) SET ("/workerGroupSpecs/0", n)
#define SET_1(n) SET ("/workerGroupSpecs/1", n)

static const struct default_case
{
  const char *name, *kind, *old, *groups, *edits;
  const char *patch;   /* NULL: none */
  const char *warning; /* the one warning has these words; without a patch there is none */
} default_cases[] = {
  { "left out", "RayCluster", NULL, V6E ("g", OMITTED, "4x4"), NULL, SET_0 (4),
    "spec.workerGroupSpecs[0].numOfHosts: set to 4, because a 4x4 v6e topology with 4 chips per host has 4 hosts; "
    "write "
    "it into the manifest" },
  { "1, as the schema makes of left out", "RayCluster", NULL, V6E ("g", HOSTS (1), "4x8"), NULL, SET_0 (8),
    "a 4x8 v6e topology with 4 chips per host has 8 hosts" },
  { "0 and null are not set either", "RayCluster", NULL, CPU ("c") "," V6E ("g", HOSTS (0), "4x4"), NULL, SET_1 (4),
    "spec.workerGroupSpecs[1].numOfHosts" },
  { "null", "RayCluster", NULL, V6E ("g", HOSTS (null), "4x4"), NULL, SET_0 (4), "set to 4" },
  { "three dimensions", "RayCluster", NULL, ON (LABEL ("tpu7x"), "g", HOSTS (1), "2x2x2", "4"), NULL, SET_0 (2),
    "a 2x2x2 tpu7x topology with 4 chips per host has 2 hosts" },
  { "two hosts of what may also be one", "RayCluster", NULL, V6E ("g", HOSTS (1), "2x4"), NULL, SET_0 (2),
    "has 2 hosts" },
  { "an unknown generation", "RayCluster", NULL, ON (LABEL ("tpu9"), "g", HOSTS (1), "4x4", "8"), NULL, SET_0 (2),
    "a 4x4 topology with 8 chips per host has 2 hosts" },
  { "before it has a name", "RayCluster", NULL, V6E ("g", OMITTED, "4x4"),
    "[{'op':'remove','path':'/metadata/name'},{'op':'add','path':'/metadata/generateName','value':'it-'}]", SET_0 (4),
    "set to 4" },
  { "our own", "RayCluster", NULL, V6E ("g", OMITTED, "4x4"),
    "[{'op':'add','path':'/spec/managedBy','value':'ray.io/kuberay-operator'}]", SET_0 (4), "set to 4" },
  { "inside a RayJob", "RayJob", NULL, V6E ("g", OMITTED, "4x4"), NULL, SET ("/rayClusterSpec/workerGroupSpecs/0", 4),
    "spec.rayClusterSpec.workerGroupSpecs[0].numOfHosts: set to 4" },
  { "inside a RayService", "RayService", NULL, V6E ("g", HOSTS (1), "4x4"), NULL,
    SET ("/rayClusterConfig/workerGroupSpecs/0", 4), "spec.rayClusterConfig.workerGroupSpecs[0].numOfHosts: set to 4" },
  { "a group that is new", "RayCluster", V6E ("g", HOSTS (4), "4x4"),
    V6E ("g", HOSTS (4), "4x4") "," V6E ("new", HOSTS (1), "4x8"), NULL, SET_1 (8), "set to 8" },
  { "the same manifest applied again", "RayCluster", V6E ("g", HOSTS (4), "4x4"), V6E ("g", HOSTS (1), "4x4"), NULL,
    SET_0 (4), "set to 4" },
  { "again, inside a RayJob", "RayJob", V6E ("g", HOSTS (4), "4x4"), V6E ("g", HOSTS (1), "4x4"), NULL,
    SET ("/rayClusterSpec/workerGroupSpecs/0", 4), "set to 4" },
  /* left alone */
  { "a stored group may have pods", "RayCluster", V6E ("g", HOSTS (1), "4x4"), V6E ("g", HOSTS (1), "4x4"), NULL, NULL,
    NULL },
  { "a stored group on another topology", "RayCluster", V6E ("g", HOSTS (4), "4x4"), V6E ("g", HOSTS (1), "4x8"), NULL,
    NULL, NULL },
  { "a stored group that moves", "RayCluster", V6E ("g", HOSTS (1), "4x4"), CPU ("c") "," V6E ("g", HOSTS (1), "4x4"),
    NULL, NULL, NULL },
  { "right", "RayCluster", NULL, V6E ("g", HOSTS (4), "4x4"), NULL, NULL, NULL },
  { "somebody meant 2", "RayCluster", NULL, V6E ("g", HOSTS (2), "4x4"), NULL, NULL, NULL },
  { "negative", "RayCluster", NULL, V6E ("g", HOSTS (-1), "4x4"), NULL, NULL, NULL },
  { "a text", "RayCluster", NULL, V6E ("g", HOSTS ('1'), "4x4"), NULL, NULL, NULL },
  { "one host", "RayCluster", NULL, V6E ("g", OMITTED, "2x2"), NULL, NULL, NULL },
  { "one host of 8 chips", "RayCluster", NULL, ON (LABEL ("tpu-v6e-slice"), "g", OMITTED, "2x4", "8"), NULL, NULL,
    NULL },
  { "more chips than a host has", "RayCluster", NULL, ON (LABEL ("tpu-v6e-slice"), "g", OMITTED, "4x4", "8"), NULL,
    NULL, NULL },
  { "fewer chips than a host has", "RayCluster", NULL, ON (LABEL ("tpu-v6e-slice"), "g", OMITTED, "4x4", "1"), NULL,
    NULL, NULL },
  { "no TPU", "RayCluster", NULL, CPU ("c"), NULL, NULL, NULL },
  { "a topology that is none", "RayCluster", NULL, V6E ("g", OMITTED, "4x"), NULL, NULL, NULL },
  { "more hosts than a group may have", "RayCluster", NULL, ON (LABEL ("tpu9"), "g", OMITTED, "4096x4096x4096", "4"),
    NULL, NULL, NULL },
  { "a topology that is not offered", "RayCluster", NULL, V6E ("g", OMITTED, "4x5"), NULL, NULL, NULL },
  { "dimensions in another order", "RayCluster", NULL, V6E ("g", HOSTS (1), "8x4"), NULL, NULL, NULL },
  { "another controller's", "RayCluster", NULL, V6E ("g", OMITTED, "4x4"),
    "[{'op':'add','path':'/spec/managedBy','value':'kueue.x-k8s.io/multikueue'}]", NULL, NULL },
  { "another controller's RayJob", "RayJob", NULL, V6E ("g", OMITTED, "4x4"),
    "[{'op':'add','path':'/spec/managedBy','value':'kueue.x-k8s.io/multikueue'}]", NULL, NULL },
  { "being deleted", "RayCluster", "", V6E ("g", OMITTED, "4x4"),
    "[{'op':'add','path':'/metadata/deletionTimestamp','value':'2026-01-01T00:00:00Z'}]", NULL, NULL },
  { "a RayJob on an existing cluster", "RayJob", NULL, "",
    "[{'op':'replace','path':'/spec','value':{'clusterSelector':{'ray.io/cluster':'c'}}}]", NULL, NULL },
  { "another kind", "RayCronJob", NULL, V6E ("g", OMITTED, "4x4"), NULL, NULL, NULL },
  { "nothing of the right type", "RayCluster", NULL, "1,[],null,{},{'template':7}", NULL, NULL, NULL },
};

static void
check_default (const struct default_case *c)
{
  cleanup_json cJSON *object = make_object (c->kind, c->groups, c->edits);
  cleanup_json cJSON *old = make_object (c->kind, c->old, NULL);
  cleanup_json cJSON *expected = parse_json (c->patch != NULL ? c->patch : "[]");
  cleanup_verdict struct admission_verdict v = ask (admission_default_raycluster, c->kind, object, old);
  cleanup_verdict struct admission_verdict again = { 0 };
  struct error err = { "" };

  if (!v.allowed)
    fail_msg ("%s: denied", c->name);
  if (cJSON_GetArraySize (v.patch) == 0 ? c->patch != NULL : !json_equal (v.patch, expected))
    fail_msg ("%s: patch %s", c->name, json_print (v.patch));
  if (cJSON_GetArraySize (v.warnings) != (c->patch != NULL ? 1 : 0))
    fail_msg ("%s: warnings %s", c->name, json_print (v.warnings));
  if (c->patch == NULL)
    return;
  if (strstr (v.warnings->child->valuestring, c->warning) == NULL)
    fail_msg ("%s: warning %s", c->name, v.warnings->child->valuestring);
  if (json_patch_apply (object, v.patch, &err) < 0)
    fail_msg ("%s: %s", c->name, err.message);
  again = ask (admission_default_raycluster, c->kind, object, old);
  if (cJSON_GetArraySize (again.patch) != 0 || cJSON_GetArraySize (again.warnings) != 0)
    fail_msg ("%s: not idempotent", c->name);
}

static void
a_group_gets_the_hosts_of_its_topology_where_no_pod_can_be_touched (void **state)
{
  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (default_cases); i++)
    check_default (&default_cases[i]);
}

static void
only_creates_and_updates_of_the_object_itself_are_defaulted (void **state)
{
  static const struct
  {
    const char *group, *operation, *subresource;
  } cases[] = { { "ray.io", "CREATE", "status" }, { "ray.io", "DELETE", "" }, { "example.com", "CREATE", "" } };
  cleanup_json cJSON *object = make_object ("RayCluster", V6E ("g", OMITTED, "4x4"), NULL);

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (cases); i++)
    {
      struct admission_policy policy = { .tpu = tpu_default_options, .ray = &ray_default_options };
      struct admission_request request = { .uid = "u",
                                           .group = cases[i].group,
                                           .kind = "RayCluster",
                                           .subresource = cases[i].subresource,
                                           .operation = cases[i].operation,
                                           .namespace = "ml",
                                           .name = "",
                                           .object = object };
      cleanup_verdict struct admission_verdict v = { 0 };
      struct error err = { "" };

      assert_int_equal (admission_default_raycluster (&policy, &request, &v, &err), 0);
      assert_true (v.allowed);
      assert_int_equal (cJSON_GetArraySize (v.patch), 0);
    }
}

/* ---- clusters inside other objects ---- */

#define NAME_47 "a2345678901234567890123456789012345678901234567"
#define RENAME(name) "[{'op':'replace','path':'/metadata/name','value':'" name "'}]"
#define ADD(path, value) "[{'op':'add','path':'/spec" path "','value':" value "}]"
#define GOOD V6E ("g", HOSTS (4), "4x4")

static const struct held_case
{
  const char *name, *kind, *old, *groups, *edits; /* edits: of the new object */
  const char *says;                               /* words of the denial; NULL: allowed */
  int warnings;
} held_cases[] = {
  { "a good job", "RayJob", NULL, GOOD, NULL, NULL, 0 },
  { "a good service", "RayService", NULL, GOOD, NULL, NULL, 0 },
  { "wrong hosts in a job", "RayJob", NULL, V6E ("g", HOSTS (2), "4x4"), NULL,
    "spec.rayClusterSpec.workerGroupSpecs[0].numOfHosts: numOfHosts is 2, but a 4x4 v6e topology with 4 chips per host "
    "has 4 hosts: set numOfHosts to 4",
    0 },
  { "wrong hosts in a service", "RayService", NULL, V6E ("g", HOSTS (2), "4x4"), NULL,
    "spec.rayClusterConfig.workerGroupSpecs[0].numOfHosts: numOfHosts is 2", 0 },
  { "a topology that is not offered", "RayJob", NULL, V6E ("g", HOSTS (1), "8x4"), NULL,
    "spec.rayClusterSpec.workerGroupSpecs[0].template.spec: there is no v6e slice of topology 8x4: did you mean 4x8?",
    0 },
  { "the same, but consistent", "RayJob", NULL, V6E ("g", HOSTS (8), "8x4"), NULL, NULL, 1 },
  { "one name for two groups", "RayJob", NULL, GOOD "," GOOD, NULL,
    "spec.rayClusterSpec.workerGroupSpecs[1].groupName: \"g\" is also the name of workerGroupSpecs[0]", 0 },
  { "a name of 47", "RayJob", NULL, GOOD, RENAME (NAME_47), NULL, 0 },
  { "a name of 48", "RayJob", NULL, GOOD, RENAME (NAME_47 "8"),
    "metadata.name: \"" NAME_47 "8\" has 48 characters, but at most 47", 0 },
  { "a service's of 48", "RayService", NULL, GOOD, RENAME (NAME_47 "8"), "at most 47", 0 },
  { "a RayCluster's of 48", "RayCluster", NULL, GOOD, RENAME (NAME_47 "8"), NULL, 0 },
  { "a name with a digit first", "RayJob", NULL, GOOD, RENAME ("1a"), "metadata.name: \"1a\" is no DNS label", 0 },
  { "no head", "RayJob", NULL, GOOD, "[{'op':'remove','path':'/spec/rayClusterSpec/headGroupSpec'}]",
    "spec.rayClusterSpec.headGroupSpec: is missing", 0 },
  { "a job on an existing cluster", "RayJob", NULL, GOOD,
    "[{'op':'replace','path':'/spec','value':{'clusterSelector':{'ray.io/cluster':'c'}}}]", NULL, 0 },
  { "another controller's job", "RayJob", NULL, V6E ("g", HOSTS (2), "4x4"),
    ADD ("/managedBy", "'kueue.x-k8s.io/multikueue'"), NULL, 0 },
  { "who upgrades a job's cluster", "RayJob", NULL, GOOD,
    ADD ("/rayClusterSpec/upgradeStrategy", "{'type':'Recreate'}"),
    "spec.rayClusterSpec.upgradeStrategy.type: cannot be set in a RayCluster of a RayJob", 0 },
  { "Kubernetes tokens", "RayService", NULL, GOOD,
    ADD ("/rayClusterConfig/authOptions", "{'mode':'token','enableK8sTokenAuth':true}"),
    "spec.rayClusterConfig.authOptions.enableK8sTokenAuth: cannot be used in a RayService", 0 },
  { "a head Service of one name for two clusters", "RayService", NULL, GOOD,
    ADD ("/rayClusterConfig/headGroupSpec/headService", "{'metadata':{'name':'mine'}}"),
    "spec.rayClusterConfig.headGroupSpec.headService.metadata.name: is \"mine\"", 0 },
  { "a job's cluster may name its head Service", "RayJob", NULL, GOOD,
    ADD ("/rayClusterSpec/headGroupSpec/headService", "{'metadata':{'name':'mine'}}"), NULL, 0 },
  { "what this version leaves out", "RayService", NULL, GOOD,
    ADD ("/rayClusterConfig/historyServerOptions", "{'collectorOptions':{}}"), NULL, 1 },
  { "another entrypoint for a stored bad job", "RayJob", V6E ("g", HOSTS (2), "4x4"), V6E ("g", HOSTS (2), "4x4"),
    ADD ("/entrypoint", "'python x.py'"), NULL, 0 },
  { "a stored bad job gets a group", "RayJob", V6E ("g", HOSTS (2), "4x4"), V6E ("g", HOSTS (2), "4x4") "," CPU ("c"),
    NULL, NULL, 1 },
  { "and one more problem", "RayJob", V6E ("g", HOSTS (2), "4x4"), V6E ("g", HOSTS (2), "4x4") "," CPU ("Bad_Name"),
    NULL, "Bad_Name", 1 },
  { "a job is given a bad cluster of its own", "RayJob", "", V6E ("g", HOSTS (2), "4x4"), NULL, "numOfHosts is 2", 0 },
};

static void
check_held (const struct held_case *c)
{
  cleanup_json cJSON *object = make_object (c->kind, c->groups, c->edits);
  cleanup_json cJSON *old = make_object (c->kind, c->old, NULL);
  cleanup_verdict struct admission_verdict v = ask (admission_validate_raycluster, c->kind, object, old);

  if (v.allowed != (c->says == NULL))
    fail_msg ("%s: %s%s", c->name, v.allowed ? "allowed" : "denied: ", v.message ? v.message : "");
  if (c->says != NULL && strstr (v.message, c->says) == NULL)
    fail_msg ("%s: \"%s\"", c->name, v.message);
  if (cJSON_GetArraySize (v.warnings) != c->warnings)
    fail_msg ("%s: warnings %s", c->name, json_print (v.warnings));
}

static void
a_cluster_inside_another_object_is_judged_like_any_other (void **state)
{
  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (held_cases); i++)
    check_held (&held_cases[i]);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (a_group_gets_the_hosts_of_its_topology_where_no_pod_can_be_touched),
    cmocka_unit_test (only_creates_and_updates_of_the_object_itself_are_defaulted),
    cmocka_unit_test (a_cluster_inside_another_object_is_judged_like_any_other),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
