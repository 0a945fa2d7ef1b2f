/* Leader election against a server that keeps one Lease with optimistic concurrency. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>

#include "kube/kube.h"
#include "kube_test_server.h"

#define PATH "/apis/coordination.k8s.io/v1/namespaces/ns/leases"

struct fake
{
  struct test_server *server;
  pthread_mutex_t lock;
  cJSON *lease; /* NULL: there is none */
  int version, writes, conflicts;
  bool hang, fail;
};

static void
set_version (struct fake *fake)
{
  cleanup_free char *text = xasprintf ("%d", ++fake->version);

  json_set_str (json_obj (fake->lease, "metadata"), "resourceVersion", text);
}

static void
store (struct fake *fake, const char *body, struct test_answer *answer)
{
  cJSON *sent = NULL;

  if (json_parse (&sent, body, strlen (body), NULL) < 0)
    {
      answer->status = 400;
      return;
    }
  cJSON_Delete (fake->lease);
  fake->lease = sent;
  fake->writes++;
  set_version (fake);
}

static bool
is_stale (const struct fake *fake, const char *body)
{
  cleanup_json cJSON *sent = NULL;

  json_parse (&sent, body, strlen (body), NULL);
  return !text_eq (json_str (sent, "metadata", "resourceVersion"),
                   json_str (fake->lease, "metadata", "resourceVersion"));
}

static void
keep_lease (void *data, const struct test_request *request, struct test_answer *answer)
{
  struct fake *fake = data;
  bool post = text_eq (request->method, "POST"), put = text_eq (request->method, "PUT");

  pthread_mutex_lock (&fake->lock);
  if (fake->hang || fake->fail)
    {
      answer->hang = fake->hang;
      answer->status = 500;
    }
  else if (text_starts_with (request->path, "/things"))
    {
      answer->body = xstrdup ("{\"metadata\":{\"resourceVersion\":\"1\"},\"items\":[{}]}");
      answer->status = 200;
    }
  else if (!text_eq (request->path, post ? PATH : PATH "/op"))
    answer->status = 400;
  else if (post ? fake->lease != NULL : put && fake->lease != NULL && is_stale (fake, request->body))
    {
      answer->status = 409;
      fake->conflicts++;
    }
  else if (!post && fake->lease == NULL)
    answer->status = 404;
  else if (post || put)
    store (fake, request->body, answer);
  if (answer->status == 0 && !answer->hang)
    answer->body = json_print (fake->lease);
  pthread_mutex_unlock (&fake->lock);
}

/* ---- what the owner is told ---- */

struct owner
{
  atomic_int acquired, lost;
};

static void
on_acquired (void *data)
{
  atomic_fetch_add (&((struct owner *) data)->acquired, 1);
}

static void
on_lost (void *data)
{
  atomic_fetch_add (&((struct owner *) data)->lost, 1);
}

struct scene
{
  struct fake fake;
  struct kube_client *client;
  struct owner owner;
};

static void
set_up (struct scene *s, const char *lease_json)
{
  *s = (struct scene){ .client = NULL };
  pthread_mutex_init (&s->fake.lock, NULL);
  if (lease_json != NULL)
    {
      assert_int_equal (json_parse (&s->fake.lease, lease_json, strlen (lease_json), NULL), 0);
      set_version (&s->fake);
    }
  s->fake.server = test_server_start (keep_lease, &s->fake, false);
  s->client = test_server_client (s->fake.server, NULL);
}

static void
tear_down (struct scene *s)
{
  kube_client_free (s->client);
  test_server_stop (s->fake.server);
  cJSON_Delete (s->fake.lease);
}

static struct kube_lease *
start (struct scene *s, struct owner *owner, const char *identity, int64_t renew_deadline_ms)
{
  struct kube_lease_options options = {
    .namespace = "ns",
    .name = "op",
    .identity = identity,
    .duration_ms = renew_deadline_ms * 2,
    .renew_deadline_ms = renew_deadline_ms,
    .retry_ms = 20,
    .acquired = on_acquired,
    .lost = on_lost,
    .data = owner,
  };

  return kube_lease_start (s->client, &options);
}

static char *
spec_text (struct scene *s, const char *key)
{
  char *text;

  pthread_mutex_lock (&s->fake.lock);
  text = xstrdup (log_nonnull (json_str (s->fake.lease, "spec", key)));
  pthread_mutex_unlock (&s->fake.lock);
  return text;
}

static int64_t
spec_number (struct scene *s, const char *key)
{
  int64_t n;

  pthread_mutex_lock (&s->fake.lock);
  n = json_int (s->fake.lease, -1, "spec", key);
  pthread_mutex_unlock (&s->fake.lock);
  return n;
}

static int
writes_of (struct scene *s)
{
  int n;

  pthread_mutex_lock (&s->fake.lock);
  n = s->fake.writes;
  pthread_mutex_unlock (&s->fake.lock);
  return n;
}

static void
change (struct scene *s, bool hang, bool fail)
{
  pthread_mutex_lock (&s->fake.lock);
  s->fake.hang = hang;
  s->fake.fail = fail;
  pthread_mutex_unlock (&s->fake.lock);
}

static void
assert_spec (struct scene *s, const char *key, const char *expected)
{
  cleanup_free char *text = spec_text (s, key);

  assert_string_equal (text, expected);
}

/* ---- tests ---- */

static void
a_missing_lease_is_made_renewed_and_given_back (void **state)
{
  cleanup_free char *acquired = NULL, *renewed = NULL, *renewed_later = NULL;
  struct kube_lease *lease;
  struct scene s;
  int64_t wall_ms;

  (void) state;
  set_up (&s, NULL);
  lease = start (&s, &s.owner, "one", 10000);
  wait_for (kube_lease_held (lease));
  wait_for (atomic_load (&s.owner.acquired) == 1);
  assert_false (kube_client_fenced (s.client));
  assert_spec (&s, "holderIdentity", "one");
  assert_int_equal (spec_number (&s, "leaseDurationSeconds"), 20);
  assert_int_equal (spec_number (&s, "leaseTransitions"), 0);
  acquired = spec_text (&s, "acquireTime");
  renewed = spec_text (&s, "renewTime");
  assert_int_equal (clock_parse_rfc3339 (renewed, &wall_ms), 0);
  assert_int_equal (strlen (renewed), strlen ("2026-08-19T10:11:12.345000Z"));
  wait_for (writes_of (&s) >= 4);
  renewed_later = spec_text (&s, "renewTime");
  assert_true (strcmp (renewed, renewed_later) < 0);
  assert_spec (&s, "acquireTime", acquired);
  assert_int_equal (spec_number (&s, "leaseTransitions"), 0);
  kube_client_shutdown (s.client); /* the order at the end of a process */
  kube_lease_stop (lease);
  assert_spec (&s, "holderIdentity", "");
  assert_int_equal (spec_number (&s, "leaseDurationSeconds"), 1);
  wait_for (atomic_load (&s.owner.acquired) == 1); /* told just after it is so */
  assert_int_equal (atomic_load (&s.owner.lost), 0);
  tear_down (&s);
}

static void
a_lease_given_back_is_taken_at_once_and_counts_as_a_transition (void **state)
{
  struct kube_lease *lease;
  struct scene s;

  (void) state;
  set_up (&s, "{\"metadata\":{\"name\":\"op\",\"labels\":{\"keep\":\"me\"}},\"spec\":{\"holderIdentity\":\"\","
              "\"leaseTransitions\":"
              "7,\"leaseDurationSeconds\":1,\"strategy\":\"kept\"}}");
  lease = start (&s, &s.owner, "one", 10000);
  wait_for (kube_lease_held (lease));
  assert_int_equal (spec_number (&s, "leaseTransitions"), 8);
  assert_spec (&s, "strategy", "kept");
  assert_string_equal (json_str (s.fake.lease, "metadata", "labels", "keep"), "me");
  kube_lease_stop (lease);
  tear_down (&s);
}

/* The other holder's timestamps are ancient: they do not count, only how long we have seen no renewal does. */
static void
a_lease_of_another_is_taken_when_it_was_not_renewed_for_its_duration (void **state)
{
  struct kube_lease *lease;
  int64_t begin = clock_mono_ms ();
  struct scene s;

  (void) state;
  set_up (&s, "{\"metadata\":{\"name\":\"op\"},\"spec\":{\"holderIdentity\":\"two\",\"leaseDurationSeconds\":1,"
              "\"renewTime\":\"2001-01-01T00:00:00.000000Z\",\"leaseTransitions\":3}}");
  lease = start (&s, &s.owner, "one", 10000);
  wait_for (kube_lease_held (lease));
  assert_true (clock_mono_ms () - begin >= 1000);
  assert_spec (&s, "holderIdentity", "one");
  assert_int_equal (spec_number (&s, "leaseTransitions"), 4);
  kube_lease_stop (lease);
  tear_down (&s);
}

static void
of_two_candidates_one_leads_and_the_other_follows_it (void **state)
{
  struct owner other = { 0 };
  struct kube_lease *first, *second;
  struct scene s;
  int writes;

  (void) state;
  set_up (&s, NULL);
  first = start (&s, &s.owner, "one", 10000);
  wait_for (kube_lease_held (first));
  second = start (&s, &other, "two", 10000);
  writes = writes_of (&s);
  wait_for (writes_of (&s) >= writes + 5);
  assert_true (kube_lease_held (first));
  assert_false (kube_lease_held (second));
  kube_lease_stop (first);
  wait_for (kube_lease_held (second));
  wait_for (atomic_load (&other.acquired) == 1); /* told just after it is so */
  assert_int_equal (spec_number (&s, "leaseTransitions"), 1);
  kube_lease_stop (second);
  tear_down (&s);
}

static void
a_lease_that_another_took_is_lost (void **state)
{
  struct kube_lease *lease;
  struct scene s;

  (void) state;
  set_up (&s, NULL);
  lease = start (&s, &s.owner, "one", 10000);
  wait_for (kube_lease_held (lease));
  pthread_mutex_lock (&s.fake.lock);
  json_set_str (json_obj (s.fake.lease, "spec"), "holderIdentity", "two");
  set_version (&s.fake);
  pthread_mutex_unlock (&s.fake.lock);
  wait_for (atomic_load (&s.owner.lost) == 1);
  assert_false (kube_lease_held (lease));
  wait_for (kube_client_fenced (s.client));
  kube_lease_stop (lease);
  assert_spec (&s, "holderIdentity", "two"); /* not ours to give back */
  tear_down (&s);
}

static void
a_write_in_between_is_no_loss (void **state)
{
  struct kube_lease *lease;
  struct scene s;
  int writes;

  (void) state;
  set_up (&s, NULL);
  lease = start (&s, &s.owner, "one", 10000);
  wait_for (kube_lease_held (lease));
  pthread_mutex_lock (&s.fake.lock);
  json_set_str (json_obj (json_obj (s.fake.lease, "metadata"), "annotations"), "by", "somebody");
  set_version (&s.fake);
  writes = s.fake.writes;
  pthread_mutex_unlock (&s.fake.lock);
  wait_for (writes_of (&s) >= writes + 2);
  assert_true (s.fake.conflicts >= 1);
  assert_true (kube_lease_held (lease));
  pthread_mutex_lock (&s.fake.lock);
  cJSON_Delete (s.fake.lease); /* and neither is its removal */
  s.fake.lease = NULL;
  pthread_mutex_unlock (&s.fake.lock);
  wait_for (writes_of (&s) >= writes + 4);
  assert_true (kube_lease_held (lease));
  assert_int_equal (atomic_load (&s.owner.lost), 0);
  kube_lease_stop (lease);
  tear_down (&s);
}

static void
the_lease_is_given_up_in_time_when_the_server_does_not_answer (void **state)
{
  (void) state;
  for (int hang = 0; hang < 2; hang++)
    {
      struct kube_lease *lease;
      struct scene s;

      set_up (&s, NULL);
      lease = start (&s, &s.owner, "one", 500);
      wait_for (kube_lease_held (lease));
      change (&s, hang, !hang);
      wait_for (!kube_lease_held (lease));
      wait_for (atomic_load (&s.owner.lost) == 1);
      change (&s, false, false);
      wait_for (kube_lease_held (lease)); /* ours still, as the server sees it */
      wait_for (atomic_load (&s.owner.acquired) == 2);
      kube_lease_stop (lease);
      tear_down (&s);
    }
}

static void
block_until_lost (void *data, const cJSON *object, uint64_t version)
{
  struct owner *owner = data;

  (void) object;
  (void) version;
  for (int i = 0; i < 30000 && atomic_load (&owner->lost) == 0; i++)
    clock_sleep_ms (1);
}

static void
do_nothing (void *data)
{
  (void) data;
}

static bool
do_nothing_at_the_end (void *data, uint64_t version)
{
  (void) data;
  (void) version;
  return true;
}

/* No request can be answered while somebody's callback holds up the transport thread; the lease must not wait for it.
 */
static void
the_lease_is_given_up_in_time_when_the_transport_is_stuck (void **state)
{
  struct kube_informer_options options = { .path = "/things", .name = "things" };
  struct kube_informer_handler handler
      = { .upsert = block_until_lost, .remove = block_until_lost, .list_begin = do_nothing };
  struct kube_informer *informer;
  struct kube_lease *lease;
  struct scene s;

  (void) state;
  set_up (&s, NULL);
  lease = start (&s, &s.owner, "one", 500);
  wait_for (kube_lease_held (lease));
  handler.data = &s.owner;
  handler.list_end = do_nothing_at_the_end;
  informer = kube_informer_start (s.client, &options, &handler);
  wait_for (kube_informer_synced (informer));
  wait_for (atomic_load (&s.owner.lost) == 1); /* told just after it is so */
  wait_for (kube_lease_held (lease));
  kube_informer_stop (informer);
  kube_lease_stop (lease);
  tear_down (&s);
}

static void
stop_is_prompt_while_the_server_hangs (void **state)
{
  struct kube_lease *lease;
  int64_t begin;
  struct scene s;

  (void) state;
  set_up (&s, NULL);
  lease = start (&s, &s.owner, "one", 60000);
  wait_for (kube_lease_held (lease));
  change (&s, true, false);
  clock_sleep_ms (60); /* so that, most likely, a renewal hangs; the test holds either way */
  begin = clock_mono_ms ();
  kube_lease_stop (lease);
  assert_true (clock_mono_ms () - begin < 25000); /* a renewal alone would take 30 s */
  tear_down (&s);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (a_missing_lease_is_made_renewed_and_given_back),
    cmocka_unit_test (a_lease_given_back_is_taken_at_once_and_counts_as_a_transition),
    cmocka_unit_test (a_lease_of_another_is_taken_when_it_was_not_renewed_for_its_duration),
    cmocka_unit_test (of_two_candidates_one_leads_and_the_other_follows_it),
    cmocka_unit_test (a_lease_that_another_took_is_lost),
    cmocka_unit_test (a_write_in_between_is_no_loss),
    cmocka_unit_test (the_lease_is_given_up_in_time_when_the_server_does_not_answer),
    cmocka_unit_test (the_lease_is_given_up_in_time_when_the_transport_is_stuck),
    cmocka_unit_test (stop_is_prompt_while_the_server_hangs),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
