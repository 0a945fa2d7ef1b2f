/* health.c - /healthz, /readyz and /metrics: what is asked of which part. */
#include "manager/lifecycle.h"

#include <errno.h>
#include <string.h>

#include "base/listen.h"

#define PROBE_KEEP_MS 3000 /* a TLS handshake per question would be waste */
#define PROBE_RETRY_MS 100

/* ---- checks ---- */

static bool
check_running (struct manager *m, struct error *why)
{
  if (!m->running)
    error_set (why, EAGAIN, m->stopped ? "shutting down" : "still starting");
  return m->running;
}

static bool
check_caches (struct manager *m, struct error *why)
{
  return m->controller == NULL || controller_synced (m->controller, why);
}

static bool
check_webhook (struct manager *m, struct error *why)
{
  return m->certs == NULL || certs_ready (m->certs, why);
}

static bool
check_listener (struct manager *m, struct error *why)
{
  int64_t now = clock_mono_ms ();

  if (m->server == NULL)
    return true;
  if (m->probed_ms == 0 || now - m->probed_ms >= (m->probe_ok ? PROBE_KEEP_MS : PROBE_RETRY_MS))
    {
      cleanup_free char *host = listen_local_host (m->options->webhook_address), *name = NULL, *trust = NULL;

      certs_probe (m->certs, &name, &trust);
      m->probe_ok = probe_listener (host, admission_server_port (m->server), name, trust, &m->probe_error) == 0;
      m->probed_ms = clock_mono_ms ();
    }
  if (!m->probe_ok)
    *why = m->probe_error;
  return m->probe_ok;
}

/* The first must hold for the others to make sense. The last costs a handshake, so it is made only when all is well. */
static const struct check
{
  const char *name;
  bool (*fn) (struct manager *m, struct error *why);
} checks[] = {
  { "process", check_running },
  { "caches", check_caches },
  { "webhook", check_webhook },
  { "listener", check_listener },
};

#define NCHECKS ARRAY_LEN (checks)

/* Prints a line per check when `out` is not NULL; *first is the first that fails, when not NULL. */
static bool
run_checks (struct manager *m, struct buf *out, struct error *first)
{
  bool ready = true;

  pthread_mutex_lock (&m->parts_lock);
  for (size_t i = 0; i < NCHECKS; i++)
    {
      struct error why = { .message = "not looked at" };
      bool asked = ready || (m->running && i < NCHECKS - 1);
      bool ok = asked && checks[i].fn (m, &why);

      if (out != NULL)
        buf_printf (out, "%s: %s\n", checks[i].name, ok ? "ok" : why.message);
      if (ready && !ok && first != NULL)
        error_set (first, EAGAIN, "%s: %s", checks[i].name, why.message);
      ready = ready && ok;
    }
  pthread_mutex_unlock (&m->parts_lock);
  return ready;
}

bool
health_ready (struct manager *m, struct error *why)
{
  return run_checks (m, NULL, why);
}

/* ---- answers ---- */

static int
answer_healthz (void *data, struct buf *body)
{
  (void) data;
  buf_str (body, "ok\n");
  return 200;
}

/* Nothing that makes us less ready. */
static void
add_notes (struct manager *m, struct buf *body)
{
  struct rival rival = { 0 };

  pthread_mutex_lock (&m->parts_lock);
  if (m->running && m->rivals != NULL)
    rivals_found (m->rivals, &rival);
  pthread_mutex_unlock (&m->parts_lock);
  if (rival.active)
    buf_printf (body, "note: another RayCluster controller is active: %s holds the Lease %s/" RIVAL_LEASE "\n",
                rival.holder, rival.namespace);
}

static int
answer_readyz (void *data, struct buf *body)
{
  bool ready = run_checks (data, body, NULL);

  add_notes (data, body);
  return ready ? 200 : 503;
}

static bool
is_leader (struct manager *m)
{
  bool leader;

  pthread_mutex_lock (&m->leader_lock);
  leader = m->leader;
  pthread_mutex_unlock (&m->leader_lock);
  return leader;
}

/* What a view points to. */
struct numbers
{
  struct controller_stats controller;
  struct kube_client_stats client;
  struct admission_stats admission[ROUTE_MAX];
  uint64_t events_dropped;
  struct buf kuberay;
};

static void
read_parts (struct manager *m, struct metrics_view *view, struct numbers *numbers)
{
  if (m->controller != NULL)
    {
      struct rival rival;

      rivals_found (m->rivals, &rival);
      view->other_controller = rival.active;
      controller_stats (m->controller, &numbers->controller);
      numbers->events_dropped = kube_events_dropped (m->events);
      view->controller = &numbers->controller;
      view->events_dropped = &numbers->events_dropped;
      view->leader = is_leader (m);
      if (view->leader && m->options->kuberay_metrics) /* of several replicas one, or sums would count twice */
        {
          kuberay_metrics_print (&numbers->kuberay, m->controller);
          view->kuberay = &numbers->kuberay;
        }
    }
  if (m->client != NULL)
    {
      struct kube_client_stats bulk;

      kube_client_stats (m->client, &numbers->client);
      kube_client_stats (m->bulk_client, &bulk);
      kube_client_stats_add (&numbers->client, &bulk);
      view->client = &numbers->client;
    }
  if (m->server != NULL)
    {
      for (size_t i = 0; i < ROUTE_MAX; i++)
        admission_server_stats (m->server, i, &numbers->admission[i]);
      view->routes = m->routes;
      view->nroutes = ROUTE_MAX;
      view->admission = numbers->admission;
      view->certificate_expiry_ms = certs_expiry_ms (m->certs);
    }
}

static int
answer_metrics (void *data, struct buf *body)
{
  struct manager *m = data;
  struct metrics_view view = { .version = VERSION, .start_ms = m->start_ms };
  struct numbers numbers = { 0 };

  metrics_read_process (&view);
  pthread_mutex_lock (&m->parts_lock);
  if (m->running)
    read_parts (m, &view, &numbers);
  pthread_mutex_unlock (&m->parts_lock);
  metrics_print (body, &view);
  buf_free (&numbers.kuberay);
  return 200;
}

/* ---- start and stop ---- */

int
health_start (struct manager *m, struct error *err)
{
  const char *health = m->options->health_address, *metrics = m->options->metrics_address;
  struct status_listener listeners[STATUS_LISTENERS_MAX];
  size_t count = 0;
  int ret;

  m->health_routes[0] = (struct status_route){ "/healthz", "text/plain", answer_healthz, m };
  m->health_routes[1] = (struct status_route){ "/readyz", "text/plain", answer_readyz, m };
  m->metrics_route = (struct status_route){ "/metrics", METRICS_CONTENT_TYPE, answer_metrics, m };
  memcpy (m->all_routes, m->health_routes, sizeof (m->health_routes));
  m->all_routes[HEALTH_ROUTES] = m->metrics_route;
  if (strcmp (health, metrics) == 0 && strcmp (health, "0") != 0)
    listeners[count++] = (struct status_listener){ health, m->all_routes, HEALTH_ROUTES + 1 };
  else
    {
      if (strcmp (health, "0") != 0)
        listeners[count++] = (struct status_listener){ health, m->health_routes, HEALTH_ROUTES };
      if (strcmp (metrics, "0") != 0)
        listeners[count++] = (struct status_listener){ metrics, &m->metrics_route, 1 };
    }
  if (count == 0)
    return 0;
  ret = status_server_start (&m->status, listeners, count, err);
  return ret < 0 ? error_wrap (err, ret, "health and metrics") : 0;
}
