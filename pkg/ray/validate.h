/* validate.h - is this RayCluster one that can be run? The same answer for the controller, the webhook and `raytpu`. */
#ifndef RAY_VALIDATE_H
#define RAY_VALIDATE_H

#include "ray/cluster.h"
#include "ray/build.h"

/* More pods than this in one group are a slip of the pen: Kubernetes itself is sized for 150,000 in a whole cluster. */
#define RAY_GROUP_PODS_MAX 100000

/* More hosts than the largest TPU slices that there are have. */
#define RAY_SLICE_HOSTS_MAX 4096

struct ray_problem
{
  const char *reason; /* event reason: "InvalidRayClusterMetadata" or "InvalidRayClusterSpec" (§1.6); see below too */
  char *field;        /* "spec.workerGroupSpecs[0].numOfHosts". Owned */
  char *message;      /* one sentence with the value and the remedy. Owned */
};

struct ray_problems
{
  struct ray_problem *items;
  size_t count, cap;
};

/* Appends every problem found (not only the first). Rules of §1.6 that concern what this version implements, plus:
 * groupName is a DNS-1123 label short enough for its hostnames and unique; replicas/min/max/numOfHosts have the right
 * type and sign; every template has containers with names; TPU groups agree with their topology (tpu_request_read;
 * numOfHosts equals its hosts, message shows topology, accelerator, chips per host and the hosts they need); templates
 * of multi-host TPU groups do not say which host a pod is. Members of a wrong JSON type, which an API server refuses by
 * schema, are named too: `raytpu` has no schema. Of a cluster inside a RayJob or RayService (holder.h) the fields are
 * that object's. Zero problems: the cluster may be reconciled and every ray_build_* succeeds. */
void ray_validate (const struct ray_cluster *cluster, const struct ray_options *options, struct ray_problems *problems);

/* Appends, with reason "UnsupportedRayClusterFeature", what the spec asks for and this version does not do yet. Such a
 * cluster is valid and is run without: the messages say what that means, for events and warnings. */
void ray_unsupported (const struct ray_cluster *cluster, struct ray_problems *problems);

/* Those of ray_unsupported, and with reason "TPUWarning" what tpu_inject warns of in the pods of a valid cluster: all
 * that its author should know though it runs. For admission, `raytpu` and, once per generation, events. */
void ray_warnings (const struct ray_cluster *cluster, const struct ray_options *options, struct ray_problems *problems);

void ray_problems_free (struct ray_problems *problems);
#define cleanup_problems __attribute__ ((cleanup (ray_problems_free)))

/* "field: message; field: message", cut at 1024 bytes, for conditions and events. Owned by the caller. */
char *ray_problems_text (const struct ray_problems *problems);

#endif
