/* transfer.c - a transfer as libcurl wants it told. */
#include "kube/kube_internal.h"

#include <string.h>

#include <curl/curl.h>

static struct curl_slist *
make_headers (const struct endpoint *e, const struct transfer *x)
{
  static const char *const types[KUBE_VERB_MAX] = {
    [KUBE_POST] = "Content-Type: application/json",
    [KUBE_PUT] = "Content-Type: application/json",
    [KUBE_DELETE] = "Content-Type: application/json",
    [KUBE_PATCH_MERGE] = "Content-Type: application/merge-patch+json",
    [KUBE_PATCH_JSON] = "Content-Type: application/json-patch+json",
    [KUBE_PATCH_APPLY] = "Content-Type: application/apply-patch+yaml",
  };
  static const char part_of_list[] = "Accept: application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
  struct curl_slist *list = curl_slist_append (NULL, x->metadata_only ? part_of_list : "Accept: application/json");

  if (x->body != NULL && types[x->verb] != NULL)
    list = curl_slist_append (list, types[x->verb]);
  if (x->body != NULL)
    list = curl_slist_append (list, "Expect:"); /* a round trip for nothing */
  if (e->host_header != NULL)
    list = curl_slist_append (list, e->host_header);
  if (e->token_header != NULL)
    list = curl_slist_append (list, e->token_header);
  return list;
}

static void
set_method (CURL *easy, const struct transfer *x)
{
  static const char *const methods[KUBE_VERB_MAX] = {
    [KUBE_GET] = "GET",           [KUBE_POST] = "POST",        [KUBE_PUT] = "PUT",           [KUBE_DELETE] = "DELETE",
    [KUBE_PATCH_MERGE] = "PATCH", [KUBE_PATCH_JSON] = "PATCH", [KUBE_PATCH_APPLY] = "PATCH",
  };

  if (x->body != NULL)
    {
      curl_easy_setopt (easy, CURLOPT_POST, 1L);
      curl_easy_setopt (easy, CURLOPT_POSTFIELDS, x->body);
      curl_easy_setopt (easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t) strlen (x->body));
    }
  else
    {
      curl_easy_setopt (easy, CURLOPT_POSTFIELDS, NULL);
      curl_easy_setopt (easy, CURLOPT_HTTPGET, 1L);
    }
  curl_easy_setopt (easy, CURLOPT_CUSTOMREQUEST, methods[x->verb]);
}

static void
set_limits (CURL *easy, const struct transfer *x)
{
  curl_easy_setopt (easy, CURLOPT_TIMEOUT_MS, (long) x->timeout_ms);
  curl_easy_setopt (easy, CURLOPT_LOW_SPEED_LIMIT, x->idle_ms > 0 ? 1L : 0L);
  curl_easy_setopt (easy, CURLOPT_LOW_SPEED_TIME, (long) ((x->idle_ms + 999) / 1000));
  curl_easy_setopt (easy, CURLOPT_FRESH_CONNECT, x->fresh ? 1L : 0L);
}

void
transfer_setup (struct transfer *x, const struct endpoint *e)
{
  cleanup_free char *url = xasprintf ("%s%s", e->base, x->path);

  x->headers = make_headers (e, x);
  curl_easy_setopt (x->easy, CURLOPT_URL, url);
  curl_easy_setopt (x->easy, CURLOPT_PATH_AS_IS,
                    1L); /* what leads elsewhere is the server's to refuse, not to follow */
  curl_easy_setopt (x->easy, CURLOPT_HTTPHEADER, (struct curl_slist *) x->headers);
  set_method (x->easy, x);
  set_limits (x->easy, x);
}
