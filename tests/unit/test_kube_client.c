/* Calls and batches against a real HTTP server on loopback. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <utlist.h>

#include "kube/kube_internal.h"
#include "kube_test_server.h"

#define NAMED "{\"metadata\":{\"name\":\"a\"}}"
#define UNNAMED "{\"metadata\":{\"generateName\":\"a-\"}}"

/* A server that gives the answers listed, one after the other, then 200 for ever, and keeps what it was asked last. */
struct fake
{
  struct test_server *server;
  const struct test_answer *answers;
  size_t count;
  const char *token; /* anything else is answered with 401 */
  int delay_ms;

  pthread_mutex_t lock;
  size_t requests;
  int running, most_running;
  char method[16], path[256], body[256], content_type[64], authorization[64], accept[96];
};

static void
note (struct fake *fake, const struct test_request *request)
{
  snprintf (fake->method, sizeof (fake->method), "%s", request->method);
  snprintf (fake->path, sizeof (fake->path), "%s", request->path);
  snprintf (fake->body, sizeof (fake->body), "%s", request->body);
  snprintf (fake->content_type, sizeof (fake->content_type), "%s", request->content_type);
  snprintf (fake->accept, sizeof (fake->accept), "%s", request->accept);
  snprintf (fake->authorization, sizeof (fake->authorization), "%s", request->authorization);
}

static void
answer_as_listed (void *data, const struct test_request *request, struct test_answer *answer)
{
  struct fake *fake = data;

  pthread_mutex_lock (&fake->lock);
  note (fake, request);
  fake->running++;
  fake->most_running = fake->running > fake->most_running ? fake->running : fake->most_running;
  if (fake->requests < fake->count)
    *answer = fake->answers[fake->requests];
  fake->requests++;
  pthread_mutex_unlock (&fake->lock);
  if (fake->token != NULL && !text_eq (request->authorization, fake->token))
    answer->status = 401;
  answer->body = answer->body ? xstrdup (answer->body) : xasprintf ("{\"path\":\"%s\"}", request->path);
  clock_sleep_ms (fake->delay_ms);
  pthread_mutex_lock (&fake->lock);
  fake->running--;
  pthread_mutex_unlock (&fake->lock);
}

static void
start (struct fake *fake, const struct test_answer *answers, size_t count, bool tls)
{
  *fake = (struct fake){ .answers = answers, .count = count };
  pthread_mutex_init (&fake->lock, NULL);
  fake->server = test_server_start (answer_as_listed, fake, tls);
}

static void
stop (struct fake *fake)
{
  test_server_stop (fake->server);
  pthread_mutex_destroy (&fake->lock);
}

static size_t
requests_of (struct fake *fake)
{
  size_t n;

  pthread_mutex_lock (&fake->lock);
  n = fake->requests;
  pthread_mutex_unlock (&fake->lock);
  return n;
}

static struct kube_request
request_of (enum kube_verb verb, const char *body)
{
  return (struct kube_request){ .verb = verb, .path = (char *) "/api/v1/x?y=1", .body = (char *) body };
}

static void
each_verb_goes_out_as_the_API_wants_it (void **state)
{
  static const struct
  {
    enum kube_verb verb;
    const char *body, *method, *content_type;
  } cases[] = {
    { KUBE_GET, NULL, "GET", "" },
    { KUBE_POST, NAMED, "POST", "application/json" },
    { KUBE_PUT, NAMED, "PUT", "application/json" },
    { KUBE_DELETE, NULL, "DELETE", "" },
    { KUBE_DELETE, "{\"gracePeriodSeconds\":0}", "DELETE", "application/json" },
    { KUBE_PATCH_MERGE, "{}", "PATCH", "application/merge-patch+json" },
    { KUBE_GET, NULL, "GET", "" }, /* nothing is left of the requests before it */
    { KUBE_PATCH_JSON, "[]", "PATCH", "application/json-patch+json" },
    { KUBE_PATCH_APPLY, "{}", "PATCH", "application/apply-patch+yaml" },
  };
  struct kube_client *client;
  struct fake fake;

  (void) state;
  start (&fake, NULL, 0, false);
  client = test_server_client (fake.server, NULL);
  for (size_t i = 0; i < ARRAY_LEN (cases); i++)
    {
      struct kube_request request = request_of (cases[i].verb, cases[i].body);
      cleanup_response struct kube_response response = { 0 };

      kube_do (client, &request, &response);
      assert_int_equal (response.status, 200);
      assert_string_equal (response.error.message, "");
      assert_string_equal (json_str (response.body, "path"), "/api/v1/x?y=1");
      assert_string_equal (fake.method, cases[i].method);
      assert_string_equal (fake.path, "/api/v1/x?y=1");
      assert_string_equal (fake.body, cases[i].body ? cases[i].body : "");
      assert_string_equal (fake.content_type, cases[i].content_type);
    }
  kube_client_free (client);
  stop (&fake);
}

static void
a_list_may_be_of_metadata_only (void **state)
{
  struct kube_request request = request_of (KUBE_GET, NULL);
  struct kube_client *client;
  struct fake fake;

  (void) state;
  start (&fake, NULL, 0, false);
  client = test_server_client (fake.server, NULL);
  for (int metadata_only = 0; metadata_only < 2; metadata_only++)
    {
      cleanup_response struct kube_response response = { 0 };

      request.metadata_only = metadata_only;
      kube_do (client, &request, &response);
      assert_string_equal (fake.accept, metadata_only
                                            ? "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
                                            : "application/json");
    }
  kube_client_free (client);
  stop (&fake);
}

/* Not read to its end, and not asked for again. */
static void
an_answer_that_is_too_long_is_given_up (void **state)
{
  static const struct
  {
    size_t max, length;
    bool taken;
  } cases[] = {
    { 1000, 1000, true }, { 1000, 1001, false }, { 0, KUBE_ANSWER_MAX, true }, { 0, KUBE_ANSWER_MAX + 1, false }
  };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (cases); i++)
    {
      struct kube_request request = request_of (KUBE_GET, NULL);
      cleanup_response struct kube_response response = { 0 };
      cleanup_free char *body = xmalloc (cases[i].length + 1);
      cleanup_free char *says
          = xasprintf ("get /api/v1/x?y=1: the answer is longer than the %zu bytes that there is room for",
                       cases[i].max > 0 ? cases[i].max : KUBE_ANSWER_MAX);
      struct test_answer answer = { .body = body };
      struct kube_client *client;
      struct fake fake;

      memset (body, ' ', cases[i].length);
      body[0] = '1';
      body[cases[i].length] = '\0';
      start (&fake, &answer, 1, false);
      client = test_server_client (fake.server, NULL);
      request.answer_max = cases[i].max;
      kube_do (client, &request, &response);
      assert_int_equal (response.status, cases[i].taken ? 200 : 0);
      assert_string_equal (response.error.message, cases[i].taken ? "" : says);
      assert_int_equal (requests_of (&fake), 1);
      kube_client_free (client);
      stop (&fake);
    }
}

static void
a_failure_is_one_sentence (void **state)
{
  static const struct
  {
    struct test_answer answer;
    const char *reason, *says;
  } cases[] = {
    { { .status = 409,
        .body
        = (char *) "{\"kind\":\"Status\",\"reason\":\"AlreadyExists\",\"message\":\"pods \\\"a\\\" already exists\"}" },
      "AlreadyExists",
      "create /api/v1/x?y=1: HTTP 409 AlreadyExists: pods \"a\" already exists" },
    { { .status = 404, .body = (char *) "404 page not found\n" },
      "",
      "create /api/v1/x?y=1: HTTP 404: 404 page not found" },
    { { .status = 500, .body = (char *) "" }, "", "create /api/v1/x?y=1: HTTP 500: no message" },
    { { .status = 400, .body = (char *) "{}" }, "", "create /api/v1/x?y=1: HTTP 400: no message" },
  };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (cases); i++)
    {
      struct kube_request request = request_of (KUBE_POST, UNNAMED);
      cleanup_response struct kube_response response = { 0 };
      struct kube_client *client;
      struct fake fake;

      start (&fake, &cases[i].answer, 1, false);
      client = test_server_client (fake.server, NULL);
      kube_do (client, &request, &response);
      assert_int_equal (response.status, cases[i].answer.status);
      assert_string_equal (response.reason, cases[i].reason);
      assert_string_equal (response.error.message, cases[i].says);
      assert_int_equal (requests_of (&fake), 1);
      kube_client_free (client);
      stop (&fake);
    }
}

static void
what_is_tried_again_and_what_is_not (void **state)
{
  static const struct
  {
    const char *name;
    enum kube_verb verb;
    int status; /* in the end */
    const char *body;
    struct test_answer answers[5];
    size_t count, requests;
  } cases[] = {
    { "429 for any verb", KUBE_POST, 200, UNNAMED, { { .status = 429 }, { .status = 429 } }, 2, 3 },
    { "503 for any verb", KUBE_POST, 200, UNNAMED, { { .status = 503 } }, 1, 2 },
    { "500 of a read", KUBE_GET, 200, NULL, { { .status = 500 } }, 1, 2 },
    { "500 of a named create", KUBE_POST, 200, NAMED, { { .status = 500 } }, 1, 2 },
    { "500 of an unnamed create", KUBE_POST, 500, UNNAMED, { { .status = 500 } }, 1, 1 },
    { "504 of a named create, done already", KUBE_POST, 409, NAMED, { { .status = 504 }, { .status = 409 } }, 2, 2 },
    { "502 of a patch", KUBE_PATCH_MERGE, 200, "{}", { { .status = 502 } }, 1, 2 },
    { "broken connection of a delete", KUBE_DELETE, 200, NULL, { { .close = true } }, 1, 2 },
    { "broken connection of an unnamed create", KUBE_POST, 0, UNNAMED, { { .close = true } }, 1, 1 },
    { "conflict", KUBE_PUT, 409, NAMED, { { .status = 409 } }, 1, 1 },
    { "bad request", KUBE_GET, 400, NULL, { { .status = 400 } }, 1, 1 },
    { "unauthorized, no newer token", KUBE_GET, 401, NULL, { { .status = 401 } }, 1, 1 },
    { "500 without end",
      KUBE_GET,
      500,
      NULL,
      { { .status = 500 }, { .status = 500 }, { .status = 500 }, { .status = 500 }, { .status = 500 } },
      5,
      4 },
  };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (cases); i++)
    {
      struct kube_request request = request_of (cases[i].verb, cases[i].body);
      cleanup_response struct kube_response response = { 0 };
      struct kube_client_stats stats;
      struct kube_client *client;
      struct fake fake;

      start (&fake, cases[i].answers, cases[i].count, false);
      client = test_server_client (fake.server, NULL);
      kube_do (client, &request, &response);
      kube_client_stats (client, &stats);
      if (response.status != cases[i].status || requests_of (&fake) != cases[i].requests)
        fail_msg ("%s: status %d after %zu requests (%s)", cases[i].name, response.status, requests_of (&fake),
                  response.error.message);
      assert_int_equal (stats.retries, cases[i].requests - 1);
      assert_int_equal (stats.in_flight, 0);
      kube_client_free (client);
      stop (&fake);
    }
}

static void
a_client_that_was_told_to_wait_waits (void **state)
{
  static const struct test_answer busy = { .status = 429, .retry_after_s = 1 };
  struct kube_request request = request_of (KUBE_GET, NULL);
  cleanup_response struct kube_response response = { 0 };
  struct kube_client_stats stats;
  struct kube_client *client;
  struct fake fake;
  int64_t begin;

  (void) state;
  start (&fake, &busy, 1, false);
  client = test_server_client (fake.server, NULL);
  begin = clock_mono_ms ();
  kube_do (client, &request, &response);
  assert_int_equal (response.status, 200);
  assert_true (clock_mono_ms () - begin >= 1000);
  kube_client_stats (client, &stats);
  assert_int_equal (stats.throttled, 1);
  assert_int_equal (stats.requests[KUBE_GET][4], 1);
  assert_int_equal (stats.requests[KUBE_GET][2], 1);
  kube_client_free (client);
  stop (&fake);
}

static void
a_call_ends_when_its_time_is_up (void **state)
{
  static const struct test_answer slow[] = { { .hang = true }, { .status = 429, .retry_after_s = 20 } };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (slow); i++)
    {
      struct kube_request request = request_of (KUBE_GET, NULL);
      cleanup_response struct kube_response response = { 0 };
      struct kube_client *client;
      struct fake fake;

      request.timeout_ms = slow[i].hang ? 100 : 10000;
      start (&fake, &slow[i], 1, false);
      client = test_server_client (fake.server, NULL);
      kube_do (client, &request, &response);
      assert_int_equal (response.status, slow[i].hang ? 0 : 429); /* 20 s would be too late: the answer is final */
      if (slow[i].hang)
        assert_non_null (strstr (response.error.message, "timed out"));
      kube_client_free (client);
      stop (&fake);
    }
}

static void
nobody_listening_is_said (void **state)
{
  struct kube_request request = request_of (KUBE_POST, UNNAMED);
  cleanup_response struct kube_response response = { 0 };
  struct kube_client_stats stats;
  struct kube_client *client;
  struct fake fake;

  (void) state;
  start (&fake, NULL, 0, false);
  client = test_server_client (fake.server, NULL);
  stop (&fake);
  kube_do (client, &request, &response);
  assert_int_equal (response.status, 0);
  assert_null (response.body);
  assert_non_null (strstr (response.error.message, "create /api/v1/x?y=1: "));
  assert_non_null (strstr (response.error.message, "127.0.0.1"));
  kube_client_stats (client, &stats);
  assert_int_equal (stats.requests[KUBE_POST][0], 4); /* it cannot have arrived, so even this is tried again */
  kube_client_free (client);
}

/* ---- TLS and tokens ---- */

static void
the_server_must_be_who_it_claims_to_be (void **state)
{
  static const struct
  {
    const char *name, *server_name, *says;
    bool no_ca, insecure, ok;
  } cases[] = {
    { "known CA", NULL, NULL, false, false, true },
    { "unknown CA", NULL, "certificate", true, false, false },
    { "unknown CA, not verified", NULL, NULL, true, true, true },
    { "another name of the certificate", "test.invalid", NULL, false, false, true },
    { "a name the certificate does not have", "other.invalid", "other.invalid", false, false, false },
  };
  struct fake fake;

  (void) state;
  start (&fake, NULL, 0, true);
  for (size_t i = 0; i < ARRAY_LEN (cases); i++)
    {
      struct kube_request request = request_of (KUBE_GET, NULL);
      cleanup_response struct kube_response response = { 0 };
      struct kube_client_options options = { 0 };
      struct kube_client *client;
      struct kube_config config;

      test_server_config (fake.server, &config);
      if (cases[i].no_ca)
        {
          free (config.ca_pem);
          config.ca_pem = NULL;
        }
      config.tls_server_name = cases[i].server_name ? xstrdup (cases[i].server_name) : NULL;
      config.insecure = cases[i].insecure;
      assert_int_equal (kube_client_new (&client, &config, &options, NULL), 0);
      kube_do (client, &request, &response);
      if (kube_ok (&response) != cases[i].ok)
        fail_msg ("%s: status %d %s", cases[i].name, response.status, response.error.message);
      if (cases[i].says != NULL && strstr (response.error.message, cases[i].says) == NULL)
        fail_msg ("%s: \"%s\" does not say \"%s\"", cases[i].name, response.error.message, cases[i].says);
      kube_client_free (client);
      kube_config_free (&config);
    }
  stop (&fake);
}

static void
write_token (const char *path, const char *token)
{
  FILE *f = fopen (path, "w");

  assert_non_null (f);
  fputs (token, f);
  fclose (f);
}

static void
a_rotated_token_is_read_again_after_401 (void **state)
{
  char path[] = "/tmp/kube-token-XXXXXX";
  int fd = mkstemp (path);
  struct kube_client_options options = { 0 };
  struct kube_request request = request_of (KUBE_GET, NULL);
  cleanup_response struct kube_response response = { 0 }, again = { 0 };
  struct kube_client *client;
  struct kube_config config;
  struct fake fake;

  (void) state;
  assert_true (fd >= 0);
  close (fd);
  start (&fake, NULL, 0, true);
  fake.token = "Bearer second";
  write_token (path, "first\n");
  test_server_config (fake.server, &config);
  config.token_file = xstrdup (path);
  assert_int_equal (kube_client_new (&client, &config, &options, NULL), 0);
  write_token (path, "second\n");
  kube_do (client, &request, &response);
  assert_int_equal (response.status, 200);
  assert_int_equal (requests_of (&fake), 2);
  fake.token = "Bearer third"; /* which the file does not hold: no endless tries */
  kube_do (client, &request, &again);
  assert_int_equal (again.status, 401);
  assert_int_equal (requests_of (&fake), 3);
  kube_client_free (client);
  kube_config_free (&config);
  stop (&fake);
  unlink (path);
}

/* ---- shutdown and the fence ---- */

struct caller
{
  struct kube_client *client;
  struct kube_response response;
};

static void *
call_once (void *data)
{
  struct caller *caller = data;
  struct kube_request request = request_of (KUBE_GET, NULL);

  request.fenced = true;
  kube_do (caller->client, &request, &caller->response);
  return NULL;
}

static const struct test_answer stuck[] = {
  { .hang = true },
  { .status = 429, .retry_after_s = 25 },
  { .hang = true },
  { .hang = true },
};

struct census
{
  struct kube_client *client;
  int calls;
};

static void
count_calls (void *data)
{
  struct census *census = data;
  struct kube_call *call;
  int in_line, busy;

  DL_COUNT (census->client->line, call, in_line);
  DL_COUNT (census->client->busy, call, busy);
  census->calls = in_line + busy;
}

/* How many calls the client has taken and not finished. */
static int
calls_under_way (struct kube_client *client)
{
  struct census census = { .client = client };

  transport_run (client->transport, count_calls, &census);
  return census.calls;
}

/* Starts a call that hangs, one that backs off, and two of which one waits for its turn; then ends them all. */
static void
end_stuck_calls (void (*end) (struct kube_client *client), bool tls, const char *says, bool fenced, int status_after)
{
  struct kube_client_options options = { .max_in_flight = 2 };
  struct kube_request request = request_of (KUBE_GET, NULL);
  cleanup_response struct kube_response after = { 0 };
  struct caller callers[ARRAY_LEN (stuck)] = { { 0 } };
  pthread_t threads[ARRAY_LEN (stuck)];
  struct kube_client *client;
  struct fake fake;

  start (&fake, stuck, ARRAY_LEN (stuck), tls);
  client = test_server_client (fake.server, &options);
  for (size_t i = 0; i < ARRAY_LEN (stuck); i++)
    {
      callers[i].client = client;
      pthread_create (&threads[i], NULL, call_once, &callers[i]);
    }
  wait_for (requests_of (&fake) >= 3); /* two hang, one was told to come back */
  wait_for (calls_under_way (client) == (int) ARRAY_LEN (stuck));
  end (client);
  for (size_t i = 0; i < ARRAY_LEN (stuck); i++)
    {
      pthread_join (threads[i], NULL);
      assert_int_equal (callers[i].response.status, 0);
      assert_non_null (strstr (callers[i].response.error.message, says));
      kube_response_free (&callers[i].response);
    }
  fake.count = 0;
  request.fenced = fenced;
  kube_do (client, &request, &after);
  assert_int_equal (after.status, status_after);
  kube_response_free (&after);
  request.fenced = false;
  kube_do_flags (client, &request, &after, KUBE_CALL_SYSTEM); /* the lease is given back this way */
  assert_int_equal (after.status, 200);
  kube_client_free (client);
  stop (&fake);
}

static void
shutdown_ends_every_call_and_refuses_later_ones (void **state)
{
  (void) state;
  end_stuck_calls (kube_client_shutdown, true, "shut down", false, 0);
}

static void
fall_now (struct kube_client *client)
{
  kube_client_fence (client, 0);
}

/* By the clock, with nobody to say that it is time. */
static void
fall_soon (struct kube_client *client)
{
  kube_client_fence (client, clock_mono_ms () + 100);
}

/* What runs for later than the moment it was begun under is not cut at that moment. */
static void
be_moved_on_and_fall (struct kube_client *client)
{
  int64_t moment = clock_mono_ms () + 50;

  kube_client_fence (client, moment);
  kube_client_fence (client, moment + 60000);
  while (clock_mono_ms () < moment + 50)
    clock_sleep_ms (5);
  assert_false (kube_client_fenced (client));
  assert_int_equal (calls_under_way (client), ARRAY_LEN (stuck));
  kube_client_fence (client, 0);
}

static void
the_fence_ends_calls_that_need_the_lease_and_refuses_later_ones (void **state)
{
  static const struct
  {
    void (*fall) (struct kube_client *client);
  } cases[] = { { fall_now }, { fall_soon }, { be_moved_on_and_fall } };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (cases); i++)
    {
      end_stuck_calls (cases[i].fall, false, "the lease is lost", true, 0);
      end_stuck_calls (cases[i].fall, false, "the lease is lost", false, 200);
    }
}

/* ---- batches ---- */

struct batch_log
{
  size_t made, done, wrong, outstanding_most, stop_at;
  struct kube_client *shut_down_after;
  int statuses[512];
};

static int
make_one (void *data, size_t i, struct kube_request *request)
{
  struct batch_log *log = data;

  if (i != log->made)
    log->wrong++;
  request->verb = KUBE_POST;
  request->path = xasprintf ("/things/%zu", i);
  request->body = xstrdup (NAMED);
  if (log->stop_at > 0 && i == log->stop_at)
    return 1;
  log->made++;
  if (log->made - log->done > log->outstanding_most)
    log->outstanding_most = log->made - log->done;
  return 0;
}

static void
done_one (void *data, size_t i, struct kube_response *response)
{
  struct batch_log *log = data;
  char path[64];

  snprintf (path, sizeof (path), "/things/%zu", i);
  if (log->statuses[i] != 0 || (response->status == 200 && !text_eq (json_str (response->body, "path"), path)))
    log->wrong++;
  log->statuses[i] = response->status ? response->status : -1;
  log->done++;
  if (log->shut_down_after != NULL)
    kube_client_shutdown (log->shut_down_after);
}

static void
a_batch_sends_all_in_order_within_its_window (void **state)
{
  static const struct test_answer some_fail[] = { { .status = 200 }, { .status = 429 }, { .status = 403 } };
  struct kube_client *client;
  struct batch_log log = { 0 };
  struct fake fake;
  int forbidden = 0;

  (void) state;
  start (&fake, some_fail, ARRAY_LEN (some_fail), false);
  client = test_server_client (fake.server, NULL);
  kube_batch (client, 200, 7, make_one, done_one, &log);
  assert_int_equal (log.made, 200);
  assert_int_equal (log.done, 200);
  assert_int_equal (log.wrong, 0);
  assert_true (log.outstanding_most == 7);
  assert_true (fake.most_running <= 7);
  for (size_t i = 0; i < 200; i++)
    forbidden += log.statuses[i] == 403;
  assert_int_equal (forbidden, 1);
  assert_int_equal (requests_of (&fake), 201);
  kube_batch (client, 0, 7, make_one, done_one, &log);
  assert_int_equal (requests_of (&fake), 201);
  kube_client_free (client);
  stop (&fake);
}

static void
a_batch_ends_when_make_says_so (void **state)
{
  struct kube_client *client;
  struct batch_log log = { .stop_at = 10 };
  struct fake fake;

  (void) state;
  start (&fake, NULL, 0, false);
  client = test_server_client (fake.server, NULL);
  kube_batch (client, 200, 4, make_one, done_one, &log);
  assert_int_equal (log.made, 10);
  assert_int_equal (log.done, 10);
  assert_int_equal (requests_of (&fake), 10);
  kube_client_free (client);
  stop (&fake);
}

static void
shutdown_ends_a_batch (void **state)
{
  struct kube_client *client;
  struct batch_log log = { 0 };
  struct fake fake;

  (void) state;
  start (&fake, NULL, 0, false);
  client = test_server_client (fake.server, NULL);
  log.shut_down_after = client;
  kube_batch (client, 200, 4, make_one, done_one, &log);
  assert_true (log.made >= 4 && log.made < 200);
  assert_int_equal (log.done, log.made);
  kube_client_free (client);
  stop (&fake);
}

static void
no_more_than_max_in_flight_are_on_the_wire (void **state)
{
  struct kube_client_options options = { .max_in_flight = 3 };
  struct kube_client *client;
  struct batch_log log = { 0 };
  struct fake fake;

  (void) state;
  start (&fake, NULL, 0, false);
  fake.delay_ms = 2;
  client = test_server_client (fake.server, &options);
  kube_batch (client, 60, 16, make_one, done_one, &log);
  assert_int_equal (log.done, 60);
  assert_int_equal (log.wrong, 0);
  assert_true (fake.most_running <= 3);
  kube_client_free (client);
  stop (&fake);
}

static void
qps_is_a_limit_when_given (void **state)
{
  struct kube_client_options options = { .qps = 100, .burst = 5 };
  struct kube_client *client;
  struct batch_log log = { 0 };
  struct fake fake;
  int64_t begin = clock_mono_ms ();

  (void) state;
  start (&fake, NULL, 0, false);
  client = test_server_client (fake.server, &options);
  begin = clock_mono_ms ();
  kube_batch (client, 25, 25, make_one, done_one, &log);
  assert_int_equal (log.done, 25);
  assert_true (clock_mono_ms () - begin >= 190); /* 20 beyond the burst at 100 per second, less what rounding takes */
  kube_client_free (client);
  stop (&fake);
}

/* A single call beside a batch, made once the batch has begun. */
struct bystander
{
  struct batch_log log; /* first: the batch's own */
  struct kube_client *client;
  pthread_t thread;
  atomic_size_t done; /* requests of the batch */
  size_t done_before; /* when the bystander's answer came */
};

static void *
call_beside (void *data)
{
  struct bystander *b = data;
  struct kube_request request = request_of (KUBE_GET, NULL);
  cleanup_response struct kube_response response = { 0 };

  kube_do (b->client, &request, &response);
  b->done_before = response.status == 200 ? atomic_load (&b->done) : SIZE_MAX;
  return NULL;
}

static void
done_beside_a_bystander (void *data, size_t i, struct kube_response *response)
{
  struct bystander *b = data;

  done_one (&b->log, i, response);
  if (atomic_fetch_add (&b->done, 1) == 0)
    pthread_create (&b->thread, NULL, call_beside, b);
}

static void
a_long_batch_keeps_no_single_call_waiting (void **state)
{
  struct kube_client_options options = { .max_in_flight = 1 };
  struct bystander b = { 0 };
  struct fake fake;

  (void) state;
  start (&fake, NULL, 0, false);
  fake.delay_ms = 5;
  b.client = test_server_client (fake.server, &options);
  kube_batch (b.client, 200, 200, make_one, done_beside_a_bystander, &b);
  pthread_join (b.thread, NULL);
  assert_int_equal (b.log.done, 200);
  assert_in_range (b.done_before, 1, 199); /* 3 or 4 on an idle machine, 200 when it is first come, first served */
  kube_client_free (b.client);
  stop (&fake);
}

static void *
call_many (void *data)
{
  size_t bad = 0;

  for (int i = 0; i < 50; i++)
    {
      struct kube_request request = request_of (i % 2 ? KUBE_PUT : KUBE_GET, i % 2 ? NAMED : NULL);
      cleanup_response struct kube_response response = { 0 };

      kube_do (data, &request, &response);
      bad += response.status != 200 || response.body == NULL;
    }
  return (void *) bad;
}

static void
many_threads_share_a_client (void **state)
{
  struct kube_client *client;
  pthread_t threads[8];
  struct fake fake;

  (void) state;
  start (&fake, NULL, 0, true);
  client = test_server_client (fake.server, NULL);
  for (size_t i = 0; i < ARRAY_LEN (threads); i++)
    pthread_create (&threads[i], NULL, call_many, client);
  for (size_t i = 0; i < ARRAY_LEN (threads); i++)
    {
      void *bad;

      pthread_join (threads[i], &bad);
      assert_null (bad);
    }
  assert_int_equal (requests_of (&fake), 8 * 50);
  kube_client_free (client);
  stop (&fake);
}

static void
text_is_escaped_for_queries (void **state)
{
  cleanup_free char *escaped = kube_escape ("a/b=c,d in (e)"), *empty = kube_escape ("");

  (void) state;
  assert_string_equal (escaped, "a%2Fb%3Dc%2Cd%20in%20%28e%29");
  assert_string_equal (empty, "");
}

static void
a_name_cannot_lead_to_another_path (void **state)
{
  cleanup_free char *one = kube_object_path ("/api/v1", "a/b", "pods", "../../x?watch=true"),
                    *all = kube_object_path ("/api/v1", "ns", "pods", NULL);
  static const struct
  {
    const char *path;
    bool sent;
  } cases[] = {
    { "/api/v1/namespaces/ns/pods/..", false },
    { "/api/v1/namespaces/ns/pods/../../secrets", false },
    { "/api/v1/namespaces/./pods", false },
    { "/api/v1/namespaces/ns/pods/.?x=1", false },
    { "/api/v1/namespaces/ns/pods/..a/.b/...?x=/../y", true },
  };

  (void) state;
  assert_string_equal (one, "/api/v1/namespaces/a%2Fb/pods/..%2F..%2Fx%3Fwatch%3Dtrue");
  assert_string_equal (all, "/api/v1/namespaces/ns/pods");
  for (size_t i = 0; i < ARRAY_LEN (cases); i++)
    {
      static const struct test_answer echo = { .status = 200 };
      struct kube_request request = { .verb = KUBE_GET, .path = (char *) cases[i].path };
      cleanup_response struct kube_response response = { 0 };
      struct kube_client *client;
      struct fake fake;

      start (&fake, &echo, 1, false);
      client = test_server_client (fake.server, NULL);
      kube_do (client, &request, &response);
      assert_int_equal (response.status, cases[i].sent ? 200 : 0);
      assert_int_equal (requests_of (&fake), cases[i].sent ? 1 : 0);
      if (cases[i].sent)
        assert_string_equal (json_str (response.body, "path"), cases[i].path); /* as it is */
      else
        assert_non_null (strstr (response.error.message, "where a name should be"));
      kube_client_free (client);
      stop (&fake);
    }
}

static void
a_server_address_must_be_one (void **state)
{
  struct kube_client_options options = { 0 };
  struct kube_config config = { .server = xstrdup ("https://[::1") };
  struct kube_client *client = NULL;
  struct error err = { 0 };

  (void) state;
  assert_true (kube_client_new (&client, &config, &options, &err) < 0);
  assert_non_null (strstr (err.message, "https://[::1"));
  assert_null (client);
  kube_config_free (&config);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (each_verb_goes_out_as_the_API_wants_it),
    cmocka_unit_test (a_list_may_be_of_metadata_only),
    cmocka_unit_test (an_answer_that_is_too_long_is_given_up),
    cmocka_unit_test (a_failure_is_one_sentence),
    cmocka_unit_test (what_is_tried_again_and_what_is_not),
    cmocka_unit_test (a_client_that_was_told_to_wait_waits),
    cmocka_unit_test (a_call_ends_when_its_time_is_up),
    cmocka_unit_test (nobody_listening_is_said),
    cmocka_unit_test (the_server_must_be_who_it_claims_to_be),
    cmocka_unit_test (a_rotated_token_is_read_again_after_401),
    cmocka_unit_test (shutdown_ends_every_call_and_refuses_later_ones),
    cmocka_unit_test (the_fence_ends_calls_that_need_the_lease_and_refuses_later_ones),
    cmocka_unit_test (a_batch_sends_all_in_order_within_its_window),
    cmocka_unit_test (a_batch_ends_when_make_says_so),
    cmocka_unit_test (shutdown_ends_a_batch),
    cmocka_unit_test (no_more_than_max_in_flight_are_on_the_wire),
    cmocka_unit_test (qps_is_a_limit_when_given),
    cmocka_unit_test (a_long_batch_keeps_no_single_call_waiting),
    cmocka_unit_test (many_threads_share_a_client),
    cmocka_unit_test (text_is_escaped_for_queries),
    cmocka_unit_test (a_name_cannot_lead_to_another_path),
    cmocka_unit_test (a_server_address_must_be_one),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
