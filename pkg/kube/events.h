/* events.h - events.k8s.io/v1 Events, coalesced and off the critical path (design §3.5): recording never blocks; a
 * background thread writes them; the same (object, reason, action, type) becomes one series as long as it recurs within
 * ten minutes; what cannot be written within a bound is dropped and counted.
 *
 * The API does not let the note of an Event change (k8s.io/kubernetes pkg/apis/core/validation/events.go), so a series
 * shows the note it began with; when the note has changed a new Event with the newest one is begun, at most every 30 s.
 */
#ifndef KUBE_EVENTS_H
#define KUBE_EVENTS_H

#include "kube/client.h"

enum kube_event_type
{
  KUBE_EVENT_NORMAL,
  KUBE_EVENT_WARNING
};

struct kube_object_ref
{
  const char *api_version, *kind, *namespace, *name, *uid; /* namespace, uid: NULL or "" for none */
};

struct kube_events;

/* controller: a qualified name, "raycluster-controller"; instance: which replica, such as the pod's name (128 bytes).
 */
struct kube_events *kube_events_new (struct kube_client *client, const char *controller, const char *instance);
/* All text is copied; the note is cut at 1 kB, reason and action at 128 bytes, the API's limits. An object without
 * namespace has its events in "default". */
void kube_event (struct kube_events *events, const struct kube_object_ref *about, enum kube_event_type type,
                 const char *reason, const char *action, const char *note);
void kube_events_flush (struct kube_events *events, int64_t timeout_ms); /* waits for what is queued, bounded */
/* Flushes (2 s at most), then frees. Works after kube_client_shutdown. NULL is fine. */
void kube_events_free (struct kube_events *events);
uint64_t kube_events_dropped (struct kube_events *events);

#endif
