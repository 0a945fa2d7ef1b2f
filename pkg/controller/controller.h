/* controller.h - the reconcile shell: observe (informers into a cache of digests) -> plan (pkg/ray, pure) -> apply
 * (batches of parallel requests) -> status. Level-triggered: a pass never asks which event woke it. Not here: any
 * decision about a RayCluster. */
#ifndef CONTROLLER_CONTROLLER_H
#define CONTROLLER_CONTROLLER_H

#include "kube/kube.h"
#include "ray/ray.h"

struct controller;

struct controller_options
{
  struct kube_client *client;
  struct kube_client *watch_client; /* for lists and watches; NULL: client */
  struct kube_events *events;       /* may be NULL: no events */
  const char *const *namespaces;    /* watched namespaces; none: all */
  size_t nnamespaces;
  const char *selector; /* RayClusters with these labels (kube/selector.h; checked); NULL or "": all */
  int workers;          /* reconcile threads; 0: 4 */
  int64_t resync_ms;    /* a cluster is looked at this often even if nothing happens; 0: 300 s */
  int64_t stale_ms;     /* a mirror that has stood still for so long is none any more; 0: 60 s */
  struct ray_options ray;
  struct ray_plan_options plan;
};

/* Starts the informers at once and the workers paused: they begin with controller_activate. */
struct controller *controller_start (const struct controller_options *options);
void controller_activate (struct controller *c);   /* became leader: every known cluster is looked at */
void controller_deactivate (struct controller *c); /* lost the lease: no further write is sent */
bool controller_synced (const struct controller *c,
                        struct error *why);  /* all lists are complete and are kept up; why not otherwise */
void controller_stop (struct controller *c); /* ends passes after their requests in flight; frees. NULL is fine */

#define CONTROLLER_BUCKETS 14
extern const int64_t controller_bucket_us[CONTROLLER_BUCKETS]; /* upper bounds; the last is INT64_MAX */

enum controller_result
{
  CONTROLLER_OK,
  CONTROLLER_REQUEUED,
  CONTROLLER_FAILED,
  CONTROLLER_INVALID,
  CONTROLLER_RESULT_MAX
};

struct controller_stats
{
  uint64_t reconciles[CONTROLLER_RESULT_MAX];
  uint64_t duration[CONTROLLER_BUCKETS]; /* of passes; not cumulative */
  uint64_t duration_sum_us;
  uint64_t pods_created, pods_deleted, status_writes, failures;
  size_t clusters, pods, services; /* in the cache */
  int64_t stale_ms;                /* for how long the watch that has failed longest has done so; 0: all work */
  struct kube_queue_stats queue;
};
void controller_stats (struct controller *c, struct controller_stats *stats);
/* What dashboards ask of each RayCluster; kept ready, so that a scrape parses nothing. */
#define CONTROLLER_UID_SIZE 40
#define CONTROLLER_KIND_SIZE 64
struct controller_cluster
{
  const char *namespace; /* namespace_len bytes, not ended */
  int namespace_len;
  const char *name, *uid;
  const char *owner_kind;       /* label ray.io/originated-from-crd, "None" without it */
  bool provisioned;             /* condition RayClusterProvisioned is True */
  int64_t provisioned_after_ms; /* from creation to when that last became so; -1: it is not */
};
/* Calls fn for every RayCluster in the cache, in no order, while the cache is locked: be quick, call nothing here. */
typedef void (*controller_cluster_fn) (void *data, const struct controller_cluster *cluster);
void controller_each_cluster (struct controller *c, controller_cluster_fn fn, void *data);

const char *controller_result_name (enum controller_result result); /* "success", "requeue", "error", "invalid" */

#endif
