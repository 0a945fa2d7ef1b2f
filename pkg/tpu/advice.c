/* advice.c - what runs but not as its author means it: sentences for the user, by the field they are about. */
#include "tpu/tpu_internal.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Longer sentences are cut. The API server itself cuts at 256 once all warnings of an answer exceed 4 KiB. */
#define WARNING_SIZE 512

void
tpu_warn (cJSON *warnings, const char *fmt, ...)
{
  char text[WARNING_SIZE];
  const cJSON *said;
  va_list args;

  int count = 0;

  va_start (args, fmt);
  vsnprintf (text, sizeof (text), fmt, args);
  va_end (args);
  cJSON_ArrayForEach (said, warnings)
    {
      if (text_eq (cJSON_GetStringValue (said), text))
        return;
      count++;
    }
  if (count < TPU_WARNINGS_MAX - 1)
    json_push_str (warnings, text);
  else if (count < TPU_WARNINGS_MAX)
    json_push_str (warnings, "there is more to say about this Pod: mend this first");
}

/* ---- annotations ---- */

/* Of ours, on pods: the user's, and those that the operator writes. */
static const char *const known[]
    = { "inject", "first-ordinal", "replica-index", "host-index", "reserved-until", "template-hash" };

static bool
is_known (const char *key)
{
  return text_starts_with (key, TPU_ANNOTATION_PREFIX)
         && text_index (key + strlen (TPU_ANNOTATION_PREFIX), known, ARRAY_LEN (known)) >= 0;
}

static void
advise_annotations (cJSON *warnings, const cJSON *pod)
{
  const char *inject = tpu_annotation (pod, TPU_ANNOTATION_INJECT);
  const cJSON *annotations = json_get (pod, "metadata", "annotations"), *item;
  const char *first = NULL;
  int unknown = 0;

  if (inject != NULL && !text_eq (inject, "true") && !text_eq (inject, "false"))
    tpu_warn (warnings,
              "annotation " TPU_ANNOTATION_INJECT " is \"%.32s\" and has no effect: write \"false\" to opt out",
              inject);
  if (tpu_label (pod, TPU_ANNOTATION_INJECT) != NULL)
    tpu_warn (warnings, "label " TPU_ANNOTATION_INJECT " has no effect: make it an annotation");
  if (!cJSON_IsObject (annotations))
    return;
  cJSON_ArrayForEach (item, annotations)
    if (text_starts_with (item->string, "ray-tpu-operator") && !is_known (item->string) && unknown++ == 0)
      first = item->string;
  if (unknown == 1)
    tpu_warn (warnings, "annotation %.80s is not known and has no effect: the one to opt out is " TPU_ANNOTATION_INJECT,
              first);
  else if (unknown > 1)
    tpu_warn (
        warnings,
        "annotation %.80s and %d more are not known and have no effect: the one to opt out is " TPU_ANNOTATION_INJECT,
        first, unknown - 1);
}

/* ---- the rest ---- */

/* Requests that are well-formed but that no machine of the generation fits (§4.2): the pod would stay Pending. */
static void
advise_hardware (cJSON *warnings, const struct tpu_request *r)
{
  const struct tpu_accelerator *a = r->accelerator;

  if (a == NULL || r->hosts == 0)
    return;
  if (r->hosts > 1 && r->chips != TPU_SLICE_VM_CHIPS)
    tpu_warn (warnings,
              "a multi-host %s slice is made of %d-chip machines, but the Pod asks for %" PRId64 " " TPU_RESOURCE
              ", %" PRId64 " hosts for topology %s: ask for %d",
              a->generation, TPU_SLICE_VM_CHIPS, r->chips, r->hosts, r->topology_text, TPU_SLICE_VM_CHIPS);
}

/* No node pool has the label: the Pod would stay Pending. */
static void
advise_topology (cJSON *warnings, const struct tpu_request *r)
{
  struct tpu_topology instead;
  char text[TPU_TOPOLOGY_SIZE];

  if (tpu_request_offered (r, &instead))
    return;
  tpu_topology_print (text, &instead);
  tpu_warn (warnings,
            "there is no %s slice of topology %.32s: did you mean %s? `raytpu topology %s` lists what there is",
            r->accelerator->generation, r->topology_text, text, r->accelerator->label);
}

/* Host names without a namespace resolve through the pod's search domains only (§8.1 rule 6). */
static void
advise_network (cJSON *warnings, const cJSON *pod, const struct tpu_identity *id)
{
  if (id->hosts > 1 && json_bool (pod, false, "spec", "hostNetwork")
      && !text_eq (json_str (pod, "spec", "dnsPolicy"), "ClusterFirstWithHostNet"))
    tpu_warn (warnings, "with hostNetwork the hosts of the slice do not find each other by name: set dnsPolicy: "
                        "ClusterFirstWithHostNet");
}

/* Its webhook counts pods, not chips: what it says is kept, and so may be wrong for the topology (§1.1 rule 5). */
static void
advise_group (cJSON *warnings, const struct tpu_request *r, const struct tpu_identity *id)
{
  if (r->hosts > 0 && r->hosts != id->hosts)
    tpu_warn (warnings,
              "the LeaderWorkerSet makes a slice of %" PRId64 " TPU hosts, but topology %s with %" PRId64
              " " TPU_RESOURCE " per Pod has %" PRId64 ": set the size of its groups or subgroups to that",
              id->hosts, r->topology_text, r->chips, r->hosts);
}

/* Two pods on one node's network want the same ports (report 38). A single host takes its node whole. */
static void
advise_ports (cJSON *warnings, const cJSON *pod, const struct tpu_request *r)
{
  if (json_bool (pod, false, "spec", "hostNetwork") && r->hosts != 1 && r->chips < TPU_SLICE_VM_CHIPS)
    tpu_warn (warnings,
              "with hostNetwork the TPU ports are the node's, and Pods of %" PRId64 " " TPU_RESOURCE
              " may share a node: ask for %d, or remove hostNetwork",
              r->chips, TPU_SLICE_VM_CHIPS);
}

static void
advise_subdomain (cJSON *warnings, const cJSON *pod, const struct tpu_identity *id, const struct tpu_options *options,
                  struct arena *arena)
{
  const char *own = tpu_spec_text (pod, "subdomain"), *service;

  if (own == NULL || id->owner != TPU_OWNER_RAY || id->hosts < 2)
    return;
  service = tpu_ray_service (id, options, arena);
  if (!text_eq (own, service))
    tpu_warn (warnings,
              "spec.subdomain is %.63s: a headless Service of that name must select these Pods; remove it to use %.63s",
              own, service);
}

void
tpu_advise (cJSON *warnings, const cJSON *pod, const struct tpu_request *r, const struct tpu_identity *id,
            const struct tpu_options *options, struct arena *arena)
{
  advise_annotations (warnings, pod);
  advise_topology (warnings, r);
  advise_hardware (warnings, r);
  advise_ports (warnings, pod, r);
  if (id->unknown != NULL)
    return;
  advise_network (warnings, pod, id);
  advise_subdomain (warnings, pod, id, options, arena);
  if (id->owner == TPU_OWNER_LWS)
    advise_group (warnings, r, id);
}
