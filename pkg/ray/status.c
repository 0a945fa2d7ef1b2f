/* status.c - the status subresource, field by field. */
#include "ray/status.h"
#include "ray/ray_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* What the pods of the cluster add up to; pods that are being deleted do not count. */
struct tally
{
  int64_t live, running, ready_workers, available_workers;
  bool all_ready; /* every live pod is Running and not known to be unready */
  const struct ray_pod *head;
  bool any_pod; /* even one that terminates, unless it is stuck */
};

/* Its node is dead: it should have been gone long ago, and may stay for ever. */
static bool
is_stuck (const struct ray_pod *pod, const struct ray_plan_options *options, int64_t now_ms)
{
  return pod->deletion_ms != 0 && pod->deletion_ms + options->terminating_timeout_ms <= now_ms;
}

static struct tally
count_pods (const struct ray_cluster *cluster, const struct ray_observed *observed,
            const struct ray_plan_options *options, int64_t now_ms)
{
  struct tally t = { .all_ready = true };

  for (size_t i = 0; i < observed->npods; i++)
    {
      const struct ray_pod *pod = observed->pods[i];
      bool worker = text_eq (pod->node_type, "worker"), head = text_eq (pod->node_type, "head"), running;

      if (!ray_pod_owned (pod, cluster) || (!worker && !head))
        continue;
      t.any_pod |= !is_stuck (pod, options, now_ms);
      if (head && (t.head == NULL || (t.head->deletion_ms != 0 && pod->deletion_ms == 0)))
        t.head = pod;
      if (pod->deletion_ms != 0)
        continue;
      running = pod->phase == RAY_RUNNING;
      t.live++;
      t.running += running;
      t.available_workers += worker && running;
      t.ready_workers += worker && running && pod->ready;
      t.all_ready &= running && !pod->dead && (pod->ready || !pod->ready_known);
    }
  return t;
}

/* ---- resources ---- */

static bool
is_tpu (const char *name)
{
  return strcmp (name, "google.com/tpu") == 0;
}

static bool
is_cpu (const char *name)
{
  return strcmp (name, "cpu") == 0;
}

static bool
is_memory (const char *name)
{
  return strcmp (name, "memory") == 0;
}

static const struct resource_total
{
  const char *field;
  bool (*matches) (const char *name);
} resource_totals[] = {
  { "desiredCPU", is_cpu },
  { "desiredMemory", is_memory },
  { "desiredGPU", ray_is_gpu_key },
  { "desiredTPU", is_tpu },
};

static void
add_resource (struct quantity *sum, const cJSON *value, int64_t count)
{
  struct quantity q;
  char text[32];

  if (json_is_whole (value))
    snprintf (text, sizeof (text), "%" PRId64, (int64_t) value->valuedouble);
  else
    snprintf (text, sizeof (text), "%s", log_nonnull (cJSON_GetStringValue (value)));
  if (quantity_parse (&q, text, NULL) < 0)
    return;
  q.nano *= count;
  quantity_add (sum, &q);
}

/* Per container a request counts before a limit (facts §1.5). */
static void
add_container (struct quantity *sum, const struct resource_total *total, const cJSON *container, int64_t count)
{
  const cJSON *requests = json_get (container, "resources", "requests"),
              *limits = json_get (container, "resources", "limits");
  const cJSON *item;

  cJSON_ArrayForEach (item, requests)
    if (total->matches (item->string))
      add_resource (sum, item, count);
  cJSON_ArrayForEach (item, limits)
    if (total->matches (item->string) && json_get (requests, item->string) == NULL)
      add_resource (sum, item, count);
}

static void
set_resources (cJSON *status, const struct ray_cluster *cluster)
{
  for (size_t i = 0; i < ARRAY_LEN (resource_totals); i++)
    {
      struct quantity sum = { 0 };
      char text[QUANTITY_TEXT_SIZE];
      const cJSON *container;

      cJSON_ArrayForEach (container, json_get (cluster->head.template, "spec", "containers"))
        add_container (&sum, &resource_totals[i], container, 1);
      for (size_t g = 0; g < cluster->ngroups; g++)
        cJSON_ArrayForEach (container, json_get (cluster->groups[g].template, "spec", "containers"))
          add_container (&sum, &resource_totals[i], container, cluster->groups[g].replicas * cluster->groups[g].hosts);
      quantity_format_text (&sum, text);
      json_set_str (status, resource_totals[i].field, text);
    }
}

/* ---- counts ---- */

static int64_t
saturate (int64_t replicas, int64_t hosts)
{
  return replicas > INT32_MAX / hosts ? INT32_MAX : replicas * hosts;
}

static void
set_counts (cJSON *status, const struct ray_cluster *cluster, const struct tally *t)
{
  int64_t min = 0, max = 0;

  for (size_t i = 0; i < cluster->ngroups; i++)
    if (!cluster->groups[i].suspend)
      {
        min += saturate (cluster->groups[i].min, cluster->groups[i].hosts);
        max += saturate (cluster->groups[i].max, cluster->groups[i].hosts);
      }
  json_set_int (status, "desiredWorkerReplicas", saturate (ray_cluster_desired_workers (cluster), 1));
  json_set_int (status, "minWorkerReplicas", saturate (min, 1));
  json_set_int (status, "maxWorkerReplicas", saturate (max, 1));
  json_set_int (status, "availableWorkerReplicas", t->available_workers);
  json_set_int (status, "readyWorkerReplicas", t->ready_workers);
}

/* ---- head and endpoints ---- */

static void
set_head (cJSON *status, const struct ray_cluster *cluster, const struct ray_observed *observed, const struct tally *t)
{
  const struct ray_service *service = NULL;
  cJSON *head = json_obj (status, "head");
  const char *ip = t->head ? t->head->ip : "";
  char name[RAY_NAME_SIZE];

  ray_head_service_name (name, cluster);
  for (size_t i = 0; i < observed->nservices; i++)
    if (observed->services[i]->is_head && text_eq (observed->services[i]->owner_uid, cluster->uid)
        && (service == NULL || strcmp (observed->services[i]->name, name) == 0))
      service = observed->services[i]; /* one of an earlier name stays as long as pods may know it */
  if (t->head != NULL)
    json_set_str (head, "podName", t->head->name);
  if (ip[0] != '\0')
    json_set_str (head, "podIP", ip);
  if (service == NULL)
    return;
  json_set_str (head, "serviceName", service->name);
  if (strcmp (service->cluster_ip, "None") != 0)
    ip = service->cluster_ip;
  if (ip[0] != '\0')
    json_set_str (head, "serviceIP", ip);
  if (service->endpoints[0] == '{')
    {
      cJSON *endpoints = NULL;

      if (json_parse (&endpoints, service->endpoints, strlen (service->endpoints), NULL) == 0)
        json_set (status, "endpoints", endpoints);
    }
}

/* ---- conditions ---- */

static const cJSON *
old_condition (const struct ray_cluster *cluster, const char *type)
{
  return json_find (json_get (cluster->object, "status", "conditions"), "type", type);
}

static bool
was_true (const struct ray_cluster *cluster, const char *type)
{
  return text_eq (json_str (old_condition (cluster, type), "status"), "True");
}

static void
set_condition (cJSON *status, const struct ray_cluster *cluster, const char *type, const char *value,
               const char *reason, const char *message, int64_t now_ms)
{
  const cJSON *old = old_condition (cluster, type);
  const char *since = json_str (old, "lastTransitionTime");
  char now[CLOCK_RFC3339_SIZE];
  cJSON *condition = json_push_obj (json_arr (status, "conditions"));

  clock_format_rfc3339 (now_ms, now);
  json_set_str (condition, "type", type);
  json_set_str (condition, "status", value);
  json_set_str (condition, "reason", reason);
  json_set_str (condition, "message", message);
  json_set_str (condition, "lastTransitionTime", since && text_eq (json_str (old, "status"), value) ? since : now);
}

static void
condition_head (cJSON *status, const struct ray_cluster *cluster, const struct tally *t, int64_t now_ms)
{
  const struct ray_pod *head = t->head;
  const char *reason = head ? head->ready_reason : "";

  if (head == NULL)
    set_condition (status, cluster, "HeadPodReady", "False", "HeadPodNotFound", "Head Pod not found", now_ms);
  else if (head->deletion_ms != 0)
    set_condition (status, cluster, "HeadPodReady", "False", "HeadPodTerminating", "Head Pod is being deleted", now_ms);
  else
    set_condition (status, cluster, "HeadPodReady",
                   head->ready         ? "True"
                   : head->ready_known ? "False"
                                       : "Unknown",
                   reason[0]     ? reason
                   : head->ready ? "HeadPodRunningAndReady"
                                 : "Unknown",
                   head->ready_message, now_ms);
}

static void
condition_provisioned (cJSON *status, const struct ray_cluster *cluster, bool ready, bool suspended, int64_t now_ms)
{
  static const char type[] = "RayClusterProvisioned";

  if (suspended)
    set_condition (status, cluster, type, "False", "RayClusterPodsProvisioning", "RayCluster has been suspended",
                   now_ms);
  else if (was_true (cluster, type) || ready)
    set_condition (status, cluster, type, "True", "AllPodRunningAndReadyFirstTime",
                   "All Ray Pods are ready for the first time", now_ms);
  else
    set_condition (status, cluster, type, "False", "RayClusterPodsProvisioning",
                   "RayCluster Pods are being provisioned", now_ms);
}

enum ray_suspension
ray_suspension_of (const struct ray_cluster *cluster)
{
  if (was_true (cluster, "RayClusterSuspending"))
    return RAY_SUSPENDING;
  return cluster->suspend || was_true (cluster, "RayClusterSuspended") ? RAY_SUSPENDED : RAY_ACTIVE;
}

/* The machine of facts §2.6; a removed spec.suspend counts as false. Returns whether the cluster is suspended now. */
static bool
condition_suspend (cJSON *status, const struct ray_cluster *cluster, bool any_pod, int64_t now_ms)
{
  bool suspending = was_true (cluster, "RayClusterSuspending"), suspended = was_true (cluster, "RayClusterSuspended");

  if (suspending && !any_pod)
    {
      suspending = false;
      suspended = true;
    }
  else if (suspended)
    suspended = cluster->suspend;
  else if (!suspending)
    suspending = cluster->suspend;
  set_condition (status, cluster, "RayClusterSuspending", suspending ? "True" : "False", "RayClusterSuspending", "",
                 now_ms);
  set_condition (status, cluster, "RayClusterSuspended", suspended ? "True" : "False", "RayClusterSuspended", "",
                 now_ms);
  return suspended;
}

/* Pods are never replaced because of an edit, unless upgradeStrategy says so: then the user must at least know. */
static void
condition_template (cJSON *status, const struct ray_cluster *cluster, const struct ray_observed *observed,
                    int64_t now_ms)
{
  cleanup_buf struct buf message = { 0 };

  for (size_t g = 0; g <= cluster->ngroups; g++)
    {
      const struct ray_group *group = g == 0 ? &cluster->head : &cluster->groups[g - 1];
      uint64_t hash = ray_template_hash (group);
      size_t old = 0;

      for (size_t i = 0; i < observed->npods; i++)
        {
          const struct ray_pod *pod = observed->pods[i];

          old += ray_pod_owned (pod, cluster) && pod->deletion_ms == 0 && text_eq (pod->group, group->name)
                 && pod->template_hash != 0 && pod->template_hash != hash;
        }
      if (old > 0)
        buf_printf (&message, "%s%zu Pods of group %s", message.len ? ", " : "", old, group->name);
    }
  if (message.len == 0)
    return;
  buf_str (&message, " were made from an earlier version of the spec: delete them to have them made anew, or set "
                     "spec.upgradeStrategy.type to Recreate");
  set_condition (status, cluster, "PodTemplateOutOfDate", "True", "SpecChanged", message.data, now_ms);
}

/* What the manifest asks for and this version leaves out must not go unnoticed. */
static void
condition_unsupported (cJSON *status, const struct ray_cluster *cluster, int64_t now_ms)
{
  cleanup_problems struct ray_problems features = { 0 };
  cleanup_free char *text = NULL;

  ray_unsupported (cluster, &features);
  if (features.count == 0)
    return;
  text = ray_problems_text (&features);
  set_condition (status, cluster, "UnsupportedFeature", "True", features.items[0].reason, text, now_ms);
}

static void
condition_problems (cJSON *status, const struct ray_cluster *cluster, const struct ray_problems *problems,
                    int64_t now_ms)
{
  cleanup_free char *text = NULL;

  if (problems->count == 0)
    return;
  text = ray_problems_text (problems);
  set_condition (status, cluster, "InvalidSpec", "True", problems->items[0].reason, text, now_ms);
}

/* ---- the whole ---- */

static void
set_state (cJSON *status, const struct ray_cluster *cluster, const char *state, int64_t now_ms)
{
  const cJSON *old = json_get (cluster->object, "status");
  char now[CLOCK_RFC3339_SIZE];

  json_set_copy (status, "stateTransitionTimes", json_get (old, "stateTransitionTimes"));
  if (state[0] == '\0')
    return;
  json_set_str (status, "state", state);
  clock_format_rfc3339 (now_ms, now);
  if (!text_eq (json_str (old, "state"), state))
    json_set_str (json_obj (status, "stateTransitionTimes"), state, now);
}

cJSON *
ray_status_make (const struct ray_cluster *cluster, const struct ray_observed *observed,
                 const struct ray_plan_options *options, const struct ray_problems *problems,
                 const struct ray_failure *failure, int64_t now_ms)
{
  cJSON *status = cJSON_CreateObject ();
  struct tally t = count_pods (cluster, observed, options, now_ms);
  bool valid = problems->count == 0, failed = failure != NULL && failure->reason != NULL, suspended;
  bool ready
      = valid && !failed && !cluster->suspend && t.all_ready && t.live == ray_cluster_desired_workers (cluster) + 1;

  set_state (status, cluster, ready ? "ready" : cluster->suspend && !t.any_pod ? "suspended" : "", now_ms);
  set_counts (status, cluster, &t);
  if (valid)
    set_resources (status, cluster);
  set_head (status, cluster, observed, &t);
  condition_head (status, cluster, &t, now_ms);
  suspended = condition_suspend (status, cluster, t.any_pod, now_ms);
  condition_provisioned (status, cluster, ready, suspended, now_ms);
  if (failed)
    set_condition (status, cluster, "ReplicaFailure", "True", failure->reason, failure->message, now_ms);
  condition_template (status, cluster, observed, now_ms);
  condition_unsupported (status, cluster, now_ms);
  condition_problems (status, cluster, problems, now_ms);
  json_set_int (status, "observedGeneration", cluster->generation);
  return status;
}

/* What a merge patch must say to make `new` of `old`, both objects: members that are gone are taken back by null, at
 * every depth, for a merge patch leaves alone what it does not name (RFC 7386). */
static cJSON *
merge_diff (const cJSON *old, const cJSON *new)
{
  cJSON *diff = cJSON_CreateObject ();
  const cJSON *item;

  cJSON_ArrayForEach (item, new)
    {
      const cJSON *before = json_get (old, item->string);

      if (json_equal (item, before))
        continue;
      if (cJSON_IsObject (item) && cJSON_IsObject (before))
        json_set (diff, item->string, merge_diff (before, item));
      else
        json_set_copy (diff, item->string, item);
    }
  cJSON_ArrayForEach (item, old)
    if (json_get (new, item->string) == NULL)
      json_set (diff, item->string, cJSON_CreateNull ());
  return diff;
}

cJSON *
ray_status_patch (const struct ray_cluster *cluster, const cJSON *status, int64_t now_ms)
{
  /* What this version writes and may have to take back. */
  static const char *const owned[] = { "state", "reason", "conditions", "head", "endpoints" };
  const cJSON *old = json_get (cluster->object, "status"), *item;
  cleanup_json cJSON *changes = cJSON_CreateObject ();
  cJSON *patch;
  char now[CLOCK_RFC3339_SIZE];

  cJSON_ArrayForEach (item, status)
    {
      const cJSON *before = json_get (old, item->string);

      if (json_equal (item, before))
        continue;
      if (cJSON_IsObject (item) && cJSON_IsObject (before))
        json_set (changes, item->string, merge_diff (before, item));
      else
        json_set_copy (changes, item->string, item);
    }
  for (size_t i = 0; i < ARRAY_LEN (owned); i++)
    if (json_get (old, owned[i]) != NULL && json_get (status, owned[i]) == NULL)
      json_set (changes, owned[i], cJSON_CreateNull ());
  if (changes->child == NULL)
    return NULL;
  clock_format_rfc3339 (now_ms, now);
  json_set_str (changes, "lastUpdateTime", now);
  patch = cJSON_CreateObject ();
  json_set (patch, "status", take_ptr (changes));
  return patch;
}

bool
ray_status_ready (const cJSON *status)
{
  return text_eq (json_str (status, "state"), "ready");
}
