/* cluster.h - a decoded view of one RayCluster. All pointers reach into the object it was decoded from. */
#ifndef RAY_CLUSTER_H
#define RAY_CLUSTER_H

#include "json/json.h"
#include "tpu/tpu.h"

#define RAY_HEAD_GROUP "headgroup" /* value of ray.io/group on head pods (§0.3) */
#define RAY_NAME_MAX 53            /* longest RayCluster name (§0.1) */

/* Labels and annotations (§0.3). */
#define RAY_LABEL_CLUSTER "ray.io/cluster"
#define RAY_LABEL_NODE_TYPE "ray.io/node-type"
#define RAY_LABEL_GROUP "ray.io/group"
#define RAY_LABEL_IS_RAY_NODE "ray.io/is-ray-node"
#define RAY_LABEL_IDENTIFIER "ray.io/identifier"
#define RAY_LABEL_HEADLESS "ray.io/headless-worker-svc"
#define RAY_LABEL_REPLICA_INDEX "ray.io/worker-group-replica-index"
#define RAY_LABEL_REPLICA_NAME "ray.io/worker-group-replica-name"
#define RAY_LABEL_HOST_INDEX "ray.io/replica-host-index"
#define RAY_LABEL_ORIGIN_CRD "ray.io/originated-from-crd"
#define RAY_MANAGED_BY "ray.io/kuberay-operator"

struct ray_group
{
  const char *name; /* groupName; RAY_HEAD_GROUP for the head */
  bool is_head;
  int64_t replicas; /* desired slices: clamped to [min, max], 0 when suspended; 1 for the head (§2.5) */
  int64_t min, max; /* defaults 0 and 2147483647 */
  int64_t hosts;    /* pods per slice, numOfHosts below 1 counts as 1 */
  bool suspend;
  const cJSON *spec;              /* the headGroupSpec or workerGroupSpecs[i] object */
  const cJSON *template;          /* its template: an object */
  const cJSON *params;            /* its rayStartParams, or NULL */
  const cJSON *workers_to_delete; /* scaleStrategy.workersToDelete: array of names, or NULL */
};

struct ray_cluster
{
  const cJSON *object;
  const char *name, *namespace, *uid;
  int64_t generation;
  bool deleting;    /* metadata.deletionTimestamp is set */
  bool autoscaling; /* enableInTreeAutoscaling */
  bool suspend;
  bool managed_elsewhere;  /* managedBy is set and is not ours: hands off entirely (§1.6.1) */
  const char *ray_version; /* "" when absent */
  const char *origin_crd;  /* "RayCluster", "RayJob" or "RayService" */
  struct ray_group head;
  struct ray_group *groups; /* workerGroupSpecs in order. Owned */
  size_t ngroups;
  const struct ray_holder *holder; /* NULL unless the spec is held by an object of another kind (holder.h) */
  cJSON *view;                     /* then the object made for it. Owned */
};

/* Reads what is there and forgives what is not: a field of a wrong type counts as absent here; ray_validate is the one
 * to complain. -EINVAL only for what cannot be worked with at all: no object, no metadata.name. `default_namespace`
 * fills an absent namespace (NULL: "default"); an absent uid is "". */
int ray_cluster_decode (struct ray_cluster *cluster, const cJSON *object, const char *default_namespace,
                        struct error *err);
void ray_cluster_free (struct ray_cluster *cluster);
#define cleanup_cluster __attribute__ ((cleanup (ray_cluster_free)))

const struct ray_group *ray_cluster_group (const struct ray_cluster *cluster,
                                           const char *name);            /* head included; NULL: none */
bool ray_cluster_multi_host (const struct ray_cluster *cluster);         /* some worker group has hosts > 1 */
int64_t ray_cluster_desired_workers (const struct ray_cluster *cluster); /* pods */

/* ---- names (§0.2), all bounded ---- */

#define RAY_NAME_SIZE 254

/* The first 50 characters of prefix + "-head"/"-worker" + "-", lower case: what comes before the 5-character suffix. */
void ray_pod_name_prefix (char out[RAY_NAME_SIZE], const struct ray_cluster *cluster, const struct ray_group *group);
void ray_check_name (char out[RAY_NAME_SIZE],
                     const char *text); /* CheckName: last 50, leading digit/punctuation -> r */
void ray_check_label (char out[RAY_NAME_SIZE], const char *text); /* CheckLabel: last 63, leading punctuation -> r */
/* {cluster}-head-svc, or headGroupSpec.headService.metadata.name. */
void ray_head_service_name (char out[RAY_NAME_SIZE], const struct ray_cluster *cluster);
void ray_headless_service_name (char out[RAY_NAME_SIZE],
                                const struct ray_cluster *cluster); /* {cluster}-headless, never cut */

/* Five characters of Kubernetes' safe alphabet from a stable hash: the same inputs give the same suffix for ever. */
#define RAY_SUFFIX_SIZE 6
void ray_suffix (char out[RAY_SUFFIX_SIZE], uint64_t hash);

#endif
