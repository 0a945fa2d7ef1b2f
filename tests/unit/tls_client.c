#include "tls_client.h"

#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>

#include "base/base.h"

struct tls_client
{
  int fd;
  SSL_CTX *ctx;
  SSL *ssl;
};

static int
connect_loopback (int port)
{
  struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons ((uint16_t) port) };
  const struct timeval timeout = { .tv_sec = 10 };
  int fd = socket (AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

  address.sin_addr.s_addr = htonl (INADDR_LOOPBACK);
  setsockopt (fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof (timeout));
  setsockopt (fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof (timeout));
  if (connect (fd, (const struct sockaddr *) &address, sizeof (address)) == 0)
    return fd;
  close (fd);
  return -1;
}

static void
trust (SSL_CTX *ctx, const char *ca_pem)
{
  BIO *bio = BIO_new_mem_buf (ca_pem, -1);
  X509 *ca;

  while ((ca = PEM_read_bio_X509 (bio, NULL, NULL, NULL)) != NULL)
    {
      X509_STORE_add_cert (SSL_CTX_get_cert_store (ctx), ca);
      X509_free (ca);
    }
  ERR_clear_error ();
  BIO_free (bio);
  SSL_CTX_set_verify (ctx, SSL_VERIFY_PEER, NULL);
}

struct tls_client *
tls_client_open (int port, const char *ca_pem, int max_version)
{
  struct tls_client *c;
  sigset_t pipe_only;
  int fd = connect_loopback (port);

  if (fd < 0)
    return NULL;
  /* In this thread alone, so that a server that could be killed by a client's leaving still is. */
  sigemptyset (&pipe_only);
  sigaddset (&pipe_only, SIGPIPE);
  pthread_sigmask (SIG_BLOCK, &pipe_only, NULL);
  c = xcalloc (1, sizeof (*c));
  c->fd = fd;
  c->ctx = SSL_CTX_new (TLS_client_method ());
  SSL_CTX_set_security_level (c->ctx, 0); /* the client forbids nothing: a refusal is the server's */
  SSL_CTX_set_min_proto_version (c->ctx, TLS1_VERSION);
  SSL_CTX_set_max_proto_version (c->ctx, max_version);
  if (ca_pem != NULL)
    trust (c->ctx, ca_pem);
  c->ssl = SSL_new (c->ctx);
  if (ca_pem != NULL)
    SSL_set1_host (c->ssl, "localhost");
  SSL_set_fd (c->ssl, fd);
  if (SSL_connect (c->ssl) == 1)
    return c;
  ERR_clear_error ();
  tls_client_close (c);
  return NULL;
}

void
tls_client_close (struct tls_client *c)
{
  if (c == NULL)
    return;
  SSL_free (c->ssl);
  SSL_CTX_free (c->ctx);
  close (c->fd);
  free (c);
}

bool
tls_client_send (struct tls_client *c, const char *data, size_t len)
{
  size_t written;
  bool ok = SSL_write_ex (c->ssl, data, len, &written) == 1 && written == len;

  ERR_clear_error ();
  return ok;
}

bool
tls_client_closed (struct tls_client *c)
{
  char byte;
  size_t n;
  int ret = SSL_read_ex (c->ssl, &byte, 1, &n), reason = SSL_get_error (c->ssl, ret);

  ERR_clear_error ();
  return ret != 1 && reason != SSL_ERROR_WANT_READ; /* that one is the ten seconds */
}

static bool
read_headers (struct tls_client *c, struct tls_answer *answer)
{
  char text[sizeof (answer->headers)];
  size_t len = 0, n;

  while (len < sizeof (text) - 1)
    {
      if (SSL_read_ex (c->ssl, text + len, 1, &n) != 1)
        return false;
      text[++len] = '\0';
      if (text_ends_with (text, "\r\n\r\n"))
        {
          answer->status = atoi (text + strcspn (text, " "));
          snprintf (answer->headers, sizeof (answer->headers), "%s", strchr (text, '\n') + 1);
          return true;
        }
    }
  return false;
}

bool
tls_client_read (struct tls_client *c, struct tls_answer *answer)
{
  const char *length;
  size_t want, have = 0, n;

  memset (answer, 0, sizeof (*answer));
  if (!read_headers (c, answer))
    {
      ERR_clear_error ();
      return false;
    }
  length = strcasestr (answer->headers, "Content-Length:");
  want = length != NULL ? strtoul (length + strlen ("Content-Length:"), NULL, 10) : 0;
  answer->body = xcalloc (want + 1, 1);
  while (have < want)
    {
      if (SSL_read_ex (c->ssl, answer->body + have, want - have, &n) != 1)
        {
          ERR_clear_error ();
          return false;
        }
      have += n;
    }
  return true;
}

void
tls_answer_free (struct tls_answer *answer)
{
  free (take_ptr (answer->body));
}

bool
tls_client_post (struct tls_client *c, const char *path, const char *body, struct tls_answer *answer)
{
  cleanup_buf struct buf request = { 0 };

  buf_printf (&request, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n", path);
  buf_printf (&request, "Content-Length: %zu\r\n\r\n", strlen (body));
  buf_str (&request, body);
  return tls_client_send (c, request.data, request.len) && tls_client_read (c, answer);
}
