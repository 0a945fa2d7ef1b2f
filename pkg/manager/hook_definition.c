/* hook_definition.c - what the API server is to call us for. charts/ray-tpu-operator/templates/webhooks.yaml says the
 * same for the cluster; a unit test compares the two. Pure. */
#include "manager/manager_internal.h"

#include <stdio.h>
#include <string.h>

/* Only Pods that ask for a TPU cost a call, and not those that our own controller made: they are born complete, and so
 * can be made while no operator answers. Reinvoked, since another webhook may add a TPU container after us. */
static const char pods[] = "{\"name\": \"pods.ray-tpu-operator.webhook\","
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
                           "   \"expression\": \"((has(object.spec.containers) && object.spec.containers != null"
                           " ? object.spec.containers : [])"
                           " + (has(object.spec.initContainers) ? object.spec.initContainers : []))"
                           " .exists(c, has(c.resources)"
                           " && ((has(c.resources.limits) && 'google.com/tpu' in c.resources.limits)"
                           " || (has(c.resources.requests) && 'google.com/tpu' in c.resources.requests)))\"},"
                           "  {\"name\": \"incomplete\","
                           "   \"expression\": \"!(has(object.metadata.annotations)"
                           " && 'ray-tpu-operator/template-hash' in object.metadata.annotations"
                           " && ((has(object.spec.containers) && object.spec.containers != null"
                           " ? object.spec.containers : [])"
                           " + (has(object.spec.initContainers) ? object.spec.initContainers : []))"
                           " .exists(c, has(c.env) && c.env.exists(e, e.name == 'TPU_WORKER_ID')))\"}]}";

/* The clusters inside RayJobs and RayServices too; where those kinds do not exist, their rules never match. */
#define RAY_RULES                                                                                                      \
  " \"rules\": [{\"apiGroups\": [\"ray.io\"], \"apiVersions\": [\"v1\"],"                                              \
  "              \"resources\": [\"rayclusters\", \"rayjobs\", \"rayservices\"],"                                      \
  "              \"operations\": [\"CREATE\", \"UPDATE\"], \"scope\": \"Namespaced\"}]}"

/* Without a default a cluster is refused or reported, but nobody is locked out while we are down: Ignore. */
static const char defaults[] = "{\"name\": \"raycluster-defaults.ray-tpu-operator.webhook\","
                               " \"admissionReviewVersions\": [\"v1\"],"
                               " \"failurePolicy\": \"Ignore\","
                               " \"matchPolicy\": \"Equivalent\","
                               " \"reinvocationPolicy\": \"IfNeeded\","
                               " \"sideEffects\": \"None\","
                               " \"timeoutSeconds\": 10," RAY_RULES;

/* The controller checks again and reports on the object: Ignore. */
static const char validating[] = "{\"name\": \"rayclusters.ray-tpu-operator.webhook\","
                                 " \"admissionReviewVersions\": [\"v1\"],"
                                 " \"failurePolicy\": \"Ignore\","
                                 " \"matchPolicy\": \"Equivalent\","
                                 " \"sideEffects\": \"None\","
                                 " \"timeoutSeconds\": 10," RAY_RULES;

static const char *const kind_names[HOOK_KIND_MAX] = {
  [HOOK_MUTATING] = "MutatingWebhookConfiguration",
  [HOOK_VALIDATING] = "ValidatingWebhookConfiguration",
};

/* In this order in their configurations. */
static const struct definition
{
  enum hook_kind kind;
  const char *path, *text;
} definitions[ROUTE_MAX] = {
  [ROUTE_PODS] = { HOOK_MUTATING, "/mutate-v1-pod", pods },
  [ROUTE_DEFAULTS] = { HOOK_MUTATING, "/mutate-ray-io-v1-raycluster", defaults },
  [ROUTE_VALIDATE] = { HOOK_VALIDATING, "/validate-ray-io-v1-raycluster", validating },
};

/* Their Pods must start while we are down. */
static const char *const system_namespaces[] = { "kube-system", "kube-node-lease", "kube-public" };

const char *
hook_kind_name (enum hook_kind kind)
{
  return kind_names[kind];
}

const char *
hook_path (enum manager_route route)
{
  return definitions[route].path;
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

static void
add_webhook (cJSON *webhooks, const struct definition *d, const struct hook_target *target)
{
  cleanup_free char *url = xasprintf ("%s%s", target->url, d->path);
  cJSON *webhook = NULL, *config;

  if (json_parse (&webhook, d->text, strlen (d->text), NULL) < 0)
    abort (); /* a slip of the pen above; a unit test reads all */
  json_push (webhooks, webhook);
  config = json_obj (webhook, "clientConfig");
  json_set_str (config, "url", url);
  json_set_str (config, "caBundle", target->ca_base64);
  add_expression (json_obj (webhook, "namespaceSelector"), "NotIn", system_namespaces, ARRAY_LEN (system_namespaces));
  if (target->nnamespaces > 0)
    add_expression (json_obj (webhook, "namespaceSelector"), "In", target->namespaces, target->nnamespaces);
}

cJSON *
hook_definition (enum hook_kind kind, const struct hook_target *target)
{
  cJSON *webhooks = cJSON_CreateArray ();

  for (size_t i = 0; i < ROUTE_MAX; i++)
    if (definitions[i].kind == kind)
      add_webhook (webhooks, &definitions[i], target);
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
