/* check_teardown.c - what pods need before they are made, and what must have happened before a RayCluster that keeps
 * its state in Redis is let go. */
#include <string.h>

#include "check.h"
#include "ray/ray_internal.h"

/* The first owner is the controller: nobody here writes others. */
static bool
is_owned_by (const struct revision *v, const char *uid)
{
  return text_eq (json_str (cJSON_GetArrayItem (json_get (v->json, "metadata", "ownerReferences"), 0), "uid"), uid);
}

static bool
keeps_state (const struct ray_cluster *cluster)
{
  return ray_fault_tolerance (cluster) == RAY_FT_REDIS;
}

/* ---- before a pod is made ---- */

static bool
has_token (const struct ray_cluster *cluster)
{
  char name[RAY_NAME_SIZE];
  const struct object *secret;

  ray_token_secret_name (name, cluster);
  secret = server_find (KIND_SECRET, name);
  return secret != NULL && is_owned_by (secret->now, cluster->uid);
}

void
check_provision (const struct call *call, const struct ray_pod *p)
{
  struct window w = { .uid = p->owner_uid, .since = call->cluster_view, .next = sim->nlog };
  bool protected = false, provided = false, any = false;
  const struct ray_cluster *cluster;

  while ((cluster = window_next (&w)) != NULL)
    {
      any = true;
      protected |= !keeps_state (cluster) || json_has_finalizer (cluster->object, RAY_FINALIZER_REDIS);
      provided |= !ray_needs_token_secret (cluster) || has_token (cluster) || cluster->deleting
                  || !server_cluster_exists (cluster->uid);
    }
  if (any && !protected)
    sim_fail ("a pod is made before the finalizer that protects its cluster's state: %s", p->name);
  if (any && !provided)
    sim_fail ("a pod is made before its token: %s", p->name);
}

/* ---- before a cluster is let go ---- */

static bool
was_cleaned (const struct ray_cluster *cluster)
{
  for (size_t i = sim->nlog; i-- > 0;)
    if (sim->log[i].kind == KIND_JOB && sim->log[i].after != NULL
        && ray_job_state (sim->log[i].after->json, cluster) == RAY_JOB_FINISHED)
      return true;
  return false;
}

/* Whether a head may still write what the Job has removed. */
static const struct ray_pod *
find_writer (const struct ray_cluster *cluster)
{
  for (size_t i = 0; i < sim->nobjects; i++)
    {
      const struct ray_pod *p = sim->objects[i]->now->pod;

      if (p != NULL && strcmp (p->owner_uid, cluster->uid) == 0 && text_eq (p->node_type, "head")
          && (pod_is_live (p) || p->deletion_ms + ray_default_plan_options.terminating_timeout_ms > clock_wall_ms ()))
        return p;
    }
  return NULL;
}

void
check_patch (const struct object *object, const cJSON *json)
{
  const struct ray_cluster *cluster = object->now->cluster;
  const struct ray_pod *writer;
  int64_t since = 0;

  if (!json_has_finalizer (object->now->json, RAY_FINALIZER_REDIS) || json_has_finalizer (json, RAY_FINALIZER_REDIS))
    return;
  clock_parse_rfc3339 (log_nonnull (json_str (object->now->json, "metadata", "deletionTimestamp")), &since);
  if (!cluster->deleting)
    sim_fail ("the state of %s loses its protection although nobody deletes it", object->name);
  else if (since + RAY_DELETION_TIMEOUT_MS <= clock_wall_ms () || !keeps_state (cluster))
    return;
  else if (!was_cleaned (cluster))
    sim_fail ("%s is let go although no Job has removed its state", object->name);
  else if ((writer = find_writer (cluster)) != NULL && !sim->overlap)
    sim_fail ("%s is let go although %s may still write its state", object->name, writer->name);
}
