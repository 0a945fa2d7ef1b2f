/* mutate.c - Pods: what tpu_inject wants a TPU pod to be told becomes the review's patch. */
#include "admission/admission_internal.h"

#include <errno.h>
#include <string.h>

/* Environment entries a patch adds: one per ".../env/-", all of a new ".../env" array. */
static int
added_env (const cJSON *patch)
{
  const cJSON *op;
  int count = 0;

  cJSON_ArrayForEach (op, patch)
    {
      const char *path = log_nonnull (json_str (op, "path"));

      if (text_ends_with (path, "/env"))
        count += cJSON_GetArraySize (json_get (op, "value"));
      else if (strstr (path, "/env/") != NULL)
        count++;
    }
  return count;
}

static void
log_injection (const struct admission_request *request, const struct tpu_injection *injection)
{
  const char *pod = admission_object_name (request);
  const cJSON *warning;

  if (cJSON_GetArraySize (injection->patch) > 0)
    log_info ("injected pod", LF_STR ("namespace", request->namespace), LF_STR ("pod", pod),
              LF_STR ("owner", tpu_owner_name (injection->owner)), LF_STR ("slice", injection->slice),
              LF_INT ("worker_id", injection->worker_id), LF_INT ("hosts", injection->hosts),
              LF_INT ("env", added_env (injection->patch)), LF_INT ("dry_run", request->dry_run));
  cJSON_ArrayForEach (warning, injection->warnings)
    log_warn ("pod warning", LF_STR ("namespace", request->namespace), LF_STR ("pod", pod),
              LF_STR ("warning", cJSON_GetStringValue (warning)));
}

/* The pod itself is wrong. Refusing it would also refuse pods that run today, so only strict mode does
 * (facts/tpu_injection.md §8.2 rule 15). */
static int
invalid_pod (const struct admission_request *request, struct admission_verdict *verdict, bool strict,
             const struct error *why)
{
  log_warn (strict ? "denied pod" : "invalid TPU pod admitted unchanged", LF_STR ("namespace", request->namespace),
            LF_STR ("pod", admission_object_name (request)), LF_STR ("reason", why->message));
  if (strict)
    admission_deny (verdict, 422, why->message);
  else
    admission_warn (verdict, why->message);
  return 0;
}

int
admission_mutate_pod (void *data, const struct admission_request *request, struct admission_verdict *verdict,
                      struct error *err)
{
  const struct admission_policy *policy = data;
  cleanup_injection struct tpu_injection injection = { 0 };
  struct error why = { "" };
  int ret;

  verdict->allowed = true;
  if (request->group[0] != '\0' || request->subresource[0] != '\0' || !text_eq (request->kind, "Pod")
      || !text_eq (request->operation, "CREATE"))
    return 0;
  ret = tpu_inject (&injection, request->object, &policy->tpu, &why);
  if (ret == -EINVAL)
    return invalid_pod (request, verdict, policy->tpu.strict, &why);
  if (ret < 0)
    return error_set (err, -ret, "%s", why.message);
  log_injection (request, &injection);
  verdict->patch = take_ptr (injection.patch);
  verdict->warnings = take_ptr (injection.warnings);
  return 0;
}
