/* user.c - people and autoscalers: RayClusters come, change in every way that matters, go, and come again. */
#include <stdio.h>
#include <string.h>

#include "sim.h"

static const char *const cluster_names[] = { "a", "b" };
static const char *const group_names[] = { "cpu", "tpu", "gpu" };

static cJSON *
make_template (const char *container)
{
  cJSON *template = cJSON_CreateObject (), *spec = json_obj (template, "spec");
  cJSON *item = json_push_obj (json_arr (spec, "containers"));

  json_set_str (item, "name", container);
  json_set_str (item, "image", "ray");
  return template;
}

static void
add_group (cJSON *spec, const char *name)
{
  cJSON *group = json_push_obj (json_arr (spec, "workerGroupSpecs"));

  json_set_str (group, "groupName", name);
  json_set_int (group, "replicas", (int64_t) sim_pick (4));
  json_set_int (group, "minReplicas", 0);
  json_set_int (group, "maxReplicas", 10);
  json_set_int (group, "numOfHosts", (int64_t) sim_pick (3) + 1);
  json_set (group, "template", make_template ("worker"));
}

/* ---- edits ---- */

static cJSON *
some_group (cJSON *json)
{
  cJSON *groups = json_get (json, "spec", "workerGroupSpecs");
  int n = cJSON_GetArraySize (groups);

  return n > 0 ? cJSON_GetArrayItem (groups, (int) sim_pick ((size_t) n)) : NULL;
}

static void
edit_replicas (cJSON *json)
{
  cJSON *group = some_group (json);

  if (group != NULL)
    json_set_int (group, "replicas", (int64_t) sim_pick (4));
}

static void
edit_hosts (cJSON *json)
{
  cJSON *group = some_group (json);

  if (group != NULL)
    json_set_int (group, "numOfHosts", (int64_t) sim_pick (3) + 1);
}

static void
edit_group_suspend (cJSON *json)
{
  cJSON *group = some_group (json);

  if (group != NULL)
    json_set_bool (group, "suspend", !json_bool (group, false, "suspend"));
}

static void
edit_suspend (cJSON *json)
{
  json_set_bool (json_get (json, "spec"), "suspend", !json_bool (json, false, "spec", "suspend"));
}

static void
edit_autoscaling (cJSON *json)
{
  json_set_bool (json_get (json, "spec"), "enableInTreeAutoscaling",
                 !json_bool (json, false, "spec", "enableInTreeAutoscaling"));
}

static void
edit_groups (cJSON *json)
{
  cJSON *groups = json_get (json, "spec", "workerGroupSpecs");
  const char *name = group_names[sim_pick (3)];

  for (int i = 0; i < cJSON_GetArraySize (groups); i++)
    if (text_eq (json_str (cJSON_GetArrayItem (groups, i), "groupName"), name))
      {
        cJSON_DeleteItemFromArray (groups, i);
        return;
      }
  add_group (json_get (json, "spec"), name);
}

static void
edit_template (cJSON *json)
{
  static const char *const images[] = { "ray", "ray:2", "ray:3" };
  cJSON *group = sim_chance (300) ? json_get (json, "spec", "headGroupSpec") : some_group (json);
  cJSON *container = cJSON_GetArrayItem (json_get (group, "template", "spec", "containers"), 0);

  if (container != NULL)
    json_set_str (container, "image", images[sim_pick (ARRAY_LEN (images))]);
}

static void
edit_strategy (cJSON *json)
{
  cJSON *strategy = json_obj (json_get (json, "spec"), "upgradeStrategy");

  json_set_str (strategy, "type", text_eq (json_str (strategy, "type"), "Recreate") ? "None" : "Recreate");
}

static void
edit_metadata (cJSON *json)
{
  static const char *const values[] = { "once", "twice", "again" };

  json_set_str (json_obj (json_get (json, "metadata"), "labels"), "touched", values[sim_pick (ARRAY_LEN (values))]);
}

/* Names of any pods, ours, the other cluster's and foreign ones, and one that never was; as the autoscaler does, with
 * and without lowering `replicas`; or everything is taken back. */
static void
edit_workers_to_delete (cJSON *json)
{
  cJSON *group = some_group (json), *list;

  if (group == NULL)
    return;
  json_drop (group, "scaleStrategy");
  if (sim_chance (300))
    return;
  list = json_arr (json_obj (group, "scaleStrategy"), "workersToDelete");
  for (size_t i = 0, n = 1 + sim_pick (3); i < n && sim->nobjects > 0; i++)
    {
      const struct object *object = sim->objects[sim_pick (sim->nobjects)];

      json_push_str (list, object->kind == KIND_POD ? object->name : "never-was");
    }
  if (sim_chance (500) && json_int (group, 0, "replicas") > 0)
    json_set_int (group, "replicas", json_int (group, 0, "replicas") - 1);
}

static const struct edit
{
  const char *what;
  unsigned weight;
  void (*change) (cJSON *json);
} edits[] = {
  { "changes replicas", 6, edit_replicas },
  { "changes numOfHosts", 1, edit_hosts },
  { "suspends or resumes a group", 1, edit_group_suspend },
  { "suspends or resumes the cluster", 2, edit_suspend },
  { "switches autoscaling", 1, edit_autoscaling },
  { "adds or removes a group", 2, edit_groups },
  { "labels the cluster", 1, edit_metadata },
  { "changes a template", 2, edit_template },
  { "changes the upgrade strategy", 1, edit_strategy },
  { "names workers to delete", 4, edit_workers_to_delete },
};

static void
edit_cluster (struct object *cluster)
{
  size_t total = 0, choice;

  for (size_t i = 0; i < ARRAY_LEN (edits); i++)
    total += edits[i].weight;
  choice = sim_pick (total);
  for (size_t i = 0; i < ARRAY_LEN (edits); i++)
    if (choice < edits[i].weight)
      {
        cJSON *json = server_copy (cluster);

        edits[i].change (json);
        sim_trace ("user of %s %s", cluster->name, edits[i].what);
        server_put (cluster, json);
        return;
      }
    else
      choice -= edits[i].weight;
}

/* ---- coming and going ---- */

static void
create_cluster (const char *name)
{
  cJSON *json = cJSON_CreateObject (), *spec = json_obj (json, "spec");

  json_set_str (json, "apiVersion", "ray.io/v1");
  json_set_str (json, "kind", "RayCluster");
  json_set_str (json_obj (json, "metadata"), "name", name);
  json_set_str (spec, "rayVersion", "2.52.0");
  json_set (json_obj (spec, "headGroupSpec"), "template", make_template ("head"));
  for (size_t i = 0, n = 1 + sim_pick (2); i < n && i < ARRAY_LEN (group_names); i++)
    add_group (spec, group_names[i]);
  if (sim_chance (300))
    edit_strategy (json);
  if (sim_chance (200))
    json_set_str (json_obj (spec, "authOptions"), "mode", "token");
  if (sim_chance (250))
    json_set_str (json_obj (spec, "gcsFaultToleranceOptions"), "redisAddress", "redis:6379");
  sim_trace ("user makes RayCluster %s", name);
  server_create (KIND_CLUSTER, json);
}

void
user_begin (void)
{
  create_cluster ("a");
  if (sim_chance (300))
    create_cluster ("b");
}

/* In the background: gone as soon as its finalizers allow, its pods follow. In the foreground: its pods go first. */
static void
delete_cluster (struct object *cluster)
{
  cJSON *json = server_copy (cluster), *metadata = json_get (json, "metadata");
  char stamp[CLOCK_RFC3339_SIZE];

  sim_trace ("user deletes RayCluster %s", cluster->name);
  clock_format_rfc3339 (clock_wall_ms (), stamp);
  json_set_str (metadata, "deletionTimestamp", stamp);
  if (sim_chance (500))
    json_push_str (json_arr (metadata, "finalizers"), SIM_FINALIZER_FOREGROUND);
  server_put (cluster, json);
  server_finish (cluster);
}

static bool
has_children (const struct object *cluster)
{
  for (size_t i = 0; i < sim->nobjects; i++)
    {
      const cJSON *owners = json_get (sim->objects[i]->now->json, "metadata", "ownerReferences");

      if (json_find (owners, "uid", cluster->uid) != NULL)
        return true;
    }
  return false;
}

static bool
finish_deletion (struct object *cluster)
{
  cJSON *json, *finalizers;
  int i = 0;

  if (!json_has_finalizer (cluster->now->json, SIM_FINALIZER_FOREGROUND) || has_children (cluster))
    return false;
  json = server_copy (cluster);
  finalizers = json_get (json, "metadata", "finalizers");
  while (!text_eq (cJSON_GetStringValue (cJSON_GetArrayItem (finalizers, i)), SIM_FINALIZER_FOREGROUND))
    i++;
  cJSON_DeleteItemFromArray (finalizers, i);
  server_put (cluster, json);
  server_finish (cluster);
  return true;
}

void
user_step (void)
{
  const char *name = cluster_names[sim_chance (250)];
  struct object *cluster = server_find (KIND_CLUSTER, name);
  char foreign[32];

  if (sim_chance (60))
    {
      snprintf (foreign, sizeof (foreign), "foreign-%u", sim->uids);
      nodes_foreign_pod (foreign);
    }
  else if (cluster == NULL)
    create_cluster (name);
  else if (json_get (cluster->now->json, "metadata", "deletionTimestamp") != NULL)
    finish_deletion (cluster);
  else if (sim_chance (60))
    delete_cluster (cluster);
  else
    edit_cluster (cluster);
}

void
user_step_at_worst (const char *name)
{
  struct object *cluster = server_find (KIND_CLUSTER, name);
  cJSON *json;

  if (cluster == NULL || sim_chance (500))
    {
      user_step ();
      return;
    }
  json = server_copy (cluster);
  edit_hosts (json);
  sim_trace ("user of %s changes numOfHosts", name);
  server_put (cluster, json);
}

/* A spec that the operator must refuse (tested on the way) is mended. */
static bool
mend (struct object *cluster)
{
  cJSON *json;

  if (!cluster->now->cluster->autoscaling)
    return false;
  for (size_t i = 0; i < cluster->now->cluster->ngroups; i++)
    if (cluster->now->cluster->groups[i].suspend)
      {
        json = server_copy (cluster);
        edit_autoscaling (json);
        sim_trace ("user mends %s", cluster->name);
        server_put (cluster, json);
        return true;
      }
  return false;
}

bool
user_calm (void)
{
  for (size_t i = 0; i < ARRAY_LEN (cluster_names); i++)
    {
      struct object *cluster = server_find (KIND_CLUSTER, cluster_names[i]);

      if (cluster != NULL && (finish_deletion (cluster) || mend (cluster)))
        return true;
    }
  return false;
}
