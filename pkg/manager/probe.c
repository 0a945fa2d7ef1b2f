/* probe.c - whether our own HTTPS listener answers, asked the way an API server would ask. */
#include "manager/manager_internal.h"

#include <errno.h>
#include <string.h>

#include <curl/curl.h>

#define PROBE_TIMEOUT_MS 2000L

static size_t
discard (char *data, size_t size, size_t count, void *user)
{
  (void) data;
  (void) user;
  return size * count;
}

static void
verify_by (CURL *easy, const char *trust_pem)
{
  struct curl_blob blob;

  if (trust_pem == NULL)
    {
      curl_easy_setopt (easy, CURLOPT_SSL_VERIFYPEER, 0L);
      curl_easy_setopt (easy, CURLOPT_SSL_VERIFYHOST, 0L);
      return;
    }
  blob = (struct curl_blob){ (void *) (uintptr_t) trust_pem, strlen (trust_pem), CURL_BLOB_COPY };
  curl_easy_setopt (easy, CURLOPT_CAINFO_BLOB, &blob);
  curl_easy_setopt (easy, CURLOPT_CAPATH, NULL);
}

static char *
bracketed (const char *host)
{
  return strchr (host, ':') != NULL ? xasprintf ("[%s]", host) : xstrdup (host);
}

int
probe_listener (const char *host, int port, const char *name, const char *trust_pem, struct error *err)
{
  cleanup_free char *shown_host = bracketed (host), *shown_name = bracketed (name);
  cleanup_free char *url = xasprintf ("https://%s/", shown_name);
  cleanup_free char *target = xasprintf ("::%s:%d", shown_host, port);
  struct curl_slist *connect_to = curl_slist_append (NULL, target);
  char reason[CURL_ERROR_SIZE] = "";
  CURL *easy = curl_easy_init ();
  CURLcode code;

  curl_easy_setopt (easy, CURLOPT_URL, url);
  curl_easy_setopt (easy, CURLOPT_CONNECT_TO, connect_to);
  curl_easy_setopt (easy, CURLOPT_PROXY, "");
  curl_easy_setopt (easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt (easy, CURLOPT_NOBODY, 1L);
  curl_easy_setopt (easy, CURLOPT_HTTP_VERSION, (long) CURL_HTTP_VERSION_1_1);
  curl_easy_setopt (easy, CURLOPT_TIMEOUT_MS, PROBE_TIMEOUT_MS);
  curl_easy_setopt (easy, CURLOPT_WRITEFUNCTION, discard);
  curl_easy_setopt (easy, CURLOPT_ERRORBUFFER, reason);
  verify_by (easy, trust_pem);
  code = curl_easy_perform (easy);
  curl_easy_cleanup (easy);
  curl_slist_free_all (connect_to);
  if (code == CURLE_OK)
    return 0;
  return error_set (err, EIO, "%s:%d as %s: %s", shown_host, port, name,
                    reason[0] != '\0' ? reason : curl_easy_strerror (code));
}
