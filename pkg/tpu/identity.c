/* identity.c - who a pod is in its slice, from the stable indices its owner wrote: a table of owners, a row and a
 * function each (§8.1). A function of the pod alone, so replacements and repeated admissions get the same answer. */
#include "tpu/tpu_internal.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

/* TPU_PROCESS_PORT of everybody but Ray (§1.1 rule 9, §2.3). */
#define PROCESS_PORT 8476

/* ---- what identify functions are made of ---- */

const char *
tpu_label (const cJSON *pod, const char *key)
{
  return json_str (pod, "metadata", "labels", key);
}

const char *
tpu_annotation (const cJSON *pod, const char *key)
{
  return json_str (pod, "metadata", "annotations", key);
}

const char *
tpu_spec_text (const cJSON *pod, const char *key)
{
  const char *text = json_str (pod, "spec", key);

  return text && *text ? text : NULL;
}

int64_t
tpu_index_of (const char *text)
{
  int64_t value;

  return text != NULL && text_to_int (text, 0, INT32_MAX, &value) == 0 ? value : -1;
}

/* At admission most pods have a generateName only (§2.1). */
const char *
tpu_pod_name (const cJSON *pod, struct arena *arena)
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

bool
tpu_split_ordinal (const char *name, const char **stem, int64_t *ordinal, struct arena *arena)
{
  size_t len = strlen (name), digits = len;

  while (digits > 0 && isdigit ((unsigned char) name[digits - 1]))
    digits--;
  if (digits < 2 || digits == len || name[digits - 1] != '-')
    return false;
  if (name[digits] == '0' && name[digits + 1] != '\0')
    return false; /* "set-01" is not what a controller makes of "set-" and 1 */
  *ordinal = tpu_index_of (name + digits);
  *stem = arena_strndup (arena, name, digits);
  return *ordinal >= 0;
}

/* The controlling owner, or NULL. */
static const cJSON *
controller (const cJSON *pod)
{
  const cJSON *owners = json_get (pod, "metadata", "ownerReferences"), *owner;

  if (cJSON_IsArray (owners))
    cJSON_ArrayForEach (owner, owners)
      if (json_bool (owner, false, "controller") && json_str (owner, "kind") != NULL)
        return owner;
  return NULL;
}

const char *
tpu_controller_name (const cJSON *pod, const char *kind)
{
  const cJSON *owner = controller (pod);

  return text_eq (json_str (owner, "kind"), kind) ? json_str (owner, "name") : NULL;
}

const char *
tpu_host_name (const struct tpu_identity *id, int64_t host, struct arena *arena)
{
  if (id->lead != NULL && host == 0)
    return id->lead;
  return arena_printf (arena, "%s%" PRId64, id->stem, id->first + host - (id->lead != NULL));
}

/* A hostname of the user's in the template is the same for all hosts, so their names cannot be what we would list. */
void
tpu_check_hostname (struct tpu_identity *id, const cJSON *pod, struct arena *arena)
{
  const char *own = tpu_spec_text (pod, "hostname"), *expected = tpu_host_name (id, id->host, arena);

  if (own != NULL && !text_eq (own, expected))
    id->unknown = arena_printf (arena, "spec.hostname is %.63s, but the slice knows this host as %.63s: remove it", own,
                                expected);
}

/* ---- the table ---- */

/* Nobody we know of gave it an index: it can be a slice of one host, or nothing (§2.6). */
static void
identify_alone (struct tpu_identity *id, const cJSON *pod, const struct tpu_request *r,
                const struct tpu_options *options, struct arena *arena)
{
  const char *kind = json_str (controller (pod), "kind");

  (void) options;
  if (r->hosts == 1)
    {
      id->slice = tpu_pod_name (pod, arena);
      id->host = 0;
      return;
    }
  id->unknown = arena_printf (arena,
                              "a %.40s has no host index: run it as an Indexed Job, a JobSet, a LeaderWorkerSet, a "
                              "StatefulSet or a RayCluster group",
                              kind ? kind : "Pod without a controller");
}

/* In the order in which they are asked: the first whose label is there, then the first whose kind controls the pod,
 * then the last. */
static const struct owner
{
  const char *labels[2]; /* any of them */
  const char *kind;      /* of the controller, where the labels need not be */
  const char *made_by;   /* kind of the controller of its pods */
  enum tpu_owner owner;
  tpu_identify_fn identify;
} owners[] = {
  { { TPU_LABEL_LWS_NAME }, NULL, "StatefulSet", TPU_OWNER_LWS, tpu_identify_lws },
  { { TPU_LABEL_RAY_CLUSTER }, NULL, "RayCluster", TPU_OWNER_RAY, tpu_identify_ray },
  { { TPU_LABEL_JOBSET_NAME }, NULL, "Job", TPU_OWNER_JOBSET, tpu_identify_jobset },
  { { TPU_LABEL_JOB_NAME, TPU_LABEL_JOB_NAME_LEGACY }, "Job", "Job", TPU_OWNER_JOB, tpu_identify_job },
  { { TPU_LABEL_POD_INDEX }, "StatefulSet", "StatefulSet", TPU_OWNER_STATEFULSET, tpu_identify_statefulset },
  { { NULL }, NULL, NULL, TPU_OWNER_BARE, identify_alone },
};

const char *
tpu_owner_name (enum tpu_owner owner)
{
  static const char *const names[TPU_OWNER_MAX] = {
    [TPU_OWNER_RAY] = "RayCluster", [TPU_OWNER_LWS] = "LeaderWorkerSet",     [TPU_OWNER_JOBSET] = "JobSet",
    [TPU_OWNER_JOB] = "Job",        [TPU_OWNER_STATEFULSET] = "StatefulSet", [TPU_OWNER_BARE] = "Pod",
  };

  return names[owner];
}

static const struct owner *
find_owner (const cJSON *pod)
{
  for (size_t i = 0; i < ARRAY_LEN (owners); i++)
    for (size_t l = 0; l < ARRAY_LEN (owners[i].labels) && owners[i].labels[l] != NULL; l++)
      if (tpu_label (pod, owners[i].labels[l]) != NULL)
        return &owners[i];
  for (size_t i = 0; i < ARRAY_LEN (owners); i++)
    if (owners[i].kind != NULL && tpu_controller_name (pod, owners[i].kind) != NULL)
      return &owners[i];
  return &owners[ARRAY_LEN (owners) - 1];
}

/* Labels and indices that stand in a template, copied from a Pod of another workload, are the same for all its pods: a
 * controller of another kind has not written them. */
static void
check_controller (struct tpu_identity *id, const struct owner *owner, const cJSON *pod, struct arena *arena)
{
  const char *kind = json_str (controller (pod), "kind");

  if (owner->made_by != NULL && kind != NULL && !text_eq (kind, owner->made_by))
    id->unknown = arena_printf (arena,
                                "its labels are those of a %s's Pod, but a %.40s controls it: remove them from the "
                                "template",
                                tpu_owner_name (owner->owner), kind);
}

/* ---- what must hold of any slice with named hosts (§8.2 rule 14) ---- */

/* Names of hosts that differ in their number only: the last is the longest. */
static void
check_names (struct tpu_identity *id, struct arena *arena)
{
  const char *last = tpu_host_name (id, id->hosts - 1, arena);

  if (id->lead != NULL && !text_is_dns1123_label (id->lead))
    last = id->lead;
  if (!text_is_dns1123_label (last))
    id->unknown
        = arena_printf (arena, "host name %.80s is no DNS label of at most 63 characters: shorten the names", last);
  else if (!text_is_dns1123_label (id->domain))
    id->unknown = arena_printf (arena, "subdomain %.80s is no DNS label of at most 63 characters: shorten the names",
                                id->domain);
}

static void
check_hosts (struct tpu_identity *id, struct arena *arena)
{
  if (id->host >= id->hosts)
    id->unknown = arena_printf (arena, "its index %" PRId64 " is beyond the slice: run %" PRId64 " hosts per slice",
                                id->host, id->hosts);
  else
    check_names (id, arena);
}

void
tpu_identify (struct tpu_identity *id, const cJSON *pod, const struct tpu_request *r, const struct tpu_options *options,
              struct arena *arena)
{
  const struct owner *owner = find_owner (pod);

  *id = (struct tpu_identity){ .owner = owner->owner,
                               .slice = "",
                               .host = -1,
                               .hosts = r->hosts,
                               .processes = r->containers,
                               .process_port = PROCESS_PORT,
                               .replica = -1 };
  owner->identify (id, pod, r, options, arena);
  if (id->unknown == NULL && id->hosts > 1)
    check_controller (id, owner, pod, arena);
  if (r->hosts == 0 && id->owner != TPU_OWNER_LWS)
    id->unknown = "it names no topology: add it to spec.nodeSelector";
  else if (id->stem != NULL && id->unknown == NULL)
    check_hosts (id, arena);
  if (id->unknown != NULL)
    {
      id->slice = "";
      id->host = -1;
      id->hosts = r->hosts;
    }
}
