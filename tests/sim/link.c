/* link.c - what the linker puts in the place of the clock, of events and, with a mutation, of the planner. A mutation
 * is a mistake somebody could make: each must be caught by an invariant, or that invariant is worth nothing. */
#include <string.h>

#include "sim.h"

#define WALL_START_MS 1767225600000 /* 2026-01-01T00:00:00Z */

int64_t __wrap_clock_mono_ms (void);
int64_t __wrap_clock_mono_us (void);
int64_t __wrap_clock_wall_ms (void);
void __wrap_ray_plan_make (struct ray_plan *plan, const struct ray_cluster *cluster,
                           const struct ray_observed *observed, const struct ray_plan_options *options, int64_t now_ms);
void __wrap_ray_plan_hold (struct ray_plan *plan, bool workers_too);
void __real_ray_plan_hold (struct ray_plan *plan, bool workers_too);
struct ray_teardown __wrap_ray_teardown_next (const struct ray_cluster *cluster, const struct ray_options *options,
                                              const struct ray_observed *observed, enum ray_job_state job,
                                              int64_t terminating_timeout_ms, int64_t now_ms);
struct ray_teardown __real_ray_teardown_next (const struct ray_cluster *cluster, const struct ray_options *options,
                                              const struct ray_observed *observed, enum ray_job_state job,
                                              int64_t terminating_timeout_ms, int64_t now_ms);
void __wrap_kube_queue_retry (struct kube_queue *q, const char *key);
void __real_kube_queue_retry (struct kube_queue *q, const char *key);
void __real_ray_plan_make (struct ray_plan *plan, const struct ray_cluster *cluster,
                           const struct ray_observed *observed, const struct ray_plan_options *options, int64_t now_ms);

int64_t
__wrap_clock_mono_ms (void)
{
  return 1000 + sim->now_ms;
}

int64_t
__wrap_clock_mono_us (void)
{
  return __wrap_clock_mono_ms () * 1000;
}

int64_t
__wrap_clock_wall_ms (void)
{
  return WALL_START_MS + sim->now_ms;
}

void
kube_event (struct kube_events *events, const struct kube_object_ref *about, enum kube_event_type type,
            const char *reason, const char *action, const char *note)
{
  (void) events;
  (void) about;
  (void) type;
  (void) reason;
  (void) action;
  (void) note;
}

/* ---- mutations ---- */

enum mistake
{
  NO_MISTAKE,
  FORGETS_LEDGER,
  NEVER_WRITES_LEDGER,
  IGNORES_TERMINATING,
  IGNORES_DEAD,
  MISSES_LAST_HOST,
  SAME_HOST_AGAIN,
  SAME_INDEX_AGAIN,
  ONE_TOO_MANY,
  TEARS_DOWN_HEALTHY,
  DELETES_FOREIGN,
  RESTLESS_LEDGER,
  KEEPS_SURPLUS,
  NEVER_RECREATES,
  FORGETS_PREDECESSOR,
  FORGETS_ORPHANS,
  FORGETS_GONE,
  WAITS_FOR_NOTHING,
  PROTECTS_NOTHING,
  CLEANS_NOTHING,
  CLEANS_TOO_SOON,
  NEVER_LETS_GO,
  KNOWS_NO_PATIENCE,
};

const struct mutation sim_mutations[] = {
  [NO_MISTAKE] = { "none", "" },
  [FORGETS_LEDGER] = { "the planner does not read the ledger", "known to have been complete" },
  [NEVER_WRITES_LEDGER] = { "the ledger is never written", "is not written down" },
  [IGNORES_TERMINATING] = { "pods that terminate do not hold their index", "used again while a pod still carries it" },
  [IGNORES_DEAD] = { "failed pods count as well", "is not whole" },
  [MISSES_LAST_HOST] = { "the last host of a slice is not made", "is not whole" },
  [SAME_HOST_AGAIN] = { "a host is made under two names", "one host of a slice|the same worker id" },
  [SAME_INDEX_AGAIN] = { "a second slice is made at a taken index", "the same replica index|the same worker id" },
  [ONE_TOO_MANY] = { "one slice too many is made", "is too many" },
  [TEARS_DOWN_HEALTHY] = { "a healthy pod is deleted now and then", "without a reason" },
  [DELETES_FOREIGN] = { "whatever has our label is ours", "a foreign pod is deleted" },
  [RESTLESS_LEDGER] = { "the ledger is written although nothing happens", "something is written" },
  [KEEPS_SURPLUS] = { "scale-down does not happen", "were asked for" },
  [NEVER_RECREATES] = { "a changed spec recreates nothing", "is not of the spec" },
  [FORGETS_PREDECESSOR] = { "pods of an earlier cluster hold no index", "still carries it|the same worker id" },
  [FORGETS_ORPHANS] = { "pods without an owner hold no index", "same replica index|the same worker id" },
  [FORGETS_GONE] = { "pods that went too soon are forgotten", "comes back under the name" },
  [WAITS_FOR_NOTHING] = { "pods do not wait for what they need", "before its token" },
  [PROTECTS_NOTHING] = { "no finalizer is added", "before the finalizer" },
  [CLEANS_NOTHING] = { "the finalizer goes without a Job", "no Job has removed its state" },
  [CLEANS_TOO_SOON] = { "the Job does not wait for the head", "may still write its state" },
  [NEVER_LETS_GO] = { "the finalizer stays", "is still held" },
  [KNOWS_NO_PATIENCE] = { "failures are tried again at once", "times within a second" },
};
const size_t sim_nmutations = ARRAY_LEN (sim_mutations);

static struct ray_op *
add_op (struct ray_plan *plan, const struct ray_op *op)
{
  plan->ops = xgrow (plan->ops, plan->nops, &plan->cap, sizeof (*plan->ops));
  plan->ops[plan->nops] = *op;
  return &plan->ops[plan->nops++];
}

static void
drop_op (struct ray_plan *plan, size_t i)
{
  memmove (&plan->ops[i], &plan->ops[i + 1], (plan->nops - i - 1) * sizeof (*plan->ops));
  plan->nops--;
}

/* The first creation of a worker, to make another like it. */
static const struct ray_op *
some_creation (const struct ray_plan *plan, bool multi_host)
{
  for (size_t i = 0; i < plan->nops; i++)
    if (plan->ops[i].kind == RAY_OP_CREATE_POD && !plan->ops[i].group->is_head
        && (!multi_host || plan->ops[i].group->hosts > 1))
      return &plan->ops[i];
  return NULL;
}

static void
make_again (struct ray_plan *plan, bool other_slice, int64_t index_step)
{
  const struct ray_op *found = some_creation (plan, other_slice && index_step == 0);
  struct ray_op op;

  if (found == NULL)
    return;
  op = *found;
  op.identity.replica_index += index_step;
  strcat (op.identity.name, "2");
  if (other_slice && op.group->hosts > 1)
    strcat (op.identity.replica_name, "2");
  if (other_slice && index_step == 0)
    op.identity.host_index = (op.identity.host_index + 1) % op.group->hosts;
  add_op (plan, &op);
}

static void
delete_some (struct ray_plan *plan, const struct ray_cluster *cluster, const struct ray_observed *observed, bool own)
{
  for (size_t i = 0; i < observed->npods; i++)
    if (ray_pod_owned (observed->pods[i], cluster) == own && observed->pods[i]->deletion_ms == 0
        && (!own || observed->pods[i]->ready))
      {
        add_op (plan, &(struct ray_op){ .kind = RAY_OP_DELETE_POD, .stage = 2, .pod = observed->pods[i], .why = "" });
        return;
      }
}

static void
spoil_plan (struct ray_plan *plan, const struct ray_cluster *cluster, const struct ray_observed *observed)
{
  for (size_t i = plan->nops; i-- > 0;)
    {
      const struct ray_op *op = &plan->ops[i];

      if ((sim->mutation == NEVER_WRITES_LEDGER && op->kind == RAY_OP_WRITE_LEDGER)
          || (sim->mutation == KEEPS_SURPLUS && op->kind == RAY_OP_DELETE_POD && strcmp (op->why, "scale down") == 0)
          || (sim->mutation == NEVER_RECREATES && text_starts_with (op->why, "the spec has changed"))
          || (sim->mutation == MISSES_LAST_HOST && op->kind == RAY_OP_CREATE_POD && op->group->hosts > 1
              && op->identity.host_index == op->group->hosts - 1))
        drop_op (plan, i);
    }
  switch (sim->mutation)
    {
    case SAME_HOST_AGAIN:
      make_again (plan, false, 0);
      break;
    case SAME_INDEX_AGAIN:
      make_again (plan, true, 0);
      break;
    case ONE_TOO_MANY:
      make_again (plan, true, 7);
      break;
    case TEARS_DOWN_HEALTHY:
      if (sim_chance (100))
        delete_some (plan, cluster, observed, true);
      break;
    case DELETES_FOREIGN:
      delete_some (plan, cluster, observed, false);
      break;
    default:
      break;
    }
}

static void
spoil_ledger (struct ray_plan *plan)
{
  static const struct ray_op write = { .kind = RAY_OP_WRITE_LEDGER, .stage = 1, .why = "" };
  struct ray_op *op;

  if (sim->mutation != RESTLESS_LEDGER)
    return;
  if (sim->quiet && plan->ledger == NULL && plan->nops == 0)
    {
      op = add_op (plan, &write);
      op->why = "";
      plan->ledger = xasprintf ("none=%u", (unsigned) sim->now_ms);
    }
}

static bool
is_overlooked (const struct ray_pod *pod, const struct ray_cluster *cluster)
{
  return (sim->mutation == IGNORES_TERMINATING && pod->deletion_ms != 0)
         || (sim->mutation == FORGETS_ORPHANS && ray_pod_orphaned (pod))
         || (sim->mutation == FORGETS_PREDECESSOR && ray_pod_of_predecessor (pod, cluster));
}

/* Copies of the digests, changed; they live as long as the history. */
static const struct ray_pod *
as_seen (const struct ray_pod *pod)
{
  struct ray_pod *copy;

  if (sim->mutation != IGNORES_DEAD || !pod->dead)
    return pod;
  sim->lies = xgrow (sim->lies, sim->nlies, &sim->lies_cap, sizeof (struct ray_pod *));
  copy = sim->lies[sim->nlies++] = xmalloc (sizeof (*copy));
  *copy = *pod;
  copy->dead = false;
  return copy;
}

void
__wrap_ray_plan_make (struct ray_plan *plan, const struct ray_cluster *cluster, const struct ray_observed *observed,
                      const struct ray_plan_options *options, int64_t now_ms)
{
  cleanup_free const struct ray_pod **pods = xcalloc (observed->npods + 1, sizeof (*pods));
  struct ray_observed seen = *observed;

  seen.pods = pods;
  seen.npods = 0;
  for (size_t i = 0; i < observed->npods; i++)
    if (!is_overlooked (observed->pods[i], cluster))
      pods[seen.npods++] = as_seen (observed->pods[i]);
  if (sim->mutation == FORGETS_GONE)
    seen.ngone = 0;
  if (sim->mutation == FORGETS_LEDGER)
    json_drop (json_get (cluster->object, "metadata", "annotations"), RAY_ANNOTATION_SLICES);
  __real_ray_plan_make (plan, cluster, &seen, options, now_ms);
  spoil_plan (plan, cluster, observed);
  spoil_ledger (plan);
}

void
__wrap_ray_plan_hold (struct ray_plan *plan, bool workers_too)
{
  if (sim->mutation != WAITS_FOR_NOTHING)
    __real_ray_plan_hold (plan, workers_too);
}

struct ray_teardown
__wrap_ray_teardown_next (const struct ray_cluster *cluster, const struct ray_options *options,
                          const struct ray_observed *observed, enum ray_job_state job, int64_t terminating_timeout_ms,
                          int64_t now_ms)
{
  static const struct
  {
    int mutation;
    enum ray_teardown_step right, wrong;
  } mistakes[] = {
    { PROTECTS_NOTHING, RAY_TEARDOWN_ADD_FINALIZER, RAY_TEARDOWN_NOTHING },
    { CLEANS_NOTHING, RAY_TEARDOWN_LOOK_AT_JOB, RAY_TEARDOWN_REMOVE_FINALIZER },
    { NEVER_LETS_GO, RAY_TEARDOWN_REMOVE_FINALIZER, RAY_TEARDOWN_NOTHING },
  };
  static const struct ray_observed nothing = { 0 };
  struct ray_teardown t = __real_ray_teardown_next (
      cluster, options, sim->mutation == CLEANS_TOO_SOON ? &nothing : observed, job, terminating_timeout_ms, now_ms);

  for (size_t i = 0; i < ARRAY_LEN (mistakes); i++)
    if (sim->mutation == mistakes[i].mutation && t.step == mistakes[i].right)
      t.step = mistakes[i].wrong;
  return t;
}

void
__wrap_kube_queue_retry (struct kube_queue *q, const char *key)
{
  if (sim->mutation == KNOWS_NO_PATIENCE)
    kube_queue_add (q, key);
  else
    __real_kube_queue_retry (q, key);
}
