/* identity.c - who a pod is in its slice, from the stable indices its owner wrote: a table of owners, a row and a
 * function each (§8.1). A function of the pod alone, so replacements and repeated admissions get the same answer. */
#include "tpu/tpu_internal.h"

#include <inttypes.h>
#include <string.h>

#define LABEL_RAY_GROUP "ray.io/group"
#define LABEL_RAY_REPLICA_INDEX "ray.io/worker-group-replica-index"
#define LABEL_RAY_HOST_INDEX "ray.io/replica-host-index"
#define LABEL_JOB_NAME "batch.kubernetes.io/job-name"
#define LABEL_JOB_NAME_LEGACY "job-name"
#define JOB_COMPLETION_INDEX "batch.kubernetes.io/job-completion-index"
#define LABEL_LWS_NAME "leaderworkerset.sigs.k8s.io/name"

/* TPU_PROCESS_PORT: Ray's tooling counts from 8471 (§5.1.11, §5.4), everybody else's from 8476 (§1.1 rule 9, §2.3). */
#define PROCESS_PORT_RAY 8471
#define PROCESS_PORT 8476

static const char *
label (const cJSON *pod, const char *key)
{
  return json_str (pod, "metadata", "labels", key);
}

/* A field of the spec; "" counts as absent, as it does for the API server. */
static const char *
spec_text (const cJSON *pod, const char *key)
{
  const char *text = json_str (pod, "spec", key);

  return text && *text ? text : NULL;
}

static int64_t
index_of (const char *text)
{
  int64_t value;

  return text != NULL && text_to_int (text, 0, INT32_MAX, &value) == 0 ? value : -1;
}

/* At admission most pods have a generateName only (§2.1). */
static const char *
pod_name (const cJSON *pod, struct arena *arena)
{
  const char *name = json_str (pod, "metadata", "name");
  size_t len;

  if (name != NULL && *name)
    return name;
  name = log_nonnull (json_str (pod, "metadata", "generateName"));
  for (len = strlen (name); len > 0 && name[len - 1] == '-';)
    len--;
  return arena_strndup (arena, name, len);
}

/* A hostname of the user's in the template is the same for all hosts, so their names cannot be what we would list. */
static void
check_hostname (struct tpu_identity *id, const cJSON *pod, struct arena *arena)
{
  const char *own = spec_text (pod, "hostname");
  const char *expected = arena_printf (arena, "%s%" PRId64, id->stem, id->host);

  if (own != NULL && !text_eq (own, expected))
    id->unknown = arena_printf (arena, "spec.hostname is %.63s, but the slice knows this host as %.63s: remove it", own,
                                expected);
}

/* Labels of our controller and of KubeRay since 1.6 (§5.4). The Service's name is never cut (§5.4, report 41); who
 * brings a subdomain brings its Service. */
static void
identify_ray (struct tpu_identity *id, const cJSON *pod, const struct tpu_request *r, struct arena *arena)
{
  const char *group = label (pod, LABEL_RAY_GROUP), *subdomain = spec_text (pod, "subdomain");

  id->process_port = PROCESS_PORT_RAY;
  id->cluster = label (pod, TPU_LABEL_RAY_CLUSTER);
  id->replica = index_of (label (pod, LABEL_RAY_REPLICA_INDEX));
  id->replica_name = label (pod, TPU_LABEL_RAY_REPLICA_NAME);
  id->domain = subdomain ? subdomain : arena_printf (arena, "%s-headless", id->cluster);
  if (group != NULL && id->replica >= 0)
    {
      id->slice = arena_printf (arena, "%s-%" PRId64, group, id->replica);
      id->stem = arena_printf (arena, "%s-", id->slice);
      id->coordinator = arena_printf (arena, "%s-0-0.%s", group, id->domain);
    }
  if (r->hosts == 1)
    {
      /* Ray keys single-host slices by node, so a shared name is harmless; without one it makes no head resource. */
      if (*id->slice == '\0')
        id->slice = pod_name (pod, arena);
      id->host = 0;
      return;
    }
  id->host = index_of (label (pod, LABEL_RAY_HOST_INDEX));
  if (id->stem == NULL || id->host < 0)
    id->unknown = "labels " LABEL_RAY_GROUP ", " LABEL_RAY_REPLICA_INDEX " and " LABEL_RAY_HOST_INDEX
                  " must name its host, as ray-tpu-operator and KubeRay 1.6 write them for numOfHosts > 1";
  else
    check_hostname (id, pod, arena);
}

/* The Job controller writes index, labels and hostname; the subdomain is the user's (§2.1). Pods of a JobSet are pods
 * of its Jobs. On single-host slices every completion is a slice of its own. */
static void
identify_job (struct tpu_identity *id, const cJSON *pod, const struct tpu_request *r, struct arena *arena)
{
  const char *index = json_str (pod, "metadata", "annotations", JOB_COMPLETION_INDEX);

  id->slice = label (pod, LABEL_JOB_NAME) ? label (pod, LABEL_JOB_NAME) : label (pod, LABEL_JOB_NAME_LEGACY);
  if (r->hosts == 1)
    {
      id->host = 0;
      return;
    }
  id->stem = arena_printf (arena, "%s-", id->slice);
  id->domain = spec_text (pod, "subdomain");
  id->host = index_of (index ? index : label (pod, JOB_COMPLETION_INDEX));
  if (id->host < 0)
    id->unknown = "pods of its Job have no completion index: set completionMode: Indexed";
  else if (id->domain == NULL)
    id->unknown = "spec.subdomain of its Job's template is absent: name a headless Service that selects the Job's pods";
  else
    check_hostname (id, pod, arena);
}

static const char *
controller_kind (const cJSON *pod)
{
  const cJSON *owners = json_get (pod, "metadata", "ownerReferences"), *owner;

  if (label (pod, LABEL_LWS_NAME) != NULL)
    return "LeaderWorkerSet";
  if (cJSON_IsArray (owners))
    cJSON_ArrayForEach (owner, owners)
      if (json_bool (owner, false, "controller") && json_str (owner, "kind") != NULL)
        return json_str (owner, "kind");
  return NULL;
}

/* Nobody we know of gave it an index: it can be a slice of one host, or nothing (§2.6). */
static void
identify_alone (struct tpu_identity *id, const cJSON *pod, const struct tpu_request *r, struct arena *arena)
{
  const char *kind = controller_kind (pod);

  if (r->hosts == 1)
    {
      id->slice = pod_name (pod, arena);
      id->host = 0;
      return;
    }
  id->unknown = arena_printf (arena, "a %.40s has no host index here: run it as an Indexed Job or a RayCluster group",
                              kind ? kind : "Pod without a controller");
}

/* In the order in which they are asked: the first whose label is there. */
static const struct owner
{
  const char *labels[2]; /* any of them; none: every pod */
  enum tpu_owner owner;
  void (*identify) (struct tpu_identity *id, const cJSON *pod, const struct tpu_request *r, struct arena *arena);
} owners[] = {
  { { LABEL_LWS_NAME }, TPU_OWNER_BARE, identify_alone }, /* also when it carries Ray: the set decides on hostnames */
  { { TPU_LABEL_RAY_CLUSTER }, TPU_OWNER_RAY, identify_ray },
  { { LABEL_JOB_NAME, LABEL_JOB_NAME_LEGACY }, TPU_OWNER_JOB, identify_job },
  { { NULL }, TPU_OWNER_BARE, identify_alone },
};

const char *
tpu_owner_name (enum tpu_owner owner)
{
  static const char *const names[TPU_OWNER_MAX] = {
    [TPU_OWNER_RAY] = "RayCluster",
    [TPU_OWNER_JOB] = "Job",
    [TPU_OWNER_BARE] = "Pod",
  };

  return names[owner];
}

static const struct owner *
find_owner (const cJSON *pod)
{
  const struct owner *o = owners;

  while (o->labels[0] != NULL && label (pod, o->labels[0]) == NULL
         && (o->labels[1] == NULL || label (pod, o->labels[1]) == NULL))
    o++;
  return o;
}

/* What must hold of any slice with named hosts (§8.2 rule 14). The last host has the longest name. */
static void
check_multi_host (struct tpu_identity *id, const struct tpu_request *r, struct arena *arena)
{
  const char *last = arena_printf (arena, "%s%" PRId64, id->stem, r->hosts - 1);

  if (id->host >= r->hosts)
    id->unknown = arena_printf (arena, "its index %" PRId64 " is beyond the slice: run %" PRId64 " hosts per slice",
                                id->host, r->hosts);
  else if (!text_is_dns1123_label (last))
    id->unknown
        = arena_printf (arena, "host name %.80s is no DNS label of at most 63 characters: shorten the names", last);
  else if (!text_is_dns1123_label (id->domain))
    id->unknown = arena_printf (arena, "subdomain %.80s is no DNS label of at most 63 characters: shorten the names",
                                id->domain);
}

void
tpu_identify (struct tpu_identity *id, const cJSON *pod, const struct tpu_request *r, struct arena *arena)
{
  const struct owner *owner = find_owner (pod);

  *id = (struct tpu_identity){
    .owner = owner->owner, .slice = "", .host = -1, .process_port = PROCESS_PORT, .replica = -1
  };
  owner->identify (id, pod, r, arena);
  if (r->hosts == 0)
    id->unknown = "it names no topology: add it to spec.nodeSelector";
  else if (r->hosts > 1 && id->unknown == NULL)
    check_multi_host (id, r, arena);
  if (id->unknown != NULL)
    {
      id->slice = "";
      id->host = -1;
    }
}
