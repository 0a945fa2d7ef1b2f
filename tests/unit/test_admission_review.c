/* AdmissionReview v1: what is accepted, what is asked of the handler, what the API server is told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>

#include <openssl/evp.h>

#include "admission/admission.h"

struct script
{
  struct admission_verdict verdict; /* handed out, pointers copied */
  int ret;
  const char *error;
  int calls;
  char kind[64], operation[64], name[64];
  bool dry_run, had_old;
};

static int
scripted (void *data, const struct admission_request *request, struct admission_verdict *verdict, struct error *err)
{
  struct script *s = data;

  s->calls++;
  snprintf (s->kind, sizeof (s->kind), "%s/%s", request->group, request->kind);
  snprintf (s->operation, sizeof (s->operation), "%s", request->operation);
  snprintf (s->name, sizeof (s->name), "%s/%s", request->namespace, request->name);
  s->dry_run = request->dry_run;
  s->had_old = request->old_object != NULL;
  verdict->allowed = s->verdict.allowed;
  verdict->code = s->verdict.code;
  verdict->message = s->verdict.message ? xstrdup (s->verdict.message) : NULL;
  verdict->patch = s->verdict.patch ? cJSON_Duplicate (s->verdict.patch, true) : NULL;
  verdict->warnings = s->verdict.warnings ? cJSON_Duplicate (s->verdict.warnings, true) : NULL;
  return s->ret < 0 ? error_set (err, -s->ret, "%s", s->error) : 0;
}

#define REVIEW(request) "{\"apiVersion\":\"admission.k8s.io/v1\",\"kind\":\"AdmissionReview\",\"request\":" request "}"
#define POD_REQUEST                                                                                                    \
  "{\"uid\":\"u-1\",\"kind\":{\"group\":\"\",\"version\":\"v1\",\"kind\":\"Pod\"},\"operation\":\"CREATE\","           \
  "\"namespace\":\"ml\",\"name\":\"p\",\"object\":{\"metadata\":{\"name\":\"p\"}}}"

/* The response object of the answer to `body`. */
static cJSON *
ask (struct script *s, bool strict, const char *body)
{
  const struct admission_route route = { .path = "/t", .name = "test", .fn = scripted, .data = s };
  cleanup_free char *reply = NULL;
  cleanup_json cJSON *review = NULL;
  struct error err = { "" };

  if (admission_answer (&route, strict, body, strlen (body), &reply, &err) < 0)
    fail_msg ("%s", err.message);
  assert_int_equal (json_parse (&review, reply, strlen (reply), &err), 0);
  assert_string_equal (json_str (review, "apiVersion"), "admission.k8s.io/v1");
  assert_string_equal (json_str (review, "kind"), "AdmissionReview");
  return cJSON_DetachItemFromObjectCaseSensitive (review, "response");
}

static void
what_is_no_review_is_refused_with_a_reason (void **state)
{
  static const struct
  {
    const char *body, *reason;
  } cases[] = {
    { "", "no JSON" },
    { "{", "no JSON" },
    { "[]", "only AdmissionReview" },
    { "null", "only AdmissionReview" },
    { "\"text\"", "only AdmissionReview" },
    { "{}", "only AdmissionReview" },
    { "{\"apiVersion\":\"admission.k8s.io/v1beta1\",\"kind\":\"AdmissionReview\",\"request\":{}}",
      "\"admission.k8s.io/v1beta1\"; only admission.k8s.io/v1 is accepted" },
    { "{\"apiVersion\":\"v1\",\"kind\":\"Pod\"}", "kind is \"Pod\"" },
    { "{\"apiVersion\":1,\"kind\":\"AdmissionReview\",\"request\":{}}", "apiVersion" },
    { REVIEW ("null"), "no request" },
    { REVIEW ("[]"), "no request" },
    { REVIEW ("{}"), "request.uid" },
    { REVIEW ("{\"uid\":\"\"}"), "request.uid" },
    { REVIEW ("{\"uid\":7}"), "request.uid" },
    { REVIEW ("{\"uid\":\"u\",\"object\":[]}"), "request.object is of type array" },
    { REVIEW ("{\"uid\":\"u\",\"oldObject\":\"x\"}"), "request.oldObject is of type string" },
    { REVIEW (POD_REQUEST) "x", "follows" },
  };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (cases); i++)
    {
      struct script s = { .verdict = { .allowed = true } };
      const struct admission_route route = { .path = "/t", .name = "test", .fn = scripted, .data = &s };
      char *reply = (char *) "untouched";
      struct error err = { "" };

      if (admission_answer (&route, false, cases[i].body, strlen (cases[i].body), &reply, &err) != -EINVAL)
        fail_msg ("\"%s\" was accepted", cases[i].body);
      assert_null (reply);
      assert_int_equal (s.calls, 0);
      if (strstr (err.message, cases[i].reason) == NULL)
        fail_msg ("\"%s\": \"%s\" does not say \"%s\"", cases[i].body, err.message, cases[i].reason);
    }
}

static void
the_handler_sees_the_request (void **state)
{
  struct script s = { .verdict = { .allowed = true } };
  cleanup_json cJSON *response
      = ask (&s, false,
             REVIEW ("{\"uid\":\"u-2\",\"kind\":{\"group\":\"ray.io\",\"version\":\"v1\",\"kind\":\"RayCluster\"},"
                     "\"operation\":\"UPDATE\",\"namespace\":\"ml\",\"name\":\"c\",\"dryRun\":true,\"object\":{},"
                     "\"oldObject\":{}}"));

  (void) state;
  assert_int_equal (s.calls, 1);
  assert_string_equal (s.kind, "ray.io/RayCluster");
  assert_string_equal (s.operation, "UPDATE");
  assert_string_equal (s.name, "ml/c");
  assert_true (s.dry_run);
  assert_true (s.had_old);
  assert_string_equal (json_str (response, "uid"), "u-2");
  assert_true (json_bool (response, false, "allowed"));
}

static void
a_bare_allowance_says_nothing_more (void **state)
{
  struct script s = { .verdict = { .allowed = true, .patch = cJSON_CreateArray (), .warnings = cJSON_CreateArray () } };
  cleanup_json cJSON *response = ask (&s, false, REVIEW (POD_REQUEST));

  (void) state;
  assert_int_equal (cJSON_GetArraySize (response), 2); /* uid, allowed */
  cJSON_Delete (s.verdict.patch);
  cJSON_Delete (s.verdict.warnings);
}

static void
without_an_object_everything_is_allowed (void **state)
{
  static const char *const bodies[] = {
    REVIEW ("{\"uid\":\"u\",\"operation\":\"DELETE\",\"object\":null,\"oldObject\":{}}"),
    REVIEW ("{\"uid\":\"u\",\"operation\":\"CONNECT\"}"),
  };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (bodies); i++)
    {
      struct script s = { .ret = -EIO, .error = "must not be asked" };
      cleanup_json cJSON *response = ask (&s, true, bodies[i]);

      assert_int_equal (s.calls, 0);
      assert_true (json_bool (response, false, "allowed"));
    }
}

static void
a_patch_travels_as_base64 (void **state)
{
  /* lengths 0, 1 and 2 modulo 3 */
  static const char *const values[] = { "a", "ab", "abc" };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (values); i++)
    {
      cleanup_json cJSON *patch = cJSON_CreateArray ();
      struct script s = { .verdict = { .allowed = true, .patch = patch } };
      cleanup_json cJSON *response = NULL;
      cleanup_json cJSON *decoded = NULL;
      unsigned char text[512] = "";
      const char *encoded;
      struct error err;

      json_patch_op (patch, "add", cJSON_CreateString (values[i]), "metadata", "name");
      response = ask (&s, false, REVIEW (POD_REQUEST));
      assert_string_equal (json_str (response, "patchType"), "JSONPatch");
      encoded = json_str (response, "patch");
      assert_true (EVP_DecodeBlock (text, (const unsigned char *) encoded, (int) strlen (encoded)) > 0);
      assert_int_equal (json_parse (&decoded, (const char *) text, strlen ((const char *) text), &err), 0);
      assert_true (json_equal (decoded, patch));
    }
}

static void
a_denial_carries_code_reason_and_message_and_no_patch (void **state)
{
  static const struct
  {
    int code, told;
    const char *reason;
  } cases[] = { { 0, 403, "Forbidden" }, { 403, 403, "Forbidden" }, { 422, 422, "Invalid" } };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (cases); i++)
    {
      cleanup_json cJSON *patch = cJSON_CreateArray ();
      struct script s = { .verdict = { .allowed = false, .code = cases[i].code, .patch = patch } };
      cleanup_json cJSON *response = NULL;

      s.verdict.message = (char *) (uintptr_t) "numOfHosts is \"2\"\nbut";
      json_patch_op (patch, "remove", NULL, "spec");
      response = ask (&s, false, REVIEW (POD_REQUEST));
      assert_false (json_bool (response, true, "allowed"));
      assert_int_equal (json_int (response, -1, "status", "code"), cases[i].told);
      assert_string_equal (json_str (response, "status", "reason"), cases[i].reason);
      assert_string_equal (json_str (response, "status", "status"), "Failure");
      assert_string_equal (json_str (response, "status", "message"), "numOfHosts is \"2\"\nbut");
      assert_null (json_get (response, "patch"));
      assert_null (json_get (response, "patchType"));
    }
}

static void
an_internal_failure_is_answered (void **state)
{
  static const struct
  {
    bool strict;
  } cases[] = { { false }, { true } };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (cases); i++)
    {
      cleanup_json cJSON *warnings = cJSON_CreateArray ();
      struct script s
          = { .verdict = { .allowed = true, .warnings = warnings }, .ret = -EIO, .error = "the disk is gone" };
      cleanup_json cJSON *response = NULL;

      json_push_str (warnings, "half done");
      response = ask (&s, cases[i].strict, REVIEW (POD_REQUEST));
      assert_string_equal (json_str (response, "uid"), "u-1");
      assert_int_equal (json_bool (response, false, "allowed"), !cases[i].strict);
      if (cases[i].strict)
        {
          assert_int_equal (json_int (response, 0, "status", "code"), 500);
          assert_non_null (strstr (json_str (response, "status", "message"), "the disk is gone"));
          assert_null (json_get (response, "warnings"));
          continue;
        }
      assert_int_equal (cJSON_GetArraySize (json_get (response, "warnings")), 1);
      assert_non_null (strstr (json_get (response, "warnings")->child->valuestring, "the disk is gone"));
    }
}

/* Three warnings and a filler that brings them, all together, to `total` bytes. */
static cJSON *
told_of (size_t total, size_t sizes[4])
{
  cJSON *warnings = cJSON_CreateArray ();
  struct script s = { .verdict = { .allowed = true, .warnings = warnings } };
  cJSON *response, *told;
  char exact[257], longer[400], accented[400];
  cleanup_free char *filler = xcalloc (1, total);

  memset (exact, 'x', 256);
  exact[256] = '\0';
  memset (longer, 'y', sizeof (longer) - 1);
  longer[sizeof (longer) - 1] = '\0';
  for (size_t i = 0; i < sizeof (accented) - 1; i += 3)
    memcpy (accented + i, "\xe2\x82\xac", 3);
  accented[399] = '\0';
  memset (filler, 'z', total - 256 - 399 - 399);
  json_push_str (warnings, exact);
  json_push_str (warnings, longer);
  json_push_str (warnings, accented);
  json_push_str (warnings, filler);
  response = ask (&s, false, REVIEW (POD_REQUEST));
  cJSON_Delete (warnings);
  told = json_get (response, "warnings");
  assert_int_equal (cJSON_GetArraySize (told), 4);
  for (int i = 0; i < 4; i++)
    sizes[i] = strlen (cJSON_GetArrayItem (told, i)->valuestring);
  return response;
}

static void
warnings_are_cut_to_what_the_api_server_passes_on (void **state)
{
  size_t whole[4], cut[4];
  cleanup_json cJSON *all = told_of (4096, whole), *less = told_of (4097, cut);
  const cJSON *told = json_get (less, "warnings");

  (void) state;
  assert_int_equal (cJSON_GetArraySize (json_get (all, "warnings")), 4);
  assert_int_equal (whole[1], 399);
  assert_int_equal (whole[3], 4096 - 256 - 399 - 399);
  assert_int_equal (cut[0], 256);
  assert_int_equal (cut[1], 256);
  assert_true (text_ends_with (cJSON_GetArrayItem (told, 1)->valuestring, "yyy..."));
  assert_int_equal (cut[2], 84 * 3 + 3); /* no half character */
  assert_int_equal (cut[3], 256);
}

static void
too_many_warnings_are_counted (void **state)
{
  static const struct
  {
    int given, told;
    const char *last;
  } cases[] = { { 16, 16, "w" }, { 17, 16, "and 2 more warnings" }, { 100, 16, "and 85 more warnings" } };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (cases); i++)
    {
      cleanup_json cJSON *warnings = cJSON_CreateArray ();
      struct script s = { .verdict = { .allowed = true, .warnings = warnings } };
      cleanup_json cJSON *response = NULL;

      for (int n = 0; n < cases[i].given; n++)
        json_push_str (warnings, "w");
      response = ask (&s, false, REVIEW (POD_REQUEST));
      assert_int_equal (cJSON_GetArraySize (json_get (response, "warnings")), cases[i].told);
      assert_string_equal (cJSON_GetArrayItem (json_get (response, "warnings"), cases[i].told - 1)->valuestring,
                           cases[i].last);
    }
}

#define ANY_REQUEST(group, kind, operation, object, old)                                                               \
  "{\"uid\":\"u\",\"kind\":{\"group\":\"" group "\",\"kind\":\"" kind "\"},\"operation\":\"" operation                 \
  "\",\"object\":" object ",\"oldObject\":" old "}"
#define NUL_SPEC "{\"spec\":{\"a\":[{\"x.io/b\":\"1\"},{\"x.io/b\":\"v\\u0000w\"}]}}"

static void
half_a_text_is_not_examined (void **state)
{
  static const struct
  {
    const char *name, *body;
    bool strict, asked, allowed;
  } cases[] = {
    { "a Pod", REVIEW (ANY_REQUEST ("", "Pod", "CREATE", NUL_SPEC, "null")), false, false, true },
    { "a Pod, strict", REVIEW (ANY_REQUEST ("", "Pod", "CREATE", NUL_SPEC, "null")), true, false, false },
    { "a RayCluster", REVIEW (ANY_REQUEST ("ray.io", "RayCluster", "CREATE", NUL_SPEC, "null")), false, false, false },
    { "a stored one", REVIEW (ANY_REQUEST ("ray.io", "RayCluster", "UPDATE", NUL_SPEC, NUL_SPEC)), false, false, true },
    { "one that is mended", REVIEW (ANY_REQUEST ("ray.io", "RayCluster", "UPDATE", "{}", NUL_SPEC)), false, true,
      true },
    { "a backslash", REVIEW (ANY_REQUEST ("", "Pod", "CREATE", "{\"a\":\"\\\\u0000\"}", "null")), true, true, true },
  };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (cases); i++)
    {
      struct script s = { .verdict = { .allowed = true } };
      cleanup_json cJSON *response = ask (&s, cases[i].strict, cases[i].body);
      const cJSON *warnings = json_get (response, "warnings");
      const char *told = warnings != NULL ? warnings->child->valuestring : json_str (response, "status", "message");

      if (s.calls != cases[i].asked || json_bool (response, false, "allowed") != cases[i].allowed)
        fail_msg ("%s: asked %d times, %s", cases[i].name, s.calls, json_print (response));
      if (!cases[i].asked && !text_starts_with (log_nonnull (told), "spec.a[1][\"x.io/b\"] holds the character NUL"))
        fail_msg ("%s: told \"%s\"", cases[i].name, log_nonnull (told));
    }
}

static void
deep_nesting_is_bounded (void **state)
{
  cleanup_buf struct buf body = { 0 };
  struct script s = { .verdict = { .allowed = true } };
  const struct admission_route route = { .path = "/t", .name = "test", .fn = scripted, .data = &s };
  char *reply;
  struct error err;

  (void) state;
  for (int i = 0; i < 1000000; i++)
    buf_char (&body, '[');
  assert_int_equal (admission_answer (&route, false, body.data, body.len, &reply, &err), -EINVAL);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (what_is_no_review_is_refused_with_a_reason),
    cmocka_unit_test (the_handler_sees_the_request),
    cmocka_unit_test (a_bare_allowance_says_nothing_more),
    cmocka_unit_test (without_an_object_everything_is_allowed),
    cmocka_unit_test (a_patch_travels_as_base64),
    cmocka_unit_test (a_denial_carries_code_reason_and_message_and_no_patch),
    cmocka_unit_test (an_internal_failure_is_answered),
    cmocka_unit_test (warnings_are_cut_to_what_the_api_server_passes_on),
    cmocka_unit_test (too_many_warnings_are_counted),
    cmocka_unit_test (half_a_text_is_not_examined),
    cmocka_unit_test (deep_nesting_is_bounded),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
