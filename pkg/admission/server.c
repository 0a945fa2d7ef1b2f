/* server.c - the HTTPS server's life: start, certificate swap, counters, draining stop. */
#include "admission/server_internal.h"

#include "base/listen.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define DEFAULT_MAX_BODY ((3 * 1024 + 64) * 1024) /* the API server's limit for a request plus the review around it */
#define DEFAULT_TIMEOUT_S 15
#define DEFAULT_MAX_THREADS 4
#define DRAIN_MS 5000
#define DRAIN_STEP_MS 2
#define CONNECTION_MEMORY (16 * 1024) /* per connection: headers, and the window bodies are read through */

/* TLS 1.2 and 1.3 with forward secrecy and AEAD ciphers. AES-128 first: half the work of AES-256 and no less out of
 * reach. RSA stays for certificates brought by the user. */
#define TLS_PRIORITIES                                                                                                 \
  "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:-KX-ALL:+ECDHE-ECDSA:+ECDHE-RSA:-MAC-ALL:+AEAD:"                         \
  "-CIPHER-ALL:+AES-128-GCM:+AES-256-GCM:+CHACHA20-POLY1305:%SERVER_PRECEDENCE"

const int64_t admission_bucket_us[ADMISSION_BUCKETS]
    = { 25, 50, 100, 250, 500, 1000, 2500, 5000, 10000, 25000, 50000, 100000, 1000000, INT64_MAX };

static struct admission_server_options
with_defaults (const struct admission_server_options *options)
{
  struct admission_server_options o = *options;

  if (o.max_body == 0)
    o.max_body = DEFAULT_MAX_BODY;
  if (o.timeout_s <= 0)
    o.timeout_s = DEFAULT_TIMEOUT_S;
  if (o.threads <= 0)
    {
      long cpus = sysconf (_SC_NPROCESSORS_ONLN);

      o.threads = cpus < 1 ? 1 : cpus > DEFAULT_MAX_THREADS ? DEFAULT_MAX_THREADS : (int) cpus;
    }
  return o;
}

/* libmicrohttpd's remarks are about clients that went away or spoke no TLS; they interest whoever debugs those. */
__attribute__ ((format (printf, 2, 0))) static void
log_daemon (void *cls, const char *format, va_list args)
{
  char line[512];

  (void) cls;
  vsnprintf (line, sizeof (line), format, args);
  line[strcspn (line, "\n")] = '\0';
  log_debug ("admission listener", LF_STR ("detail", line));
}

static struct MHD_Daemon *
start_daemon (struct admission_server *server, int fd)
{
  const struct admission_server_options *o = &server->options;
  struct MHD_OptionItem items[] = {
    { MHD_OPTION_LISTEN_SOCKET, fd, NULL },
    { MHD_OPTION_HTTPS_PRIORITIES, 0, (void *) (uintptr_t) TLS_PRIORITIES },
    { MHD_OPTION_NOTIFY_COMPLETED, (intptr_t) http_completed, server },
    { MHD_OPTION_NOTIFY_CONNECTION, (intptr_t) http_connection, server },
    { MHD_OPTION_CONNECTION_LIMIT, ADMISSION_MAX_CONNECTIONS, NULL },
    { MHD_OPTION_CONNECTION_TIMEOUT, o->timeout_s, NULL },
    { MHD_OPTION_CONNECTION_MEMORY_LIMIT, CONNECTION_MEMORY, NULL },
    { o->threads > 1 ? MHD_OPTION_THREAD_POOL_SIZE : MHD_OPTION_END, o->threads, NULL }, /* one thread is no pool */
    { MHD_OPTION_END, 0, NULL },
  };

  /* poll, not epoll: MHD_quiesce_daemon and an epoll thread that notices it both take the listening socket out of the
   * epoll set, and libmicrohttpd (0.9.75) aborts the process when the second finds it gone. */
  return MHD_start_daemon (MHD_USE_POLL_INTERNAL_THREAD | MHD_USE_TLS | MHD_USE_ITC | MHD_USE_ERROR_LOG, 0, NULL, NULL,
                           http_handle, server, MHD_OPTION_EXTERNAL_LOGGER, log_daemon, NULL,
                           MHD_OPTION_HTTPS_CERT_CALLBACK, certificate_retrieve, MHD_OPTION_ARRAY, items,
                           MHD_OPTION_END);
}

/* Threads inherit the signal mask: the server's take no signals, whatever the caller's thread does with them. */
static struct MHD_Daemon *
start_daemon_without_signals (struct admission_server *server, int fd)
{
  struct MHD_Daemon *daemon;
  sigset_t all, before;

  sigfillset (&all);
  pthread_sigmask (SIG_SETMASK, &all, &before);
  daemon = start_daemon (server, fd);
  pthread_sigmask (SIG_SETMASK, &before, NULL);
  return daemon;
}

static void
server_free (struct admission_server *server)
{
  certificate_unref (server->certificate);
  pthread_mutex_destroy (&server->lock);
  pthread_mutex_destroy (&server->large);
  free (server->counters);
  free (server);
}

static struct admission_server *
server_new (const struct admission_server_options *options, struct certificate *certificate)
{
  struct admission_server *server = xcalloc (1, sizeof (*server));

  server->options = with_defaults (options);
  server->certificate = certificate;
  server->counters = xcalloc (options->nroutes + 1, sizeof (*server->counters));
  pthread_mutex_init (&server->lock, NULL);
  pthread_mutex_init (&server->large, NULL);
  return server;
}

int
admission_server_start (struct admission_server **out, const struct admission_server_options *options,
                        const char *cert_pem, const char *key_pem, struct error *err)
{
  struct certificate *certificate;
  struct admission_server *server;
  int fd, ret = certificate_load (&certificate, cert_pem, key_pem, err);

  if (ret < 0)
    return ret;
  server = server_new (options, certificate);
  ret = listen_on (&fd, &server->port, options->bind_address, err);
  if (ret == 0)
    {
      server->daemon = start_daemon_without_signals (server, fd);
      if (server->daemon == NULL)
        {
          close (fd);
          ret = error_set (err, EIO, "cannot start the admission server on %s with %d threads", options->bind_address,
                           server->options.threads);
        }
    }
  if (ret < 0)
    {
      server_free (server);
      return ret;
    }
  *out = server;
  return 0;
}

int
admission_server_port (const struct admission_server *server)
{
  return server->port;
}

int
admission_server_set_certificate (struct admission_server *server, const char *cert_pem, const char *key_pem,
                                  struct error *err)
{
  struct certificate *fresh, *old;
  int ret = certificate_load (&fresh, cert_pem, key_pem, err);

  if (ret < 0)
    return ret;
  pthread_mutex_lock (&server->lock);
  old = server->certificate;
  server->certificate = fresh;
  pthread_mutex_unlock (&server->lock);
  certificate_unref (old);
  return 0;
}

void
admission_server_stop (struct admission_server *server)
{
  int64_t deadline = clock_mono_ms () + DRAIN_MS;
  int fd;

  if (server == NULL)
    return;
  atomic_store (&server->draining, true);
  fd = MHD_quiesce_daemon (server->daemon);
  if (fd >= 0)
    close (fd); /* at once: clients should be refused and go to another replica, not wait in the backlog */
  while (atomic_load (&server->in_flight) > 0 && clock_mono_ms () < deadline)
    clock_sleep_ms (DRAIN_STEP_MS);
  if (atomic_load (&server->in_flight) > 0)
    log_warn ("admission requests cut off by the shutdown", LF_INT ("requests", atomic_load (&server->in_flight)));
  MHD_stop_daemon (server->daemon);
  server_free (server);
}

static uint64_t
read_counter (const atomic_uint_fast64_t *counter)
{
  return atomic_load_explicit (counter, memory_order_relaxed);
}

void
admission_server_stats (const struct admission_server *server, size_t route, struct admission_stats *stats)
{
  const struct route_counters *c = &server->counters[route];

  *stats = (struct admission_stats){
    .allowed = read_counter (&c->outcomes[ADMISSION_ALLOWED]),
    .denied = read_counter (&c->outcomes[ADMISSION_DENIED]),
    .malformed = read_counter (&c->outcomes[ADMISSION_MALFORMED]),
    .failed = read_counter (&c->outcomes[ADMISSION_FAILED]),
    .latency_sum_us = read_counter (&c->latency_sum_us),
  };
  for (size_t i = 0; i < ADMISSION_BUCKETS; i++)
    stats->latency[i] = read_counter (&c->latency[i]);
}
