/* history.c - one history: a while of trouble, then peace, in which all must come to what was asked for and to rest. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "sim.h"

/* What peace may take: a pod that terminates holds its index for its grace period and the timeout (30 s each), the
 * longest backoff is 60 s, a cluster that is not ready is looked at every 30 s. Below the 300 s of the resync of ready
 * clusters: nothing may depend on that one. */
#define SETTLE_MS 240000
/* A RayCluster that is deleted in the foreground loses its cleanup Job to the garbage collector, and is held for 300 s.
 */
#define SETTLE_DELETION_MS 400000
/* More than two of the longest resyncs (300 s), two dozen of the others. */
#define REST_MS 700000
#define WARM_UP_MS 2000
#define CALM_STEPS_MAX 5000 /* of each of the two phases of peace; 400 is much */

struct sim *sim;

/* ---- chance and words ---- */

uint64_t
sim_random (void)
{
  uint64_t z = sim->random += 0x9e3779b97f4a7c15ULL; /* splitmix64 */

  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

size_t
sim_pick (size_t n)
{
  return (size_t) (sim_random () % n);
}

bool
sim_chance (unsigned per_mille)
{
  return sim_random () % 1000 < per_mille;
}

void
sim_note (const char *fmt, ...)
{
  va_list args;

  fprintf (stderr, "%8lld.%03d  ", (long long) (sim->now_ms / 1000), (int) (sim->now_ms % 1000));
  va_start (args, fmt);
  vfprintf (stderr, fmt, args);
  va_end (args);
  fputc ('\n', stderr);
}

void
sim_fail (const char *fmt, ...)
{
  va_list args;

  if (sim->failure[0] != '\0')
    return;
  va_start (args, fmt);
  vsnprintf (sim->failure, sizeof (sim->failure), fmt, args);
  va_end (args);
  sim_trace ("FAILED: %s", sim->failure);
}

/* ---- trouble ---- */

static unsigned
one_of (const unsigned *values, size_t n)
{
  return values[sim_pick (n)];
}
#define ONE_OF(...)                                                                                                    \
  one_of ((const unsigned[]){ __VA_ARGS__ }, sizeof ((const unsigned[]){ __VA_ARGS__ }) / sizeof (unsigned))

static void
draw_temper (void)
{
  sim->overlap = sim_chance (250);
  sim->temper = (struct temper){
    .serve = ONE_OF (10, 40),
    .deliver = ONE_OF (10, 40),
    .work = ONE_OF (10, 30),
    .watch = ONE_OF (3, 15, 60),
    .nodes = ONE_OF (5, 20),
    .user = ONE_OF (1, 2, 5),
    .time = ONE_OF (3, 10),
    .operators = ONE_OF (0, 1, 3),
    .misfortune = ONE_OF (10, 60, 200),
    .lost_before = ONE_OF (0, 0, 20, 150),
    .lost_after = ONE_OF (0, 0, 20, 150),
    .repeat = ONE_OF (0, 0, 50),
    .error = ONE_OF (0, 0, 30, 200),
    .throttle = ONE_OF (0, 0, 50),
    /* Beside a stale leader even a name cannot save a host that had to take another one. */
    .taken = sim->overlap ? 0 : ONE_OF (0, 0, 0, 40),
    .steps = 150 + (unsigned) sim_pick (350),
  };
}

static struct operator* some_operator (void)
{
  size_t i = sim_pick (2);

  return sim->operators[i] ? sim->operators[i] : sim->operators[1 - i];
}

static void
step_watch (void)
{
  struct operator* op = some_operator ();
  struct kube_informer *inf;

  if (op == NULL)
    return;
  inf = op->informers[sim_pick (op->ninformers)];
  if (sim_chance (10))
    informer_expire (inf);
  else if (sim_chance (20))
    informer_fail_list (inf);
  else if (!informer_step (inf) && sim_chance (300))
    informer_bookmark (inf);
}

static void
step_work (void)
{
  struct operator* op = some_operator ();

  if (op != NULL)
    operator_work (op);
}

static void
step_time (void)
{
  static const int64_t spans[] = { 5, 30, 200, 1000, 10000, 40000 };

  sim->now_ms += 1 + (int64_t) sim_pick ((size_t) spans[sim_pick (ARRAY_LEN (spans))]);
}

static void
drop_operator (size_t i)
{
  struct operator* op = sim->operators[i];

  sim->operators[i] = NULL;
  if (op != NULL)
    operator_crash (op);
}

/* One operator at a time: it crashes and is started again, or loses and regains the lease. */
static void
disturb_sole (void)
{
  struct operator* op = sim->operators[0];

  if (op == NULL)
    {
      sim->operators[0] = operator_start ();
      operator_activate (sim->operators[0]);
    }
  else if (sim_chance (600))
    drop_operator (0);
  else if (op->active)
    operator_deactivate (op);
  else
    operator_activate (op);
}

/* Two of them: each may lead whatever the other does, and neither knows of the other. */
static void
disturb_pair (void)
{
  size_t i = sim_pick (2);
  struct operator* op = sim->operators[i];

  if (op == NULL)
    sim->operators[i] = operator_start ();
  else if (!op->active)
    operator_activate (op);
  else if (sim_chance (300))
    drop_operator (i);
  else
    operator_deactivate (op);
}

static void
step_operators (void)
{
  (sim->overlap ? disturb_pair : disturb_sole) ();
}

/* Somebody edits the quota of the namespace, or a policy comes and goes. */
static void
step_policies (void)
{
  if (sim_chance (500))
    {
      sim->quota = sim_chance (500) ? QUOTA_NONE : (int64_t) sim_pick (16);
      sim_trace ("a quota of %lld pods", (long long) sim->quota);
    }
  else
    sim->denied = !sim->denied && sim_chance (300);
}

static void
step_serve (void)
{
  call_serve_one ();
}

static void
step_deliver (void)
{
  call_deliver_one ();
}

static void
step_garbage (void)
{
  collect_garbage ();
}

static void
step_trouble (void)
{
  const struct temper *t = &sim->temper;
  const struct
  {
    unsigned weight;
    void (*step) (void);
  } steps[] = {
    { t->serve, step_serve },         { t->deliver, step_deliver }, { t->work, step_work }, { t->watch, step_watch },
    { t->nodes, nodes_step },         { t->user, user_step },       { t->time, step_time }, { 2, step_garbage },
    { t->operators, step_operators }, { 1, step_policies },
  };
  size_t total = 0, choice;

  for (size_t i = 0; i < ARRAY_LEN (steps); i++)
    total += steps[i].weight;
  choice = sim_pick (total);
  for (size_t i = 0; i < ARRAY_LEN (steps); i++)
    {
      if (choice < steps[i].weight)
        {
          steps[i].step ();
          break;
        }
      choice -= steps[i].weight;
    }
  sim->steps++;
}

/* ---- peace ---- */

static bool drain_watches (struct operator* op)
{
  bool busy = false;

  for (size_t i = 0; i < op->ninformers; i++)
    busy |= informer_step (op->informers[i]);
  return busy;
}

/* Everything that can happen at this moment, in an order of chance. */
static bool
step_calm (void)
{
  struct operator* op = sim->operators[0];
  size_t first = sim_pick (6);
  bool busy = false;

  for (size_t i = 0; i < 6; i++)
    switch ((first + i) % 6)
      {
      case 0:
        busy |= call_serve_one ();
        break;
      case 1:
        busy |= call_deliver_one ();
        break;
      case 2:
        busy |= drain_watches (op);
        break;
      case 3:
        busy |= operator_work (op);
        break;
      case 4:
        busy |= nodes_calm ();
        break;
      default:
        busy |= collect_garbage () || user_calm ();
      }
  return busy;
}

/* Lets time pass up to until_ms, from one thing that is due to the next. */
static void
live_until (int64_t until_ms)
{
  struct operator* op = sim->operators[0];

  for (int n = 0; n < CALM_STEPS_MAX; n++)
    {
      int64_t next_ms;

      sim->steps++;
      if (sim->failure[0] != '\0')
        return;
      if (step_calm ())
        continue;
      next_ms = op->next_ms == INT64_MAX ? INT64_MAX : sim->now_ms + op->next_ms - clock_mono_ms ();
      if (next_ms > until_ms)
        {
          sim->now_ms = until_ms;
          return;
        }
      if (next_ms > sim->now_ms)
        sim->now_ms = next_ms;
    }
  sim_fail ("no rest: %d steps, and still something is going on", CALM_STEPS_MAX);
}

/* A quota that is just enough: for what is asked for and for what is there and will stay, other people's pods and those
 * of dead nodes. Where an autoscaler has the say the operator may be left with more, and no quota is just enough. */
static int64_t
tight_quota (void)
{
  int64_t n = 0;

  for (size_t i = 0; i < sim->nobjects; i++)
    {
      const struct object *object = sim->objects[i];

      if (object->kind == KIND_CLUSTER && object->now->cluster->autoscaling)
        return QUOTA_NONE;
      if (object->kind == KIND_CLUSTER)
        n += 1 + ray_cluster_desired_workers (object->now->cluster);
      n += object->kind == KIND_POD && (object->foreign || (object->node >= 0 && sim->node_dead[object->node]));
    }
  return n;
}

/* The user does as the operator says. */
static void
remove_orphans (void)
{
  for (size_t i = sim->nobjects; i-- > 0;)
    {
      const struct object *object = sim->objects[i];

      if (object->foreign && object->now->pod != NULL && ray_pod_orphaned (object->now->pod))
        server_remove (sim->objects[i]);
    }
}

/* The faults end; one operator is left, the old one or a new one; dead nodes come back, or stay dead for ever. */
static void
make_peace (void)
{
  sim_trace ("peace");
  sim->calm = true;
  sim->denied = false;
  remove_orphans ();
  if (sim_chance (500))
    memset (sim->node_dead, 0, sizeof (sim->node_dead));
  sim->node_dead[0] = false; /* somewhere pods must be able to run */
  sim->quota = sim_chance (500) ? QUOTA_NONE : tight_quota ();
  sim_trace ("a quota of %lld pods", (long long) sim->quota);
  drop_operator (1);
  if (sim->operators[0] == NULL)
    sim->operators[0] = operator_start ();
  if (!sim->operators[0]->active)
    operator_activate (sim->operators[0]);
}

/* Trouble finds clusters that are complete, not only such as never get off the ground. */
static void
warm_up (void)
{
  sim->calm = true;
  live_until (sim->now_ms + WARM_UP_MS);
  sim->calm = false;
}

static int64_t
settle_ms (void)
{
  for (size_t i = 0; i < sim->nobjects; i++)
    if (sim->objects[i]->kind == KIND_CLUSTER && sim->objects[i]->now->cluster->deleting
        && json_has_finalizer (sim->objects[i]->now->json, RAY_FINALIZER_REDIS))
      return SETTLE_DELETION_MS;
  return SETTLE_MS;
}

static void
play (void)
{
  draw_temper ();
  user_begin ();
  sim->operators[0] = operator_start ();
  operator_activate (sim->operators[0]);
  if (sim_chance (600))
    warm_up ();
  for (unsigned n = 0; n < sim->temper.steps && sim->failure[0] == '\0'; n++)
    step_trouble ();
  if (sim->failure[0] != '\0')
    return;
  make_peace ();
  live_until (sim->now_ms + settle_ms ());
  if (sim->failure[0] == '\0')
    check_settled ();
  sim->quiet = true;
  if (sim->failure[0] == '\0')
    live_until (sim->now_ms + REST_MS);
}

void
sim_run (uint64_t seed, int mutation, bool verbose, struct sim_result *result)
{
  struct sim history = { .seed = seed, .random = seed, .mutation = mutation, .verbose = verbose, .quota = QUOTA_NONE };

  sim = &history;
  play ();
  drop_operator (0);
  drop_operator (1);
  calls_free ();
  server_free ();
  free (history.slices);
  free (history.known);
  free (history.sent);
  for (size_t i = 0; i < history.nlies; i++)
    free (history.lies[i]);
  free (history.lies);
  *result = (struct sim_result){ .steps = history.steps, .writes = history.writes, .passes = history.passes };
  memcpy (result->failure, history.failure, sizeof (result->failure));
  sim = NULL;
}
