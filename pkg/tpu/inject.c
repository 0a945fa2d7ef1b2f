/* inject.c - the one question of this room: what does this Pod still have to be told? */
#include "tpu/tpu_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

static bool
opted_out (const cJSON *pod)
{
  return text_eq (json_str (pod, "metadata", "annotations", TPU_ANNOTATION_INJECT), "false");
}

static char *
explain_unknown (const struct tpu_request *r, const struct tpu_identity *id)
{
  if (r->hosts == 0)
    return xasprintf ("the TPU environment is not injected: %s", id->unknown);
  return xasprintf ("the TPU environment of a %s slice of %" PRId64 " hosts is not injected: %s", r->topology_text,
                    r->hosts, id->unknown);
}

static int
inject (struct tpu_injection *out, const cJSON *pod, const struct tpu_options *options, struct arena *arena,
        struct error *err)
{
  struct tpu_containers containers;
  struct tpu_identity id;
  struct tpu_request r;
  int ret = tpu_request_collect (&r, &containers, pod, options, arena, err);

  if (ret < 0 || r.chips == 0)
    return ret;
  tpu_identify (&id, pod, &r, options, arena);
  out->owner = id.owner;
  out->worker_id = id.host;
  out->hosts = id.hosts;
  snprintf (out->slice, sizeof (out->slice), "%s", id.slice);
  if (id.unknown != NULL)
    {
      cleanup_free char *sentence = explain_unknown (&r, &id);

      if (options->strict)
        return error_set (err, EINVAL, "%s", sentence);
      tpu_warn (out->warnings, "%s", sentence);
    }
  tpu_advise (out->warnings, pod, &r, &id, options, arena);
  ret = tpu_place (out->patch, out->warnings, pod, &r, &id, err);
  if (ret < 0)
    return ret;
  tpu_env_patch (out->patch, out->warnings, &containers, &r, &id, arena);
  return 0;
}

int
tpu_inject (struct tpu_injection *out, const cJSON *pod, const struct tpu_options *options, struct error *err)
{
  cleanup_arena struct arena arena = { 0 };
  int ret;

  *out = (struct tpu_injection){
    .patch = cJSON_CreateArray (), .warnings = cJSON_CreateArray (), .owner = TPU_OWNER_BARE, .worker_id = -1
  };
  if (opted_out (pod))
    return 0;
  ret = inject (out, pod, options ? options : &tpu_default_options, &arena, err);
  if (ret < 0)
    tpu_injection_free (out);
  return ret;
}

int
tpu_place_needed (struct tpu_place_need *need, const cJSON *pod, const struct tpu_options *options, struct error *err)
{
  cleanup_arena struct arena arena = { 0 };
  struct tpu_containers containers;
  struct tpu_identity id;
  struct tpu_request r;
  int ret;

  *need = (struct tpu_place_need){ 0 };
  options = options ? options : &tpu_default_options;
  if (opted_out (pod))
    return 0;
  ret = tpu_request_collect (&r, &containers, pod, options, &arena, err);
  if (ret < 0 || r.chips == 0 || r.hosts <= 1)
    return ret;
  tpu_identify (&id, pod, &r, options, &arena);
  if (!id.needs_place)
    return 0;
  *need = (struct tpu_place_need){ .cluster = id.cluster,
                                   .group = tpu_label (pod, TPU_LABEL_RAY_GROUP),
                                   .hosts = r.hosts };
  return 1;
}

void
tpu_injection_free (struct tpu_injection *injection)
{
  cJSON_Delete (injection->patch);
  cJSON_Delete (injection->warnings);
  *injection = (struct tpu_injection){ .owner = TPU_OWNER_BARE, .worker_id = -1 };
}
