/* The work queue: each test is a sentence about client-go's rate-limiting queue. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/base.h"
#include "kube/queue.h"

static void
assert_next (struct kube_queue *q, const char *expected)
{
  cleanup_free char *key = kube_queue_get (q);

  assert_non_null (key);
  assert_string_equal (key, expected);
}

static struct kube_queue_stats
stats_of (struct kube_queue *q)
{
  struct kube_queue_stats stats;

  kube_queue_stats (q, &stats);
  return stats;
}

static void
a_waiting_key_is_there_once (void **state)
{
  struct kube_queue *q = kube_queue_new (5, 1000);

  (void) state;
  kube_queue_add (q, "ns/a");
  kube_queue_add (q, "ns/b");
  kube_queue_add (q, "ns/a");
  assert_int_equal (stats_of (q).depth, 2);
  assert_int_equal (stats_of (q).adds, 3);
  assert_next (q, "ns/a");
  assert_next (q, "ns/b");
  assert_int_equal (stats_of (q).depth, 0);
  assert_int_equal (stats_of (q).processing, 2);
  kube_queue_done (q, "ns/a");
  kube_queue_done (q, "ns/b");
  assert_int_equal (stats_of (q).processing, 0);
  kube_queue_free (q);
}

static void
a_key_added_while_processed_comes_again_after_done (void **state)
{
  struct kube_queue *q = kube_queue_new (5, 1000);

  (void) state;
  kube_queue_add (q, "ns/a");
  assert_next (q, "ns/a");
  kube_queue_add (q, "ns/a");
  kube_queue_add (q, "ns/a");
  assert_int_equal (stats_of (q).depth, 0); /* no second worker gets it */
  kube_queue_done (q, "ns/a");
  assert_int_equal (stats_of (q).depth, 1);
  assert_next (q, "ns/a");
  kube_queue_done (q, "ns/a");
  assert_int_equal (stats_of (q).depth, 0);
  kube_queue_free (q);
}

/* True when the keys were added so quickly that their order is known. */
static bool
delayed_keys_came_in_order (void)
{
  struct kube_queue *q = kube_queue_new (5, 1000);
  int64_t start = clock_mono_ms ();
  bool known;

  kube_queue_add_after (q, "third", 60);
  kube_queue_add_after (q, "first", 20);
  kube_queue_add_after (q, "second", 40);
  known = clock_mono_ms () - start < 20;
  kube_queue_add (q, "now");
  if (known)
    {
      assert_true (stats_of (q).delayed == 3);
      assert_next (q, "now");
      assert_next (q, "first");
      assert_next (q, "second");
      assert_next (q, "third");
      assert_true (clock_mono_ms () - start >= 60);
      assert_int_equal (stats_of (q).delayed, 0);
    }
  kube_queue_free (q);
  return known;
}

static void
delayed_keys_come_in_the_order_of_their_times (void **state)
{
  (void) state;
  for (int i = 0; i < 100; i++) /* on a machine that stalls in between, once more */
    if (delayed_keys_came_in_order ())
      return;
  fail_msg ("this machine never ran for 20 ms without a stall");
}

static void
the_earliest_of_several_delays_wins (void **state)
{
  struct kube_queue *q = kube_queue_new (5, 1000);

  (void) state;
  kube_queue_add_after (q, "a", 3600000);
  kube_queue_add_after (q, "a", 10);
  kube_queue_add_after (q, "a", 7200000);
  assert_int_equal (stats_of (q).delayed, 1);
  assert_next (q, "a");
  kube_queue_done (q, "a");
  assert_int_equal (stats_of (q).delayed, 0);
  kube_queue_free (q);
}

static void
many_delays_keep_their_order (void **state)
{
  enum
  {
    COUNT = 500
  };
  struct kube_queue *q = kube_queue_new (1, 1000);
  int64_t last = -1;

  (void) state;
  for (int64_t i = 0; i < COUNT; i++)
    {
      int64_t delay = 1 + i * 7919 % COUNT;
      cleanup_free char *key = xasprintf ("%d", (int) delay);

      kube_queue_add_after (q, key, 5000 + delay);
      kube_queue_add_after (q, key, delay); /* moves it up in the heap */
    }
  assert_int_equal (stats_of (q).delayed, COUNT);
  /* Each key was due a millisecond after the one before, and they were added within a few: an exact order cannot be
   * asked for, but all must come, and what comes was due. */
  for (int i = 0; i < COUNT; i++)
    {
      cleanup_free char *key = kube_queue_get (q);
      int64_t n = 0;

      assert_int_equal (text_to_int (key, 1, COUNT, &n), 0);
      last = n > last ? n : last;
      kube_queue_done (q, key);
    }
  assert_int_equal (last, COUNT);
  assert_int_equal (stats_of (q).depth + stats_of (q).delayed, 0);
  kube_queue_free (q);
}

static void
retries_back_off_until_forgotten (void **state)
{
  static const int64_t expected_ms[] = { 5, 10, 20, 40, 50, 50 }; /* base 5, cap 50 */
  struct kube_queue *q = kube_queue_new (5, 50);

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (expected_ms); i++)
    {
      int64_t start = clock_mono_ms ();

      kube_queue_retry (q, "a");
      assert_next (q, "a");
      assert_true (clock_mono_ms () - start >= expected_ms[i]);
      kube_queue_done (q, "a");
    }
  assert_int_equal (stats_of (q).retries, ARRAY_LEN (expected_ms));
  kube_queue_forget (q, "a");
  kube_queue_forget (q, "never seen");
  kube_queue_retry (q, "a");
  assert_int_equal (stats_of (q).delayed, 1);
  assert_next (q, "a");
  kube_queue_done (q, "a");
  kube_queue_free (q);
}

static void
an_added_key_overtakes_its_own_delay (void **state)
{
  struct kube_queue *q = kube_queue_new (5, 50);

  (void) state;
  kube_queue_add_after (q, "a", 3600000);
  kube_queue_add (q, "a");
  assert_next (q, "a");
  kube_queue_done (q, "a");
  assert_int_equal (stats_of (q).delayed, 1); /* still comes at its time */
  kube_queue_free (q);
}

static void *
get_until_null (void *data)
{
  char *key;

  while ((key = kube_queue_get (data)) != NULL)
    {
      kube_queue_done (data, key);
      free (key);
    }
  return NULL;
}

static void
shutdown_wakes_every_worker_and_refuses_keys (void **state)
{
  struct kube_queue *q = kube_queue_new (5, 50);
  pthread_t workers[4];

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (workers); i++)
    pthread_create (&workers[i], NULL, get_until_null, q);
  kube_queue_add_after (q, "late", 3600000);
  kube_queue_shutdown (q);
  for (size_t i = 0; i < ARRAY_LEN (workers); i++)
    pthread_join (workers[i], NULL);
  kube_queue_add (q, "too late");
  assert_int_equal (stats_of (q).depth, 0);
  assert_null (kube_queue_get (q));
  kube_queue_free (q);
}

/* Several producers and workers: no key is held twice at once, and whatever was added last is seen by a later get. */
enum
{
  KEYS = 16,
  ROUNDS = 2000
};

static struct shared
{
  struct kube_queue *q;
  atomic_int holders[KEYS], wanted[KEYS], seen[KEYS], doubles;
} shared;

static void *
produce (void *data)
{
  (void) data;
  for (int i = 0; i < ROUNDS; i++)
    {
      int n = (i * 31) % KEYS;
      cleanup_free char *key = xasprintf ("%d", n);

      atomic_fetch_add (&shared.wanted[n], 1);
      if (i % 3 == 0)
        kube_queue_add_after (shared.q, key, 1 + i % 5);
      else if (i % 3 == 1)
        kube_queue_retry (shared.q, key);
      else
        kube_queue_add (shared.q, key);
    }
  return NULL;
}

static void *
consume (void *data)
{
  char *key;

  (void) data;
  while ((key = kube_queue_get (shared.q)) != NULL)
    {
      int64_t n = 0;

      text_to_int (key, 0, KEYS - 1, &n);
      if (atomic_fetch_add (&shared.holders[n], 1) != 0)
        atomic_fetch_add (&shared.doubles, 1);
      atomic_store (&shared.seen[n], atomic_load (&shared.wanted[n]));
      atomic_fetch_sub (&shared.holders[n], 1);
      kube_queue_forget (shared.q, key);
      kube_queue_done (shared.q, key);
      free (key);
    }
  return NULL;
}

static bool
all_seen (void)
{
  for (int i = 0; i < KEYS; i++)
    if (atomic_load (&shared.seen[i]) != atomic_load (&shared.wanted[i]))
      return false;
  return true;
}

static void
no_key_is_lost_or_held_twice (void **state)
{
  pthread_t producers[3], workers[4];

  (void) state;
  shared.q = kube_queue_new (1, 8);
  for (size_t i = 0; i < ARRAY_LEN (workers); i++)
    pthread_create (&workers[i], NULL, consume, NULL);
  for (size_t i = 0; i < ARRAY_LEN (producers); i++)
    pthread_create (&producers[i], NULL, produce, NULL);
  for (size_t i = 0; i < ARRAY_LEN (producers); i++)
    pthread_join (producers[i], NULL);
  for (int i = 0; i < 30000 && !all_seen (); i++)
    clock_sleep_ms (1);
  assert_true (all_seen ());
  kube_queue_shutdown (shared.q);
  for (size_t i = 0; i < ARRAY_LEN (workers); i++)
    pthread_join (workers[i], NULL);
  assert_int_equal (atomic_load (&shared.doubles), 0);
  kube_queue_free (shared.q);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (a_waiting_key_is_there_once),
    cmocka_unit_test (a_key_added_while_processed_comes_again_after_done),
    cmocka_unit_test (delayed_keys_come_in_the_order_of_their_times),
    cmocka_unit_test (the_earliest_of_several_delays_wins),
    cmocka_unit_test (many_delays_keep_their_order),
    cmocka_unit_test (retries_back_off_until_forgotten),
    cmocka_unit_test (an_added_key_overtakes_its_own_delay),
    cmocka_unit_test (shutdown_wakes_every_worker_and_refuses_keys),
    cmocka_unit_test (no_key_is_lost_or_held_twice),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
