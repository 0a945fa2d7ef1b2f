/* admission.h - the HTTPS server (libmicrohttpd over GnuTLS) and AdmissionReview v1: bytes in, verdicts out.
 * This room keeps the protocol's promises (design §6): malformed body -> HTTP 400; well-formed but not ours -> allowed;
 * internal failure
 * -> an answered review; bodies bounded; slow clients time out. What to decide about an object is tpu's and ray's
 * business. */
#ifndef ADMISSION_ADMISSION_H
#define ADMISSION_ADMISSION_H

#include "json/json.h"
#include "kube/client.h"
#include "ray/ray.h"

/* ---- one review ---- */

struct admission_request
{
  const char *uid, *group, *kind, *subresource; /* "" when absent; {"", "Pod"}, {"ray.io", "RayCluster"}, ... */
  const char *operation, *namespace, *name;     /* name is "" for a create with generateName */
  const cJSON *object, *old_object;             /* objects, or NULL when absent */
  bool dry_run;                                 /* same answer, without side effects */
};

struct admission_verdict
{
  bool allowed;
  int code;        /* status.code of a denial: 403 (also when 0), 422, 500 or 503 */
  char *message;   /* of a denial; owned */
  cJSON *patch;    /* RFC 6902 array or NULL; owned. Empty is the same as none */
  cJSON *warnings; /* array of strings or NULL; owned. Shown to the user: at most 16 are passed on, and where they are
                      more than 4096 bytes 256 of each */
};
void admission_verdict_free (struct admission_verdict *verdict);
#define cleanup_verdict __attribute__ ((cleanup (admission_verdict_free)))

/* 0 with a verdict (zeroed beforehand), or -errno with err: an internal failure, which becomes allowed + warning, or
 * denied when `strict`. Called from several threads at once. */
typedef int (*admission_fn) (void *data, const struct admission_request *request, struct admission_verdict *verdict,
                             struct error *err);

struct admission_route
{
  const char *path; /* "/mutate-v1-pod" */
  const char *name; /* for logs and metrics: "pods" */
  admission_fn fn;
  void *data;
};

/* Answers one AdmissionReview text: *reply is the response body (owned by the caller). 0, or -EINVAL when the body is
 * no AdmissionReview v1 (HTTP 400 material, err says why). A review without an object (DELETE, CONNECT) is allowed
 * without asking the handler. Pure; also the fuzz target. */
int admission_answer (const struct admission_route *route, bool strict, const char *body, size_t len, char **reply,
                      struct error *err);

/* ---- the handlers: each allows what is not its own (other kinds, operations, subresources) ---- */

/* Gives places to pods that need one (tpu_place_needed). All replicas of the webhook share the Leases of `namespace`.
 * Reservations of pods that never came count for ttl_ms: more than the API server takes for a request, 60 s, and the
 * clocks of two replicas differ. Leases without reservations are deleted idle_ms after they were written (book.h). The
 * options, for templates of RayClusters, outlive it. */
struct admission_allocator;
struct admission_allocator *admission_allocator_new (struct kube_client *client, const char *namespace,
                                                     const struct tpu_options *options, int64_t ttl_ms,
                                                     int64_t idle_ms);
void admission_allocator_free (struct admission_allocator *allocator); /* NULL is fine */

struct admission_policy
{
  struct tpu_options tpu;        /* tpu.strict: an invalid TPU pod is denied (422) instead of admitted with a warning */
  const struct ray_options *ray; /* for ray_validate */
  struct admission_allocator *allocator; /* NULL: pods that need a place are pods of unknown identity */
};

/* Pods on CREATE: tpu_inject, after a place was found for those that need one; logs one line per injected pod and one
 * per warning. A pod for which there is no place at the moment is denied (503), strict or not: its controller tries
 * again, while without its place it would be a useless host. */
int admission_mutate_pod (void *policy, const struct admission_request *request, struct admission_verdict *verdict,
                          struct error *err);

/* RayClusters, RayJobs and RayServices on CREATE and UPDATE: ray_default_hosts. */
int admission_default_raycluster (void *policy, const struct admission_request *request,
                                  struct admission_verdict *verdict, struct error *err);

/* RayClusters, RayJobs and RayServices on CREATE and UPDATE: ray_validate, every problem in one denial (422). What is
 * stored already is never held against an update: it is allowed when the cluster's spec is unchanged, the object is
 * being deleted, or it brings no problem that the old object did not have (those become warnings). When it only scales,
 * suspends or names workers to delete, the same field is the same problem, whatever the numbers in its message.
 * Clusters managed by another controller pass. Whoever takes slices from a group whose Pods KubeRay does not number is
 * warned: with an allocator, that is looked up. */
int admission_validate_raycluster (void *policy, const struct admission_request *request,
                                   struct admission_verdict *verdict, struct error *err);

/* ---- the server ---- */

struct admission_server;

struct admission_server_options
{
  const char *bind_address; /* "0.0.0.0:9443", ":9443" (all addresses, IPv6 too where there is any), "[::1]:9443"; port
                               0 picks one */
  const struct admission_route *routes; /* outlive the server, as do their strings and data */
  size_t nroutes;
  int threads;     /* 0: number of CPUs, at most 4 */
  size_t max_body; /* 0: 3 MiB + slack; larger bodies get 413 */
  int timeout_s;   /* 0: 15; idle connections, and requests that take longer to arrive, are closed */
  bool strict;
};

#define ADMISSION_MAX_CONNECTIONS 1024
#define ADMISSION_MAX_PENDING_BODIES                                                                                   \
  8 /* times max_body: memory all unfinished requests may hold together; beyond it 503 */

/* Binds, then serves from its own threads, which take no signals. Everything but a POST of JSON to a route gets an HTTP
 * error with a line of plain text: 404, 405, 415, 413, 400, 503. TLS 1.2 and newer. */
int admission_server_start (struct admission_server **server, const struct admission_server_options *options,
                            const char *cert_pem, const char *key_pem, struct error *err);
int admission_server_port (const struct admission_server *server);
/* New connections use the new certificate (a chain, leaf first); open ones stay. -EINVAL (and the old one stays) when
 * it is broken or the key is not its own. From any thread. */
int admission_server_set_certificate (struct admission_server *server, const char *cert_pem, const char *key_pem,
                                      struct error *err);
/* Stops listening, waits for the answers in flight (at most 5 s), then closes. NULL is fine. */
void admission_server_stop (struct admission_server *server);

#define ADMISSION_BUCKETS 14
extern const int64_t admission_bucket_us[ADMISSION_BUCKETS]; /* upper bounds; the last is INT64_MAX */
struct admission_stats
{
  uint64_t allowed, denied; /* answered reviews */
  uint64_t malformed;       /* 400 and 413 */
  uint64_t failed;          /* internal failures; answered too, but counted here only */
  uint64_t
      latency[ADMISSION_BUCKETS]; /* of answered reviews, body to reply; cumulative counts are the reader's to make */
  uint64_t latency_sum_us;
};
void admission_server_stats (const struct admission_server *server, size_t route, struct admission_stats *stats);

#endif
