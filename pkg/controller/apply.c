/* apply.c - a plan becomes requests. What an answer means is decided here; what to want was decided in the plan. */
#include "controller/controller_internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Pods one pass may create or delete; the rest waits for its turn behind other clusters (design §3.5, fairness). */
#define MAX_OPS_PER_PASS 256
#define BATCH_WINDOW 64

struct batch
{
  struct controller *c;
  const struct ray_cluster *cluster;
  struct ray_plan *plan;
  struct applied *applied;
  size_t first;  /* of this stage */
  unsigned term; /* leadership under which the plan was made */
  bool stop;     /* send nothing more: refused by quota or policy, or not leader any more */
  bool *taken;   /* create was answered 409: who has the name is to be found out */
};

/* Guarded by the version the plan was made from: whoever planned from an older picture is refused (409) and looks
 * again. */
static int
make_ledger (struct batch *b, const struct ray_op *op, struct kube_request *request)
{
  cleanup_json cJSON *patch = cJSON_CreateObject ();
  cJSON *metadata = json_obj (patch, "metadata");

  (void) op;
  json_set_copy (metadata, "resourceVersion", json_get (b->cluster->object, "metadata", "resourceVersion"));
  json_set_str (json_obj (metadata, "annotations"), RAY_ANNOTATION_SLICES, b->plan->ledger);
  *request = (struct kube_request){
    .verb = KUBE_PATCH_MERGE,
    .path = kube_object_path ("/apis/ray.io/v1", b->cluster->namespace, "rayclusters", b->cluster->name),
    .body = json_print (patch),
  };
  return 0;
}

static int
make_stamp (struct batch *b, const struct ray_op *op, struct kube_request *request)
{
  cleanup_json cJSON *patch = cJSON_CreateObject ();
  cJSON *metadata = json_obj (patch, "metadata");
  char hash[RAY_RECREATE_HASH_SIZE];

  ray_recreate_hash (hash, b->cluster);
  json_set_str (metadata, "uid", op->pod->uid);
  json_set_str (json_obj (metadata, "annotations"), RAY_ANNOTATION_RECREATE_HASH, hash);
  *request = (struct kube_request){ .verb = KUBE_PATCH_MERGE,
                                    .path = kube_object_path ("/api/v1", b->cluster->namespace, "pods", op->pod->name),
                                    .body = json_print (patch) };
  return 0;
}

static int
make_delete (struct batch *b, const struct ray_op *op, struct kube_request *request)
{
  *request = (struct kube_request){ .verb = KUBE_DELETE,
                                    .path = kube_object_path ("/api/v1", b->cluster->namespace, "pods", op->pod->name),
                                    .body = controller_delete_body (op->pod->uid) };
  return 0;
}

static int
make_pod (struct batch *b, const struct ray_op *op, struct kube_request *request)
{
  cleanup_json cJSON *pod = NULL;
  struct error err = { 0 };
  int ret = ray_build_pod (&pod, b->cluster, op->group, &op->identity, &b->c->options.ray, &err);

  if (ret < 0)
    {
      report_op_failure (b->c, b->cluster, op, err.message);
      snprintf (b->applied->failure_text, sizeof (b->applied->failure_text), "%s", err.message);
      b->applied->failure = (struct ray_failure){ op->group->is_head ? "FailedCreateHeadPod" : "FailedCreateWorkerPod",
                                                  b->applied->failure_text };
      return ret;
    }
  *request = (struct kube_request){ .verb = KUBE_POST,
                                    .path = kube_object_path ("/api/v1", b->cluster->namespace, "pods", NULL),
                                    .body = json_print (pod) };
  return 0;
}

static bool
is_head_op (const struct ray_op *op)
{
  return op->pod ? text_eq (op->pod->node_type, "head") : op->group != NULL && op->group->is_head;
}

/* The API server's own words in full, and before them what they do not tell: the group, and where to mend it. */
static char *
explain (const struct batch *b, const struct ray_op *op, const struct kube_response *response)
{
  const char *said = json_str (response->body, "message");
  cleanup_free char *field = NULL;

  if (op->kind != RAY_OP_CREATE_POD || said == NULL)
    return xstrdup (response->error.message);
  if (response->status != 422)
    return xasprintf ("a Pod of group %s was not created: HTTP %d %s: %s", op->group->name, response->status,
                      response->reason, said);
  field = op->group->is_head ? xstrdup ("spec.headGroupSpec.template")
                             : xasprintf ("spec.workerGroupSpecs[%td].template", op->group - b->cluster->groups);
  return xasprintf ("a Pod of group %s is refused, mend %s: %s", op->group->name, field, said);
}

static void
fail (struct batch *b, const struct ray_op *op, const struct kube_response *response)
{
  static const char *const reasons[][2] = {
    [RAY_OP_WRITE_LEDGER] = { "FailedUpdateRayCluster", "FailedUpdateRayCluster" },
    [RAY_OP_STAMP_HEAD] = { "FailedUpdateHeadPod", "FailedUpdateHeadPod" },
    [RAY_OP_DELETE_POD] = { "FailedDeleteWorkerPod", "FailedDeleteHeadPod" },
    [RAY_OP_CREATE_POD] = { "FailedCreateWorkerPod", "FailedCreateHeadPod" },
  };
  cleanup_free char *text = NULL;

  controller_count (b->c, &b->c->stats.failures, 1);
  /* Refused by quota, policy or validation: the other creates would be refused alike, so do not send them. */
  if (response->status == 403 || response->status == 422)
    b->stop = true;
  if (b->applied->failure.reason != NULL)
    return;
  text = explain (b, op, response);
  snprintf (b->applied->failure_text, sizeof (b->applied->failure_text), "%s", text);
  b->applied->failure = (struct ray_failure){ reasons[op->kind][is_head_op (op)], b->applied->failure_text };
  report_op_failure (b->c, b->cluster, op, text);
}

static void
done_ledger (struct batch *b, size_t i, struct kube_response *response)
{
  if (kube_ok (response))
    controller_observe (b->c, CACHE_CLUSTER, response->body);
  else if (response->status == 409 || response->status == 404)
    b->applied->conflict = true;
  else
    fail (b, &b->plan->ops[i], response);
}

static void
done_stamp (struct batch *b, size_t i, struct kube_response *response)
{
  if (kube_ok (response))
    controller_observe (b->c, CACHE_POD, response->body);
  else if (response->status == 409 || response->status == 404)
    b->applied->conflict = true;
  else
    fail (b, &b->plan->ops[i], response);
}

static void
done_delete (struct batch *b, size_t i, struct kube_response *response)
{
  struct ray_op *op = &b->plan->ops[i];

  if (!kube_ok (response))
    {
      /* Not there any more, or another pod of that name by now: either way the one we meant is gone. */
      if (response->status != 404 && response->status != 409)
        fail (b, op, response);
      return;
    }
  if (text_eq (json_str (response->body, "kind"), "Pod"))
    controller_observe (b->c, CACHE_POD, response->body);
  *(is_head_op (op) ? &b->applied->deleted_heads : &b->applied->deleted_workers) += 1;
  controller_count (b->c, &b->c->stats.pods_deleted, 1);
  log_info ("deleted pod", LF_STR ("namespace", op->pod->namespace), LF_STR ("pod", op->pod->name),
            LF_STR ("cluster", b->cluster->name), LF_STR ("why", op->why));
}

static void
count_created (struct batch *b, const struct ray_op *op)
{
  *(is_head_op (op) ? &b->applied->created_heads : &b->applied->created_workers) += 1;
  controller_count (b->c, &b->c->stats.pods_created, 1);
  log_info ("created pod", LF_STR ("namespace", b->cluster->namespace), LF_STR ("pod", op->identity.name),
            LF_STR ("cluster", b->cluster->name), LF_STR ("group", op->group->name),
            LF_INT ("replica_index", op->identity.replica_index), LF_INT ("host_index", op->identity.host_index));
}

static void
done_pod (struct batch *b, size_t i, struct kube_response *response)
{
  struct ray_op *op = &b->plan->ops[i];

  if (kube_ok (response))
    {
      controller_observe (b->c, CACHE_POD, response->body);
      count_created (b, op);
    }
  else if (response->status == 409)
    b->taken[i] = true;
  else
    {
      cleanup_free char *key = xasprintf ("%s/%s", b->cluster->namespace, b->cluster->name);

      if (response->status == 0 || response->status >= 500)
        cache_doubt_add (b->c->cache, key, op->identity.name);
      fail (b, op, response);
    }
}

static const struct op_kind
{
  int (*make) (struct batch *b, const struct ray_op *op, struct kube_request *request);
  void (*done) (struct batch *b, size_t i, struct kube_response *response);
} op_kinds[] = {
  [RAY_OP_WRITE_LEDGER] = { make_ledger, done_ledger },
  [RAY_OP_STAMP_HEAD] = { make_stamp, done_stamp },
  [RAY_OP_DELETE_POD] = { make_delete, done_delete },
  [RAY_OP_CREATE_POD] = { make_pod, done_pod },
};

static bool
may_go_on (struct batch *b)
{
  bool may = controller_in_term (b->c, b->term);

  b->applied->unfinished |= !may; /* should the lease turn out to be held still, this was not the end of it */
  return may;
}

static int
batch_make (void *data, size_t i, struct kube_request *request)
{
  struct batch *b = data;
  const struct ray_op *op = &b->plan->ops[b->first + i];
  int ret;

  /* Deletions come first in a stage and go on: they may be what makes room under a quota. */
  if ((b->stop && op->kind == RAY_OP_CREATE_POD) || !may_go_on (b))
    return -ECANCELED;
  ret = op_kinds[op->kind].make (b, op, request);
  controller_bound (request);
  return ret;
}

static void
batch_done (void *data, size_t i, struct kube_response *response)
{
  struct batch *b = data;

  op_kinds[b->plan->ops[b->first + i].kind].done (b, b->first + i, response);
}

/* ---- 409 AlreadyExists ---- */

static void
get_object (struct batch *b, const char *plural, const char *name, struct kube_response *response)
{
  cleanup_free char *path = kube_object_path ("/api/v1", b->cluster->namespace, plural, name);
  struct kube_request request = { .verb = KUBE_GET, .path = path };

  controller_request (b->c, b->term, &request, response);
}

/* Whether the pod that has the name is the very host we wanted to create: an earlier create of ours whose answer was
 * lost; it may be on its way out by now. */
static bool
is_same_host (const cJSON *pod, const struct ray_op *op, const struct ray_cluster *cluster)
{
  cleanup_free struct ray_pod *p = ray_pod_digest (pod);

  if (p == NULL || !ray_pod_owned (p, cluster))
    return false;
  if (op->group->is_head)
    return text_eq (p->node_type, "head");
  return text_eq (p->group, op->group->name) && p->replica_index == op->identity.replica_index
         && (op->group->hosts == 1
             || (text_eq (p->replica_name, op->identity.replica_name) && p->host_index == op->identity.host_index));
}

/* True when the op is settled; false: another name is to be tried. */
static bool
resolve_pod (struct batch *b, size_t i)
{
  struct ray_op *op = &b->plan->ops[i];
  cleanup_response struct kube_response response = { 0 };

  get_object (b, "pods", op->identity.name, &response);
  if (response.status == 404)
    {
      b->applied->conflict = true; /* gone in between: plan again */
      return true;
    }
  if (!kube_ok (&response))
    {
      fail (b, op, &response);
      return true;
    }
  if (!is_same_host (response.body, op, b->cluster))
    return false;
  controller_observe (b->c, CACHE_POD, response.body);
  /* A host that terminates is no host, and another beside it would belong to a slice that is broken: plan again. */
  b->applied->conflict |= json_get (response.body, "metadata", "deletionTimestamp") != NULL;
  return true;
}

static void
retry_under_other_name (struct batch *b, size_t i)
{
  struct ray_op *op = &b->plan->ops[i];

  for (int attempt = 1; attempt < RAY_NAME_ATTEMPTS; attempt++)
    {
      struct kube_request request = { 0 };
      cleanup_response struct kube_response response = { 0 };

      ray_op_rename (op, b->cluster, attempt);
      if (!may_go_on (b) || make_pod (b, op, &request) < 0)
        return;
      controller_request (b->c, b->term, &request, &response);
      free (request.path);
      free (request.body);
      b->taken[i] = false;
      done_pod (b, i, &response);
      if (!b->taken[i] || resolve_pod (b, i))
        return;
    }
  b->applied->conflict = true;
}

static void
resolve_taken (struct batch *b, size_t end)
{
  for (size_t i = b->first; i < end; i++)
    {
      if (b->taken[i] && !resolve_pod (b, i))
        retry_under_other_name (b, i);
    }
}

/* ---- stages ---- */

static void
run (struct batch *b, size_t first, size_t count)
{
  b->first = first;
  if (count == 0)
    return;
  kube_batch (b->c->options.client, count, BATCH_WINDOW, batch_make, batch_done, b);
  resolve_taken (b, first + count);
}

static size_t
stage_end (const struct ray_plan *plan, size_t first)
{
  size_t end = first;

  while (end < plan->nops && plan->ops[end].stage == plan->ops[first].stage)
    end++;
  return end;
}

/* After a failed pass the first create goes alone: when the reason still holds, one request finds out, not a whole
 * window. */
static size_t
probe (struct batch *b, size_t first, size_t end)
{
  size_t creates = first;

  while (creates < end && b->plan->ops[creates].kind != RAY_OP_CREATE_POD)
    creates++;
  run (b, first, creates - first);
  if (creates == end)
    return end;
  run (b, creates, 1);
  return creates + 1;
}

void
apply_plan (struct controller *c, const struct ray_cluster *cluster, struct ray_plan *plan, unsigned term,
            bool cautious, struct applied *applied)
{
  cleanup_free bool *taken = xcalloc (plan->nops, sizeof (*taken));
  struct batch b = { .c = c, .cluster = cluster, .plan = plan, .applied = applied, .term = term, .taken = taken };

  for (size_t first = 0; first < plan->nops;)
    {
      size_t end = stage_end (plan, first);
      bool pods = plan->ops[first].kind == RAY_OP_DELETE_POD || plan->ops[first].kind == RAY_OP_CREATE_POD;

      if (pods && end - first > MAX_OPS_PER_PASS)
        {
          end = first + MAX_OPS_PER_PASS;
          applied->unfinished = true;
        }
      if (pods && cautious)
        first = probe (&b, first, end);
      run (&b, first, end - first);
      first = end;
      if (applied->unfinished || (!pods && (applied->failure.reason != NULL || applied->conflict)))
        break;
    }
  applied->unfinished |= b.stop && applied->failure.reason == NULL;
}
