#include "ray/ray_internal.h"

#include <errno.h>
#include <string.h>

const cJSON ray_nothing = { .type = cJSON_Object };

static const cJSON *
object_or_nothing (const cJSON *v)
{
  return cJSON_IsObject (v) ? v : &ray_nothing;
}

static const char *
text_or (const char *text, const char *def)
{
  return text != NULL && *text != '\0' ? text : def;
}

/* An int32 field that counts something: absent or mistyped is def, beyond the range is the nearest bound. */
static int64_t
read_count (const cJSON *object, const char *key, int64_t def)
{
  int64_t n = json_int (object, def, key);

  return n < 0 ? 0 : n > INT32_MAX ? INT32_MAX : n;
}

static void
decode_group (struct ray_group *g, const cJSON *spec)
{
  const cJSON *params, *names;

  *g = (struct ray_group){ .name = "", .hosts = 1, .max = INT32_MAX, .spec = object_or_nothing (spec) };
  g->template = object_or_nothing (json_get (g->spec, "template"));
  params = json_get (g->spec, "rayStartParams");
  g->params = cJSON_IsObject (params) ? params : NULL;
  names = json_get (g->spec, "scaleStrategy", "workersToDelete");
  g->workers_to_delete = cJSON_IsArray (names) ? names : NULL;
}

static void
decode_head (struct ray_group *g, const cJSON *spec)
{
  decode_group (g, spec);
  g->name = RAY_HEAD_GROUP;
  g->is_head = true;
  g->replicas = g->min = g->max = 1;
}

/* §2.5: replicas default to the minimum and are held between both bounds (the minimum first, as upstream, should they
 * cross); numOfHosts below 1 counts as 1 (§9.15). */
static void
decode_worker_group (struct ray_group *g, const cJSON *spec)
{
  decode_group (g, spec);
  g->name = text_or (json_str (g->spec, "groupName"), "");
  g->suspend = json_bool (g->spec, false, "suspend");
  g->min = read_count (g->spec, "minReplicas", 0);
  g->max = read_count (g->spec, "maxReplicas", INT32_MAX);
  g->replicas = read_count (g->spec, "replicas", g->min);
  if (g->replicas < g->min)
    g->replicas = g->min;
  else if (g->replicas > g->max)
    g->replicas = g->max;
  if (g->suspend)
    g->replicas = 0;
  g->hosts = read_count (g->spec, "numOfHosts", 1);
  if (g->hosts < 1)
    g->hosts = 1;
}

static const char *
origin_crd (const cJSON *object)
{
  static const char *const kinds[] = { "RayCluster", "RayJob", "RayService" };
  int i = text_index (json_str (object, "metadata", "labels", RAY_LABEL_ORIGIN_CRD), kinds, ARRAY_LEN (kinds));

  return kinds[i < 0 ? 0 : i];
}

int
ray_cluster_decode (struct ray_cluster *cluster, const cJSON *object, const char *default_namespace, struct error *err)
{
  const cJSON *meta = json_get (object, "metadata"), *spec = object_or_nothing (json_get (object, "spec"));
  const cJSON *groups = json_get (spec, "workerGroupSpecs"), *item;
  const char *name = json_str (meta, "name"), *managed_by = json_str (spec, "managedBy");

  *cluster = (struct ray_cluster){ .object = object };
  if (!cJSON_IsObject (object))
    return error_set (err, EINVAL, "a RayCluster must be an object, not %s", json_type_name (object));
  if (name == NULL || *name == '\0')
    return error_set (err, EINVAL, "metadata.name is missing: give the RayCluster a name");
  cluster->name = name;
  cluster->namespace = text_or (json_str (meta, "namespace"), text_or (default_namespace, "default"));
  cluster->uid = text_or (json_str (meta, "uid"), "");
  cluster->generation = json_int (meta, 0, "generation");
  cluster->deleting = json_str (meta, "deletionTimestamp") != NULL;
  cluster->autoscaling = json_bool (spec, false, "enableInTreeAutoscaling");
  cluster->suspend = json_bool (spec, false, "suspend");
  cluster->managed_elsewhere = managed_by != NULL && *managed_by != '\0' && !text_eq (managed_by, RAY_MANAGED_BY);
  cluster->ray_version = text_or (json_str (spec, "rayVersion"), "");
  cluster->origin_crd = origin_crd (object);
  decode_head (&cluster->head, json_get (spec, "headGroupSpec"));
  if (!cJSON_IsArray (groups))
    return 0;
  cluster->groups = xcalloc ((size_t) cJSON_GetArraySize (groups), sizeof (*cluster->groups));
  cJSON_ArrayForEach (item, groups)
    decode_worker_group (&cluster->groups[cluster->ngroups++], item);
  return 0;
}

void
ray_cluster_free (struct ray_cluster *cluster)
{
  free (cluster->groups);
  cJSON_Delete (cluster->view);
  *cluster = (struct ray_cluster){ 0 };
}

const struct ray_group *
ray_cluster_group (const struct ray_cluster *cluster, const char *name)
{
  if (text_eq (name, RAY_HEAD_GROUP))
    return &cluster->head;
  for (size_t i = 0; i < cluster->ngroups; i++)
    if (text_eq (name, cluster->groups[i].name))
      return &cluster->groups[i];
  return NULL;
}

bool
ray_cluster_multi_host (const struct ray_cluster *cluster)
{
  for (size_t i = 0; i < cluster->ngroups; i++)
    if (cluster->groups[i].hosts > 1)
      return true;
  return false;
}

int64_t
ray_cluster_desired_workers (const struct ray_cluster *cluster)
{
  int64_t sum = 0;

  for (size_t i = 0; i < cluster->ngroups && sum < INT32_MAX; i++)
    sum += cluster->groups[i].replicas * cluster->groups[i].hosts;
  return sum < INT32_MAX ? sum : INT32_MAX;
}

/* ---- small readings that several builders need ---- */

int
ray_quantity (struct quantity *q, const cJSON *value, struct error *err)
{
  cleanup_free char *number = NULL;

  if (cJSON_IsString (value))
    return quantity_parse (q, value->valuestring, err);
  if (!cJSON_IsNumber (value))
    return error_set (err, EINVAL, "must be a quantity such as 4, \"500m\" or \"16Gi\", not %s",
                      json_type_name (value));
  number = json_print (value);
  return quantity_parse (q, number, err);
}

bool
ray_version_at_least (const struct ray_cluster *cluster, int major, int minor)
{
  struct version v;

  return version_parse (&v, cluster->ray_version) == 0 && version_at_least (&v, major, minor);
}

/* nvidia\.com/mig-\d+g\.\d+gb$ of §3.2, anywhere before the end. */
static bool
is_mig_key (const char *key)
{
  const char *p = strstr (key, "nvidia.com/mig-");
  size_t n;

  if (p == NULL)
    return false;
  p += strlen ("nvidia.com/mig-");
  n = strspn (p, "0123456789");
  if (n == 0 || !text_starts_with (p + n, "g."))
    return false;
  p += n + strlen ("g.");
  n = strspn (p, "0123456789");
  return n > 0 && text_eq (p + n, "gb");
}

bool
ray_is_gpu_key (const char *key)
{
  return text_ends_with (key, "gpu") || is_mig_key (key);
}

int
ray_param_port (const cJSON *params, const char *key, int def)
{
  const char *text = json_str (params, key);
  int64_t port;

  return text != NULL && text_to_int (text, 1, 65535, &port) == 0 ? (int) port : def;
}

const char *
ray_head_port (const struct ray_cluster *cluster)
{
  return text_or (json_str (cluster->head.params, "port"), "6379");
}

bool
ray_autoscaler_v2 (const struct ray_cluster *cluster)
{
  return cluster->autoscaling && text_eq (json_str (cluster->object, "spec", "autoscalerOptions", "version"), "v2");
}
