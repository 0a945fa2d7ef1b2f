/* reconcile.c - one pass over one RayCluster: observe -> finalizer -> owned objects -> plan -> apply -> status.
 * Level-triggered: it never asks why it runs. */
#include "controller/controller_internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Two status writes of one cluster are at least this far apart: pods that turn ready one by one are told of together.
 */
#define STATUS_INTERVAL_MS 500
/* A cluster that is not ready yet is looked at again this often even if no event comes (facts, complaint #5088); one
 * that is, as seldom as KubeRay's unconditional resync. */
#define RESYNC_PROVISIONING_MS 30000
#define RESYNC_READY_MS 300000
/* Owned objects that an earlier process made are known as soon as they are listed. */
#define CHILDREN_DELAY_MS 10
/* After a conflict the watch needs a moment to bring the newer picture. */
#define CONFLICT_DELAY_MS 50

struct pass
{
  struct controller *c;
  const char *key;
  unsigned term; /* of leadership, when it began */
  cJSON *object;
  struct ray_cluster cluster;
  struct ray_problems problems;
  struct ray_plan plan;
  struct children_result children;
  struct applied applied;
  struct ray_failure failure; /* of both */
  char failure_text[2 * sizeof (((struct applied *) NULL)->failure_text)];
  bool waits_for_orphan; /* that is all that `failure` says */
  bool in_doubt;         /* about what exists: nothing was planned */
  bool status_failed, status_late, status_written;
  bool ready;
  bool ended; /* by its teardown, or before a first look: no status, and the key is scheduled */
};

static bool
is_ours (const struct ray_cluster *cluster)
{
  return !cluster->deleting && !cluster->managed_elsewhere;
}

/* A pass starts anew from the cache; -ENOENT when the cluster is gone. */
static int
observe (struct pass *p, struct cache_snapshot *snapshot)
{
  struct error err = { 0 };

  cache_snapshot_take (p->c->cache, p->key, snapshot);
  if (snapshot->cluster == NULL)
    return -ENOENT;
  ray_cluster_free (&p->cluster);
  cJSON_Delete (p->object);
  p->object = NULL;
  if (json_parse (&p->object, snapshot->text, snapshot->len, &err) < 0
      || ray_cluster_decode (&p->cluster, p->object, NULL, &err) < 0)
    {
      log_error ("cannot read RayCluster", LF_STR ("cluster", p->key), LF_STR ("error", err.message));
      return -EINVAL;
    }
  return 0;
}

/* Whether the last pass ended in a failure, going by what it told the user: then be careful with the first create. */
static bool
failed_before (const struct ray_cluster *cluster)
{
  return json_find (json_get (cluster->object, "status", "conditions"), "type", "ReplicaFailure") != NULL;
}

/* Said once per generation: when the status has not seen this generation yet. */
static bool
is_news (const struct ray_cluster *cluster)
{
  return json_int (cluster->object, -1, "status", "observedGeneration") != cluster->generation;
}

static void
tell_warnings (struct pass *p)
{
  cleanup_problems struct ray_problems warnings = { 0 };

  if (!is_news (&p->cluster))
    return;
  ray_warnings (&p->cluster, &p->c->options.ray, &warnings);
  report_warnings (p->c, &p->cluster, &warnings);
}

/* What the condition says: pods may fail for a reason of their own while something else they do not wait for does. */
static void
note_failure (struct pass *p)
{
  const struct ray_failure *pods = &p->applied.failure, *children = &p->children.failure;

  p->failure = pods->reason != NULL ? *pods : *children;
  if (pods->reason == NULL || children->reason == NULL)
    return;
  snprintf (p->failure_text, sizeof (p->failure_text), "%s; %s", pods->message, children->message);
  p->failure.message = p->failure_text;
}

/* Not a failure of ours, and nothing to try again: the pods wait until it goes. Told once, and in the status for as
 * long as it is so. */
static void
note_orphan (struct pass *p)
{
  const cJSON *told = json_find (json_get (p->cluster.object, "status", "conditions"), "type", "ReplicaFailure");
  const struct ray_group *group = p->plan.orphan_group;

  if (p->plan.orphan == NULL || p->failure.reason != NULL)
    return;
  snprintf (
      p->failure_text, sizeof (p->failure_text),
      "Pod %s (%zu in all) has the labels of group %s and no controller owner, as kubectl delete --cascade=orphan "
      "leaves Pods behind: no other Pod is made in its place, because both would answer to the same names; "
      "delete it: kubectl delete pod -n %s %s",
      p->plan.orphan->name, p->plan.norphans, group->name, p->cluster.namespace, p->plan.orphan->name);
  p->failure
      = (struct ray_failure){ group->is_head ? "FailedCreateHeadPod" : "FailedCreateWorkerPod", p->failure_text };
  p->waits_for_orphan = true;
  if (!text_eq (json_str (told, "message"), p->failure_text))
    report_event (p->c, &p->cluster, KUBE_EVENT_WARNING, "OrphanedPodInTheWay", "Create", p->failure_text);
}

static void
plan_and_apply (struct pass *p, const struct cache_snapshot *snapshot)
{
  children_apply (p->c, p->term, &p->cluster, snapshot, &p->children);
  ray_plan_make (&p->plan, &p->cluster, &snapshot->observed, &p->c->options.plan, clock_wall_ms ());
  if (p->children.gate != RAY_GATE_NONE)
    ray_plan_hold (&p->plan, p->children.gate == RAY_GATE_PODS);
  apply_plan (p->c, &p->cluster, &p->plan, p->term, failed_before (&p->cluster), &p->applied);
  report_applied (p->c, &p->cluster, &p->plan, &p->applied);
  note_failure (p);
  note_orphan (p);
}

static void
write_status (struct pass *p, cJSON *patch)
{
  cleanup_free char *object
      = kube_object_path ("/apis/ray.io/v1", p->cluster.namespace, "rayclusters", p->cluster.name);
  cleanup_free char *path = xasprintf ("%s/status", object);
  cleanup_free char *body = NULL;
  cleanup_response struct kube_response response = { 0 };
  struct kube_request request = { .verb = KUBE_PATCH_MERGE, .path = path };

  /* The uid guards against writing to a successor of the same name. */
  json_set_str (json_obj (patch, "metadata"), "uid", p->cluster.uid);
  request.body = body = json_print (patch);
  controller_request (p->c, p->term, &request, &response);
  cache_set_status_time (p->c->cache, p->key, clock_mono_ms ());
  controller_count (p->c, &p->c->stats.status_writes, 1);
  p->status_written = kube_ok (&response);
  if (p->status_written)
    controller_observe (p->c, CACHE_CLUSTER, response.body);
  else if (response.status != 404 && response.status != 409)
    {
      p->status_failed = true;
      log_warn ("cannot write status", LF_STR ("cluster", p->key), LF_STR ("error", response.error.message));
    }
}

static void
update_status (struct pass *p)
{
  cleanup_snapshot struct cache_snapshot snapshot = { 0 };
  cleanup_json cJSON *status = NULL;
  cleanup_json cJSON *patch = NULL;
  int64_t now = clock_wall_ms (), last = cache_status_time (p->c->cache, p->key);
  int64_t judged = p->cluster.generation;

  if (observe (p, &snapshot) < 0 || !is_ours (&p->cluster) || p->cluster.generation != judged)
    return; /* another spec came meanwhile: the pass that it has called for will judge it */
  status = ray_status_make (&p->cluster, &snapshot.observed, &p->c->options.plan, &p->problems, &p->failure, now);
  p->ready = ray_status_ready (status);
  patch = ray_status_patch (&p->cluster, status, now);
  if (patch == NULL)
    return;
  p->status_late = !controller_in_term (p->c, p->term) || (last != 0 && clock_mono_ms () - last < STATUS_INTERVAL_MS);
  if (!p->status_late)
    write_status (p, patch);
}

static int64_t
resync_ms (const struct pass *p)
{
  int64_t wanted = p->c->options.resync_ms > 0 ? p->c->options.resync_ms : RESYNC_READY_MS;

  return p->ready || wanted < RESYNC_PROVISIONING_MS ? wanted : RESYNC_PROVISIONING_MS;
}

/* What happens to the key next. */
static enum controller_result
schedule (struct pass *p)
{
  struct kube_queue *queue = p->c->queue;
  bool failed
      = (p->failure.reason != NULL && !p->waits_for_orphan) || p->status_failed || p->children.failed || p->in_doubt;

  /* An old picture is soon mended by the watch; should that be down, the backoff keeps us from asking for ever. */
  if (failed || p->applied.conflict)
    kube_queue_retry (queue, p->key);
  else
    kube_queue_forget (queue, p->key);
  if (p->applied.unfinished)
    kube_queue_add (queue, p->key);
  if (p->status_late)
    kube_queue_add_after (queue, p->key, STATUS_INTERVAL_MS);
  /* The suspend machine moves on what the status says (facts §2.6), and our own status writes wake nobody. */
  if (p->status_written && (p->cluster.suspend || ray_suspension_of (&p->cluster) != RAY_ACTIVE))
    kube_queue_add_after (queue, p->key, CONFLICT_DELAY_MS);
  if (p->plan.requeue_ms > 0)
    kube_queue_add_after (queue, p->key, p->plan.requeue_ms);
  if (p->children.requeue_ms > 0)
    kube_queue_add_after (queue, p->key, p->children.requeue_ms);
  if (p->problems.count > 0)
    return CONTROLLER_INVALID;
  kube_queue_add_after (queue, p->key, resync_ms (p));
  if (failed)
    return CONTROLLER_FAILED;
  return p->applied.unfinished || p->applied.conflict ? CONTROLLER_REQUEUED : CONTROLLER_OK;
}

/* Finds out about pods whose creation was not answered; false when that cannot be found out now. */
static bool
settle_doubts (struct pass *p)
{
  cleanup_free char *namespace = xasprintf ("%.*s", (int) strcspn (p->key, "/"), p->key);

  for (;;)
    {
      cleanup_free char *pod = cache_doubt_any (p->c->cache, p->key);
      cleanup_free char *path = NULL;
      cleanup_response struct kube_response response = { 0 };
      struct kube_request request = { .verb = KUBE_GET };

      if (pod == NULL)
        return true;
      request.path = path = kube_object_path ("/api/v1", namespace, "pods", pod);
      controller_request (p->c, p->term, &request, &response);
      if (kube_ok (&response))
        controller_observe (p->c, CACHE_POD, response.body);
      else if (response.status != 404)
        return false;
      cache_doubt_drop (p->c->cache, p->key, pod);
    }
}

/* Whether the pass ends with it. */
static bool
tear_down (struct pass *p, const struct cache_snapshot *snapshot)
{
  struct teardown_result result;

  p->ended = teardown_run (p->c, p->term, &p->cluster, &snapshot->observed, &result);
  if (p->ended && result.retry)
    kube_queue_retry (p->c->queue, p->key);
  else if (p->ended)
    kube_queue_forget (p->c->queue, p->key);
  if (p->ended && result.requeue_ms > 0)
    kube_queue_add_after (p->c->queue, p->key, result.requeue_ms);
  return p->ended;
}

static enum controller_result
run (struct pass *p)
{
  cleanup_snapshot struct cache_snapshot snapshot = { 0 };
  bool settled = settle_doubts (p);
  int ret = observe (p, &snapshot);

  if (ret == 0 && !p->cluster.managed_elsewhere && p->cluster.deleting)
    {
      tear_down (p, &snapshot);
      return CONTROLLER_OK;
    }
  if (ret < 0 || !is_ours (&p->cluster))
    {
      if (settled)
        kube_queue_forget (p->c->queue, p->key);
      else
        kube_queue_retry (p->c->queue, p->key);
      return ret == -EINVAL ? CONTROLLER_INVALID : CONTROLLER_OK;
    }
  if (json_get (p->cluster.object, "status") != NULL && !controller_children_known (p->c))
    {
      p->ended = true;
      kube_queue_add_after (p->c->queue, p->key, CHILDREN_DELAY_MS);
      return CONTROLLER_REQUEUED;
    }
  ray_validate (&p->cluster, &p->c->options.ray, &p->problems);
  p->in_doubt = !settled;
  if (p->problems.count == 0 && settled)
    {
      if (tear_down (p, &snapshot))
        return CONTROLLER_REQUEUED;
      tell_warnings (p);
      plan_and_apply (p, &snapshot);
    }
  else if (p->problems.count > 0 && is_news (&p->cluster))
    report_problems (p->c, &p->cluster, &p->problems);
  return CONTROLLER_OK;
}

enum controller_result
reconcile_cluster (struct controller *c, const char *key)
{
  struct pass p = { .c = c, .key = key, .term = atomic_load (&c->term) };
  enum controller_result result = run (&p);

  if (p.object != NULL && !p.ended && is_ours (&p.cluster))
    {
      if (!p.in_doubt)
        update_status (&p);
      result = schedule (&p);
    }
  ray_plan_free (&p.plan);
  ray_problems_free (&p.problems);
  ray_cluster_free (&p.cluster);
  cJSON_Delete (p.object);
  return result;
}
