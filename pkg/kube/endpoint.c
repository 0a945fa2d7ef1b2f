/* endpoint.c - how an easy handle reaches the API server and proves who we are. */
#include "kube/kube_internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

#include <curl/curl.h>

#define CONNECT_TIMEOUT_MS 10000L
#define KEEPALIVE_IDLE_S 20L
#define KEEPALIVE_INTERVAL_S 10L
/* A peer that acknowledges nothing for so long is gone. Without it, requests would go on being multiplexed over a dead
 * connection until the kernel gives up after about a quarter of an hour. */
#define TCP_USER_TIMEOUT_MS 15000
#define TOKEN_LIMIT (256 * 1024)

static bool
is_loopback (const char *host)
{
  struct in_addr v4;

  if (text_eq_nocase (host, "localhost") || text_eq (host, "[::1]"))
    return true;
  return inet_pton (AF_INET, host, &v4) == 1 && (ntohl (v4.s_addr) >> 24) == 127;
}

/* With a TLS name that differs from the address, the URL carries the name (that is what curl verifies and sends as SNI)
 * and CONNECT_TO the address. */
static int
split_server (struct endpoint *e, CURLU *url)
{
  char *host = NULL, *port = NULL, *with_name = NULL;
  CURLUcode code = curl_url_get (url, CURLUPART_HOST, &host, 0);

  if (code == CURLUE_OK)
    code = curl_url_get (url, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT);
  if (code == CURLUE_OK)
    {
      e->loopback = is_loopback (host);
      e->base = xstrdup (e->config.server);
    }
  if (code == CURLUE_OK && e->config.tls_server_name != NULL)
    {
      cleanup_free char *connect = xasprintf ("::%s:%s", host, port);

      e->connect_to = curl_slist_append (NULL, connect);
      e->host_header = xasprintf ("Host: %s:%s", host, port);
      code = curl_url_set (url, CURLUPART_HOST, e->config.tls_server_name, 0);
      if (code == CURLUE_OK)
        code = curl_url_get (url, CURLUPART_URL, &with_name, 0);
      if (code == CURLUE_OK)
        {
          size_t len = strlen (with_name);

          free (e->base);
          e->base = xstrndup (with_name, len > 0 && with_name[len - 1] == '/' ? len - 1 : len);
        }
    }
  curl_free (host);
  curl_free (port);
  curl_free (with_name);
  return code == CURLUE_OK ? 0 : -EINVAL;
}

int
endpoint_init (struct endpoint *e, const struct kube_config *config, struct error *err)
{
  CURLU *url = curl_url ();
  int ret = 0;

  *e = (struct endpoint){ 0 };
  kube_config_copy (&e->config, config);
  if (url == NULL || config->server == NULL || curl_url_set (url, CURLUPART_URL, config->server, 0) != CURLUE_OK
      || split_server (e, url) < 0)
    ret = error_set (err, EINVAL, "server \"%s\" is not an address like https://10.0.0.1:6443",
                     config->server ? config->server : "");
  curl_url_cleanup (url);
  if (ret == 0 && config->token_file != NULL)
    endpoint_refresh_token (e, 0);
  else if (ret == 0 && config->token != NULL)
    e->token_header = xasprintf ("Authorization: Bearer %s", config->token);
  if (ret < 0)
    endpoint_free (e);
  return ret;
}

static void
wipe_free (char **secret)
{
  if (*secret != NULL)
    explicit_bzero (*secret, strlen (*secret));
  free (*secret);
  *secret = NULL;
}

void
endpoint_free (struct endpoint *e)
{
  curl_slist_free_all (e->connect_to);
  free (e->base);
  free (e->host_header);
  wipe_free (&e->token_header);
  kube_config_free (&e->config);
  *e = (struct endpoint){ 0 };
}

/* Reads the token file again when what we know is older than max_age_ms. A file that cannot be read leaves the old
 * token in use: it may well be valid still. */
void
endpoint_refresh_token (struct endpoint *e, int64_t max_age_ms)
{
  int64_t now = clock_mono_ms (), lasted_ms;
  struct buf text = { 0 };
  struct error err = { 0 };
  cleanup_free char *header = NULL;

  if (e->config.token_file == NULL || (e->token_header != NULL && now - e->token_read_ms < max_age_ms))
    return;
  e->token_read_ms = now;
  if (text_read_file (e->config.token_file, TOKEN_LIMIT, &text, &err) < 0)
    log_at (log_trouble_level (&e->token_trouble, now),
            "cannot read the service-account token, using the one read before", LF_STR ("error", err.message));
  else
    header = xasprintf ("Authorization: Bearer %.*s", (int) strcspn (buf_text (&text), " \r\n"), buf_text (&text));
  if (header != NULL && log_trouble_over (&e->token_trouble, now, &lasted_ms))
    log_info ("the service-account token can be read again", LF_INT ("lasted_ms", lasted_ms));
  if (text.data != NULL)
    explicit_bzero (text.data, text.len);
  buf_free (&text);
  if (header == NULL || text_eq (header, e->token_header))
    {
      wipe_free (&header);
      return;
    }
  wipe_free (&e->token_header);
  e->token_header = take_ptr (header);
  e->token_generation++;
}

static int
on_socket (void *data, curl_socket_t fd, curlsocktype purpose)
{
  unsigned int ms = TCP_USER_TIMEOUT_MS;

  (void) data;
  (void) purpose;
  setsockopt (fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof (ms)); /* only quicker detection is lost if it fails */
  return CURL_SOCKOPT_OK;
}

static void
set_blob (CURL *easy, CURLoption option, char *pem)
{
  struct curl_blob blob = { .data = pem, .len = strlen (pem), .flags = CURL_BLOB_NOCOPY };

  curl_easy_setopt (easy, option, &blob);
}

static void
setup_tls (const struct endpoint *e, CURL *easy)
{
  const struct kube_config *config = &e->config;

  curl_easy_setopt (easy, CURLOPT_SSLVERSION, CURL_SSLVERSION_TLSv1_2);
  curl_easy_setopt (easy, CURLOPT_SSL_VERIFYPEER, config->insecure ? 0L : 1L);
  curl_easy_setopt (easy, CURLOPT_SSL_VERIFYHOST, config->insecure ? 0L : 2L);
  if (config->ca_pem != NULL)
    set_blob (easy, CURLOPT_CAINFO_BLOB, config->ca_pem);
  if (config->cert_pem != NULL && config->key_pem != NULL)
    {
      curl_easy_setopt (easy, CURLOPT_SSLCERTTYPE, "PEM");
      curl_easy_setopt (easy, CURLOPT_SSLKEYTYPE, "PEM");
      set_blob (easy, CURLOPT_SSLCERT_BLOB, config->cert_pem);
      set_blob (easy, CURLOPT_SSLKEY_BLOB, config->key_pem);
    }
}

/* The options every transfer has, set once per handle. */
void
endpoint_setup (const struct endpoint *e, void *easy)
{
  setup_tls (e, easy);
  if (e->connect_to != NULL)
    curl_easy_setopt (easy, CURLOPT_CONNECT_TO, (struct curl_slist *) e->connect_to);
  if (e->loopback)
    curl_easy_setopt (easy, CURLOPT_NOPROXY, "*");
  else if (e->config.proxy_url != NULL)
    curl_easy_setopt (easy, CURLOPT_PROXY, e->config.proxy_url);
  curl_easy_setopt (easy, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt (easy, CURLOPT_HTTP_VERSION, (long) CURL_HTTP_VERSION_2TLS);
  /* Rather wait for a handshake that may bring HTTP/2 than open a connection each; in clear text only the first answer
   * would tell, and that may be long in coming. */
  curl_easy_setopt (easy, CURLOPT_PIPEWAIT, text_starts_with (e->base, "https://") ? 1L : 0L);
  curl_easy_setopt (easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt (easy, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_TIMEOUT_MS);
  curl_easy_setopt (easy, CURLOPT_TCP_KEEPALIVE, 1L);
  curl_easy_setopt (easy, CURLOPT_TCP_KEEPIDLE, KEEPALIVE_IDLE_S);
  curl_easy_setopt (easy, CURLOPT_TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S);
  curl_easy_setopt (easy, CURLOPT_SOCKOPTFUNCTION, on_socket);
}
