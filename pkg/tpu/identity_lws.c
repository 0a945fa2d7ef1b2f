/* identity_lws.c - pods of LeaderWorkerSets (§1). The set's own webhook tells TPU pods nearly all of this, before us or
 * after us; whoever comes second finds the entries and leaves them, so the values have to be its values. */
#include "tpu/tpu_internal.h"

#include <inttypes.h>
#include <string.h>

#define LWS "leaderworkerset.sigs.k8s.io/"
#define LABEL_WORKER_INDEX LWS "worker-index"
#define LABEL_SUBGROUP_INDEX LWS "subgroup-index"
#define ANNOTATION_SIZE LWS "size"
#define ANNOTATION_SUBGROUP_SIZE LWS "subgroup-size"
#define ANNOTATION_SUBGROUP_POLICY LWS "subgroup-policy-type"
#define ANNOTATION_SUBDOMAIN_POLICY LWS "subdomainPolicy"
#define ANNOTATION_LEADER_TPUS LWS "leader-requests-tpus"

struct member
{
  const char *leader; /* the leader pod's name */
  int64_t worker;     /* index in the group; 0: the leader */
  bool leader_has_tpu;
};

/* The worker's index label is written by the set's webhook: a webhook that comes before it has only the name's ordinal
 * (rule 4). */
static bool
read_member (struct member *m, struct tpu_identity *id, const cJSON *pod, struct arena *arena)
{
  const char *name = tpu_pod_name (pod, arena);

  *m = (struct member){ .leader = name, .leader_has_tpu = true };
  if (text_eq (tpu_label (pod, LABEL_WORKER_INDEX), "0"))
    return true;
  m->leader_has_tpu = text_eq (tpu_annotation (pod, ANNOTATION_LEADER_TPUS), "true");
  if (!tpu_split_ordinal (name, &id->stem, &m->worker, arena) || m->worker == 0)
    {
      id->stem = NULL;
      id->unknown = arena_printf (arena,
                                  "its name %.80s does not end in its index in the group, as the "
                                  "LeaderWorkerSet controller writes it",
                                  name);
      return false;
    }
  m->leader = arena_strndup (arena, id->stem, strlen (id->stem) - 1);
  return true;
}

/* Which leaders are hosts: only those that ask for TPUs (report 14). */
static void
identify_in_group (struct tpu_identity *id, const struct member *m, int64_t size)
{
  id->lead = m->leader_has_tpu ? m->leader : NULL;
  id->hosts = m->leader_has_tpu ? size : size - 1;
  id->host = m->leader_has_tpu ? m->worker : m->worker - 1;
  id->first = 1;
}

/* §1.2. Workers behind a leader without TPUs are counted among themselves. A leader that does not fit into the first
 * subgroup is an extra one (report 16). */
static int64_t
subgroup_index (const cJSON *pod, const struct member *m, int64_t size, int64_t subgroup)
{
  const char *label = tpu_label (pod, LABEL_SUBGROUP_INDEX);

  if (m->worker == 0)
    return 0;
  if (!m->leader_has_tpu)
    return (m->worker - 1) / subgroup;
  if (label != NULL && *label)
    return tpu_index_of (label);
  return (size - 1) % subgroup == 0 && size % subgroup != 0 ? (m->worker - 1) / subgroup : m->worker / subgroup;
}

static void
identify_in_subgroup (struct tpu_identity *id, const cJSON *pod, const struct member *m, int64_t size, int64_t subgroup)
{
  int64_t index = subgroup_index (pod, m, size, subgroup);

  if (index < 0)
    {
      id->unknown = "label " LABEL_SUBGROUP_INDEX " is no number";
      return;
    }
  id->hosts = subgroup;
  id->processes = 1;
  id->lead = m->leader_has_tpu && index == 0 ? m->leader : NULL;
  id->first = id->lead != NULL ? 1 : subgroup * index + (m->leader_has_tpu ? 0 : 1);
  id->host = (m->leader_has_tpu ? m->worker : m->worker - 1) % subgroup;
}

static bool
leads_no_slice (const cJSON *pod, const struct member *m)
{
  return m->worker == 0 && text_eq (tpu_annotation (pod, ANNOTATION_SUBGROUP_POLICY), "LeaderExcluded");
}

/* A size that the annotation has to have; -1 and `unknown` when it has not. */
static int64_t
read_size (struct tpu_identity *id, const cJSON *pod, const char *annotation, struct arena *arena)
{
  int64_t size = tpu_index_of (tpu_annotation (pod, annotation));

  if (size < 1)
    id->unknown
        = arena_printf (arena, "annotation %s is no size, as the LeaderWorkerSet controller writes it", annotation);
  return size < 1 ? -1 : size;
}

static void
find_host (struct tpu_identity *id, const cJSON *pod, const struct member *m, struct arena *arena)
{
  const char *grouping = tpu_annotation (pod, ANNOTATION_SUBGROUP_SIZE);
  int64_t size = read_size (id, pod, ANNOTATION_SIZE, arena), subgroup;

  if (size < 0)
    return;
  if (grouping == NULL)
    {
      identify_in_group (id, m, size);
      return;
    }
  subgroup = read_size (id, pod, ANNOTATION_SUBGROUP_SIZE, arena);
  if (subgroup < 0)
    return;
  if (leads_no_slice (pod, m))
    id->unknown = "the leader is in no subgroup (LeaderExcluded): ask for google.com/tpu in the workers only";
  else
    identify_in_subgroup (id, pod, m, size, subgroup);
}

void
tpu_identify_lws (struct tpu_identity *id, const cJSON *pod, const struct tpu_request *r,
                  const struct tpu_options *options, struct arena *arena)
{
  struct member m;

  (void) r, (void) options;
  if (!read_member (&m, id, pod, arena))
    return;
  id->slice
      = m.leader; /* one name for the whole slice (report 15); for all of a group's subgroups, as the set has it */
  id->stem = arena_printf (arena, "%s-", m.leader);
  find_host (id, pod, &m, arena);
  if (id->unknown != NULL)
    return;
  id->domain = tpu_spec_text (pod, "subdomain");
  if (m.worker == 0 && text_eq (tpu_annotation (pod, ANNOTATION_SUBDOMAIN_POLICY), "UniquePerReplica"))
    id->domain = m.leader; /* the set's webhook rewrites it so (§1.3) */
  if (id->domain == NULL)
    id->unknown = "it has no spec.subdomain, which the LeaderWorkerSet controller writes";
  else if (!text_eq (tpu_host_name (id, id->host, arena), tpu_pod_name (pod, arena)))
    id->unknown = arena_printf (arena,
                                "its subgroup of %" PRId64 " hosts does not hold it at index %" PRId64
                                ": make the group's size a multiple of the subgroup's",
                                id->hosts, id->host);
  else
    tpu_check_hostname (id, pod, arena);
}
