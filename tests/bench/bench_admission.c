/* How much of what the machine can do does admission leave? One run compares the operator's server, answering the
 * review of a tutorial worker with its patch, with a bare libmicrohttpd TLS server that only parses the same JSON and
 * answers "allowed": the same certificate, ciphers, threads, clients, taken in turns. Clients and servers share the
 * machine, which both pay alike. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <microhttpd.h>
#include <openssl/ssl.h>

#include "admission/admission.h"
#include "pki/pki.h"

#ifndef TEST_FIXTURES
#define TEST_FIXTURES "tests/fixtures"
#endif

#define CONNECTIONS 16
#define WARMUP 30 /* requests per connection */
#define ROUNDS 9
#define ROUND_MS 220
#define DAY_MS (INT64_C (24) * 3600 * 1000)
#define MAX_SAMPLES (1 << 20)

static void __attribute__ ((noreturn)) die (const char *what, const char *why)
{
  printf ("bench_admission: %s: %s\n", what, why);
  exit (1);
}

/* ---- the question: a worker of the tutorial's RayCluster as a controller without injection posts it ---- */

static cJSON *
load_fixture (void)
{
  cleanup_buf struct buf text = { 0 };
  cleanup_json cJSON *docs = NULL;
  struct error err = { "" };

  if (text_read_file (TEST_FIXTURES "/tutorial_a_v6e_4x4.yaml", 1 << 20, &text, &err) < 0
      || yaml_parse (&docs, text.data, text.len, &err) < 0)
    die ("reading the tutorial", err.message);
  return cJSON_DetachItemFromArray (docs, 0);
}

static cJSON *
tutorial_worker (void)
{
  const struct ray_identity identity
      = { .name = "ray-torchtpu-cluster-v6e-16-worker-abcde", .replica_name = "v6e-16-abcde", .host_index = 3 };
  cleanup_json cJSON *object = load_fixture ();
  cleanup_cluster struct ray_cluster cluster = { 0 };
  struct ray_options options = ray_default_options;
  struct error err = { "" };
  cJSON *pod = NULL;

  options.inject_tpu = false;
  if (ray_cluster_decode (&cluster, object, "default", &err) < 0
      || ray_build_pod (&pod, &cluster, &cluster.groups[0], &identity, &options, &err) < 0)
    die ("building the tutorial's worker", err.message);
  return pod;
}

static char *
make_review (void)
{
  cleanup_json cJSON *review = cJSON_CreateObject ();
  cJSON *request = json_obj (review, "request"), *kind;

  json_set_str (review, "apiVersion", "admission.k8s.io/v1");
  json_set_str (review, "kind", "AdmissionReview");
  json_set_str (request, "uid", "705ab4f5-6393-11e8-b7cc-42010a800002");
  kind = json_obj (request, "kind");
  json_set_str (kind, "group", "");
  json_set_str (kind, "version", "v1");
  json_set_str (kind, "kind", "Pod");
  json_set_str (request, "operation", "CREATE");
  json_set_str (request, "namespace", "default");
  json_set_str (json_obj (request, "userInfo"), "username", "system:serviceaccount:kube-system:job-controller");
  json_set (request, "object", tutorial_worker ());
  json_set (request, "oldObject", cJSON_CreateNull ());
  return json_print (review);
}

/* ---- the bare server ---- */

static enum MHD_Result
bare_handle (void *cls, struct MHD_Connection *connection, const char *url, const char *method, const char *version,
             const char *upload_data, size_t *upload_data_size, void **con_cls)
{
  static char reply[] = "{\"apiVersion\":\"admission.k8s.io/v1\",\"kind\":\"AdmissionReview\",\"response\":{\"uid\":"
                        "\"705ab4f5-6393-11e8-b7cc-42010a800002\",\"allowed\":true}}";
  struct buf *body = *con_cls;
  struct MHD_Response *response;
  enum MHD_Result ret;
  struct error err;
  cJSON *review;

  (void) cls, (void) url, (void) method, (void) version;
  if (body == NULL)
    {
      *con_cls = xcalloc (1, sizeof (*body));
      return MHD_YES;
    }
  if (*upload_data_size > 0)
    {
      buf_add (body, upload_data, *upload_data_size);
      *upload_data_size = 0;
      return MHD_YES;
    }
  if (json_parse (&review, buf_text (body), body->len, &err) < 0)
    return MHD_NO;
  cJSON_Delete (review);
  response = MHD_create_response_from_buffer (sizeof (reply) - 1, reply, MHD_RESPMEM_PERSISTENT);
  ret = MHD_queue_response (connection, MHD_HTTP_OK, response);
  MHD_destroy_response (response);
  return ret;
}

static void
bare_completed (void *cls, struct MHD_Connection *connection, void **con_cls, enum MHD_RequestTerminationCode toe)
{
  struct buf *body = *con_cls;

  (void) cls, (void) connection, (void) toe;
  if (body != NULL)
    buf_free (body);
  free (body);
}

static struct MHD_Daemon *
bare_start (const struct pki_pair *pair, unsigned int threads, int *port)
{
  struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl (INADDR_LOOPBACK) };
  struct MHD_OptionItem pool[]
      = { { threads > 1 ? MHD_OPTION_THREAD_POOL_SIZE : MHD_OPTION_END, threads, NULL }, { MHD_OPTION_END, 0, NULL } };
  struct MHD_Daemon *daemon = MHD_start_daemon (
      MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_TLS, 0, NULL, NULL, bare_handle, NULL, MHD_OPTION_SOCK_ADDR, &address,
      MHD_OPTION_HTTPS_MEM_CERT, pair->cert_pem, MHD_OPTION_HTTPS_MEM_KEY, pair->key_pem, MHD_OPTION_HTTPS_PRIORITIES,
      "NORMAL:-CIPHER-ALL:+AES-128-GCM", MHD_OPTION_NOTIFY_COMPLETED, bare_completed, NULL, MHD_OPTION_ARRAY, pool,
      MHD_OPTION_END);

  if (daemon == NULL)
    die ("starting the bare server", strerror (errno));
  *port = MHD_get_daemon_info (daemon, MHD_DAEMON_INFO_BIND_PORT)->port;
  return daemon;
}

/* ---- the clients ---- */

struct samples
{
  uint32_t *us;
  atomic_size_t count;
  int64_t cpu_us; /* of clients and server together, warm-up and handshakes included */
};

static int64_t
cpu_us (void)
{
  struct rusage r;

  getrusage (RUSAGE_SELF, &r);
  return (int64_t) (r.ru_utime.tv_sec + r.ru_stime.tv_sec) * 1000000 + r.ru_utime.tv_usec + r.ru_stime.tv_usec;
}

struct load
{
  int port;
  const char *request;
  size_t len;
  pthread_barrier_t ready;
  atomic_int_fast64_t end_us;
  struct samples *samples;
};

static SSL *
connect_tls (SSL_CTX *ctx, int port)
{
  struct sockaddr_in address
      = { .sin_family = AF_INET, .sin_port = htons ((uint16_t) port), .sin_addr.s_addr = htonl (INADDR_LOOPBACK) };
  int fd = socket (AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  SSL *ssl = SSL_new (ctx);

  if (connect (fd, (const struct sockaddr *) &address, sizeof (address)) < 0)
    die ("connecting", strerror (errno));
  SSL_set_fd (ssl, fd);
  if (SSL_connect (ssl) != 1)
    die ("connecting", "the TLS handshake failed");
  return ssl;
}

/* Sends the request and reads its answer whole; anything but a 200 ends the bench. */
static void
exchange (SSL *ssl, const struct load *load)
{
  char answer[16384];
  size_t have = 0, want = sizeof (answer), n;

  if (SSL_write_ex (ssl, load->request, load->len, &n) != 1)
    die ("a request", "the connection is gone");
  while (have < want)
    {
      const char *end, *length;

      if (SSL_read_ex (ssl, answer + have, sizeof (answer) - 1 - have, &n) != 1)
        die ("an answer", "the connection is gone or the answer too large");
      have += n;
      answer[have] = '\0';
      end = strstr (answer, "\r\n\r\n");
      if (want != sizeof (answer) || end == NULL)
        continue;
      length = strcasestr (answer, "Content-Length: ");
      if (strncmp (answer, "HTTP/1.1 200", 12) != 0 || length == NULL)
        die ("an answer", answer);
      want = (size_t) (end + 4 - answer) + strtoul (length + 16, NULL, 10);
    }
}

static void *
run_connection (void *arg)
{
  struct load *load = arg;
  SSL_CTX *ctx = SSL_CTX_new (TLS_client_method ());
  SSL *ssl = connect_tls (ctx, load->port);
  int_fast64_t unset = 0;
  int64_t now, begin;

  for (int i = 0; i < WARMUP; i++)
    exchange (ssl, load);
  pthread_barrier_wait (&load->ready);
  atomic_compare_exchange_strong (&load->end_us, &unset,
                                  clock_mono_us () + ROUND_MS * 1000); /* the first one decides */
  pthread_barrier_wait (&load->ready);
  for (begin = clock_mono_us (); begin < load->end_us; begin = now)
    {
      size_t i = atomic_fetch_add (&load->samples->count, 1);

      exchange (ssl, load);
      now = clock_mono_us ();
      if (i < MAX_SAMPLES)
        load->samples->us[i] = (uint32_t) (now - begin);
    }
  SSL_shutdown (ssl);
  close (SSL_get_fd (ssl));
  SSL_free (ssl);
  SSL_CTX_free (ctx);
  return NULL;
}

/* Returns the requests of this round. */
static size_t
run_round (struct samples *samples, int port, const char *request)
{
  size_t before = samples->count;
  int64_t cpu_before = cpu_us ();
  struct load load = { .port = port, .request = request, .len = strlen (request), .samples = samples };
  pthread_t threads[CONNECTIONS];

  pthread_barrier_init (&load.ready, NULL, CONNECTIONS);
  for (size_t i = 0; i < CONNECTIONS; i++)
    if (pthread_create (&threads[i], NULL, run_connection, &load) != 0)
      die ("starting a client", "no thread");
  for (size_t i = 0; i < CONNECTIONS; i++)
    pthread_join (threads[i], NULL);
  pthread_barrier_destroy (&load.ready);
  samples->cpu_us += cpu_us () - cpu_before;
  return samples->count - before;
}

/* ---- the table ---- */

struct result
{
  double rate, p50_us, p99_us, cpu_us;
};

static int
compare (const void *a, const void *b)
{
  uint32_t x = *(const uint32_t *) a, y = *(const uint32_t *) b;

  return (x > y) - (x < y);
}

static struct result
summarize (struct samples *s)
{
  size_t n = s->count < MAX_SAMPLES ? s->count : MAX_SAMPLES;

  qsort (s->us, n, sizeof (*s->us), compare);
  return (struct result){
    .rate = (double) s->count * 1000 / (ROUNDS * ROUND_MS),
    .p50_us = n ? s->us[n / 2] : 0,
    .p99_us = n ? s->us[n * 99 / 100] : 0,
    .cpu_us = (double) s->cpu_us / (double) (s->count + ROUNDS * CONNECTIONS * WARMUP),
  };
}

static double
answers_per_second (const struct admission_route *route, const char *body)
{
  int64_t begin = clock_mono_us (), now = begin;
  size_t len = strlen (body), count = 0;
  struct error err;

  for (; now - begin < 500 * 1000; now = clock_mono_us (), count++)
    {
      char *reply;

      if (admission_answer (route, false, body, len, &reply, &err) < 0)
        die ("answering", err.message);
      free (reply);
    }
  return (double) count * 1e6 / (double) (now - begin);
}

static int
compare_ratios (const void *a, const void *b)
{
  double x = *(const double *) a, y = *(const double *) b;

  return (x > y) - (x < y);
}

static void
print_row (const char *name, const struct result *r)
{
  printf ("%-30s %12.0f %9.2f %9.2f %12.1f\n", name, r->rate, r->p50_us / 1e3, r->p99_us / 1e3, r->cpu_us);
}

static void
print_table (const struct result *bare, const struct result *ours, double ratio, double alone, size_t body_len)
{
  printf ("admission of a tutorial worker (%zu bytes), %d keep-alive TLS connections, %d rounds of %d ms each\n",
          body_len, CONNECTIONS, ROUNDS, ROUND_MS);
  printf ("%-30s %12s %9s %9s %12s\n", "", "requests/s", "p50 ms", "p99 ms", "CPU us each");
  print_row ("bare server: parse and answer", bare);
  print_row ("ray-tpu-operator: inject", ours);
  printf ("%-30s %12.2f %9.2f %9.2f %12.2f\n", "ratio (of rates: median round)", ratio, ours->p50_us / bare->p50_us,
          ours->p99_us / bare->p99_us, ours->cpu_us / bare->cpu_us);
  printf ("%-30s %12s %9s %9s\n", "target", ">= 0.50", "", "<= 3.00");
  printf ("admission_answer alone, one thread: %.0f reviews/s (%.1f us each)\n", alone, 1e6 / alone);
}

static void
make_certificate (struct pki_pair *serving)
{
  static const char *const names[] = { "localhost" };
  cleanup_pair struct pki_pair ca = { 0 };
  struct error err = { "" };

  if (pki_make_ca (&ca, "bench", clock_wall_ms (), DAY_MS, &err) < 0
      || pki_make_serving (serving, &ca, names, 1, clock_wall_ms (), DAY_MS, &err) < 0)
    die ("making a certificate", err.message);
}

static unsigned int
server_threads (void)
{
  long cpus = sysconf (_SC_NPROCESSORS_ONLN);

  return cpus < 1 ? 1 : cpus > 4 ? 4 : (unsigned int) cpus;
}

int
main (void)
{
  struct admission_policy policy = { .tpu = tpu_default_options, .ray = &ray_default_options };
  const struct admission_route route
      = { .path = "/mutate-v1-pod", .name = "pods", .fn = admission_mutate_pod, .data = &policy };
  cleanup_free char *body = make_review ();
  cleanup_free char *request = xasprintf ("POST /mutate-v1-pod?timeout=10s HTTP/1.1\r\nHost: localhost\r\n"
                                          "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
                                          strlen (body), body);
  cleanup_pair struct pki_pair pair = { 0 };
  struct samples bare = { .us = xcalloc (MAX_SAMPLES, sizeof (uint32_t)) };
  struct samples ours = { .us = xcalloc (MAX_SAMPLES, sizeof (uint32_t)) };
  struct result bare_result, our_result;
  struct admission_server *server;
  struct admission_server_options options
      = { .bind_address = "127.0.0.1:0", .routes = &route, .nroutes = 1, .threads = (int) server_threads () };
  struct error err = { "" };
  struct MHD_Daemon *daemon;
  double ratios[ROUNDS];
  int bare_port, null = open ("/dev/null", O_WRONLY | O_CLOEXEC);

  signal (SIGPIPE, SIG_IGN);
  dup2 (null, STDERR_FILENO); /* the operator's log lines are written, only not shown */
  close (null);
  make_certificate (&pair);
  daemon = bare_start (&pair, server_threads (), &bare_port);
  if (admission_server_start (&server, &options, pair.cert_pem, pair.key_pem, &err) < 0)
    die ("starting the server", err.message);
  for (int i = 0; i < ROUNDS; i++) /* neighbours in time share what else the machine is doing */
    {
      size_t n = run_round (&bare, bare_port, request);

      ratios[i] = (double) run_round (&ours, admission_server_port (server), request) / (double) n;
    }
  qsort (ratios, ROUNDS, sizeof (ratios[0]), compare_ratios);
  bare_result = summarize (&bare);
  our_result = summarize (&ours);
  print_table (&bare_result, &our_result, ratios[ROUNDS / 2], answers_per_second (&route, body), strlen (body));
  admission_server_stop (server);
  MHD_stop_daemon (daemon);
  free (bare.us);
  free (ours.us);
  return 0;
}
