/* check.c - what must hold: after every step (asked at the server, when a request takes effect) and at the end. The
 * judge sees the server's truth; an operator is held to what was true at some moment since its picture was made. */
#include <stdio.h>
#include <string.h>

#include "sim.h"
#include "ray/plan_internal.h"

/* ---- slices, as they are on the server ---- */

static const char *
slice_key (const struct ray_pod *p)
{
  return p->replica_name[0] != '\0' ? p->replica_name : p->uid;
}

static const char *
group_name (const struct ray_pod *p)
{
  return text_eq (p->node_type, "head") ? RAY_HEAD_GROUP : p->group;
}

static struct slice_record *
record_of (const struct ray_pod *p)
{
  struct slice_record *r;

  for (size_t i = 0; i < sim->nslices; i++)
    {
      r = &sim->slices[i];
      if (strcmp (r->key, slice_key (p)) == 0 && strcmp (r->uid, p->owner_uid) == 0
          && strcmp (r->group, group_name (p)) == 0)
        return r;
    }
  sim->slices = xgrow (sim->slices, sim->nslices, &sim->slices_cap, sizeof (*sim->slices));
  r = &sim->slices[sim->nslices++];
  *r = (struct slice_record){ .index = text_eq (p->node_type, "head") ? 0 : p->replica_index };
  snprintf (r->uid, sizeof (r->uid), "%s", p->owner_uid);
  snprintf (r->group, sizeof (r->group), "%s", group_name (p));
  snprintf (r->key, sizeof (r->key), "%s", slice_key (p));
  return r;
}

static bool
is_live (const struct ray_pod *p)
{
  return p->deletion_ms == 0;
}

static bool
is_sound (const struct revision *v)
{
  return v != NULL && is_live (v->pod) && !v->pod->dead;
}

struct slice_now
{
  int64_t live, bad, hosts_seen; /* bad: dead or terminating; hosts_seen: distinct host indices */
  int64_t top;                   /* the highest host index */
  bool named;                    /* has a replica name */
};

static struct slice_now
look (const struct slice_record *r)
{
  struct slice_now now = { .top = -1 };
  uint64_t hosts = 0;

  for (size_t i = 0; i < sim->nobjects; i++)
    {
      const struct ray_pod *p = sim->objects[i]->now->pod;

      if (p == NULL || strcmp (slice_key (p), r->key) != 0 || strcmp (p->owner_uid, r->uid) != 0
          || strcmp (group_name (p), r->group) != 0)
        continue;
      now.named |= p->replica_name[0] != '\0';
      now.bad += p->dead || !is_live (p);
      now.live += is_live (p);
      hosts |= p->host_index >= 0 ? (uint64_t) 1 << p->host_index : 1;
      if (p->host_index > now.top)
        now.top = p->host_index;
    }
  now.hosts_seen = __builtin_popcountll (hosts);
  return now;
}

/* Every host there, none too many, none doomed. */
static bool
is_complete (const struct slice_now *now, const struct ray_group *group)
{
  bool shape = group->is_head || now->named == (group->hosts > 1);

  return shape && now->bad == 0 && now->live == group->hosts && now->hosts_seen == group->hosts
         && now->top < group->hosts;
}

/* May become or stay one of the replicas asked for. */
static bool
is_viable (const struct slice_record *r, const struct slice_now *now, const struct ray_group *group)
{
  bool shape = group->is_head || (now->named == (group->hosts > 1) && now->top < group->hosts);

  return shape && now->live > 0 && now->bad == 0 && !(r->recorded && now->live < group->hosts);
}

/* ---- what the user wanted since ---- */

struct window
{
  const char *uid;
  uint64_t since;
  size_t next; /* in the log, backwards */
  bool end;
};

/* The states of one RayCluster that were current at `since` or later, newest first; NULL at the end. */
static const struct ray_cluster *
window_next (struct window *w)
{
  while (!w->end && w->next > 0)
    {
      const struct change *change = &sim->log[--w->next];

      if (change->kind != KIND_CLUSTER || change->after == NULL || strcmp (change->after->cluster->uid, w->uid) != 0)
        continue;
      w->end = change->rv <= w->since;
      return change->after->cluster;
    }
  return NULL;
}

static bool
lists (const struct ray_group *group, const struct slice_record *r)
{
  const cJSON *item;

  cJSON_ArrayForEach (item, group->workers_to_delete)
    {
      const struct object *pod = server_find (KIND_POD, log_nonnull (cJSON_GetStringValue (item)));

      if (pod != NULL && pod->now->pod != NULL && strcmp (slice_key (pod->now->pod), r->key) == 0)
        return true;
    }
  return false;
}

static bool
belongs (const struct slice_record *r, const char *uid, const struct ray_group *group)
{
  return strcmp (r->uid, uid) == 0 && strcmp (r->group, group->name) == 0;
}

/* Slices that somebody whose picture is of `pod_view` may count as replicas. */
static int64_t
count_slices (const char *uid, const struct ray_group *group, uint64_t pod_view)
{
  int64_t n = 0;

  for (size_t i = 0; i < sim->nslices; i++)
    {
      const struct slice_record *r = &sim->slices[i];
      struct slice_now now;

      if (!belongs (r, uid, group))
        continue;
      now = look (r);
      n += (now.live > 0 && now.bad == 0) || r->broken_rv > pod_view;
    }
  return n;
}

/* ---- after every change ---- */

void
check_pod_changed (const struct change *change)
{
  const struct revision *v = change->after ? change->after : change->before;

  if (v->pod == NULL || v->pod->owner_uid[0] == '\0')
    return;
  /* Also when what was broken goes: what is left may look whole, after a change of numOfHosts above all. */
  if (!is_sound (change->after) && (is_sound (change->before) || change->after == NULL))
    record_of (v->pod)->broken_rv = change->rv;
}

/* Which slices the ledger now calls complete. */
void
check_cluster_changed (const struct change *change)
{
  cleanup_ledger struct ray_ledger ledger = { 0 };
  const struct ray_cluster *cluster;

  if (change->after == NULL)
    return;
  cluster = change->after->cluster;
  ray_ledger_parse (&ledger, json_str (cluster->object, "metadata", "annotations", RAY_ANNOTATION_SLICES));
  for (size_t i = 0; i < sim->nslices; i++)
    {
      struct slice_record *r = &sim->slices[i];

      if (strcmp (r->uid, cluster->uid) == 0 && ray_ledger_get (&ledger, r->group, r->index).complete)
        {
          struct slice_now now = look (r);

          r->recorded |= now.live > 0 && now.named;
        }
    }
}

/* ---- creation ---- */

static bool
same_host (const struct ray_pod *a, const struct ray_pod *b)
{
  if (text_eq (a->node_type, "head"))
    return true;
  return a->replica_index == b->replica_index && a->host_index == b->host_index;
}

static void
compare_with (const struct ray_pod *p, const struct ray_pod *other)
{
  bool same_index = text_eq (p->node_type, "head") || p->replica_index == other->replica_index;
  bool same_slice = strcmp (slice_key (p), slice_key (other)) == 0;

  if (is_live (other) && same_slice && p->host_index == other->host_index)
    sim_fail ("two live pods are one host of a slice: %s and %s", p->name, other->name);
  if (sim->overlap)
    return;
  if (is_live (other) && same_host (p, other))
    sim_fail ("two live pods have the same worker id: %s and %s", p->name, other->name);
  else if (is_live (other) && same_index && !same_slice)
    sim_fail ("two live slices have the same replica index: %s and %s", p->name, other->name);
  else if (!is_live (other) && same_index && !same_slice
           && other->deletion_ms + ray_default_plan_options.terminating_timeout_ms > clock_wall_ms ())
    sim_fail ("a replica index is used again while a pod still carries it: %s and %s", p->name, other->name);
}

static void
check_count (const struct call *call, const struct ray_pod *p)
{
  struct window w = { .uid = p->owner_uid, .since = call->cluster_view, .next = sim->nlog };
  const struct ray_cluster *cluster;
  int64_t asked = 0, fewest = INT64_MAX;

  while ((cluster = window_next (&w)) != NULL)
    {
      const struct ray_group *group = ray_cluster_group (cluster, group_name (p));
      int64_t n = 0;

      if (group == NULL)
        continue;
      asked = group->replicas > asked ? group->replicas : asked;
      for (size_t i = 0; i < sim->nslices; i++)
        {
          const struct slice_record *r = &sim->slices[i];
          struct slice_now now;

          if (!belongs (r, p->owner_uid, group))
            continue;
          now = look (r);
          n += is_viable (r, &now, group) && !lists (group, r);
        }
      fewest = n < fewest ? n : fewest;
    }
  if (fewest != INT64_MAX && fewest > asked)
    sim_fail ("group %s has %lld slices, %lld were asked for: %s is too many", group_name (p), (long long) fewest,
              (long long) asked, p->name);
}

void
check_create (const struct call *call, const struct object *pod)
{
  const struct ray_pod *p = pod->now->pod;
  struct slice_record *r;
  struct slice_now now;

  if (p == NULL || p->owner_uid[0] == '\0')
    {
      sim_fail ("a pod without label or owner is created: %s", pod->name);
      return;
    }
  r = record_of (p);
  for (size_t i = 0; i < sim->nobjects; i++)
    {
      const struct ray_pod *other = sim->objects[i]->now->pod;

      if (sim->objects[i] != pod && other != NULL && strcmp (other->owner_uid, p->owner_uid) == 0
          && strcmp (group_name (other), group_name (p)) == 0)
        compare_with (p, other);
    }
  if (sim->overlap)
    return;
  now = look (r);
  if (now.live + now.bad == 1)
    {
      /* What is known is of an earlier life: the name is free, the ledger may have been forgotten with the group. */
      r->recorded = false;
      r->broken_rv = 0;
    }
  if (r->recorded)
    sim_fail ("a slice known to have been complete gets a new host instead of being replaced: %s", p->name);
  if (now.live == 1)
    check_count (call, p);
}

/* ---- deletion ---- */

/* Whether the pod is one of a RayCluster with the name of this pass, present or past. */
static bool
is_own (const struct call *call, const struct object *pod)
{
  const char *name = strchr (call->key, '/') + 1;

  if (pod->now->pod == NULL)
    return false;
  for (size_t i = 0; i < sim->nlog; i++)
    if (sim->log[i].kind == KIND_CLUSTER && sim->log[i].after != NULL
        && strcmp (sim->log[i].after->cluster->uid, pod->now->pod->owner_uid) == 0)
      return strcmp (sim->log[i].after->cluster->name, name) == 0;
  return false;
}

static bool
has_twin (const struct slice_record *r)
{
  for (size_t i = 0; i < sim->nslices; i++)
    {
      const struct slice_record *other = &sim->slices[i];

      if (other != r && other->index == r->index && strcmp (other->uid, r->uid) == 0
          && strcmp (other->group, r->group) == 0 && look (other).live > 0)
        return true;
    }
  return false;
}

/* Whether this state of the cluster asks for the end of a complete slice. */
static bool
excuses (const struct ray_cluster *cluster, const struct slice_record *r, const struct slice_now *now,
         uint64_t pod_view)
{
  const struct ray_group *group = ray_cluster_group (cluster, r->group);

  if (cluster->deleting || ray_suspension_of (cluster) != RAY_ACTIVE || group == NULL || !is_complete (now, group)
      || lists (group, r))
    return true;
  if (group->is_head)
    return false;
  return (!cluster->autoscaling || group->suspend) && count_slices (r->uid, group, pod_view) > group->replicas;
}

void
check_delete (const struct call *call, const struct object *pod)
{
  const struct ray_pod *p = pod->now->pod;
  struct window w = { .since = call->cluster_view, .next = sim->nlog };
  const struct ray_cluster *cluster;
  const struct slice_record *r;
  struct slice_now now;

  if (pod->foreign || !is_own (call, pod))
    {
      sim_fail ("a foreign pod is deleted: %s", pod->name);
      return;
    }
  if (!is_live (p) || !server_cluster_exists (p->owner_uid))
    return;
  r = record_of (p);
  now = look (r);
  if (r->broken_rv != 0 || (sim->overlap && has_twin (r)))
    return; /* it lost a host: what is left is to go, although it may look whole after numOfHosts was lowered */
  w.uid = p->owner_uid;
  while ((cluster = window_next (&w)) != NULL)
    if (excuses (cluster, r, &now, call->pod_view))
      return;
  sim_fail ("a complete, healthy slice is touched without a reason: %s", pod->name);
}

void
check_write (const struct call *call)
{
  sim->writes++;
  if (!call->op->active)
    sim_fail ("an operator that does not lead writes: %s %s", kube_verb_name (call->verb), call->path);
  if (sim->quiet)
    sim_fail ("all is as desired, yet something is written: %s %s", kube_verb_name (call->verb), call->path);
  if (call->verb != KUBE_POST && call->verb != KUBE_DELETE && strstr (call->path, "/pods/") != NULL)
    sim_fail ("a pod is changed: %s", call->path);
}

/* ---- the end ---- */

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

      if (!belongs (r, cluster->uid, group))
        continue;
      now = look (r);
      if (now.live == 0)
        continue;
      if (!is_complete (&now, group))
        sim_fail ("at the end slice %s of %s/%s is not whole", r->key, cluster->name, group->name);
      if (lists (group, r))
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

      if (p == NULL || !is_live (p) || strcmp (p->owner_uid, cluster->uid) != 0)
        continue;
      if (text_eq (p->node_type, "worker"))
        workers++;
      if (ray_cluster_group (cluster, group_name (p)) == NULL)
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

      if (object->kind == KIND_CLUSTER && !object->now->cluster->deleting)
        settled_cluster (object->now->cluster);
    }
}
