/* Environment of the Ray container and of init containers (§3.4). */
#include "ray/ray_internal.h"

static cJSON *
new_entry (const char *name, const char *value, const char *path)
{
  cJSON *entry = cJSON_CreateObject ();

  json_set_str (entry, "name", name);
  if (value != NULL)
    json_set_str (entry, "value", value);
  else
    json_set_str (json_obj (json_obj (entry, "valueFrom"), "fieldRef"), "fieldPath", path);
  return entry;
}

bool
ray_env_has (const cJSON *container, const char *name)
{
  return json_find (json_get (container, "env"), "name", name) != NULL;
}

void
ray_env_default (cJSON *container, const char *name, const char *value)
{
  if (!ray_env_has (container, name))
    json_push (json_arr (container, "env"), new_entry (name, value, NULL));
}

/* Upstream appends a second entry of the same name, of which the last counts. One entry in the user's place says the
 * same and keeps the list free of duplicates, which server-side apply refuses. */
void
ray_env_set (cJSON *container, const char *name, const char *value, const char *path)
{
  cJSON *env = json_arr (container, "env"), *entry = new_entry (name, value, path), *old, *more;

  old = json_find (env, "name", name);
  if (old == NULL)
    {
      json_push (env, entry);
      return;
    }
  cJSON_ReplaceItemViaPointer (env, old, entry);
  for (old = entry->next; old != NULL; old = more)
    {
      more = old->next;
      if (text_eq (json_str (old, "name"), name))
        cJSON_Delete (cJSON_DetachItemViaPointer (env, old));
    }
}

void
ray_env_head_address (const struct pod_build *b, cJSON *container)
{
  ray_env_set (container, "FQ_RAY_IP", b->head_fqdn, NULL);
  ray_env_set (container, "RAY_IP", b->head_service, NULL);
}

/* Where the pod is and what it is; always ours. RAY_CLOUD_INSTANCE_ID and RAY_NODE_TYPE_NAME are how the autoscaler
 * recognises its pods (§2.9). */
static void
add_self (struct pod_build *b)
{
  static const struct
  {
    const char *name, *path;
  } fields[] = {
    { "RAY_CLUSTER_NAME", "metadata.labels['" RAY_LABEL_CLUSTER "']" },
    { "RAY_CLUSTER_NAMESPACE", "metadata.namespace" },
    { "RAY_CLOUD_INSTANCE_ID", "metadata.name" },
    { "RAY_NODE_TYPE_NAME", "metadata.labels['" RAY_LABEL_GROUP "']" },
  };

  for (size_t i = 0; i < ARRAY_LEN (fields); i++)
    ray_env_set (b->ray, fields[i].name, NULL, fields[i].path);
  ray_env_set (b->ray, "KUBERAY_GEN_RAY_START_CMD", b->ray_start, NULL);
}

static void
add_rayservice (struct pod_build *b)
{
  static const struct
  {
    const char *name, *value;
  } entries[] = {
    { "RAY_timeout_ms_task_wait_for_death_info", "0" },
    { "RAY_gcs_server_request_timeout_seconds", "5" },
    { "RAY_SERVE_KV_TIMEOUT_S", "5" },
  };

  for (size_t i = 0; i < ARRAY_LEN (entries); i++)
    ray_env_default (b->ray, entries[i].name, entries[i].value);
}

static void
add_usage (struct pod_build *b)
{
  cleanup_free char *tags
      = xasprintf ("kuberay_version=%s;kuberay_crd=%s", b->options->version, b->cluster->origin_crd);

  ray_env_default (b->ray, "RAY_USAGE_STATS_KUBERAY_IN_USE", "1");
  if (b->group->is_head)
    ray_env_set (b->ray, "RAY_USAGE_STATS_EXTRA_TAGS", tags, NULL);
  ray_env_default (b->ray, "RAY_DASHBOARD_ENABLE_K8S_DISK_USAGE", "1");
}

void
ray_add_env (struct pod_build *b)
{
  const char *port = ray_head_port (b->cluster);
  cleanup_free char *address = xasprintf ("%s:%s", b->group->is_head ? "127.0.0.1" : b->head_fqdn, port);
  cJSON *init;

  cJSON_ArrayForEach (init, json_get (b->spec, "initContainers"))
    if (cJSON_IsObject (init))
      ray_env_head_address (b, init);
  ray_add_config_env (b);
  if (!b->group->is_head)
    ray_env_head_address (b, b->ray);
  add_self (b);
  ray_env_default (b->ray, "RAY_PORT", port);
  if (text_eq (b->cluster->origin_crd, "RayService"))
    add_rayservice (b);
  ray_env_default (b->ray, "RAY_ADDRESS", address);
  add_usage (b);
}
