/* client.h - requests to the API server. One transport thread owns the curl multi handle (HTTP/2, keep-alive, no
 * compression); any thread may submit requests and wait for them, one by one or a batch at a time. */
#ifndef KUBE_CLIENT_H
#define KUBE_CLIENT_H

#include "kube/config.h"

struct kube_client;

/* What happened to one request. */
struct kube_response
{
  int status;         /* HTTP status; 0 when no answer came (error says why: connection refused, timeout, ...) */
  cJSON *body;        /* parsed JSON body, NULL when empty or no JSON. Owned */
  char reason[64];    /* metav1.Status reason of a failure ("AlreadyExists", "NotFound", "Conflict", ...), else "" */
  struct error error; /* "" on 2xx; else one sentence: verb, path, status, the server's message */
};

void kube_response_free (struct kube_response *r);
#define cleanup_response __attribute__ ((cleanup (kube_response_free)))

static inline bool
kube_ok (const struct kube_response *r)
{
  return r->status >= 200 && r->status < 300;
}

enum kube_verb
{
  KUBE_GET,
  KUBE_POST,
  KUBE_PUT,
  KUBE_DELETE,
  KUBE_PATCH_MERGE,
  KUBE_PATCH_JSON,
  KUBE_PATCH_APPLY,
  KUBE_VERB_MAX
};

/* What one answer may take of our memory where the caller knows no better. No object is larger than a few MiB: etcd
 * takes 1.5. Long lists are for informers, which read them object by object, or come in pages. */
#define KUBE_ANSWER_MAX ((size_t) 16 * 1024 * 1024)

struct kube_request
{
  enum kube_verb verb;
  /* "/api/v1/namespaces/x/pods?limit=1": absolute, already escaped. One with a "." or ".." in it is not sent. Owned by
   * the caller */
  char *path;
  char *body;         /* NULL for none. Owned by the caller */
  int64_t timeout_ms; /* of the whole call, retries and waiting for its turn included; 0: 60 s. An attempt gets 30 s at
                         most */
  bool metadata_only; /* of a list: objects without spec and status, which may be very large (PartialObjectMetadata) */
  size_t answer_max;  /* bytes; 0: KUBE_ANSWER_MAX. A longer answer is given up, with status 0 */
  bool fenced;        /* only for the holder of the lease: see kube_client_fence */
};

struct kube_client_options
{
  const char *user_agent; /* e.g. "ray-tpu-operator/0.1.0" */
  int max_connections;    /* to the API server; 0: 4 */
  int max_in_flight;      /* requests (not watches) on the wire at once; the rest wait their turn. 0: 64 */
  /* HTTP/1.1, and a connection per request in flight. For who waits for large answers: libcurl 7.88, Debian 12's, now
   * and then stops in the middle of one, until it times out, when it comes over HTTP/2. */
  bool http1;
  double qps; /* client-side limit, 0: none (the default, design §3.5) */
  int burst;
};

int kube_client_new (struct kube_client **client, const struct kube_config *config,
                     const struct kube_client_options *options, struct error *err);
/* Stops the transport. Before it: kube_client_shutdown, wait until every kube_do and kube_batch has returned, and stop
 * informers, lease and events. NULL is fine. */
void kube_client_free (struct kube_client *client);
/* Makes every running and later kube_do and kube_batch return at once with status 0: the way to unblock workers at
 * shutdown. The lease can still be given back and events flushed after it. */
void kube_client_shutdown (struct kube_client *client);
/* Until when (monotonic ms) requests marked `fenced` may be sent; INT64_MAX, as at the start: always. Those that are in
 * line or on their way then return with status 0, later ones do so at once. kube/lease.h keeps it. It holds whatever
 * the threads that send and wait do: a process that was stopped for longer than its lease lasts sends nothing on it
 * when it goes on, except what was in the socket by then. With a moment that has passed the call returns when those
 * requests have ended; not from informer callbacks. */
void kube_client_fence (struct kube_client *client, int64_t until_ms);
bool kube_client_fenced (const struct kube_client *client); /* the moment has passed */

/* Sends one request and waits. Retries inside the call, bounded, with Retry-After honoured (30 s at most) and jittered
 * backoff: 429 and 503 for every verb, up to 12 attempts; connection failures and 500/502/504, up to 4 attempts, only
 * where repeating is safe (GET, DELETE, PUT, PATCH, and POST of an object whose metadata.name is set: a second 409
 * AlreadyExists, or 409 Conflict of a PUT, is then the caller's to interpret); a failure to connect at all for every
 * verb; 401 once, when a newer token is there. Never after timeout_ms. (libcurl itself repeats, once and whatever the
 * verb, a request for which a kept-alive connection turns out to have been closed before any byte of an answer came.)
 * The answer is parsed on the calling thread. */
void kube_do (struct kube_client *client, const struct kube_request *request, struct kube_response *response);

/* Sends `count` requests in parallel, at most `window` of this batch at a time (0: 32), and waits for all. `make` is
 * called, on the calling thread, just before request i is sent, so that bodies need not exist all at once: it fills
 * *request (path and body are freed by the batch). `done` is called on the calling thread as answers come, in any
 * order; it may take the body out of the response. Stops asking for new requests when `make` returns non-zero or the
 * client is shut down; `done` is called for each request that was made. Where requests have to wait for their turn
 * (max_in_flight, qps), batches and single calls take turns: a long batch keeps nobody else waiting. */
typedef int (*kube_make_fn) (void *data, size_t i, struct kube_request *request);
typedef void (*kube_done_fn) (void *data, size_t i, struct kube_response *response);
void kube_batch (struct kube_client *client, size_t count, size_t window, kube_make_fn make, kube_done_fn done,
                 void *data);

/* Counters for /metrics, monotonic. */
struct kube_client_stats
{
  uint64_t requests[KUBE_VERB_MAX][6]; /* by verb and status class: [0] no answer, [1]..[5] 1xx..5xx */
  uint64_t retries, throttled;         /* throttled: 429 answers */
  uint64_t watch_starts, watch_errors;
  int64_t in_flight;
};
void kube_client_stats (struct kube_client *client, struct kube_client_stats *stats);
void kube_client_stats_add (struct kube_client_stats *sum, const struct kube_client_stats *other);
const char *kube_verb_name (enum kube_verb verb); /* "get", "create", "update", "delete", "patch", ... */

/* "PREFIX/namespaces/NAMESPACE/PLURAL", and "/NAME" unless that is NULL, with the names escaped. Owned by the caller.
 */
char *kube_object_path (const char *prefix, const char *namespace, const char *plural, const char *name);
/* Escapes text for use in a path or query value. Owned by the caller. */
char *kube_escape (const char *text);

#endif
