/* The head Service, the headless worker Service and the serve Service (§2.3). */
#include "ray/ray_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- ports ---- */

static const char *
protocol_of (const cJSON *port)
{
  const char *protocol = json_str (port, "protocol");

  return protocol != NULL ? protocol : "TCP";
}

/* The API server refuses a Service in which a name or a (port, protocol) pair comes twice. */
static bool
clashes (const cJSON *ports, const char *name, int64_t number, const char *protocol)
{
  const cJSON *port;

  cJSON_ArrayForEach (port, ports)
    if (text_eq (json_str (port, "name"), name)
        || (json_int (port, -1, "port") == number && text_eq (protocol_of (port), protocol)))
      return true;
  return false;
}

static void
add_port (cJSON *ports, const char *name, int64_t number, const char *protocol)
{
  cJSON *port;

  if (clashes (ports, name, number, protocol))
    return;
  port = json_push_obj (ports);
  json_set_str (port, "name", name);
  json_set_int (port, "port", number);
  if (!text_eq (protocol, "TCP"))
    json_set_str (port, "protocol", protocol);
  json_set_str (port, "appProtocol", "tcp");
}

/* An unnamed port cannot stand beside others: it is called after its number. */
static void
add_container_port (cJSON *ports, const cJSON *declared)
{
  const char *name = json_str (declared, "name");
  int64_t number = json_int (declared, 0, "containerPort");
  char fallback[32];

  if (number <= 0)
    return;
  snprintf (fallback, sizeof (fallback), "%" PRId64 "-port", number);
  add_port (ports, name != NULL && *name != '\0' ? name : fallback, number, protocol_of (declared));
}

static int
by_name (const void *a, const void *b)
{
  return strcmp (json_str (*(cJSON *const *) a, "name"), json_str (*(cJSON *const *) b, "name"));
}

/* Hands the sorted items of `from` over to `into`, leaving out those that clash with what is there. */
static void
move_sorted (cJSON *into, cJSON *from)
{
  size_t n = (size_t) cJSON_GetArraySize (from);
  cleanup_free cJSON **items = xcalloc (n, sizeof (*items));

  for (size_t i = 0; i < n; i++)
    items[i] = cJSON_DetachItemFromArray (from, 0);
  if (n > 1)
    qsort (items, n, sizeof (*items), by_name);
  for (size_t i = 0; i < n; i++)
    if (clashes (into, json_str (items[i], "name"), json_int (items[i], 0, "port"), protocol_of (items[i])))
      cJSON_Delete (items[i]);
    else
      json_push (into, items[i]);
}

/* The ports of the Ray container, Ray's usual ones when it declares none, and always one named metrics: unless another
 * name already holds its number. */
static void
add_head_ports (cJSON *ports, const struct ray_cluster *cluster)
{
  static const struct
  {
    const char *name;
    int port;
  } usual[] = {
    { "client", RAY_PORT_CLIENT },   { "dashboard", RAY_PORT_DASHBOARD }, { "gcs-server", RAY_PORT_GCS },
    { "metrics", RAY_PORT_METRICS }, { "serve", RAY_PORT_SERVE },
  };
  const cJSON *containers = json_get (cluster->head.template, "spec", "containers");
  const cJSON *declared = json_get (cJSON_GetArrayItem (containers, 0), "ports"), *port;
  cleanup_json cJSON *generated = cJSON_CreateArray ();

  if (cJSON_IsArray (declared))
    cJSON_ArrayForEach (port, declared)
      add_container_port (generated, port);
  if (cJSON_GetArraySize (generated) == 0)
    for (size_t i = 0; i < ARRAY_LEN (usual); i++)
      add_port (generated, usual[i].name, usual[i].port, "TCP");
  add_port (generated, "metrics", RAY_PORT_METRICS, "TCP");
  move_sorted (ports, generated);
}

/* The user's own ports of a custom head Service, first and in his order. */
static void
add_custom_ports (cJSON *ports, const cJSON *custom)
{
  const cJSON *given = json_get (custom, "spec", "ports"), *port;

  if (!cJSON_IsArray (given))
    return;
  cJSON_ArrayForEach (port, given)
    if (cJSON_IsObject (port))
      {
        cJSON *copy = json_push (ports, cJSON_Duplicate (port, true));
        cleanup_free char *name = xasprintf ("%" PRId64 "-port", json_int (port, 0, "port"));

        if (json_str (copy, "name") == NULL)
          json_set_str (copy, "name", name);
      }
}

/* ---- labels ---- */

/* The five labels of upstream, with the values the head pod of this spec has. */
static cJSON *
head_labels (const struct ray_cluster *cluster)
{
  static const char *const overridable[] = { RAY_LABEL_IDENTIFIER, LABEL_APP_NAME, LABEL_CREATED_BY };
  cleanup_free char *identifier = xasprintf ("%s-head", cluster->name);
  cJSON *labels = cJSON_CreateObject ();
  char value[RAY_NAME_SIZE];

  ray_check_label (value, identifier);
  json_set_str (labels, RAY_LABEL_CLUSTER, cluster->name);
  json_set_str (labels, RAY_LABEL_NODE_TYPE, "head");
  json_set_str (labels, RAY_LABEL_IDENTIFIER, value);
  json_set_str (labels, LABEL_APP_NAME, "kuberay");
  json_set_str (labels, LABEL_CREATED_BY, "kuberay-operator");
  for (size_t i = 0; i < ARRAY_LEN (overridable); i++)
    {
      json_set_str (labels, overridable[i], json_str (cluster->head.template, "metadata", "labels", overridable[i]));
      json_set_str (labels, overridable[i], json_str (cluster->head.spec, "labels", overridable[i]));
    }
  return labels;
}

/* What finds a worker or the head: the two labels that nobody can override. Upstream selects the head by all five, and
 * then selects nothing when the template overrides one, or is edited later: the running head keeps what it was made
 * with (kuberay#571, #2151, #2564). */
static void
set_selector (cJSON *spec, const struct ray_cluster *cluster, const char *node_type)
{
  cJSON *selector = json_set (spec, "selector", cJSON_CreateObject ());

  json_set_str (selector, RAY_LABEL_CLUSTER, cluster->name);
  json_set_str (selector, RAY_LABEL_NODE_TYPE, node_type);
}

/* User's labels stay where the operator has none of that name; headServiceAnnotations beat the custom Service's. */
static void
add_head_metadata (cJSON *meta, const struct ray_cluster *cluster, const cJSON *custom, const cJSON *labels)
{
  const cJSON *annotations = json_get (cluster->object, "spec", "headServiceAnnotations");

  json_set_copy (meta, "finalizers", json_get (custom, "metadata", "finalizers"));
  json_merge_flat (json_obj (meta, "labels"), json_get (custom, "metadata", "labels"), true);
  json_merge_flat (json_obj (meta, "labels"), labels, true);
  json_merge_flat (json_obj (meta, "annotations"), json_get (custom, "metadata", "annotations"), true);
  json_merge_flat (json_obj (meta, "annotations"), annotations, true);
  if (json_get (meta, "annotations")->child == NULL)
    json_drop (meta, "annotations");
}

/* ---- the Services ---- */

static void
make_headless (cJSON *spec)
{
  json_set_str (spec, "clusterIP", "None");
  json_set_bool (spec, "publishNotReadyAddresses", true);
}

cJSON *
ray_build_head_service (const struct ray_cluster *cluster, const struct ray_options *options)
{
  const cJSON *custom = json_get (cluster->head.spec, "headService");
  const char *type = json_str (cluster->head.spec, "serviceType");
  cleanup_json cJSON *labels = head_labels (cluster);
  cJSON *service, *spec, *ports;
  char name[RAY_NAME_SIZE];

  if (type == NULL || *type == '\0')
    type = "ClusterIP";
  ray_head_service_name (name, cluster);
  service = ray_new_object (cluster, RAY_CHILD_SERVICE, name);
  add_head_metadata (json_get (service, "metadata"), cluster, custom, labels);
  spec = json_obj (service, "spec");
  if (cJSON_IsObject (custom))
    json_merge_flat (spec, json_get (custom, "spec"), true);
  else if (text_eq (type, "ClusterIP") && !options->head_cluster_ip)
    make_headless (spec);
  if (json_str (spec, "type") == NULL || *json_str (spec, "type") == '\0')
    json_set_str (spec, "type", type);
  set_selector (spec, cluster, "head");
  ports = json_set (spec, "ports", cJSON_CreateArray ());
  add_custom_ports (ports, custom);
  add_head_ports (ports, cluster);
  ray_drop_nulls (service);
  ray_set_owner (service, cluster);
  return service;
}

cJSON *
ray_build_headless_service (const struct ray_cluster *cluster, const struct ray_options *options)
{
  char name[RAY_NAME_SIZE];
  cJSON *service, *spec;

  (void) options;
  ray_headless_service_name (name, cluster);
  service = ray_new_object (cluster, RAY_CHILD_SERVICE, name);
  json_set_str (json_obj (json_get (service, "metadata"), "labels"), RAY_LABEL_HEADLESS, cluster->name);
  spec = json_obj (service, "spec");
  json_set_str (spec, "type", "ClusterIP");
  make_headless (spec);
  set_selector (spec, cluster, "worker");
  ray_set_owner (service, cluster);
  return service;
}

/* Those ports of the Ray container whose name is serve or begins with serve-. */
static cJSON *
serve_ports (const struct ray_cluster *cluster)
{
  const cJSON *containers = json_get (cluster->head.template, "spec", "containers");
  const cJSON *declared = json_get (cJSON_GetArrayItem (containers, 0), "ports"), *port;
  cJSON *ports = cJSON_CreateArray ();

  if (cJSON_IsArray (declared))
    cJSON_ArrayForEach (port, declared)
      {
        const char *name = json_str (port, "name");

        if (text_eq (name, "serve") || (name != NULL && text_starts_with (name, "serve-")))
          add_container_port (ports, port);
      }
  return ports;
}

/* NULL when the Ray container of the head names no serve port: ray_validate says so. Upstream's labels, and ours by
 * which the controller finds it again. */
cJSON *
ray_build_serve_service (const struct ray_cluster *cluster, const struct ray_options *options)
{
  cleanup_free char *name = xasprintf ("%s-serve-svc", cluster->name), *label = xasprintf ("%s-serve", cluster->name);
  const char *type = json_str (cluster->head.spec, "serviceType");
  cleanup_json cJSON *ports = serve_ports (cluster);
  cJSON *service, *labels, *spec;

  (void) options;
  if (ports->child == NULL)
    return NULL;
  service = ray_new_object (cluster, RAY_CHILD_SERVICE, name);
  labels = ray_add_common_labels (service, cluster);
  json_set_str (labels, "ray.io/originated-from-cr-name", cluster->name);
  json_set_str (labels, RAY_LABEL_ORIGIN_CRD, "RayCluster");
  json_set_str (labels, RAY_LABEL_SERVE, label);
  spec = json_obj (service, "spec");
  json_set_str (spec, "type", type != NULL && *type != '\0' ? type : "ClusterIP");
  json_set_str (json_obj (spec, "selector"), RAY_LABEL_CLUSTER, cluster->name);
  json_set (spec, "ports", take_ptr (ports));
  ray_set_owner (service, cluster);
  return service;
}
