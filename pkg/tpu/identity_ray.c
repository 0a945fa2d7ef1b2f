/* identity_ray.c - pods of RayClusters, our controller's and KubeRay's. */
#include "tpu/tpu_internal.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

#define LABEL_REPLICA_INDEX "ray.io/worker-group-replica-index"
#define LABEL_HOST_INDEX "ray.io/replica-host-index"

#define PROCESS_PORT 8471 /* Ray's tooling counts from here (§5.1.11, §5.4) */
#define LEGACY_SERVICE_NAME 50

/* By our controller, or by KubeRay since 1.6 (§5.4). */
static bool
has_index_labels (const cJSON *pod)
{
  return tpu_label (pod, LABEL_REPLICA_INDEX) != NULL || tpu_label (pod, LABEL_HOST_INDEX) != NULL;
}

/* Of the labels, else of the place that was given to it; never one index from here and the other from there. */
static int64_t
read_index (const cJSON *pod, const char *label, const char *annotation)
{
  return tpu_index_of (has_index_labels (pod) ? tpu_label (pod, label) : tpu_annotation (pod, annotation));
}

/* As KubeRay before 1.4 named it: the last 50 characters, and a letter in front. */
static const char *
legacy_name (const char *name, struct arena *arena)
{
  size_t len = strlen (name);
  char *cut = arena_strdup (arena, len > LEGACY_SERVICE_NAME ? name + len - LEGACY_SERVICE_NAME : name);

  if (!isalpha ((unsigned char) cut[0]))
    cut[0] = 'r';
  return cut;
}

/* The Service's name is not cut any more (§5.4, report 41). */
const char *
tpu_ray_service (const struct tpu_identity *id, const struct tpu_options *options, struct arena *arena)
{
  const char *service = arena_printf (arena, "%s-headless", id->cluster);

  return options->legacy_service_names ? legacy_name (service, arena) : service;
}

/* Labels alone make no Pod of a RayCluster: two such Pods can claim one place. Where the reference cannot be seen, in a
 * document, they are believed. */
static bool
is_anothers (const struct tpu_identity *id, const cJSON *pod, const struct tpu_options *options)
{
  const char *name = tpu_controller_name (pod, "RayCluster");

  return name != NULL ? !text_eq (name, id->cluster) : options->owned;
}

void
tpu_identify_ray (struct tpu_identity *id, const cJSON *pod, const struct tpu_request *r,
                  const struct tpu_options *options, struct arena *arena)
{
  const char *group = tpu_label (pod, TPU_LABEL_RAY_GROUP), *stem = NULL, *own = tpu_spec_text (pod, "subdomain");

  id->process_port = PROCESS_PORT;
  id->cluster = tpu_label (pod, TPU_LABEL_RAY_CLUSTER);
  id->replica = read_index (pod, LABEL_REPLICA_INDEX, TPU_ANNOTATION_REPLICA_INDEX);
  id->replica_name = tpu_label (pod, TPU_LABEL_RAY_REPLICA_NAME);
  id->domain = own ? own : tpu_ray_service (id, options, arena); /* who brings a subdomain brings its Service */
  if (group != NULL && id->replica >= 0)
    {
      id->slice = arena_printf (arena, "%s-%" PRId64, group, id->replica);
      stem = arena_printf (arena, "%s-", id->slice);
      id->coordinator = arena_printf (arena, "%s-0-0.%s", group, id->domain);
    }
  if (r->hosts == 1)
    {
      /* Ray keys single-host slices by node, so a shared name is harmless; without one it makes no head resource. */
      if (*id->slice == '\0')
        id->slice = tpu_pod_name (pod, arena);
      id->host = 0;
      return;
    }
  id->host = read_index (pod, LABEL_HOST_INDEX, TPU_ANNOTATION_HOST_INDEX);
  id->stem = stem;
  /* A label that is there but is no index is a mistake; only where there is none is the place to be found. */
  id->needs_place = group != NULL && !has_index_labels (pod);
  if (stem == NULL || id->host < 0)
    id->unknown = "labels " TPU_LABEL_RAY_GROUP ", " LABEL_REPLICA_INDEX " and " LABEL_HOST_INDEX
                  " must name its host, as ray-tpu-operator and KubeRay 1.6 write them for numOfHosts > 1";
  else if (is_anothers (id, pod, options))
    id->unknown = arena_printf (arena,
                                "RayCluster %.63s of its label " TPU_LABEL_RAY_CLUSTER
                                " does not control it: remove the label, or have the cluster create its Pods",
                                id->cluster);
  else
    tpu_check_hostname (id, pod, arena);
}
