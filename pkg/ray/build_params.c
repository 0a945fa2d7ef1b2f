/* rayStartParams: what the user wrote, what the group's `resources` and `labels` mean, the operator's defaults and what
 * the Ray container's own resources say (§3.2), and the `ray start` line they make (§3.3). */
#include "ray/ray_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define NANO_PER_UNIT 1e9

static void
set_default (cJSON *params, const char *key, const char *value)
{
  if (json_get (params, key) == NULL)
    json_set_str (params, key, value);
}

static void
set_default_int (cJSON *params, const char *key, int64_t value)
{
  char text[24];

  snprintf (text, sizeof (text), "%" PRId64, value);
  set_default (params, key, text);
}

static int
by_key (const void *a, const void *b)
{
  return strcmp ((*(const cJSON *const *) a)->string, (*(const cJSON *const *) b)->string);
}

/* The members of an object in the order of their keys; owned by the caller. NULL and mistyped count as empty. */
static const cJSON **
sorted_members (const cJSON *object, size_t *count)
{
  size_t n = cJSON_IsObject (object) ? (size_t) cJSON_GetArraySize (object) : 0;
  const cJSON **members = xcalloc (n, sizeof (const cJSON *)), *item;

  *count = 0;
  if (n > 0)
    cJSON_ArrayForEach (item, object)
      members[(*count)++] = item;
  if (n > 1)
    qsort (members, n, sizeof (const cJSON *), by_key);
  return members;
}

/* ---- the `resources` parameter: a JSON object of numbers inside shell quotes ---- */

static bool
all_numbers (const cJSON *object)
{
  const cJSON *item;

  if (!cJSON_IsObject (object))
    return false;
  cJSON_ArrayForEach (item, object)
    if (!cJSON_IsNumber (item))
      return false;
  return true;
}

/* The parameter as an object, an empty one when it is absent; NULL when it does not parse: then it is left as it is. */
static cJSON *
parse_resources (const cJSON *params)
{
  static const char wrapping[] = "'\"` ";
  const char *text = json_str (params, "resources");
  cleanup_json cJSON *parsed = NULL;
  size_t len;

  if (text == NULL)
    return cJSON_CreateObject ();
  text += strspn (text, wrapping);
  for (len = strlen (text); len > 0 && strchr (wrapping, text[len - 1]) != NULL;)
    len--;
  if (json_parse (&parsed, text, len, NULL) < 0 || !all_numbers (parsed))
    return NULL;
  return take_ptr (parsed);
}

/* Single-quoted for the shell; a quote inside becomes '\''. */
static void
quote_shell (struct buf *out, const char *text)
{
  buf_char (out, '\'');
  for (; *text != '\0'; text++)
    if (*text == '\'')
      buf_str (out, "'\\''");
    else
      buf_char (out, *text);
  buf_char (out, '\'');
}

static void
write_resources (cJSON *params, const cJSON *resources)
{
  cleanup_json cJSON *sorted = cJSON_CreateObject ();
  cleanup_buf struct buf quoted = { 0 };
  cleanup_free char *text = NULL;
  cleanup_free const cJSON **members;
  size_t n;

  members = sorted_members (resources, &n);
  for (size_t i = 0; i < n; i++)
    json_set_copy (sorted, members[i]->string, members[i]);
  text = json_print (sorted);
  quote_shell (&quoted, text);
  json_set_str (params, "resources", buf_text (&quoted));
}

/* ---- the group's own fields ---- */

/* `cpu`, `memory` and GPUs have parameters of their own; everything else is a custom Ray resource under its own name.
 * Quantities that cannot be read are skipped here and reported by ray_validate. */
static void
fold_resources (cJSON *params, const cJSON *group_resources)
{
  cleanup_json cJSON *custom = NULL;
  cleanup_free const cJSON **members;
  struct quantity q;
  size_t n;
  bool added = false;

  members = sorted_members (group_resources, &n);
  if (n > 0)
    custom = parse_resources (params);
  for (size_t i = 0; i < n; i++)
    {
      const char *key = members[i]->string;
      size_t len = strlen (key);

      if (ray_quantity (&q, members[i], NULL) < 0)
        continue;
      if (text_eq_nocase (key, "cpu"))
        set_default_int (params, "num-cpus", quantity_ceil (&q));
      else if (text_eq_nocase (key, "memory"))
        set_default_int (params, "memory", quantity_ceil (&q));
      else if (len >= 3 && text_eq_nocase (key + len - 3, "gpu"))
        set_default_int (params, "num-gpus", quantity_ceil (&q));
      else if (custom != NULL && json_get (custom, key) == NULL)
        {
          json_set (custom, key, cJSON_CreateNumber ((double) q.nano / NANO_PER_UNIT));
          added = true;
        }
    }
  if (added)
    write_resources (params, custom);
}

static void
fold_labels (cJSON *params, const cJSON *group_labels)
{
  cleanup_buf struct buf text = { 0 };
  cleanup_free const cJSON **members;
  size_t n;

  members = sorted_members (group_labels, &n);
  for (size_t i = 0; i < n; i++)
    if (cJSON_IsString (members[i]))
      buf_printf (&text, "%s%s=%s", text.len > 0 ? "," : "", members[i]->string, members[i]->valuestring);
  if (text.len > 0)
    set_default (params, "labels", buf_text (&text));
}

/* The credentials themselves are in the environment (§3.4). */
static void
add_redis_credentials (cJSON *params, const struct ray_cluster *cluster)
{
  const cJSON *options = json_get (cluster->object, "spec", "gcsFaultToleranceOptions");

  if (ray_fault_tolerance (cluster) != RAY_FT_REDIS)
    return;
  if (cJSON_IsObject (json_get (options, "redisUsername")))
    json_set_str (params, "redis-username", "$REDIS_USERNAME");
  if (cJSON_IsObject (json_get (options, "redisPassword")))
    json_set_str (params, "redis-password", "$REDIS_PASSWORD");
}

static void
add_head_defaults (cJSON *params, const struct ray_cluster *cluster)
{
  add_redis_credentials (params, cluster);
  set_default (params, "dashboard-host", "0.0.0.0");
  if (cluster->autoscaling)
    json_set_str (params, "no-monitor", "true"); /* the sidecar is the monitor */
}

static void
add_worker_defaults (cJSON *params, const struct ray_cluster *cluster, const struct ray_options *options)
{
  char fqdn[RAY_NAME_SIZE * 2];
  cleanup_free char *address = NULL;

  ray_head_fqdn (fqdn, cluster, options);
  address = xasprintf ("%s:%s", fqdn, ray_head_port (cluster));
  set_default (params, "address", address);
}

cJSON *
ray_params_new (const struct ray_cluster *cluster, const struct ray_group *group, const struct ray_options *options)
{
  cJSON *params = cJSON_CreateObject ();
  const cJSON *item;

  if (group->params != NULL)
    cJSON_ArrayForEach (item, group->params)
      if (cJSON_IsString (item))
        json_set_copy (params, item->string, item);
  fold_resources (params, json_get (group->spec, "resources"));
  fold_labels (params, json_get (group->spec, "labels"));
  if (group->is_head)
    add_head_defaults (params, cluster);
  else
    add_worker_defaults (params, cluster, options);
  set_default_int (params, "metrics-export-port", RAY_PORT_METRICS);
  set_default_int (params, "dashboard-agent-listen-port", RAY_PORT_AGENT);
  json_set_str (params, "block", "true"); /* the container lives as long as ray does; not the user's to change */
  return params;
}

/* ---- the Ray container's resources ---- */

static bool
positive (const cJSON *value, int64_t *ceil)
{
  struct quantity q;

  if (value == NULL || ray_quantity (&q, value, NULL) < 0 || q.nano <= 0)
    return false;
  *ceil = quantity_ceil (&q);
  return true;
}

static void
add_gpus (cJSON *params, const cJSON *const *limits, size_t count)
{
  int64_t n;

  for (size_t i = 0; i < count; i++)
    if (ray_is_gpu_key (limits[i]->string) && positive (limits[i], &n))
      {
        set_default_int (params, "num-gpus", n);
        return;
      }
}

/* At most one accelerator, the first in key order, and none when the user named one himself. */
static void
add_accelerator (cJSON *params, const cJSON *const *limits, size_t count)
{
  static const struct
  {
    const char *key, *resource;
  } accelerators[] = { { "aws.amazon.com/neuroncore", "neuron_cores" }, { "google.com/tpu", "TPU" } };
  cleanup_json cJSON *resources = parse_resources (params);
  int64_t n;

  for (size_t a = 0; a < ARRAY_LEN (accelerators); a++)
    if (resources == NULL || json_get (resources, accelerators[a].resource) != NULL)
      return;
  for (size_t i = 0; i < count; i++)
    for (size_t a = 0; a < ARRAY_LEN (accelerators); a++)
      if (text_eq (limits[i]->string, accelerators[a].key) && positive (limits[i], &n))
        {
          json_set_int (resources, accelerators[a].resource, n);
          write_resources (params, resources);
          return;
        }
}

void
ray_params_add_container (cJSON *params, const cJSON *resources)
{
  cleanup_free const cJSON **limits;
  size_t count;
  int64_t n;

  if (positive (json_get (resources, "limits", "cpu"), &n) || positive (json_get (resources, "requests", "cpu"), &n))
    set_default_int (params, "num-cpus", n);
  if (positive (json_get (resources, "limits", "memory"), &n))
    set_default_int (params, "memory", n);
  limits = sorted_members (json_get (resources, "limits"), &count);
  add_gpus (params, limits, count);
  add_accelerator (params, limits, count);
}

/* ---- the line ---- */

char *
ray_params_render (const cJSON *params, bool is_head)
{
  /* For these "true" and "false" are values, not flags (§3.3). */
  static const char *const valued[] = { "log-color", "include-dashboard", "include-log-monitor" };
  cleanup_free const cJSON **members;
  struct buf line = { 0 };
  size_t n;

  buf_str (&line, is_head ? "ray start --head " : "ray start ");
  members = sorted_members (params, &n);
  for (size_t i = 0; i < n; i++)
    {
      const char *key = members[i]->string, *value = members[i]->valuestring;
      bool flag = text_index (key, valued, ARRAY_LEN (valued)) < 0;

      if (flag && text_eq_nocase (value, "true"))
        buf_printf (&line, " --%s ", key);
      else if (!flag || !text_eq_nocase (value, "false"))
        buf_printf (&line, " --%s=%s ", key, value);
    }
  return buf_take (&line);
}

char *
ray_start_command (const struct ray_cluster *cluster, const struct ray_group *group, const struct ray_options *options)
{
  cleanup_json cJSON *params = ray_params_new (cluster, group, options);
  const cJSON *containers = json_get (group->template, "spec", "containers");

  ray_params_add_container (params, json_get (cJSON_GetArrayItem (containers, 0), "resources"));
  return ray_params_render (params, group->is_head);
}
