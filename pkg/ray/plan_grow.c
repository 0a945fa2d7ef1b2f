/* plan_grow.c - what is missing in a group: hosts of a slice that is forming, and new slices at the lowest free index.
 */
#include "ray/plan_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Pods that one plan creates at the most, also within a slice; the rest is for the next plan, in whose eyes the slice
 * is forming. Bounds memory, whatever the spec says. */
#define MAX_CREATES 1024
/* Incarnations of a slice that one plan tries: names that must not come back are anybody's to list. */
#define MAX_INCARNATIONS 64

static void
requeue_after (struct ray_planner *p, int64_t ms)
{
  if (ms > 0 && (p->plan->requeue_ms == 0 || ms < p->plan->requeue_ms))
    p->plan->requeue_ms = ms;
}

static bool
is_name_in_use (const struct ray_planner *p, const char *name)
{
  for (size_t i = 0; i < p->observed->npods; i++)
    if (strcmp (p->observed->pods[i]->name, name) == 0)
      return true;
  return false;
}

static void
choose_name (struct ray_planner *p, struct ray_op *op)
{
  if (p->options->fixed_head_name && op->group->is_head)
    {
      ray_fixed_head_name (op->identity.name, p->cluster);
      if (!is_name_in_use (p, op->identity.name))
        return;
    }
  ray_op_rename (op, p->cluster, 0);
}

/* For one more pod; where there is none, the next plan comes at once. */
static bool
has_room (struct ray_planner *p)
{
  if (p->plan->nops < MAX_CREATES)
    return true;
  requeue_after (p, 1);
  return false;
}

static void
create_pod (struct ray_planner *p, const struct ray_group *group, const char *replica, int64_t index, int64_t host)
{
  struct ray_op *op = ray_plan_add (p, RAY_OP_CREATE_POD, group->is_head ? RAY_STAGE_HEAD : RAY_STAGE_WORKERS);

  op->group = group;
  op->identity.replica_index = index;
  op->identity.host_index = host;
  snprintf (op->identity.replica_name, sizeof (op->identity.replica_name), "%s", replica);
  op->name_seed
      = ray_pod_seed (p->cluster, group, &op->identity, ray_ledger_get (&p->ledger, group->name, index).incarnation);
  choose_name (p, op);
}

void
ray_plan_complete_slice (struct ray_planner *p, const struct ray_group *group, const struct ray_slice *slice)
{
  size_t next = 0;

  for (int64_t host = 0; host < group->hosts; host++)
    if (next < slice->npods && slice->pods[next]->host_index == host)
      next++;
    else if (!has_room (p))
      return;
    else
      create_pod (p, group, slice->replica_name, slice->index, host);
}

/* ---- new slices ---- */

/* Names that must not come back: the autoscaler still waits for a pod of this name to go, or one has just gone, perhaps
 * before it was written down. All hosts are looked at, also those that are made later. */
static bool
is_spent (const struct ray_planner *p, const struct ray_group *group, const struct ray_name_set *listed,
          struct ray_identity *identity, uint32_t incarnation)
{
  struct ray_pod_names names;

  if (p->gone.count == 0 && listed->count == 0)
    return false;
  for (int64_t host = 0; host < group->hosts; host++)
    {
      identity->host_index = host;
      ray_pod_names (&names, ray_pod_seed (p->cluster, group, identity, incarnation), p->cluster, group);
      if (ray_pod_names_meet (&names, listed) || ray_pod_names_meet (&names, &p->gone))
        return true;
    }
  return false;
}

static void
start_slice (struct ray_planner *p, const struct ray_group *group, const struct ray_name_set *listed, int64_t index)
{
  struct ray_ledger_entry entry = ray_ledger_get (&p->ledger, group->name, index);
  struct ray_identity identity = { .replica_index = index };
  bool spent = false;

  if (entry.complete)
    entry = (struct ray_ledger_entry){ .incarnation = entry.incarnation + 1 };
  for (int tries = 0; tries < MAX_INCARNATIONS; tries++)
    {
      if (group->hosts > 1)
        ray_replica_name (identity.replica_name, p->cluster, group, index, entry.incarnation);
      spent = is_spent (p, group, listed, &identity, entry.incarnation) && ray_ledger_holds (index);
      if (!spent)
        break;
      entry.incarnation++;
    }
  ray_ledger_set (&p->ledger, group->name, index, entry);
  if (spent)
    requeue_after (p, 1);
  for (int64_t host = 0; !spent && host < group->hosts && has_room (p); host++)
    create_pod (p, group, identity.replica_name, index, host);
}

/* Until when a pod holds its index, whoever made it; INT64_MAX: as long as it is there. A predecessor's does, too, and
 * one that its deletion has left without an owner: their host names are the same. One of ours that should be gone makes
 * room by another index (given_up), but for a head, which has none: the next has a new name by its incarnation. */
static int64_t
holds_until (const struct ray_planner *p, const struct ray_group *group, const struct ray_pod *pod)
{
  bool owned = ray_pod_owned (pod, p->cluster);

  if (!owned && !ray_pod_of_predecessor (pod, p->cluster) && !ray_pod_orphaned (pod))
    return 0;
  if (pod->deletion_ms == 0 || (owned && !group->is_head))
    return INT64_MAX;
  return pod->deletion_ms + p->options->terminating_timeout_ms;
}

/* Nobody will delete it: to be told, where a pod is missing for it. */
static void
note_orphan (struct ray_planner *p, const struct ray_group *group, const struct ray_pod *pod)
{
  if (p->plan->norphans++ == 0)
    {
      p->plan->orphan = pod;
      p->plan->orphan_group = group;
    }
}

/* Indices that some existing pod carries, as a bitmap over [0, size); sets the alarm for the next that is given up. */
static unsigned char *
reserved_indices (struct ray_planner *p, const struct ray_group *group, size_t size)
{
  unsigned char *reserved = xcalloc (size, 1);

  for (size_t i = 0; i < p->observed->npods; i++)
    {
      const struct ray_pod *pod = p->observed->pods[i];
      bool same = group->is_head ? text_eq (pod->node_type, "head") : text_eq (pod->group, group->name);
      int64_t index = group->is_head ? 0 : pod->replica_index, until = holds_until (p, group, pod);

      if (!same || index < 0 || (size_t) index >= size || until <= p->now_ms)
        continue;
      reserved[index] = 1;
      if (ray_pod_orphaned (pod) && pod->deletion_ms == 0 && index < group->replicas)
        note_orphan (p, group, pod);
      if (until != INT64_MAX)
        requeue_after (p, until - p->now_ms);
    }
  return reserved;
}

/* How many indices below `desired` are held only by pods that should have been gone long ago; sets the alarm for the
 * next. */
static size_t
given_up (struct ray_planner *p, const struct ray_slices *slices, int64_t desired)
{
  size_t n = 0;

  for (size_t i = 0; i < slices->count; i++)
    {
      const struct ray_slice *slice = &slices->items[i];

      if (slice->state != RAY_SLICE_TERMINATING || slice->index < 0 || slice->index >= desired)
        continue;
      if (slice->expires_ms <= p->now_ms)
        n++;
      else
        requeue_after (p, slice->expires_ms - p->now_ms);
    }
  return n;
}

void
ray_plan_scale_up (struct ray_planner *p, const struct ray_group *group, const struct ray_slices *slices,
                   size_t missing)
{
  size_t extra = group->is_head ? 0 : given_up (p, slices, group->replicas);
  size_t room = p->plan->nops < MAX_CREATES ? (MAX_CREATES - p->plan->nops) / (size_t) group->hosts + 1 : 0;
  bool cut = missing > room;
  size_t size;
  unsigned char *reserved;

  missing = cut ? room : missing;
  size = missing + p->observed->npods + 1; /* at most one index is taken by each */
  reserved = reserved_indices (p, group, size);

  for (size_t index = 0; index < size && missing > 0; index++)
    {
      if (reserved[index])
        continue;
      if ((int64_t) index >= group->replicas && extra-- == 0)
        break; /* keep indices dense: wait for the pods that still hold a lower one */
      start_slice (p, group, &slices->listed, (int64_t) index);
      missing--;
    }
  if (cut && missing == 0)
    requeue_after (p, 1);
  free (reserved);
}
