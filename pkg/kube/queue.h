/* queue.h - the work queue of keys ("namespace/name"): deduplicating, one worker per key at a time, delayed additions,
 * per-key exponential backoff (5 ms doubling to a cap). The semantics of client-go's rate-limiting queue. */
#ifndef KUBE_QUEUE_H
#define KUBE_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kube_queue;

struct kube_queue *kube_queue_new (int64_t backoff_base_ms, int64_t backoff_cap_ms);
void kube_queue_free (struct kube_queue *q);

void kube_queue_add (struct kube_queue *q, const char *key);                         /* now; once if already waiting */
void kube_queue_add_after (struct kube_queue *q, const char *key, int64_t delay_ms); /* the earliest of several wins */
void kube_queue_retry (struct kube_queue *q, const char *key);                       /* after this key's backoff */
void kube_queue_forget (struct kube_queue *q, const char *key);                      /* resets this key's backoff */

/* Waits for a key that no other worker holds; NULL after shutdown. The caller owns the text and must call
 * kube_queue_done. */
char *kube_queue_get (struct kube_queue *q);
/* The same without waiting: NULL when no key is ready, and *next_ms (may be NULL) is then when one will be (monotonic
 * ms; INT64_MAX: none waits). */
char *kube_queue_try_get (struct kube_queue *q, int64_t *next_ms);
void kube_queue_done (struct kube_queue *q, const char *key); /* added meanwhile: becomes available again */
void kube_queue_shutdown (struct kube_queue *q);

struct kube_queue_stats
{
  size_t depth;   /* ready keys */
  size_t delayed; /* waiting for their time */
  size_t processing;
  uint64_t adds, retries;
  int64_t oldest_ready_ms; /* age of the key that has been ready longest, 0 when none */
};
void kube_queue_stats (struct kube_queue *q, struct kube_queue_stats *stats);

#endif
