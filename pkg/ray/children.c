/* The list of desired objects and their kinds. */
#include "ray/children.h"

#include <stdio.h>
#include <string.h>

#include "ray/ray_internal.h"

const struct ray_child_type ray_child_types[RAY_CHILD_KIND_MAX] = {
  [RAY_CHILD_SERVICE] = { "Service", "v1", "/api/v1", "services", "service", "Service", "FailedCreateService", true },
  [RAY_CHILD_SERVICE_ACCOUNT] = { "ServiceAccount", "v1", "/api/v1", "serviceaccounts", "service account",
                                  "ServiceAccount", "FailedCreateServiceAccount", false },
  [RAY_CHILD_ROLE] = { "Role", "rbac.authorization.k8s.io/v1", "/apis/rbac.authorization.k8s.io/v1", "roles", "role",
                       "Role", "FailedCreateRole", true },
  [RAY_CHILD_ROLE_BINDING] = { "RoleBinding", "rbac.authorization.k8s.io/v1", "/apis/rbac.authorization.k8s.io/v1",
                               "rolebindings", "role binding", "RoleBinding", "FailedCreateRoleBinding", true },
  [RAY_CHILD_INGRESS] = { "Ingress", "networking.k8s.io/v1", "/apis/networking.k8s.io/v1", "ingresses", "ingress",
                          "Ingress", "FailedCreateIngress", true },
  /* Pods that run refer to it, and a restarted container would not start without. */
  [RAY_CHILD_SECRET] = { "Secret", "v1", "/api/v1", "secrets", "secret", "Secret", "FailedCreateSecret", false },
  /* It has the user's data. */
  [RAY_CHILD_PVC] = { "PersistentVolumeClaim", "v1", "/api/v1", "persistentvolumeclaims", "volume claim", "PVC",
                      "FailedCreatePVC", false },
  [RAY_CHILD_NETWORK_POLICY]
  = { "NetworkPolicy", "networking.k8s.io/v1", "/apis/networking.k8s.io/v1", "networkpolicies", "network policy",
      "NetworkPolicy", "FailedCreateNetworkPolicy", true },
};

/* ---- the plain ones ---- */

cJSON *
ray_new_object (const struct ray_cluster *cluster, enum ray_child_kind kind, const char *name)
{
  cJSON *object = cJSON_CreateObject (), *meta;

  json_set_str (object, "apiVersion", ray_child_types[kind].api_version);
  json_set_str (object, "kind", ray_child_types[kind].kind);
  meta = json_obj (object, "metadata");
  json_set_str (meta, "name", name);
  json_set_str (meta, "namespace", cluster->namespace);
  return object;
}

cJSON *
ray_add_common_labels (cJSON *object, const struct ray_cluster *cluster)
{
  cJSON *labels = json_obj (json_obj (object, "metadata"), "labels");

  json_set_str (labels, RAY_LABEL_CLUSTER, cluster->name);
  json_set_str (labels, LABEL_APP_NAME, "kuberay");
  json_set_str (labels, LABEL_CREATED_BY, "kuberay-operator");
  return labels;
}

static cJSON *
new_labelled (const struct ray_cluster *cluster, enum ray_child_kind kind, const char *name)
{
  cJSON *object = ray_new_object (cluster, kind, name);

  ray_add_common_labels (object, cluster);
  return object;
}

/* What the autoscaler may do: watch and label its pods, resize them, and write the cluster's replicas (§2.3). */
static void
add_rules (cJSON *role)
{
  static const struct
  {
    const char *group, *resource, *verbs[5];
  } rules[] = {
    { "", "pods", { "get", "list", "watch", "patch" } },
    { "", "pods/resize", { "patch" } },
    { "ray.io", "rayclusters", { "get", "patch" } },
  };
  cJSON *list = json_arr (role, "rules");

  for (size_t i = 0; i < ARRAY_LEN (rules); i++)
    {
      cJSON *rule = json_push_obj (list);

      json_push_str (json_arr (rule, "apiGroups"), rules[i].group);
      json_push_str (json_arr (rule, "resources"), rules[i].resource);
      for (size_t v = 0; rules[i].verbs[v] != NULL; v++)
        json_push_str (json_arr (rule, "verbs"), rules[i].verbs[v]);
    }
}

static cJSON *
new_role_binding (const struct ray_cluster *cluster, const char *name, const char *account)
{
  cJSON *binding = new_labelled (cluster, RAY_CHILD_ROLE_BINDING, name), *subject, *ref;

  subject = json_push_obj (json_arr (binding, "subjects"));
  json_set_str (subject, "kind", "ServiceAccount");
  json_set_str (subject, "name", account);
  json_set_str (subject, "namespace", cluster->namespace);
  ref = json_obj (binding, "roleRef");
  json_set_str (ref, "apiGroup", "rbac.authorization.k8s.io");
  json_set_str (ref, "kind", "Role");
  json_set_str (ref, "name", name);
  return binding;
}

/* Defaults of §1.4: 1Gi, ReadWriteOnce, the default class. */
static cJSON *
new_claim (const struct ray_cluster *cluster, const char *name, const cJSON *storage)
{
  cJSON *claim = ray_new_object (cluster, RAY_CHILD_PVC, name), *spec = json_obj (claim, "spec"), *requests;
  const cJSON *modes = json_get (storage, "accessModes"), *size = json_get (storage, "size");

  json_set_str (json_obj (json_obj (claim, "metadata"), "labels"), RAY_LABEL_CLUSTER, cluster->name);
  if (cJSON_IsArray (modes) && modes->child != NULL)
    json_set_copy (spec, "accessModes", modes);
  else
    json_push_str (json_arr (spec, "accessModes"), "ReadWriteOnce");
  requests = json_obj (json_obj (spec, "resources"), "requests");
  if (size != NULL && !cJSON_IsNull (size))
    json_set_copy (requests, "storage", size);
  else
    json_set_str (requests, "storage", "1Gi");
  json_set_str (spec, "storageClassName", json_str (storage, "storageClassName"));
  return claim;
}

/* ---- the list ---- */

static struct ray_child *
add (struct ray_children *list, enum ray_child_kind kind, enum ray_child_gate gate, cJSON *object)
{
  struct ray_child *child;

  list->items = xgrow (list->items, list->count, &list->cap, sizeof (*list->items));
  child = &list->items[list->count++];
  *child = (struct ray_child){ .kind = kind, .gate = gate, .object = object };
  return child;
}

static void
add_autoscaler (struct ray_children *list, const struct ray_cluster *cluster)
{
  const char *named = json_str (cluster->head.template, "spec", "serviceAccountName");
  bool external = named != NULL && *named != '\0';
  const char *account;
  char name[RAY_NAME_SIZE];
  cJSON *role;

  if (!cluster->autoscaling)
    return;
  ray_check_name (name, cluster->name);
  account = external ? named : name; /* the user's is not cut to 50 characters, as upstream does */
  add (list, RAY_CHILD_SERVICE_ACCOUNT, RAY_GATE_HEAD, new_labelled (cluster, RAY_CHILD_SERVICE_ACCOUNT, account))
      ->external
      = external;
  role = new_labelled (cluster, RAY_CHILD_ROLE, name);
  add_rules (role);
  add (list, RAY_CHILD_ROLE, RAY_GATE_NONE, role);
  add (list, RAY_CHILD_ROLE_BINDING, RAY_GATE_NONE, new_role_binding (cluster, name, account));
}

static void
add_secret (struct ray_children *list, const struct ray_cluster *cluster)
{
  char name[RAY_NAME_SIZE];
  cJSON *secret;

  if (!ray_needs_token_secret (cluster))
    return;
  ray_check_name (name, cluster->name);
  secret = ray_new_object (cluster, RAY_CHILD_SECRET, name);
  json_set_str (secret, "type", "Opaque");
  json_set_str (json_obj (json_get (secret, "metadata"), "labels"), RAY_LABEL_CLUSTER, cluster->name);
  add (list, RAY_CHILD_SECRET, RAY_GATE_PODS, secret);
}

static void
add_claim (struct ray_children *list, const struct ray_cluster *cluster)
{
  const cJSON *options = json_get (cluster->object, "spec", "gcsFaultToleranceOptions");
  const char *given = json_str (options, "storage", "claimName");
  char name[RAY_NAME_SIZE + 16];
  struct ray_child *child;

  if (ray_fault_tolerance (cluster) != RAY_FT_ROCKSDB)
    return;
  ray_claim_name (name, cluster);
  child = add (list, RAY_CHILD_PVC, RAY_GATE_HEAD, new_claim (cluster, name, json_get (options, "storage")));
  child->external = given != NULL && *given != '\0';
  child->keep = text_eq (json_str (options, "deletionPolicy"), "Retain");
}

static void
add_services (struct ray_children *list, const struct ray_cluster *cluster, const struct ray_options *options)
{
  const char *serve = json_str (cluster->object, "metadata", "annotations", RAY_ANNOTATION_SERVE_SERVICE);

  add (list, RAY_CHILD_SERVICE, RAY_GATE_PODS, ray_build_head_service (cluster, options));
  if (ray_cluster_multi_host (cluster))
    add (list, RAY_CHILD_SERVICE, RAY_GATE_PODS, ray_build_headless_service (cluster, options));
  if (text_eq_nocase (serve, "true"))
    {
      cJSON *service = ray_build_serve_service (cluster, options);

      if (service != NULL)
        add (list, RAY_CHILD_SERVICE, RAY_GATE_NONE, service);
    }
}

static void
add_network_policies (struct ray_children *list, const struct ray_cluster *cluster, const struct ray_options *options)
{
  if (!cJSON_IsObject (json_get (cluster->object, "spec", "networkPolicy")))
    return;
  add (list, RAY_CHILD_NETWORK_POLICY, RAY_GATE_PODS, ray_build_network_policy (cluster, &cluster->head, options));
  for (size_t i = 0; i < cluster->ngroups; i++)
    add (list, RAY_CHILD_NETWORK_POLICY, RAY_GATE_PODS,
         ray_build_network_policy (cluster, &cluster->groups[i], options));
}

static uint64_t
hash_of (const cJSON *object)
{
  cleanup_free char *text = json_print (object);

  return text_hash_str (0, text);
}

void
ray_children_make (struct ray_children *children, const struct ray_cluster *cluster, const struct ray_options *options)
{
  *children = (struct ray_children){ 0 };
  add_services (children, cluster, options);
  add_autoscaler (children, cluster);
  if (json_bool (cluster->head.spec, false, "enableIngress"))
    add (children, RAY_CHILD_INGRESS, RAY_GATE_NONE, ray_build_ingress (cluster));
  add_secret (children, cluster);
  add_claim (children, cluster);
  add_network_policies (children, cluster, options);
  for (size_t i = 0; i < children->count; i++)
    {
      struct ray_child *child = &children->items[i];

      ray_drop_nulls (child->object);
      if (!child->keep && !child->external && json_get (child->object, "metadata", "ownerReferences") == NULL)
        ray_set_owner (child->object, cluster);
      child->hash = hash_of (child->object);
    }
}

void
ray_children_free (struct ray_children *children)
{
  for (size_t i = 0; i < children->count; i++)
    cJSON_Delete (children->items[i].object);
  free (children->items);
  *children = (struct ray_children){ 0 };
}

const char *
ray_child_name (const struct ray_child *child)
{
  return log_nonnull (json_str (child->object, "metadata", "name"));
}
