/* What the API server is told about our webhooks, and the Secret that keeps their certificate. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "manager/manager_internal.h"

#define MANIFESTS TEST_FIXTURES "/../../deploy/operator.yaml" /* written from the chart; a test keeps them the same */

static const struct hook_target target = { .url = "https://h:1", .ca_base64 = "Q0E=" };

static cJSON *
parse (const char *text)
{
  cJSON *v = NULL;
  struct error err = { 0 };

  if (json_parse (&v, text, strlen (text), &err) < 0)
    fail_msg ("%s", err.message);
  return v;
}

/* The configuration of that kind in the manifests people apply. */
static cJSON *
read_manifest (enum hook_kind kind)
{
  cleanup_buf struct buf text = { 0 };
  cleanup_json cJSON *docs = NULL;
  struct error err = { 0 };

  if (text_read_file (MANIFESTS, 1 << 20, &text, &err) < 0 || yaml_parse (&docs, text.data, text.len, &err) < 0)
    fail_msg ("%s", err.message);
  return cJSON_Duplicate (json_find (docs, "kind", hook_kind_name (kind)), true);
}

static void
assert_same_webhook (const cJSON *ours, const cJSON *theirs)
{
  const cJSON *member;
  cleanup_free char *url
      = xasprintf ("%s%s", target.url, log_nonnull (json_str (theirs, "clientConfig", "service", "path")));

  assert_string_equal (json_str (ours, "clientConfig", "url"), url);
  assert_string_equal (json_str (ours, "clientConfig", "caBundle"), "Q0E=");
  cJSON_ArrayForEach (member, ours)
    {
      if (strcmp (member->string, "clientConfig") == 0 || strcmp (member->string, "namespaceSelector") == 0)
        continue; /* who calls whom differs, and so does which namespaces are our own */
      if (!json_equal (member, json_get (theirs, member->string)))
        fail_msg ("%s of %s differs from " MANIFESTS, member->string, json_str (ours, "name"));
    }
  assert_int_equal (cJSON_GetArraySize (ours), cJSON_GetArraySize (theirs));
}

static void
test_url_and_service_configurations_agree (void **state)
{
  int count = 0;

  (void) state;
  for (size_t kind = 0; kind < HOOK_KIND_MAX; kind++)
    {
      cleanup_json cJSON *manifest = read_manifest ((enum hook_kind) kind);
      cleanup_json cJSON *webhooks = hook_definition ((enum hook_kind) kind, &target);
      const cJSON *theirs = json_get (manifest, "webhooks"), *ours;
      int i = 0;

      assert_int_equal (cJSON_GetArraySize (webhooks), cJSON_GetArraySize (theirs));
      cJSON_ArrayForEach (ours, webhooks)
        {
          assert_same_webhook (ours, cJSON_GetArrayItem (theirs, i++));
          count++;
        }
    }
  assert_int_equal (count, ROUTE_MAX);
}

/* Only Pods have a reason to wait for us: what is wrong with a cluster is also said by the controller. */
static void
test_objects_of_ray_are_let_through_while_we_are_down (void **state)
{
  cleanup_json cJSON *resources = parse ("[\"rayclusters\",\"rayjobs\",\"rayservices\"]");
  int count = 0;

  (void) state;
  for (size_t kind = 0; kind < HOOK_KIND_MAX; kind++)
    {
      cleanup_json cJSON *webhooks = hook_definition ((enum hook_kind) kind, &target);
      const cJSON *webhook;

      cJSON_ArrayForEach (webhook, webhooks)
        {
          const cJSON *rule = json_get (webhook, "rules")->child;
          bool ray = text_eq (json_get (rule, "apiGroups")->child->valuestring, "ray.io");

          assert_string_equal (json_str (webhook, "failurePolicy"), ray ? "Ignore" : "Fail");
          assert_string_equal (json_str (webhook, "matchPolicy"), "Equivalent");
          assert_string_equal (json_str (webhook, "sideEffects"), ray ? "None" : "NoneOnDryRun");
          assert_true (!ray || json_equal (json_get (rule, "resources"), resources));
          count += ray;
        }
    }
  assert_int_equal (count, 2);
}

static void
test_namespaces (void **state)
{
  static const char *const watched[] = { "a", "b" };
  struct hook_target some = target;
  cleanup_json cJSON *all = hook_definition (HOOK_MUTATING, &target), *these = NULL;
  cleanup_json cJSON *system = parse ("[\"kube-system\",\"kube-node-lease\",\"kube-public\"]");
  cleanup_json cJSON *in
      = parse ("{\"key\":\"kubernetes.io/metadata.name\",\"operator\":\"In\",\"values\":[\"a\",\"b\"]}");
  const cJSON *expressions = json_get (all->child, "namespaceSelector", "matchExpressions");

  (void) state;
  assert_int_equal (cJSON_GetArraySize (expressions), 1);
  assert_true (json_equal (json_get (expressions->child, "values"), system));
  some.namespaces = watched;
  some.nnamespaces = 2;
  these = hook_definition (HOOK_MUTATING, &some);
  expressions = json_get (these->child, "namespaceSelector", "matchExpressions");
  assert_int_equal (cJSON_GetArraySize (expressions), 2);
  assert_true (json_equal (expressions->child->next, in));
}

static void
test_covers (void **state)
{
  static const struct
  {
    const char *name, *stored, *wanted;
    bool covers;
  } cases[] = {
    { "equal", "[{\"a\":1}]", "[{\"a\":1}]", true },
    { "the server's defaults may be added", "[{\"a\":1,\"objectSelector\":{}}]", "[{\"a\":1}]", true },
    { "also further down", "{\"a\":{\"b\":[],\"c\":2}}", "{\"a\":{\"c\":2}}", true },
    { "another value", "[{\"a\":1}]", "[{\"a\":2}]", false },
    { "a member is missing", "[{}]", "[{\"a\":1}]", false },
    { "a list is longer", "[1,2]", "[1]", false },
    { "a list is shorter", "[1]", "[1,2]", false },
    { "another order", "[1,2]", "[2,1]", false },
    { "another type", "{\"a\":\"1\"}", "{\"a\":1}", false },
    { "nothing is stored", "null", "[{\"a\":1}]", false },
  };

  (void) state;
  for (size_t i = 0; i < sizeof (cases) / sizeof (cases[0]); i++)
    {
      cleanup_json cJSON *stored = parse (cases[i].stored), *wanted = parse (cases[i].wanted);

      if (hook_covers (stored, wanted) != cases[i].covers)
        fail_msg ("%s", cases[i].name);
    }
}

#define ENTRY(name, service, namespace, ca)                                                                            \
  "{\"name\":\"" name "\",\"clientConfig\":{\"service\":{\"name\":\"" service "\",\"namespace\":\"" namespace "\"}" ca \
                                                                                                              "}}"

static void
test_ca_is_written_where_it_is_ours_and_other (void **state)
{
  cleanup_json cJSON *config = parse (
      "{\"webhooks\":[" ENTRY ("fresh", "svc", "ns", "") "," ENTRY ("other", "svc", "elsewhere", "") "," ENTRY (
          "right", "svc", "ns",
          ",\"caBundle\":\"TkVX\"") "," ENTRY ("stale", "svc", "ns",
                                               ",\"caBundle\":\"T0xE\"") ","
                                                                         "{\"name\":\"url\",\"clientConfig\":{\"url\":"
                                                                         "\"https://x\"}}]}");
  size_t ours;
  cleanup_json cJSON *patch = hook_ca_patch (config, "svc", "ns", "TkVX", &ours), *again = NULL;
  struct error err = { 0 };
  const cJSON *webhooks;

  (void) state;
  assert_int_equal (ours, 3);
  assert_int_equal (cJSON_GetArraySize (patch), 4); /* a test and an add for each of the two */
  assert_int_equal (json_patch_apply (config, patch, &err), 0);
  webhooks = json_get (config, "webhooks");
  assert_string_equal (json_str (json_find (webhooks, "name", "fresh"), "clientConfig", "caBundle"), "TkVX");
  assert_string_equal (json_str (json_find (webhooks, "name", "stale"), "clientConfig", "caBundle"), "TkVX");
  assert_null (json_str (json_find (webhooks, "name", "other"), "clientConfig", "caBundle"));
  assert_null (json_str (json_find (webhooks, "name", "url"), "clientConfig", "caBundle"));
  again = hook_ca_patch (config, "svc", "ns", "TkVX", &ours);
  assert_int_equal (ours, 3);
  assert_int_equal (cJSON_GetArraySize (again), 0);
}

/* Somebody took an entry away meanwhile: what now stands at its place must not get our CA. */
static void
test_ca_patch_of_an_outdated_list_fails (void **state)
{
  cleanup_json cJSON *seen = parse ("{\"webhooks\":[" ENTRY ("a", "x", "y", "") "," ENTRY ("b", "svc", "ns", "") "]}");
  cleanup_json cJSON *now = parse ("{\"webhooks\":[" ENTRY ("a", "x", "y", "") "," ENTRY ("c", "svc", "ns", "") "]}");
  size_t ours;
  cleanup_json cJSON *patch = hook_ca_patch (seen, "svc", "ns", "TkVX", &ours);
  struct error err = { 0 };

  (void) state;
  assert_int_equal (ours, 1);
  assert_true (json_patch_apply (now, patch, &err) < 0);
}

static void
test_secret_keeps_the_bundle (void **state)
{
  static const char *const names[] = { "localhost" };
  cleanup_bundle struct pki_bundle bundle = { 0 }, back = { 0 }, without = { 0 };
  cleanup_json cJSON *secret = parse ("{\"metadata\":{\"name\":\"s\"},\"data\":{\"mine\":\"eA==\"}}");
  struct error err = { 0 };
  bool changed;
  int64_t next;

  (void) state;
  assert_int_equal (
      pki_bundle_refresh (&bundle, names, 1, &pki_default_policy, clock_wall_ms (), &changed, &next, &err), 0);
  bundle.old_ca_pem = xstrdup (bundle.ca.cert_pem);
  secret_write_bundle (secret, &bundle);
  secret_read_bundle (&back, secret);
  assert_string_equal (back.ca.cert_pem, bundle.ca.cert_pem);
  assert_string_equal (back.ca.key_pem, bundle.ca.key_pem);
  assert_string_equal (back.old_ca_pem, bundle.old_ca_pem);
  assert_string_equal (back.serving.cert_pem, bundle.serving.cert_pem);
  assert_string_equal (back.serving.key_pem, bundle.serving.key_pem);
  assert_string_equal (json_str (secret, "data", "mine"), "eA==");

  free (take_ptr (bundle.old_ca_pem));
  secret_write_bundle (secret, &bundle);
  secret_read_bundle (&without, secret);
  assert_null (without.old_ca_pem);
  assert_non_null (without.ca.key_pem);
}

/* What is broken in the Secret counts as missing, and is then made anew. */
static void
test_broken_secret_is_mended (void **state)
{
  static const char *const names[] = { "localhost" };
  cleanup_bundle struct pki_bundle bundle = { 0 };
  cleanup_json cJSON *secret = parse ("{\"data\":{\"ca.crt\":\"%%%\",\"ca.key\":\"\",\"tls.crt\":\"Z2FyYmFnZQ==\","
                                      "\"tls.key\":7}}");
  struct error err = { 0 };
  bool changed;
  int64_t next;

  (void) state;
  secret_read_bundle (&bundle, secret);
  assert_null (bundle.ca.cert_pem);
  assert_null (bundle.serving.key_pem);
  assert_string_equal (bundle.serving.cert_pem, "garbage");
  assert_int_equal (
      pki_bundle_refresh (&bundle, names, 1, &pki_default_policy, clock_wall_ms (), &changed, &next, &err), 0);
  assert_true (changed);
  assert_int_equal (pki_check_pair (&bundle.serving, &err), 0);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_url_and_service_configurations_agree),
    cmocka_unit_test (test_objects_of_ray_are_let_through_while_we_are_down),
    cmocka_unit_test (test_namespaces),
    cmocka_unit_test (test_covers),
    cmocka_unit_test (test_ca_is_written_where_it_is_ours_and_other),
    cmocka_unit_test (test_ca_patch_of_an_outdated_list_fails),
    cmocka_unit_test (test_secret_keeps_the_bundle),
    cmocka_unit_test (test_broken_secret_is_mended),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
