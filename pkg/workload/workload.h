/* workload.h - objects whose controllers create Pods: which Pods these will be, and whether a TPU slice can come of
 * them. Offline and PURE: for `raytpu inject` and `raytpu validate`, not for the operator, which sees the real Pods.
 * RayClusters are pkg/ray's. Sources: facts/tpu_injection.md §1.3, §2.1, §2.2, §2.6. */
#ifndef WORKLOAD_WORKLOAD_H
#define WORKLOAD_WORKLOAD_H

#include "tpu/tpu.h"

/* More than this of one object are a slip of the pen, or not to be read by anybody. */
#define WORKLOAD_PODS_MAX 10000

/* Of a batch/v1 Job or CronJob (the Pods of one Job, of minute 00000000), jobset.x-k8s.io/v1alpha2 JobSet,
 * leaderworkerset.x-k8s.io/v1 LeaderWorkerSet, apps/v1 StatefulSet or apps/v1 Deployment: the Pods that the object's
 * controllers post when nothing is running yet, in their order and with the names, labels, annotations, owners,
 * hostnames and subdomains that they write. Left out is what cannot be known before: uids, hashes and random suffixes
 * (such Pods have a generateName), and affinity that depends on nodes. *pods is an array, owned by the caller. -EINVAL
 * with a sentence when the object is not of its type, -E2BIG beyond WORKLOAD_PODS_MAX. */
int workload_expand (cJSON **pods, const cJSON *object, struct error *err);

/* Appends {"field", "message"}, and "warning": true where the Pods run all the same, to the array `problems`: members
 * of a wrong type; what the API server refuses in a pod template; and what keeps its TPU Pods from becoming slices:
 * topology and chips that do not agree, counts that are not the topology's hosts, names or Services that are missing.
 * A Pod (v1) is taken as well. */
void workload_validate (cJSON *problems, const cJSON *object, const struct tpu_options *options);

#endif
