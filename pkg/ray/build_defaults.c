/* What the operator's configuration file adds to every pod (§3.1.7): never over what is there already. */
#include "ray/ray_internal.h"

static void
add_sidecars (struct pod_build *b)
{
  const cJSON *sidecars = b->group->is_head ? b->options->head_sidecars : b->options->worker_sidecars, *item;
  cJSON *containers = json_get (b->spec, "containers");

  cJSON_ArrayForEach (item, sidecars)
    if (json_find (containers, "name", json_str (item, "name")) == NULL)
      json_push (containers, cJSON_Duplicate (item, true));
}

void
ray_add_config_defaults (struct pod_build *b)
{
  add_sidecars (b);
  if (b->options->default_labels != NULL)
    json_merge_flat (json_obj (b->meta, "labels"), b->options->default_labels, false);
  if (b->options->default_annotations != NULL)
    json_merge_flat (json_obj (b->meta, "annotations"), b->options->default_annotations, false);
}

void
ray_add_config_env (struct pod_build *b)
{
  const cJSON *item;

  cJSON_ArrayForEach (item, b->options->default_env)
    if (!ray_env_has (b->ray, json_str (item, "name")))
      json_push (json_arr (b->ray, "env"), cJSON_Duplicate (item, true));
}
