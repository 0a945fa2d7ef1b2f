/* plan.c - the decisions. Per group: retire what is broken or not wanted, keep what is whole, complete what is forming,
 * start what is missing at the lowest free index. */
#include "ray/plan_internal.h"
#include "ray/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct ray_plan_options ray_default_plan_options = { .terminating_timeout_ms = 30000 };

enum
{
  STAGE_LEDGER,
  STAGE_PODS
};

/* How many names of one identity a worn name is compared with: the first, and those taken after a collision. */
#define NAME_ATTEMPTS 3
/* Pods that one plan creates at the most; the rest is for the next plan. Bounds memory, whatever `replicas` says. */
#define MAX_CREATES 1024

struct planner
{
  struct ray_plan *plan;
  const struct ray_cluster *cluster;
  const struct ray_observed *observed;
  const struct ray_plan_options *options;
  struct ray_ledger ledger;
  int64_t now_ms;
};

static struct ray_op *
add_op (struct ray_plan *plan, enum ray_op_kind kind, int stage)
{
  struct ray_op *op;

  plan->ops = xgrow (plan->ops, plan->nops, &plan->cap, sizeof (*plan->ops));
  op = &plan->ops[plan->nops++];
  *op = (struct ray_op){ .kind = kind, .stage = stage, .why = "" };
  return op;
}

static void
delete_pod (struct planner *p, const struct ray_group *group, const struct ray_pod *pod, const char *why)
{
  struct ray_op *op;

  if (pod->deletion_ms != 0)
    return;
  op = add_op (p->plan, RAY_OP_DELETE_POD, STAGE_PODS);
  op->group = group;
  op->pod = pod;
  op->why = why;
}

static void
requeue_after (struct planner *p, int64_t ms)
{
  if (ms > 0 && (p->plan->requeue_ms == 0 || ms < p->plan->requeue_ms))
    p->plan->requeue_ms = ms;
}

/* ---- names ---- */

static uint64_t
identity_hash (const struct ray_cluster *cluster, const char *what, const char *who, int64_t a, int64_t b)
{
  uint64_t h = text_hash_str (text_hash_str (text_hash_str (0, cluster->uid), what), who);

  return text_hash (text_hash (h, &a, sizeof (a)), &b, sizeof (b));
}

void
ray_replica_name (char out[RAY_NAME_SIZE], const struct ray_cluster *cluster, const struct ray_group *group,
                  int64_t index, uint32_t incarnation)
{
  char suffix[RAY_SUFFIX_SIZE];

  ray_suffix (suffix, identity_hash (cluster, "slice", group->name, index, incarnation));
  snprintf (out, RAY_NAME_SIZE, "%.*s-%s", RAY_NAME_SIZE - RAY_SUFFIX_SIZE - 2, group->name, suffix);
}

static uint64_t
pod_seed (const struct ray_cluster *cluster, const struct ray_group *group, const struct ray_identity *identity,
          uint32_t incarnation)
{
  if (group->hosts > 1)
    return identity_hash (cluster, "host", identity->replica_name, identity->host_index, 0);
  return identity_hash (cluster, "pod", group->name, identity->replica_index, incarnation);
}

static void
pod_name (char out[RAY_NAME_SIZE], const struct ray_cluster *cluster, const struct ray_group *group, uint64_t seed,
          int attempt)
{
  char suffix[RAY_SUFFIX_SIZE];
  size_t len;

  ray_pod_name_prefix (out, cluster, group);
  ray_suffix (suffix, text_hash (seed, &attempt, sizeof (attempt)));
  len = strlen (out);
  snprintf (out + len, RAY_NAME_SIZE - len, "%s", suffix);
}

void
ray_op_rename (struct ray_op *op, const struct ray_cluster *cluster, int attempt)
{
  pod_name (op->identity.name, cluster, op->group, op->name_seed, attempt);
}

static void
create_pod (struct planner *p, const struct ray_group *group, const char *replica, int64_t index, int64_t host)
{
  struct ray_op *op = add_op (p->plan, RAY_OP_CREATE_POD, STAGE_PODS);

  op->group = group;
  op->identity.replica_index = index;
  op->identity.host_index = host;
  snprintf (op->identity.replica_name, sizeof (op->identity.replica_name), "%s", replica);
  op->name_seed
      = pod_seed (p->cluster, group, &op->identity, ray_ledger_get (&p->ledger, group->name, index).incarnation);
  ray_op_rename (op, p->cluster, 0);
}

/* ---- incarnations ---- */

/* Whether the names that (index, incarnation) stands for are, or may still be, those of `slice`. */
static bool
wears_name (const struct planner *p, const struct ray_group *group, const struct ray_slice *slice, uint32_t incarnation)
{
  struct ray_identity identity = { .replica_index = slice->index };
  char name[RAY_NAME_SIZE];

  if (group->hosts > 1)
    {
      ray_replica_name (name, p->cluster, group, slice->index, incarnation);
      return strcmp (name, slice->replica_name) == 0;
    }
  for (int attempt = 0; attempt < NAME_ATTEMPTS; attempt++)
    {
      pod_name (name, p->cluster, group, pod_seed (p->cluster, group, &identity, incarnation), attempt);
      if (strcmp (name, slice->pods[0]->name) == 0)
        return true;
    }
  return false;
}

/* The next slice at this index must not look like the one that goes: another incarnation, not complete. Idempotent. */
static void
retire_index (struct planner *p, const struct ray_group *group, const struct ray_slice *slice)
{
  struct ray_ledger_entry entry = ray_ledger_get (&p->ledger, group->name, slice->index);

  if (slice->index < 0)
    return;
  if (entry.complete || wears_name (p, group, slice, entry.incarnation))
    ray_ledger_set (&p->ledger, group->name, slice->index,
                    (struct ray_ledger_entry){ .incarnation = entry.incarnation + 1 });
}

static void
delete_slice (struct planner *p, const struct ray_group *group, const struct ray_slice *slice, const char *why)
{
  for (size_t i = 0; i < slice->npods; i++)
    delete_pod (p, group, slice->pods[i], why);
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
          slice->why = "another slice has the same replica index";
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
retire_broken (struct planner *p, const struct ray_group *group, struct ray_slices *slices)
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

static void
scale_down (struct planner *p, const struct ray_group *group, struct ray_slices *slices, size_t surplus)
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
      delete_slice (p, group, victims[i], "scale down");
    }
  free (victims);
}

static void
complete_slice (struct planner *p, const struct ray_group *group, const struct ray_slice *slice)
{
  size_t next = 0;

  for (int64_t host = 0; host < group->hosts; host++)
    if (next < slice->npods && slice->pods[next]->host_index == host)
      next++;
    else
      create_pod (p, group, slice->replica_name, slice->index, host);
}

/* Completes what is forming and notes what has become whole. A whole slice of an earlier incarnation is on its way out
 * in another operator's picture, or was spared in the end: the entry speaks of its successor, so it is left alone. */
static void
tend_kept (struct planner *p, const struct ray_group *group, const struct ray_slices *slices)
{
  for (size_t i = 0; i < slices->count; i++)
    {
      const struct ray_slice *slice = &slices->items[i];
      struct ray_ledger_entry entry = ray_ledger_get (&p->ledger, group->name, slice->index);

      if (!is_kept (slice) || group->hosts == 1)
        continue;
      if (slice->state == RAY_SLICE_FORMING)
        complete_slice (p, group, slice);
      else if (slice->index >= 0 && !entry.complete
               && (entry.incarnation == 0 || wears_name (p, group, slice, entry.incarnation)))
        {
          entry.complete = true;
          ray_ledger_set (&p->ledger, group->name, slice->index, entry);
        }
    }
}

static bool
name_is_listed (const struct ray_group *group, const char *name)
{
  const cJSON *item;

  cJSON_ArrayForEach (item, group->workers_to_delete)
    if (text_eq (cJSON_GetStringValue (item), name))
      return true;
  return false;
}

static void
start_slice (struct planner *p, const struct ray_group *group, int64_t index)
{
  struct ray_ledger_entry entry = ray_ledger_get (&p->ledger, group->name, index);
  size_t first = p->plan->nops;
  char name[RAY_NAME_SIZE] = "";

  if (entry.complete)
    {
      entry = (struct ray_ledger_entry){ .incarnation = entry.incarnation + 1 };
      ray_ledger_set (&p->ledger, group->name, index, entry);
    }
  if (group->hosts > 1)
    ray_replica_name (name, p->cluster, group, index, entry.incarnation);
  for (int64_t host = 0; host < group->hosts; host++)
    create_pod (p, group, name, index, host);
  for (size_t i = first; i < p->plan->nops; i++)
    if (name_is_listed (group, p->plan->ops[i].identity.name))
      {
        /* The autoscaler still waits for a pod of this name to go: it must not come back. */
        p->plan->nops = first;
        entry.incarnation++;
        ray_ledger_set (&p->ledger, group->name, index, entry);
        start_slice (p, group, index);
        return;
      }
}

/* Indices that some existing pod carries, as a bitmap over [0, size). Pods of a predecessor of the same name count
 * while they terminate: their host names are the same. */
static unsigned char *
reserved_indices (const struct planner *p, const struct ray_group *group, size_t size)
{
  unsigned char *reserved = xcalloc (size, 1);

  for (size_t i = 0; i < p->observed->npods; i++)
    {
      const struct ray_pod *pod = p->observed->pods[i];
      bool counts = ray_pod_owned (pod, p->cluster) || pod->deletion_ms != 0;
      bool same = group->is_head ? text_eq (pod->node_type, "head") : text_eq (pod->group, group->name);
      int64_t index = group->is_head ? 0 : pod->replica_index;

      if (counts && same && index >= 0 && (size_t) index < size
          && (ray_pod_owned (pod, p->cluster) || pod->deletion_ms + p->options->terminating_timeout_ms > p->now_ms))
        reserved[index] = 1;
    }
  return reserved;
}

/* How many indices below `desired` are held only by pods that should have been gone long ago; sets the alarm for the
 * next. */
static size_t
given_up (struct planner *p, const struct ray_slices *slices, int64_t desired)
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

/* No pod of the group is live, and none may hold things up any longer. */
static bool
given_up_all (const struct planner *p, const struct ray_slices *slices)
{
  for (size_t i = 0; i < slices->count; i++)
    if (slices->items[i].state != RAY_SLICE_TERMINATING || slices->items[i].expires_ms > p->now_ms)
      return false;
  return slices->count > 0;
}

static void
scale_up (struct planner *p, const struct ray_group *group, const struct ray_slices *slices, size_t missing)
{
  size_t extra = given_up (p, slices, group->replicas);
  size_t room = p->plan->nops < MAX_CREATES ? (MAX_CREATES - p->plan->nops) / (size_t) group->hosts + 1 : 0;
  size_t size;
  unsigned char *reserved;

  if (missing > room)
    {
      missing = room;
      requeue_after (p, 1);
    }
  size = missing + 2 * slices->count + 1; /* at most slices->count indices are taken */
  reserved = reserved_indices (p, group, size);

  if (group->is_head)
    {
      extra = 0;
      if (given_up_all (p, slices))
        reserved[0] = 0; /* a head has no index to share; its name is new by its incarnation */
    }
  for (size_t index = 0; index < size && missing > 0; index++)
    {
      if (reserved[index])
        continue;
      if ((int64_t) index >= group->replicas && extra-- == 0)
        break; /* keep indices dense: wait for the pods that still hold a lower one */
      start_slice (p, group, (int64_t) index);
      missing--;
    }
  free (reserved);
}

static void
plan_group (struct planner *p, const struct ray_group *group)
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
    scale_up (p, group, &slices, desired - kept);
}

/* ---- the cluster ---- */

/* Owned pods that no group of the spec accounts for: a group that was removed, or a head that calls itself something
 * else. */
static void
drain_strays (struct planner *p)
{
  for (size_t i = 0; i < p->observed->npods; i++)
    {
      const struct ray_pod *pod = p->observed->pods[i];

      if (ray_pod_owned (pod, p->cluster) && text_eq (pod->node_type, "worker")
          && ray_cluster_group (p->cluster, pod->group) == NULL)
        delete_pod (p, NULL, pod, "its worker group is no longer in the spec");
    }
}

/* Pods of one node type; returns how many there were to delete. */
static size_t
delete_all (struct planner *p, const char *node_type, const char *why)
{
  size_t before = p->plan->nops;

  for (size_t i = 0; i < p->observed->npods; i++)
    {
      const struct ray_pod *pod = p->observed->pods[i];

      if (ray_pod_owned (pod, p->cluster) && text_eq (pod->node_type, node_type))
        delete_pod (p, ray_cluster_group (p->cluster, pod->group), pod, why);
    }
  return p->plan->nops - before;
}

/* Stages in their order, deletions before creations, otherwise as decided. */
static void
order_ops (struct ray_plan *plan)
{
  struct ray_op *sorted = xcalloc (plan->nops, sizeof (*sorted));
  size_t n = 0;

  for (int kind = 0; kind <= RAY_OP_CREATE_POD; kind++)
    for (size_t i = 0; i < plan->nops; i++)
      if ((int) plan->ops[i].kind == kind)
        sorted[n++] = plan->ops[i];
  free (plan->ops);
  plan->ops = sorted;
  plan->cap = plan->nops;
}

/* upgradeStrategy Recreate (§2.4): the head carries the hash of the spec it was made from, and speaks for all pods. One
 * of another operator tells nothing: it is replaced by ours, and counts from then on. Returns whether all pods go. */
static bool
recreate (struct planner *p)
{
  static const char why[] = "the spec has changed, and spec.upgradeStrategy is Recreate";
  char hash[RAY_RECREATE_HASH_SIZE];
  const struct ray_pod *head = NULL;

  if (!text_eq (json_str (p->cluster->object, "spec", "upgradeStrategy", "type"), "Recreate"))
    return false;
  for (size_t i = 0; i < p->observed->npods; i++)
    if (ray_pod_owned (p->observed->pods[i], p->cluster) && text_eq (p->observed->pods[i]->node_type, "head")
        && p->observed->pods[i]->deletion_ms == 0)
      head = p->observed->pods[i];
  if (head == NULL)
    return false;
  ray_recreate_hash (hash, p->cluster);
  if (strcmp (head->recreate_hash, hash) == 0)
    return false;
  if (!text_starts_with (head->recreate_hash, RAY_RECREATE_HASH_PREFIX))
    {
      add_op (p->plan, RAY_OP_STAMP_HEAD, STAGE_LEDGER)->pod = head;
      return false;
    }
  /* The head last: as long as it lives, what is left of the others is seen to be old. */
  if (delete_all (p, "worker", why) == 0)
    delete_all (p, "head", why);
  return true;
}

static void
plan_pods (struct planner *p)
{
  enum ray_suspension suspension = ray_suspension_of (p->cluster);

  if (suspension == RAY_SUSPENDING)
    {
      delete_all (p, "head", "the cluster is suspended");
      delete_all (p, "worker", "the cluster is suspended");
    }
  if (suspension != RAY_ACTIVE || recreate (p))
    return;
  plan_group (p, &p->cluster->head);
  for (size_t i = 0; i < p->cluster->ngroups; i++)
    plan_group (p, &p->cluster->groups[i]);
  drain_strays (p);
}

void
ray_plan_make (struct ray_plan *plan, const struct ray_cluster *cluster, const struct ray_observed *observed,
               const struct ray_plan_options *options, int64_t now_ms)
{
  struct planner p = { .plan = plan, .cluster = cluster, .observed = observed, .options = options, .now_ms = now_ms };

  *plan = (struct ray_plan){ 0 };
  if (cluster->deleting || cluster->managed_elsewhere)
    return;
  ray_ledger_parse (&p.ledger, json_str (cluster->object, "metadata", "annotations", RAY_ANNOTATION_SLICES));
  ray_ledger_retain (&p.ledger, cluster);
  plan_pods (&p);
  if (p.ledger.changed)
    {
      plan->ledger = ray_ledger_print (&p.ledger);
      add_op (plan, RAY_OP_WRITE_LEDGER, STAGE_LEDGER);
    }
  ray_ledger_free (&p.ledger);
  order_ops (plan);
}

void
ray_plan_delete_all (struct ray_plan *plan, const struct ray_cluster *cluster, const struct ray_observed *observed,
                     const char *why)
{
  struct planner p = { .plan = plan, .cluster = cluster, .observed = observed };

  *plan = (struct ray_plan){ 0 };
  delete_all (&p, "head", why);
  delete_all (&p, "worker", why);
}

void
ray_plan_hold (struct ray_plan *plan, bool workers_too)
{
  size_t kept = 0;

  for (size_t i = 0; i < plan->nops; i++)
    {
      const struct ray_op *op = &plan->ops[i];

      if (op->kind != RAY_OP_CREATE_POD || !(workers_too || op->group->is_head))
        plan->ops[kept++] = *op;
    }
  plan->nops = kept;
}

void
ray_plan_free (struct ray_plan *plan)
{
  free (plan->ops);
  free (plan->ledger);
  *plan = (struct ray_plan){ 0 };
}
