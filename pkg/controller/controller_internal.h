/* controller_internal.h - what the files of pkg/controller share: the cache of digests, a snapshot of one cluster, one
 * pass. */
#ifndef CONTROLLER_INTERNAL_H
#define CONTROLLER_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "controller/controller.h"

/* ---- recent.c ---- */

/* Names of pods that were there a moment ago. Bounded in number and in time. */
struct recent
{
  struct recent_name *names; /* oldest first */
  size_t count, cap;
};
void recent_add (struct recent *recent, const char *name, int64_t now_ms);
/* Those that are not too old, in one allocation; *count: how many. NULL when there are none. */
const char **recent_copy (const struct recent *recent, int64_t now_ms, size_t *count);
void recent_free (struct recent *recent);

/* ---- the cache: cache.c, cache_item.c, cache_view.c, cache_notes.c ---- */

enum cache_kind
{
  CACHE_CLUSTER,
  CACHE_POD,
  CACHE_SERVICE,
  CACHE_CHILD, /* the other owned objects */
  CACHE_KIND_MAX
};

/* One informer's view of the server. An object is known for as long as one source has it: until the watch, or a newer
 * list, of each that brought it lets it go. */
enum
{
  CACHE_VIEWS = 2 /* sources that may have the same object */
};
struct cache_source
{
  enum cache_kind kind;
  unsigned view;               /* tells it from the others of its kind that may have the same objects */
  enum ray_child_kind child;   /* of CACHE_CHILD */
  const char *namespace;       /* NULL: all */
  const char *label;           /* only objects that have it; NULL: all */
  unsigned epoch;              /* counts its lists */
  bool listing;                /* a list is under way */
  uint64_t progress;           /* everything up to this version has been seen */
  unsigned begun_in, known_in; /* past of the server (cache.pasts) in which its list began, and its last one ended */
  uint64_t contradicted;       /* oldest known version that the list under way has an older one for; 0: none */
};

/* A cached object: immutable once it is in, so that a snapshot needs only a reference. */
struct cache_item;

struct cache;
struct cache *cache_new (void);
void cache_free (struct cache *cache);

/* Called when something about a cluster changed, other than its status alone; the key is "namespace/name". Runs without
 * the cache's lock. */
typedef void (*cache_changed_fn) (void *data, const char *cluster_key, enum cache_kind kind);
void cache_on_change (struct cache *cache, cache_changed_fn fn, void *data);

void cache_upsert (struct cache *cache, struct cache_source *source, const cJSON *object, uint64_t version);
void cache_remove (struct cache *cache, struct cache_source *source, const cJSON *object, uint64_t version);
void cache_list_begin (struct cache *cache, struct cache_source *source);
/* False when the server has gone back in time, as kube_informer_handler says: what is known stays, but the next list
 * has the say. *news: no other source has said so. */
bool cache_list_end (struct cache *cache, struct cache_source *source, uint64_t version, bool *news);
/* Whether the source has listed since the server last went back in time. */
bool cache_is_current (struct cache *cache, const struct cache_source *source);
void cache_progress (struct cache *cache, struct cache_source *source, uint64_t version);

/* Takes over the object in an API answer, so that the next pass sees its own writes although the watch lags. Ignored
 * when the watch is already past it. */
void cache_observe (struct cache *cache, struct cache_source *source, const cJSON *object);

/* What is known of one cluster at one moment. */
struct cache_snapshot
{
  struct cache_item *cluster; /* NULL: there is no such RayCluster */
  const char *text;           /* its JSON */
  size_t len;
  struct ray_observed observed;
  const struct ray_child_seen **children;
  size_t nchildren;
  struct cache_item **items; /* references held */
  size_t nitems;
  struct cache *cache;
};
void cache_snapshot_take (struct cache *cache, const char *key, struct cache_snapshot *snapshot);
void cache_snapshot_drop (struct cache_snapshot *snapshot);
#define cleanup_snapshot __attribute__ ((cleanup (cache_snapshot_drop)))

void cache_each_cluster (struct cache *cache, void (*fn) (void *data, const char *key), void *data);
void cache_describe_clusters (struct cache *cache, controller_cluster_fn fn, void *data); /* with the cache locked */
void cache_counts (struct cache *cache, size_t counts[CACHE_KIND_MAX]);

/* When this cluster's status was last written (monotonic ms; 0: never), so that writes can be spaced. */
int64_t cache_status_time (struct cache *cache, const char *key);
void cache_set_status_time (struct cache *cache, const char *key, int64_t mono_ms);

/* What is remembered of one owned object, under "plural/name", for as long as its cluster is known: that it is as it
 * should be, or cannot be made so. */
struct cache_memo
{
  uint64_t version, hash;         /* of the live object when it was last right, and of the wish it was compared with */
  int64_t checked_ms, written_ms; /* monotonic; 0: never */
  int64_t refused_ms;             /* when only somebody else could help; then there is no version and hash */
};
bool cache_memo_get (struct cache *cache, const char *key, const char *id, struct cache_memo *memo);
void cache_memo_set (struct cache *cache, const char *key, const char *id, const struct cache_memo *memo);

/* Pods of a cluster that may exist or not: the answer to their creation was lost. As long as the spec stays the same
 * their names say who they are, but a plan for another spec, or for another cluster of that name, would not know of
 * them; so each is asked for before the next plan. */
void cache_doubt_add (struct cache *cache, const char *key, const char *pod);
char *cache_doubt_any (struct cache *cache, const char *key); /* owned by the caller; NULL: none */
void cache_doubt_drop (struct cache *cache, const char *key, const char *pod);

/* ---- controller.c, sources.c ---- */

struct source; /* a cache_source with its informer */

struct controller
{
  struct controller_options options;
  struct kube_selector *selector; /* of RayClusters; NULL: all */
  struct cache *cache;
  struct kube_queue *queue;
  struct source *sources;
  size_t nsources;
  pthread_t *threads;
  int nthreads;
  atomic_bool stopping_sources;
  atomic_bool children_watched;
  atomic_int_least64_t children_since_ms; /* monotonic; 0: not yet */
  atomic_bool active;                     /* leader, and not stopping */
  atomic_uint term; /* counts the times it became active: what was begun in an earlier one is not gone on with */

  pthread_mutex_t stats_lock;
  struct controller_stats stats;
};

/* A controller without threads and sources: controller_start adds both; the simulation (tests/sim) adds its own. */
struct controller *controller_new (const struct controller_options *options);
/* What a worker does with a key it got from the queue, up to and including kube_queue_done. */
void controller_work (struct controller *c, const char *key);

/* Hands the object of an API answer to the cache, through the source that watches its like. */
void controller_observe (struct controller *c, enum cache_kind kind, const cJSON *object);
void controller_observe_child (struct controller *c, enum ray_child_kind child, const cJSON *object);
/* Whether it may write: it is active, and the lease has not run out without anybody having said so yet. */
bool controller_leads (const struct controller *c);
bool controller_in_term (const struct controller *c, unsigned term); /* the same, for what was begun in this term */
void controller_start_sources (struct controller *c);
void controller_start_child_sources (struct controller *c); /* once; only who has a RayCluster needs them */
/* Whether they have listed what exists, or there is no use in waiting for that. */
bool controller_children_known (const struct controller *c);
void controller_stop_sources (struct controller *c);
bool controller_sources_synced (const struct controller *c, struct error *why);
int64_t controller_sources_stale_ms (const struct controller *c); /* as in controller_stats */
void controller_count (struct controller *c, uint64_t *counter, uint64_t n);

/* ---- requests.c ---- */

char *
controller_delete_body (const char *uid); /* DeleteOptions for the object with this uid alone. Owned by the caller */
/* What every request of a pass has: it is the leader's alone, and a look at an object is short and not for any price.
 */
void controller_bound (struct kube_request *request);
/* kube_do for passes: nothing is sent without leading, however long the request waits for its turn, nor in another term
 * than the one in which the pass began. */
void controller_request (struct controller *c, unsigned term, const struct kube_request *request,
                         struct kube_response *response);

/* ---- apply.c ---- */

/* What applying one plan came to. */
struct applied
{
  uint64_t created_heads, created_workers, deleted_heads, deleted_workers;
  struct ray_failure failure; /* the first, with `message` in text below */
  char failure_text[4096];    /* answers of the API server can be long */
  bool unfinished;            /* operations are left for the next pass */
  bool conflict;              /* our picture was old: look again soon */
};

/* Sends the plan's operations, stage by stage, each stage in parallel. `cautious`: the last pass failed, so try one
 * create before the others. */
void apply_plan (struct controller *c, const struct ray_cluster *cluster, struct ray_plan *plan, unsigned term,
                 bool cautious, struct applied *applied);

/* ---- children.c ---- */

/* What the owned objects other than pods came to. */
struct children_result
{
  enum ray_child_gate gate; /* of what is not there: what must wait */
  struct ray_failure failure;
  char failure_text[1024];
  bool failed; /* something is to be tried again, whether pods wait for it or not */
  int64_t requeue_ms;
};

/* Makes what is missing, repairs what differs, deletes what is not desired any more. */
void children_apply (struct controller *c, unsigned term, const struct ray_cluster *cluster,
                     const struct cache_snapshot *snapshot, struct children_result *result);

/* ---- children_prune.c ---- */

/* Deletes what the cluster owns, we have made, and it asks for no longer. False when something is left to be tried. */
bool children_prune (struct controller *c, unsigned term, const struct ray_cluster *cluster,
                     const struct cache_snapshot *snapshot, const struct ray_children *desired);

/* ---- teardown.c ---- */

/* What happens to the key next. */
struct teardown_result
{
  bool retry;         /* after the queue's backoff */
  int64_t requeue_ms; /* look again after this long; 0: no need */
};

/* The finalizer of clusters that keep state in Redis. True when the pass ends with it: the cluster is being deleted, or
 * its finalizer has just been written. */
bool teardown_run (struct controller *c, unsigned term, const struct ray_cluster *cluster,
                   const struct ray_observed *observed, struct teardown_result *result);

/* ---- report.c ---- */

void report_applied (struct controller *c, const struct ray_cluster *cluster, const struct ray_plan *plan,
                     const struct applied *applied);
void report_op_failure (struct controller *c, const struct ray_cluster *cluster, const struct ray_op *op,
                        const char *message);
/* An event about the cluster, and a line in the log. `reason` may be made on the stack. */
void report_event (struct controller *c, const struct ray_cluster *cluster, enum kube_event_type type,
                   const char *reason, const char *action, const char *note);
void report_problems (struct controller *c, const struct ray_cluster *cluster, const struct ray_problems *problems);
/* An event for each reason in a row. */
void report_warnings (struct controller *c, const struct ray_cluster *cluster, const struct ray_problems *warnings);

/* ---- reconcile.c ---- */

/* One pass over one cluster; decides by itself what happens to its key next. */
enum controller_result reconcile_cluster (struct controller *c, const char *key);

#endif
