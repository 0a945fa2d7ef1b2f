/* teardown.h - the end of a RayCluster whose GCS keeps its state in Redis (§2.2): a finalizer holds the object until a
 * Job has removed that state, or a bounded time has passed. */
#ifndef RAY_TEARDOWN_H
#define RAY_TEARDOWN_H

#include "ray/plan.h"

#define RAY_FINALIZER_REDIS "ray.io/gcs-ft-redis-cleanup-finalizer"
#define RAY_ANNOTATION_DELETION_TIMEOUT "ray.io/gcs-ft-deletion-timeout" /* seconds, a positive whole number */
#define RAY_DELETION_TIMEOUT_MS 300000                                   /* without it */

enum ray_job_state
{
  RAY_JOB_UNKNOWN, /* not looked at: ray_teardown_next says when it must be */
  RAY_JOB_ABSENT,
  RAY_JOB_RUNNING,
  RAY_JOB_FINISHED,  /* well or not: nobody tries again */
  RAY_JOB_FORBIDDEN, /* cannot be made: the namespace is being deleted */
};

enum ray_teardown_step
{
  RAY_TEARDOWN_NOTHING,       /* nothing of ours is to be done: the cluster lives, or the garbage collector does it */
  RAY_TEARDOWN_ADD_FINALIZER, /* before any pod is made */
  RAY_TEARDOWN_DELETE_PODS,   /* all owned pods that are not being deleted yet; then look again */
  RAY_TEARDOWN_WAIT,          /* for pods or the Job to end */
  RAY_TEARDOWN_LOOK_AT_JOB,   /* read it and ask again */
  RAY_TEARDOWN_CREATE_JOB,
  RAY_TEARDOWN_REMOVE_FINALIZER,
};

struct ray_teardown
{
  enum ray_teardown_step step;
  bool forced;        /* the finalizer goes although the state may still be in Redis: say so */
  const char *why;    /* forced: the reason */
  int64_t requeue_ms; /* look again after this long; 0: no need */
};

/* `terminating_timeout_ms`: how long past its deadline a Terminating head may hold things up (a dead node's stays for
 * ever, and upstream then waits for ever: kuberay#3388, #4767). */
struct ray_teardown ray_teardown_next (const struct ray_cluster *cluster, const struct ray_options *options,
                                       const struct ray_observed *observed, enum ray_job_state job,
                                       int64_t terminating_timeout_ms, int64_t now_ms);

/* Name of the Job, and the Job: the head's Ray container with nothing to do but the cleaning. */
void ray_redis_cleanup_name (char out[RAY_NAME_SIZE], const struct ray_cluster *cluster);
int ray_build_redis_cleanup_job (cJSON **job, const struct ray_cluster *cluster, const struct ray_options *options,
                                 struct error *err);
/* Of a live Job. One of another owner, an earlier cluster of the name above all, says nothing of this cluster's state:
 * it counts as running until it is gone. */
enum ray_job_state ray_job_state (const cJSON *job, const struct ray_cluster *cluster);

#endif
