/* The cache of the controller as its sources feed it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "controller/controller_internal.h"

#define KEY "ns/ray"

struct scene
{
  struct cache *cache;
  struct cache_source pods, services, headless;
  int told; /* changes of the cluster */
};

static void
on_change (void *data, const char *key, enum cache_kind kind)
{
  struct scene *s = data;

  (void) kind;
  assert_string_equal (key, KEY);
  s->told++;
}

static void
set_up (struct scene *s)
{
  *s = (struct scene){
    .cache = cache_new (),
    .pods = { .kind = CACHE_POD },
    .services = { .kind = CACHE_SERVICE, .view = 0 },
    .headless = { .kind = CACHE_SERVICE, .view = 1 },
  };
  cache_on_change (s->cache, on_change, s);
}

/* A Pod or Service of the cluster at this version; `phase` tells one state of a Pod from another. */
static cJSON *
object_of (const char *name, unsigned version, const char *phase)
{
  cJSON *object = cJSON_CreateObject (), *meta = json_obj (object, "metadata");
  char text[24];

  snprintf (text, sizeof (text), "%u", version);
  json_set_str (meta, "namespace", "ns");
  json_set_str (meta, "name", name);
  json_set_str (meta, "uid", name);
  json_set_str (meta, "resourceVersion", text);
  json_set_str (json_obj (meta, "labels"), RAY_LABEL_CLUSTER, "ray");
  json_set_str (json_obj (meta, "labels"), RAY_LABEL_NODE_TYPE, "worker");
  json_set_str (json_obj (object, "status"), "phase", phase);
  return object;
}

static void
bring (struct scene *s, struct cache_source *source, const char *name, unsigned version, const char *phase)
{
  cleanup_json cJSON *object = object_of (name, version, phase);

  cache_upsert (s->cache, source, object, version);
}

static void
take_away (struct scene *s, struct cache_source *source, const char *name, unsigned version)
{
  cleanup_json cJSON *object = object_of (name, version, "Running");

  cache_remove (s->cache, source, object, version);
}

static void
answer (struct scene *s, struct cache_source *source, const char *name, unsigned version, const char *phase)
{
  cleanup_json cJSON *object = object_of (name, version, phase);

  cache_observe (s->cache, source, object);
}

static bool
end_list (struct scene *s, struct cache_source *source, uint64_t version)
{
  bool news;

  return cache_list_end (s->cache, source, version, &news);
}

/* "a:Running b:Pending ", Pods and Services in the order they came; Services have no phase. */
static void
assert_known (struct scene *s, const char *expected)
{
  cleanup_snapshot struct cache_snapshot snapshot = { 0 };
  cleanup_buf struct buf text = { 0 };

  cache_snapshot_take (s->cache, KEY, &snapshot);
  for (size_t i = 0; i < snapshot.observed.npods; i++)
    buf_printf (&text, "%s:%s ", snapshot.observed.pods[i]->name,
                snapshot.observed.pods[i]->phase == RAY_RUNNING ? "Running" : "Pending");
  for (size_t i = 0; i < snapshot.observed.nservices; i++)
    buf_printf (&text, "%s ", snapshot.observed.services[i]->name);
  assert_string_equal (buf_text (&text), expected);
}

/* ---- tests ---- */

static void
what_a_list_does_not_bring_is_gone (void **state)
{
  struct scene s;

  (void) state;
  set_up (&s);
  cache_list_begin (s.cache, &s.pods);
  bring (&s, &s.pods, "a", 1, "Running");
  bring (&s, &s.pods, "b", 2, "Running");
  bring (&s, &s.pods, "c", 3, "Running");
  assert_true (end_list (&s, &s.pods, 10));
  answer (&s, &s.pods, "new", 21, "Pending");
  s.told = 0;
  cache_list_begin (s.cache, &s.pods);
  bring (&s, &s.pods, "b", 2, "Running");
  assert_true (end_list (&s, &s.pods, 20));
  assert_known (&s, "new:Pending b:Running ");
  assert_int_equal (s.told, 3); /* the two that went, and b, which came again */
  cache_free (s.cache);
}

/* What was seen of the lost future: a changed Pod, a new one, one deleted. */
static void
see_a_future (struct scene *s)
{
  cache_list_begin (s->cache, &s->pods);
  bring (s, &s->pods, "changed", 11, "Pending");
  bring (s, &s->pods, "deleted", 12, "Running");
  assert_true (end_list (s, &s->pods, 20));
  bring (s, &s->pods, "changed", 21, "Running");
  bring (s, &s->pods, "new", 22, "Running");
  take_away (s, &s->pods, "deleted", 23);
  assert_known (s, "changed:Running new:Running ");
}

static void
list_the_past (struct scene *s)
{
  cache_list_begin (s->cache, &s->pods);
  bring (s, &s->pods, "changed", 11, "Pending");
  bring (s, &s->pods, "deleted", 12, "Running");
}

static void
a_server_that_went_back_in_time_is_believed (void **state)
{
  static const struct
  {
    const char *name;
    unsigned list_version;
  } cases[] = { { "its versions are lower", 20 }, { "its versions have overtaken ours meanwhile", 30 } };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (cases); i++)
    {
      struct scene s;

      set_up (&s);
      see_a_future (&s);
      list_the_past (&s);
      assert_false (end_list (&s, &s.pods, cases[i].list_version));
      list_the_past (&s);
      assert_true (end_list (&s, &s.pods, cases[i].list_version));
      assert_known (&s, "changed:Pending deleted:Running ");

      /* Life goes on there. */
      answer (&s, &s.pods, "answered", cases[i].list_version + 1, "Pending");
      bring (&s, &s.pods, "changed", cases[i].list_version + 2, "Running");
      take_away (&s, &s.pods, "deleted", cases[i].list_version + 3);
      assert_known (&s, "answered:Pending changed:Running ");
      cache_free (s.cache);
    }
}

static void
memos_of_a_future_are_forgotten_with_it (void **state)
{
  struct cache_memo memo = { .version = 21 };
  struct scene s;

  (void) state;
  set_up (&s);
  see_a_future (&s);
  cache_memo_set (s.cache, KEY, "pods/changed", &memo);
  list_the_past (&s);
  assert_false (end_list (&s, &s.pods, 20));
  assert_false (cache_memo_get (s.cache, KEY, "pods/changed", &memo));
  cache_free (s.cache);
}

/* Pods are listed in the server's past: until Services are too, the picture is mixed. */
static void
a_past_is_known_when_every_source_has_listed_in_it (void **state)
{
  struct scene s;
  bool news;

  (void) state;
  set_up (&s);
  see_a_future (&s);
  cache_list_begin (s.cache, &s.services);
  assert_true (end_list (&s, &s.services, 25));
  assert_true (cache_is_current (s.cache, &s.pods) && cache_is_current (s.cache, &s.services));

  cache_list_begin (s.cache, &s.headless); /* under way meanwhile, and perhaps of the future */
  list_the_past (&s);
  assert_false (cache_list_end (s.cache, &s.pods, 20, &news));
  assert_true (news);
  assert_false (cache_is_current (s.cache, &s.pods) || cache_is_current (s.cache, &s.services));
  list_the_past (&s);
  assert_true (end_list (&s, &s.pods, 20));
  assert_true (cache_is_current (s.cache, &s.pods));
  assert_true (end_list (&s, &s.headless, 30));
  assert_false (cache_is_current (s.cache, &s.headless));

  /* It is the same past that the others find. */
  cache_list_begin (s.cache, &s.services);
  assert_false (cache_list_end (s.cache, &s.services, 21, &news));
  assert_false (news);
  cache_list_begin (s.cache, &s.services);
  assert_true (end_list (&s, &s.services, 21));
  assert_true (cache_is_current (s.cache, &s.pods) && cache_is_current (s.cache, &s.services));
  cache_free (s.cache);
}

/* An answer that is newer than a list that was under way tells of the present, not of another past. */
static void
an_answer_newer_than_the_list_stays (void **state)
{
  struct scene s;

  (void) state;
  set_up (&s);
  cache_list_begin (s.cache, &s.pods);
  answer (&s, &s.pods, "a", 12, "Running");
  bring (&s, &s.pods, "a", 9, "Pending");
  assert_true (end_list (&s, &s.pods, 10));
  assert_known (&s, "a:Running ");
  cache_free (s.cache);
}

static void
what_two_sources_have_stays_until_both_let_it_go (void **state)
{
  struct scene s;

  (void) state;
  set_up (&s);
  bring (&s, &s.services, "svc", 5, "");
  bring (&s, &s.headless, "svc", 5, "");
  take_away (&s, &s.services, "svc", 6); /* it lost one of its labels */
  assert_known (&s, "svc ");
  bring (&s, &s.headless, "svc", 6, "");
  bring (&s, &s.services, "svc", 7, "");
  take_away (&s, &s.headless, "svc", 7);
  assert_known (&s, "svc ");

  /* A list lets it go just as well. */
  bring (&s, &s.headless, "svc", 8, "");
  cache_list_begin (s.cache, &s.services);
  assert_true (end_list (&s, &s.services, 9));
  assert_known (&s, "svc ");
  s.told = 0;
  take_away (&s, &s.headless, "svc", 10);
  assert_known (&s, "");
  assert_int_equal (s.told, 1);
  cache_free (s.cache);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (what_a_list_does_not_bring_is_gone),
    cmocka_unit_test (a_server_that_went_back_in_time_is_believed),
    cmocka_unit_test (memos_of_a_future_are_forgotten_with_it),
    cmocka_unit_test (a_past_is_known_when_every_source_has_listed_in_it),
    cmocka_unit_test (an_answer_newer_than_the_list_stays),
    cmocka_unit_test (what_two_sources_have_stays_until_both_let_it_go),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
