/* teardown.c - carries out what ray/teardown.h decides about the Redis finalizer. */
#include "controller/controller_internal.h"

#include <stdio.h>
#include <string.h>

/* Requests of one pass: look at the Job, make it, give up on it. */
#define MAX_STEPS 4
/* The Job is polled: nobody watches Jobs. */
#define POLL_MS 2000
/* After writes that got on: the cache knows their answers. */
#define AGAIN_MS 50

struct work
{
  struct controller *c;
  unsigned term; /* of the pass */
  const struct ray_cluster *cluster;
  const struct ray_observed *observed;
  enum ray_job_state job;
  struct teardown_result *result;
};

/* It did not work, or our picture is old: the queue's backoff says when to look again, so that a watch that is down
 * does not become a loop of writes. */
static void
back_off (struct work *w)
{
  w->result->retry = true;
}

static void
fail (struct work *w, const char *reason, const char *action, const char *message)
{
  report_event (w->c, w->cluster, KUBE_EVENT_WARNING, reason, action, message);
  back_off (w);
}

static char *
job_path (const struct work *w, const char *name)
{
  return kube_object_path ("/apis/batch/v1", w->cluster->namespace, "jobs", name);
}

/* ---- the finalizer ---- */

/* Guarded by the version that was read: the list is replaced whole. */
static void
write_finalizers (struct work *w, bool add)
{
  cleanup_free char *path
      = kube_object_path ("/apis/ray.io/v1", w->cluster->namespace, "rayclusters", w->cluster->name);
  const cJSON *meta = json_get (w->cluster->object, "metadata"), *item;
  cleanup_json cJSON *patch = cJSON_CreateObject ();
  cJSON *into = json_obj (patch, "metadata"), *list = json_arr (into, "finalizers");
  cleanup_free char *body = NULL;
  cleanup_response struct kube_response response = { 0 };
  struct kube_request request = { .verb = KUBE_PATCH_MERGE, .path = path };

  cJSON_ArrayForEach (item, json_get (meta, "finalizers"))
    if (!text_eq (cJSON_GetStringValue (item), RAY_FINALIZER_REDIS))
      json_push (list, cJSON_Duplicate (item, true));
  if (add)
    json_push_str (list, RAY_FINALIZER_REDIS);
  json_set_copy (into, "resourceVersion", json_get (meta, "resourceVersion"));
  request.body = body = json_print (patch);
  controller_request (w->c, w->term, &request, &response);
  if (kube_ok (&response))
    {
      controller_observe (w->c, CACHE_CLUSTER, response.body);
      w->result->requeue_ms = add ? 1 : 0;
    }
  else if (response.status == 409)
    back_off (w);
  else if (response.status != 404)
    fail (w, "FailedToUpdateRayCluster", "Update", response.error.message);
}

static void
let_go (struct work *w, const struct ray_teardown *t)
{
  if (t->forced)
    {
      cleanup_free char *note = xasprintf ("Let the RayCluster go although its state may still be in Redis, as %s: "
                                           "remove the keys of its external storage namespace by hand",
                                           t->why);

      report_event (w->c, w->cluster, KUBE_EVENT_WARNING, "ForceDeletedStuckCluster", "Cleanup", note);
    }
  write_finalizers (w, false);
}

/* ---- the Job ---- */

static void
look_at_job (struct work *w)
{
  char name[RAY_NAME_SIZE];
  cleanup_free char *path = NULL;
  cleanup_response struct kube_response response = { 0 };
  struct kube_request request = { .verb = KUBE_GET };

  ray_redis_cleanup_name (name, w->cluster);
  request.path = path = job_path (w, name);
  controller_request (w->c, w->term, &request, &response);
  if (response.status != 404 && !kube_ok (&response))
    {
      fail (w, "FailedToCreateRedisCleanupJob", "Cleanup", response.error.message);
      return;
    }
  w->job = response.status == 404 ? RAY_JOB_ABSENT : ray_job_state (response.body, w->cluster);
}

static bool
namespace_ends (const struct kube_response *response)
{
  return response->status == 403
         && json_find (json_get (response->body, "details", "causes"), "reason", "NamespaceTerminating") != NULL;
}

static void
create_job (struct work *w)
{
  cleanup_json cJSON *job = NULL;
  cleanup_free char *path = job_path (w, NULL), *body = NULL;
  cleanup_response struct kube_response response = { 0 };
  struct kube_request request = { .verb = KUBE_POST, .path = path };
  struct error err = { "" };

  if (ray_build_redis_cleanup_job (&job, w->cluster, &w->c->options.ray, &err) == 0)
    {
      request.body = body = json_print (job);
      controller_request (w->c, w->term, &request, &response);
      err = response.error;
    }
  if (kube_ok (&response))
    {
      cleanup_free char *note = xasprintf ("Created Redis cleanup Job %s/%s", w->cluster->namespace,
                                           log_nonnull (json_str (job, "metadata", "name")));

      report_event (w->c, w->cluster, KUBE_EVENT_NORMAL, "CreatedRedisCleanupJob", "Cleanup", note);
    }
  w->job = namespace_ends (&response) ? RAY_JOB_FORBIDDEN : RAY_JOB_RUNNING;
  if (kube_ok (&response) || response.status == 409)
    w->result->requeue_ms = POLL_MS;
  else if (w->job == RAY_JOB_RUNNING)
    fail (w, "FailedToCreateRedisCleanupJob", "Cleanup", err.message);
}

/* ---- pods ---- */

static void
delete_pods (struct work *w)
{
  cleanup_plan struct ray_plan plan = { 0 };
  struct applied applied = { 0 };

  ray_plan_delete_all (&plan, w->cluster, w->observed, "the cluster is being deleted");
  apply_plan (w->c, w->cluster, &plan, w->term, false, &applied);
  report_applied (w->c, w->cluster, &plan, &applied);
  if (applied.failure.reason == NULL && applied.deleted_heads + applied.deleted_workers > 0)
    w->result->requeue_ms = AGAIN_MS;
  else
    back_off (w);
}

/* ---- the machine ---- */

static struct ray_teardown
decide (const struct work *w)
{
  return ray_teardown_next (w->cluster, &w->c->options.ray, w->observed, w->job,
                            w->c->options.plan.terminating_timeout_ms, clock_wall_ms ());
}

static void
take_step (struct work *w, const struct ray_teardown *t)
{
  switch (t->step)
    {
    case RAY_TEARDOWN_LOOK_AT_JOB:
      look_at_job (w);
      break;
    case RAY_TEARDOWN_CREATE_JOB:
      create_job (w);
      break;
    case RAY_TEARDOWN_DELETE_PODS:
      delete_pods (w);
      break;
    case RAY_TEARDOWN_WAIT:
      w->result->requeue_ms = t->requeue_ms;
      break;
    case RAY_TEARDOWN_ADD_FINALIZER:
      write_finalizers (w, true);
      break;
    case RAY_TEARDOWN_REMOVE_FINALIZER:
      let_go (w, t);
      break;
    case RAY_TEARDOWN_NOTHING:
      break;
    }
}

static bool
is_last (enum ray_teardown_step step)
{
  return step == RAY_TEARDOWN_ADD_FINALIZER || step == RAY_TEARDOWN_REMOVE_FINALIZER || step == RAY_TEARDOWN_NOTHING;
}

bool
teardown_run (struct controller *c, unsigned term, const struct ray_cluster *cluster,
              const struct ray_observed *observed, struct teardown_result *result)
{
  struct work w = { .c = c, .term = term, .cluster = cluster, .observed = observed, .result = result };
  struct ray_teardown t = decide (&w);

  *result = (struct teardown_result){ 0 };
  if (t.step == RAY_TEARDOWN_NOTHING)
    return cluster->deleting;
  for (int i = 0; i < MAX_STEPS && controller_in_term (c, term); i++, t = decide (&w))
    {
      take_step (&w, &t);
      if (result->retry)
        result->requeue_ms = t.requeue_ms; /* the backoff may be longer than what is left of the cleanup's time */
      if (is_last (t.step) || result->retry || result->requeue_ms > 0)
        break;
    }
  if (!controller_in_term (c, term))
    back_off (&w); /* what was left undone may be this one's to do again */
  return true;
}
