/* allocate.h - gives Ray pods without index labels a place in the slices of their group: those of KubeRay before 1.6,
 * or without its gate RayMultiHostIndexing (facts/tpu_injection.md §5.4).
 *
 * The memory is the API server's: pods tell their own places (annotations TPU_ANNOTATION_REPLICA_INDEX and
 * TPU_ANNOTATION_HOST_INDEX), and a Lease per group, "places.<namespace>.<cluster>.<group>.<uid>", holds the places of
 * pods that have been admitted but cannot be seen yet. Who gives out a place reads the Lease, then the pods, then
 * writes the Lease under the version it has read; so two webhook replicas never give out the same one. A reservation
 * whose pod never came (refused by a quota, a webhook after ours) expires, and so do Leases. Leases, because this is
 * what they are for, and because rights on them in our namespace are rights we have. */
#ifndef ADMISSION_ALLOCATE_H
#define ADMISSION_ALLOCATE_H

#include "admission/admission.h"
#include "admission/places.h"

/* Finds a place for the request's pod and reserves it, or finds that it has one reserved, as its annotations say; a dry
 * run gets an answer, but reserves nothing. Requests for the same group that arrive meanwhile share one reservation.
 * From any thread; blocks for some API calls, bounded by ADMISSION_PLACE_TIMEOUT_MS. 0; -EAGAIN when it may work in a
 * moment (too much contention, the API server does not answer, places held by reservations); -ENOSPC when all places
 * are taken by pods; -ENOENT when the pod is not one of its RayCluster's: no owner reference, no such cluster or group,
 * or slices of another number of hosts; another -errno when it will not work (rights missing). */
int admission_allocate (struct admission_allocator *allocator, const struct admission_request *request,
                        const struct tpu_place_need *need, struct place_entry *out, struct error *err);

/* What it asks the API server with. */
struct kube_client *admission_allocator_client (const struct admission_allocator *allocator);

#define ADMISSION_PLACE_TIMEOUT_MS 7000 /* less than the webhook's timeoutSeconds */

#endif
