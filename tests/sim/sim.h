/* sim.h - deterministic simulation: the controller's real code (pkg/controller, pkg/ray, the work queue) against a
 * model of everything around it, in one thread, on a virtual clock. One seed is one history: `sim_run` plays it and
 * says what went wrong first. The seam is the linker: pkg/kube's client and informers are replaced by transport.c and
 * watch.c, the clock and the planner's entry by wrappers (link.c).
 *
 * Two classes of history:
 *  - sole: at any time one operator at the most can have an effect; it may crash at any request and a successor lists
 *    anew. Every invariant of check.c holds after every step.
 *  - overlap: an old leader goes on for a while beside a new one whose watches lag, and requests of the dead arrive
 * late. Nobody can promise then that two different incarnations of a slice are never alive together; what holds is that
 * no host of one incarnation exists twice, that no slice is touched whose hosts an operator has all heard of, that
 * foreign pods are untouched, and that all is well again soon after. */
#ifndef SIM_H
#define SIM_H

#include "controller/controller_internal.h"
#include "ray/teardown.h"

#define SIM_NAMESPACE "ns"
#define SIM_NODES 4
#define SIM_WORKERS 2
#define SIM_INFORMERS 16
#define SIM_GRACE_MS 30000
#define QUOTA_NONE INT64_MAX

enum kind
{
  KIND_CLUSTER,
  KIND_POD,
  KIND_CHILD, /* + enum ray_child_kind: Services and the other owned objects */
  KIND_SERVICE = KIND_CHILD + RAY_CHILD_SERVICE,
  KIND_SECRET = KIND_CHILD + RAY_CHILD_SECRET,
  KIND_JOB = KIND_CHILD + RAY_CHILD_KIND_MAX,
  KIND_MAX
};
const char *kind_plural (enum kind kind);
enum kind kind_of_plural (const char *plural); /* KIND_MAX: none */

/* One state of one object, immutable; shared by the store and the log of changes. */
struct revision
{
  int refs;
  uint64_t rv;
  enum kind kind;
  cJSON *json;
  struct ray_pod *pod;         /* digest; NULL when it is no labelled pod */
  struct ray_cluster *cluster; /* decoded */
};

struct object
{
  enum kind kind;
  char name[128], uid[16];
  int node; /* pods: where they run, -1: nowhere yet */
  bool foreign;
  struct revision *now;
};

struct change
{
  enum kind kind;
  uint64_t rv;
  int64_t ms;
  struct revision *before, *after; /* NULL: created, removed */
};

/* ---- fiber.c: coroutines, so that the world goes on while a pass waits for an answer ---- */

struct fiber;
struct fiber *fiber_start (void (*run) (void *data), void *data); /* runs it until it waits or ends */
bool fiber_ended (const struct fiber *fiber);
void fiber_resume (struct fiber *fiber); /* runs it until it waits again or ends */
void fiber_wait (void);                  /* inside: gives way */
void fiber_free (struct fiber *fiber);

#define SIM_FINALIZER_FOREGROUND "foregroundDeletion"
bool json_has_finalizer (const cJSON *object, const char *finalizer);

/* ---- an operator process ---- */

struct operator;

struct worker
{
  struct operator* op;
  struct fiber *fiber; /* NULL: idle */
  char *key;
  uint64_t cluster_view, pod_view; /* what the watches had brought when this pass began, at the least */
  uint64_t began;                  /* the step */
};

struct kube_client
{
  struct operator* op;
};

struct operator
{
  int number;
  struct kube_client client;
  struct controller *controller;
  struct worker workers[SIM_WORKERS];
  struct kube_informer *informers[SIM_INFORMERS];
  size_t ninformers;
  int64_t next_ms; /* when its queue has a key again, as of the last operator_work that found none */
  bool active;
  bool cut_off; /* crashed or aborted: nothing it asks for gets out, nothing comes back */
};

struct operator* operator_start (void);
void operator_activate (struct operator* op);
void operator_deactivate (struct operator* op); /* lost the lease */
void operator_crash (struct operator* op);      /* and frees it */
bool operator_work (struct operator* op);       /* an idle worker takes a ready key; false: none */

/* ---- transport.c ---- */

enum call_state
{
  CALL_SENT,     /* on its way, or waiting at the server */
  CALL_SERVED,   /* the answer is on its way */
  CALL_ANSWERED, /* for its fiber to take */
};

struct call
{
  struct operator* op; /* NULL: of a process that is no more */
  struct worker *worker;
  enum call_state state;
  enum kube_verb verb;
  char *path;
  cJSON *body;
  struct kube_response response;
  char key[128]; /* of the pass */
  uint64_t cluster_view, pod_view, pass_began;
};

bool call_serve_one (void);   /* false: none waits */
bool call_deliver_one (void); /* false: none waits */
void calls_cut_off (struct operator* op);
void calls_free (void);

/* ---- watch.c ---- */

bool informer_step (struct kube_informer *informer); /* the next thing it hears; false: nothing new */
void informer_bookmark (struct kube_informer *informer);
void informer_expire (struct kube_informer *informer); /* 410: it lists again */
void informer_fail_list (struct kube_informer *informer);
uint64_t informer_seen (const struct operator* op, enum kind kind);

/* ---- server.c ---- */

struct object *server_find (enum kind kind, const char *name);
struct object *server_create (enum kind kind, cJSON *json); /* takes json; completes its metadata */
void server_put (struct object *object, cJSON *json);       /* the next version; takes json */
cJSON *server_copy (const struct object *object);           /* to change and put */
void server_delete (struct object *object);                 /* as DELETE does: gracefully where the kind has it */
void server_remove (struct object *object);
void server_serve (struct call *call); /* carries out the request and fills call->response */
void server_refuse (struct call *call, int status, const char *reason);
void server_free (void);
bool server_finish (struct object *object); /* removes what is being deleted and held by no finalizer */
bool server_cluster_exists (const char *uid);
int64_t server_pods_under_quota (void); /* of which the quota speaks: all that have not ended */
void revision_unref (struct revision *version);

/* ---- nodes.c: kubelets, node failures, garbage collection, other people's pods ---- */

void nodes_step (void);      /* something happens to one pod or node */
bool nodes_calm (void);      /* everything that should happen happens; false: nothing left now */
bool collect_garbage (void); /* one orphan; false: none */
void nodes_foreign_pod (const char *name);

/* ---- user.c ---- */

void user_begin (void);
void user_step (void);
/* An answer about this cluster was lost, and its user changes things that matter: the next plan will be another. */
void user_step_at_worst (const char *cluster);
bool user_calm (void); /* finishes what was begun: deleted clusters go, missing ones come; false: nothing to do */

/* ---- check.c ---- */

struct slice_record
{
  char uid[16], group[32], key[64];
  int index;
  bool recorded;      /* the ledger on the server said "complete" while it lived */
  uint64_t broken_rv; /* when it last lost a host, 0: never */
};

struct known_pod
{
  char uid[16];
  int operator_number;
  uint64_t step; /* when it first heard of it */
};

struct sent
{
  uint64_t what; /* a hash of who, the verb and the object */
  int64_t ms;
};

void check_known (const struct operator* op, const struct revision *pod); /* its watch tells it of the pod */
void check_pod_changed (const struct change *change);
void check_cluster_changed (const struct change *change);
void check_create (const struct call *call, const struct object *pod);
void check_delete (const struct call *call, const struct object *pod); /* before it happens */
void check_write (const struct call *call);                            /* when it is sent */
/* Before a RayCluster becomes what `json` says. */
void check_patch (const struct object *cluster, const cJSON *json);
void check_settled (void);

/* ---- history.c ---- */

struct temper /* how this history likes to go: weights and rates, drawn from the seed */
{
  unsigned serve, deliver, work, watch, nodes, user, time, operators;
  unsigned lost_before, lost_after, repeat, error, throttle, taken; /* per mille of requests */
  unsigned misfortune;                                              /* per mille of what happens to running pods */
  unsigned steps;
};

struct sim
{
  uint64_t seed, random;
  bool verbose, overlap, calm, quiet;
  int mutation;
  struct temper temper;
  int64_t now_ms;

  struct object **objects;
  size_t nobjects, objects_cap;
  struct change *log;
  size_t nlog, log_cap;
  uint64_t rv;
  unsigned uids;
  int64_t quota; /* pods that may be in the namespace at one time; QUOTA_NONE: any number */
  bool denied;
  bool node_dead[SIM_NODES];

  struct call **calls;
  size_t ncalls, calls_cap;
  struct operator* operators[2];
  int operators_started;
  struct worker *running;

  struct slice_record *slices;
  size_t nslices, slices_cap;
  struct sent *sent;
  size_t nsent, sent_cap;
  struct known_pod *known;
  size_t nknown, known_cap;
  struct ray_pod **lies; /* digests a mutation made up */
  size_t nlies, lies_cap;
  uint64_t steps, writes, passes;
  char failure[512];
};
extern struct sim *sim; /* the one history that is being played */

struct sim_result
{
  char failure[512]; /* "" when all went well */
  uint64_t steps, writes, passes;
};
void sim_run (uint64_t seed, int mutation, bool verbose, struct sim_result *result);

uint64_t sim_random (void);
size_t sim_pick (size_t n); /* [0, n) */
bool sim_chance (unsigned per_mille);
void sim_fail (const char *fmt, ...) __attribute__ ((format (printf, 1, 2))); /* the first one counts */
void sim_note (const char *fmt, ...) __attribute__ ((format (printf, 1, 2))); /* a line of the trace */
#define sim_trace(...)                                                                                                 \
  do                                                                                                                   \
    {                                                                                                                  \
      if (sim->verbose)                                                                                                \
        sim_note (__VA_ARGS__);                                                                                        \
    }                                                                                                                  \
  while (0)

/* ---- link.c: mutations of the planner, each a mistake an invariant is there for ---- */

struct mutation
{
  const char *name, *caught_by; /* words of the failure it must bring about */
};
extern const struct mutation sim_mutations[]; /* [0] is none */
extern const size_t sim_nmutations;

#endif
