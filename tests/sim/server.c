/* server.c - a model API server: versioned objects, a log of changes for the watches, and what each verb means. */
#include <stdio.h>
#include <string.h>

#include "sim.h"

/* ---- versions and objects ---- */

const char *
kind_plural (enum kind kind)
{
  static const char *const others[] = { [KIND_CLUSTER] = "rayclusters", [KIND_POD] = "pods", [KIND_JOB] = "jobs" };

  return kind < KIND_CHILD || kind == KIND_JOB ? others[kind] : ray_child_types[kind - KIND_CHILD].plural;
}

enum kind
kind_of_plural (const char *plural)
{
  int kind = 0;

  while (kind < KIND_MAX && strcmp (plural, kind_plural ((enum kind) kind)) != 0)
    kind++;
  return (enum kind) kind;
}

static struct revision *
revision_new (enum kind kind, cJSON *json)
{
  struct revision *v = xcalloc (1, sizeof (*v));
  char number[24];

  snprintf (number, sizeof (number), "%llu", (unsigned long long) ++sim->rv);
  json_set_str (json_obj (json, "metadata"), "resourceVersion", number);
  *v = (struct revision){ .refs = 1, .rv = sim->rv, .kind = kind, .json = json };
  if (kind == KIND_POD)
    v->pod = ray_pod_digest (json);
  if (kind == KIND_CLUSTER)
    {
      v->cluster = xcalloc (1, sizeof (*v->cluster));
      if (ray_cluster_decode (v->cluster, json, SIM_NAMESPACE, NULL) < 0)
        sim_fail ("the model made a RayCluster that cannot be decoded");
    }
  return v;
}

void
revision_unref (struct revision *v)
{
  if (v == NULL || --v->refs > 0)
    return;
  if (v->cluster != NULL)
    ray_cluster_free (v->cluster);
  free (v->cluster);
  free (v->pod);
  cJSON_Delete (v->json);
  free (v);
}

static void
record (enum kind kind, struct revision *before, struct revision *after)
{
  struct change *change;

  sim->log = xgrow (sim->log, sim->nlog, &sim->log_cap, sizeof (*sim->log));
  change = &sim->log[sim->nlog++];
  *change = (struct change){ kind, after ? after->rv : ++sim->rv, sim->now_ms, before, after };
  if (after != NULL)
    after->refs++; /* `before` hands its reference from the store to the log */
  if (kind == KIND_POD)
    check_pod_changed (change);
  else if (kind == KIND_CLUSTER)
    check_cluster_changed (change);
}

struct object *
server_find (enum kind kind, const char *name)
{
  for (size_t i = 0; i < sim->nobjects; i++)
    if (sim->objects[i]->kind == kind && strcmp (sim->objects[i]->name, name) == 0)
      return sim->objects[i];
  return NULL;
}

bool
server_cluster_exists (const char *uid)
{
  for (size_t i = 0; i < sim->nobjects; i++)
    if (sim->objects[i]->kind == KIND_CLUSTER && strcmp (sim->objects[i]->uid, uid) == 0)
      return true;
  return false;
}

struct object *
server_create (enum kind kind, cJSON *json)
{
  cJSON *metadata = json_obj (json, "metadata");
  struct object *object = xcalloc (1, sizeof (*object));
  char stamp[CLOCK_RFC3339_SIZE];

  object->kind = kind;
  object->node = -1;
  snprintf (object->name, sizeof (object->name), "%s", log_nonnull (json_str (metadata, "name")));
  snprintf (object->uid, sizeof (object->uid), "uid-%u", ++sim->uids);
  clock_format_rfc3339 (clock_wall_ms (), stamp);
  json_set_str (metadata, "namespace", SIM_NAMESPACE);
  json_set_str (metadata, "uid", object->uid);
  json_set_str (metadata, "creationTimestamp", stamp);
  if (kind == KIND_CLUSTER)
    json_set_int (metadata, "generation", 1);
  if (kind == KIND_POD)
    json_set_str (json_obj (json, "status"), "phase", "Pending");
  object->now = revision_new (kind, json);
  sim->objects = xgrow (sim->objects, sim->nobjects, &sim->objects_cap, sizeof (struct object *));
  sim->objects[sim->nobjects++] = object;
  record (kind, NULL, object->now);
  return object;
}

cJSON *
server_copy (const struct object *object)
{
  return cJSON_Duplicate (object->now->json, true);
}

void
server_put (struct object *object, cJSON *json)
{
  struct revision *before = object->now;

  if (json_equal (json, before->json))
    {
      cJSON_Delete (json); /* as the API server does: nothing changed, nothing is written */
      return;
    }
  if (object->kind == KIND_CLUSTER && !json_equal (json_get (json, "spec"), json_get (before->json, "spec")))
    json_set_int (json_get (json, "metadata"), "generation", json_int (json, 0, "metadata", "generation") + 1);
  object->now = revision_new (object->kind, json);
  record (object->kind, before, object->now);
}

void
server_remove (struct object *object)
{
  for (size_t i = 0; i < sim->nobjects; i++)
    if (sim->objects[i] == object)
      {
        memmove (&sim->objects[i], &sim->objects[i + 1], (sim->nobjects - i - 1) * sizeof (struct object *));
        sim->nobjects--;
        break;
      }
  record (object->kind, object->now, NULL);
  free (object);
}

bool
json_has_finalizer (const cJSON *object, const char *finalizer)
{
  const cJSON *item;

  cJSON_ArrayForEach (item, json_get (object, "metadata", "finalizers"))
    if (text_eq (cJSON_GetStringValue (item), finalizer))
      return true;
  return false;
}

bool
server_finish (struct object *object)
{
  const cJSON *metadata = json_get (object->now->json, "metadata");

  if (object->kind != KIND_CLUSTER || json_get (metadata, "deletionTimestamp") == NULL
      || cJSON_GetArraySize (json_get (metadata, "finalizers")) > 0)
    return false;
  sim_trace ("RayCluster %s is gone", object->name);
  server_remove (object);
  return true;
}

/* A pod that runs nowhere or has finished goes at once (k8s.io/kubernetes pkg/registry/core/pod CheckGracefulDelete).
 */
void
server_delete (struct object *object)
{
  const char *phase = log_nonnull (json_str (object->now->json, "status", "phase"));
  char stamp[CLOCK_RFC3339_SIZE];
  cJSON *json;

  if (object->kind != KIND_POD || object->node < 0 || strcmp (phase, "Failed") == 0 || strcmp (phase, "Succeeded") == 0)
    {
      server_remove (object);
      return;
    }
  if (json_get (object->now->json, "metadata", "deletionTimestamp") != NULL)
    return;
  json = server_copy (object);
  clock_format_rfc3339 (clock_wall_ms () + SIM_GRACE_MS, stamp);
  json_set_str (json_get (json, "metadata"), "deletionTimestamp", stamp);
  server_put (object, json);
}

void
server_free (void)
{
  for (size_t i = 0; i < sim->nobjects; i++)
    {
      revision_unref (sim->objects[i]->now);
      free (sim->objects[i]);
    }
  for (size_t i = 0; i < sim->nlog; i++)
    {
      revision_unref (sim->log[i].before);
      revision_unref (sim->log[i].after);
    }
  free (sim->objects);
  free (sim->log);
}

/* ---- verbs ---- */

static void
answer (struct call *call, int status, cJSON *body)
{
  call->response.status = status;
  call->response.body = body;
}

void
server_refuse (struct call *call, int status, const char *reason)
{
  answer (call, status, NULL);
  snprintf (call->response.reason, sizeof (call->response.reason), "%s", reason);
  snprintf (call->response.error.message, sizeof (call->response.error.message), "%s %s: %d %s",
            kube_verb_name (call->verb), call->path, status, reason);
}

struct target
{
  enum kind kind;
  char name[128]; /* "": the collection */
  bool status;
};

static bool
parse_path (const char *path, struct target *t)
{
  const char *p = strstr (path, "/namespaces/" SIM_NAMESPACE "/");
  char plural[32] = "", part[32] = "";

  *t = (struct target){ .kind = KIND_MAX };
  if (p == NULL || sscanf (p, "/namespaces/" SIM_NAMESPACE "/%31[^/]/%127[^/]/%31s", plural, t->name, part) < 1)
    return false;
  t->kind = kind_of_plural (plural);
  t->status = strcmp (part, "status") == 0;
  return t->kind != KIND_MAX && (part[0] == '\0' || t->status);
}

int64_t
server_pods_under_quota (void)
{
  int64_t n = 0;

  for (size_t i = 0; i < sim->nobjects; i++)
    {
      const char *phase = log_nonnull (json_str (sim->objects[i]->now->json, "status", "phase"));

      n += sim->objects[i]->kind == KIND_POD && strcmp (phase, "Failed") != 0 && strcmp (phase, "Succeeded") != 0;
    }
  return n;
}

static void
serve_create (struct call *call, const struct target *t)
{
  const char *name = log_nonnull (json_str (call->body, "metadata", "name"));
  struct object *object;

  if (t->kind == KIND_POD && server_pods_under_quota () >= sim->quota)
    server_refuse (call, 403, "Forbidden");
  else if (t->kind == KIND_POD && sim->denied)
    server_refuse (call, 422, "Invalid");
  else if (server_find (t->kind, name) != NULL)
    server_refuse (call, 409, "AlreadyExists");
  else
    {
      object = server_create (t->kind, cJSON_Duplicate (call->body, true));
      if (t->kind == KIND_POD)
        check_create (call, object);
      answer (call, 201, server_copy (object));
    }
}

static void
serve_delete (struct call *call, const struct target *t, struct object *object)
{
  const char *uid = json_str (call->body, "preconditions", "uid");
  cJSON *body;

  if (uid != NULL && strcmp (uid, object->uid) != 0)
    {
      server_refuse (call, 409, "Conflict");
      return;
    }
  if (t->kind == KIND_POD)
    check_delete (call, object);
  body = server_copy (object);
  server_delete (object);
  object = server_find (t->kind, t->name);
  if (object != NULL)
    {
      cJSON_Delete (body);
      body = server_copy (object);
    }
  else
    {
      char number[24];

      snprintf (number, sizeof (number), "%llu", (unsigned long long) sim->rv);
      json_set_str (json_get (body, "metadata"), "resourceVersion", number);
    }
  answer (call, 200, body);
}

static void
merge (cJSON *into, const cJSON *patch)
{
  const cJSON *item;

  cJSON_ArrayForEach (item, patch)
    if (cJSON_IsNull (item))
      json_drop (into, item->string);
    else if (cJSON_IsObject (item))
      {
        cJSON *child = json_get (into, item->string);

        merge (cJSON_IsObject (child) ? child : json_set (into, item->string, cJSON_CreateObject ()), item);
      }
    else
      json_set_copy (into, item->string, item);
}

/* What the path does not write stays as it is: the main resource leaves the status alone and the other way round. */
static void
serve_patch (struct call *call, const struct target *t, struct object *object)
{
  const char *version = json_str (call->body, "metadata", "resourceVersion");
  const char *uid = json_str (call->body, "metadata", "uid");
  cJSON *json;

  if ((uid != NULL && strcmp (uid, object->uid) != 0)
      || (version != NULL && strcmp (version, json_str (object->now->json, "metadata", "resourceVersion")) != 0))
    {
      server_refuse (call, 409, "Conflict");
      return;
    }
  json = server_copy (object);
  merge (json, call->body);
  if (t->status)
    json_set_copy (json, "spec", json_get (object->now->json, "spec"));
  else
    {
      json_drop (json, "status");
      json_set_copy (json, "status", json_get (object->now->json, "status"));
    }
  if (t->kind == KIND_CLUSTER)
    check_patch (object, json);
  server_put (object, json);
  answer (call, 200, server_copy (object));
  server_finish (object);
}

void
server_serve (struct call *call)
{
  struct target t;
  struct object *object;

  if (!parse_path (call->path, &t))
    {
      sim_fail ("a request to an unknown path: %s", call->path);
      server_refuse (call, 404, "NotFound");
      return;
    }
  if (call->verb == KUBE_POST)
    {
      serve_create (call, &t);
      return;
    }
  object = server_find (t.kind, t.name);
  if (object == NULL)
    server_refuse (call, 404, "NotFound");
  else if (call->verb == KUBE_GET)
    answer (call, 200, server_copy (object));
  else if (call->verb == KUBE_DELETE)
    serve_delete (call, &t, object);
  else
    serve_patch (call, &t, object);
}
