/* Containers and ports the operator adds to the user's: wait-gcs-ready (§3.5), the autoscaler (§3.8), metrics (§3.7).
 */
#include "ray/ray_internal.h"

static void
copy_members (cJSON *into, const cJSON *from, const char *const *keys, size_t count)
{
  for (size_t i = 0; i < count; i++)
    json_set_copy (into, keys[i], json_get (from, keys[i]));
}

/* ---- wait-gcs-ready ---- */

/* `ray health-check` loads all of Ray: upstream's fixed 200m/256Mi had it killed for memory or slow for minutes
 * (kuberay#2735). It gets what the Ray container gets, requests and limits: init containers run before the others and a
 * pod needs the larger of both, so this costs nothing, and a pod of QoS class Guaranteed stays one. Upstream's figures
 * remain, as a request, where the Ray container says nothing. */
static void
mirror_resources (cJSON *container, const cJSON *ray_resources)
{
  static const struct
  {
    const char *key, *request;
  } sizes[] = { { "cpu", "200m" }, { "memory", "256Mi" } };
  static const char *const lists[] = { "limits", "requests" };
  cJSON *resources = json_obj (container, "resources");

  for (size_t i = 0; i < ARRAY_LEN (sizes); i++)
    {
      bool said = false;

      for (size_t l = 0; l < ARRAY_LEN (lists); l++)
        {
          const cJSON *value = json_get (ray_resources, lists[l], sizes[i].key);

          if (value == NULL)
            continue;
          json_set_copy (json_obj (resources, lists[l]), sizes[i].key, value);
          said = true;
        }
      if (!said)
        json_set_str (json_obj (resources, "requests"), sizes[i].key, sizes[i].request);
    }
}

/* Quiet for two minutes, in which a head normally comes up, then with Ray's own words. No timeout: a worker without a
 * head has nothing better to do. */
static char *
wait_script (const char *address)
{
  return xasprintf ("SECONDS=0\n"
                    "check () {\n"
                    "  if [ $SECONDS -le 120 ]; then ray health-check --address %s > /dev/null 2>&1\n"
                    "  else ray health-check --address %s; fi\n"
                    "}\n"
                    "until check; do\n"
                    "  echo \"$SECONDS s: the GCS at %s does not answer yet; is the head pod running?\"\n"
                    "  sleep 5\n"
                    "done\n"
                    "echo \"GCS is ready.\"\n",
                    address, address, address);
}

/* Called before the operator's own environment and mounts are added to the Ray container, which this one resembles. A
 * user's init container of the same name takes its place. */
void
ray_add_wait_container (struct pod_build *b)
{
  static const char *const alike[] = { "image", "imagePullPolicy", "securityContext", "env", "volumeMounts" };
  cleanup_free char *address = xasprintf ("%s:%s", b->head_fqdn, ray_head_port (b->cluster));
  cleanup_free char *script = wait_script (address);
  cJSON *container;

  if (b->group->is_head || !b->options->init_container
      || json_find (json_get (b->spec, "initContainers"), "name", RAY_WAIT_CONTAINER) != NULL)
    return;
  container = json_push_obj (json_arr (b->spec, "initContainers"));
  json_set_str (container, "name", RAY_WAIT_CONTAINER);
  copy_members (container, b->ray, alike, ARRAY_LEN (alike));
  ray_set_shell (container, b->options, script);
  mirror_resources (container, json_get (b->ray, "resources"));
}

/* ---- autoscaler ---- */

static void
append_all (cJSON *container, const char *key, const cJSON *items)
{
  const cJSON *item;

  if (cJSON_IsArray (items))
    cJSON_ArrayForEach (item, items)
      json_push (json_arr (container, key), cJSON_Duplicate (item, true));
}

/* autoscalerOptions (§1.3): env, envFrom and volumeMounts are added, everything else replaces. */
static void
apply_autoscaler_options (cJSON *container, const cJSON *given)
{
  static const char *const replaced[]
      = { "image", "imagePullPolicy", "securityContext", "resources", "command", "args" };
  static const char *const appended[] = { "env", "envFrom", "volumeMounts" };

  copy_members (container, given, replaced, ARRAY_LEN (replaced));
  for (size_t i = 0; i < ARRAY_LEN (appended); i++)
    append_all (container, appended[i], json_get (given, appended[i]));
}

static cJSON *
new_autoscaler (const struct pod_build *b)
{
  static const char command[] = "ray kuberay-autoscaler --cluster-name $(RAY_CLUSTER_NAME)"
                                " --cluster-namespace $(RAY_CLUSTER_NAMESPACE)";
  static const char *const lists[] = { "limits", "requests" };
  cJSON *container = cJSON_CreateObject ();

  json_set_str (container, "name", RAY_AUTOSCALER_CONTAINER);
  json_set_copy (container, "image", json_get (b->ray, "image"));
  json_set_str (container, "imagePullPolicy", "IfNotPresent");
  ray_set_shell (container, b->options, command);
  ray_env_set (container, "RAY_CLUSTER_NAME", NULL, "metadata.labels['" RAY_LABEL_CLUSTER "']");
  ray_env_set (container, "RAY_CLUSTER_NAMESPACE", NULL, "metadata.namespace");
  ray_env_set (container, "RAY_HEAD_POD_NAME", NULL, "metadata.name");
  ray_env_set (container, "KUBERAY_CRD_VER", "v1", NULL);
  ray_env_set (container, "KUBERAY_GEN_AUTOSCALER_START_CMD", command, NULL);
  for (size_t i = 0; i < ARRAY_LEN (lists); i++)
    {
      cJSON *list = json_obj (json_obj (container, "resources"), lists[i]);

      json_set_str (list, "cpu", "500m");
      json_set_str (list, "memory", "512Mi");
    }
  return container;
}

/* The sidecar, the identity it talks to the API server with, and the head's notice of an explicit version. */
void
ray_add_autoscaler (struct pod_build *b)
{
  const cJSON *given = json_get (b->cluster->object, "spec", "autoscalerOptions");
  const char *version = json_str (given, "version"), *account = json_str (b->spec, "serviceAccountName");
  cJSON *containers = json_get (b->spec, "containers"), *container;
  char name[RAY_NAME_SIZE];

  if (!b->group->is_head || !b->cluster->autoscaling)
    return;
  ray_check_name (name, b->cluster->name);
  if (account == NULL || *account == '\0')
    json_set_str (b->spec, "serviceAccountName", name);
  if (text_eq (version, "v1") || text_eq (version, "v2"))
    ray_env_set (b->ray, "RAY_enable_autoscaler_v2", text_eq (version, "v2") ? "true" : "false", NULL);
  if (json_find (containers, "name", RAY_AUTOSCALER_CONTAINER) != NULL)
    return;
  container = json_push (containers, new_autoscaler (b));
  apply_autoscaler_options (container, given);
}

/* ---- ports ---- */

void
ray_add_metrics_port (struct pod_build *b)
{
  cJSON *port;

  if (json_find (json_get (b->ray, "ports"), "name", "metrics") != NULL)
    return;
  port = json_push_obj (json_arr (b->ray, "ports"));
  json_set_str (port, "name", "metrics");
  json_set_int (port, "containerPort", RAY_PORT_METRICS);
}
