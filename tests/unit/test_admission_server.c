/* The HTTPS server: what it refuses and how, keep-alive, certificates replaced under load, bounds, draining. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>

#include <openssl/ssl.h>

#include "admission/admission.h"
#include "admission/server_internal.h"
#include "pki/pki.h"
#include "tls_client.h"

#define DAY (INT64_C (24) * 3600 * 1000)
#define REVIEW                                                                                                         \
  "{\"apiVersion\":\"admission.k8s.io/v1\",\"kind\":\"AdmissionReview\",\"request\":{\"uid\":\"%s\","                  \
  "\"kind\":{\"kind\":\"Pod\"},\"operation\":\"CREATE\",\"object\":{}}}"

static const char *const names[] = { "localhost" };

/* ---- routes ---- */

static sem_t entered, may_answer;

static int
allow (void *data, const struct admission_request *request, struct admission_verdict *verdict, struct error *err)
{
  (void) data, (void) request, (void) err;
  verdict->allowed = true;
  return 0;
}

static int
deny (void *data, const struct admission_request *request, struct admission_verdict *verdict, struct error *err)
{
  (void) data, (void) request, (void) err;
  verdict->code = 422;
  verdict->message = xstrdup ("no");
  return 0;
}

static int
fail_to_decide (void *data, const struct admission_request *request, struct admission_verdict *verdict,
                struct error *err)
{
  (void) data, (void) request, (void) verdict;
  return error_set (err, EIO, "broken");
}

static int
wait_for_leave (void *data, const struct admission_request *request, struct admission_verdict *verdict,
                struct error *err)
{
  (void) data, (void) request, (void) err;
  sem_post (&entered);
  sem_wait (&may_answer);
  verdict->allowed = true;
  return 0;
}

enum
{
  ALLOW,
  DENY,
  FAIL,
  WAIT
};
static const struct admission_route routes[] = {
  [ALLOW] = { .path = "/allow", .name = "allow", .fn = allow },
  [DENY] = { .path = "/deny", .name = "deny", .fn = deny },
  [FAIL] = { .path = "/fail", .name = "fail", .fn = fail_to_decide },
  [WAIT] = { .path = "/wait", .name = "wait", .fn = wait_for_leave },
};

/* ---- a server with its own CA ---- */

struct setup
{
  struct pki_pair ca, serving;
  struct admission_server *server;
  int port;
};

static void
make_certificates (struct pki_pair *ca, struct pki_pair *serving)
{
  struct error err = { "" };

  assert_int_equal (pki_make_ca (ca, "test-ca", clock_wall_ms (), DAY, &err), 0);
  assert_int_equal (pki_make_serving (serving, ca, names, 1, clock_wall_ms (), DAY, &err), 0);
}

static void
begin (struct setup *s, struct admission_server_options options)
{
  struct error err = { "" };

  *s = (struct setup){ .port = 0 };
  make_certificates (&s->ca, &s->serving);
  if (options.bind_address == NULL)
    options.bind_address = "127.0.0.1:0";
  options.routes = routes;
  options.nroutes = ARRAY_LEN (routes);
  if (admission_server_start (&s->server, &options, s->serving.cert_pem, s->serving.key_pem, &err) < 0)
    fail_msg ("%s", err.message);
  s->port = admission_server_port (s->server);
  assert_in_range (s->port, 1, 65535);
}

static void
end (struct setup *s)
{
  admission_server_stop (s->server);
  pki_pair_free (&s->ca);
  pki_pair_free (&s->serving);
}

static struct tls_client *
client_of (const struct setup *s)
{
  struct tls_client *c = tls_client_open (s->port, s->ca.cert_pem, 0);

  assert_non_null (c);
  return c;
}

/* Posts a review with that uid and returns "allowed" of the answer, which must carry the uid. */
static bool
review_on (struct tls_client *c, const char *path, const char *uid)
{
  cleanup_free char *body = xasprintf (REVIEW, uid);
  cleanup_answer struct tls_answer answer = { 0 };
  cleanup_json cJSON *review = NULL;
  struct error err;

  assert_true (tls_client_post (c, path, body, &answer));
  assert_int_equal (answer.status, 200);
  assert_non_null (strcasestr (answer.headers, "Content-Type: application/json"));
  assert_int_equal (json_parse (&review, answer.body, strlen (answer.body), &err), 0);
  assert_string_equal (json_str (review, "response", "uid"), uid);
  return json_bool (review, false, "response", "allowed");
}

/* ---- tests ---- */

static void
one_connection_carries_many_reviews (void **state)
{
  struct setup s;
  struct tls_client *c;

  (void) state;
  begin (&s, (struct admission_server_options){ .threads = 1 });
  c = client_of (&s);
  for (int i = 0; i < 20; i++)
    {
      char uid[16];

      snprintf (uid, sizeof (uid), "uid-%d", i);
      assert_true (review_on (c, "/allow", uid));
      assert_false (review_on (c, "/deny?timeout=10s", uid));
    }
  tls_client_close (c);
  end (&s);
}

static void
what_is_no_review_request_is_refused (void **state)
{
  static const struct
  {
    const char *name, *request;
    int status;
    const char *header, *body;
  } cases[] = {
    { "unknown path",
      "POST /nothing HTTP/1.1\r\nHost: l\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}", 404,
      "Content-Type: text/plain", "no webhook" },
    { "GET", "GET /allow HTTP/1.1\r\nHost: l\r\n\r\n", 405, "Allow: POST", "only POST" },
    { "PUT", "PUT /allow HTTP/1.1\r\nHost: l\r\nContent-Length: 2\r\n\r\n{}", 405, "Allow: POST", "only POST" },
    { "no content type", "POST /allow HTTP/1.1\r\nHost: l\r\nContent-Length: 2\r\n\r\n{}", 415, "",
      "application/json" },
    { "text", "POST /allow HTTP/1.1\r\nHost: l\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}", 415, "",
      "" },
    { "JSON's cousin",
      "POST /allow HTTP/1.1\r\nHost: l\r\nContent-Type: application/json-patch+json\r\nContent-Length: 2\r\n\r\n{}",
      415, "", "" },
    { "no review",
      "POST /allow HTTP/1.1\r\nHost: l\r\nContent-Type: APPLICATION/json; charset=utf-8\r\nContent-Length: 2\r\n\r\n{}",
      400, "Content-Type: text/plain", "only AdmissionReview is accepted\n" },
    { "a reason with a line break in it",
      "POST /allow HTTP/1.1\r\nHost: l\r\nContent-Type: application/json\r\nContent-Length: "
      "15\r\n\r\n{\"kind\":\"a\\nb\"}",
      400, "", "kind is \"a b\"" },
    { "no body", "POST /allow HTTP/1.1\r\nHost: l\r\nContent-Type: application/json\r\nContent-Length: 0\r\n\r\n", 400,
      "", "no JSON" },
  };
  struct setup s;
  struct tls_client *c;

  (void) state;
  begin (&s, (struct admission_server_options){ .threads = 2 });
  c = client_of (&s);
  for (size_t i = 0; i < ARRAY_LEN (cases); i++)
    {
      cleanup_answer struct tls_answer answer = { 0 };
      const char *body;

      if (!tls_client_send (c, cases[i].request, strlen (cases[i].request)) || !tls_client_read (c, &answer))
        fail_msg ("%s: no answer", cases[i].name);
      if (answer.status != cases[i].status)
        fail_msg ("%s: %d", cases[i].name, answer.status);
      if (strstr (answer.headers, cases[i].header) == NULL)
        fail_msg ("%s: \"%s\" is not in the headers: %s", cases[i].name, cases[i].header, answer.headers);
      body = log_nonnull (answer.body);
      if (strstr (body, cases[i].body) == NULL || strchr (body, '\n') != strrchr (body, '\n'))
        fail_msg ("%s: %s", cases[i].name, body);
    }
  assert_true (review_on (c, "/allow", "after all that")); /* the connection is as good as new */
  tls_client_close (c);
  end (&s);
}

static void
a_body_announced_too_large_is_refused_before_it_is_sent (void **state)
{
  static const char head[] = "POST /allow HTTP/1.1\r\nHost: l\r\nContent-Type: application/json\r\n"
                             "Content-Length: 1001\r\n\r\n";
  cleanup_answer struct tls_answer answer = { 0 };
  struct admission_stats stats;
  struct setup s;
  struct tls_client *c;

  (void) state;
  begin (&s, (struct admission_server_options){ .max_body = 1000 });
  c = client_of (&s);
  assert_true (tls_client_send (c, head, strlen (head)));
  assert_true (tls_client_read (c, &answer));
  assert_int_equal (answer.status, 413);
  assert_true (tls_client_closed (c));
  tls_client_close (c);
  admission_server_stats (s.server, ALLOW, &stats);
  assert_int_equal (stats.malformed, 1);
  end (&s);
}

static void
a_chunked_body_is_measured_while_it_comes (void **state)
{
  static const struct
  {
    size_t chunks;
    int status;
  } cases[] = { { 10, 400 }, { 11, 413 }, { 1000, 413 } };
  static const char head[] = "POST /allow HTTP/1.1\r\nHost: l\r\nContent-Type: application/json\r\n"
                             "Transfer-Encoding: chunked\r\n\r\n";
  struct setup s;

  (void) state;
  begin (&s, (struct admission_server_options){ .max_body = 1000 });
  for (size_t i = 0; i < ARRAY_LEN (cases); i++)
    {
      cleanup_buf struct buf request = { 0 };
      cleanup_answer struct tls_answer answer = { 0 };
      struct tls_client *c = client_of (&s);

      buf_str (&request, head);
      for (size_t n = 0; n < cases[i].chunks; n++)
        buf_printf (&request, "64\r\n%0100d\r\n", 0);
      buf_str (&request, "0\r\n\r\n");
      assert_true (tls_client_send (c, request.data, request.len));
      assert_true (tls_client_read (c, &answer));
      assert_int_equal (answer.status, cases[i].status);
      assert_true (review_on (c, "/allow", "next"));
      tls_client_close (c);
    }
  end (&s);
}

static void
a_large_review_is_answered (void **state)
{
  cleanup_buf struct buf body = { 0 };
  cleanup_answer struct tls_answer answer = { 0 };
  struct setup s;
  struct tls_client *c;

  (void) state;
  begin (&s, (struct admission_server_options){ .threads = 1 });
  c = client_of (&s);
  buf_str (&body, "{\"apiVersion\":\"admission.k8s.io/v1\",\"kind\":\"AdmissionReview\",\"request\":{\"uid\":\"u\","
                  "\"object\":{\"a\":[1");
  while (body.len < 3 * 1024 * 1024)
    buf_str (&body, ",1000000000");
  buf_str (&body, "]}}}");
  assert_true (tls_client_post (c, "/allow", body.data, &answer));
  assert_int_equal (answer.status, 200);
  assert_true (review_on (c, "/allow", "next"));
  tls_client_close (c);
  end (&s);
}

/* Sixteen unfinished requests hold all the memory there is for bodies; the seventeenth is told to come back, and may
 * once they are gone. */
static void
unfinished_bodies_are_bounded_together (void **state)
{
  struct tls_client *hogs[ADMISSION_MAX_PENDING_BODIES], *c;
  cleanup_buf struct buf part = { 0 };
  cleanup_buf struct buf body = { 0 };
  struct setup s;
  int status = 200;

  (void) state;
  begin (&s, (struct admission_server_options){ .max_body = 1000 });
  buf_str (&part, "POST /allow HTTP/1.1\r\nHost: l\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n");
  buf_printf (&part, "%0990d", 0);
  buf_printf (&body, "%0990d", 0);
  for (size_t i = 0; i < ARRAY_LEN (hogs); i++)
    {
      hogs[i] = client_of (&s);
      assert_true (tls_client_send (hogs[i], part.data, part.len));
    }
  /* Only when all of it has been read may another request come: it would else take the last one's place. */
  for (int tries = 0; tries < 2000 && atomic_load (&s.server->pending_bytes) < ARRAY_LEN (hogs) * 990; tries++)
    clock_sleep_ms (5);
  assert_int_equal (atomic_load (&s.server->pending_bytes), ARRAY_LEN (hogs) * 990);
  c = client_of (&s);
  {
    cleanup_answer struct tls_answer answer = { 0 };

    assert_true (tls_client_post (c, "/allow", body.data, &answer));
    status = answer.status;
  }
  assert_int_equal (status, 503);
  for (size_t i = 0; i < ARRAY_LEN (hogs); i++)
    tls_client_close (hogs[i]);
  for (int tries = 0; tries < 1000 && status != 400; tries++)
    {
      cleanup_answer struct tls_answer answer = { 0 };

      assert_true (tls_client_post (c, "/allow", body.data, &answer));
      status = answer.status;
      clock_sleep_ms (status == 400 ? 0 : 5);
    }
  assert_int_equal (status, 400); /* read whole, and found to be no JSON */
  tls_client_close (c);
  end (&s);
}

static void
idle_and_trickling_clients_are_dropped (void **state)
{
  static const char head[] = "POST /allow HTTP/1.1\r\nHost: l\r\nContent-Type: application/json\r\n"
                             "Content-Length: 1000\r\n\r\n";
  struct setup s;
  struct tls_client *idle, *trickle;
  int sent = 0;

  (void) state;
  begin (&s, (struct admission_server_options){ .timeout_s = 1 });
  idle = client_of (&s);
  trickle = client_of (&s);
  assert_true (tls_client_send (trickle, head, strlen (head)));
  while (sent < 200 && tls_client_send (trickle, " ", 1))
    {
      clock_sleep_ms (50);
      sent++;
    }
  assert_in_range (sent, 1, 199);
  assert_true (tls_client_closed (idle));
  tls_client_close (idle);
  tls_client_close (trickle);
  end (&s);
}

static void
only_current_tls_is_spoken (void **state)
{
  static const char plain[] = "POST /allow HTTP/1.1\r\nHost: l\r\n\r\n";
  struct setup s;
  struct tls_client *c;

  (void) state;
  begin (&s, (struct admission_server_options){ .threads = 1 });
  assert_null (tls_client_open (s.port, NULL, TLS1_1_VERSION));
  c = tls_client_open (s.port, s.ca.cert_pem, TLS1_2_VERSION);
  assert_non_null (c);
  assert_true (review_on (c, "/allow", "tls 1.2"));
  tls_client_close (c);
  c = client_of (&s);
  assert_true (review_on (c, "/allow", "tls 1.3"));
  assert_true (tls_client_send (c, plain, 10)); /* half a request, then gone */
  tls_client_close (c);
  c = client_of (&s);
  assert_true (review_on (c, "/allow", "still there"));
  tls_client_close (c);
  end (&s);
}

static void
new_connections_get_the_new_certificate_and_open_ones_stay (void **state)
{
  cleanup_pair struct pki_pair new_ca = { 0 };
  cleanup_pair struct pki_pair new_serving = { 0 };
  struct error err = { "" };
  struct setup s;
  struct tls_client *before, *after;

  (void) state;
  begin (&s, (struct admission_server_options){ .threads = 2 });
  make_certificates (&new_ca, &new_serving);
  before = client_of (&s);
  assert_true (review_on (before, "/allow", "before"));
  assert_int_equal (admission_server_set_certificate (s.server, new_serving.cert_pem, new_serving.key_pem, &err), 0);
  assert_true (review_on (before, "/allow", "open all along"));
  assert_null (tls_client_open (s.port, s.ca.cert_pem, 0));
  after = tls_client_open (s.port, new_ca.cert_pem, 0);
  assert_non_null (after);
  assert_true (review_on (after, "/allow", "after"));

  /* what is broken changes nothing */
  assert_int_equal (admission_server_set_certificate (s.server, "garbage", new_serving.key_pem, &err), -EINVAL);
  assert_int_equal (admission_server_set_certificate (s.server, new_serving.cert_pem, "garbage", &err), -EINVAL);
  assert_int_equal (admission_server_set_certificate (s.server, NULL, NULL, &err), -EINVAL);
  assert_int_equal (admission_server_set_certificate (s.server, s.serving.cert_pem, new_serving.key_pem, &err),
                    -EINVAL);
  assert_string_equal (err.message, "the private key does not belong to the serving certificate");
  tls_client_close (after);
  after = tls_client_open (s.port, new_ca.cert_pem, 0);
  assert_non_null (after);
  tls_client_close (after);
  tls_client_close (before);
  end (&s);
}

/* ---- many at once ---- */

#define CLIENTS 6
#define ROUNDS 12
#define REVIEWS_PER_CONNECTION 5

struct load
{
  int port;
  const char *trust;
  atomic_int answered;
};

static void *
run_client (void *arg)
{
  struct load *load = arg;

  for (int round = 0; round < ROUNDS; round++)
    {
      struct tls_client *c = tls_client_open (load->port, load->trust, 0);

      for (int i = 0; c != NULL && i < REVIEWS_PER_CONNECTION; i++)
        {
          cleanup_free char *body = xasprintf (REVIEW, "u");
          cleanup_answer struct tls_answer answer = { 0 };

          if (tls_client_post (c, i % 2 ? "/deny" : "/allow", body, &answer) && answer.status == 200)
            atomic_fetch_add (&load->answered, 1);
        }
      tls_client_close (c);
    }
  return NULL;
}

static void
certificates_change_under_load_and_nobody_notices (void **state)
{
  cleanup_pair struct pki_pair other = { 0 };
  struct admission_stats allowed, denied;
  struct error err = { "" };
  pthread_t threads[CLIENTS];
  struct setup s;
  struct load load;
  uint64_t observed = 0;

  (void) state;
  begin (&s, (struct admission_server_options){ .threads = 2 });
  assert_int_equal (pki_make_serving (&other, &s.ca, names, 1, clock_wall_ms (), DAY, &err), 0);
  load = (struct load){ .port = s.port, .trust = s.ca.cert_pem };
  for (size_t i = 0; i < CLIENTS; i++)
    assert_int_equal (pthread_create (&threads[i], NULL, run_client, &load), 0);
  for (int i = 0; i < 200; i++)
    {
      const struct pki_pair *p = i % 2 ? &s.serving : &other;

      assert_int_equal (admission_server_set_certificate (s.server, p->cert_pem, p->key_pem, &err), 0);
      admission_server_stats (s.server, ALLOW, &allowed);
      clock_sleep_ms (1);
    }
  for (size_t i = 0; i < CLIENTS; i++)
    pthread_join (threads[i], NULL);
  assert_int_equal (load.answered, CLIENTS * ROUNDS * REVIEWS_PER_CONNECTION);
  admission_server_stats (s.server, ALLOW, &allowed);
  admission_server_stats (s.server, DENY, &denied);
  assert_int_equal (allowed.allowed, CLIENTS * ROUNDS * 3);
  assert_int_equal (denied.denied, CLIENTS * ROUNDS * 2);
  for (size_t i = 0; i < ADMISSION_BUCKETS; i++)
    observed += allowed.latency[i];
  assert_int_equal (observed, allowed.allowed);
  end (&s);
}

static void
every_way_to_end_is_counted_once (void **state)
{
  cleanup_answer struct tls_answer answer = { 0 };
  struct admission_stats stats;
  struct setup s;
  struct tls_client *c;

  (void) state;
  begin (&s, (struct admission_server_options){ .threads = 1, .strict = true });
  c = client_of (&s);
  assert_false (review_on (c, "/fail", "strict"));
  assert_true (tls_client_post (c, "/fail", "nonsense", &answer));
  assert_int_equal (answer.status, 400);
  admission_server_stats (s.server, FAIL, &stats);
  assert_int_equal (stats.failed, 1);
  assert_int_equal (stats.malformed, 1);
  assert_int_equal (stats.allowed + stats.denied, 0);
  admission_server_stats (s.server, ALLOW, &stats);
  assert_int_equal (stats.allowed + stats.denied + stats.failed + stats.malformed, 0);
  tls_client_close (c);
  end (&s);
}

/* ---- stopping ---- */

static void *
run_stop (void *server)
{
  admission_server_stop (server);
  return NULL;
}

static void
stopping_waits_for_the_answer_in_flight (void **state)
{
  cleanup_free char *body = xasprintf (REVIEW, "last");
  cleanup_buf struct buf request = { 0 };
  cleanup_answer struct tls_answer answer = { 0 };
  struct setup s;
  struct tls_client *c, *late;
  pthread_t stopper;
  int tries = 0;

  (void) state;
  sem_init (&entered, 0, 0);
  sem_init (&may_answer, 0, 0);
  begin (&s, (struct admission_server_options){ .threads = 2 });
  c = client_of (&s);
  buf_printf (&request,
              "POST /wait HTTP/1.1\r\nHost: l\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
              strlen (body), body);
  assert_true (tls_client_send (c, request.data, request.len));
  sem_wait (&entered);
  assert_int_equal (pthread_create (&stopper, NULL, run_stop, s.server), 0);
  while ((late = tls_client_open (s.port, s.ca.cert_pem, 0)) != NULL
         && tries++ < 1000) /* until the listener is closed */
    {
      tls_client_close (late);
      clock_sleep_ms (1);
    }
  assert_null (late);
  sem_post (&may_answer);
  assert_true (tls_client_read (c, &answer));
  assert_int_equal (answer.status, 200);
  assert_non_null (strstr (answer.body, "\"last\""));
  assert_non_null (strcasestr (answer.headers, "Connection: close"));
  assert_true (tls_client_closed (c));
  pthread_join (stopper, NULL);
  tls_client_close (c);
  s.server = NULL;
  end (&s); /* NULL is fine */
  sem_destroy (&entered);
  sem_destroy (&may_answer);
}

static void
addresses_are_understood_or_refused (void **state)
{
  static const char *const good[] = { "127.0.0.1:0", ":0", "0.0.0.0:0", "[::ffff:127.0.0.1]:0", "localhost:0" };
  static const struct
  {
    const char *address, *reason;
  } bad[] = {
    { "", "host:port" },
    { "9443", "host:port" },
    { "127.0.0.1:", "host:port" },
    { "127.0.0.1:65536", "host:port" },
    { "127.0.0.1:-1", "host:port" },
    { "::1:9443", "host:port" },
    { "127.0.0.1:http", "host:port" },
    { "192.0.2.1:0", "cannot listen on 192.0.2.1:0" }, /* TEST-NET-1: nobody's own address */
  };
  struct setup s, second = { .port = 0 };
  struct error err = { "" };
  struct admission_server_options options = { .routes = routes, .nroutes = ARRAY_LEN (routes) };
  char taken[64];

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (good); i++)
    {
      struct tls_client *c;

      begin (&s, (struct admission_server_options){ .bind_address = good[i] });
      c = client_of (&s);
      assert_true (review_on (c, "/allow", "u"));
      tls_client_close (c);
      end (&s);
    }
  begin (&s, (struct admission_server_options){ .threads = 1 });
  for (size_t i = 0; i < ARRAY_LEN (bad); i++)
    {
      options.bind_address = bad[i].address;
      assert_true (admission_server_start (&second.server, &options, s.serving.cert_pem, s.serving.key_pem, &err) < 0);
      if (strstr (err.message, bad[i].reason) == NULL)
        fail_msg ("\"%s\": %s", bad[i].address, err.message);
    }
  snprintf (taken, sizeof (taken), "127.0.0.1:%d", s.port);
  options.bind_address = taken;
  assert_int_equal (admission_server_start (&second.server, &options, s.serving.cert_pem, s.serving.key_pem, &err),
                    -EADDRINUSE);
  assert_int_equal (admission_server_start (&second.server, &options, s.serving.cert_pem, "no key", &err), -EINVAL);
  end (&s);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (one_connection_carries_many_reviews),
    cmocka_unit_test (what_is_no_review_request_is_refused),
    cmocka_unit_test (a_body_announced_too_large_is_refused_before_it_is_sent),
    cmocka_unit_test (a_chunked_body_is_measured_while_it_comes),
    cmocka_unit_test (a_large_review_is_answered),
    cmocka_unit_test (unfinished_bodies_are_bounded_together),
    cmocka_unit_test (idle_and_trickling_clients_are_dropped),
    cmocka_unit_test (only_current_tls_is_spoken),
    cmocka_unit_test (new_connections_get_the_new_certificate_and_open_ones_stay),
    cmocka_unit_test (certificates_change_under_load_and_nobody_notices),
    cmocka_unit_test (every_way_to_end_is_counted_once),
    cmocka_unit_test (stopping_waits_for_the_answer_in_flight),
    cmocka_unit_test (addresses_are_understood_or_refused),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
