#include "plan_world.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define NAMESPACE "default"

void
world_init (struct world *w, const char *cluster_yaml)
{
  struct error err = { 0 };
  cJSON *docs = NULL;

  *w = (struct world){ .now_ms = 1000000 };
  if (yaml_parse (&docs, cluster_yaml, strlen (cluster_yaml), &err) < 0)
    fail_msg ("%s", err.message);
  w->object = cJSON_DetachItemFromArray (docs, 0);
  cJSON_Delete (docs);
  w->options = ray_default_plan_options;
  json_set_str (json_obj (w->object, "metadata"), "uid", "uid-1");
  json_set_int (json_obj (w->object, "metadata"), "generation", 1);
}

void
world_free (struct world *w)
{
  for (size_t i = 0; i < w->npods; i++)
    free (w->pods[i]);
  free (w->pods);
  ray_plan_free (&w->plan);
  ray_cluster_free (&w->cluster);
  cJSON_Delete (w->object);
}

void
world_plan (struct world *w)
{
  struct ray_observed observed
      = { .pods = (const struct ray_pod **) w->pods, .npods = w->npods, .gone = w->gone, .ngone = w->ngone };
  struct error err = { 0 };

  ray_plan_free (&w->plan);
  ray_cluster_free (&w->cluster);
  if (ray_cluster_decode (&w->cluster, w->object, NULL, &err) < 0)
    fail_msg ("%s", err.message);
  ray_plan_make (&w->plan, &w->cluster, &observed, &w->options, w->now_ms);
}

/* The digest of the pod that the op asks for, as the API server would store it. */
static struct ray_pod *
make_pod (const struct world *w, const struct ray_op *op)
{
  cleanup_json cJSON *pod = cJSON_CreateObject ();
  cJSON *metadata = json_obj (pod, "metadata"), *labels = json_obj (metadata, "labels");
  cJSON *owner = json_push_obj (json_arr (metadata, "ownerReferences"));
  char stamp[CLOCK_RFC3339_SIZE], number[24], hash[RAY_RECREATE_HASH_SIZE];

  clock_format_rfc3339 (w->now_ms, stamp);
  json_set_str (metadata, "name", op->identity.name);
  json_set_str (metadata, "namespace", NAMESPACE);
  json_set_str (metadata, "uid", op->identity.name);
  json_set_str (metadata, "creationTimestamp", stamp);
  json_set_str (owner, "apiVersion", "ray.io/v1");
  json_set_str (owner, "kind", "RayCluster");
  json_set_str (owner, "name", w->cluster.name);
  json_set_str (owner, "uid", w->cluster.uid);
  json_set_bool (owner, "controller", true);
  json_set_str (labels, RAY_LABEL_CLUSTER, w->cluster.name);
  json_set_str (labels, RAY_LABEL_GROUP, op->group->name);
  json_set_str (labels, RAY_LABEL_NODE_TYPE, op->group->is_head ? "head" : "worker");
  snprintf (number, sizeof (number), "%" PRIx64, ray_template_hash (op->group));
  json_set_str (json_obj (metadata, "annotations"), RAY_ANNOTATION_TEMPLATE_HASH, number);
  if (op->group->is_head)
    {
      ray_recreate_hash (hash, &w->cluster);
      json_set_str (json_obj (metadata, "annotations"), RAY_ANNOTATION_RECREATE_HASH, hash);
    }
  else
    {
      snprintf (number, sizeof (number), "%lld", (long long) op->identity.replica_index);
      json_set_str (labels, RAY_LABEL_REPLICA_INDEX, number);
    }
  if (op->group->hosts > 1)
    {
      snprintf (number, sizeof (number), "%lld", (long long) op->identity.host_index);
      json_set_str (labels, RAY_LABEL_HOST_INDEX, number);
      json_set_str (labels, RAY_LABEL_REPLICA_NAME, op->identity.replica_name);
    }
  return ray_pod_digest (pod);
}

static void
create (struct world *w, const struct ray_op *op)
{
  for (size_t i = 0; i < w->npods; i++)
    if (strcmp (w->pods[i]->name, op->identity.name) == 0)
      return; /* 409: the same host, or a name still worn */
  w->pods = xgrow (w->pods, w->npods, &w->cap, sizeof (*w->pods));
  w->pods[w->npods++] = make_pod (w, op);
}

void
world_delete (struct world *w, size_t i)
{
  if (w->pods[i]->deletion_ms == 0)
    w->pods[i]->deletion_ms = w->now_ms + 30000;
}

void
world_vanish (struct world *w, size_t i)
{
  free (w->pods[i]);
  w->pods[i] = w->pods[--w->npods];
}

static void
stamp (struct world *w, const struct ray_op *op)
{
  ray_recreate_hash (w->stamp, &w->cluster);
  for (size_t i = 0; i < w->npods; i++)
    if (w->pods[i] == op->pod)
      w->pods[i]->recreate_hash = w->stamp;
}

void
world_apply (struct world *w, bool (*fails) (void *data, const struct ray_op *op), void *data)
{
  for (size_t i = 0; i < w->plan.nops; i++)
    {
      struct ray_op *op = &w->plan.ops[i];

      if (fails != NULL && fails (data, op))
        {
          if (op->kind < RAY_OP_DELETE_POD)
            return; /* the later stages do not run */
          continue;
        }
      if (op->kind == RAY_OP_WRITE_LEDGER)
        json_set_str (json_obj (json_obj (w->object, "metadata"), "annotations"), RAY_ANNOTATION_SLICES,
                      w->plan.ledger);
      else if (op->kind == RAY_OP_STAMP_HEAD)
        stamp (w, op);
      else if (op->kind == RAY_OP_CREATE_POD)
        create (w, op);
      else
        for (size_t k = 0; k < w->npods; k++)
          if (w->pods[k] == op->pod)
            world_delete (w, k);
    }
}

size_t
world_reap (struct world *w)
{
  size_t n = 0;

  for (size_t i = w->npods; i-- > 0;)
    if (w->pods[i]->deletion_ms != 0)
      {
        world_vanish (w, i);
        n++;
      }
  return n;
}

void
world_settle (struct world *w)
{
  for (int round = 0; round < 50; round++)
    {
      world_plan (w);
      world_apply (w, NULL, NULL);
      world_check (w);
      w->now_ms += 1000;
      if (world_reap (w) == 0 && w->plan.nops == 0)
        return;
    }
  fail_msg ("the plan does not come to rest: %zu operations left, ledger \"%s\"", w->plan.nops, world_ledger (w));
}

void
world_run_all (struct world *w)
{
  for (size_t i = 0; i < w->npods; i++)
    {
      w->pods[i]->phase = RAY_RUNNING;
      w->pods[i]->ready = w->pods[i]->ready_known = true;
    }
}

struct ray_pod *
world_find (struct world *w, const char *group, int64_t replica, int64_t host)
{
  for (size_t i = 0; i < w->npods; i++)
    {
      struct ray_pod *p = w->pods[i];

      if (p->deletion_ms == 0 && strcmp (p->group, group) == 0 && (replica < 0 || p->replica_index == replica)
          && (host < 0 || p->host_index == host))
        return p;
    }
  return NULL;
}

size_t
world_count (const struct world *w, const char *group)
{
  size_t n = 0;

  for (size_t i = 0; i < w->npods; i++)
    n += w->pods[i]->deletion_ms == 0 && strcmp (w->pods[i]->group, group) == 0;
  return n;
}

size_t
world_ops (const struct world *w, enum ray_op_kind kind)
{
  size_t n = 0;

  for (size_t i = 0; i < w->plan.nops; i++)
    n += w->plan.ops[i].kind == kind;
  return n;
}

const char *
world_ledger (const struct world *w)
{
  return log_nonnull (json_str (w->object, "metadata", "annotations", RAY_ANNOTATION_SLICES));
}

void
world_check (const struct world *w)
{
  for (size_t i = 0; i < w->npods; i++)
    for (size_t k = i + 1; k < w->npods; k++)
      {
        const struct ray_pod *a = w->pods[i], *b = w->pods[k];

        if (a->deletion_ms != 0 || b->deletion_ms != 0 || strcmp (a->group, b->group) != 0
            || a->replica_index != b->replica_index)
          continue;
        if (a->host_index == b->host_index)
          fail_msg ("two live pods of %s are replica %d host %d: %s and %s", a->group, a->replica_index, a->host_index,
                    a->name, b->name);
        if (strcmp (a->replica_name, b->replica_name) != 0)
          fail_msg ("two live slices of %s have index %d: %s and %s", a->group, a->replica_index, a->replica_name,
                    b->replica_name);
      }
}
