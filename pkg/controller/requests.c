/* requests.c - what the requests of a pass have in common. */
#include "controller/controller_internal.h"

#include <errno.h>

/* A look at one object. What others have made must not hold up a worker, or fill the memory. */
#define READ_TIMEOUT_MS 10000
#define READ_MAX ((size_t) 8 * 1024 * 1024)

char *
controller_delete_body (const char *uid)
{
  cleanup_json cJSON *options = cJSON_CreateObject ();

  json_set_str (options, "apiVersion", "v1");
  json_set_str (options, "kind", "DeleteOptions");
  json_set_str (json_obj (options, "preconditions"), "uid", uid);
  return json_print (options);
}

void
controller_bound (struct kube_request *request)
{
  request->fenced = true;
  if (request->verb != KUBE_GET)
    return;
  request->timeout_ms = READ_TIMEOUT_MS;
  request->answer_max = READ_MAX;
}

void
controller_request (struct controller *c, unsigned term, const struct kube_request *request,
                    struct kube_response *response)
{
  struct kube_request bounded = *request;

  if (!controller_in_term (c, term))
    {
      *response = (struct kube_response){ 0 };
      error_set (&response->error, ECANCELED, "%s %s: not sent: the lease is lost", kube_verb_name (request->verb),
                 request->path);
      return;
    }
  controller_bound (&bounded);
  kube_do (c->options.client, &bounded, response);
}
