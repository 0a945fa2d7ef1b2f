/* What the cache remembers of a cluster besides its objects, and for how long. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "controller/controller_internal.h"

#define KEY "ns/c"

struct fixture
{
  struct cache *cache;
  struct cache_source clusters, pods;
};

static void
fixture_init (struct fixture *f)
{
  *f = (struct fixture){ .cache = cache_new (),
                         .clusters = { .kind = CACHE_CLUSTER },
                         .pods = { .kind = CACHE_POD, .label = RAY_LABEL_CLUSTER } };
}

static cJSON *
make_object (const char *name, uint64_t version)
{
  cJSON *object = cJSON_CreateObject (), *metadata = json_obj (object, "metadata");
  char number[24];

  snprintf (number, sizeof (number), "%llu", (unsigned long long) version);
  json_set_str (metadata, "namespace", "ns");
  json_set_str (metadata, "name", name);
  json_set_str (metadata, "uid", name);
  json_set_str (metadata, "resourceVersion", number);
  return object;
}

static cJSON *
make_pod (const char *name, uint64_t version)
{
  cJSON *pod = make_object (name, version);

  json_set_str (json_obj (json_get (pod, "metadata"), "labels"), RAY_LABEL_CLUSTER, "c");
  return pod;
}

static void
hear_of (struct fixture *f, struct cache_source *source, const char *name, uint64_t version)
{
  cleanup_json cJSON *object = source == &f->pods ? make_pod (name, version) : make_object (name, version);

  cache_upsert (f->cache, source, object, version);
}

static void
hear_of_end (struct fixture *f, const char *pod, uint64_t version)
{
  cleanup_json cJSON *object = make_pod (pod, version);

  cache_remove (f->cache, &f->pods, object, version);
}

static size_t
count_gone (struct fixture *f, const char *name)
{
  cleanup_snapshot struct cache_snapshot s = { 0 };
  size_t n = 0;

  cache_snapshot_take (f->cache, KEY, &s);
  for (size_t i = 0; i < s.observed.ngone; i++)
    n += strcmp (s.observed.gone[i], name) == 0;
  return n;
}

static void
test_names_of_pods_that_went_are_told (void **state)
{
  struct fixture f;
  bool news;

  (void) state;
  fixture_init (&f);
  hear_of (&f, &f.clusters, "c", 1);
  hear_of (&f, &f.pods, "p", 2);
  assert_int_equal (count_gone (&f, "p"), 0);
  hear_of_end (&f, "p", 3);
  assert_int_equal (count_gone (&f, "p"), 1);

  hear_of (&f, &f.pods, "q", 4); /* a list that comes later does not have it */
  cache_list_begin (f.cache, &f.pods);
  assert_true (cache_list_end (f.cache, &f.pods, 5, &news));
  assert_int_equal (count_gone (&f, "q"), 1);
  cache_free (f.cache);
}

/* The answer to its creation comes after the watch has told of its end. */
static void
test_a_pod_that_went_before_the_answer_came_is_told (void **state)
{
  struct fixture f;
  cleanup_json cJSON *pod = make_pod ("p", 2);

  (void) state;
  fixture_init (&f);
  hear_of (&f, &f.clusters, "c", 1);
  cache_progress (f.cache, &f.pods, 3);
  cache_observe (f.cache, &f.pods, pod);
  assert_int_equal (count_gone (&f, "p"), 1);
  cache_free (f.cache);
}

/* It is all there is of its cluster, so that for a moment nothing is. */
static void
test_a_cluster_that_changes_loses_nothing (void **state)
{
  struct fixture f;

  (void) state;
  fixture_init (&f);
  hear_of (&f, &f.clusters, "c", 1);
  hear_of (&f, &f.pods, "p", 2);
  hear_of_end (&f, "p", 3);
  cache_set_status_time (f.cache, KEY, 17);
  hear_of (&f, &f.clusters, "c", 4);
  assert_int_equal (count_gone (&f, "p"), 1);
  assert_int_equal (cache_status_time (f.cache, KEY), 17);
  cache_free (f.cache);
}

static void
test_a_doubt_outlives_its_cluster (void **state)
{
  struct fixture f;
  cleanup_json cJSON *cluster = make_object ("c", 2);

  (void) state;
  fixture_init (&f);
  hear_of (&f, &f.clusters, "c", 1);
  cache_doubt_add (f.cache, KEY, "p");
  cache_remove (f.cache, &f.clusters, cluster, 2);
  for (int known = 1; known >= 0; known--)
    {
      cleanup_free char *pod = cache_doubt_any (f.cache, KEY);

      assert_int_equal (pod != NULL, known);
      cache_doubt_drop (f.cache, KEY, "p");
    }
  cache_doubt_add (f.cache, "ns/gone", "p"); /* the cluster went during the pass; freed with the cache */
  cache_free (f.cache);
}

static size_t
count_pods (struct fixture *f)
{
  cleanup_snapshot struct cache_snapshot s = { 0 };

  cache_snapshot_take (f->cache, KEY, &s);
  return s.observed.npods;
}

/* An answer that comes while a list is under way is no part of it: the pod was gone again when the list was made, and
 * would never have been let go. One that is newer than the list stays. */
static void
test_an_answer_during_a_list_leaves_no_phantom (void **state)
{
  static const struct
  {
    uint64_t version;
    size_t stays;
  } cases[] = { { 4, 0 }, { 6, 1 } };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (cases); i++)
    {
      struct fixture f;
      bool news;
      cleanup_json cJSON *pod = make_pod ("p", cases[i].version);

      fixture_init (&f);
      hear_of (&f, &f.clusters, "c", 1);
      cache_list_begin (f.cache, &f.pods);
      cache_observe (f.cache, &f.pods, pod);
      assert_int_equal (count_pods (&f), 1);
      assert_true (cache_list_end (f.cache, &f.pods, 5, &news));
      assert_int_equal (count_pods (&f), cases[i].stays);
      cache_free (f.cache);
    }
}

static void
test_recent_names_are_bounded_in_time_and_number (void **state)
{
  struct recent recent = { 0 };
  const char **names;
  char name[24];
  size_t count;

  (void) state;
  assert_null (recent_copy (&recent, 0, &count));
  recent_add (&recent, "old", 0);
  recent_add (&recent, "new", 200000);
  names = recent_copy (&recent, 299999, &count);
  assert_int_equal (count, 2);
  assert_string_equal (names[0], "old");
  free (names);
  names = recent_copy (&recent, 300000, &count);
  assert_int_equal (count, 1);
  assert_string_equal (names[0], "new");
  free (names);
  for (int i = 0; i < 1000; i++)
    {
      snprintf (name, sizeof (name), "p-%d", i);
      recent_add (&recent, name, 300000);
    }
  names = recent_copy (&recent, 300000, &count);
  assert_int_equal (count, 256);
  assert_string_equal (names[255], "p-999");
  free (names);
  recent_free (&recent);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_names_of_pods_that_went_are_told),
    cmocka_unit_test (test_a_pod_that_went_before_the_answer_came_is_told),
    cmocka_unit_test (test_a_cluster_that_changes_loses_nothing),
    cmocka_unit_test (test_a_doubt_outlives_its_cluster),
    cmocka_unit_test (test_an_answer_during_a_list_leaves_no_phantom),
    cmocka_unit_test (test_recent_names_are_bounded_in_time_and_number),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
