/* status.h - what the user is told: the status subresource (facts/kuberay.md §1.5), with honest semantics: `ready` only
 * while it is true of the desired pods, Provisioned only when the desired count exists. */
#ifndef RAY_STATUS_H
#define RAY_STATUS_H

#include "ray/plan.h"
#include "ray/validate.h"

struct ray_failure
{
  const char *reason; /* ReplicaFailure reason: "FailedCreateWorkerPod", ...; NULL when the last pass went well */
  const char *message;
};

/* The complete new status, owned by the caller. `problems` from ray_validate (an invalid cluster keeps its counts and
 * gets the condition InvalidSpec); a pod stuck Terminating on a dead node does not keep a suspension from its end for
 * longer than options->terminating_timeout_ms; times are kept from the old status where nothing changed, so an
 * unchanged world gives an equal status. */
cJSON *ray_status_make (const struct ray_cluster *cluster, const struct ray_observed *observed,
                        const struct ray_plan_options *options, const struct ray_problems *problems,
                        const struct ray_failure *failure, int64_t now_ms);

/* The merge patch {"status": {...}} that turns the cluster's present status into `status`, or NULL when they are equal
 * (lastUpdateTime alone is no difference). Owned by the caller. */
cJSON *ray_status_patch (const struct ray_cluster *cluster, const cJSON *status, int64_t now_ms);

/* Whether the cluster is all there and ready by this status (state is "ready"). */
bool ray_status_ready (const cJSON *status);

/* Suspension as the persisted conditions say (facts §2.6): once begun it goes through, whatever spec.suspend says
 * meanwhile. */
enum ray_suspension
{
  RAY_ACTIVE,     /* pods may be made */
  RAY_SUSPENDING, /* pods are to be deleted */
  RAY_SUSPENDED,  /* hands off: suspended, about to be suspended, or about to be resumed (the next status says so) */
};
enum ray_suspension ray_suspension_of (const struct ray_cluster *cluster);

#endif
