/* http.c - one request: its head is checked, its body collected within bounds, its review answered.
 * A connection carries one request at a time, so its buffer serves all of them. */
#include "admission/server_internal.h"

#include <malloc.h>
#include <string.h>
#include <strings.h>

/* A body of nothing but small values takes 27 times its size once parsed (80 MiB for the largest): such reviews are
 * answered one at a time, so that a few of them together do not exceed the container's memory. */
#define LARGE_BODY (256 * 1024)
#define KEEP_BUFFER (16 * 1024) /* what an idle connection may hold on to; a tutorial pod's review has 6 KiB */

struct connection
{
  struct admission_server *server;
  struct certificate *certificate;
  const struct admission_route *route;
  int64_t started_ms;
  unsigned int refusal; /* HTTP status already decided on; the rest of the body is thrown away. 0: none */
  struct buf body;
};

static const struct
{
  unsigned int status;
  const char *text;
} refusals[] = {
  { MHD_HTTP_NOT_FOUND, "no webhook is served at this path\n" },
  { MHD_HTTP_METHOD_NOT_ALLOWED, "only POST is allowed here\n" },
  { MHD_HTTP_UNSUPPORTED_MEDIA_TYPE, "the body must be application/json\n" },
  { MHD_HTTP_CONTENT_TOO_LARGE, "the body is larger than an AdmissionReview can be\n" },
  { MHD_HTTP_SERVICE_UNAVAILABLE, "too many large requests are under way; try again\n" },
};

static struct route_counters *
counters_of (const struct connection *c)
{
  return &c->server->counters[c->route - c->server->options.routes];
}

static void
count (atomic_uint_fast64_t *counter, uint64_t n)
{
  atomic_fetch_add_explicit (counter, n, memory_order_relaxed);
}

/* ---- answering ---- */

static enum MHD_Result
queue (struct MHD_Connection *connection, struct connection *c, unsigned int status, const char *type,
       struct MHD_Response *response)
{
  enum MHD_Result ret;

  if (response == NULL)
    return MHD_NO;
  MHD_add_response_header (response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
  if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
    MHD_add_response_header (response, MHD_HTTP_HEADER_ALLOW, MHD_HTTP_METHOD_POST);
  if (status == MHD_HTTP_SERVICE_UNAVAILABLE)
    MHD_add_response_header (response, MHD_HTTP_HEADER_RETRY_AFTER, "1");
  if (atomic_load_explicit (&c->server->draining, memory_order_relaxed))
    MHD_add_response_header (response, MHD_HTTP_HEADER_CONNECTION, "close");
  ret = MHD_queue_response (connection, status, response);
  MHD_destroy_response (response);
  return ret;
}

static enum MHD_Result
refuse (struct MHD_Connection *connection, struct connection *c, unsigned int status)
{
  const char *text = "";

  for (size_t i = 0; i < ARRAY_LEN (refusals); i++)
    if (refusals[i].status == status)
      text = refusals[i].text;
  if (status == MHD_HTTP_CONTENT_TOO_LARGE)
    count (&counters_of (c)->outcomes[ADMISSION_MALFORMED], 1);
  return queue (connection, c, status, "text/plain; charset=utf-8",
                MHD_create_response_from_buffer (strlen (text), (void *) (uintptr_t) text, MHD_RESPMEM_PERSISTENT));
}

/* The reason quotes the request; control characters in it must not make two lines of one. */
static void
flatten (char *text)
{
  for (; *text != '\0'; text++)
    if ((unsigned char) *text < ' ')
      *text = ' ';
}

static enum MHD_Result
answer_malformed (struct MHD_Connection *connection, struct connection *c, const struct error *err)
{
  cleanup_buf struct buf line = { 0 };
  char *text;

  buf_str (&line, err->message);
  flatten (line.data);
  buf_char (&line, '\n');
  text = buf_take (&line);
  log_warn ("malformed admission review", LF_STR ("route", c->route->name), LF_STR ("reason", err->message));
  return queue (connection, c, MHD_HTTP_BAD_REQUEST, "text/plain; charset=utf-8",
                MHD_create_response_from_buffer (strlen (text), text, MHD_RESPMEM_MUST_FREE));
}

static void
count_latency (struct route_counters *counters, int64_t us)
{
  size_t i = 0;

  while (us > admission_bucket_us[i])
    i++;
  count (&counters->latency[i], 1);
  count (&counters->latency_sum_us, (uint64_t) us);
}

static enum MHD_Result
answer (struct MHD_Connection *connection, struct connection *c)
{
  struct route_counters *counters = counters_of (c);
  int64_t begin = clock_mono_us ();
  enum admission_outcome outcome;
  struct error err = { "" };
  bool large = c->body.len > LARGE_BODY;
  char *reply;
  int ret;

  if (large)
    pthread_mutex_lock (&c->server->large);
  ret = admission_review (c->route, c->server->options.strict, buf_text (&c->body), c->body.len, &reply, &outcome,
                          &err);
  if (large)
    {
      malloc_trim (0); /* or the next one, on another thread, takes as much again */
      pthread_mutex_unlock (&c->server->large);
    }
  count (&counters->outcomes[outcome], 1);
  if (ret < 0)
    return answer_malformed (connection, c, &err);
  count_latency (counters, clock_mono_us () - begin);
  return queue (connection, c, MHD_HTTP_OK, "application/json",
                MHD_create_response_from_buffer (strlen (reply), reply, MHD_RESPMEM_MUST_FREE));
}

/* ---- the head ---- */

static const struct admission_route *
find_route (const struct admission_server *server, const char *path)
{
  for (size_t i = 0; i < server->options.nroutes; i++)
    if (text_eq (server->options.routes[i].path, path))
      return &server->options.routes[i];
  return NULL;
}

static bool
is_json (const char *content_type)
{
  static const char json[] = "application/json";

  return content_type != NULL && strncasecmp (content_type, json, sizeof (json) - 1) == 0
         && strchr ("; \t", content_type[sizeof (json) - 1]) != NULL; /* the end of the text is among them */
}

static bool
announces_too_much (struct MHD_Connection *connection, size_t max_body)
{
  const char *length = MHD_lookup_connection_value (connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);
  int64_t n;

  /* what is no number libmicrohttpd refuses by itself */
  return length != NULL && text_to_int (length, 0, INT64_MAX, &n) == 0 && (uint64_t) n > max_body;
}

static unsigned int
check_head (struct MHD_Connection *connection, struct connection *c, const char *method)
{
  if (c->route == NULL)
    return MHD_HTTP_NOT_FOUND;
  if (strcmp (method, MHD_HTTP_METHOD_POST) != 0)
    return MHD_HTTP_METHOD_NOT_ALLOWED;
  if (!is_json (MHD_lookup_connection_value (connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_TYPE)))
    return MHD_HTTP_UNSUPPORTED_MEDIA_TYPE;
  return 0;
}

static enum MHD_Result
begin_request (struct MHD_Connection *connection, struct connection *c, const char *url, const char *method)
{
  atomic_fetch_add (&c->server->in_flight, 1);
  c->started_ms = clock_mono_ms ();
  c->route = find_route (c->server, url);
  c->refusal = check_head (connection, c, method);
  if (!announces_too_much (connection, c->server->options.max_body))
    return MHD_YES;
  /* Answered before the body comes, and the connection is closed: reading it all would be the harm the bound is there
   * to prevent. */
  return refuse (connection, c, c->refusal != 0 ? c->refusal : MHD_HTTP_CONTENT_TOO_LARGE);
}

/* ---- the body ---- */

static void
drop_body (struct connection *c)
{
  atomic_fetch_sub_explicit (&c->server->pending_bytes, c->body.len, memory_order_relaxed);
  if (c->body.cap > KEEP_BUFFER)
    buf_free (&c->body);
  else
    buf_reset (&c->body);
}

static void
collect (struct connection *c, const char *data, size_t len)
{
  struct admission_server *server = c->server;
  size_t max = server->options.max_body;

  if (c->refusal != 0)
    return;
  if (len > max - c->body.len)
    c->refusal = MHD_HTTP_CONTENT_TOO_LARGE;
  else if (atomic_load_explicit (&server->pending_bytes, memory_order_relaxed) + len
           > max * ADMISSION_MAX_PENDING_BODIES)
    c->refusal = MHD_HTTP_SERVICE_UNAVAILABLE;
  if (c->refusal != 0)
    {
      drop_body (c);
      return;
    }
  atomic_fetch_add_explicit (&server->pending_bytes, len, memory_order_relaxed);
  buf_add (&c->body, data, len);
}

/* ---- libmicrohttpd's callbacks ---- */

enum MHD_Result
http_handle (void *cls, struct MHD_Connection *connection, const char *url, const char *method, const char *version,
             const char *upload_data, size_t *upload_data_size, void **con_cls)
{
  const union MHD_ConnectionInfo *info = MHD_get_connection_info (connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
  struct connection *c = info != NULL ? info->socket_context : NULL;

  (void) cls, (void) version;
  if (c == NULL)
    return MHD_NO;
  if (*con_cls == NULL)
    {
      *con_cls = c;
      return begin_request (connection, c, url, method);
    }
  if (*upload_data_size > 0)
    {
      collect (c, upload_data, *upload_data_size);
      *upload_data_size = 0;
      /* The daemon's own timeout starts anew with every byte; this one does not, so that a trickle cannot hold a
       * connection. */
      return clock_mono_ms () - c->started_ms > (int64_t) c->server->options.timeout_s * 1000 ? MHD_NO : MHD_YES;
    }
  return c->refusal != 0 ? refuse (connection, c, c->refusal) : answer (connection, c);
}

void
http_completed (void *cls, struct MHD_Connection *connection, void **con_cls, enum MHD_RequestTerminationCode toe)
{
  struct connection *c = *con_cls;

  (void) cls, (void) connection, (void) toe;
  if (c == NULL)
    return;
  *con_cls = NULL;
  drop_body (c);
  atomic_fetch_sub (&c->server->in_flight, 1);
}

static struct connection *
connection_new (struct admission_server *server, struct MHD_Connection *connection)
{
  const union MHD_ConnectionInfo *info = MHD_get_connection_info (connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
  struct connection *c = xcalloc (1, sizeof (*c));

  c->server = server;
  pthread_mutex_lock (&server->lock);
  c->certificate = certificate_ref (server->certificate);
  pthread_mutex_unlock (&server->lock);
  if (info != NULL && info->tls_session != NULL)
    certificate_bind (info->tls_session, c->certificate);
  return c;
}

void
http_connection (void *cls, struct MHD_Connection *connection, void **socket_context,
                 enum MHD_ConnectionNotificationCode toe)
{
  struct connection *c = *socket_context;

  if (toe == MHD_CONNECTION_NOTIFY_STARTED)
    {
      *socket_context = connection_new (cls, connection);
      return;
    }
  if (c == NULL)
    return;
  *socket_context = NULL;
  certificate_unref (c->certificate);
  buf_free (&c->body);
  free (c);
}
