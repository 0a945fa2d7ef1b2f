/* digest.c - the few facts about a Pod or Service that planning and status need, in one allocation. */
#include "ray/children.h"
#include "ray/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct text_slot
{
  const char **field;
  const char *text;
};

/* Makes a copy of `head` (of `size` bytes) with the texts behind it; the slots' fields lie inside `head`. */
static void *
pack (const void *head, size_t size, const struct text_slot *slots, size_t nslots)
{
  size_t total = size;
  char *block, *next;

  for (size_t i = 0; i < nslots; i++)
    total += strlen (log_nonnull (slots[i].text)) + 1;
  block = xmalloc (total);
  memcpy (block, head, size);
  next = block + size;
  for (size_t i = 0; i < nslots; i++)
    {
      size_t len = strlen (log_nonnull (slots[i].text)) + 1;
      size_t offset = (size_t) ((const char *) slots[i].field - (const char *) head);

      memcpy (next, log_nonnull (slots[i].text), len);
      memcpy (block + offset, &next, sizeof (next));
      next += len;
    }
  return block;
}

static const cJSON *
controller_owner (const cJSON *object)
{
  const cJSON *owner;

  cJSON_ArrayForEach (owner, json_get (object, "metadata", "ownerReferences"))
    if (json_bool (owner, false, "controller"))
      return owner;
  return NULL;
}

static bool
is_owned_by_cluster (const cJSON *pod, const char *cluster)
{
  const cJSON *owner = controller_owner (pod);

  return text_eq (json_str (owner, "kind"), "RayCluster")
         && text_starts_with (log_nonnull (json_str (owner, "apiVersion")), "ray.io/")
         && text_eq (json_str (owner, "name"), cluster);
}

static int64_t
time_at (const cJSON *object, const char *key)
{
  const char *text = json_str (object, "metadata", key);
  int64_t ms = 0;

  return text != NULL && clock_parse_rfc3339 (text, &ms) == 0 ? ms : 0;
}

static int32_t
index_label (const cJSON *labels, const char *key)
{
  const char *text = json_str (labels, key);
  int64_t value;

  return text != NULL && text_to_int (text, 0, INT32_MAX, &value) == 0 ? (int32_t) value : -1;
}

static uint64_t
version_of (const cJSON *object)
{
  return strtoull (log_nonnull (json_str (object, "metadata", "resourceVersion")), NULL, 10);
}

static enum ray_phase
read_phase (const char *text)
{
  static const char *const names[] = { "Pending", "Running", "Succeeded", "Failed" };
  int i = text == NULL ? 0 : text_index (text, names, ARRAY_LEN (names));

  return i < 0 ? RAY_UNKNOWN : (enum ray_phase) i;
}

/* The status of containers[0], which is the Ray container in every template (facts §1.6). */
static const cJSON *
ray_container_status (const cJSON *pod)
{
  const cJSON *first = cJSON_GetArrayItem (json_get (pod, "spec", "containers"), 0);
  const char *name = json_str (first, "name");

  return name ? json_find (json_get (pod, "status", "containerStatuses"), "name", name) : NULL;
}

static bool
is_dead (const cJSON *pod, enum ray_phase phase)
{
  if (phase == RAY_FAILED || phase == RAY_SUCCEEDED)
    return true;
  return phase == RAY_RUNNING && text_eq (json_str (pod, "spec", "restartPolicy"), "Never")
         && json_get (ray_container_status (pod), "state", "terminated") != NULL;
}

/* "ContainersNotReady" says little: the first waiting or ended container's reason and message say more (facts §1.5). */
static void
explain_not_ready (const cJSON *pod, const char **reason, const char **message, char *buffer, size_t size)
{
  const cJSON *status;

  if (!text_eq (*reason, "ContainersNotReady"))
    return;
  cJSON_ArrayForEach (status, json_get (pod, "status", "containerStatuses"))
    {
      const cJSON *state = json_get (status, "state", "waiting");

      if (state == NULL)
        state = json_get (status, "state", "terminated");
      if (state == NULL || json_str (state, "reason") == NULL)
        continue;
      *reason = json_str (state, "reason");
      snprintf (buffer, size, "%s; %s: %s", log_nonnull (*message), log_nonnull (json_str (status, "name")),
                log_nonnull (json_str (state, "message")));
      *message = buffer;
      return;
    }
}

struct ray_pod *
ray_pod_digest (const cJSON *pod)
{
  const cJSON *labels = json_get (pod, "metadata", "labels");
  const cJSON *ready = json_find (json_get (pod, "status", "conditions"), "type", "Ready");
  const char *reason = "", *message = "", *hash = "";
  bool head = text_eq (json_str (labels, RAY_LABEL_NODE_TYPE), "head");
  struct ray_pod p = {
    .created_ms = time_at (pod, "creationTimestamp"),
    .deletion_ms = time_at (pod, "deletionTimestamp"),
    .resource_version = version_of (pod),
    .template_hash
    = strtoull (log_nonnull (json_str (pod, "metadata", "annotations", RAY_ANNOTATION_TEMPLATE_HASH)), NULL, 16),
    .replica_index = index_label (labels, RAY_LABEL_REPLICA_INDEX),
    .host_index = index_label (labels, RAY_LABEL_HOST_INDEX),
    .phase = read_phase (json_str (pod, "status", "phase")),
    .cluster_owned = is_owned_by_cluster (pod, json_str (labels, RAY_LABEL_CLUSTER)),
    .ready = text_eq (json_str (ready, "status"), "True"),
    .ready_known = ready != NULL,
  };
  char buffer[512];

  if (json_str (labels, RAY_LABEL_CLUSTER) == NULL)
    return NULL;
  p.dead = is_dead (pod, p.phase);
  if (head)
    {
      hash = json_str (pod, "metadata", "annotations", RAY_ANNOTATION_RECREATE_HASH);
      reason = json_str (ready, "reason");
      message = json_str (ready, "message");
      explain_not_ready (pod, &reason, &message, buffer, sizeof (buffer));
    }
  return pack (&p, sizeof (p),
               (const struct text_slot[]){
                   { &p.namespace, json_str (pod, "metadata", "namespace") },
                   { &p.name, json_str (pod, "metadata", "name") },
                   { &p.uid, json_str (pod, "metadata", "uid") },
                   { &p.cluster, json_str (labels, RAY_LABEL_CLUSTER) },
                   { &p.group, json_str (labels, RAY_LABEL_GROUP) },
                   { &p.node_type, json_str (labels, RAY_LABEL_NODE_TYPE) },
                   { &p.replica_name, json_str (labels, RAY_LABEL_REPLICA_NAME) },
                   { &p.owner_uid, json_str (controller_owner (pod), "uid") },
                   { &p.ip, json_str (pod, "status", "podIP") },
                   { &p.ready_reason, reason },
                   { &p.ready_message, message },
                   { &p.recreate_hash, hash },
               },
               12);
}

/* Port name -> nodePort, else targetPort, else port, as text (facts §1.5). */
static char *
endpoints_text (const cJSON *service)
{
  cleanup_json cJSON *endpoints = cJSON_CreateObject ();
  const cJSON *port;

  cJSON_ArrayForEach (port, json_get (service, "spec", "ports"))
    {
      int64_t number = json_int (port, 0, "nodePort");
      char text[24];

      if (number == 0)
        number = json_int (port, json_int (port, 0, "port"), "targetPort");
      snprintf (text, sizeof (text), "%lld", (long long) number);
      if (json_str (port, "name") != NULL)
        json_set_str (endpoints, json_str (port, "name"),
                      json_str (port, "targetPort") && !json_int (port, 0, "nodePort") ? json_str (port, "targetPort")
                                                                                       : text);
    }
  return json_print (endpoints);
}

static bool
made_by_us (const cJSON *labels)
{
  return text_eq (json_str (labels, "app.kubernetes.io/created-by"), "kuberay-operator");
}

struct ray_service *
ray_service_digest (const cJSON *service)
{
  const cJSON *labels = json_get (service, "metadata", "labels");
  const char *cluster = json_str (labels, RAY_LABEL_CLUSTER);
  cleanup_free char *endpoints = NULL;
  struct ray_service s = {
    .resource_version = version_of (service),
    .is_head = text_eq (json_str (labels, RAY_LABEL_NODE_TYPE), "head"),
    .deleting = json_get (service, "metadata", "deletionTimestamp") != NULL,
    /* The address of a head or of a slice stays as long as pods may know it. */
    .prunable = made_by_us (labels) && json_get (labels, RAY_LABEL_SERVE) != NULL,
  };

  if (cluster == NULL)
    cluster = json_str (labels, RAY_LABEL_HEADLESS);
  if (cluster == NULL)
    return NULL;
  endpoints = s.is_head ? endpoints_text (service) : NULL;
  return pack (&s, sizeof (s),
               (const struct text_slot[]){
                   { &s.namespace, json_str (service, "metadata", "namespace") },
                   { &s.name, json_str (service, "metadata", "name") },
                   { &s.uid, json_str (service, "metadata", "uid") },
                   { &s.cluster, cluster },
                   { &s.owner_uid, json_str (controller_owner (service), "uid") },
                   { &s.cluster_ip, json_str (service, "spec", "clusterIP") },
                   { &s.endpoints, endpoints },
               },
               7);
}

struct ray_child_seen *
ray_child_digest (enum ray_child_kind kind, const cJSON *object)
{
  const cJSON *labels = json_get (object, "metadata", "labels");
  struct ray_child_seen s = {
    .kind = kind,
    .resource_version = version_of (object),
    .deleting = json_get (object, "metadata", "deletionTimestamp") != NULL,
    .prunable = ray_child_types[kind].prune && made_by_us (labels),
  };

  if (json_str (labels, RAY_LABEL_CLUSTER) == NULL)
    return NULL;
  return pack (&s, sizeof (s),
               (const struct text_slot[]){
                   { &s.namespace, json_str (object, "metadata", "namespace") },
                   { &s.name, json_str (object, "metadata", "name") },
                   { &s.uid, json_str (object, "metadata", "uid") },
                   { &s.cluster, json_str (labels, RAY_LABEL_CLUSTER) },
                   { &s.owner_uid, json_str (controller_owner (object), "uid") },
               },
               5);
}

bool
ray_pod_owned (const struct ray_pod *pod, const struct ray_cluster *cluster)
{
  return text_eq (pod->owner_uid, cluster->uid);
}

bool
ray_pod_orphaned (const struct ray_pod *pod)
{
  return *pod->owner_uid == '\0';
}

bool
ray_pod_of_predecessor (const struct ray_pod *pod, const struct ray_cluster *cluster)
{
  return pod->cluster_owned && !ray_pod_owned (pod, cluster);
}
