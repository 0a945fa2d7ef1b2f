/* slices.c - which slices the pods of a group make, and in what state each is. */
#include "ray/plan_internal.h"

#include <stdlib.h>
#include <string.h>

/* Made before KubeRay 1.6, or without its index labels: nothing says which pods make a slice. */
static bool
is_unlabelled (const struct ray_pod *pod)
{
  return pod->replica_name[0] == '\0' && pod->replica_index < 0;
}

/* Pods of one slice next to each other, hosts in order; single-host pods by index; of those without labels the ones on
 * their way out last. Names break ties, so that the order is the same whatever the order of observation. */
static int
compare_pods (const void *a, const void *b)
{
  const struct ray_pod *p = *(const struct ray_pod *const *) a, *q = *(const struct ray_pod *const *) b;
  int order = strcmp (p->replica_name, q->replica_name);

  if (order == 0)
    order = (p->replica_index > q->replica_index) - (p->replica_index < q->replica_index);
  if (order == 0)
    order = (p->host_index > q->host_index) - (p->host_index < q->host_index);
  if (order == 0 && is_unlabelled (p) && is_unlabelled (q))
    order = (p->deletion_ms != 0) - (q->deletion_ms != 0);
  return order ? order : strcmp (p->name, q->name);
}

static bool
belongs (const struct ray_pod *pod, const struct ray_cluster *cluster, const struct ray_group *group)
{
  if (!ray_pod_owned (pod, cluster))
    return false;
  if (group->is_head)
    return text_eq (pod->node_type, "head");
  return text_eq (pod->node_type, "worker") && text_eq (pod->group, group->name);
}

static void
mark_broken (struct ray_slice *slice, const char *why)
{
  slice->state = RAY_SLICE_BROKEN;
  slice->why = why;
}

/* Made as a replica of its own: whoever writes replica indices gives the hosts of a slice a replica name, too. */
static bool
is_single (const struct ray_pod *pod)
{
  return pod->replica_name[0] == '\0' && pod->replica_index >= 0;
}

/* An incomplete slice is broken, not forming, when it was complete once; also when that is no longer written down
 * because the index has its next incarnation already: the slice was on its way out when its operator died, or another
 * operator is deleting it right now. Names of other making (KubeRay's) say nothing as long as we replaced nothing here.
 */
static bool
was_complete (const struct ray_slice *slice, const struct ray_cluster *cluster, const struct ray_group *group,
              const struct ray_ledger *ledger)
{
  struct ray_ledger_entry entry = ray_ledger_get (ledger, group->name, slice->index);
  char present[RAY_NAME_SIZE];

  if (entry.complete || entry.incarnation == 0)
    return entry.complete;
  ray_replica_name (present, cluster, group, slice->index, entry.incarnation);
  return strcmp (slice->replica_name, present) != 0;
}

/* Missing hosts, hosts that are there twice, hosts the group does not have (numOfHosts was changed). */
static void
judge_hosts (struct ray_slice *slice, const struct ray_cluster *cluster, const struct ray_group *group,
             const struct ray_ledger *ledger)
{
  int64_t expected = 0;
  bool labelled = slice->replica_name[0] != '\0';

  for (size_t i = 0; i < slice->npods; i++)
    {
      int64_t host = slice->pods[i]->host_index;

      if (labelled && (host < 0 || host >= group->hosts))
        return mark_broken (slice, "a host index does not fit numOfHosts");
      if (labelled && host < expected)
        return mark_broken (slice, "two pods have the same host index");
      expected = host + 1;
    }
  if (is_single (slice->pods[0]))
    mark_broken (slice, "the pod was made for a single-host group");
  else if ((int64_t) slice->live == group->hosts)
    slice->state = RAY_SLICE_WHOLE;
  else if (!labelled)
    mark_broken (slice, "pods without slice labels do not make a whole slice");
  else if (was_complete (slice, cluster, group, ledger))
    mark_broken (slice, "a host of the slice is gone");
}

static void
judge (struct ray_slice *slice, const struct ray_cluster *cluster, const struct ray_group *group,
       const struct ray_ledger *ledger, const struct ray_plan_options *options, const struct ray_name_set *listed)
{
  bool multi = group->hosts > 1;

  slice->state = RAY_SLICE_FORMING;
  slice->ready = true;
  slice->expires_ms = 0;
  slice->created_ms = slice->pods[0]->created_ms;
  for (size_t i = 0; i < slice->npods; i++)
    {
      const struct ray_pod *pod = slice->pods[i];
      int64_t expires = pod->deletion_ms ? pod->deletion_ms + options->terminating_timeout_ms : INT64_MAX;

      slice->live += pod->deletion_ms == 0;
      slice->ready &= pod->ready && pod->deletion_ms == 0;
      slice->listed |= ray_name_set_has (listed, pod->name);
      if (pod->created_ms < slice->created_ms)
        slice->created_ms = pod->created_ms;
      if (expires > slice->expires_ms)
        slice->expires_ms = expires;
      if (pod->dead && pod->deletion_ms == 0)
        mark_broken (slice, multi ? "a host of the slice failed" : "the pod failed");
    }
  if (slice->live == 0)
    slice->state = RAY_SLICE_TERMINATING;
  else if (slice->live < slice->npods)
    mark_broken (slice, "a host of the slice is being deleted");
  else if (slice->state == RAY_SLICE_FORMING && multi)
    judge_hosts (slice, cluster, group, ledger);
  else if (slice->state == RAY_SLICE_FORMING && slice->replica_name[0] != '\0' && !group->is_head)
    mark_broken (slice, "the pod was made for a multi-host group");
  else if (slice->state == RAY_SLICE_FORMING)
    slice->state = RAY_SLICE_WHOLE;
  slice->ready &= slice->state == RAY_SLICE_WHOLE;
}

/* Whether a pod goes on the slice that begins with `first` and has `count` pods so far. Those of a multi-host group
 * without labels are taken together in sets of `hosts`; in sets of their own when they are on their way out, so that
 * the others do not change their sets when these go. */
static bool
goes_on (const struct ray_pod *first, const struct ray_pod *pod, size_t count, int64_t hosts)
{
  if (is_single (first) || is_single (pod) || strcmp (first->replica_name, pod->replica_name) != 0)
    return false;
  return !is_unlabelled (first) || ((int64_t) count < hosts && (first->deletion_ms != 0) == (pod->deletion_ms != 0));
}

static size_t
slice_end (const struct ray_slices *slices, size_t i, int64_t hosts)
{
  size_t end = i + 1;

  while (hosts > 1 && end < slices->npods && goes_on (slices->pods[i], slices->pods[end], end - i, hosts))
    end++;
  return end;
}

void
ray_slices_read (struct ray_slices *slices, const struct ray_cluster *cluster, const struct ray_group *group,
                 const struct ray_observed *observed, const struct ray_ledger *ledger,
                 const struct ray_plan_options *options)
{
  *slices = (struct ray_slices){ .pods = xcalloc (observed->npods, sizeof (*slices->pods)) };
  ray_name_set_list (&slices->listed, group->workers_to_delete);
  for (size_t i = 0; i < observed->npods; i++)
    if (belongs (observed->pods[i], cluster, group))
      slices->pods[slices->npods++] = observed->pods[i];
  qsort (slices->pods, slices->npods, sizeof (*slices->pods), compare_pods);
  for (size_t i = 0; i < slices->npods;)
    {
      size_t end = slice_end (slices, i, group->hosts);
      struct ray_slice *slice;

      slices->items = xgrow (slices->items, slices->count, &slices->cap, sizeof (*slices->items));
      slice = &slices->items[slices->count++];
      *slice = (struct ray_slice){
        .pods = &slices->pods[i],
        .npods = end - i,
        .replica_name = slices->pods[i]->replica_name,
        .index = group->is_head ? 0 : slices->pods[i]->replica_index,
      };
      judge (slice, cluster, group, ledger, options, &slices->listed);
      i = end;
    }
}

void
ray_slices_free (struct ray_slices *slices)
{
  free (slices->items);
  free (slices->pods);
  ray_name_set_free (&slices->listed);
  *slices = (struct ray_slices){ 0 };
}
