/* kube.h - the machinery between us and a Kubernetes API server: where it is and who we are (config), requests and
 * watches over one libcurl multi handle (client), mirrors of what the server has (informer), the queue of keys to
 * reconcile, leader election and events. Knows nothing of Ray or TPUs. Thread-safe unless said otherwise. */
#ifndef KUBE_KUBE_H
#define KUBE_KUBE_H

#include "kube/config.h"
#include "kube/client.h"
#include "kube/informer.h"
#include "kube/selector.h"
#include "kube/queue.h"
#include "kube/lease.h"
#include "kube/events.h"

#endif
