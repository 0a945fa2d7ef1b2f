/* manager.c - what starts and stops in which order. */
#include "manager/manager_internal.h"

#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "manager/config_file.h"
#include "manager/lifecycle.h"
#include "manager/trim.h"

/* How often the main thread looks whether we are ready: closely while everything is starting, then for the log's sake.
 */
#define EAGER_TICK_MS 5
#define EAGER_FOR_MS 2000
#define TICK_MS 1000

/* Answering reviews takes microseconds, but finding a place for a Pod waits for the API server: as many Pods share one
 * reservation, and others are not held up. */
#define WAITING_THREADS 8
/* Leases of places go when nobody has needed them for so long: many times what a writer may take (admission/book.h). */
#define LEASE_IDLE_MS 60000

static bool
offline (const struct manager *m)
{
  return strcmp (m->options->kubeconfig, MANAGER_KUBECONFIG_NONE) == 0;
}

/* ---- leadership: the lease's thread calls, main ends it ---- */

static void
set_leader (struct manager *m, bool leader)
{
  pthread_mutex_lock (&m->leader_lock);
  if (!m->stopping && leader)
    controller_activate (m->controller);
  else if (!m->stopping)
    controller_deactivate (m->controller);
  m->leader = leader && !m->stopping;
  pthread_mutex_unlock (&m->leader_lock);
}

static void
on_acquired (void *data)
{
  set_leader (data, true);
}

static void
on_lost (void *data)
{
  set_leader (data, false);
}

static void
stop_leading (struct manager *m)
{
  pthread_mutex_lock (&m->leader_lock);
  m->stopping = true;
  m->leader = false;
  if (m->controller != NULL)
    controller_deactivate (m->controller);
  pthread_mutex_unlock (&m->leader_lock);
}

/* ---- start ---- */

/* Nothing is asked of the parts before and after: not ready. */
static void
set_running (struct manager *m, bool running)
{
  pthread_mutex_lock (&m->parts_lock);
  m->running = running;
  m->stopped = !running;
  pthread_mutex_unlock (&m->parts_lock);
}

static const struct
{
  const char *name; /* in logs and metrics */
  admission_fn fn;
} handlers[ROUTE_MAX] = {
  [ROUTE_PODS] = { "pods", admission_mutate_pod },
  [ROUTE_DEFAULTS] = { "raycluster-defaults", admission_default_raycluster },
  [ROUTE_VALIDATE] = { "rayclusters", admission_validate_raycluster },
};

static void
set_labels (const char *to[TPU_LABELS_MAX], const struct manager_labels *from)
{
  _Static_assert(ARRAY_LEN (from->items) == TPU_LABELS_MAX, "each flag fills its option");
  for (size_t i = 0; i < TPU_LABELS_MAX; i++)
    to[i] = from->items[i];
}

static void
set_policies (struct manager *m)
{
  const struct manager_options *o = m->options;

  m->ray = ray_default_options;
  m->ray.cluster_domain = o->cluster_domain;
  m->ray.init_container = o->init_container;
  m->ray.probes = o->probes;
  m->ray.login_shell = o->login_shell;
  m->ray.head_cluster_ip = o->head_cluster_ip;
  m->ray.inject_tpu = !o->test_no_injection;
  m->ray.redis_cleanup = o->redis_cleanup;
  m->ray.version = VERSION;
  config_pods (o->config, &m->ray);
  set_labels (m->ray.tpu.accelerator_labels, &o->accelerator_labels);
  set_labels (m->ray.tpu.topology_labels, &o->topology_labels);
  m->policy = (struct admission_policy){ .tpu = m->ray.tpu, .ray = &m->ray };
  m->policy.tpu.strict = o->strict;
  m->policy.tpu.owned = true;
  m->policy.tpu.legacy_service_names = o->legacy_service_names; /* our own Pods come with their subdomain */
  for (size_t i = 0; i < ROUTE_MAX; i++)
    m->routes[i]
        = (struct admission_route){ hook_path ((enum manager_route) i), handlers[i].name, handlers[i].fn, &m->policy };
}

static int
start_webhook (struct manager *m, const char *namespace, struct error *err)
{
  const struct admission_server_options server = {
    .bind_address = m->options->webhook_address,
    .routes = m->routes,
    .nroutes = ROUTE_MAX,
    .threads = m->client != NULL ? WAITING_THREADS : 0,
    .strict = m->options->strict,
  };
  int ret = certs_new (&m->certs, m->options, namespace, err);

  if (ret == 0)
    ret = admission_server_start (&m->server, &server, certs_first (m->certs)->cert_pem,
                                  certs_first (m->certs)->key_pem, err);
  return ret < 0 ? error_wrap (err, ret, "webhook") : 0;
}

static int
start_client (struct manager *m, const char *namespace, struct error *err)
{
  struct kube_client_options options = {
    .user_agent = MANAGER_NAME "/" VERSION,
    .qps = m->options->qps,
    .burst = (int) (m->options->burst > 0 ? m->options->burst : (int64_t) (m->options->qps * 2)),
  };
  int ret = kube_client_new (&m->client, &m->config, &options, err);

  if (ret < 0)
    return ret;
  options.http1 = true;
  ret = kube_client_new (&m->bulk_client, &m->config, &options, err);
  if (ret == 0 && m->options->enable_webhook)
    m->policy.allocator = admission_allocator_new (m->bulk_client, namespace, &m->policy.tpu,
                                                   m->options->reservation_ms, LEASE_IDLE_MS);
  return ret;
}

static void
start_controller (struct manager *m)
{
  const struct manager_options *o = m->options;
  struct controller_options options = {
    .client = m->client,
    .watch_client = m->bulk_client,
    .namespaces = (const char *const *) o->namespaces,
    .nnamespaces = o->nnamespaces,
    .selector = o->selector,
    .workers = (int) o->workers,
    .resync_ms = o->resync_ms,
    .ray = m->ray,
    .plan = ray_default_plan_options,
  };

  m->events = kube_events_new (m->client, EVENT_SOURCE, m->identity);
  options.events = m->events;
  options.plan.terminating_timeout_ms = o->terminating_timeout_ms;
  options.plan.random_delete = o->random_delete;
  options.plan.fixed_head_name = o->fixed_head_name;
  m->controller = controller_start (&options);
}

static void
start_leading (struct manager *m, const char *namespace)
{
  const struct manager_options *o = m->options;
  const struct kube_lease_options lease = {
    .namespace = o->lease_namespace[0] != '\0' ? o->lease_namespace : namespace,
    .name = o->lease_name,
    .identity = m->identity,
    .duration_ms = o->lease_duration_ms,
    .renew_deadline_ms = o->renew_deadline_ms,
    .retry_ms = o->retry_period_ms,
    .acquired = on_acquired,
    .lost = on_lost,
    .data = m,
  };

  if (o->leader_elect)
    m->lease = kube_lease_start (m->client, &lease);
  else
    set_leader (m, true);
}

static void
look_for_rivals (struct manager *m, const char *namespace)
{
  const struct manager_options *o = m->options;
  const char *lease_namespace = o->lease_namespace[0] != '\0' ? o->lease_namespace : namespace;
  const struct rivals_options options = {
    .client = m->client,
    .own_namespace = o->leader_elect && text_eq (o->lease_name, RIVAL_LEASE) ? lease_namespace : NULL,
    .split = o->nnamespaces > 0 || o->selector[0] != '\0',
  };

  m->rivals = rivals_start (&options);
}

/* A Pod's name is its own; elsewhere two processes of one host must differ. */
static char *
make_identity (const struct manager_options *o)
{
  char host[256] = "";

  if (o->pod_name[0] != '\0')
    return xstrdup (o->pod_name);
  gethostname (host, sizeof (host) - 1);
  return xasprintf ("%s_%ld_%llx", host[0] != '\0' ? host : "localhost", (long) getpid (),
                    (unsigned long long) clock_wall_ms ());
}

static int
load_config (struct manager *m, struct error *err)
{
  return offline (m) ? 0 : kube_config_load (&m->config, m->options->kubeconfig, err);
}

static void
log_start (const struct manager *m)
{
  const struct manager_options *o = m->options;

  log_info ("starting", LF_STR ("version", VERSION), LF_STR ("identity", m->identity),
            LF_STR ("api_server", offline (m) ? "none" : m->config.server),
            LF_STR ("controller", o->enable_controller && !offline (m) ? "on" : "off"),
            LF_STR ("webhook", o->enable_webhook ? o->webhook_address : "off"), LF_STR ("metrics", o->metrics_address),
            LF_STR ("health", o->health_address));
}

/* What can fail does so before anything is started on the cluster. */
static int
start (struct manager *m, struct error *err)
{
  const struct manager_options *o = m->options;
  const char *namespace;
  int ret = load_config (m, err);

  if (ret < 0)
    return ret;
  namespace = o->pod_namespace[0] != '\0' ? o->pod_namespace : m->config.namespace;
  namespace = namespace != NULL ? namespace : "default";
  set_policies (m);
  ret = health_start (m, err);
  if (ret == 0 && !offline (m))
    ret = start_client (m, namespace, err);
  if (ret == 0 && o->enable_webhook)
    ret = start_webhook (m, namespace, err);
  if (ret < 0)
    return ret;
  log_start (m);
  if (o->enable_webhook)
    certs_start (m->certs, m->server, m->client);
  if (o->enable_controller && !offline (m))
    {
      start_controller (m);
      start_leading (m, namespace);
      look_for_rivals (m, namespace);
    }
  set_running (m, true);
  return 0;
}

/* ---- stop ---- */

static void
stop (struct manager *m)
{
  set_running (m, false);
  stop_leading (m);
  if (m->certs != NULL)
    certs_stop (m->certs);
  admission_server_stop (m->server);
  if (m->bulk_client != NULL)
    kube_client_shutdown (m->bulk_client);
  if (m->client != NULL)
    kube_client_shutdown (m->client); /* no pass waits for an answer any more; lease and events still may */
  controller_stop (m->controller);
  rivals_stop (m->rivals);
  kube_lease_stop (m->lease);
  kube_events_free (m->events);
  status_server_stop (m->status);
  certs_free (m->certs);
  admission_allocator_free (m->policy.allocator);
  kube_client_free (m->bulk_client);
  kube_client_free (m->client);
  kube_config_free (&m->config);
  free (m->identity);
}

/* ---- run ---- */

/* Says when readiness changes; true while ready. */
static bool
note_readiness (struct manager *m, bool was_ready)
{
  struct error why = { 0 };
  bool ready = health_ready (m, &why);

  if (ready && !was_ready && !m->was_ready_once)
    log_info ("ready", LF_INT ("ms", (clock_mono_us () - m->start_us) / 1000));
  else if (ready && !was_ready)
    log_info ("ready again");
  else if (!ready && was_ready)
    log_warn ("not ready any more", LF_STR ("why", why.message));
  else if (!ready && !m->was_ready_once && !m->slow_start_said && clock_mono_us () - m->start_us > EAGER_FOR_MS * 1000)
    {
      m->slow_start_said = true;
      log_warn ("not ready yet", LF_STR ("why", why.message));
    }
  m->was_ready_once = m->was_ready_once || ready;
  return ready;
}

static void
wait_for_signal (struct manager *m, const sigset_t *signals)
{
  struct trim trim = { .busy_ticks = 1 }; /* the start is a burst */
  bool ready = false;

  for (;;)
    {
      bool eager = !m->was_ready_once && clock_mono_us () - m->start_us < EAGER_FOR_MS * 1000;
      int64_t ms = eager ? EAGER_TICK_MS : TICK_MS;
      const struct timespec tick = { .tv_sec = ms / 1000, .tv_nsec = (ms % 1000) * 1000000 };
      int signal_number;

      ready = note_readiness (m, ready);
      signal_number = sigtimedwait (signals, NULL, &tick);
      if (signal_number > 0)
        {
          log_info ("stopping", LF_STR ("signal", strsignal (signal_number)));
          return;
        }
      if (!eager)
        trim_tick (&trim);
    }
}

static void
end_at_once (int signal_number)
{
  (void) signal_number;
  _exit (1);
}

/* The first signal has been taken: the next one ends the process wherever it is. */
static void
let_second_signal_kill (const sigset_t *signals)
{
  struct sigaction action = { .sa_handler = end_at_once };

  sigaction (SIGTERM, &action, NULL);
  sigaction (SIGINT, &action, NULL);
  pthread_sigmask (SIG_UNBLOCK, signals, NULL);
}

static void
block_signals (sigset_t *signals)
{
  struct sigaction ignore = { .sa_handler = SIG_IGN };

  sigemptyset (signals);
  sigaddset (signals, SIGTERM);
  sigaddset (signals, SIGINT);
  pthread_sigmask (SIG_BLOCK, signals, NULL);
  sigaction (SIGPIPE, &ignore, NULL);
}

int
manager_run (const struct manager_options *options)
{
  struct manager m = { .options = options, .start_us = clock_mono_us (), .start_ms = clock_wall_ms () };
  struct error err = { 0 };
  sigset_t signals;
  int ret;

  block_signals (&signals);
  mallopt (M_ARENA_MAX, 2);
  mallopt (M_MMAP_THRESHOLD, 256 * 1024); /* fixed: large bodies go back to the system when they are done with */
  mallopt (M_TRIM_THRESHOLD, 512 * 1024);
  log_configure ((enum log_level) options->log_level, (enum log_format) options->log_format);
  pthread_mutex_init (&m.leader_lock, NULL);
  pthread_mutex_init (&m.parts_lock, NULL);
  m.identity = make_identity (options);
  ret = start (&m, &err);
  if (ret == 0)
    wait_for_signal (&m, &signals);
  else
    log_error ("cannot start", LF_STR ("error", err.message));
  let_second_signal_kill (&signals);
  stop (&m);
  pthread_mutex_destroy (&m.leader_lock);
  pthread_mutex_destroy (&m.parts_lock);
  if (ret == 0)
    log_info ("stopped", LF_INT ("ran_ms", (clock_mono_us () - m.start_us) / 1000));
  return ret == 0 ? 0 : 1;
}

int
manager_main (int argc, char *const *argv)
{
  cleanup_options struct manager_options options = { 0 };
  cleanup_buf struct buf text = { 0 };
  struct error err = { 0 };
  int ret = manager_options_parse (&options, argc, argv, &text, &err);

  if (ret < 0)
    {
      fprintf (stderr, MANAGER_NAME ": %s\n", err.message);
      return 2;
    }
  if (ret > 0)
    return fputs (buf_text (&text), stdout) < 0 || fflush (stdout) != 0;
  return manager_run (&options);
}
