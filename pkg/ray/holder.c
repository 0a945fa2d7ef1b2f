#include "ray/holder.h"
#include "ray/ray_internal.h"

#include <errno.h>

static const struct ray_holder holders[] = {
  { .kind = "RayCluster", .spec_path = "spec", .name_max = RAY_NAME_MAX },
  { .kind = "RayJob", .spec_key = "rayClusterSpec", .spec_path = "spec.rayClusterSpec", .name_max = 47 },
  { .kind = "RayService", .spec_key = "rayClusterConfig", .spec_path = "spec.rayClusterConfig", .name_max = 47 },
};

const struct ray_holder *
ray_holder_find (const char *kind)
{
  for (size_t i = 0; i < ARRAY_LEN (holders); i++)
    if (text_eq (kind, holders[i].kind))
      return &holders[i];
  return NULL;
}

const cJSON *
ray_holder_spec (const struct ray_holder *holder, const cJSON *object)
{
  const cJSON *spec = json_get (object, "spec");

  if (holder->spec_key != NULL)
    spec = json_get (spec, holder->spec_key);
  return cJSON_IsObject (spec) ? spec : NULL;
}

static bool
is_managed_elsewhere (const cJSON *spec)
{
  const char *managed_by = json_str (spec, "managedBy");

  return managed_by != NULL && *managed_by != '\0' && !text_eq (managed_by, RAY_MANAGED_BY);
}

bool
ray_holder_managed_elsewhere (const struct ray_holder *holder, const cJSON *object)
{
  return is_managed_elsewhere (json_get (object, "spec")) || is_managed_elsewhere (ray_holder_spec (holder, object));
}

/* A RayCluster whose metadata and spec are those of the object, shared and not copied. */
static cJSON *
make_view (const cJSON *object, const cJSON *spec)
{
  const struct
  {
    const char *key;
    const cJSON *value;
  } parts[] = { { "metadata", json_get (object, "metadata") }, { "spec", spec } };
  cJSON *view = cJSON_CreateObject ();

  for (size_t i = 0; i < ARRAY_LEN (parts); i++)
    if (parts[i].value != NULL)
      cJSON_AddItemReferenceToObject (view, parts[i].key, (cJSON *) parts[i].value);
  return view;
}

int
ray_cluster_decode_held (struct ray_cluster *cluster, const struct ray_holder *holder, const cJSON *object,
                         const char *default_namespace, struct error *err)
{
  const cJSON *spec = ray_holder_spec (holder, object);
  cleanup_json cJSON *view = NULL;
  int ret;

  *cluster = (struct ray_cluster){ 0 };
  if (holder->spec_key == NULL)
    return ray_cluster_decode (cluster, object, default_namespace, err);
  if (spec == NULL)
    return error_set (err, EINVAL, "%s is missing: describe the cluster of this %s there", holder->spec_path,
                      holder->kind);
  view = make_view (object, spec);
  ret = ray_cluster_decode (cluster, view, default_namespace, err);
  if (ret < 0)
    return ret;
  cluster->view = take_ptr (view);
  cluster->holder = holder;
  cluster->origin_crd = holder->kind;
  cluster->managed_elsewhere = ray_holder_managed_elsewhere (holder, object);
  return 0;
}
