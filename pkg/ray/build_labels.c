/* Labels and annotations of pods (§0.3, §3.1). */
#include "ray/plan.h"
#include "ray/ray_internal.h"

#include <inttypes.h>
#include <stdio.h>

static void
set_default (cJSON *labels, const char *key, const char *value)
{
  if (json_str (labels, key) == NULL)
    json_set_str (labels, key, value);
}

static void
set_number (cJSON *labels, const char *key, int64_t value)
{
  char text[24];

  snprintf (text, sizeof (text), "%" PRId64, value);
  json_set_str (labels, key, text);
}

/* The slice a worker belongs to: what hostnames, TPU_WORKER_ID and slice affinity are computed from (§2.5, §2.9), and
 * what the planner knows it by: a user's label of such a name, copied from a pod perhaps, must not pass for ours. */
static void
add_identity (const struct pod_build *b, cJSON *labels)
{
  static const char *const identity[] = { RAY_LABEL_REPLICA_INDEX, RAY_LABEL_REPLICA_NAME, RAY_LABEL_HOST_INDEX };

  for (size_t i = 0; i < ARRAY_LEN (identity); i++)
    json_drop (labels, identity[i]);
  if (b->group->is_head)
    return;
  set_number (labels, RAY_LABEL_REPLICA_INDEX, b->identity->replica_index);
  if (b->group->hosts <= 1)
    return;
  json_set_str (labels, RAY_LABEL_REPLICA_NAME, b->identity->replica_name);
  set_number (labels, RAY_LABEL_HOST_INDEX, b->identity->host_index);
}

/* Template labels, overridden by the group's `labels`; the operator's own only where the user has none, except those
 * that the controller finds and tells apart its pods by. */
void
ray_add_labels (struct pod_build *b)
{
  const char *type = b->group->is_head ? "head" : "worker";
  cJSON *labels = json_obj (b->meta, "labels");
  cleanup_free char *identifier = xasprintf ("%s-%s", b->cluster->name, type);
  char value[RAY_NAME_SIZE];

  json_merge_flat (labels, json_get (b->template, "metadata", "labels"), true);
  json_merge_flat (labels, json_get (b->group->spec, "labels"), true);
  ray_check_label (value, identifier);
  set_default (labels, RAY_LABEL_IS_RAY_NODE, "yes");
  set_default (labels, RAY_LABEL_IDENTIFIER, value);
  set_default (labels, LABEL_APP_NAME, "kuberay");
  set_default (labels, LABEL_CREATED_BY, "kuberay-operator");
  json_set_str (labels, RAY_LABEL_CLUSTER, b->cluster->name);
  json_set_str (labels, RAY_LABEL_NODE_TYPE, type);
  json_set_str (labels, RAY_LABEL_GROUP, b->group->name);
  /* Workers of a RayService serve when they are ready; whether the head does, the RayService controller finds out. */
  if (text_eq (b->cluster->origin_crd, "RayService"))
    json_set_str (labels, RAY_LABEL_SERVE, b->group->is_head ? "false" : "true");
  add_identity (b, labels);
}

/* Of the RayCluster's own annotations only ray.io/overwrite-container-cmd is passed on (§3.1.5). */
void
ray_add_annotations (struct pod_build *b)
{
  const char *overwrite = json_str (b->cluster->object, "metadata", "annotations", RAY_ANNOTATION_OVERWRITE_CMD);
  cJSON *annotations = json_obj (b->meta, "annotations");

  char template_hash[17];

  json_merge_flat (annotations, json_get (b->template, "metadata", "annotations"), true);
  snprintf (template_hash, sizeof (template_hash), "%016" PRIx64, ray_template_hash (b->group));
  json_set_str (annotations, RAY_ANNOTATION_TEMPLATE_HASH, template_hash);
  if (text_eq_nocase (overwrite, "true"))
    json_set_str (annotations, RAY_ANNOTATION_OVERWRITE_CMD, overwrite);
  if (b->group->is_head)
    {
      char hash[RAY_RECREATE_HASH_SIZE];

      ray_recreate_hash (hash, b->cluster);
      json_set_str (annotations, RAY_ANNOTATION_RECREATE_HASH, hash);
      json_set_str (annotations, RAY_ANNOTATION_FT_ENABLED,
                    ray_fault_tolerance (b->cluster) != RAY_FT_NONE ? "true" : "false");
      json_set_str (annotations, "ray.io/kuberay-version", b->options->version);
    }
}
