/* plan_group.c - the decisions about one group: retire what is broken or not wanted, keep what is whole, complete what
 * is forming, and have the rest made (plan_grow.c). */
#include "ray/plan_internal.h"

#include <stdlib.h>
#include <string.h>

/* ---- leaving ---- */

/* The next slice at this index must not look like the one that goes: another incarnation, not complete. Idempotent. */
static void
retire_index (struct ray_planner *p, const struct ray_group *group, const struct ray_slice *slice)
{
  struct ray_ledger_entry entry = ray_ledger_get (&p->ledger, group->name, slice->index);

  if (slice->index < 0)
    return;
  if (entry.complete || ray_slice_wears_name (slice, p->cluster, group, entry.incarnation))
    ray_ledger_set (&p->ledger, group->name, slice->index,
                    (struct ray_ledger_entry){ .incarnation = entry.incarnation + 1 });
}

static void
delete_slice (struct ray_planner *p, const struct ray_group *group, const struct ray_slice *slice, const char *why)
{
  for (size_t i = 0; i < slice->npods; i++)
    ray_plan_delete_pod (p, group, slice->pods[i], why);
}

/* ---- one group ---- */

static bool
is_kept_state (const struct ray_slice *slice)
{
  return slice->state == RAY_SLICE_WHOLE || slice->state == RAY_SLICE_FORMING;
}

static bool
is_kept (const struct ray_slice *slice)
{
  return !slice->doomed && is_kept_state (slice);
}

static int
compare_by_index (const void *a, const void *b)
{
  const struct ray_slice *s = a, *t = b;
  int order = (s->index > t->index) - (s->index < t->index);

  if (order == 0)
    order = (int) is_kept (t) - (int) is_kept (s);
  if (order == 0)
    order = (int) t->state - (int) s->state; /* whole before forming */
  if (order == 0)
    order = (s->created_ms > t->created_ms) - (s->created_ms < t->created_ms);
  return order ? order : strcmp (s->pods[0]->name, t->pods[0]->name);
}

/* Two live slices must never share an index (their hosts would share names): the better one stays. */
static void
retire_twins (const struct ray_group *group, struct ray_slices *slices)
{
  if (slices->count > 1)
    qsort (slices->items, slices->count, sizeof (*slices->items), compare_by_index);
  for (size_t i = 1; i < slices->count; i++)
    {
      struct ray_slice *slice = &slices->items[i];

      if (is_kept (slice) && slice->index >= 0 && slices->items[i - 1].index == slice->index && !group->is_head)
        {
          slice->state = RAY_SLICE_BROKEN;
          slice->why = group->hosts > 1 ? "another slice has the same replica index"
                                        : "another Pod has the same replica index";
        }
    }
}

/* The slices are sorted by index, kept ones first: does a kept one share the index of slice i? */
static bool
index_in_use (const struct ray_slices *slices, size_t i)
{
  for (size_t k = i; k-- > 0 && slices->items[k].index == slices->items[i].index;)
    if (is_kept (&slices->items[k]))
      return true;
  return false;
}

static size_t
retire_broken (struct ray_planner *p, const struct ray_group *group, struct ray_slices *slices)
{
  size_t kept = 0;

  for (size_t i = 0; i < slices->count; i++)
    {
      struct ray_slice *slice = &slices->items[i];

      if (is_kept (slice) && !slice->listed)
        {
          kept++;
          continue;
        }
      slice->doomed = true;
      if (!index_in_use (slices, i))
        retire_index (p, group, slice);
      delete_slice (p, group, slice, is_kept_state (slice) ? "named in workersToDelete" : slice->why);
    }
  return kept;
}

/* Who goes first when slices must go: the least complete, then those that are not ready, the highest index, the newest
 * (facts §9.6). */
static int
compare_victims (const void *a, const void *b)
{
  const struct ray_slice *s = *(struct ray_slice *const *) a, *t = *(struct ray_slice *const *) b;

  if (s->state != t->state)
    return s->state == RAY_SLICE_FORMING ? -1 : 1;
  if (s->ready != t->ready)
    return s->ready ? 1 : -1;
  if (s->index != t->index)
    return s->index > t->index ? -1 : 1;
  if (s->created_ms != t->created_ms)
    return s->created_ms > t->created_ms ? -1 : 1;
  return strcmp (s->pods[0]->name, t->pods[0]->name);
}

static const char *
surplus_reason (const struct ray_group *group)
{
  if (group->is_head)
    return "another head Pod is there already, and a cluster has one";
  return group->suspend ? "its worker group is suspended" : "scale down";
}

static void
scale_down (struct ray_planner *p, const struct ray_group *group, struct ray_slices *slices, size_t surplus)
{
  struct ray_slice **victims = xcalloc (slices->count, sizeof (*victims));
  size_t n = 0;

  for (size_t i = 0; i < slices->count; i++)
    if (is_kept (&slices->items[i]))
      victims[n++] = &slices->items[i];
  qsort (victims, n, sizeof (*victims), compare_victims);
  for (size_t i = 0; i < n && i < surplus; i++)
    {
      victims[i]->doomed = true;
      retire_index (p, group, victims[i]);
      delete_slice (p, group, victims[i], surplus_reason (group));
    }
  free (victims);
}

/* Completes what is forming and notes what has become whole. A whole slice of an earlier incarnation is on its way out
 * in another operator's picture, or was spared in the end: the entry speaks of its successor, so it is left alone. */
static void
tend_kept (struct ray_planner *p, const struct ray_group *group, const struct ray_slices *slices)
{
  for (size_t i = 0; i < slices->count; i++)
    {
      const struct ray_slice *slice = &slices->items[i];
      struct ray_ledger_entry entry = ray_ledger_get (&p->ledger, group->name, slice->index);

      if (!is_kept (slice))
        continue;
      if (slice->state == RAY_SLICE_FORMING)
        ray_plan_complete_slice (p, group, slice);
      else if (slice->index >= 0 && !entry.complete
               && (entry.incarnation == 0 || ray_slice_wears_name (slice, p->cluster, group, entry.incarnation)))
        {
          entry.complete = true;
          ray_ledger_set (&p->ledger, group->name, slice->index, entry);
        }
    }
}

void
ray_plan_group (struct ray_planner *p, const struct ray_group *group)
{
  cleanup_slices struct ray_slices slices = { 0 };
  bool may_shrink = group->is_head || group->suspend || !p->cluster->autoscaling || p->options->random_delete;
  size_t kept, desired = (size_t) group->replicas;

  ray_slices_read (&slices, p->cluster, group, p->observed, &p->ledger, p->options);
  retire_twins (group, &slices);
  kept = retire_broken (p, group, &slices);
  if (kept > desired && may_shrink)
    scale_down (p, group, &slices, kept - desired);
  tend_kept (p, group, &slices);
  if (kept < desired)
    ray_plan_scale_up (p, group, &slices, desired - kept);
}
