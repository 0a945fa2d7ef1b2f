#include "kube_test_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <microhttpd.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <utlist.h>

struct piece
{
  struct piece *next;
  size_t len;
  char bytes[];
};

struct test_stream
{
  struct test_server *server;
  struct test_stream *next;
  struct piece *pieces;
  size_t sent_of_first;
  bool ended, cut;
};

struct test_server
{
  struct MHD_Daemon *daemon;
  test_handler handler;
  void *data;
  char *cert_pem, *key_pem;
  uint16_t port;
  pthread_mutex_t lock; /* guards the streams and `stopping` */
  pthread_cond_t changed;
  bool stopping;
  struct test_stream *streams;
};

/* What is known of a request before its handler runs. */
struct exchange
{
  char *uri;
  struct buf body;
};

/* ---- streams ---- */

struct test_stream *
test_stream_new (struct test_server *server)
{
  struct test_stream *stream = xcalloc (1, sizeof (*stream));

  stream->server = server;
  pthread_mutex_lock (&server->lock);
  LL_PREPEND (server->streams, stream);
  pthread_mutex_unlock (&server->lock);
  return stream;
}

void
test_stream_send (struct test_stream *stream, const char *bytes, size_t len)
{
  struct piece *piece = xmalloc (sizeof (*piece) + len);

  piece->len = len;
  memcpy (piece->bytes, bytes, len);
  pthread_mutex_lock (&stream->server->lock);
  LL_APPEND (stream->pieces, piece);
  pthread_cond_broadcast (&stream->server->changed);
  pthread_mutex_unlock (&stream->server->lock);
}

static void
finish_stream (struct test_stream *stream, bool cut)
{
  pthread_mutex_lock (&stream->server->lock);
  stream->ended = true;
  stream->cut = cut;
  pthread_cond_broadcast (&stream->server->changed);
  pthread_mutex_unlock (&stream->server->lock);
}

void
test_stream_end (struct test_stream *stream)
{
  finish_stream (stream, false);
}

void
test_stream_cut (struct test_stream *stream)
{
  finish_stream (stream, true);
}

static ssize_t
read_stream (void *data, uint64_t position, char *to, size_t max)
{
  struct test_stream *stream = data;
  struct test_server *server = stream->server;
  ssize_t ret;

  (void) position;
  pthread_mutex_lock (&server->lock);
  while (stream->pieces == NULL && !stream->ended && !server->stopping)
    pthread_cond_wait (&server->changed, &server->lock);
  if (stream->pieces != NULL)
    {
      struct piece *piece = stream->pieces;
      size_t len = piece->len - stream->sent_of_first;

      len = len < max ? len : max;
      memcpy (to, piece->bytes + stream->sent_of_first, len);
      stream->sent_of_first += len;
      if (stream->sent_of_first == piece->len)
        {
          LL_DELETE (stream->pieces, piece);
          free (piece);
          stream->sent_of_first = 0;
        }
      ret = (ssize_t) len;
    }
  else
    ret = stream->cut || server->stopping ? MHD_CONTENT_READER_END_WITH_ERROR : MHD_CONTENT_READER_END_OF_STREAM;
  pthread_mutex_unlock (&server->lock);
  return ret;
}

/* ---- requests ---- */

static void
wait_for_stop (struct test_server *server)
{
  pthread_mutex_lock (&server->lock);
  while (!server->stopping)
    pthread_cond_wait (&server->changed, &server->lock);
  pthread_mutex_unlock (&server->lock);
}

static enum MHD_Result
send_answer (struct test_server *server, struct MHD_Connection *connection, struct test_answer *answer)
{
  struct MHD_Response *response;
  enum MHD_Result ret;
  char text[16];

  if (answer->hang)
    wait_for_stop (server);
  if (answer->hang || answer->close)
    return MHD_NO;
  if (answer->stream != NULL)
    response = MHD_create_response_from_callback (MHD_SIZE_UNKNOWN, 4096, read_stream, answer->stream, NULL);
  else
    response = MHD_create_response_from_buffer (answer->body ? strlen (answer->body) : 0, answer->body,
                                                MHD_RESPMEM_MUST_COPY);
  snprintf (text, sizeof (text), "%d", answer->retry_after_s);
  if (answer->retry_after_s > 0)
    MHD_add_response_header (response, "Retry-After", text);
  MHD_add_response_header (response, "Content-Type", "application/json");
  ret = MHD_queue_response (connection, answer->status ? (unsigned) answer->status : 200, response);
  MHD_destroy_response (response);
  return ret;
}

static const char *
header (struct MHD_Connection *connection, const char *name)
{
  return log_nonnull (MHD_lookup_connection_value (connection, MHD_HEADER_KIND, name));
}

static enum MHD_Result
on_request (void *data, struct MHD_Connection *connection, const char *url, const char *method, const char *version,
            const char *upload, size_t *upload_size, void **state)
{
  struct test_server *server = data;
  struct exchange *exchange = *state;
  struct test_answer answer = { 0 };
  struct test_request request = { .method = method };
  enum MHD_Result ret;

  (void) url;
  (void) version;
  if (exchange->body.cap == 0) /* the first of the calls comes before any body */
    {
      buf_str (&exchange->body, "");
      return MHD_YES;
    }
  if (*upload_size > 0)
    {
      buf_add (&exchange->body, upload, *upload_size);
      *upload_size = 0;
      return MHD_YES;
    }
  request.path = exchange->uri;
  request.body = buf_text (&exchange->body);
  request.content_type = header (connection, "Content-Type");
  request.accept = header (connection, "Accept");
  request.authorization = header (connection, "Authorization");
  server->handler (server->data, &request, &answer);
  ret = send_answer (server, connection, &answer);
  free (answer.body);
  return ret;
}

static void *
on_uri (void *data, const char *uri, struct MHD_Connection *connection)
{
  struct exchange *exchange = xcalloc (1, sizeof (*exchange));

  (void) data;
  (void) connection;
  exchange->uri = xstrdup (uri);
  return exchange;
}

static void
on_completed (void *data, struct MHD_Connection *connection, void **state, enum MHD_RequestTerminationCode why)
{
  struct exchange *exchange = *state;

  (void) data;
  (void) connection;
  (void) why;
  if (exchange == NULL)
    return;
  free (exchange->uri);
  buf_free (&exchange->body);
  free (exchange);
}

/* ---- TLS ---- */

static char *
bio_text (BIO *bio)
{
  char *bytes;
  long len = BIO_get_mem_data (bio, &bytes);
  char *text = xstrndup (bytes, (size_t) len);

  BIO_free (bio);
  return text;
}

/* A self-signed certificate for 127.0.0.1 and for the name "test.invalid". */
static void
make_certificate (struct test_server *server)
{
  EVP_PKEY *key = EVP_EC_gen ("P-256");
  X509 *cert = X509_new ();
  BIO *key_bio = BIO_new (BIO_s_mem ()), *cert_bio = BIO_new (BIO_s_mem ());
  X509_EXTENSION *names;

  X509_set_version (cert, 2);
  ASN1_INTEGER_set (X509_get_serialNumber (cert), 1);
  X509_gmtime_adj (X509_getm_notBefore (cert), -3600);
  X509_gmtime_adj (X509_getm_notAfter (cert), 3600);
  X509_set_pubkey (cert, key);
  X509_NAME_add_entry_by_txt (X509_get_subject_name (cert), "CN", MBSTRING_ASC, (const unsigned char *) "test", -1, -1,
                              0);
  X509_set_issuer_name (cert, X509_get_subject_name (cert));
  names = X509V3_EXT_conf_nid (NULL, NULL, NID_subject_alt_name, "IP:127.0.0.1,DNS:test.invalid");
  X509_add_ext (cert, names, -1);
  X509_EXTENSION_free (names);
  X509_sign (cert, key, EVP_sha256 ());
  PEM_write_bio_PrivateKey (key_bio, key, NULL, NULL, 0, NULL, NULL);
  PEM_write_bio_X509 (cert_bio, cert);
  server->key_pem = bio_text (key_bio);
  server->cert_pem = bio_text (cert_bio);
  EVP_PKEY_free (key);
  X509_free (cert);
}

/* ---- life ---- */

struct test_server *
test_server_start (test_handler handler, void *data, bool tls)
{
  struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl (INADDR_LOOPBACK) };
  struct test_server *server = xcalloc (1, sizeof (*server));
  unsigned flags = MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION | (tls ? (unsigned) MHD_USE_TLS : 0);
  struct MHD_OptionItem options[8] = { 0 };
  size_t n = 0;

  server->handler = handler;
  server->data = data;
  pthread_mutex_init (&server->lock, NULL);
  pthread_cond_init (&server->changed, NULL);
  options[n++] = (struct MHD_OptionItem){ MHD_OPTION_SOCK_ADDR, 0, &address };
  options[n++] = (struct MHD_OptionItem){ MHD_OPTION_URI_LOG_CALLBACK, (intptr_t) on_uri, NULL };
  options[n++] = (struct MHD_OptionItem){ MHD_OPTION_NOTIFY_COMPLETED, (intptr_t) on_completed, NULL };
  if (tls)
    {
      make_certificate (server);
      options[n++] = (struct MHD_OptionItem){ MHD_OPTION_HTTPS_MEM_KEY, 0, server->key_pem };
      options[n++] = (struct MHD_OptionItem){ MHD_OPTION_HTTPS_MEM_CERT, 0, server->cert_pem };
    }
  options[n] = (struct MHD_OptionItem){ MHD_OPTION_END, 0, NULL };
  server->daemon
      = MHD_start_daemon (flags, 0, NULL, NULL, on_request, server, MHD_OPTION_ARRAY, options, MHD_OPTION_END);
  if (server->daemon == NULL)
    abort ();
  server->port = MHD_get_daemon_info (server->daemon, MHD_DAEMON_INFO_BIND_PORT)->port;
  return server;
}

void
test_server_stop (struct test_server *server)
{
  pthread_mutex_lock (&server->lock);
  server->stopping = true;
  pthread_cond_broadcast (&server->changed);
  pthread_mutex_unlock (&server->lock);
  MHD_stop_daemon (server->daemon);
  while (server->streams != NULL)
    {
      struct test_stream *stream = server->streams;

      LL_DELETE (server->streams, stream);
      while (stream->pieces != NULL)
        {
          struct piece *piece = stream->pieces;

          LL_DELETE (stream->pieces, piece);
          free (piece);
        }
      free (stream);
    }
  pthread_mutex_destroy (&server->lock);
  pthread_cond_destroy (&server->changed);
  free (server->cert_pem);
  free (server->key_pem);
  free (server);
}

void
test_server_config (const struct test_server *server, struct kube_config *config)
{
  *config = (struct kube_config){
    .server = xasprintf ("%s://127.0.0.1:%u", server->cert_pem ? "https" : "http", server->port),
    .namespace = xstrdup ("default"),
    .ca_pem = server->cert_pem ? xstrdup (server->cert_pem) : NULL,
  };
}

struct kube_client *
test_server_client (const struct test_server *server, const struct kube_client_options *options)
{
  struct kube_client_options none = { .user_agent = "test/1" };
  struct kube_client *client = NULL;
  struct kube_config config;

  test_server_config (server, &config);
  if (kube_client_new (&client, &config, options ? options : &none, NULL) < 0)
    abort ();
  kube_config_free (&config);
  return client;
}
