/* transport.c - one thread, one curl multi handle: transfers, timers and an inbox of tasks from other threads. */
#include "kube/kube_internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <curl/curl.h>
#include <utlist.h>

#define POLL_MAX_MS 60000
#define TOKEN_AGE_MS 60000 /* service-account tokens rotate; config.h promises a re-read once a minute */
#define IDLE_HANDLES 4     /* kept for reuse; each costs some 40 KiB, a new one some 20 us */
#define RECEIVE_BUFFER 16384L
#define SEND_BUFFER 16384L
/* The limit of streams is what spreads transfers over max_connections; these are left for `fresh` transfers, which
 * otherwise would wait for the end of those that hang. */
#define SPARE_CONNECTIONS 2

struct transport
{
  pthread_t thread;
  pthread_mutex_t lock; /* the inbox and `stop` */
  struct task *inbox, **inbox_end;
  bool stop;

  CURLM *multi;
  struct endpoint endpoint;
  char *user_agent;
  struct timer *timers; /* by time */
  struct transfer *active;
  CURL *idle[IDLE_HANDLES];
  size_t idle_count;
  bool http1; /* asked for, or the server does not speak HTTP/2: a connection per transfer */
};

/* ---- the inbox ---- */

void
transport_post (struct transport *t, struct task *task)
{
  bool first;

  task->next = NULL;
  pthread_mutex_lock (&t->lock);
  first = t->inbox == NULL;
  *t->inbox_end = task;
  t->inbox_end = &task->next;
  pthread_mutex_unlock (&t->lock);
  if (first)
    curl_multi_wakeup (t->multi);
}

static struct task *
take_inbox (struct transport *t)
{
  struct task *tasks;

  pthread_mutex_lock (&t->lock);
  tasks = t->inbox;
  t->inbox = NULL;
  t->inbox_end = &t->inbox;
  pthread_mutex_unlock (&t->lock);
  return tasks;
}

static void
run_inbox (struct transport *t)
{
  struct task *task = take_inbox (t);

  while (task != NULL)
    {
      struct task *next = task->next; /* the task may be gone once it ran */

      task->run (task);
      task = next;
    }
}

struct errand
{
  struct task task;
  void (*fn) (void *data);
  void *data;
  pthread_mutex_t lock;
  pthread_cond_t cond;
  bool done;
};

static void
run_errand (struct task *task)
{
  struct errand *errand = container_of (task, struct errand, task);

  errand->fn (errand->data);
  pthread_mutex_lock (&errand->lock);
  errand->done = true;
  pthread_cond_signal (&errand->cond);
  pthread_mutex_unlock (&errand->lock);
}

void
transport_run (struct transport *t, void (*fn) (void *data), void *data)
{
  struct errand errand = { .task = { .run = run_errand }, .fn = fn, .data = data };

  pthread_mutex_init (&errand.lock, NULL);
  kube_cond_init (&errand.cond);
  transport_post (t, &errand.task);
  pthread_mutex_lock (&errand.lock);
  while (!errand.done)
    kube_cond_wait (&errand.cond, &errand.lock, INT64_MAX);
  pthread_mutex_unlock (&errand.lock);
  pthread_cond_destroy (&errand.cond);
  pthread_mutex_destroy (&errand.lock);
}

/* ---- timers ---- */

void
transport_timer (struct transport *t, struct timer *timer, int64_t ms)
{
  struct timer *after;

  transport_untimer (t, timer);
  timer->at_ms = clock_mono_ms () + (ms > 0 ? ms : 0);
  timer->armed = true;
  /* From the end: most timers are later than those that run already. */
  after = t->timers ? t->timers->prev : NULL;
  while (after != NULL && after->at_ms > timer->at_ms)
    after = after == t->timers ? NULL : after->prev;
  DL_APPEND_ELEM (t->timers, after, timer);
}

void
transport_untimer (struct transport *t, struct timer *timer)
{
  if (!timer->armed)
    return;
  DL_DELETE (t->timers, timer);
  timer->armed = false;
}

static void
run_timers (struct transport *t)
{
  int64_t now = clock_mono_ms ();

  while (t->timers != NULL && t->timers->at_ms <= now)
    {
      struct timer *timer = t->timers;

      transport_untimer (t, timer);
      timer->fire (timer);
    }
}

static int
poll_timeout (const struct transport *t)
{
  int64_t ms = t->timers ? t->timers->at_ms - clock_mono_ms () : POLL_MAX_MS;

  return ms < 0 ? 0 : ms > POLL_MAX_MS ? POLL_MAX_MS : (int) ms;
}

/* ---- transfers ---- */

/* HTTP/1.1 takes a connection per transfer: a limit meant for multiplexed ones would let a few watches block
 * everything. */
static void
note_version (struct transfer *x)
{
  long version = 0;

  curl_easy_getinfo (x->easy, CURLINFO_HTTP_VERSION, &version);
  if (x->transport->http1 || version == 0 || version >= CURL_HTTP_VERSION_2_0)
    return;
  x->transport->http1 = true;
  curl_multi_setopt (x->transport->multi, CURLMOPT_MAX_HOST_CONNECTIONS, 0L);
}

static void
note_status (struct transfer *x)
{
  long status = 0;

  curl_easy_getinfo (x->easy, CURLINFO_RESPONSE_CODE, &status);
  x->status = (int) status;
}

/* One header line; the empty one ends them. */
static size_t
on_header (char *line, size_t size, size_t count, void *data)
{
  struct transfer *x = data;

  if (size * count <= 2 && (line[0] == '\r' || line[0] == '\n'))
    {
      note_status (x);
      x->on_open (x);
    }
  return size * count;
}

static size_t
on_bytes (char *bytes, size_t size, size_t count, void *data)
{
  struct transfer *x = data;
  size_t len = size * count;

  if (x->status == 0)
    note_status (x);
  if (x->on_data != NULL)
    return x->on_data (x, bytes, len) < 0 ? 0 : len;
  if (x->answer.len + len > x->answer_max)
    {
      x->too_long = true;
      return 0;
    }
  buf_add (&x->answer, bytes, len);
  return len;
}

static CURL *
take_handle (struct transport *t)
{
  CURL *easy;

  if (t->idle_count > 0)
    return t->idle[--t->idle_count];
  easy = curl_easy_init ();
  if (easy == NULL)
    abort (); /* out of memory is its only reason */
  endpoint_setup (&t->endpoint, easy);
  curl_easy_setopt (easy, CURLOPT_USERAGENT, t->user_agent);
  curl_easy_setopt (easy, CURLOPT_BUFFERSIZE, RECEIVE_BUFFER);
  curl_easy_setopt (easy, CURLOPT_UPLOAD_BUFFERSIZE, SEND_BUFFER);
  curl_easy_setopt (easy, CURLOPT_WRITEFUNCTION, on_bytes);
  if (t->http1)
    curl_easy_setopt (easy, CURLOPT_HTTP_VERSION, (long) CURL_HTTP_VERSION_1_1);
  return easy;
}

static void
give_handle (struct transport *t, CURL *easy)
{
  if (t->idle_count == IDLE_HANDLES)
    curl_easy_cleanup (easy);
  else
    t->idle[t->idle_count++] = easy;
}

void
transport_start (struct transport *t, struct transfer *x)
{
  CURL *easy = take_handle (t);

  endpoint_refresh_token (&t->endpoint, TOKEN_AGE_MS);
  buf_reset (&x->answer);
  x->status = 0;
  x->unsent = x->permanent = x->timed_out = x->too_long = false;
  x->retry_after_ms = 0;
  x->error[0] = '\0';
  x->transport = t;
  x->token_generation = t->endpoint.token_generation;
  x->easy = easy;
  transfer_setup (x, &t->endpoint);
  curl_easy_setopt (easy, CURLOPT_PRIVATE, x);
  curl_easy_setopt (easy, CURLOPT_WRITEDATA, x);
  curl_easy_setopt (easy, CURLOPT_HEADERFUNCTION, x->on_open != NULL ? on_header : NULL);
  curl_easy_setopt (easy, CURLOPT_HEADERDATA,
                    x->on_open != NULL ? x : NULL); /* alone it would mix headers into the body */
  curl_easy_setopt (easy, CURLOPT_ERRORBUFFER, x->error);
  DL_APPEND (t->active, x);
  curl_multi_add_handle (t->multi, easy);
}

/* Takes x off the wire; its easy handle goes back to the pool. */
static void
detach (struct transfer *x)
{
  struct transport *t = x->transport;

  curl_multi_remove_handle (t->multi, x->easy);
  curl_easy_setopt (x->easy, CURLOPT_ERRORBUFFER, NULL);
  curl_easy_setopt (x->easy, CURLOPT_HTTPHEADER, NULL);
  curl_easy_setopt (x->easy, CURLOPT_POSTFIELDS, NULL);
  give_handle (t, x->easy);
  curl_slist_free_all (x->headers);
  x->easy = x->headers = NULL;
  DL_DELETE (t->active, x);
}

void
transport_cancel (struct transfer *x)
{
  if (x->easy != NULL)
    detach (x);
}

static bool
is_one_of (CURLcode code, const CURLcode *list, size_t count)
{
  for (size_t i = 0; i < count; i++)
    if (list[i] == code)
      return true;
  return false;
}

static void
finish (struct transfer *x, CURLcode result)
{
  static const CURLcode unsent[] = { CURLE_COULDNT_RESOLVE_PROXY, CURLE_COULDNT_RESOLVE_HOST, CURLE_COULDNT_CONNECT,
                                     CURLE_SSL_CONNECT_ERROR, CURLE_PEER_FAILED_VERIFICATION };
  static const CURLcode permanent[] = { CURLE_PEER_FAILED_VERIFICATION, CURLE_SSL_CERTPROBLEM, CURLE_SSL_CIPHER,
                                        CURLE_URL_MALFORMAT, CURLE_UNSUPPORTED_PROTOCOL };
  curl_off_t retry_after = 0;

  note_status (x);
  note_version (x);
  curl_easy_getinfo (x->easy, CURLINFO_RETRY_AFTER, &retry_after);
  if (result != CURLE_OK)
    x->status = 0; /* whatever began to come is not the whole answer */
  x->timed_out = result == CURLE_OPERATION_TIMEDOUT;
  x->retry_after_ms = retry_after > 0 && retry_after < 86400 ? (int64_t) retry_after * 1000 : 0;
  x->unsent = is_one_of (result, unsent, ARRAY_LEN (unsent));
  x->permanent = x->too_long || is_one_of (result, permanent, ARRAY_LEN (permanent));
  if (x->too_long) /* libcurl has "failure writing output" for it */
    snprintf (x->error, sizeof (x->error), "the answer is longer than the %zu bytes that there is room for",
              x->answer_max);
  if (result != CURLE_OK && x->error[0] == '\0')
    strncpy (x->error, curl_easy_strerror (result), sizeof (x->error) - 1);
  detach (x);
  x->on_done (x);
}

static void
finish_done (struct transport *t)
{
  const CURLMsg *msg;
  int left;

  while ((msg = curl_multi_info_read (t->multi, &left)) != NULL)
    {
      CURLcode result = msg->data.result;
      char *x = NULL;

      if (msg->msg != CURLMSG_DONE)
        continue;
      curl_easy_getinfo (msg->easy_handle, CURLINFO_PRIVATE, &x);
      finish ((struct transfer *) (void *) x, result);
    }
}

bool
transport_renew_token (struct transport *t, const struct transfer *x)
{
  if (x->token_generation == t->endpoint.token_generation)
    endpoint_refresh_token (&t->endpoint, 0);
  return x->token_generation != t->endpoint.token_generation;
}

/* ---- the thread ---- */

static bool
stopping (struct transport *t)
{
  bool stop;

  pthread_mutex_lock (&t->lock);
  stop = t->stop && t->inbox == NULL;
  pthread_mutex_unlock (&t->lock);
  return stop;
}

static void *
transport_thread (void *data)
{
  struct transport *t = data;
  int running;

  for (;;)
    {
      run_inbox (t);
      run_timers (t);
      curl_multi_perform (t->multi, &running);
      finish_done (t);
      if (stopping (t))
        break;
      /* What finished may have started more: curl asks to be called at once for those, so polling does not delay them.
       * A task posted, or `stop` set, since we looked has woken the poll already. */
      curl_multi_poll (t->multi, NULL, 0, poll_timeout (t), NULL);
    }
  return NULL;
}

static void
init_curl (void)
{
  curl_global_init (CURL_GLOBAL_DEFAULT); /* not safe to do twice at once; kept until the process ends */
}

int
transport_new (struct transport **out, const struct kube_config *config, const struct transport_options *options,
               struct error *err)
{
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  struct transport *t = xcalloc (1, sizeof (*t));
  int ret;

  pthread_once (&once, init_curl);
  ret = endpoint_init (&t->endpoint, config, err);
  t->multi = ret < 0 ? NULL : curl_multi_init ();
  if (t->multi == NULL)
    {
      endpoint_free (&t->endpoint);
      free (t);
      return ret < 0 ? ret : error_set (err, ENOMEM, "libcurl cannot start");
    }
  curl_multi_setopt (t->multi, CURLMOPT_PIPELINING, CURLPIPE_MULTIPLEX);
  t->http1 = options->http1;
  curl_multi_setopt (t->multi, CURLMOPT_MAX_HOST_CONNECTIONS,
                     options->http1 ? 0L : (long) options->max_connections + SPARE_CONNECTIONS);
  curl_multi_setopt (t->multi, CURLMOPT_MAX_CONCURRENT_STREAMS, (long) options->max_streams);
  t->user_agent = xstrdup (options->user_agent ? options->user_agent : "ray-tpu-operator");
  t->inbox_end = &t->inbox;
  pthread_mutex_init (&t->lock, NULL);
  kube_thread_start (&t->thread, transport_thread, t, "kube-transport");
  *out = t;
  return 0;
}

void
transport_free (struct transport *t)
{
  if (t == NULL)
    return;
  pthread_mutex_lock (&t->lock);
  t->stop = true;
  pthread_mutex_unlock (&t->lock);
  curl_multi_wakeup (t->multi);
  pthread_join (t->thread, NULL);
  while (t->active != NULL)
    detach (t->active);
  while (t->idle_count > 0)
    curl_easy_cleanup (t->idle[--t->idle_count]);
  curl_multi_cleanup (t->multi);
  endpoint_free (&t->endpoint);
  pthread_mutex_destroy (&t->lock);
  free (t->user_agent);
  free (t);
}
