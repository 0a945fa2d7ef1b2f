/* The RayCluster as a whole; groups, templates and autoscaling have files of their own. */
#include "ray/holder.h"
#include "ray/ray_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define PROBLEMS_TEXT_MAX 1024
#define QUANTITY "a quantity of 0 or more such as 4, \"500m\" or \"16Gi\""

/* ---- collecting ---- */

struct ray_path
ray_path (const char *fmt, ...)
{
  struct ray_path path;
  va_list args;

  va_start (args, fmt);
  vsnprintf (path.text, sizeof (path.text), fmt, args);
  va_end (args);
  return path;
}

void
ray_problem (struct ray_problems *problems, const char *reason, const char *field, const char *fmt, ...)
{
  char *message;
  va_list args;

  va_start (args, fmt);
  message = xvasprintf (fmt, args);
  va_end (args);
  problems->items = xgrow (problems->items, problems->count, &problems->cap, sizeof (*problems->items));
  problems->items[problems->count++]
      = (struct ray_problem){ .reason = reason, .field = xstrdup (field), .message = message };
}

void
ray_problems_free (struct ray_problems *problems)
{
  for (size_t i = 0; i < problems->count; i++)
    {
      free (problems->items[i].field);
      free (problems->items[i].message);
    }
  free (problems->items);
  *problems = (struct ray_problems){ 0 };
}

char *
ray_problems_text (const struct ray_problems *problems)
{
  struct buf text = { 0 };
  size_t end = PROBLEMS_TEXT_MAX - strlen ("...");

  for (size_t i = 0; i < problems->count && text.len <= PROBLEMS_TEXT_MAX; i++)
    buf_printf (&text, "%s%s: %s", i > 0 ? "; " : "", problems->items[i].field, problems->items[i].message);
  if (text.len > PROBLEMS_TEXT_MAX)
    {
      while ((text.data[end] & 0xC0) == 0x80) /* not inside a UTF-8 character */
        end--;
      text.len = end;
      buf_str (&text, "...");
    }
  return buf_take (&text);
}

/* ---- JSON types ---- */

/* An int32: what every count of the API is. */
static cJSON_bool
is_whole (const cJSON *v)
{
  return json_is_whole (v) && v->valuedouble >= INT32_MIN && v->valuedouble <= INT32_MAX;
}

static cJSON_bool
is_count (const cJSON *v)
{
  return is_whole (v) && v->valuedouble >= 0;
}

static cJSON_bool
is_quantity (const cJSON *v)
{
  struct quantity q;

  return ray_quantity (&q, v, NULL) == 0 && q.nano >= 0;
}

static const struct kind
{
  const char *name;
  cJSON_bool (*is) (const cJSON *v);
  const char *item_name; /* of the members or elements; NULL: they are not looked at */
  cJSON_bool (*item_is) (const cJSON *v);
} kinds[RAY_KIND_MAX] = {
  [RAY_KIND_OBJECT] = { "an object", cJSON_IsObject, NULL, NULL },
  [RAY_KIND_STRING] = { "a string", cJSON_IsString, NULL, NULL },
  [RAY_KIND_BOOL] = { "true or false", cJSON_IsBool, NULL, NULL },
  [RAY_KIND_WHOLE] = { "a whole number within 32 bits", is_whole, NULL, NULL },
  [RAY_KIND_COUNT] = { "a whole number of 0 or more, within 32 bits", is_count, NULL, NULL },
  [RAY_KIND_STRINGS] = { "a list of strings", cJSON_IsArray, "a string", cJSON_IsString },
  [RAY_KIND_NAMES] = { "a list of strings", cJSON_IsArray, "a string", cJSON_IsString },
  [RAY_KIND_OBJECTS] = { "a list of objects", cJSON_IsArray, "an object", cJSON_IsObject },
  [RAY_KIND_STRING_MAP] = { "an object of strings", cJSON_IsObject, "a string (quote it)", cJSON_IsString },
  [RAY_KIND_QUANTITY] = { QUANTITY, is_quantity, NULL, NULL },
  [RAY_KIND_QUANTITIES] = { "an object of quantities", cJSON_IsObject, QUANTITY, is_quantity },
};

bool
ray_is_list (const cJSON *v)
{
  return cJSON_IsArray (v) && cJSON_GetArraySize (v) <= RAY_ITEMS_MAX;
}

/* path.key, or path["key"] for keys that have dots or slashes of their own. */
static struct ray_path
member_path (const char *path, const char *key)
{
  return strpbrk (key, "./") != NULL ? ray_path ("%s[\"%s\"]", path, key) : ray_path ("%s.%s", path, key);
}

static void
wrong_kind (struct ray_problems *problems, const char *field, const char *wanted, const cJSON *v)
{
  cleanup_free char *value = cJSON_IsObject (v) || cJSON_IsArray (v) ? xstrdup (json_type_name (v)) : json_print (v);

  ray_problem (problems, RAY_REASON_SPEC, field, "must be %s, not %.100s", wanted, value);
}

static void
check_kind (struct ray_problems *problems, const char *path, const cJSON *v, const struct kind *kind)
{
  int max = kind == &kinds[RAY_KIND_NAMES] ? RAY_GROUP_PODS_MAX : RAY_ITEMS_MAX;
  const cJSON *item;
  int i = 0;

  if (!kind->is (v))
    {
      wrong_kind (problems, path, kind->name, v);
      return;
    }
  if (kind->item_is == NULL)
    return;
  if (cJSON_GetArraySize (v) > max)
    {
      ray_problem (problems, RAY_REASON_SPEC, path, "has %d items: at most %d are allowed", cJSON_GetArraySize (v),
                   max);
      return;
    }
  cJSON_ArrayForEach (item, v)
    {
      struct ray_path at = cJSON_IsObject (v) ? member_path (path, item->string) : ray_path ("%s[%d]", path, i);

      if (!kind->item_is (item))
        wrong_kind (problems, at.text, kind->item_name, item);
      i++;
    }
}

void
ray_check_kinds (struct ray_problems *problems, const cJSON *object, const char *path, const struct ray_field *fields,
                 size_t count)
{
  for (size_t i = 0; i < count; i++)
    {
      const cJSON *v = json_get (object, fields[i].key);
      struct ray_path at = ray_path ("%s%s%s", path, *path != '\0' ? "." : "", fields[i].key);

      if (v != NULL && !cJSON_IsNull (v))
        check_kind (problems, at.text, v, &kinds[fields[i].kind]);
    }
}

/* ---- the cluster ---- */

static void
check_metadata (struct ray_problems *problems, const struct ray_cluster *cluster)
{
  static const struct ray_field fields[]
      = { { "namespace", RAY_KIND_STRING }, { "labels", RAY_KIND_STRING_MAP }, { "annotations", RAY_KIND_STRING_MAP } };
  size_t len = strlen (cluster->name);
  int max = cluster->holder != NULL ? cluster->holder->name_max : RAY_NAME_MAX;

  if (len > (size_t) max)
    ray_problem (problems, RAY_REASON_METADATA, "metadata.name",
                 "\"%.100s\" has %zu characters, but at most %d are allowed, because names made from it must fit into "
                 "63: shorten it",
                 cluster->name, len, max);
  else if (!text_is_dns1035_label (cluster->name))
    ray_problem (problems, RAY_REASON_METADATA, "metadata.name",
                 "\"%s\" is no DNS label: use lower-case letters, digits and '-', starting with a letter and ending "
                 "with a letter or digit",
                 cluster->name);
  if (!text_is_dns1123_label (cluster->namespace))
    ray_problem (problems, RAY_REASON_METADATA, "metadata.namespace", "\"%.100s\" is no namespace name",
                 cluster->namespace);
  ray_check_kinds (problems, json_get (cluster->object, "metadata"), "metadata", fields, ARRAY_LEN (fields));
}

static const struct ray_field spec_fields[] = {
  { "suspend", RAY_KIND_BOOL },
  { "managedBy", RAY_KIND_STRING },
  { "enableInTreeAutoscaling", RAY_KIND_BOOL },
  { "autoscalerOptions", RAY_KIND_OBJECT },
  { "headServiceAnnotations", RAY_KIND_STRING_MAP },
  { "rayVersion", RAY_KIND_STRING },
  { "headGroupSpec", RAY_KIND_OBJECT },
  { "workerGroupSpecs", RAY_KIND_OBJECTS },
  { "gcsFaultToleranceOptions", RAY_KIND_OBJECT },
  { "authOptions", RAY_KIND_OBJECT },
  { "tlsOptions", RAY_KIND_OBJECT },
  { "upgradeStrategy", RAY_KIND_OBJECT },
  { "networkPolicy", RAY_KIND_OBJECT },
  { "historyServerOptions", RAY_KIND_OBJECT },
};

static void
check_managed_by (struct ray_problems *problems, const cJSON *spec)
{
  static const char *const allowed[] = { RAY_MANAGED_BY, "kueue.x-k8s.io/multikueue" };
  const char *value = json_str (spec, "managedBy");

  if (value != NULL && text_index (value, allowed, ARRAY_LEN (allowed)) < 0)
    ray_problem (problems, RAY_REASON_SPEC, "spec.managedBy", "\"%.100s\" is not known: leave it out or use %s or %s",
                 value, allowed[0], allowed[1]);
}

/* The label selectors of two groups of one name are the same: each would take the other's pods for its own (§9.9). */
static void
check_duplicates (struct ray_problems *problems, const struct ray_cluster *cluster)
{
  for (size_t i = 1; i < cluster->ngroups && cluster->ngroups <= RAY_ITEMS_MAX; i++)
    for (size_t j = 0; j < i; j++)
      if (*cluster->groups[i].name != '\0' && text_eq (cluster->groups[i].name, cluster->groups[j].name))
        {
          ray_problem (problems, RAY_REASON_SPEC, ray_path ("spec.workerGroupSpecs[%zu].groupName", i).text,
                       "\"%.100s\" is also the name of workerGroupSpecs[%zu]: give every group its own",
                       cluster->groups[i].name, j);
          break;
        }
}

/* Two clusters of one RayService stand side by side during an upgrade (§4.3). The object that holds the spec is told,
 * and so is a cluster already made from it. */
static void
check_head_service (struct ray_problems *problems, const struct ray_cluster *cluster)
{
  const char *name = json_str (cluster->object, "spec", "headGroupSpec", "headService", "metadata", "name");

  if (text_eq (cluster->origin_crd, "RayService") && name != NULL && *name != '\0')
    ray_problem (problems, RAY_REASON_SPEC, "spec.headGroupSpec.headService.metadata.name",
                 "is \"%.100s\", but the clusters of a RayService need one of their own each: leave it out", name);
}

/* From `first` on, fields are those of a RayCluster; people look for them in the object that they wrote. */
static void
relocate (struct ray_problems *problems, size_t first, const struct ray_cluster *cluster)
{
  if (cluster->holder == NULL)
    return;
  for (size_t i = first; i < problems->count; i++)
    {
      char *field = problems->items[i].field;
      size_t len = strlen ("spec");

      if (strncmp (field, "spec", len) != 0 || (field[len] != '.' && field[len] != '\0'))
        continue;
      problems->items[i].field = xasprintf ("%s%s", cluster->holder->spec_path, field + len);
      free (field);
    }
}

static void
check_cluster (struct ray_problems *problems, const struct ray_cluster *cluster, const struct ray_options *options)
{
  const cJSON *spec = json_get (cluster->object, "spec");

  check_metadata (problems, cluster);
  if (!cJSON_IsObject (spec))
    {
      ray_problem (problems, RAY_REASON_SPEC, "spec", "is missing: a RayCluster needs at least spec.headGroupSpec");
      return;
    }
  ray_check_kinds (problems, spec, "spec", spec_fields, ARRAY_LEN (spec_fields));
  check_managed_by (problems, spec);
  if (cluster->head.spec == &ray_nothing)
    ray_problem (problems, RAY_REASON_SPEC, "spec.headGroupSpec", "is missing: every RayCluster has a head");
  else
    ray_validate_group (problems, cluster, &cluster->head, "spec.headGroupSpec", options);
  for (size_t i = 0; i < cluster->ngroups; i++)
    if (cluster->groups[i].spec != &ray_nothing)
      ray_validate_group (problems, cluster, &cluster->groups[i], ray_path ("spec.workerGroupSpecs[%zu]", i).text,
                          options);
  check_duplicates (problems, cluster);
  ray_validate_autoscaling (problems, cluster);
  ray_validate_options (problems, cluster);
  check_head_service (problems, cluster);
}

void
ray_validate (const struct ray_cluster *cluster, const struct ray_options *options, struct ray_problems *problems)
{
  size_t first = problems->count;

  check_cluster (problems, cluster, options);
  relocate (problems, first, cluster);
}

void
ray_unsupported (const struct ray_cluster *cluster, struct ray_problems *problems)
{
  size_t first = problems->count;

  ray_check_unsupported (problems, cluster);
  relocate (problems, first, cluster);
}

void
ray_warnings (const struct ray_cluster *cluster, const struct ray_options *options, struct ray_problems *problems)
{
  size_t first = problems->count;

  ray_check_unsupported (problems, cluster);
  ray_check_slices (problems, cluster, options);
  relocate (problems, first, cluster);
}
