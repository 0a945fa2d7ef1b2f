/* holder.h - objects that hold a RayCluster's spec: the RayCluster itself, and RayJob and RayService, whose controller
 * makes RayClusters from it (§4.1, §4.3). Seen through its holder the embedded spec is a cluster like any other, judged
 * and completed before the RayJob is stored instead of when its RayCluster fails to appear. */
#ifndef RAY_HOLDER_H
#define RAY_HOLDER_H

#include "ray/cluster.h"

struct ray_holder
{
  const char *kind;      /* of group ray.io */
  const char *spec_key;  /* the member of spec that is the cluster's spec; NULL: spec is */
  const char *spec_path; /* the same as people write it: "spec.rayClusterSpec" */
  int name_max; /* longest metadata.name: names made from it add a suffix to RayJobs' and RayServices' (§0.1) */
};

const struct ray_holder *ray_holder_find (const char *kind); /* NULL for other kinds */

/* The cluster's spec in this object, or NULL: a RayJob that selects an existing cluster has none. */
const cJSON *ray_holder_spec (const struct ray_holder *holder, const cJSON *object);

/* Hands off entirely (§1.6.1): the cluster, or the object around it, is managed by another controller. */
bool ray_holder_managed_elsewhere (const struct ray_holder *holder, const cJSON *object);

/* ray_cluster_decode of the spec that the object holds, with the object's metadata: what ray_validate then finds has
 * paths of the holding object, its name limit and its kind's rules. -EINVAL also when there is no such spec. */
int ray_cluster_decode_held (struct ray_cluster *cluster, const struct ray_holder *holder, const cJSON *object,
                             const char *default_namespace, struct error *err);

#endif
