/* The Ingress of the dashboard (§2.3). */
#include "ray/children.h"

#include "ray/ray_internal.h"

#define CLASS_ANNOTATION "kubernetes.io/ingress.class"
#define LAST_APPLIED "kubectl.kubernetes.io/last-applied-configuration"

/* The container port called dashboard, or Ray's usual one. */
static int64_t
dashboard_port (const struct ray_cluster *cluster)
{
  const cJSON *ray = cJSON_GetArrayItem (json_get (cluster->head.template, "spec", "containers"), 0);
  int64_t port = json_int (json_find (json_get (ray, "ports"), "name", "dashboard"), 0, "containerPort");

  return port > 0 ? port : RAY_PORT_DASHBOARD;
}

/* All annotations of the RayCluster but those that speak of the RayCluster itself: kubectl's copy of it and our
 * ledger. */
static void
add_annotations (cJSON *ingress, const struct ray_cluster *cluster)
{
  static const char *const not_for_it[] = { CLASS_ANNOTATION, LAST_APPLIED, "ray-tpu-operator/slices" };
  const cJSON *given = json_get (cluster->object, "metadata", "annotations");
  cJSON *annotations = json_obj (json_get (ingress, "metadata"), "annotations");

  json_merge_flat (annotations, given, true);
  for (size_t i = 0; i < ARRAY_LEN (not_for_it); i++)
    json_drop (annotations, not_for_it[i]);
  if (annotations->child == NULL)
    json_drop (json_get (ingress, "metadata"), "annotations");
}

static void
add_rule (cJSON *spec, const struct ray_cluster *cluster, const cJSON *options)
{
  const char *host = json_str (options, "host"), *path = json_str (options, "path");
  const char *type = json_str (options, "pathType");
  cJSON *rule = json_push_obj (json_arr (spec, "rules")), *entry, *service;
  char name[RAY_NAME_SIZE];

  if (host != NULL && *host != '\0')
    json_set_str (rule, "host", host);
  entry = json_push_obj (json_arr (json_obj (rule, "http"), "paths"));
  json_set_str (entry, "path", path != NULL && *path != '\0' ? path : "/");
  json_set_str (entry, "pathType", type != NULL && *type != '\0' ? type : "Prefix");
  service = json_obj (json_obj (entry, "backend"), "service");
  ray_head_service_name (name, cluster);
  json_set_str (service, "name", name);
  json_set_int (json_obj (service, "port"), "number", dashboard_port (cluster));
}

cJSON *
ray_build_ingress (const struct ray_cluster *cluster)
{
  const cJSON *options = json_get (cluster->head.spec, "ingressOptions");
  cleanup_free char *full = xasprintf ("%s-head-ingress", cluster->name);
  cleanup_free char *identifier = xasprintf ("%s-head", cluster->name);
  char name[RAY_NAME_SIZE], value[RAY_NAME_SIZE];
  const cJSON *tls = json_get (options, "tls");
  cJSON *ingress, *spec;

  ray_check_name (name, full);
  ray_check_label (value, identifier);
  ingress = ray_new_object (cluster, RAY_CHILD_INGRESS, name);
  json_set_str (ray_add_common_labels (ingress, cluster), RAY_LABEL_IDENTIFIER, value);
  add_annotations (ingress, cluster);
  spec = json_obj (ingress, "spec");
  json_set_str (spec, "ingressClassName", json_str (cluster->object, "metadata", "annotations", CLASS_ANNOTATION));
  add_rule (spec, cluster, options);
  if (cJSON_IsArray (tls) && tls->child != NULL)
    json_set_copy (spec, "tls", tls);
  ray_drop_nulls (ingress);
  ray_set_owner (ingress, cluster);
  return ingress;
}
