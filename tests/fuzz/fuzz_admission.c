/* Whatever bytes arrive: admission_answer with the real handlers refuses them or answers a well-formed review, whose
 * patch applies to the object it is for and has nothing to add the second time. The first byte chooses the route,
 * strict mode, and whether the rest is a whole review or just its object. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <openssl/evp.h>

#include "admission/admission.h"

enum
{
  PODS = 1,
  STRICT = 2,
  OBJECT_ONLY = 4,
  UPDATE = 8,    /* with OBJECT_ONLY: the old object is one without a spec */
  DEFAULTS = 16, /* without PODS */
  IN_JOB = 32    /* with OBJECT_ONLY: a RayJob's */
};

int LLVMFuzzerInitialize (int *argc, char ***argv);
int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size);

int
LLVMFuzzerInitialize (int *argc, char ***argv)
{
  (void) argc, (void) argv;
  log_configure (LOG_ERROR, LOG_TEXT);
  return 0;
}

static void
insist (bool condition, const char *what)
{
  if (condition)
    return;
  fprintf (stderr, "broken promise: %s\n", what);
  abort ();
}

static void
wrap (struct buf *body, unsigned int mode, const char *object, size_t len)
{
  buf_str (body, "{\"apiVersion\":\"admission.k8s.io/v1\",\"kind\":\"AdmissionReview\",\"request\":{\"uid\":\"u\",");
  buf_str (body, mode & PODS     ? "\"kind\":{\"group\":\"\",\"kind\":\"Pod\"},"
                 : mode & IN_JOB ? "\"kind\":{\"group\":\"ray.io\",\"kind\":\"RayJob\"},"
                                 : "\"kind\":{\"group\":\"ray.io\",\"kind\":\"RayCluster\"},");
  buf_str (body, mode & UPDATE ? "\"operation\":\"UPDATE\",\"oldObject\":{\"metadata\":{\"name\":\"c\"}},"
                               : "\"operation\":\"CREATE\",");
  buf_str (body, "\"namespace\":\"ns\",\"object\":");
  buf_add (body, object, len);
  buf_str (body, "}}");
}

/* The decoded patch of an answer, NULL when it has none. */
static cJSON *
patch_of (const cJSON *answer)
{
  const char *encoded = json_str (answer, "response", "patch");
  cleanup_free char *text = NULL;
  cJSON *patch = NULL;
  struct error err;
  size_t len;

  if (encoded == NULL)
    return NULL;
  len = strlen (encoded);
  insist (len > 0 && len % 4 == 0, "the patch is padded base64");
  text = xcalloc (len + 4, 1);
  insist (EVP_DecodeBlock ((unsigned char *) text, (const unsigned char *) encoded, (int) len) > 0,
          "the patch decodes");
  insist (json_parse (&patch, text, strlen (text), &err) == 0, "the patch is JSON");
  return patch;
}

static void
check_patch (const struct admission_route *route, const cJSON *review, const cJSON *answer)
{
  cleanup_json cJSON *patch = patch_of (answer);
  cleanup_json cJSON *patched = NULL;
  cleanup_json cJSON *second = NULL;
  cleanup_free char *body = NULL;
  cleanup_free char *reply = NULL;
  struct error err;

  if (patch == NULL)
    return;
  patched = cJSON_Duplicate (review, true);
  insist (json_patch_apply (json_get (patched, "request", "object"), patch, &err) == 0, "the patch applies");
  body = json_print (patched);
  insist (admission_answer (route, false, body, strlen (body), &reply, &err) == 0,
          "a patched object is a review again");
  insist (json_parse (&second, reply, strlen (reply), &err) == 0, "the second answer is JSON");
  insist (json_str (second, "response", "patch") == NULL, "nothing to add the second time");
}

static void
check_answer (const struct admission_route *route, const char *body, size_t len, const char *reply)
{
  cleanup_json cJSON *review = NULL;
  cleanup_json cJSON *answer = NULL;
  struct error err;

  insist (json_parse (&review, body, len, &err) == 0, "what was answered is JSON");
  insist (json_parse (&answer, reply, strlen (reply), &err) == 0, "the answer is JSON");
  insist (text_eq (json_str (answer, "response", "uid"), json_str (review, "request", "uid")), "the uid is echoed");
  insist (cJSON_IsBool (json_get (answer, "response", "allowed")), "the verdict is there");
  insist (cJSON_GetArraySize (json_get (answer, "response", "warnings")) <= 16, "the warnings are bounded");
  check_patch (route, review, answer);
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  struct admission_policy policy = { .tpu = tpu_default_options, .ray = &ray_default_options };
  const struct admission_route routes[] = {
    { .path = "/validate", .name = "rayclusters", .fn = admission_validate_raycluster, .data = &policy },
    { .path = "/mutate", .name = "pods", .fn = admission_mutate_pod, .data = &policy },
    { .path = "/default", .name = "defaults", .fn = admission_default_raycluster, .data = &policy },
  };
  cleanup_buf struct buf body = { 0 };
  cleanup_free char *reply = NULL;
  const struct admission_route *route;
  struct error err = { "" };

  if (size == 0)
    return 0;
  route = &routes[data[0] & PODS ? 1 : data[0] & DEFAULTS ? 2 : 0];
  policy.tpu.strict = (data[0] & STRICT) != 0;
  if (data[0] & OBJECT_ONLY)
    wrap (&body, data[0], (const char *) data + 1, size - 1);
  else
    buf_add (&body, data + 1, size - 1);
  if (admission_answer (route, policy.tpu.strict, body.data, body.len, &reply, &err) < 0)
    insist (reply == NULL && err.message[0] != '\0', "a refusal has a reason and no reply");
  else
    check_answer (route, body.data, body.len, reply);
  return 0;
}
