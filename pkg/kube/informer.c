/* informer.c - list, watch, and what to do when either ends. Everything but start and stop runs on the transport
 * thread. */
#include "kube/informer_internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define PAGE_SIZE 500
#define OBJECT_LIMIT ((size_t) 8 * 1024 * 1024) /* etcd takes 1.5 MiB; JSON can be six times as large */
#define LIST_TIMEOUT_MS 120000
#define LIST_IDLE_MS 60000
#define WATCH_IDLE_MS 150000 /* bookmarks come about once a minute */
#define WATCH_SECONDS_MIN 300
#define WATCH_SECONDS_SPREAD 300
#define BACKOFF_BASE_MS 500
#define BACKOFF_CAP_MS 30000
#define ABSENT_CAP_MS 5000    /* a resource whose CRD is being installed just now */
#define SHORT_WATCH_MS 1000   /* one that brings nothing and ends sooner counts as a failure */
#define WATCH_INTERVAL_MS 100 /* between two starts at least, however soon a watch ends */
#define ERROR_BODY_LIMIT 4096

static void start_list (struct kube_informer *inf);
static void start_watch (struct kube_informer *inf);

/* A server that nobody reaches is no trouble of this one's mirror. */
static bool
is_answered (const struct kube_informer *inf)
{
  return inf->transfer.status != 0 || inf->transfer.timed_out || inf->stream_error.message[0] != '\0';
}

static void
set_trouble (struct kube_informer *inf, const char *text)
{
  if (text[0] == '\0' || !is_answered (inf))
    atomic_store (&inf->trouble_since_ms, 0);
  else if (atomic_load (&inf->trouble_since_ms) == 0)
    atomic_store (&inf->trouble_since_ms, clock_mono_ms ());
  pthread_mutex_lock (&inf->lock);
  snprintf (inf->trouble.message, sizeof (inf->trouble.message), "%s", text);
  pthread_mutex_unlock (&inf->lock);
}

/* ---- going on after an end ---- */

static void
on_timer (struct timer *timer)
{
  struct kube_informer *inf = container_of (timer, struct kube_informer, timer);

  if (inf->phase == PHASE_LIST)
    start_list (inf);
  else
    start_watch (inf);
}

static void
go_on (struct kube_informer *inf, enum informer_phase phase, int64_t delay_ms)
{
  inf->phase = phase;
  transport_timer (inf->client->transport, &inf->timer, delay_ms);
}

static void
retry_later (struct kube_informer *inf, enum informer_phase phase, const char *why)
{
  int64_t cap = inf->transfer.status == 404 ? ABSENT_CAP_MS : BACKOFF_CAP_MS;
  int64_t delay = kube_backoff (BACKOFF_BASE_MS, cap, inf->failures++);
  int64_t asked = inf->transfer.retry_after_ms;

  if (asked > delay)
    delay = asked < BACKOFF_CAP_MS ? asked : BACKOFF_CAP_MS;
  set_trouble (inf, why);
  log_at (log_trouble_level (&inf->told, clock_mono_ms ()),
          inf->phase == PHASE_LIST ? "list failed, trying again" : "watch failed, trying again",
          LF_STR ("resource", inf->name), LF_STR ("error", why), LF_INT ("delay_ms", delay));
  go_on (inf, phase, delay);
}

/* The watch cannot go on from the version we know. */
static void
list_again (struct kube_informer *inf, enum log_level level, const char *why)
{
  log_at (level, "listing again", LF_STR ("resource", inf->name), LF_STR ("version", log_nonnull (inf->version)),
          LF_STR ("why", why));
  inf->whole_list = inf->phase == PHASE_LIST; /* only a continue token can be too old for a list */
  informer_set_text (&inf->next_page, NULL);
  go_on (inf, PHASE_LIST, inf->failures > 0 ? kube_backoff (BACKOFF_BASE_MS, BACKOFF_CAP_MS, inf->failures) : 0);
  inf->failures++; /* until a watch moves: 410 after 410 must not become a hot loop */
}

/* One sentence on why the transfer did not do its work. */
static void
describe_end (struct kube_informer *inf, struct error *err)
{
  const struct transfer *x = &inf->transfer;
  cleanup_json cJSON *status = NULL;
  const char *message;

  if (inf->stream_error.message[0] != '\0')
    *err = inf->stream_error;
  else if (x->status == 0)
    error_set (err, EIO, "%s: %s", inf->path, x->error);
  else if (x->status != 200)
    {
      json_parse (&status, buf_text (&inf->refusal), inf->refusal.len, NULL);
      message = json_str (status, "message");
      error_set (err, EIO, "%s: HTTP %d: %s", inf->path, x->status, message ? message : buf_text (&inf->refusal));
    }
  else
    error_set (err, EIO, "%s: the answer ended in the middle of an object", inf->path);
}

/* ---- the transfer ---- */

static int
on_data (struct transfer *x, const char *bytes, size_t len)
{
  struct kube_informer *inf = container_of (x, struct kube_informer, transfer);

  if (x->status == 200 && inf->transient)
    {
      cleanup_scratch struct json_scratch scratch = json_scratch_begin ();

      return json_stream_feed (inf->stream, bytes, len, &inf->stream_error);
    }
  if (x->status == 200)
    return json_stream_feed (inf->stream, bytes, len, &inf->stream_error);
  if (inf->refusal.len + len <= ERROR_BODY_LIMIT)
    buf_add (&inf->refusal, bytes, len);
  return 0;
}

static void
start_transfer (struct kube_informer *inf, enum json_stream_mode mode, json_stream_fn fn,
                void (*on_done) (struct transfer *))
{
  json_stream_free (inf->stream);
  inf->stream = json_stream_new (mode, OBJECT_LIMIT, fn, inf);
  json_stream_on_unfit (inf->stream, mode == JSON_STREAM_LIST ? informer_on_unfit_item : informer_on_unfit_event);
  inf->stream_error.message[0] = '\0';
  buf_reset (&inf->refusal);
  inf->gone = false;
  inf->transfer.verb = KUBE_GET;
  inf->transfer.path = inf->url;
  inf->transfer.on_data = on_data;
  inf->transfer.on_done = on_done;
  transport_start (inf->client->transport, &inf->transfer);
}

static void
end_transfer (struct kube_informer *inf)
{
  const struct transfer *x = &inf->transfer;

  json_stream_free (inf->stream); /* up to one object's memory; none is needed while waiting */
  inf->stream = NULL;
  inf->transfer.fresh = x->timed_out;
  inf->gone = inf->gone || x->status == 410;
  if (x->status == 401)
    transport_renew_token (inf->client->transport, x);
}

/* ---- list ---- */

static void
end_list (struct kube_informer *inf)
{
  bool fits = inf->handler.list_end (inf->handler.data, informer_version (inf->version));

  inf->whole_list = false;
  if (!fits)
    {
      log_warn ("the API server's state is older than what it had before: taking it as it is now",
                LF_STR ("resource", inf->name), LF_STR ("version", inf->version));
      go_on (inf, PHASE_LIST, inf->taken_anew ? kube_backoff (BACKOFF_BASE_MS, BACKOFF_CAP_MS, inf->failures++) : 0);
      inf->taken_anew = true;
      return;
    }
  inf->taken_anew = false;
  atomic_store (&inf->synced, true);
  atomic_store (&inf->tried, true);
  set_trouble (inf, "");
  start_watch (inf);
}

static void
on_list_done (struct transfer *x)
{
  struct kube_informer *inf = container_of (x, struct kube_informer, transfer);
  struct error err = { 0 };
  bool complete = x->status == 200 && inf->list_complete;

  kube_client_count (inf->client, x);
  if (!complete)
    describe_end (inf, &err);
  end_transfer (inf);
  if (inf->gone)
    list_again (inf, LOG_INFO, "the rest of the list has expired");
  else if (!complete)
    {
      informer_set_text (&inf->next_page, NULL);
      atomic_store (&inf->tried, true);
      retry_later (inf, PHASE_LIST, err.message);
    }
  else if (inf->next_page != NULL)
    start_list (inf);
  else
    end_list (inf);
}

static void
start_list (struct kube_informer *inf)
{
  cleanup_buf struct buf url = { 0 };

  inf->phase = PHASE_LIST;
  inf->list_complete = false;
  if (inf->next_page == NULL)
    inf->handler.list_begin (inf->handler.data);
  buf_printf (&url, "%s?", inf->path);
  if (!inf->whole_list)
    buf_printf (&url, "limit=%d&", inf->page_size);
  if (inf->selector != NULL)
    buf_printf (&url, "labelSelector=%s&", inf->selector);
  if (inf->next_page != NULL)
    {
      cleanup_free char *token = kube_escape (inf->next_page);

      buf_printf (&url, "continue=%s&", token);
    }
  url.data[url.len - 1] = '\0';
  informer_set_text (&inf->url, url.data);
  inf->transfer.on_open = NULL;
  inf->transfer.timeout_ms = LIST_TIMEOUT_MS;
  inf->transfer.idle_ms = LIST_IDLE_MS;
  start_transfer (inf, JSON_STREAM_LIST, informer_on_list_value, on_list_done);
}

/* ---- watch ---- */

/* The server has accepted the watch; with a quiet resource the first byte may take a minute. */
static void
on_watch_open (struct transfer *x)
{
  struct kube_informer *inf = container_of (x, struct kube_informer, transfer);
  int64_t lasted_ms;

  if (x->status != 200)
    return;
  set_trouble (inf, "");
  if (log_trouble_over (&inf->told, clock_mono_ms (), &lasted_ms))
    log_info ("list and watch work again", LF_STR ("resource", inf->name), LF_INT ("lasted_ms", lasted_ms));
}

/* A watch that came to nothing is not begun again from where it was. The server may have been away because it was put
 * back to an older state, for which our version is of the future: it refuses such a watch, or accepts it and is silent
 * until it gets there, and what changed meanwhile is never told. A server that is only too busy keeps its state, and a
 * list is more work for it than a watch. */
static bool
needs_list (const struct kube_informer *inf)
{
  return !inf->watch_moved && inf->transfer.status != 429;
}

static void
on_watch_done (struct transfer *x)
{
  struct kube_informer *inf = container_of (x, struct kube_informer, transfer);
  int64_t lasted = clock_mono_ms () - inf->watch_started_ms;
  bool clean = x->status == 200 && json_stream_at_boundary (inf->stream);
  struct error err = { 0 };

  if (!clean)
    describe_end (inf, &err);
  end_transfer (inf);
  if (!clean)
    atomic_fetch_add (&inf->client->watch_errors, 1);
  if (lasted >= BACKOFF_CAP_MS)
    inf->failures = 0;
  if (inf->gone)
    list_again (inf, LOG_INFO, "the version is too old");
  else if (!clean && needs_list (inf))
    {
      set_trouble (inf, err.message);
      list_again (inf, log_trouble_level (&inf->told, clock_mono_ms ()), err.message);
    }
  else if (!clean)
    retry_later (inf, PHASE_WATCH, err.message);
  else if (inf->watch_moved || lasted >= SHORT_WATCH_MS)
    {
      /* The usual end, after timeoutSeconds; or the server was too busy to keep up and closed it, then being quick
       * matters. */
      inf->failures = 0;
      go_on (inf, PHASE_WATCH, WATCH_INTERVAL_MS - lasted);
    }
  else
    go_on (inf, PHASE_WATCH, kube_backoff (BACKOFF_BASE_MS, BACKOFF_CAP_MS, inf->failures++));
}

static void
start_watch (struct kube_informer *inf)
{
  cleanup_buf struct buf url = { 0 };
  cleanup_free char *version = kube_escape (inf->version);

  inf->phase = PHASE_WATCH;
  inf->watch_started_ms = clock_mono_ms ();
  inf->watch_moved = false;
  buf_printf (&url, "%s?watch=true&allowWatchBookmarks=true&resourceVersion=%s&timeoutSeconds=%d", inf->path, version,
              WATCH_SECONDS_MIN + (int) (kube_random () % WATCH_SECONDS_SPREAD));
  if (inf->selector != NULL)
    buf_printf (&url, "&labelSelector=%s", inf->selector);
  informer_set_text (&inf->url, url.data);
  inf->transfer.on_open = on_watch_open;
  inf->transfer.timeout_ms = 0;
  inf->transfer.idle_ms = inf->watch_idle_ms;
  atomic_fetch_add (&inf->client->watch_starts, 1);
  start_transfer (inf, JSON_STREAM_VALUES, informer_on_watch_value, on_watch_done);
}

/* ---- start and stop ---- */

static void
begin (void *data)
{
  start_list (data);
}

struct kube_informer *
kube_informer_start (struct kube_client *client, const struct kube_informer_options *options,
                     const struct kube_informer_handler *handler)
{
  struct kube_informer *inf = xcalloc (1, sizeof (*inf));

  inf->client = client;
  inf->handler = *handler;
  inf->path = xstrdup (options->path);
  inf->name = xstrdup (options->name ? options->name : options->path);
  if (options->label_selector != NULL && options->label_selector[0] != '\0')
    inf->selector = kube_escape (options->label_selector);
  inf->transient = options->transient;
  inf->page_size = options->page_size > 0 ? options->page_size : PAGE_SIZE;
  inf->watch_idle_ms = options->watch_idle_ms > 0 ? options->watch_idle_ms : WATCH_IDLE_MS;
  inf->timer.fire = on_timer;
  pthread_mutex_init (&inf->lock, NULL);
  error_set (&inf->trouble, EAGAIN, "%s: the first list is not complete yet", inf->path);
  transport_run (client->transport, begin, inf);
  return inf;
}

void
kube_informer_renew (struct kube_informer *inf)
{
  if (inf->phase == PHASE_LIST && inf->timer.armed)
    return; /* it is about to */
  transport_cancel (&inf->transfer);
  informer_set_text (&inf->next_page, NULL);
  go_on (inf, PHASE_LIST, 0);
}

static void
halt (void *data)
{
  struct kube_informer *inf = data;

  transport_cancel (&inf->transfer);
  transport_untimer (inf->client->transport, &inf->timer);
}

void
kube_informer_stop (struct kube_informer *inf)
{
  if (inf == NULL)
    return;
  transport_run (inf->client->transport, halt, inf);
  json_stream_free (inf->stream);
  buf_free (&inf->refusal);
  free (inf->path);
  free (inf->selector);
  free (inf->name);
  free (inf->url);
  free (inf->next_page);
  free (inf->version);
  pthread_mutex_destroy (&inf->lock);
  free (inf);
}

bool
kube_informer_synced (const struct kube_informer *inf)
{
  return atomic_load (&inf->synced);
}

bool
kube_informer_tried (const struct kube_informer *inf)
{
  return atomic_load (&inf->tried);
}

int64_t
kube_informer_trouble_ms (const struct kube_informer *inf)
{
  int64_t since = atomic_load (&inf->trouble_since_ms);

  return since != 0 ? clock_mono_ms () - since : 0;
}

void
kube_informer_error (const struct kube_informer *inf, struct error *err)
{
  struct kube_informer *unlocked = (struct kube_informer *) inf;

  pthread_mutex_lock (&unlocked->lock);
  *err = inf->trouble;
  pthread_mutex_unlock (&unlocked->lock);
}
