/* expand.c - from a workload object to its Pods: the table of kinds, and what all of them have in common. */
#include "workload/workload_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

/* ---- building blocks ---- */

const char *
workload_name (const cJSON *object)
{
  return log_nonnull (json_str (object, "metadata", "name"));
}

static void
set_owner (cJSON *pod, const char *kind, const char *name)
{
  cJSON *owner = json_push_obj (json_arr (json_get (pod, "metadata"), "ownerReferences"));

  json_set_str (owner, "kind", kind);
  json_set_str (owner, "name", name);
  json_set_bool (owner, "controller", true);
}

cJSON *
workload_pod (struct expansion *x, const cJSON *template, const char *name, const char *owner_kind,
              const char *owner_name)
{
  cJSON *pod, *metadata;

  if (!cJSON_IsObject (json_get (template, "spec")))
    {
      error_set (x->err, EINVAL, "the pod template of %s %.253s has no spec", owner_kind, owner_name);
      return NULL;
    }
  if (cJSON_GetArraySize (x->pods) >= WORKLOAD_PODS_MAX)
    {
      error_set (x->err, E2BIG, "its counts make more than %d Pods: lower them", WORKLOAD_PODS_MAX);
      return NULL;
    }
  pod = json_push_obj (x->pods);
  json_set_str (pod, "apiVersion", "v1");
  json_set_str (pod, "kind", "Pod");
  metadata = json_obj (pod, "metadata");
  json_set_str (metadata, text_ends_with (name, "-") ? "generateName" : "name", name);
  json_set_str (metadata, "namespace", json_str (x->object, "metadata", "namespace"));
  if (cJSON_IsObject (json_get (template, "metadata", "labels")))
    json_set_copy (metadata, "labels", json_get (template, "metadata", "labels"));
  if (cJSON_IsObject (json_get (template, "metadata", "annotations")))
    json_set_copy (metadata, "annotations", json_get (template, "metadata", "annotations"));
  set_owner (pod, owner_kind, owner_name);
  json_set_copy (pod, "spec", json_get (template, "spec"));
  return pod;
}

void
workload_label (cJSON *pod, const char *key, const char *value)
{
  json_set_str (json_obj (json_get (pod, "metadata"), "labels"), key, value);
}

void
workload_annotate (cJSON *pod, const char *key, const char *value)
{
  json_set_str (json_obj (json_get (pod, "metadata"), "annotations"), key, value);
}

void
workload_each_container (cJSON *pod, void (*fn) (cJSON *container, const void *data), const void *data)
{
  static const char *const sections[] = { "initContainers", "containers" };

  for (size_t i = 0; i < ARRAY_LEN (sections); i++)
    {
      cJSON *array = json_get (pod, "spec", sections[i]), *container;

      if (cJSON_IsArray (array))
        cJSON_ArrayForEach (container, array)
          if (cJSON_IsObject (container))
            fn (container, data);
    }
}

/* ---- the table ---- */

static const struct
{
  const char *kind;
  int (*expand) (struct expansion *x, const cJSON *object);
} kinds[] = {
  { "Job", workload_expand_job },
  { "CronJob", workload_expand_cronjob },
  { "JobSet", workload_expand_jobset },
  { "LeaderWorkerSet", workload_expand_lws },
  { "StatefulSet", workload_expand_statefulset },
  { "Deployment", workload_expand_deployment },
};

static int
refuse_types (const cJSON *object, struct error *err)
{
  cleanup_problems struct ray_problems found = { 0 };

  workload_check_types (&found, object);
  return found.count > 0 ? error_set (err, EINVAL, "%s: %s", found.items[0].field, found.items[0].message) : 0;
}

int
workload_expand (cJSON **pods, const cJSON *object, struct error *err)
{
  cleanup_json cJSON *made = cJSON_CreateArray ();
  struct expansion x = { .pods = made, .object = object, .err = err };
  const char *kind = json_str (object, "kind");
  int ret;

  *pods = NULL;
  for (size_t i = 0; i < ARRAY_LEN (kinds); i++)
    if (text_eq (kind, kinds[i].kind))
      {
        if (*workload_name (object) == '\0')
          return error_set (err, EINVAL, "metadata.name is missing: Pods are named after it");
        ret = refuse_types (object, err);
        if (ret == 0)
          ret = kinds[i].expand (&x, object);
        if (ret == 0)
          *pods = take_ptr (made);
        return ret;
      }
  return error_set (err, EINVAL, "kind %.63s is no workload that is known here", log_nonnull (kind));
}
