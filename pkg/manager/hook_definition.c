/* hook_definition.c - what the API server is to call us for. charts/ray-tpu-operator/templates/webhooks.yaml says the
 * same for the cluster; a unit test compares the two. Pure. */
#include "manager/manager_internal.h"

#include <stdio.h>
#include <string.h>

/* Only Pods that ask for a TPU cost a call. Reinvoked, since another webhook may add a TPU container after us. */
static const char mutating[]
    = "{\"name\": \"pods.ray-tpu-operator.webhook\","
      " \"admissionReviewVersions\": [\"v1\"],"
      " \"failurePolicy\": \"Fail\","
      " \"matchPolicy\": \"Equivalent\","
      " \"reinvocationPolicy\": \"IfNeeded\","
      " \"sideEffects\": \"NoneOnDryRun\","
      " \"timeoutSeconds\": 10,"
      " \"rules\": [{\"apiGroups\": [\"\"], \"apiVersions\": [\"v1\"], \"resources\": [\"pods\"],"
      "              \"operations\": [\"CREATE\"], \"scope\": \"Namespaced\"}],"
      " \"matchConditions\": ["
      "  {\"name\": \"not-opted-out\","
      "   \"expression\": \"!(has(object.metadata.annotations)"
      " && 'ray-tpu-operator/inject' in object.metadata.annotations"
      " && object.metadata.annotations['ray-tpu-operator/inject'] == 'false')\"},"
      "  {\"name\": \"requests-tpu\","
      "   \"expression\": \"(object.spec.containers"
      " + (has(object.spec.initContainers) ? object.spec.initContainers : []))"
      " .exists(c, has(c.resources)"
      " && ((has(c.resources.limits) && 'google.com/tpu' in c.resources.limits)"
      " || (has(c.resources.requests) && 'google.com/tpu' in c.resources.requests)))\"}]}";

/* The controller checks again and reports on the object, so nobody is locked out while we are down: Ignore. */
static const char validating[]
    = "{\"name\": \"rayclusters.ray-tpu-operator.webhook\","
      " \"admissionReviewVersions\": [\"v1\"],"
      " \"failurePolicy\": \"Ignore\","
      " \"matchPolicy\": \"Equivalent\","
      " \"sideEffects\": \"None\","
      " \"timeoutSeconds\": 10,"
      " \"rules\": [{\"apiGroups\": [\"ray.io\"], \"apiVersions\": [\"v1\"], \"resources\": [\"rayclusters\"],"
      "              \"operations\": [\"CREATE\", \"UPDATE\"], \"scope\": \"Namespaced\"}]}";

static const struct definition
{
  const char *kind, *path, *text;
  size_t len;
} definitions[HOOK_KIND_MAX] = {
  [HOOK_MUTATING] = { "MutatingWebhookConfiguration", MUTATE_PATH, mutating, sizeof (mutating) - 1 },
  [HOOK_VALIDATING] = { "ValidatingWebhookConfiguration", VALIDATE_PATH, validating, sizeof (validating) - 1 },
};

/* Their Pods must start while we are down. */
static const char *const system_namespaces[] = { "kube-system", "kube-node-lease", "kube-public" };

const char *
hook_kind_name (enum hook_kind kind)
{
  return definitions[kind].kind;
}

static void
add_expression (cJSON *selector, const char *operator, const char * const * values, size_t count)
{
  cJSON *expression = json_push_obj (json_arr (selector, "matchExpressions"));

  json_set_str (expression, "key", "kubernetes.io/metadata.name");
  json_set_str (expression, "operator", operator);
  for (size_t i = 0; i < count; i++)
    json_push_str (json_arr (expression, "values"), values[i]);
}

cJSON *
hook_definition (enum hook_kind kind, const struct hook_target *target)
{
  const struct definition *d = &definitions[kind];
  cleanup_free char *url = xasprintf ("%s%s", target->url, d->path);
  cJSON *webhooks = cJSON_CreateArray (), *webhook = NULL, *config;

  if (json_parse (&webhook, d->text, d->len, NULL) < 0)
    abort (); /* a slip of the pen above; a unit test reads both */
  json_push (webhooks, webhook);
  config = json_obj (webhook, "clientConfig");
  json_set_str (config, "url", url);
  json_set_str (config, "caBundle", target->ca_base64);
  add_expression (json_obj (webhook, "namespaceSelector"), "NotIn", system_namespaces, ARRAY_LEN (system_namespaces));
  if (target->nnamespaces > 0)
    add_expression (json_obj (webhook, "namespaceSelector"), "In", target->namespaces, target->nnamespaces);
  return webhooks;
}

bool
hook_covers (const cJSON *stored, const cJSON *wanted)
{
  const cJSON *item, *other;

  if (cJSON_IsObject (wanted) && cJSON_IsObject (stored))
    {
      cJSON_ArrayForEach (item, wanted)
        {
          if (!hook_covers (json_get (stored, item->string), item))
            return false;
        }
      return true;
    }
  if (!cJSON_IsArray (wanted) || !cJSON_IsArray (stored))
    return json_equal (stored, wanted);
  if (cJSON_GetArraySize (stored) != cJSON_GetArraySize (wanted))
    return false;
  other = stored->child;
  cJSON_ArrayForEach (item, wanted)
    {
      if (!hook_covers (other, item))
        return false;
      other = other->next;
    }
  return true;
}

cJSON *
hook_ca_patch (const cJSON *configuration, const char *service, const char *namespace, const char *ca_base64,
               size_t *ours)
{
  cJSON *patch = cJSON_CreateArray ();
  const cJSON *webhook;
  int index = -1;

  *ours = 0;
  cJSON_ArrayForEach (webhook, json_get (configuration, "webhooks"))
    {
      char at[16];

      index++;
      if (!text_eq (json_str (webhook, "clientConfig", "service", "name"), service)
          || !text_eq (json_str (webhook, "clientConfig", "service", "namespace"), namespace))
        continue;
      ++*ours;
      if (text_eq (json_str (webhook, "clientConfig", "caBundle"), ca_base64))
        continue;
      snprintf (at, sizeof (at), "%d", index);
      json_patch_op (patch, "test", cJSON_CreateString (log_nonnull (json_str (webhook, "name"))), "webhooks", at,
                     "name");
      json_patch_op (patch, "add", cJSON_CreateString (ca_base64), "webhooks", at, "clientConfig", "caBundle");
    }
  return patch;
}
