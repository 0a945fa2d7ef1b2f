/* Events against a server that keeps them as the API server does: the note of an Event cannot change. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>

#include "kube/events.h"
#include "kube_test_server.h"

struct fake
{
  struct test_server *server;
  pthread_mutex_t lock;
  cJSON *events; /* an array of the Events as they are now */
  int posts, patches, refuse_with;
  bool hang;
};

/* Takes an Event that was posted. */
static int
post (struct fake *fake, const char *path, const char *body)
{
  cJSON *event = NULL;
  cleanup_free char *expected = NULL;

  if (json_parse (&event, body, strlen (body), NULL) < 0)
    return 400;
  json_push (fake->events, event);
  expected = xasprintf ("/apis/events.k8s.io/v1/namespaces/%s/events",
                        log_nonnull (json_str (event, "metadata", "namespace")));
  return text_eq (path, expected) ? 201 : 400;
}

static cJSON *
event_of_path (struct fake *fake, const char *path)
{
  const char *name = strrchr (path, '/') + 1;
  cJSON *event;

  cJSON_ArrayForEach (event, fake->events)
    if (text_eq (json_str (event, "metadata", "name"), name))
      return event;
  return NULL;
}

/* Merges a patch of the series, which is all that may change. */
static int
patch (struct fake *fake, const char *path, const char *body)
{
  cJSON *event = event_of_path (fake, path);
  cleanup_json cJSON *sent = NULL;

  if (event == NULL)
    return 404;
  if (json_parse (&sent, body, strlen (body), NULL) < 0 || cJSON_GetArraySize (sent) != 1
      || json_int (sent, 0, "series", "count") < 2)
    return 422;
  json_set_copy (event, "series", json_get (sent, "series"));
  return 200;
}

static void
keep_events (void *data, const struct test_request *request, struct test_answer *answer)
{
  struct fake *fake = data;
  bool is_post = text_eq (request->method, "POST");

  pthread_mutex_lock (&fake->lock);
  fake->posts += is_post;
  fake->patches += !is_post;
  answer->hang = fake->hang;
  answer->status = fake->refuse_with ? fake->refuse_with
                   : is_post         ? post (fake, request->path, request->body)
                                     : patch (fake, request->path, request->body);
  pthread_mutex_unlock (&fake->lock);
}

struct scene
{
  struct fake fake;
  struct kube_client *client;
  struct kube_events *events;
};

static void
set_up (struct scene *s)
{
  *s = (struct scene){ .fake.events = cJSON_CreateArray () };
  pthread_mutex_init (&s->fake.lock, NULL);
  s->fake.server = test_server_start (keep_events, &s->fake, false);
  s->client = test_server_client (s->fake.server, NULL);
  s->events = kube_events_new (s->client, "raycluster-controller", "pod-1");
}

static void
tear_down (struct scene *s)
{
  kube_events_free (s->events);
  kube_client_free (s->client);
  test_server_stop (s->fake.server);
  cJSON_Delete (s->fake.events);
}

static const struct kube_object_ref cluster = {
  .api_version = "ray.io/v1",
  .kind = "RayCluster",
  .namespace = "team",
  .name = "demo",
  .uid = "1-2-3",
};

static void
record (struct scene *s, const char *reason, const char *note)
{
  kube_event (s->events, &cluster, KUBE_EVENT_NORMAL, reason, "Create", note);
}

static void
flush (struct scene *s)
{
  kube_events_flush (s->events, 30000);
}

static const cJSON *
event_at (struct scene *s, int n)
{
  return cJSON_GetArrayItem (s->fake.events, n);
}

static void
an_event_has_all_that_the_API_demands (void **state)
{
  const cJSON *event;
  int64_t wall_ms;
  struct scene s;

  (void) state;
  set_up (&s);
  record (&s, "CreatedService", "Created service team/demo-head-svc");
  flush (&s);
  assert_int_equal (s.fake.posts, 1);
  event = event_at (&s, 0);
  assert_string_equal (json_str (event, "apiVersion"), "events.k8s.io/v1");
  assert_string_equal (json_str (event, "kind"), "Event");
  assert_string_equal (json_str (event, "metadata", "namespace"), "team");
  assert_true (text_starts_with (json_str (event, "metadata", "name"), "demo."));
  assert_true (text_is_dns1123_subdomain (json_str (event, "metadata", "name")));
  assert_string_equal (json_str (event, "reportingController"), "raycluster-controller");
  assert_string_equal (json_str (event, "reportingInstance"), "pod-1");
  assert_string_equal (json_str (event, "reason"), "CreatedService");
  assert_string_equal (json_str (event, "action"), "Create");
  assert_string_equal (json_str (event, "type"), "Normal");
  assert_string_equal (json_str (event, "note"), "Created service team/demo-head-svc");
  assert_string_equal (json_str (event, "regarding", "kind"), "RayCluster");
  assert_string_equal (json_str (event, "regarding", "apiVersion"), "ray.io/v1");
  assert_string_equal (json_str (event, "regarding", "name"), "demo");
  assert_string_equal (json_str (event, "regarding", "uid"), "1-2-3");
  assert_int_equal (clock_parse_rfc3339 (json_str (event, "eventTime"), &wall_ms), 0);
  assert_null (json_get (event, "series"));
  tear_down (&s);
}

static void
what_recurs_becomes_one_series (void **state)
{
  const cJSON *event;
  struct scene s;

  (void) state;
  set_up (&s);
  record (&s, "CreatedWorkerPod", "Created worker Pod team/w-0");
  flush (&s);
  for (int i = 1; i < 200; i++)
    record (&s, "CreatedWorkerPod", "Created worker Pod team/w-x");
  record (&s, "DeletedPod", "Deleted Pod team/w-0"); /* another reason, another series */
  flush (&s);
  assert_int_equal (s.fake.posts, 2);
  assert_true (s.fake.patches >= 1 && s.fake.patches <= 10); /* not one per occurrence */
  event = event_at (&s, 0);
  assert_string_equal (json_str (event, "note"), "Created worker Pod team/w-0");
  assert_int_equal (json_int (event, 0, "series", "count"), 200);
  assert_non_null (json_str (event, "series", "lastObservedTime"));
  assert_string_equal (json_str (event_at (&s, 1), "reason"), "DeletedPod");
  assert_int_equal (kube_events_dropped (s.events), 0);
  tear_down (&s);
}

static void
what_makes_a_series_of_its_own (void **state)
{
  static const struct kube_object_ref node = { .api_version = "v1", .kind = "Node", .name = "n-1." };
  struct kube_object_ref reborn = cluster;
  struct scene s;

  (void) state;
  reborn.uid = "4-5-6";
  set_up (&s);
  kube_event (s.events, &cluster, KUBE_EVENT_NORMAL, "R", "A", "x");
  kube_event (s.events, &cluster, KUBE_EVENT_WARNING, "R", "A", "x");
  kube_event (s.events, &cluster, KUBE_EVENT_NORMAL, "S", "A", "x");
  kube_event (s.events, &cluster, KUBE_EVENT_NORMAL, "R", "B", "x");
  kube_event (s.events, &reborn, KUBE_EVENT_NORMAL, "R", "A", "x");
  kube_event (s.events, &node, KUBE_EVENT_NORMAL, "R", "A", "x");
  kube_event (s.events, &cluster, KUBE_EVENT_NORMAL, "R", "A", "x");
  flush (&s);
  assert_int_equal (s.fake.posts, 6);
  assert_string_equal (json_str (event_at (&s, 5), "metadata", "namespace"), "default");
  assert_true (text_is_dns1123_subdomain (json_str (event_at (&s, 5), "metadata", "name")));
  tear_down (&s);
}

static void
long_text_is_cut_between_characters (void **state)
{
  char note[3000], reason[300];
  const cJSON *event;
  const char *cut;
  struct scene s;

  (void) state;
  memset (reason, 'R', sizeof (reason) - 1);
  reason[sizeof (reason) - 1] = '\0';
  note[0] = 'x';
  for (size_t i = 1; i + 2 < sizeof (note); i += 2)
    memcpy (note + i, "\xc3\xbc", 2);
  note[sizeof (note) - 1] = '\0';
  set_up (&s);
  kube_event (s.events, &cluster, KUBE_EVENT_WARNING, reason, "", note);
  flush (&s);
  event = event_at (&s, 0);
  cut = json_str (event, "note");
  assert_int_equal (strlen (cut), 1023); /* 1024 would end in half a character */
  assert_int_equal (strlen (json_str (event, "reason")), 128);
  assert_string_not_equal (json_str (event, "action"), ""); /* the API demands one */
  tear_down (&s);
}

static void
a_series_whose_event_is_gone_begins_anew (void **state)
{
  struct scene s;

  (void) state;
  set_up (&s);
  record (&s, "R", "first");
  flush (&s);
  pthread_mutex_lock (&s.fake.lock);
  cJSON_DeleteItemFromArray (s.fake.events, 0);
  pthread_mutex_unlock (&s.fake.lock);
  record (&s, "R", "second");
  flush (&s);
  assert_int_equal (s.fake.posts, 2);
  assert_int_equal (s.fake.patches, 1);
  assert_string_equal (json_str (event_at (&s, 0), "note"), "second");
  assert_null (json_get (event_at (&s, 0), "series"));
  assert_int_equal (kube_events_dropped (s.events), 0);
  tear_down (&s);
}

static void
what_the_server_refuses_is_dropped_and_counted (void **state)
{
  struct scene s;

  (void) state;
  set_up (&s);
  s.fake.refuse_with = 403;
  record (&s, "R", "x");
  flush (&s);
  assert_int_equal (kube_events_dropped (s.events), 1);
  pthread_mutex_lock (&s.fake.lock);
  s.fake.refuse_with = 0;
  pthread_mutex_unlock (&s.fake.lock);
  record (&s, "R", "x");
  flush (&s);
  assert_int_equal (cJSON_GetArraySize (s.fake.events), 1);
  tear_down (&s);
}

static void
recording_never_blocks_and_what_is_too_much_is_dropped (void **state)
{
  enum
  {
    MANY = 1500
  };
  struct scene s;

  (void) state;
  set_up (&s);
  s.fake.hang = true;
  for (int i = 0; i < MANY; i++)
    {
      cleanup_free char *reason = xasprintf ("R%d", i);

      record (&s, reason, "x");
    }
  assert_int_equal (kube_events_dropped (s.events), MANY - 1000);
  kube_events_flush (s.events, 10); /* bounded */
  kube_client_shutdown (s.client);
  tear_down (&s); /* bounded too, though the server never answers */
}

static void
the_last_events_are_written_after_shutdown (void **state)
{
  struct scene s;

  (void) state;
  set_up (&s);
  kube_client_shutdown (s.client);
  record (&s, "R", "farewell");
  kube_events_free (s.events);
  s.events = NULL;
  assert_int_equal (cJSON_GetArraySize (s.fake.events), 1);
  tear_down (&s);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (an_event_has_all_that_the_API_demands),
    cmocka_unit_test (what_recurs_becomes_one_series),
    cmocka_unit_test (what_makes_a_series_of_its_own),
    cmocka_unit_test (long_text_is_cut_between_characters),
    cmocka_unit_test (a_series_whose_event_is_gone_begins_anew),
    cmocka_unit_test (what_the_server_refuses_is_dropped_and_counted),
    cmocka_unit_test (recording_never_blocks_and_what_is_too_much_is_dropped),
    cmocka_unit_test (the_last_events_are_written_after_shutdown),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
