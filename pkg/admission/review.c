/* review.c - AdmissionReview v1: reads the request, asks the route's handler, writes the response. */
#include "admission/admission_internal.h"

#include <errno.h>
#include <string.h>

#include <openssl/evp.h>

#define API_VERSION "admission.k8s.io/v1"

/* The API server passes on 4096 characters of warnings as they are, and cuts each at 256 when there are more
 * (apiserver's pkg/endpoints/filters/warning.go); cutting them here ends them in "..." instead of in the middle of a
 * word. */
#define WARNINGS_BYTES 4096
#define WARNING_MAX 256
#define WARNINGS_MAX 16

static const struct
{
  int code;
  const char *reason; /* metav1.StatusReason */
} reasons[] = { { 403, "Forbidden" }, { 422, "Invalid" }, { 500, "InternalError" }, { 503, "ServiceUnavailable" } };

void
admission_verdict_free (struct admission_verdict *verdict)
{
  free (verdict->message);
  cJSON_Delete (verdict->patch);
  cJSON_Delete (verdict->warnings);
  *verdict = (struct admission_verdict){ 0 };
}

void
admission_warn (struct admission_verdict *verdict, const char *text)
{
  verdict->allowed = true;
  if (verdict->warnings == NULL)
    verdict->warnings = cJSON_CreateArray ();
  json_push_str (verdict->warnings, text);
}

void
admission_deny (struct admission_verdict *verdict, int code, const char *message)
{
  verdict->allowed = false;
  verdict->code = code;
  free (verdict->message);
  verdict->message = xstrdup (message);
}

const char *
admission_object_name (const struct admission_request *request)
{
  const char *name = json_str (request->object, "metadata", "name");

  if (name == NULL || name[0] == '\0')
    name = json_str (request->object, "metadata", "generateName");
  return name ? name : request->name;
}

const struct ray_holder *
admission_holder (const struct admission_request *request)
{
  static const char *const operations[] = { "CREATE", "UPDATE" };

  if (!text_eq (request->group, "ray.io") || request->subresource[0] != '\0'
      || text_index (request->operation, operations, ARRAY_LEN (operations)) < 0)
    return NULL;
  return ray_holder_find (request->kind);
}

/* ---- reading ---- */

static const char *
text_or_empty (const cJSON *request, const char *key)
{
  return log_nonnull (json_str (request, key));
}

/* An object, or NULL for absent and null; anything else is malformed. */
static int
read_object (const cJSON **out, const cJSON *request, const char *key, struct error *err)
{
  const cJSON *value = json_get (request, key);

  *out = cJSON_IsObject (value) ? value : NULL;
  if (value == NULL || cJSON_IsNull (value) || cJSON_IsObject (value))
    return 0;
  return error_set (err, EINVAL, "request.%s is of type %s; it must be an object or null", key, json_type_name (value));
}

static int
check_envelope (const cJSON *review, struct error *err)
{
  const char *version = json_str (review, "apiVersion"), *kind = json_str (review, "kind");

  if (!text_eq (kind, "AdmissionReview"))
    return error_set (err, EINVAL, "kind is \"%s\"; only AdmissionReview is accepted", log_nonnull (kind));
  if (!text_eq (version, API_VERSION))
    return error_set (err, EINVAL,
                      "apiVersion is \"%s\"; only " API_VERSION " is accepted (admissionReviewVersions: [v1])",
                      log_nonnull (version));
  if (!cJSON_IsObject (json_get (review, "request")))
    return error_set (err, EINVAL, "the AdmissionReview has no request object");
  return 0;
}

static int
read_request (struct admission_request *out, const cJSON *review, struct error *err)
{
  const cJSON *request, *kind;
  int ret = check_envelope (review, err);

  if (ret < 0)
    return ret;
  request = json_get (review, "request");
  kind = json_get (request, "kind");
  *out = (struct admission_request){
    .uid = text_or_empty (request, "uid"),
    .group = text_or_empty (kind, "group"),
    .kind = text_or_empty (kind, "kind"),
    .subresource = text_or_empty (request, "subResource"),
    .operation = text_or_empty (request, "operation"),
    .namespace = text_or_empty (request, "namespace"),
    .name = text_or_empty (request, "name"),
    .dry_run = json_bool (request, false, "dryRun"),
  };
  if (out->uid[0] == '\0')
    return error_set (err, EINVAL, "request.uid is missing; the answer could not be matched to its question");
  ret = read_object (&out->object, request, "object", err);
  return ret < 0 ? ret : read_object (&out->old_object, request, "oldObject", err);
}

/* ---- writing ---- */

/* Bytes of text that fit into max without splitting a UTF-8 sequence. */
static size_t
fitting (const char *text, size_t max)
{
  size_t len = strnlen (text, max + 1);

  if (len <= max)
    return len;
  for (len = max; len > 0 && ((unsigned char) text[len] & 0xc0) == 0x80; len--)
    ;
  return len;
}

static size_t
total_length (const cJSON *warnings)
{
  const cJSON *item;
  size_t total = 0;

  cJSON_ArrayForEach (item, warnings)
    total += strlen (log_nonnull (cJSON_GetStringValue (item)));
  return total;
}

static void
write_warning (struct buf *out, const char *text, bool whole)
{
  char cut[WARNING_MAX + 1];
  size_t len = fitting (text, WARNING_MAX);

  if (whole || text[len] == '\0')
    {
      text_quote_json (out, text);
      return;
    }
  len = fitting (text, WARNING_MAX - 3);
  memcpy (cut, text, len);
  strcpy (cut + len, "...");
  text_quote_json (out, cut);
}

static void
write_warnings (struct buf *out, const cJSON *warnings)
{
  int total = cJSON_GetArraySize (warnings), i = 0;
  int shown = total > WARNINGS_MAX ? WARNINGS_MAX - 1 : total; /* the last one tells of those left out */
  bool whole = total_length (warnings) <= WARNINGS_BYTES;
  const cJSON *item;

  if (total == 0)
    return;
  buf_str (out, ",\"warnings\":[");
  cJSON_ArrayForEach (item, warnings)
    {
      if (i == shown)
        break;
      if (i++ > 0)
        buf_char (out, ',');
      write_warning (out, log_nonnull (cJSON_GetStringValue (item)), whole);
    }
  if (total > shown)
    buf_printf (out, ",\"and %d more warnings\"", total - shown);
  buf_char (out, ']');
}

static void
write_patch (struct buf *out, const cJSON *patch)
{
  cleanup_free char *text = NULL;
  cleanup_free unsigned char *encoded = NULL;
  size_t len;

  if (cJSON_GetArraySize (patch) == 0)
    return;
  text = json_print (patch);
  len = strlen (text);
  encoded = xmalloc (4 * ((len + 2) / 3) + 1);
  len = (size_t) EVP_EncodeBlock (encoded, (const unsigned char *) text, (int) len);
  buf_str (out, ",\"patchType\":\"JSONPatch\",\"patch\":\"");
  buf_add (out, encoded, len);
  buf_char (out, '"');
}

static void
write_status (struct buf *out, const struct admission_verdict *verdict)
{
  int code = verdict->code != 0 ? verdict->code : 403;

  buf_printf (out, ",\"status\":{\"status\":\"Failure\",\"code\":%d", code);
  for (size_t i = 0; i < ARRAY_LEN (reasons); i++)
    if (reasons[i].code == code)
      buf_printf (out, ",\"reason\":\"%s\"", reasons[i].reason);
  buf_str (out, ",\"message\":");
  text_quote_json (out, log_nonnull (verdict->message));
  buf_char (out, '}');
}

static char *
write_reply (const char *uid, const struct admission_verdict *verdict)
{
  struct buf out = { 0 };

  buf_str (&out, "{\"apiVersion\":\"" API_VERSION "\",\"kind\":\"AdmissionReview\",\"response\":{\"uid\":");
  text_quote_json (&out, uid);
  buf_printf (&out, ",\"allowed\":%s", verdict->allowed ? "true" : "false");
  if (verdict->allowed)
    write_patch (&out, verdict->patch);
  else
    write_status (&out, verdict);
  write_warnings (&out, verdict->warnings);
  buf_str (&out, "}}");
  return buf_take (&out);
}

/* ---- the whole ---- */

static enum admission_outcome
fail (struct admission_verdict *verdict, const struct admission_route *route, const struct admission_request *request,
      bool strict, const struct error *err)
{
  cleanup_free char *text = NULL;

  log_error ("admission failed", LF_STR ("route", route->name), LF_STR ("namespace", request->namespace),
             LF_STR ("name", request->name), LF_STR ("error", err->message));
  admission_verdict_free (verdict); /* whatever the handler had begun */
  text = xasprintf ("ray-tpu-operator could not examine this %s%s: %s", request->kind,
                    strict ? "" : " and admits it unchanged", err->message);
  if (strict)
    admission_deny (verdict, 500, text);
  else
    admission_warn (verdict, text);
  return ADMISSION_FAILED;
}

/* Half of a text must not be examined for the whole. Ray's objects are refused for it when they are created; a Pod that
 * is wrong only in strict mode (facts/tpu_injection.md §8.2 rule 15), and what is stored can always be edited. */
static enum admission_outcome
refuse_nul (struct admission_verdict *verdict, const struct admission_route *route,
            const struct admission_request *request, bool strict, const char *field)
{
  cleanup_free char *text = xasprintf ("%s holds the character NUL (\\u0000), which ends texts: remove it", field);
  bool deny = strict || (text_eq (request->group, "ray.io") && !text_eq (request->operation, "UPDATE"));

  log_warn (deny ? "denied: NUL in a text" : "admitted unexamined: NUL in a text", LF_STR ("route", route->name),
            LF_STR ("namespace", request->namespace), LF_STR ("name", request->name), LF_STR ("field", field));
  if (deny)
    admission_deny (verdict, 422, text);
  else
    admission_warn (verdict, text);
  return deny ? ADMISSION_DENIED : ADMISSION_ALLOWED;
}

static enum admission_outcome
decide (struct admission_verdict *verdict, const struct admission_route *route, const struct admission_request *request,
        bool strict, const char *nul)
{
  struct error err = { "" };

  if (request->object == NULL)
    verdict->allowed = true;
  else if (nul != NULL)
    return refuse_nul (verdict, route, request, strict, nul);
  else if (route->fn (route->data, request, verdict, &err) < 0)
    return fail (verdict, route, request, strict, &err);
  return verdict->allowed ? ADMISSION_ALLOWED : ADMISSION_DENIED;
}

int
admission_review (const struct admission_route *route, bool strict, const char *body, size_t len, char **reply,
                  enum admission_outcome *outcome, struct error *err)
{
  cleanup_scratch struct json_scratch scratch = json_scratch_begin (); /* first, so that it ends last */
  cleanup_json cJSON *review = NULL;
  cleanup_verdict struct admission_verdict verdict = { 0 };
  cleanup_free char *nul = NULL;
  struct admission_request request = { .uid = "" };
  int ret = json_parse (&review, body, len, err);

  *reply = NULL;
  *outcome = ADMISSION_MALFORMED;
  if (ret == 0)
    ret = read_request (&request, review, err);
  if (ret < 0)
    {
      error_wrap (err, ret, "the body is no AdmissionReview");
      return -EINVAL;
    }
  if (json_has_nul (body, len))
    nul = json_nul_path (body, len, "request", "object");
  *outcome = decide (&verdict, route, &request, strict, nul);
  *reply = write_reply (request.uid, &verdict);
  return 0;
}

int
admission_answer (const struct admission_route *route, bool strict, const char *body, size_t len, char **reply,
                  struct error *err)
{
  enum admission_outcome outcome;

  return admission_review (route, strict, body, len, reply, &outcome, err);
}
