/* inject.c - the one question of this room: what does this Pod still have to be told? */
#include "tpu/tpu_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

/* Longer sentences are cut. The API server itself cuts at 256 once all warnings of an answer exceed 4 KiB. */
#define WARNING_SIZE 512

void
tpu_warn (cJSON *warnings, const char *fmt, ...)
{
  char text[WARNING_SIZE];
  const cJSON *said;
  va_list args;

  va_start (args, fmt);
  vsnprintf (text, sizeof (text), fmt, args);
  va_end (args);
  cJSON_ArrayForEach (said, warnings)
    if (text_eq (cJSON_GetStringValue (said), text))
      return;
  json_push_str (warnings, text);
}

static bool
opted_out (const cJSON *pod)
{
  return text_eq (json_str (pod, "metadata", "annotations", TPU_ANNOTATION_INJECT), "false");
}

/* Requests that are well-formed but that no machine of the generation fits (§4.2): the pod would stay Pending. */
static void
warn_hardware (cJSON *warnings, const struct tpu_request *r)
{
  const struct tpu_accelerator *a = r->accelerator;

  if (a == NULL || r->hosts == 0)
    return;
  if (r->hosts > 1 && r->chips != TPU_SLICE_VM_CHIPS)
    tpu_warn (warnings,
              "a multi-host %s slice is made of %d-chip machines, but the Pod asks for %" PRId64 " " TPU_RESOURCE
              ", %" PRId64 " hosts for topology %s: ask for %d",
              a->generation, TPU_SLICE_VM_CHIPS, r->chips, r->hosts, r->topology_text, TPU_SLICE_VM_CHIPS);
  if (r->hosts == 1 && r->chips > a->vm_chips)
    tpu_warn (warnings,
              "no %s machine has %" PRId64 " chips, the largest has %d: ask for %d per Pod and use %" PRId64 " Pods",
              a->generation, r->chips, a->vm_chips, TPU_SLICE_VM_CHIPS, r->chips / TPU_SLICE_VM_CHIPS);
}

/* Host names without a namespace resolve through the pod's search domains only (§8.1 rule 6). */
static void
warn_network (cJSON *warnings, const cJSON *pod, const struct tpu_identity *id)
{
  if (id->hosts > 1 && json_bool (pod, false, "spec", "hostNetwork")
      && !text_eq (json_str (pod, "spec", "dnsPolicy"), "ClusterFirstWithHostNet"))
    tpu_warn (warnings, "with hostNetwork the hosts of the slice do not find each other by name: set dnsPolicy: "
                        "ClusterFirstWithHostNet");
}

/* Its webhook counts pods, not chips: what it says is kept, and so may be wrong for the topology (§1.1 rule 5). */
static void
warn_group (cJSON *warnings, const struct tpu_request *r, const struct tpu_identity *id)
{
  if (r->hosts > 0 && r->hosts != id->hosts)
    tpu_warn (warnings,
              "the LeaderWorkerSet makes a slice of %" PRId64 " TPU hosts, but topology %s with %" PRId64
              " " TPU_RESOURCE " per Pod has %" PRId64 ": set the size of its groups or subgroups to that",
              id->hosts, r->topology_text, r->chips, r->hosts);
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
  warn_hardware (out->warnings, &r);
  if (id.unknown != NULL)
    {
      cleanup_free char *sentence = explain_unknown (&r, &id);

      if (options->strict)
        return error_set (err, EINVAL, "%s", sentence);
      tpu_warn (out->warnings, "%s", sentence);
    }
  else
    {
      warn_network (out->warnings, pod, &id);
      warn_group (out->warnings, &r, &id);
    }
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
