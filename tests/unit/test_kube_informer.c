/* List and watch against a real HTTP server on loopback that plays the API server's part line by line. */
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

enum
{
  WATCHES_MAX = 16,
  LISTS_MAX = 8
};

/* The n-th list and the n-th watch get the n-th answer; a watch without a scripted answer becomes a stream. */
struct fake
{
  struct test_server *server;
  struct test_answer lists[LISTS_MAX], watches[WATCHES_MAX];
  pthread_mutex_t lock;
  size_t list_count, watch_count;
  struct buf list_urls, watch_urls; /* one per line */
  struct test_stream *streams[WATCHES_MAX];
};

static void
play (void *data, const struct test_request *request, struct test_answer *answer)
{
  struct fake *fake = data;
  bool watch = strstr (request->path, "watch=true") != NULL;
  struct buf *urls = watch ? &fake->watch_urls : &fake->list_urls;
  size_t *count = watch ? &fake->watch_count : &fake->list_count;
  size_t n;

  pthread_mutex_lock (&fake->lock);
  buf_printf (urls, "%s\n", request->path);
  n = *count;
  if (watch && n < WATCHES_MAX)
    {
      *answer = fake->watches[n];
      if (answer->status == 0 && answer->body == NULL && !answer->hang && !answer->close)
        answer->stream = fake->streams[n] = test_stream_new (fake->server);
    }
  else if (!watch && n < LISTS_MAX)
    *answer = fake->lists[n];
  if (answer->body != NULL)
    answer->body = xstrdup (answer->body);
  (*count)++;
  pthread_mutex_unlock (&fake->lock);
}

static size_t
watches_of (struct fake *fake)
{
  size_t n;

  pthread_mutex_lock (&fake->lock);
  n = fake->watch_count;
  pthread_mutex_unlock (&fake->lock);
  return n;
}

static size_t
lists_of (struct fake *fake)
{
  size_t n;

  pthread_mutex_lock (&fake->lock);
  n = fake->list_count;
  pthread_mutex_unlock (&fake->lock);
  return n;
}

/* The n-th line of the URLs asked for. */
static char *
url_line (struct fake *fake, struct buf *urls, size_t n)
{
  const char *p;
  char *line;

  pthread_mutex_lock (&fake->lock);
  p = buf_text (urls);
  for (; n > 0 && strchr (p, '\n') != NULL; n--)
    p = strchr (p, '\n') + 1;
  line = xstrndup (p, strcspn (p, "\n"));
  pthread_mutex_unlock (&fake->lock);
  return line;
}

static void
assert_url (struct fake *fake, struct buf *urls, size_t n, const char *has, const char *has_not)
{
  cleanup_free char *url = url_line (fake, urls, n);

  if (strstr (url, has) == NULL)
    fail_msg ("request %zu, %s, has no %s", n, url, has);
  if (has_not != NULL && strstr (url, has_not) != NULL)
    fail_msg ("request %zu, %s, has %s", n, url, has_not);
}

/* ---- the owner's side: everything it is told, as text ---- */

struct mirror
{
  pthread_mutex_t lock;
  uint64_t known; /* the newest version; a list that is older does not fit */
  struct buf told;
  bool stopped;
  int told_after_stop;
};

static void
tell (struct mirror *mirror, const char *what, const char *name, uint64_t version)
{
  pthread_mutex_lock (&mirror->lock);
  buf_printf (&mirror->told, "%s%s@%d ", what, name, (int) version);
  mirror->told_after_stop += mirror->stopped;
  pthread_mutex_unlock (&mirror->lock);
}

static void
on_upsert (void *data, const cJSON *object, uint64_t version)
{
  tell (data, "+", log_nonnull (json_str (object, "metadata", "name")), version);
}

static void
on_remove (void *data, const cJSON *object, uint64_t version)
{
  tell (data, "-", log_nonnull (json_str (object, "metadata", "name")), version);
}

static void
on_list_begin (void *data)
{
  tell (data, "begin", "", 0);
}

static bool
on_list_end (void *data, uint64_t version)
{
  struct mirror *mirror = data;
  bool fits = version >= mirror->known;

  tell (data, "end", "", version);
  mirror->known = fits ? version : 0;
  return fits;
}

static void
on_progress (void *data, uint64_t version)
{
  tell (data, "at", "", version);
}

static bool
was_told (struct mirror *mirror, const char *expected)
{
  bool same;

  pthread_mutex_lock (&mirror->lock);
  same = strcmp (buf_text (&mirror->told), expected) == 0;
  pthread_mutex_unlock (&mirror->lock);
  return same;
}

static void
expect (struct mirror *mirror, const char *expected)
{
  int64_t until = clock_mono_ms () + 30000;

  while (!was_told (mirror, expected) && clock_mono_ms () < until)
    clock_sleep_ms (1);
  if (!was_told (mirror, expected))
    fail_msg ("expected: %s\n     got: %s", expected, buf_text (&mirror->told));
}

/* ---- a test's surroundings ---- */

struct scene
{
  struct fake fake;
  struct mirror mirror;
  int64_t watch_idle_ms;
  struct kube_client *client;
  struct kube_informer *informer;
};

static struct kube_informer *
start_informer (struct scene *scene)
{
  struct kube_informer_options options = {
    .path = "/api/v1/pods", .label_selector = "app in (ray),x=y", .name = "pods", .watch_idle_ms = scene->watch_idle_ms
  };
  struct kube_informer_handler handler = {
    .upsert = on_upsert,
    .remove = on_remove,
    .list_begin = on_list_begin,
    .list_end = on_list_end,
    .progress = on_progress,
    .data = &scene->mirror,
  };

  return kube_informer_start (scene->client, &options, &handler);
}

static void
set_up (struct scene *scene)
{
  pthread_mutex_init (&scene->fake.lock, NULL);
  pthread_mutex_init (&scene->mirror.lock, NULL);
  scene->fake.server = test_server_start (play, &scene->fake, false);
  scene->client = test_server_client (scene->fake.server, NULL);
  scene->informer = start_informer (scene);
}

static void
stop_informer (struct scene *scene)
{
  kube_informer_stop (scene->informer);
  scene->informer = NULL;
  pthread_mutex_lock (&scene->mirror.lock);
  scene->mirror.stopped = true;
  pthread_mutex_unlock (&scene->mirror.lock);
}

static void
tear_down (struct scene *scene)
{
  stop_informer (scene);
  kube_client_free (scene->client);
  test_server_stop (scene->fake.server);
  assert_int_equal (scene->mirror.told_after_stop, 0);
  buf_free (&scene->fake.list_urls);
  buf_free (&scene->fake.watch_urls);
  buf_free (&scene->mirror.told);
}

#define OBJECT(name, version) "{\"metadata\":{\"name\":\"" name "\",\"resourceVersion\":\"" version "\"}}"
#define EVENT(type, name, version) "{\"type\":\"" type "\",\"object\":" OBJECT (name, version) "}\n"
#define BOOKMARK(version)                                                                                              \
  "{\"type\":\"BOOKMARK\",\"object\":{\"kind\":\"Pod\",\"metadata\":{\"resourceVersion\":\"" version "\"}}}\n"
#define LIST(version, continued, items)                                                                                \
  {                                                                                                                    \
    .body = (char *) "{\"kind\":\"PodList\",\"metadata\":{\"resourceVersion\":\"" version                              \
                     "\",\"continue\":\"" continued "\"},\"items\":[" items "]}"                                       \
  }

static void
wait_for_watch (struct scene *scene, size_t n)
{
  wait_for (watches_of (&scene->fake) >= n);
}

static void
send_text (struct scene *scene, size_t watch, const char *text)
{
  test_stream_send (scene->fake.streams[watch], text, strlen (text));
}

/* ---- tests ---- */

static void
pages_then_events (void **state)
{
  struct scene s = { .fake.lists = { LIST ("10", "a/b=", OBJECT ("a", "1") "," OBJECT ("b", "2")),
                                     LIST ("10", "", OBJECT ("c", "3")) } };
  struct error err;

  (void) state;
  set_up (&s);
  wait_for_watch (&s, 1);
  expect (&s.mirror, "begin@0 +a@1 +b@2 +c@3 end@10 ");
  assert_true (kube_informer_synced (s.informer));
  kube_informer_error (s.informer, &err);
  assert_string_equal (err.message, "");
  assert_url (&s.fake, &s.fake.list_urls, 0, "/api/v1/pods?limit=500&labelSelector=app%20in%20%28ray%29%2Cx%3Dy",
              "continue");
  assert_url (&s.fake, &s.fake.list_urls, 1, "&continue=a%2Fb%3D", "resourceVersion");
  assert_url (&s.fake, &s.fake.watch_urls, 0, "resourceVersion=10&", "limit");
  assert_url (&s.fake, &s.fake.watch_urls, 0, "allowWatchBookmarks=true", NULL);
  assert_url (&s.fake, &s.fake.watch_urls, 0, "&timeoutSeconds=", NULL);
  assert_url (&s.fake, &s.fake.watch_urls, 0, "labelSelector=app%20in", NULL);
  send_text (&s, 0, EVENT ("ADDED", "d", "11") EVENT ("MODIFIED", "a", "12"));
  send_text (&s, 0, EVENT ("DELETED", "b", "13") BOOKMARK ("20"));
  expect (&s.mirror, "begin@0 +a@1 +b@2 +c@3 end@10 +d@11 at@11 +a@12 at@12 -b@13 at@13 at@20 ");
  tear_down (&s);
}

/* An object of 9 MB, which nobody reads whole. Owned by the caller. */
static char *
giant (const char *name, const char *version)
{
  cleanup_free char *filler = xcalloc (9000001, 1);

  memset (filler, 'x', 9000000);
  return xasprintf ("{\"metadata\":{\"name\":\"%s\",\"resourceVersion\":\"%s\",\"uid\":\"u\"},\"spec\":\"%s\"}", name,
                    version, filler);
}

static void
send_giant (struct scene *scene, const char *type, const char *name, const char *version)
{
  cleanup_free char *object = giant (name, version);
  cleanup_free char *event = xasprintf ("{\"type\":\"%s\",\"object\":%s}\n", type, object);

  send_text (scene, 0, event);
}

static void
an_object_too_large_to_read_hides_no_other (void **state)
{
  cleanup_free char *object = giant ("g", "2");
  cleanup_free char *list = xasprintf ("{\"metadata\":{\"resourceVersion\":\"10\"},\"items\":[%s,%s,%s]}",
                                       OBJECT ("a", "1"), object, OBJECT ("b", "3"));
  struct scene s = { .fake.lists = { { .body = list } } };

  (void) state;
  set_up (&s);
  wait_for_watch (&s, 1);
  expect (&s.mirror, "begin@0 +a@1 +b@3 end@10 ");
  assert_true (kube_informer_synced (s.informer));
  send_giant (&s, "ADDED", "h", "11");
  send_giant (&s, "MODIFIED", "a", "12"); /* what is not known any more must not be taken for what it was */
  send_giant (&s, "DELETED", "b", "13");
  send_text (&s, 0, EVENT ("ADDED", "c", "14"));
  expect (&s.mirror, "begin@0 +a@1 +b@3 end@10 -h@11 at@11 -a@12 at@12 -b@13 at@13 +c@14 at@14 ");
  assert_int_equal (watches_of (&s.fake), 1);
  assert_int_equal (kube_informer_trouble_ms (s.informer), 0);
  tear_down (&s);
}

static void
events_may_be_split_at_any_byte (void **state)
{
  static const char events[]
      = EVENT ("ADDED", "p\xc3\xbc\xe2\x82\xac\\\"x", "11") EVENT ("MODIFIED", "q", "12") BOOKMARK ("13");

  (void) state;
  for (size_t piece = 1; piece <= 7; piece++)
    {
      struct scene s = { .fake.lists = { LIST ("10", "", "") } };

      set_up (&s);
      wait_for_watch (&s, 1);
      for (size_t i = 0; i < sizeof (events) - 1; i += piece)
        test_stream_send (s.fake.streams[0], events + i,
                          sizeof (events) - 1 - i < piece ? sizeof (events) - 1 - i : piece);
      expect (&s.mirror, "begin@0 end@10 +p\xc3\xbc\xe2\x82\xac\"x@11 at@11 +q@12 at@12 at@13 ");
      tear_down (&s);
    }
}

static void
a_watch_that_ends_goes_on_where_it_was (void **state)
{
  struct scene s = { .fake.lists = { LIST ("10", "", "") } };

  (void) state;
  set_up (&s);
  wait_for_watch (&s, 1);
  send_text (&s, 0, EVENT ("ADDED", "a", "11") BOOKMARK ("17"));
  test_stream_end (s.fake.streams[0]);
  wait_for_watch (&s, 2);
  assert_url (&s.fake, &s.fake.watch_urls, 1, "resourceVersion=17&", NULL);
  send_text (&s, 1, EVENT ("ADDED", "b", "18"));
  expect (&s.mirror, "begin@0 end@10 +a@11 at@11 at@17 +b@18 at@18 ");
  assert_int_equal (lists_of (&s.fake), 1);
  tear_down (&s);
}

static void
a_broken_watch_goes_on_where_it_was_and_says_so_meanwhile (void **state)
{
  struct scene s = { .fake.lists = { LIST ("10", "", "") },
                     .fake.watches[1] = { .status = 429, .body = (char *) "too many requests" } };
  struct kube_client_stats stats;
  struct error err;

  (void) state;
  set_up (&s);
  wait_for_watch (&s, 1);
  send_text (&s, 0, EVENT ("ADDED", "a", "11") "{\"type\":\"ADDED\",\"obj");
  expect (&s.mirror, "begin@0 end@10 +a@11 at@11 ");
  test_stream_cut (s.fake.streams[0]);
  wait_for_watch (&s, 2);
  wait_for ((kube_informer_error (s.informer, &err), strstr (err.message, "HTTP 429: too many requests") != NULL));
  wait_for_watch (&s, 3);
  assert_url (&s.fake, &s.fake.watch_urls, 1, "resourceVersion=11&", NULL);
  assert_url (&s.fake, &s.fake.watch_urls, 2, "resourceVersion=11&", NULL);
  wait_for ((kube_informer_error (s.informer, &err), err.message[0] == '\0')); /* the open watch is enough */
  send_text (&s, 2, EVENT ("ADDED", "b", "12"));
  expect (&s.mirror, "begin@0 end@10 +a@11 at@11 +b@12 at@12 ");
  assert_int_equal (lists_of (&s.fake), 1);
  assert_true (kube_informer_synced (s.informer));
  kube_client_stats (s.client, &stats);
  assert_int_equal (stats.watch_starts, 3);
  assert_int_equal (stats.watch_errors, 2);
  tear_down (&s);
}

static void
a_version_too_old_leads_to_a_new_list (void **state)
{
  static const struct test_answer gone = { .status = 410, .body = (char *) "{\"kind\":\"Status\",\"code\":410}" };
  static const char error_event[] = "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":410,\"reason\":"
                                    "\"Expired\",\"message\":\"too old\"}}\n";

  (void) state;
  for (int by_event = 0; by_event < 2; by_event++)
    {
      struct scene s = { .fake.lists = { LIST ("10", "", OBJECT ("a", "1")), LIST ("30", "", OBJECT ("b", "25")) } };

      if (!by_event)
        s.fake.watches[0] = gone;
      set_up (&s);
      wait_for_watch (&s, 1);
      if (by_event)
        send_text (&s, 0, error_event);
      wait_for_watch (&s, 2);
      expect (&s.mirror, "begin@0 +a@1 end@10 begin@0 +b@25 end@30 ");
      assert_url (&s.fake, &s.fake.list_urls, 1, "limit=500", "continue");
      assert_url (&s.fake, &s.fake.watch_urls, 1, "resourceVersion=30&", NULL);
      tear_down (&s);
    }
}

static void
a_watch_that_comes_to_nothing_leads_to_a_new_list (void **state)
{
  static const struct
  {
    const char *name;
    struct test_answer answer;
  } cases[] = {
    { "of the future", { .status = 504, .body = (char *) "{\"message\":\"Too large resource version\"}" } },
    { "not understood", { .status = 400 } },
    { "accepted first", { .body = (char *) "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":500}}\n" } },
  };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (cases); i++)
    {
      struct scene s = { .fake.lists = { LIST ("10", "", OBJECT ("a", "1")), LIST ("30", "", OBJECT ("b", "25")) } };

      s.fake.watches[0] = cases[i].answer;
      set_up (&s);
      wait_for_watch (&s, 2);
      expect (&s.mirror, "begin@0 +a@1 end@10 begin@0 +b@25 end@30 ");
      assert_url (&s.fake, &s.fake.list_urls, 1, "limit=500", "continue");
      assert_url (&s.fake, &s.fake.watch_urls, 1, "resourceVersion=30&", NULL);
      tear_down (&s);
    }
}

/* A server whose state is older than the version asked for says nothing at all until it gets there. */
static void
a_watch_that_stays_silent_leads_to_a_new_list (void **state)
{
  struct scene s = { .fake.lists = { LIST ("10", "", OBJECT ("a", "1")), LIST ("11", "", OBJECT ("b", "11")) },
                     .watch_idle_ms = 1000 };

  (void) state;
  set_up (&s);
  wait_for_watch (&s, 2);
  expect (&s.mirror, "begin@0 +a@1 end@10 begin@0 +b@11 end@11 ");
  tear_down (&s);
}

static void
a_list_that_does_not_fit_is_taken_anew (void **state)
{
  struct scene s = { .fake.lists = { LIST ("30", "", OBJECT ("a", "21")), LIST ("10", "", OBJECT ("a", "1")),
                                     LIST ("12", "", OBJECT ("a", "11")) },
                     .fake.watches[0] = { .status = 410 } };

  (void) state;
  set_up (&s);
  wait_for_watch (&s, 2);
  expect (&s.mirror, "begin@0 +a@21 end@30 begin@0 +a@1 end@10 begin@0 +a@11 end@12 ");
  assert_url (&s.fake, &s.fake.watch_urls, 1, "resourceVersion=12&", NULL);
  tear_down (&s);
}

static void
a_continue_token_too_old_leads_to_a_whole_list (void **state)
{
  struct scene s = { .fake.lists = { LIST ("10", "token", OBJECT ("a", "1")),
                                     { .status = 410, .body = (char *) "{\"kind\":\"Status\",\"code\":410}" },
                                     LIST ("30", "", OBJECT ("a", "1") "," OBJECT ("b", "25")) } };

  (void) state;
  set_up (&s);
  wait_for_watch (&s, 1);
  expect (&s.mirror, "begin@0 +a@1 begin@0 +a@1 +b@25 end@30 ");
  assert_url (&s.fake, &s.fake.list_urls, 2, "labelSelector", "limit");
  assert_url (&s.fake, &s.fake.list_urls, 2, "labelSelector", "continue");
  tear_down (&s);
}

static void
a_list_that_fails_begins_again (void **state)
{
  struct scene s = { .fake.lists = { { .status = 403, .body = (char *) "{\"message\":\"pods is forbidden\"}" },
                                     LIST ("10", "token", OBJECT ("a", "1")),
                                     { .body = (char *) "{\"kind\":\"PodList\",\"items\":[" OBJECT ("b", "2") },
                                     LIST ("11", "", OBJECT ("a", "1")) } };
  struct error err;

  (void) state;
  set_up (&s);
  kube_informer_error (s.informer, &err);
  assert_string_not_equal (err.message, "");
  assert_false (kube_informer_synced (s.informer));
  wait_for ((kube_informer_error (s.informer, &err), strstr (err.message, "HTTP 403: pods is forbidden") != NULL));
  wait_for_watch (&s, 1);
  expect (&s.mirror, "begin@0 begin@0 +a@1 +b@2 begin@0 +a@1 end@11 ");
  assert_url (&s.fake, &s.fake.list_urls, 3, "limit=500", "continue");
  kube_informer_error (s.informer, &err);
  assert_string_equal (err.message, "");
  tear_down (&s);
}

static void
what_is_no_list_is_refused (void **state)
{
  static const struct
  {
    const char *body, *says;
  } cases[] = {
    { "{\"kind\":\"PodList\",\"metadata\":{},\"items\":[]}", "no metadata.resourceVersion" },
    { "<html>login</html>", "" },
    { "", "ended in the middle" },
  };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (cases); i++)
    {
      struct scene s = { .fake.lists[0] = { .body = (char *) cases[i].body } };
      struct error err;

      s.fake.lists[1] = (struct test_answer) LIST ("10", "", "");
      set_up (&s);
      wait_for ((kube_informer_error (s.informer, &err),
                 strstr (err.message, "not complete yet") == NULL || kube_informer_synced (s.informer)));
      assert_true (strstr (err.message, cases[i].says) != NULL);
      expect (&s.mirror, "begin@0 begin@0 end@10 ");
      tear_down (&s);
    }
}

static void
an_odd_event_ends_the_watch_but_not_the_mirror (void **state)
{
  static const char *const odd[] = {
    "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":500,\"message\":\"etcd\"}}\n",
    "{\"type\":\"RENAMED\",\"object\":{}}\n",
    "{\"type\":\"ADDED\"}\n",
    "{\"type\":\"DELETED\",\"object\":7}\n",
    "[]\n",
    "not JSON\n",
  };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (odd); i++)
    {
      struct scene s = { .fake.lists = { LIST ("10", "", "") } };

      set_up (&s);
      wait_for_watch (&s, 1);
      send_text (&s, 0, EVENT ("ADDED", "a", "11"));
      send_text (&s, 0, odd[i]);
      wait_for_watch (&s, 2);
      assert_url (&s.fake, &s.fake.watch_urls, 1, "resourceVersion=11&", NULL);
      expect (&s.mirror, "begin@0 end@10 +a@11 at@11 ");
      assert_int_equal (lists_of (&s.fake), 1);
      tear_down (&s);
    }
}

/* A server that ends every watch at once must not be asked in a hot loop. */
static void
empty_watches_are_not_repeated_in_a_hot_loop (void **state)
{
  struct scene s = { .fake.lists = { LIST ("10", "", "") } };
  int64_t begin = clock_mono_ms ();

  (void) state;
  for (size_t i = 0; i < WATCHES_MAX; i++)
    s.fake.watches[i] = (struct test_answer){ .body = (char *) "" };
  set_up (&s);
  wait_for_watch (&s, 3);
  assert_true (clock_mono_ms () - begin >= 250 + 500); /* half of the first two backoffs, 500 and 1000 ms */
  assert_int_equal (lists_of (&s.fake), 1);
  tear_down (&s);
}

/* ---- stopping ---- */

static void
stop_is_prompt_at_any_time (void **state)
{
  static const struct
  {
    const char *name;
    struct test_answer list;
    size_t watches; /* stop when so many were started */
  } cases[] = {
    { "while the list hangs", { .hang = true }, 0 },
    { "while it backs off", { .status = 500 }, 0 },
    { "while it watches", LIST ("10", "", ""), 1 },
  };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (cases); i++)
    {
      struct scene s = { .fake.lists[0] = cases[i].list };

      set_up (&s);
      wait_for (lists_of (&s.fake) >= 1);
      wait_for_watch (&s, cases[i].watches);
      stop_informer (&s);
      if (cases[i].watches > 0)
        send_text (&s, 0, EVENT ("ADDED", "late", "99")); /* nobody must be told */
      tear_down (&s);
    }
}

static atomic_bool flood_on;

static void *
flood (void *data)
{
  struct scene *s = data;

  while (atomic_load (&flood_on))
    {
      size_t n = watches_of (&s->fake);

      for (size_t i = 0; i < n && i < WATCHES_MAX; i++)
        send_text (s, i, EVENT ("MODIFIED", "a", "11"));
      clock_sleep_ms (1);
    }
  return NULL;
}

static void
informers_come_and_go_while_events_flow (void **state)
{
  struct scene s = { .fake.lists[0] = LIST ("10", "", OBJECT ("a", "1")) };
  pthread_t thread;

  (void) state;
  for (size_t i = 1; i < LISTS_MAX; i++)
    s.fake.lists[i] = s.fake.lists[0];
  atomic_store (&flood_on, true);
  set_up (&s);
  pthread_create (&thread, NULL, flood, &s);
  for (int i = 1; i < LISTS_MAX; i++)
    {
      struct kube_informer *other = start_informer (&s);

      if (i % 2)
        wait_for (kube_informer_synced (other));
      kube_informer_stop (other);
    }
  wait_for_watch (&s, 1);
  stop_informer (&s);
  atomic_store (&flood_on, false);
  pthread_join (thread, NULL);
  tear_down (&s);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (pages_then_events),
    cmocka_unit_test (an_object_too_large_to_read_hides_no_other),
    cmocka_unit_test (events_may_be_split_at_any_byte),
    cmocka_unit_test (a_watch_that_ends_goes_on_where_it_was),
    cmocka_unit_test (a_broken_watch_goes_on_where_it_was_and_says_so_meanwhile),
    cmocka_unit_test (a_version_too_old_leads_to_a_new_list),
    cmocka_unit_test (a_watch_that_comes_to_nothing_leads_to_a_new_list),
    cmocka_unit_test (a_watch_that_stays_silent_leads_to_a_new_list),
    cmocka_unit_test (a_list_that_does_not_fit_is_taken_anew),
    cmocka_unit_test (a_continue_token_too_old_leads_to_a_whole_list),
    cmocka_unit_test (a_list_that_fails_begins_again),
    cmocka_unit_test (what_is_no_list_is_refused),
    cmocka_unit_test (an_odd_event_ends_the_watch_but_not_the_mirror),
    cmocka_unit_test (empty_watches_are_not_repeated_in_a_hot_loop),
    cmocka_unit_test (stop_is_prompt_at_any_time),
    cmocka_unit_test (informers_come_and_go_while_events_flow),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
