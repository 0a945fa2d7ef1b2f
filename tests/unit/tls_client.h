/* tls_client.h - a blocking HTTPS client for tests: one connection, one request after the other. Loopback only; every
 * read and write gives up after ten seconds. */
#ifndef TLS_CLIENT_H
#define TLS_CLIENT_H

#include <stdbool.h>
#include <stddef.h>

struct tls_client;

/* NULL when the handshake fails, which includes a server certificate that ca_pem does not vouch for. ca_pem NULL:
 * anything goes. max_version is 0 or an OpenSSL constant such as TLS1_2_VERSION. */
struct tls_client *tls_client_open (int port, const char *ca_pem, int max_version);
void tls_client_close (struct tls_client *client);

bool tls_client_send (struct tls_client *client, const char *data, size_t len);
bool tls_client_closed (
    struct tls_client *client); /* waits for the server to close; false when it sends something instead */

struct tls_answer
{
  int status;
  char headers[2048]; /* raw, without the status line */
  char *body;         /* owned */
};

bool tls_client_read (struct tls_client *client, struct tls_answer *answer);
void tls_answer_free (struct tls_answer *answer);
#define cleanup_answer __attribute__ ((cleanup (tls_answer_free)))

/* POST of JSON and its answer. */
bool tls_client_post (struct tls_client *client, const char *path, const char *body, struct tls_answer *answer);

#endif
