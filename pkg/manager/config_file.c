/* The configuration file: one table of its fields. */
#include "manager/config_file.h"

#include <errno.h>
#include <string.h>

#define FILE_MAX (1 << 20)

enum kind
{
  TEXT,
  BOOLEAN,
  NUMBER,
  CONTAINERS,  /* a list of containers */
  ENVIRONMENT, /* a list of variables */
  STRINGS,     /* an object of strings */
  ANYTHING,
};

static const struct field
{
  const char *name, *flag; /* and its other name, or NULL */
  enum kind kind;
  bool without; /* there is nothing here for it to change */
} fields[] = {
  { "apiVersion", NULL, TEXT, false },
  { "kind", NULL, TEXT, false },
  { "metadata", NULL, ANYTHING, false },
  { "metricsAddr", "metrics-bind-address", TEXT, false },
  { "probeAddr", "health-bind-address", TEXT, false },
  { "enableLeaderElection", "leader-elect", BOOLEAN, false },
  { "leaderElectionNamespace", "leader-elect-resource-namespace", TEXT, false },
  { "reconcileConcurrency", "workers", NUMBER, false },
  { "watchNamespace", "watch-namespaces", TEXT, false },
  { "qps", "kube-api-qps", NUMBER, false },
  { "burst", "kube-api-burst", NUMBER, false },
  { "headSidecarContainers", NULL, CONTAINERS, false },
  { "workerSidecarContainers", NULL, CONTAINERS, false },
  { "defaultContainerEnvs", NULL, ENVIRONMENT, false },
  { "defaultPodAnnotations", NULL, STRINGS, false },
  { "defaultPodLabels", NULL, STRINGS, false },
  { "enableMetrics", "enable-kuberay-metrics", BOOLEAN, false }, /* our own metrics are always on */
  { "logFile", NULL, TEXT, true },
  { "logFileEncoder", NULL, TEXT, false },   /* of no use without logFile */
  { "logStdoutEncoder", NULL, TEXT, false }, /* --log-format */
  { "batchScheduler", NULL, TEXT, true },
  { "enableBatchScheduler", NULL, BOOLEAN, true },
  { "useKubernetesProxy", NULL, BOOLEAN, true },
  { "deleteRayJobAfterJobFinishes", NULL, BOOLEAN, true },
};

static const struct field *
find_field (const char *name)
{
  for (size_t i = 0; i < ARRAY_LEN (fields); i++)
    if (strcmp (fields[i].name, name) == 0)
      return &fields[i];
  return NULL;
}

/* ---- shapes ---- */

static bool
all_named (const cJSON *list)
{
  const cJSON *item;

  cJSON_ArrayForEach (item, list)
    if (json_str (item, "name") == NULL)
      return false;
  return cJSON_IsArray (list);
}

static bool
all_strings (const cJSON *object)
{
  const cJSON *item;

  cJSON_ArrayForEach (item, object)
    if (!cJSON_IsString (item))
      return false;
  return cJSON_IsObject (object);
}

static bool
is_text (const cJSON *v)
{
  return cJSON_IsString (v);
}

static bool
is_boolean (const cJSON *v)
{
  return cJSON_IsBool (v);
}

static bool
is_number (const cJSON *v)
{
  return cJSON_IsNumber (v);
}

static bool
is_anything (const cJSON *v)
{
  return v != NULL;
}

static const struct
{
  bool (*is) (const cJSON *v);
  const char *allowed;
} kinds[] = {
  [TEXT] = { is_text, "a string" },
  [BOOLEAN] = { is_boolean, "true or false" },
  [NUMBER] = { is_number, "a number" },
  [CONTAINERS] = { all_named, "a list of containers, each with a name" },
  [ENVIRONMENT] = { all_named, "a list of variables, each with a name" },
  [STRINGS] = { all_strings, "an object of strings (quote numbers and booleans)" },
  [ANYTHING] = { is_anything, "anything" },
};

/* Whether a field asks for something: false, 0 and "" do not. */
static bool
asks (const cJSON *v)
{
  return cJSON_IsTrue (v) || (cJSON_IsString (v) && v->valuestring[0] != '\0');
}

static int
check (const cJSON *config, const char *path, struct error *err)
{
  const cJSON *item;

  if (!cJSON_IsObject (config))
    return error_set (err, EINVAL, "%s: must be one object, a config.ray.io/v1alpha1 Configuration, not %s", path,
                      json_type_name (config));
  cJSON_ArrayForEach (item, config)
    {
      const struct field *field = find_field (item->string);

      if (field == NULL)
        return error_set (err, EINVAL, "%s: there is no field %.100s: remove it or mend its name", path, item->string);
      if (cJSON_IsNull (item))
        continue;
      if (!kinds[field->kind].is (item))
        {
          cleanup_free char *value = json_print (item);

          return error_set (err, EINVAL, "%s: %s must be %s, not %.100s", path, item->string,
                            kinds[field->kind].allowed, value);
        }
      if (field->without && asks (item))
        log_warn ("the configuration file asks for what this operator does not have", LF_STR ("file", path),
                  LF_STR ("field", item->string));
    }
  return 0;
}

/* ---- reading ---- */

int
config_parse (cJSON **config, const char *text, size_t len, const char *path, struct error *err)
{
  cleanup_json cJSON *documents = NULL;
  int ret = yaml_parse (&documents, text, len, err);

  *config = NULL;
  if (ret < 0)
    return error_wrap (err, ret, "%s", path);
  if (cJSON_GetArraySize (documents) > 1)
    return error_set (err, EINVAL, "%s: has %d documents: keep one Configuration", path,
                      cJSON_GetArraySize (documents));
  *config = documents->child ? cJSON_DetachItemFromArray (documents, 0) : cJSON_CreateObject ();
  ret = check (*config, path, err);
  if (ret < 0)
    {
      cJSON_Delete (*config);
      *config = NULL;
    }
  return ret;
}

int
config_file_load (cJSON **config, const char *path, struct error *err)
{
  cleanup_buf struct buf text = { 0 };
  int ret = text_read_file (path, FILE_MAX, &text, err);

  *config = NULL;
  return ret < 0 ? ret : config_parse (config, buf_text (&text), text.len, path, err);
}

int
config_flags (const cJSON *config, config_flag_fn set, void *data, struct error *err)
{
  for (size_t i = 0; i < ARRAY_LEN (fields); i++)
    {
      const cJSON *v = json_get (config, fields[i].name);
      cleanup_free char *printed = NULL;
      int ret;

      if (fields[i].flag == NULL || v == NULL || cJSON_IsNull (v))
        continue;
      if (!cJSON_IsString (v))
        printed = json_print (v);
      ret = set (data, fields[i].flag, printed ? printed : v->valuestring, err);
      if (ret < 0)
        return error_wrap (err, ret, "%s in the configuration file", fields[i].name);
    }
  return 0;
}

void
config_pods (const cJSON *config, struct ray_options *ray)
{
  ray->head_sidecars = json_get (config, "headSidecarContainers");
  ray->worker_sidecars = json_get (config, "workerSidecarContainers");
  ray->default_env = json_get (config, "defaultContainerEnvs");
  ray->default_annotations = json_get (config, "defaultPodAnnotations");
  ray->default_labels = json_get (config, "defaultPodLabels");
}
