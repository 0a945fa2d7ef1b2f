/* teardown.c - carries out what ray/teardown.h decides about the Redis finalizer. */
#include "controller/controller_internal.h"

#include <stdio.h>
#include <string.h>

/* Requests of one pass: look at the Job, make it, give up on it. */
#define MAX_STEPS 4
#define RETRY_MS 2000
/* After a write the cache knows its answer; after a conflict the watch needs a moment. */
#define AGAIN_MS 50

struct work
{
  struct controller *c;
  const struct ray_cluster *cluster;
  const struct ray_observed *observed;
  enum ray_job_state job;
};

static char *
job_path (const struct work *w, const char *name)
{
  return controller_path ("/apis/batch/v1", w->cluster->namespace, "jobs", name);
}

/* ---- the finalizer ---- */

/* Guarded by the version that was read: the list is replaced whole. */
static int64_t
write_finalizers (struct work *w, bool add)
{
  cleanup_free char *path = controller_path ("/apis/ray.io/v1", w->cluster->namespace, "rayclusters", w->cluster->name);
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
  controller_request (w->c, &request, &response);
  if (kube_ok (&response))
    {
      controller_observe (w->c, CACHE_CLUSTER, response.body);
      return add ? 1 : 0;
    }
  if (response.status != 409 && response.status != 404)
    {
      report_event (w->c, w->cluster, KUBE_EVENT_WARNING, "FailedToUpdateRayCluster", "Update", response.error.message);
      return RETRY_MS;
    }
  return response.status == 404 ? 0 : AGAIN_MS;
}

static int64_t
let_go (struct work *w, const struct ray_teardown *t)
{
  if (t->forced)
    {
      cleanup_free char *note = xasprintf ("Let the RayCluster go although its state may still be in Redis, as %s: "
                                           "remove the keys of its external storage namespace by hand",
                                           t->why);

      report_event (w->c, w->cluster, KUBE_EVENT_WARNING, "ForceDeletedStuckCluster", "Cleanup", note);
    }
  return write_finalizers (w, false);
}

/* ---- the Job ---- */

static int64_t
look_at_job (struct work *w)
{
  char name[RAY_NAME_SIZE];
  cleanup_free char *path = NULL;
  cleanup_response struct kube_response response = { 0 };
  struct kube_request request = { .verb = KUBE_GET };

  ray_redis_cleanup_name (name, w->cluster);
  request.path = path = job_path (w, name);
  controller_request (w->c, &request, &response);
  if (response.status != 404 && !kube_ok (&response))
    {
      report_event (w->c, w->cluster, KUBE_EVENT_WARNING, "FailedToCreateRedisCleanupJob", "Cleanup",
                    response.error.message);
      return RETRY_MS;
    }
  w->job = response.status == 404 ? RAY_JOB_ABSENT : ray_job_state (response.body);
  return 0;
}

static bool
namespace_ends (const struct kube_response *response)
{
  return response->status == 403
         && json_find (json_get (response->body, "details", "causes"), "reason", "NamespaceTerminating") != NULL;
}

static int64_t
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
      controller_request (w->c, &request, &response);
      err = response.error;
    }
  if (kube_ok (&response))
    {
      cleanup_free char *note = xasprintf ("Created Redis cleanup Job %s/%s", w->cluster->namespace,
                                           log_nonnull (json_str (job, "metadata", "name")));

      report_event (w->c, w->cluster, KUBE_EVENT_NORMAL, "CreatedRedisCleanupJob", "Cleanup", note);
    }
  else if (response.status != 409)
    report_event (w->c, w->cluster, KUBE_EVENT_WARNING, "FailedToCreateRedisCleanupJob", "Cleanup", err.message);
  w->job = namespace_ends (&response) ? RAY_JOB_FORBIDDEN : RAY_JOB_RUNNING;
  return w->job == RAY_JOB_FORBIDDEN ? 0 : RETRY_MS;
}

/* ---- pods ---- */

static int64_t
delete_pods (struct work *w)
{
  cleanup_plan struct ray_plan plan = { 0 };
  struct applied applied = { 0 };

  ray_plan_delete_all (&plan, w->cluster, w->observed, "the cluster is being deleted");
  apply_plan (w->c, w->cluster, &plan, atomic_load (&w->c->term), false, &applied);
  report_applied (w->c, w->cluster, &plan, &applied);
  return applied.failure.reason != NULL ? RETRY_MS : AGAIN_MS;
}

/* ---- the machine ---- */

static struct ray_teardown
decide (const struct work *w)
{
  return ray_teardown_next (w->cluster, &w->c->options.ray, w->observed, w->job,
                            w->c->options.plan.terminating_timeout_ms, clock_wall_ms ());
}

bool
teardown_run (struct controller *c, const struct ray_cluster *cluster, const struct ray_observed *observed,
              int64_t *requeue_ms)
{
  struct work w = { .c = c, .cluster = cluster, .observed = observed };
  struct ray_teardown t = decide (&w);

  *requeue_ms = 0;
  if (t.step == RAY_TEARDOWN_NOTHING)
    return cluster->deleting;
  for (int i = 0; i < MAX_STEPS && *requeue_ms == 0 && controller_leads (c); i++, t = decide (&w))
    switch (t.step)
      {
      case RAY_TEARDOWN_LOOK_AT_JOB:
        *requeue_ms = look_at_job (&w);
        break;
      case RAY_TEARDOWN_CREATE_JOB:
        *requeue_ms = create_job (&w);
        break;
      case RAY_TEARDOWN_DELETE_PODS:
        *requeue_ms = delete_pods (&w);
        break;
      case RAY_TEARDOWN_WAIT:
        *requeue_ms = t.requeue_ms;
        break;
      case RAY_TEARDOWN_ADD_FINALIZER:
        *requeue_ms = write_finalizers (&w, true);
        return true;
      case RAY_TEARDOWN_REMOVE_FINALIZER:
        *requeue_ms = let_go (&w, &t);
        return true;
      case RAY_TEARDOWN_NOTHING:
        return true;
      }
  if (*requeue_ms == 0 && !controller_leads (c))
    *requeue_ms = RETRY_MS;
  return true;
}
