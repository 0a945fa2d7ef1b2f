/* mutate.c - Pods: what tpu_inject wants a TPU pod to be told becomes the review's patch. */
#include "admission/admission_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "admission/allocate.h"

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

/* What depends on a place in a slice is left out where there is none. */
static void
log_injection (const struct admission_request *request, const struct tpu_injection *injection)
{
  const struct log_field where = LF_STR ("namespace", request->namespace),
                         pod = LF_STR ("pod", admission_object_name (request)),
                         owner = LF_STR ("owner", tpu_owner_name (injection->owner)),
                         env = LF_INT ("env", added_env (injection->patch)),
                         dry_run = LF_INT ("dry_run", request->dry_run);
  const cJSON *warning;

  if (cJSON_GetArraySize (injection->patch) > 0 && injection->worker_id < 0)
    log_info ("injected pod", where, pod, owner, env, dry_run);
  else if (cJSON_GetArraySize (injection->patch) > 0)
    log_info ("injected pod", where, pod, owner, LF_STR ("slice", injection->slice),
              LF_INT ("worker_id", injection->worker_id), LF_INT ("hosts", injection->hosts), env, dry_run);
  cJSON_ArrayForEach (warning, injection->warnings)
    log_warn ("pod warning", where, pod, LF_STR ("warning", cJSON_GetStringValue (warning)));
}

/* The pod itself is wrong. Refusing it would also refuse pods that run today, so only strict mode does
 * (facts/tpu_injection.md §8.2 rule 15); `lenient` is what the log says otherwise. */
static int
object_to (const struct admission_request *request, struct admission_verdict *verdict, bool strict, const char *lenient,
           const struct error *why)
{
  log_warn (strict ? "denied pod" : lenient, LF_STR ("namespace", request->namespace),
            LF_STR ("pod", admission_object_name (request)), LF_STR ("reason", why->message));
  if (strict)
    admission_deny (verdict, 422, why->message);
  else
    admission_warn (verdict, why->message);
  return 0;
}

/* ---- pods that need a place ---- */

static void
annotate (cJSON *patch, const cJSON *pod, const char *key, int64_t value)
{
  char text[24];

  snprintf (text, sizeof (text), "%" PRId64, value);
  if (!text_eq (json_str (pod, "metadata", "annotations", key), text))
    json_patch_op (patch, "add", cJSON_CreateString (text), "metadata", "annotations", key);
}

/* The annotations that tell a pod's place to tpu_inject, and its place and reservation to whoever looks for free places
 * later. */
static cJSON *
annotations_of (const cJSON *pod, const struct place_entry *got)
{
  cJSON *patch = cJSON_CreateArray ();

  if (!cJSON_IsObject (json_get (pod, "metadata", "annotations")))
    json_patch_op (patch, "add", cJSON_CreateObject (), "metadata", "annotations");
  annotate (patch, pod, TPU_ANNOTATION_REPLICA_INDEX, got->place.replica);
  annotate (patch, pod, TPU_ANNOTATION_HOST_INDEX, got->place.host);
  annotate (patch, pod, TPU_ANNOTATION_RESERVED_UNTIL, got->expires_ms);
  return patch;
}

/* Takes away what claims a place that was not given to the pod: nobody is to believe it, tpu_inject or who looks for
 * free places. */
static cJSON *
claims_removed (const cJSON *pod)
{
  static const char *const keys[]
      = { TPU_ANNOTATION_REPLICA_INDEX, TPU_ANNOTATION_HOST_INDEX, TPU_ANNOTATION_RESERVED_UNTIL };
  cJSON *patch = cJSON_CreateArray ();

  for (size_t i = 0; i < ARRAY_LEN (keys); i++)
    if (json_get (pod, "metadata", "annotations", keys[i]) != NULL)
      json_patch_op (patch, "remove", NULL, "metadata", "annotations", keys[i]);
  return patch;
}

static int
refuse_for_now (const struct admission_request *request, struct admission_verdict *verdict, const struct error *why)
{
  cleanup_free char *text = xasprintf ("%s; creating the Pod again will do", why->message);

  log_warn ("denied pod for now", LF_STR ("namespace", request->namespace),
            LF_STR ("pod", admission_object_name (request)), LF_STR ("reason", why->message));
  admission_deny (verdict, 503, text);
  return 0;
}

/* With a patch of the annotations that give the pod a place; of none when it needs none, can get none (then it is a pod
 * of unknown identity, and the warning says why), or has been denied. */
static int
find_place (const struct admission_policy *policy, const struct admission_request *request,
            struct admission_verdict *verdict, cJSON **annotations, struct error *err)
{
  struct tpu_place_need need;
  struct place_entry got;
  struct error why = { "" };
  int ret;

  if (policy->allocator == NULL || tpu_place_needed (&need, request->object, &policy->tpu, NULL) <= 0)
    return 0; /* what is wrong with it tpu_inject says */
  ret = admission_allocate (policy->allocator, request, &need, &got, &why);
  if (ret == -EAGAIN)
    return refuse_for_now (request, verdict, &why);
  if (ret == -ENOSPC || ret == -ENOENT) /* one too many, or not its RayCluster's */
    {
      *annotations = claims_removed (request->object);
      return object_to (request, verdict, policy->tpu.strict, "no place for pod", &why);
    }
  if (ret < 0)
    return error_set (err, -ret, "%s", why.message);
  *annotations = annotations_of (request->object, &got);
  return 0;
}

/* ---- the whole ---- */

/* Appends what is in `from` to `to`. */
static void
move_all (cJSON *to, cJSON *from)
{
  while (cJSON_GetArraySize (from) > 0)
    json_push (to, cJSON_DetachItemFromArray (from, 0));
}

static int
inject (const struct admission_policy *policy, const struct admission_request *request,
        struct admission_verdict *verdict, const cJSON *pod, cJSON *patch, struct error *err)
{
  cleanup_injection struct tpu_injection injection = { 0 };
  struct error why = { "" };
  int ret = tpu_inject (&injection, pod, &policy->tpu, &why);

  if (ret == -EINVAL)
    return object_to (request, verdict, policy->tpu.strict, "invalid TPU pod admitted unchanged", &why);
  if (ret < 0)
    return error_set (err, -ret, "%s", why.message);
  log_injection (request, &injection);
  move_all (patch, injection.patch);
  if (verdict->warnings == NULL)
    verdict->warnings = cJSON_CreateArray ();
  move_all (verdict->warnings, injection.warnings);
  return 0;
}

static int
inject_at (const struct admission_policy *policy, const struct admission_request *request,
           struct admission_verdict *verdict, cJSON *annotations, struct error *err)
{
  cleanup_json cJSON *pod = cJSON_Duplicate (request->object, true);
  int ret = json_patch_apply (pod, annotations, err);

  return ret < 0 ? ret : inject (policy, request, verdict, pod, annotations, err);
}

int
admission_mutate_pod (void *data, const struct admission_request *request, struct admission_verdict *verdict,
                      struct error *err)
{
  const struct admission_policy *policy = data;
  cleanup_json cJSON *patch = NULL;
  int ret;

  verdict->allowed = true;
  if (request->group[0] != '\0' || request->subresource[0] != '\0' || !text_eq (request->kind, "Pod")
      || !text_eq (request->operation, "CREATE"))
    return 0;
  ret = find_place (policy, request, verdict, &patch, err);
  if (ret < 0 || !verdict->allowed)
    return ret;
  if (patch != NULL)
    ret = inject_at (policy, request, verdict, patch, err);
  else
    {
      patch = cJSON_CreateArray ();
      ret = inject (policy, request, verdict, request->object, patch, err);
    }
  if (ret == 0 && verdict->allowed)
    verdict->patch = take_ptr (patch);
  return ret;
}
