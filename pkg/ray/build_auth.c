/* How the processes of a cluster prove that they belong together (§3.4): a token from a Secret, or the service
 * account's own. Ray, its autoscaler and wait-gcs-ready all talk to the GCS; the user's other containers are left
 * alone. */
#include "ray/ray_internal.h"

#define TOKEN_VOLUME "ray-token"
#define TOKEN_PATH "/var/run/secrets/ray.io/serviceaccount"

static void
add_secret_token (const struct pod_build *b, cJSON *container)
{
  char name[RAY_NAME_SIZE];
  cJSON *entry, *ref;

  if (ray_env_has (container, "RAY_AUTH_TOKEN"))
    return;
  ray_token_secret_name (name, b->cluster);
  entry = json_push_obj (json_arr (container, "env"));
  json_set_str (entry, "name", "RAY_AUTH_TOKEN");
  ref = json_obj (json_obj (entry, "valueFrom"), "secretKeyRef");
  json_set_str (ref, "name", name);
  json_set_str (ref, "key", RAY_AUTH_TOKEN_KEY);
}

static void
add_account_token (cJSON *container)
{
  cJSON *mount;

  ray_env_default (container, "RAY_ENABLE_K8S_TOKEN_AUTH", "true");
  if (json_find (json_get (container, "volumeMounts"), "name", TOKEN_VOLUME) != NULL)
    return;
  mount = json_push_obj (json_arr (container, "volumeMounts"));
  json_set_str (mount, "name", TOKEN_VOLUME);
  json_set_str (mount, "mountPath", TOKEN_PATH);
  json_set_bool (mount, "readOnly", true);
}

static void
add_account_volume (struct pod_build *b)
{
  cJSON *volume, *source;

  if (json_find (json_get (b->spec, "volumes"), "name", TOKEN_VOLUME) != NULL)
    return;
  volume = json_push_obj (json_arr (b->spec, "volumes"));
  json_set_str (volume, "name", TOKEN_VOLUME);
  source = json_push_obj (json_arr (json_obj (volume, "projected"), "sources"));
  json_set_str (json_obj (source, "serviceAccountToken"), "path", "token");
}

void
ray_add_auth (struct pod_build *b)
{
  enum ray_auth kind = ray_auth (b->cluster);
  cJSON *containers[] = {
    b->ray,
    b->group->is_head && b->cluster->autoscaling
        ? json_find (json_get (b->spec, "containers"), "name", RAY_AUTOSCALER_CONTAINER)
        : NULL,
    b->group->is_head ? NULL : json_find (json_get (b->spec, "initContainers"), "name", RAY_WAIT_CONTAINER),
  };

  if (kind == RAY_AUTH_NONE)
    return;
  for (size_t i = 0; i < ARRAY_LEN (containers); i++)
    {
      if (containers[i] == NULL)
        continue;
      ray_env_default (containers[i], "RAY_AUTH_MODE", "token");
      if (kind == RAY_AUTH_K8S_TOKEN)
        add_account_token (containers[i]);
      else
        add_secret_token (b, containers[i]);
    }
  if (kind == RAY_AUTH_K8S_TOKEN)
    add_account_volume (b);
}
