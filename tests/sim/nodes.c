/* nodes.c - what happens to pods: scheduling, kubelets, failing nodes, eviction, people's kubectl delete, and the
 * garbage collector. */
#include <stdio.h>
#include <string.h>

#include "sim.h"

static bool
is_terminating (const struct object *pod)
{
  return json_get (pod->now->json, "metadata", "deletionTimestamp") != NULL;
}

static const char *
phase_of (const struct object *pod)
{
  return log_nonnull (json_str (pod->now->json, "status", "phase"));
}

static bool
is_finished (const struct object *pod)
{
  return strcmp (phase_of (pod), "Failed") == 0 || strcmp (phase_of (pod), "Succeeded") == 0;
}

static bool
is_ready (const struct object *pod)
{
  return text_eq (json_str (json_find (json_get (pod->now->json, "status", "conditions"), "type", "Ready"), "status"),
                  "True");
}

/* ---- changes of one pod ---- */

static void
put_status (struct object *pod, const char *phase, const char *reason, bool ready)
{
  cJSON *json = server_copy (pod), *status = cJSON_CreateObject (), *condition;
  char ip[32];

  json_set_str (status, "phase", phase);
  json_set_str (status, "reason", reason);
  snprintf (ip, sizeof (ip), "10.0.0.%s", pod->uid + strlen ("uid-"));
  json_set_str (status, "podIP", ip);
  condition = json_push_obj (json_arr (status, "conditions"));
  json_set_str (condition, "type", "Ready");
  json_set_str (condition, "status", ready ? "True" : "False");
  json_set (json, "status", status);
  sim_trace ("pod %s: %s%s%s", pod->name, phase, reason ? " " : ready ? " ready" : "", log_nonnull (reason));
  server_put (pod, json);
}

static bool
schedule (struct object *pod)
{
  size_t first = sim_pick (SIM_NODES);

  for (size_t i = 0; i < SIM_NODES; i++)
    {
      size_t node = (first + i) % SIM_NODES;
      cJSON *json;

      if (sim->node_dead[node])
        continue;
      json = server_copy (pod);
      pod->node = (int) node;
      json_set_int (json_obj (json, "spec"), "nodeName", (int64_t) node);
      sim_trace ("pod %s: on node %zu", pod->name, node);
      server_put (pod, json);
      return true;
    }
  return false;
}

static void
misfortune (struct object *pod)
{
  switch (sim_pick (6))
    {
    case 0:
      put_status (pod, "Failed", NULL, false);
      break;
    case 1:
      put_status (pod, "Failed", "Evicted", false);
      break;
    case 2:
      put_status (pod, "Succeeded", NULL, false);
      break;
    case 3:
      sim_trace ("somebody deletes pod %s", pod->name);
      server_delete (pod);
      break;
    case 4:
      sim_trace ("somebody deletes pod %s by force", pod->name);
      server_remove (pod);
      break;
    default: /* the kubelet restarts, or a probe fails */
      put_status (pod, "Running", NULL, false);
    }
}

/* The next thing in the life of a pod that nothing bad happens to; false: it has come to rest. */
static bool
live_on (struct object *pod)
{
  const char *phase = phase_of (pod);

  if (is_terminating (pod))
    {
      if (pod->node >= 0 && sim->node_dead[pod->node])
        return false;
      sim_trace ("pod %s: gone", pod->name);
      server_remove (pod);
      return true;
    }
  if (pod->node < 0)
    return schedule (pod);
  if (sim->node_dead[pod->node])
    {
      sim_trace ("pod %s: deleted, its node is dead", pod->name);
      server_delete (pod);
      return true;
    }
  if (strcmp (phase, "Pending") == 0)
    put_status (pod, "Running", NULL, sim->calm || sim_chance (500));
  else if (strcmp (phase, "Running") == 0 && !is_ready (pod))
    put_status (pod, "Running", NULL, true);
  else
    return false;
  return true;
}

/* The cleanup of a Redis; false: it has ended before. */
static bool
end_job (struct object *job, bool well)
{
  cJSON *json, *condition;

  if (json_get (job->now->json, "status", "conditions") != NULL)
    return false;
  json = server_copy (job);
  condition = json_push_obj (json_arr (json_obj (json, "status"), "conditions"));
  json_set_str (condition, "type", well ? "Complete" : "Failed");
  json_set_str (condition, "status", "True");
  sim_trace ("Job %s ends", job->name);
  server_put (job, json);
  return true;
}

static void
fail_or_mend_node (void)
{
  size_t node = sim_pick (SIM_NODES);

  sim->node_dead[node] = !sim->node_dead[node];
  sim_trace ("node %zu is %s", node, sim->node_dead[node] ? "dead" : "back");
}

/* ---- the steps ---- */

/* Somebody deletes or spoils what the operator owns besides pods. */
static void
spoil_child (struct object *object)
{
  cJSON *json;

  sim_trace ("somebody meddles with %s %s", kind_plural (object->kind), object->name);
  if (sim_chance (500))
    {
      server_remove (object);
      return;
    }
  json = server_copy (object);
  json_drop (json_get (json, "spec"), "selector");
  json_set_str (json_obj (json_get (json, "metadata"), "annotations"), "somebody", "was here");
  server_put (object, json);
}

void
nodes_step (void)
{
  struct object *pod = NULL;

  for (int n = 0; n < 4 && sim->nobjects > 0 && (pod == NULL || pod->kind != KIND_POD); n++)
    pod = sim->objects[sim_pick (sim->nobjects)]; /* mostly it is pods that something happens to */
  if (sim_chance (15))
    fail_or_mend_node ();
  if (pod == NULL || pod->kind == KIND_CLUSTER)
    return;
  if (pod->kind != KIND_POD)
    {
      if (pod->kind == KIND_JOB)
        end_job (pod, sim_chance (800));
      else if (pod->kind != KIND_SECRET && sim_chance (40))
        spoil_child (pod); /* but for Secrets, which nobody watches: it would take minutes until one is missed */
      return;
    }
  if (pod->foreign)
    {
      if (sim_chance (30))
        server_remove (pod);
    }
  else if (pod->node >= 0 && !is_terminating (pod) && !is_finished (pod) && sim_chance (sim->temper.misfortune))
    misfortune (pod);
  else
    live_on (pod);
}

bool
nodes_calm (void)
{
  bool busy = false;

  for (size_t i = sim->nobjects; i-- > 0;)
    if (sim->objects[i]->kind == KIND_POD && !sim->objects[i]->foreign)
      busy |= live_on (sim->objects[i]);
    else if (sim->objects[i]->kind == KIND_JOB)
      busy |= end_job (sim->objects[i], true);
  return busy;
}

/* ---- garbage ---- */

static const char *
owner_of (const struct object *object)
{
  return json_str (cJSON_GetArrayItem (json_get (object->now->json, "metadata", "ownerReferences"), 0), "uid");
}

/* Its owner is there, and does not wait for it to go. */
static bool
is_wanted (const char *uid)
{
  for (size_t i = 0; i < sim->nobjects; i++)
    if (strcmp (sim->objects[i]->uid, uid) == 0)
      return !json_has_finalizer (sim->objects[i]->now->json, SIM_FINALIZER_FOREGROUND);
  return false;
}

bool
collect_garbage (void)
{
  for (size_t i = 0; i < sim->nobjects; i++)
    {
      struct object *object = sim->objects[i];
      const char *owner = owner_of (object);

      if (owner == NULL || object->foreign || is_terminating (object) || is_wanted (owner))
        continue;
      sim_trace ("%s is garbage", object->name);
      server_delete (object);
      return true;
    }
  return false;
}

/* ---- other people's pods ---- */

/* One that looks like a worker of cluster a or b and belongs to somebody else, or one without any label. */
void
nodes_foreign_pod (const char *name)
{
  static const char *const clusters[] = { "a", "b" }, *const groups[] = { "cpu", "tpu", "gpu" };
  cJSON *json = cJSON_CreateObject (), *metadata = json_obj (json, "metadata"), *labels, *owner;
  char index[16];

  json_set_str (metadata, "name", name);
  if (sim_chance (700))
    {
      snprintf (index, sizeof (index), "%zu", sim_pick (4));
      labels = json_obj (metadata, "labels");
      json_set_str (labels, RAY_LABEL_CLUSTER, clusters[sim_pick (2)]);
      json_set_str (labels, RAY_LABEL_NODE_TYPE, sim_chance (800) ? "worker" : "head");
      json_set_str (labels, RAY_LABEL_GROUP, groups[sim_pick (3)]);
      json_set_str (labels, RAY_LABEL_REPLICA_INDEX, index);
    }
  if (sim_chance (300))
    {
      owner = json_push_obj (json_arr (metadata, "ownerReferences"));
      json_set_str (owner, "kind", "ReplicaSet");
      json_set_str (owner, "uid", "uid-of-a-replica-set");
      json_set_bool (owner, "controller", true);
    }
  sim_trace ("somebody makes pod %s", name);
  server_create (KIND_POD, json)->foreign = true;
}
