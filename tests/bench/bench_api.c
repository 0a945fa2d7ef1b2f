/* How fast does this API server take requests from a client that does nothing else? Sends the requests of its standard
 * input, so many at a time, and says when the last answer came and, with --watch, when the last of so many objects was
 * seen to be stored. Written against libcurl alone: what it measures must owe nothing to the operator's own client.
 *
 *   bench_api --server URL --pki DIR [--http 1|2] [--connections N] [--parallel N] [--watch PATH --stored N] <REQUESTS
 *
 * A request is a line: METHOD PATH CONTENT-TYPE BODY. Connections are opened, and the watch is, before the clock
 * starts. Prints "answered_ms=... stored_ms=...". */
#include <getopt.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <curl/curl.h>

#define PARALLEL_MAX 512
#define WATCHES_MAX 5
#define PATIENCE_MS 240000
#define ADDED "{\"type\":\"ADDED\""

struct request
{
  char *method, *path, *type, *body; /* within the line that was read */
};

struct options
{
  const char *server, *pki, *watch_path;
  long http, connections, parallel, stored;
};

static void __attribute__ ((noreturn)) die (const char *what, const char *why)
{
  fprintf (stderr, "bench_api: %s: %s\n", what, why);
  exit (1);
}

static double
now_ms (void)
{
  struct timespec t;

  clock_gettime (CLOCK_MONOTONIC, &t);
  return (double) t.tv_sec * 1e3 + (double) t.tv_nsec / 1e6;
}

static void
set_text (CURL *easy, CURLoption option, const char *a, const char *b)
{
  char text[4096];

  if (snprintf (text, sizeof (text), "%s%s", a, b) >= (int) sizeof (text))
    die (a, "too long");
  curl_easy_setopt (easy, option, text);
}

static CURL *
new_handle (const struct options *o)
{
  CURL *easy = curl_easy_init ();

  if (easy == NULL)
    die ("starting", "no memory");
  set_text (easy, CURLOPT_CAINFO, o->pki, "/ca.crt");
  set_text (easy, CURLOPT_SSLCERT, o->pki, "/admin.crt");
  set_text (easy, CURLOPT_SSLKEY, o->pki, "/admin.key");
  curl_easy_setopt (easy, CURLOPT_NOPROXY, "*");
  curl_easy_setopt (easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt (easy, CURLOPT_HTTP_VERSION, o->http == 2 ? (long) CURL_HTTP_VERSION_2TLS : CURL_HTTP_VERSION_1_1);
  curl_easy_setopt (easy, CURLOPT_PIPEWAIT, o->http == 2 ? 1L : 0L);
  return easy;
}

/* ---- the watch: on a thread and a connection of its own ---- */

struct watch
{
  const struct options *options;
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  bool open, ended;
  long seen;
  double last_ms;     /* when the last wanted object was seen; 0: not yet */
  size_t line_length; /* of the line that is coming in; its beginning: */
  char line[sizeof (ADDED)];
};

static size_t
on_watch_header (char *line, size_t size, size_t count, void *data)
{
  struct watch *w = data;

  if (size * count == 2 && line[0] == '\r')
    {
      pthread_mutex_lock (&w->lock);
      w->open = true;
      pthread_cond_signal (&w->changed);
      pthread_mutex_unlock (&w->lock);
    }
  return size * count;
}

static void
note_stored (struct watch *w)
{
  pthread_mutex_lock (&w->lock);
  if (++w->seen == w->options->stored)
    {
      w->last_ms = now_ms ();
      pthread_cond_signal (&w->changed);
    }
  pthread_mutex_unlock (&w->lock);
}

static bool
is_over (struct watch *w)
{
  bool over;

  pthread_mutex_lock (&w->lock);
  over = w->ended || w->last_ms > 0;
  pthread_mutex_unlock (&w->lock);
  return over;
}

/* One event is one line; its beginning tells its type. An object counts when its line is complete. */
static size_t
on_watch_bytes (char *bytes, size_t size, size_t count, void *data)
{
  struct watch *w = data;

  for (size_t i = 0; i < size * count; i++)
    if (bytes[i] != '\n')
      {
        if (w->line_length < sizeof (ADDED) - 1)
          w->line[w->line_length] = bytes[i];
        w->line_length++;
      }
    else
      {
        if (w->line_length >= sizeof (ADDED) - 1 && memcmp (w->line, ADDED, sizeof (ADDED) - 1) == 0)
          note_stored (w);
        w->line_length = 0;
      }
  return is_over (w) ? 0 : size * count; /* 0 ends the transfer */
}

static int
on_watch_progress (void *data, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
  (void) a, (void) b, (void) c, (void) d;
  return is_over (data);
}

static void
watch_once (struct watch *w)
{
  CURL *easy = new_handle (w->options);

  set_text (easy, CURLOPT_URL, w->options->server, w->options->watch_path);
  curl_easy_setopt (easy, CURLOPT_FAILONERROR, 1L);
  curl_easy_setopt (easy, CURLOPT_TIMEOUT_MS, (long) PATIENCE_MS);
  curl_easy_setopt (easy, CURLOPT_HEADERFUNCTION, on_watch_header);
  curl_easy_setopt (easy, CURLOPT_HEADERDATA, w);
  curl_easy_setopt (easy, CURLOPT_WRITEFUNCTION, on_watch_bytes);
  curl_easy_setopt (easy, CURLOPT_WRITEDATA, w);
  curl_easy_setopt (easy, CURLOPT_XFERINFOFUNCTION, on_watch_progress);
  curl_easy_setopt (easy, CURLOPT_XFERINFODATA, w);
  curl_easy_setopt (easy, CURLOPT_NOPROGRESS, 0L);
  curl_easy_perform (easy);
  curl_easy_cleanup (easy);
}

/* A busy API server ends a watch whose reader is not quick enough. The next one begins with every object there is. */
static void *
run_watch (void *data)
{
  struct watch *w = data;

  for (int i = 0; i < WATCHES_MAX && !is_over (w); i++)
    {
      pthread_mutex_lock (&w->lock);
      w->seen = 0;
      pthread_mutex_unlock (&w->lock);
      w->line_length = 0;
      watch_once (w);
    }
  pthread_mutex_lock (&w->lock);
  w->ended = true;
  pthread_cond_signal (&w->changed);
  pthread_mutex_unlock (&w->lock);
  return NULL;
}

static void
start_watch (struct watch *w)
{
  if (pthread_create (&w->thread, NULL, run_watch, w) != 0)
    die ("starting the watch", "no thread");
  pthread_mutex_lock (&w->lock);
  while (!w->open && !w->ended)
    pthread_cond_wait (&w->changed, &w->lock);
  pthread_mutex_unlock (&w->lock);
}

/* Waits for the last object; the transfer's own time limit bounds it. */
static double
finish_watch (struct watch *w, bool wait)
{
  pthread_mutex_lock (&w->lock);
  while (wait && w->last_ms <= 0 && !w->ended)
    pthread_cond_wait (&w->changed, &w->lock);
  w->ended = true;
  pthread_mutex_unlock (&w->lock);
  pthread_join (w->thread, NULL);
  return w->last_ms;
}

/* ---- the requests ---- */

struct run
{
  const struct options *options;
  CURLM *multi;
  struct request *requests;
  size_t count, next, failed;
  long failed_status;         /* of the last that failed; 0: no answer */
  struct curl_slist *headers; /* of one content type: that of the first request */
};

static size_t
discard (char *bytes, size_t size, size_t count, void *data)
{
  (void) bytes, (void) data;
  return size * count;
}

static void
send_next (struct run *r, CURL *easy)
{
  const struct request *q = &r->requests[r->next++];

  set_text (easy, CURLOPT_URL, r->options->server, q->path);
  curl_easy_setopt (easy, CURLOPT_HTTPHEADER, r->headers);
  curl_easy_setopt (easy, CURLOPT_POSTFIELDS, q->body);
  curl_easy_setopt (easy, CURLOPT_POSTFIELDSIZE, (long) strlen (q->body));
  curl_easy_setopt (easy, CURLOPT_CUSTOMREQUEST, q->method);
  curl_multi_add_handle (r->multi, easy);
}

/* Takes what has finished; true while something is on its way. `next`: goes on with the following requests. */
static bool
turn (struct run *r, bool next)
{
  int running, left;
  CURLMsg *msg;

  curl_multi_perform (r->multi, &running);
  while ((msg = curl_multi_info_read (r->multi, &left)) != NULL)
    {
      CURL *easy = msg->easy_handle;
      long status = 0;

      curl_easy_getinfo (easy, CURLINFO_RESPONSE_CODE, &status);
      if (msg->data.result != CURLE_OK || status < 200 || status > 299)
        {
          r->failed++;
          r->failed_status = status;
        }
      curl_multi_remove_handle (r->multi, easy);
      if (next && r->next < r->count)
        {
          send_next (r, easy);
          running++;
        }
    }
  if (running > 0)
    curl_multi_poll (r->multi, NULL, 0, 100, NULL);
  return running > 0;
}

static size_t
prepare (struct run *r, CURL **handles)
{
  const struct options *o = r->options;
  size_t n = r->count < (size_t) o->parallel ? r->count : (size_t) o->parallel;

  if (o->http == 2)
    {
      curl_multi_setopt (r->multi, CURLMOPT_MAX_HOST_CONNECTIONS, o->connections);
      curl_multi_setopt (r->multi, CURLMOPT_MAX_CONCURRENT_STREAMS,
                         (o->parallel + o->connections - 1) / o->connections);
    }
  for (size_t i = 0; i < n; i++)
    {
      handles[i] = new_handle (o);
      curl_easy_setopt (handles[i], CURLOPT_WRITEFUNCTION, discard);
      curl_easy_setopt (handles[i], CURLOPT_TIMEOUT_MS, (long) PATIENCE_MS);
      set_text (handles[i], CURLOPT_URL, o->server, "/version");
      curl_multi_add_handle (r->multi, handles[i]);
    }
  while (turn (r, false))
    ;
  if (r->failed > 0)
    die (o->server, "the connections could not be opened");
  return n;
}

static void
run_requests (struct run *r, struct watch *watch)
{
  CURL *handles[PARALLEL_MAX];
  double begin, answered, stored = 0;
  size_t n;

  r->multi = curl_multi_init ();
  n = prepare (r, handles);
  if (r->options->watch_path != NULL)
    start_watch (watch);
  begin = now_ms ();
  for (size_t i = 0; i < n; i++)
    send_next (r, handles[i]);
  while (turn (r, true))
    ;
  answered = now_ms () - begin;
  if (r->options->watch_path != NULL)
    stored = finish_watch (watch, r->failed == 0) - begin;
  if (r->failed > 0)
    {
      fprintf (stderr, "bench_api: %zu of %zu requests failed, the last one with status %ld\n", r->failed, r->count,
               r->failed_status);
      die (r->requests[0].path, "not every request was answered with success");
    }
  if (r->options->watch_path != NULL && watch->last_ms <= 0)
    die (r->options->watch_path, "the watch ended, or time ran out, before all objects were stored");
  printf ("answered_ms=%.1f stored_ms=%.1f\n", answered, stored);
  for (size_t i = 0; i < n; i++)
    curl_easy_cleanup (handles[i]);
  curl_multi_cleanup (r->multi);
}

/* ---- input ---- */

static bool
read_request (struct request *q)
{
  char *line = NULL, *at;
  size_t capacity = 0;
  ssize_t len = getline (&line, &capacity, stdin);

  if (len <= 0)
    {
      free (line);
      return false;
    }
  line[strcspn (line, "\n")] = '\0';
  at = line;
  q->method = strsep (&at, " ");
  q->path = strsep (&at, " ");
  q->type = strsep (&at, " ");
  q->body = at;
  if (q->body == NULL)
    die (line, "a request is METHOD PATH CONTENT-TYPE BODY");
  return true;
}

static void
read_requests (struct run *r)
{
  size_t capacity = 0;
  struct request q;
  char header[256];

  while (read_request (&q))
    {
      if (r->count == capacity)
        {
          capacity = capacity > 0 ? 2 * capacity : 64;
          r->requests = reallocarray (r->requests, capacity, sizeof (*r->requests));
          if (r->requests == NULL)
            die ("reading the requests", "no memory");
        }
      r->requests[r->count++] = q;
    }
  if (r->count == 0)
    die ("standard input", "no requests");
  snprintf (header, sizeof (header), "Content-Type: %s", r->requests[0].type);
  r->headers = curl_slist_append (NULL, header);
  r->headers = curl_slist_append (r->headers, "Expect:");
}

static long
number (const char *text, long max)
{
  char *end;
  long n = strtol (text, &end, 10);

  if (*end != '\0' || n < 1 || n > max)
    die (text, "is no number in range");
  return n;
}

static struct options
read_options (int argc, char **argv)
{
  static const struct option names[]
      = { { "server", required_argument, NULL, 's' },   { "pki", required_argument, NULL, 'c' },
          { "http", required_argument, NULL, 'h' },     { "connections", required_argument, NULL, 'n' },
          { "parallel", required_argument, NULL, 'p' }, { "watch", required_argument, NULL, 'w' },
          { "stored", required_argument, NULL, 'o' },   { NULL, 0, NULL, 0 } };
  struct options o = { .http = 1, .connections = 1, .parallel = 64, .stored = 1 };
  int c;

  while ((c = getopt_long (argc, argv, "", names, NULL)) != -1)
    {
      o.server = c == 's' ? optarg : o.server;
      o.pki = c == 'c' ? optarg : o.pki;
      o.watch_path = c == 'w' ? optarg : o.watch_path;
      o.http = c == 'h' ? number (optarg, 2) : o.http;
      o.connections = c == 'n' ? number (optarg, PARALLEL_MAX) : o.connections;
      o.parallel = c == 'p' ? number (optarg, PARALLEL_MAX) : o.parallel;
      o.stored = c == 'o' ? number (optarg, 1000000) : o.stored;
      if (c == '?')
        exit (2);
    }
  if (o.server == NULL || o.pki == NULL)
    die ("--server and --pki", "both are needed");
  return o;
}

int
main (int argc, char **argv)
{
  const struct options options = read_options (argc, argv);
  struct watch watch = { .options = &options, .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };
  struct run run = { .options = &options };

  curl_global_init (CURL_GLOBAL_DEFAULT);
  read_requests (&run);
  run_requests (&run, &watch);
  for (size_t i = 0; i < run.count; i++)
    free (run.requests[i].method); /* where its line begins */
  free (run.requests);
  curl_slist_free_all (run.headers);
  curl_global_cleanup ();
  return 0;
}
