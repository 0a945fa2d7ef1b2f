/* manager_internal.h - what the files of pkg/manager share. */
#ifndef MANAGER_INTERNAL_H
#define MANAGER_INTERNAL_H

#include <pthread.h>

#include "admission/admission.h"
#include "controller/controller.h"
#include "kube/kube.h"
#include "manager/manager.h"
#include "pki/pki.h"

#define MANAGER_NAME "ray-tpu-operator" /* user agent and managed-by label */
/* Who Events say they come from: KubeRay's name, which dashboards and alerts look for (facts/kuberay.md §5.2). */
#define EVENT_SOURCE "raycluster-controller"

/* What the listener serves. */
enum manager_route
{
  ROUTE_PODS,     /* /mutate-v1-pod */
  ROUTE_DEFAULTS, /* /mutate-ray-io-v1-raycluster */
  ROUTE_VALIDATE, /* /validate-ray-io-v1-raycluster */
  ROUTE_MAX
};

/* A small-stacked thread. Signals are blocked already when the first is started. Aborts when none can be made. */
void manager_thread_start (pthread_t *thread, void *(*run) (void *), void *data, const char *name);

/* ---- status.c: plain HTTP for probes and scrapes, all addresses on one thread ---- */

struct status_route
{
  const char *path, *type;                      /* Content-Type */
  int (*answer) (void *data, struct buf *body); /* returns the HTTP status */
  void *data;
};

struct status_listener
{
  const char *address; /* host:port */
  const struct status_route *routes;
  size_t nroutes;
};

#define STATUS_LISTENERS_MAX 2

struct status_server;
/* Binds and serves; what the listeners point to must outlive the server. */
int status_server_start (struct status_server **server, const struct status_listener *listeners, size_t count,
                         struct error *err);
void status_server_stop (struct status_server *server); /* NULL is fine */

/* ---- rival.c: another controller of RayClusters, known by its Lease ---- */

#define RIVAL_LEASE "ray-operator-leader" /* KubeRay's, in whatever namespace (facts/kuberay.md §5.1) */

struct rival
{
  bool active;
  char namespace[64], holder[256]; /* of the Lease */
};

/* What a LeaseList says at now_ms (wall clock). A Lease in own_namespace is ours (NULL: none is). *seen is what the
 * last look remembered, NULL before the first, and becomes what this one does; cJSON_Delete it in the end. */
void rival_judge (struct rival *found, cJSON **seen, const cJSON *list, const char *own_namespace, int64_t now_ms);

struct rivals_options
{
  struct kube_client *client;
  const char *own_namespace; /* as above */
  bool split;                /* we work on part of the RayClusters only: no reason to warn */
};

struct rivals;
/* Looks at once and then every minute, and says in the log what it finds. */
struct rivals *rivals_start (const struct rivals_options *options);
void rivals_found (struct rivals *rivals, struct rival *found); /* of the last look */
void rivals_stop (struct rivals *rivals);                       /* after kube_client_shutdown. NULL is fine */

/* ---- metrics.c ---- */

/* Everything /metrics shows, at one moment. What is NULL is left out. */
struct metrics_view
{
  const char *version;
  const struct controller_stats *controller;
  const struct kube_client_stats *client;
  const struct admission_route *routes;
  const struct admission_stats *admission; /* one per route */
  size_t nroutes;
  const uint64_t *events_dropped;
  struct buf *kuberay;           /* of kuberay_metrics_print */
  int64_t certificate_expiry_ms; /* wall clock; 0: no certificate */
  bool leader, other_controller;
  int64_t start_ms; /* wall clock */
  uint64_t resident_bytes;
  double cpu_seconds;
};

void metrics_print (struct buf *out, const struct metrics_view *view); /* Prometheus text format 0.0.4 */
void metrics_read_process (struct metrics_view *view);                 /* resident_bytes and cpu_seconds of this one */
#define METRICS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* ---- kuberay_metrics.c ---- */

void kuberay_metrics_print (struct buf *out, struct controller *controller);

/* ---- secret.c: what the Secret looks like ---- */

char *base64_encode (const char *text); /* owned by the caller */

/* Keys ca.crt, ca.key, old-ca.crt, tls.crt, tls.key; what is missing or no base64 is absent from the bundle, and so
 * made anew by pki_bundle_refresh. */
void secret_read_bundle (struct pki_bundle *bundle, const cJSON *secret);
/* Sets those keys and leaves everything else of the object alone. */
void secret_write_bundle (cJSON *secret, const struct pki_bundle *bundle);

/* ---- hook_definition.c: what the API server is to call us for ---- */

enum hook_kind
{
  HOOK_MUTATING,
  HOOK_VALIDATING,
  HOOK_KIND_MAX
};

const char *hook_path (enum manager_route route); /* where the API server sends what is for this route */

struct hook_target
{
  const char *url;               /* without the path */
  const char *ca_base64;         /* NULL: the API server's own roots */
  const char *const *namespaces; /* only these; none: all but the system's */
  size_t nnamespaces;
};

const char *hook_kind_name (enum hook_kind kind); /* "MutatingWebhookConfiguration" */
/* The `webhooks` of a configuration that calls us by URL; every field that matters is written out, so that it can be
 * compared with what the API server has. The chart says the same of a Service. Owned by the caller. */
cJSON *hook_definition (enum hook_kind kind, const struct hook_target *target);
/* Whether everything `wanted` says is so in `stored`; the API server's defaults may add to it. */
bool hook_covers (const cJSON *stored, const cJSON *wanted);
/* JSON Patch that writes ca_base64 into the entries that call this Service; *ours counts those. Empty: nothing to do.
 * Each write tests the entry's name first, so that a list changed meanwhile is not written into. Owned by the caller.
 */
cJSON *hook_ca_patch (const cJSON *configuration, const char *service, const char *namespace, const char *ca_base64,
                      size_t *ours);

/* ---- hooks.c: the webhook configurations, watched and kept right ---- */

struct hooks_options
{
  struct kube_client *client;
  const char *name;                /* of both configurations */
  const char *service, *namespace; /* in the cluster: whose entries are ours */
  const char *url;                 /* "": in the cluster; else the configurations are made to call this URL */
  const char *const *namespaces;
  size_t nnamespaces;
  void (*changed) (void *data); /* hooks_sync has something to look at; from the transport thread */
  void *data;
};

struct hooks;
struct hooks *hooks_start (const struct hooks_options *options);
/* Makes the configurations trust ca_pem, where they do not. Returns in how many ms to call again at the latest. */
int64_t hooks_sync (struct hooks *hooks, const char *ca_pem);
bool hooks_ready (struct hooks *hooks, struct error *why);
/* For a URL: takes away what we made and puts back what we replaced, since with failurePolicy Fail a dead URL would
 * keep every TPU Pod out. Waits until API servers have surely noticed. Nothing for a Service. */
void hooks_withdraw (struct hooks *hooks);
void hooks_stop (struct hooks *hooks); /* NULL is fine */

/* ---- certs.c: the serving certificate, from files, a Secret or memory, and its thread ---- */

struct certs;
/* Has a certificate at hand afterwards: that of the files, or one of our own making. */
int certs_new (struct certs **certs, const struct manager_options *options, const char *namespace, struct error *err);
const struct pki_pair *certs_first (const struct certs *certs); /* to start the server with; before certs_start */
/* Begins to keep it up to date. client NULL: no API access. */
void certs_start (struct certs *certs, struct admission_server *server, struct kube_client *client);
/* Ends the thread and withdraws webhook configurations that call a URL. */
void certs_stop (struct certs *certs);
void certs_free (struct certs *certs); /* NULL is fine */
bool certs_ready (struct certs *certs, struct error *why);
int64_t certs_expiry_ms (struct certs *certs);
/* What a client would check the listener's certificate by: owned texts; *trust NULL when that is not ours to know. */
void certs_probe (struct certs *certs, char **name, char **trust_pem);

/* ---- probe.c ---- */

/* One HTTPS request to host:port as `name`, verified against trust_pem unless that is NULL. Any HTTP answer is an
 * answer; -EIO says why there was none. Takes two seconds at most. */
int probe_listener (const char *host, int port, const char *name, const char *trust_pem, struct error *err);

#endif
