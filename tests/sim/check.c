/* check.c - what must hold after every step: asked at the server, when a request takes effect. The judge sees the
 * server's truth; an operator is held to what was true at some moment since its picture was made. */
#include <string.h>

#include "check.h"

/* The queue's backoff allows for eight within the first second; events and other failures may add some. */
#define HASTE_MS 1000
#define HASTE_WRITES 14

/* ---- creation ---- */

static bool
same_host (const struct ray_pod *a, const struct ray_pod *b)
{
  if (text_eq (a->node_type, "head"))
    return true;
  return a->replica_index == b->replica_index && a->host_index == b->host_index;
}

/* Other people's pods take no worker id; one without a controller does, for an operator that has heard of it. */
static bool
takes_id (const struct object *object, const struct call *call)
{
  return !object->foreign || (ray_pod_orphaned (object->now->pod) && object->now->rv <= call->pod_view);
}

static void
compare_with (const struct ray_pod *p, const struct ray_pod *other)
{
  bool same_index = text_eq (p->node_type, "head") || p->replica_index == other->replica_index;
  bool same_slice = strcmp (slice_key (p), slice_key (other)) == 0;

  if (pod_is_live (other) && same_slice && p->host_index == other->host_index)
    sim_fail ("two live pods are one host of a slice: %s and %s", p->name, other->name);
  if (sim->overlap)
    return;
  if (pod_is_live (other) && same_host (p, other))
    sim_fail ("two live pods have the same worker id: %s and %s", p->name, other->name);
  else if (pod_is_live (other) && same_index && !same_slice)
    sim_fail ("two live slices have the same replica index: %s and %s", p->name, other->name);
  else if (!pod_is_live (other) && same_index && !same_slice
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
      const struct ray_group *group = ray_cluster_group (cluster, slice_group (p));
      int64_t n = 0;

      if (group == NULL)
        continue;
      asked = group->replicas > asked ? group->replicas : asked;
      for (size_t i = 0; i < sim->nslices; i++)
        {
          const struct slice_record *r = &sim->slices[i];
          struct slice_now now;

          if (!slice_belongs (r, p->owner_uid, group))
            continue;
          now = slice_look (r);
          n += slice_is_viable (r, &now, group) && !slice_is_listed (group, r);
        }
      fewest = n < fewest ? n : fewest;
    }
  if (fewest != INT64_MAX && fewest > asked)
    sim_fail ("group %s has %lld slices, %lld were asked for: %s is too many", slice_group (p), (long long) fewest,
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
  check_name (call, p);
  r = slice_record_of (p);
  for (size_t i = 0; i < sim->nobjects; i++)
    {
      const struct ray_pod *other = sim->objects[i]->now->pod;

      if (sim->objects[i] != pod && other != NULL && takes_id (sim->objects[i], call)
          && strcmp (other->cluster, p->cluster) == 0 && strcmp (slice_group (other), slice_group (p)) == 0)
        compare_with (p, other);
    }
  if (sim->overlap)
    return;
  now = slice_look (r);
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
  check_provision (call, p);
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
          && strcmp (other->group, r->group) == 0 && slice_look (other).live > 0)
        return true;
    }
  return false;
}

/* Some host of it was made after somebody whose picture is of `pod_view` last heard of pods. Beside another operator
 * that has also written down that the slice is complete, such a host is missed as if it were lost. */
static bool
has_unseen_host (const struct slice_record *r, uint64_t pod_view)
{
  for (size_t i = sim->nlog; i-- > 0 && sim->log[i].rv > pod_view;)
    {
      const struct revision *made = sim->log[i].before == NULL ? sim->log[i].after : NULL;

      if (made != NULL && made->pod != NULL && strcmp (slice_key (made->pod), r->key) == 0)
        return true;
    }
  return false;
}

/* Whether there is, or was when somebody last looked, a pod for which all must be recreated. */
static bool
calls_for_recreation (const struct ray_cluster *cluster, uint64_t pod_view)
{
  if (!cluster_recreates (cluster))
    return false;
  for (size_t i = 0; i < sim->nobjects; i++)
    if (sim->objects[i]->now->pod != NULL && pod_is_outdated (sim->objects[i]->now->pod, cluster))
      return true;
  for (size_t i = sim->nlog; i-- > 0 && sim->log[i].rv > pod_view;)
    if (sim->log[i].before != NULL && sim->log[i].before->pod != NULL
        && pod_is_outdated (sim->log[i].before->pod, cluster))
      return true;
  return false;
}

/* Whether this state of the cluster asks for the end of a complete slice. */
static bool
excuses (const struct ray_cluster *cluster, const struct slice_record *r, const struct slice_now *now,
         uint64_t pod_view)
{
  const struct ray_group *group = ray_cluster_group (cluster, r->group);

  if (cluster->deleting || ray_suspension_of (cluster) != RAY_ACTIVE || group == NULL || !slice_is_complete (now, group)
      || slice_is_listed (group, r) || calls_for_recreation (cluster, pod_view))
    return true;
  if (group->is_head)
    return false;
  return (!cluster->autoscaling || group->suspend) && slice_count (r->uid, group, pod_view) > group->replicas;
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
  if (!pod_is_live (p) || !server_cluster_exists (p->owner_uid))
    return;
  r = slice_record_of (p);
  now = slice_look (r);
  if (r->broken_rv != 0 || (sim->overlap && (has_twin (r) || has_unseen_host (r, call->pod_view))))
    return; /* it lost a host: what is left is to go, although it may look whole after numOfHosts was lowered */
  w.uid = p->owner_uid;
  while ((cluster = window_next (&w)) != NULL)
    if (excuses (cluster, r, &now, call->pod_view))
      return;
  sim_fail ("a complete, healthy slice is touched without a reason: %s", pod->name);
}

/* The version a RayCluster is written from, when that is not the newest: such a write is refused, and the next one, of
 * an operator that is catching up, comes from another picture. "" for all other writes. */
static const char *
old_version (const struct call *call)
{
  const char *version = json_str (call->body, "metadata", "resourceVersion");
  const struct object *cluster = server_find (KIND_CLUSTER, strrchr (call->path, '/') + 1);

  if (version == NULL || cluster == NULL || strstr (call->path, "/rayclusters/") == NULL)
    return "";
  return text_eq (version, json_str (cluster->now->json, "metadata", "resourceVersion")) ? "" : version;
}

/* Whatever the answers and however far the watches are behind: nobody hammers the server. */
static void
check_haste (const struct call *call)
{
  uint64_t what = text_hash_str (text_hash_str ((uint64_t) call->op->number, kube_verb_name (call->verb)), call->path);
  int n = 1;

  what = text_hash_str (what, log_nonnull (json_str (call->body, "metadata", "name")));
  what = text_hash_str (what, old_version (call));
  for (size_t i = sim->nsent; i-- > 0 && sim->sent[i].ms > sim->now_ms - HASTE_MS;)
    n += sim->sent[i].what == what;
  sim->sent = xgrow (sim->sent, sim->nsent, &sim->sent_cap, sizeof (*sim->sent));
  sim->sent[sim->nsent++] = (struct sent){ .what = what, .ms = sim->now_ms };
  if (n > HASTE_WRITES)
    sim_fail ("the same is written %d times within a second: %s %s", n, kube_verb_name (call->verb), call->path);
}

void
check_write (const struct call *call)
{
  sim->writes++;
  check_haste (call);
  if (!call->op->active)
    sim_fail ("an operator that does not lead writes: %s %s", kube_verb_name (call->verb), call->path);
  if (sim->quiet)
    sim_fail ("all is as desired, yet something is written: %s %s", kube_verb_name (call->verb), call->path);
  if (call->verb != KUBE_POST && call->verb != KUBE_DELETE && strstr (call->path, "/pods/") != NULL)
    sim_fail ("a pod is changed: %s", call->path);
}
