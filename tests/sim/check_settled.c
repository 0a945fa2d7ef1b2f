/* check_settled.c - what must hold at the end, when all has come to rest. */
#include <string.h>

#include "check.h"
#include "ray/plan_internal.h"

/* That a slice was complete must outlive its operator. An entry of a later incarnation speaks of the successor. */
static void
settled_ledger (const struct ray_cluster *cluster, const struct slice_record *r)
{
  cleanup_ledger struct ray_ledger ledger = { 0 };
  struct ray_ledger_entry entry;

  ray_ledger_parse (&ledger, json_str (cluster->object, "metadata", "annotations", RAY_ANNOTATION_SLICES));
  entry = ray_ledger_get (&ledger, r->group, r->index);
  if (!entry.complete && entry.incarnation == 0)
    sim_fail ("at the end it is not written down that slice %s of %s is complete", r->key, cluster->name);
}

/* Autoscaling keeps the operator from choosing victims, so that there may be more than asked for. */
static void
settled_group (const struct ray_cluster *cluster, const struct ray_group *group, bool suspended)
{
  int64_t complete = 0, wanted = suspended ? 0 : group->replicas;
  bool may_exceed = cluster->autoscaling && !group->is_head && !group->suspend && !suspended;
  uint64_t indices = 0;

  for (size_t i = 0; i < sim->nslices; i++)
    {
      const struct slice_record *r = &sim->slices[i];
      struct slice_now now;

      if (!slice_belongs (r, cluster->uid, group))
        continue;
      now = slice_look (r);
      if (now.live == 0)
        continue;
      if (!slice_is_complete (&now, group))
        sim_fail ("at the end slice %s of %s/%s is not whole", r->key, cluster->name, group->name);
      if (slice_is_listed (group, r))
        sim_fail ("at the end slice %s of %s/%s is there although named in workersToDelete", r->key, cluster->name,
                  group->name);
      if (group->hosts > 1)
        settled_ledger (cluster, r);
      if (indices & (uint64_t) 1 << r->index)
        sim_fail ("at the end two slices of %s/%s have index %d", cluster->name, group->name, r->index);
      indices |= (uint64_t) 1 << r->index;
      complete++;
    }
  if (complete != wanted && !(may_exceed && complete > wanted))
    sim_fail ("at the end %s/%s has %lld slices, %lld were asked for", cluster->name, group->name, (long long) complete,
              (long long) wanted);
}

static void
settled_status (const struct ray_cluster *cluster, int64_t workers, bool surplus)
{
  const cJSON *status = json_get (cluster->object, "status"), *conditions = json_get (status, "conditions");

  if (json_int (status, -1, "observedGeneration") != cluster->generation)
    sim_fail ("at the end the status of %s is of an old generation", cluster->name);
  if (json_int (status, -1, "readyWorkerReplicas") != workers)
    sim_fail ("at the end %s tells of %lld ready workers, there are %lld", cluster->name,
              (long long) json_int (status, -1, "readyWorkerReplicas"), (long long) workers);
  if (cluster->suspend && !text_eq (json_str (json_find (conditions, "type", "RayClusterSuspended"), "status"), "True"))
    sim_fail ("at the end %s is not suspended although it was asked to be", cluster->name);
  if (!cluster->suspend && !surplus && !text_eq (json_str (status, "state"), "ready"))
    sim_fail ("at the end %s is not ready but %s", cluster->name, log_nonnull (json_str (status, "state")));
  if (json_find (conditions, "type", "ReplicaFailure") != NULL)
    sim_fail ("at the end %s still tells of a failure", cluster->name);
}

static void
settled_service (const struct ray_cluster *cluster)
{
  char name[RAY_NAME_SIZE];
  const struct object *service;

  ray_head_service_name (name, cluster);
  service = server_find (KIND_SERVICE, name);
  if (service == NULL
      || !text_eq (
          json_str (cJSON_GetArrayItem (json_get (service->now->json, "metadata", "ownerReferences"), 0), "uid"),
          cluster->uid))
    sim_fail ("at the end %s has no head Service", cluster->name);
  else if (json_get (service->now->json, "spec", "selector") == NULL)
    sim_fail ("at the end the head Service of %s is not repaired", cluster->name);
}

static void
settled_cluster (const struct ray_cluster *cluster)
{
  int64_t workers = 0;

  settled_service (cluster);

  settled_group (cluster, &cluster->head, cluster->suspend);
  for (size_t i = 0; i < cluster->ngroups; i++)
    settled_group (cluster, &cluster->groups[i], cluster->suspend);
  for (size_t i = 0; i < sim->nobjects; i++)
    {
      const struct ray_pod *p = sim->objects[i]->now->pod;

      if (p == NULL || !pod_is_live (p) || strcmp (p->owner_uid, cluster->uid) != 0)
        continue;
      if (text_eq (p->node_type, "worker"))
        workers++;
      if (cluster_recreates (cluster) && pod_is_outdated (p, cluster))
        sim_fail ("at the end pod %s is not of the spec, which is to recreate pods", p->name);
      if (ray_cluster_group (cluster, slice_group (p)) == NULL)
        sim_fail ("at the end pod %s is there although its group is not", p->name);
    }
  settled_status (cluster, workers, workers > (cluster->suspend ? 0 : ray_cluster_desired_workers (cluster)));
}

void
check_settled (void)
{
  for (size_t i = 0; i < sim->nobjects; i++)
    {
      struct object *object = sim->objects[i];

      if (object->kind != KIND_CLUSTER)
        continue;
      if (!object->now->cluster->deleting)
        settled_cluster (object->now->cluster);
      else if (json_has_finalizer (object->now->json, RAY_FINALIZER_REDIS))
        sim_fail ("at the end %s, which was deleted, is still held", object->name);
    }
}
