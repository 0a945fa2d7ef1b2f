/* requests.c - what the requests of a pass have in common. */
#include "controller/controller_internal.h"

#include <errno.h>

char *
controller_path (const char *prefix, const char *namespace, const char *plural, const char *name)
{
  return xasprintf ("%s/namespaces/%s/%s%s%s", prefix, namespace, plural, name ? "/" : "", log_nonnull (name));
}

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
controller_request (struct controller *c, const struct kube_request *request, struct kube_response *response)
{
  struct kube_request fenced = *request;

  if (!controller_leads (c))
    {
      *response = (struct kube_response){ 0 };
      error_set (&response->error, ECANCELED, "%s %s: not sent: the lease is lost", kube_verb_name (request->verb),
                 request->path);
      return;
    }
  fenced.fenced = true;
  kube_do (c->options.client, &fenced, response);
}
