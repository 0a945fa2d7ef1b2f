/* lease.h - leader election by a coordination.k8s.io/v1 Lease, compatible with client-go's. Runs its own thread. From
 * its start on the client's requests that are `fenced` (kube/client.h) are only sent while the lease is held. */
#ifndef KUBE_LEASE_H
#define KUBE_LEASE_H

#include "kube/client.h"

struct kube_lease_options
{
  const char *namespace, *name, *identity;
  /* Defaults when 0: 15000, 10000, 2000. retry < renew_deadline < duration must hold; others are pulled into line, with
   * a warning in the log. The Lease carries whole seconds. */
  int64_t duration_ms, renew_deadline_ms, retry_ms;
  /* Called from the lease thread. After `lost` nothing may be begun any more: it is called no later than
   * renew_deadline after the last successful renewal was sent, by the monotonic clock, even when the API server does
   * not answer. Both must be quick: no renewal is sent while they run. */
  void (*acquired) (void *data);
  void (*lost) (void *data);
  void *data;
};

struct kube_lease;

struct kube_lease *kube_lease_start (struct kube_client *client, const struct kube_lease_options *options);
/* True only while the renew deadline of the last renewal has not passed, also if this process was stopped for a while.
 */
bool kube_lease_held (const struct kube_lease *lease);
/* Gives the lease back if held (holderIdentity "", at most 4 s), then frees. Works after kube_client_shutdown. Stop
 * writing before: `lost` is not called. NULL is fine. */
void kube_lease_stop (struct kube_lease *lease);

#endif
