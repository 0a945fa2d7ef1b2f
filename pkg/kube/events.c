#include "kube/events.h"

#include <inttypes.h>
#include <string.h>

#include <uthash.h>
#include <utlist.h>

#include "kube/kube_internal.h"

#define SERIES_MAX 1000                /* known at a time; also the bound of what waits to be written */
#define SERIES_AGE_MS (10 * 60 * 1000) /* a longer silence ends a series */
#define UPDATE_INTERVAL_MS 5000        /* between two writes of one series */
#define NOTE_INTERVAL_MS 30000         /* between two Events of one series that differ in their note */
#define REQUEST_TIMEOUT_MS 10000
#define NOTE_LIMIT 1024
#define WORD_LIMIT 128
#define NAME_LIMIT 230 /* of 253; the rest is for the dot and the hex number */
#define FLUSH_AT_END_MS 2000

/* What happens again and again to one object. */
struct series
{
  UT_hash_handle hh;
  struct series *prev, *next; /* in `waiting` or in `quiet` */
  char *key;
  cJSON *template; /* what all Events of the series have in common */
  char *namespace, *object_name;
  char *note;       /* the newest */
  char *event_name; /* of the Event that stands for the series now; NULL: none was written */
  char *event_note;
  int count;   /* occurrences that Event tells of */
  int pending; /* occurrences not written yet; non-zero: in `waiting` */
  bool writing;
  int64_t first_wall_ms, last_wall_ms; /* of the pending ones */
  int64_t last_ms, created_ms, written_ms;
};

struct kube_events
{
  struct kube_client *client;
  char *controller, *instance;
  pthread_t thread;
  struct kube_cancellable cancellable;
  atomic_uint_least64_t dropped;

  pthread_mutex_t lock; /* guards all below */
  pthread_cond_t wake, idle;
  bool stop;
  int flushing;
  struct series *table;
  struct series *waiting; /* first come, first served */
  struct series *quiet;   /* longest quiet first */
  struct log_trouble trouble;
};

/* ---- series ---- */

static void
free_series (struct kube_events *events, struct series *s)
{
  if (s->pending > 0)
    DL_DELETE (events->waiting, s);
  else
    DL_DELETE (events->quiet, s);
  HASH_DEL (events->table, s);
  atomic_fetch_add (&events->dropped, (uint64_t) s->pending);
  cJSON_Delete (s->template);
  free (s->key);
  free (s->namespace);
  free (s->object_name);
  free (s->note);
  free (s->event_name);
  free (s->event_note);
  free (s);
}

/* Makes room for one more: a quiet series goes first, else the one that has waited longest. */
static void
make_room (struct kube_events *events)
{
  struct series *s;

  if (HASH_COUNT (events->table) < SERIES_MAX)
    return;
  s = events->quiet;
  for (struct series *w = events->waiting; s == NULL && w != NULL; w = w->next)
    if (!w->writing)
      s = w;
  if (s != NULL)
    free_series (events, s);
}

/* At most `limit` bytes of text, not ending inside a UTF-8 sequence. */
static char *
cut (const char *text, size_t limit)
{
  size_t len = strnlen (text, limit + 1);

  if (len > limit)
    for (len = limit; len > 0 && ((unsigned char) text[len] & 0xc0) == 0x80; len--)
      ;
  return xstrndup (text, len);
}

static void
set_cut (cJSON *object, const char *key, const char *text)
{
  cleanup_free char *value = cut (text != NULL && text[0] != '\0' ? text : "Unknown", WORD_LIMIT);

  json_set_str (object, key, value);
}

static const char *
or_null (const char *text)
{
  return text != NULL && text[0] != '\0' ? text : NULL;
}

static cJSON *
make_template (const struct kube_events *events, const struct kube_object_ref *about, enum kube_event_type type,
               const char *reason, const char *action)
{
  cJSON *event = cJSON_CreateObject (), *regarding;

  json_set_str (event, "apiVersion", "events.k8s.io/v1");
  json_set_str (event, "kind", "Event");
  json_set_str (event, "reportingController", events->controller);
  json_set_str (event, "reportingInstance", events->instance);
  json_set_str (event, "type", type == KUBE_EVENT_WARNING ? "Warning" : "Normal");
  set_cut (event, "reason", reason);
  set_cut (event, "action", action);
  regarding = json_obj (event, "regarding");
  json_set_str (regarding, "apiVersion", or_null (about->api_version));
  json_set_str (regarding, "kind", or_null (about->kind));
  json_set_str (regarding, "namespace", or_null (about->namespace));
  json_set_str (regarding, "name", or_null (about->name));
  json_set_str (regarding, "uid", or_null (about->uid));
  return event;
}

static struct series *
find_or_make (struct kube_events *events, const struct kube_object_ref *about, enum kube_event_type type,
              const char *reason, const char *action)
{
  cleanup_json cJSON *template = make_template (events, about, type, reason, action);
  cleanup_free char *key = json_print (template);
  struct series *s;

  HASH_FIND_STR (events->table, key, s);
  if (s != NULL)
    return s;
  make_room (events);
  s = xcalloc (1, sizeof (*s));
  s->key = take_ptr (key);
  s->template = take_ptr (template);
  s->namespace = xstrdup (or_null (about->namespace) ? about->namespace : "default");
  s->object_name = xstrdup (or_null (about->name) ? about->name : "unknown");
  HASH_ADD_KEYPTR (hh, events->table, s->key, strlen (s->key), s);
  DL_APPEND (events->quiet, s);
  return s;
}

/* What was written so far is history: the next Event of the series is a new object. */
static void
begin_anew (struct series *s)
{
  free (s->event_name);
  free (s->event_note);
  s->event_name = s->event_note = NULL;
  s->count = 0;
}

void
kube_event (struct kube_events *events, const struct kube_object_ref *about, enum kube_event_type type,
            const char *reason, const char *action, const char *note)
{
  int64_t now = clock_mono_ms ();
  struct series *s;

  pthread_mutex_lock (&events->lock);
  s = find_or_make (events, about, type, reason, action);
  if (s->event_name != NULL && !s->writing && now - s->last_ms > SERIES_AGE_MS)
    begin_anew (s);
  free (s->note);
  s->note = cut (log_nonnull (note), NOTE_LIMIT);
  s->last_ms = now;
  s->last_wall_ms = clock_wall_ms ();
  if (s->pending++ == 0)
    {
      s->first_wall_ms = s->last_wall_ms;
      DL_DELETE (events->quiet, s);
      DL_APPEND (events->waiting, s);
      pthread_cond_signal (&events->wake);
    }
  pthread_mutex_unlock (&events->lock);
}

/* ---- writing ---- */

/* "{object}.{hex}", unique without asking the server: microseconds and a little chance, as two replicas may write. */
static char *
make_event_name (const struct series *s)
{
  size_t len = strnlen (s->object_name, NAME_LIMIT);

  while (len > 0 && (s->object_name[len - 1] == '-' || s->object_name[len - 1] == '.'))
    len--;
  return xasprintf ("%.*s.%" PRIx64, (int) len, s->object_name,
                    ((uint64_t) clock_wall_ms () << 20) | (kube_random () & 0xfffff));
}

static void
add_series (cJSON *event, int count, int64_t last_wall_ms)
{
  cJSON *series = json_obj (event, "series");
  char stamp[CLOCK_RFC3339_MS_SIZE];

  clock_format_rfc3339_micro (last_wall_ms, stamp);
  json_set_int (series, "count", count);
  json_set_str (series, "lastObservedTime", stamp);
}

/* What is to be sent for a series, made under the lock, sent without it. */
struct writing
{
  enum kube_verb verb;
  char *path, *body, *name, *note;
  int occurrences;
};

static void
prepare_create (struct series *s, struct writing *w)
{
  cleanup_json cJSON *event = cJSON_Duplicate (s->template, true);
  char stamp[CLOCK_RFC3339_MS_SIZE];

  clock_format_rfc3339_micro (s->first_wall_ms, stamp);
  w->verb = KUBE_POST;
  w->name = make_event_name (s);
  w->note = xstrdup (s->note);
  w->path = xasprintf ("/apis/events.k8s.io/v1/namespaces/%s/events", s->namespace);
  json_set_str (json_obj (event, "metadata"), "name", w->name);
  json_set_str (json_obj (event, "metadata"), "namespace", s->namespace);
  json_set_str (event, "eventTime", stamp);
  json_set_str (event, "note", s->note);
  if (s->pending > 1)
    add_series (event, s->pending, s->last_wall_ms);
  w->body = json_print (event);
}

static void
prepare_update (struct series *s, struct writing *w)
{
  cleanup_json cJSON *patch = cJSON_CreateObject ();

  w->verb = KUBE_PATCH_MERGE;
  w->path = xasprintf ("/apis/events.k8s.io/v1/namespaces/%s/events/%s", s->namespace, s->event_name);
  add_series (patch, s->count + s->pending, s->last_wall_ms);
  w->body = json_print (patch);
}

static void
prepare (struct series *s, struct writing *w)
{
  bool new_note = s->event_note != NULL && strcmp (s->event_note, s->note) != 0;

  if (new_note && clock_mono_ms () - s->created_ms >= NOTE_INTERVAL_MS)
    begin_anew (s);
  w->occurrences = s->pending;
  if (s->event_name == NULL)
    prepare_create (s, w);
  else
    prepare_update (s, w);
  s->writing = true;
}

/* Takes over what came of it. Occurrences recorded meanwhile wait for the next write. */
static void
settle (struct kube_events *events, struct series *s, struct writing *w, const struct kube_response *response)
{
  int64_t lasted_ms;
  bool vanished = w->verb != KUBE_POST && response->status == 404; /* Events live an hour; somebody may delete them */

  s->writing = false;
  s->written_ms = clock_mono_ms ();
  if (vanished)
    begin_anew (s);
  else if (kube_ok (response) || (w->verb == KUBE_POST && response->status == 409))
    {
      if (w->verb == KUBE_POST)
        {
          s->event_name = take_ptr (w->name);
          s->event_note = take_ptr (w->note);
          s->created_ms = s->written_ms;
        }
      s->count += w->occurrences;
      if (log_trouble_over (&events->trouble, s->written_ms, &lasted_ms))
        log_info ("events can be written again", LF_INT ("lasted_ms", lasted_ms));
    }
  else
    {
      log_at (log_trouble_level (&events->trouble, s->written_ms), "cannot write an event, dropping it",
              LF_STR ("error", response->error.message));
      atomic_fetch_add (&events->dropped, (uint64_t) w->occurrences);
    }
  DL_DELETE (events->waiting, s);
  s->pending -= vanished ? 0 : w->occurrences;
  s->first_wall_ms = s->last_wall_ms;
  if (s->pending > 0)
    DL_APPEND (events->waiting, s);
  else
    DL_APPEND (events->quiet, s);
}

static void
write_series (struct kube_events *events, struct series *s)
{
  cleanup_response struct kube_response response = { 0 };
  struct writing w = { 0 };
  struct kube_request request;

  prepare (s, &w);
  request = (struct kube_request){ .verb = w.verb, .path = w.path, .body = w.body, .timeout_ms = REQUEST_TIMEOUT_MS };
  pthread_mutex_unlock (&events->lock);
  kube_do_cancellable (events->client, &events->cancellable, &request, &response, KUBE_CALL_SYSTEM, INT64_MAX, NULL,
                       NULL);
  pthread_mutex_lock (&events->lock);
  settle (events, s, &w, &response);
  free (w.path);
  free (w.body);
  free (w.name);
  free (w.note);
}

/* When a waiting series may be written: its first Event at once, updates not too often. */
static int64_t
due_ms (const struct kube_events *events, const struct series *s)
{
  return s->event_name == NULL || events->flushing > 0 ? 0 : s->written_ms + UPDATE_INTERVAL_MS;
}

/* The first series that is due, or NULL and when the next will be. */
static struct series *
next_due (const struct kube_events *events, int64_t *when_ms)
{
  int64_t now = clock_mono_ms ();

  *when_ms = INT64_MAX;
  for (struct series *s = events->waiting; s != NULL; s = s->next)
    {
      int64_t due = due_ms (events, s);

      if (due <= now)
        return s;
      *when_ms = due < *when_ms ? due : *when_ms;
    }
  return NULL;
}

static void *
events_thread (void *data)
{
  struct kube_events *events = data;

  pthread_mutex_lock (&events->lock);
  while (!events->stop)
    {
      int64_t when_ms;
      struct series *s = next_due (events, &when_ms);

      if (s != NULL)
        write_series (events, s);
      else
        kube_cond_wait (&events->wake, &events->lock, when_ms);
      if (events->waiting == NULL)
        pthread_cond_broadcast (&events->idle);
    }
  pthread_mutex_unlock (&events->lock);
  return NULL;
}

/* ---- life ---- */

struct kube_events *
kube_events_new (struct kube_client *client, const char *controller, const char *instance)
{
  struct kube_events *events = xcalloc (1, sizeof (*events));

  events->client = client;
  events->controller = xstrdup (controller);
  events->instance = cut (instance[0] != '\0' ? instance : controller, WORD_LIMIT);
  pthread_mutex_init (&events->lock, NULL);
  kube_cond_init (&events->wake);
  kube_cond_init (&events->idle);
  kube_cancellable_init (&events->cancellable);
  kube_thread_start (&events->thread, events_thread, events, "kube-events");
  return events;
}

void
kube_events_flush (struct kube_events *events, int64_t timeout_ms)
{
  int64_t until_ms = clock_mono_ms () + timeout_ms;

  pthread_mutex_lock (&events->lock);
  events->flushing++;
  pthread_cond_signal (&events->wake);
  while (events->waiting != NULL && kube_cond_wait (&events->idle, &events->lock, until_ms))
    ;
  events->flushing--;
  pthread_mutex_unlock (&events->lock);
}

void
kube_events_free (struct kube_events *events)
{
  if (events == NULL)
    return;
  kube_events_flush (events, FLUSH_AT_END_MS);
  pthread_mutex_lock (&events->lock);
  events->stop = true;
  pthread_cond_signal (&events->wake);
  pthread_mutex_unlock (&events->lock);
  kube_cancellable_cancel (&events->cancellable);
  pthread_join (events->thread, NULL);
  while (events->table != NULL)
    free_series (events, events->table);
  kube_cancellable_destroy (&events->cancellable);
  pthread_cond_destroy (&events->wake);
  pthread_cond_destroy (&events->idle);
  pthread_mutex_destroy (&events->lock);
  free (events->controller);
  free (events->instance);
  free (events);
}

uint64_t
kube_events_dropped (struct kube_events *events)
{
  return atomic_load (&events->dropped);
}
