/* plan.c - the decisions about a cluster: suspended, recreated, or group by group; and in what order things are done.
 */
#include "ray/plan_internal.h"
#include "ray/status.h"

#include <stdlib.h>
#include <string.h>

const struct ray_plan_options ray_default_plan_options = { .terminating_timeout_ms = 30000 };

struct ray_op *
ray_plan_add (struct ray_planner *p, enum ray_op_kind kind, enum ray_stage stage)
{
  struct ray_plan *plan = p->plan;
  struct ray_op *op;

  plan->ops = xgrow (plan->ops, plan->nops, &plan->cap, sizeof (*plan->ops));
  op = &plan->ops[plan->nops++];
  *op = (struct ray_op){ .kind = kind, .stage = (int) stage, .why = "" };
  return op;
}

void
ray_plan_delete_pod (struct ray_planner *p, const struct ray_group *group, const struct ray_pod *pod, const char *why)
{
  struct ray_op *op;

  if (pod->deletion_ms != 0)
    return;
  op = ray_plan_add (p, RAY_OP_DELETE_POD, text_eq (pod->node_type, "head") ? RAY_STAGE_HEAD : RAY_STAGE_WORKERS);
  op->group = group;
  op->pod = pod;
  op->why = why;
}

/* Owned pods that no group of the spec accounts for: a group that was removed, or a head that calls itself something
 * else. */
static void
drain_strays (struct ray_planner *p)
{
  for (size_t i = 0; i < p->observed->npods; i++)
    {
      const struct ray_pod *pod = p->observed->pods[i];

      if (ray_pod_owned (pod, p->cluster) && text_eq (pod->node_type, "worker")
          && ray_cluster_group (p->cluster, pod->group) == NULL)
        ray_plan_delete_pod (p, NULL, pod,
                             *pod->group == '\0' ? "it has no label " RAY_LABEL_GROUP ", so no worker group counts it"
                                                 : "its worker group is no longer in the spec");
    }
}

/* Pods of one node type; returns how many there were to delete. */
static size_t
delete_all (struct ray_planner *p, const char *node_type, const char *why)
{
  size_t before = p->plan->nops;

  for (size_t i = 0; i < p->observed->npods; i++)
    {
      const struct ray_pod *pod = p->observed->pods[i];

      if (ray_pod_owned (pod, p->cluster) && text_eq (pod->node_type, node_type))
        ray_plan_delete_pod (p, ray_cluster_group (p->cluster, pod->group), pod, why);
    }
  return p->plan->nops - before;
}

/* Stages in their order, deletions before creations, otherwise as decided. */
static void
order_ops (struct ray_plan *plan)
{
  struct ray_op *sorted = xcalloc (plan->nops, sizeof (*sorted));
  size_t n = 0;

  for (int stage = RAY_STAGE_LEDGER; stage <= RAY_STAGE_WORKERS; stage++)
    for (int kind = 0; kind <= RAY_OP_CREATE_POD; kind++)
      for (size_t i = 0; i < plan->nops; i++)
        if (plan->ops[i].stage == stage && (int) plan->ops[i].kind == kind)
          sorted[n++] = plan->ops[i];
  free (plan->ops);
  plan->ops = sorted;
  plan->cap = plan->nops;
}

static const struct ray_pod *
live_head (const struct ray_planner *p)
{
  const struct ray_pod *head = NULL;

  for (size_t i = 0; i < p->observed->npods; i++)
    if (ray_pod_owned (p->observed->pods[i], p->cluster) && text_eq (p->observed->pods[i]->node_type, "head")
        && p->observed->pods[i]->deletion_ms == 0)
      head = p->observed->pods[i];
  return head;
}

/* Workers whose group was changed since they were made; those of another operator tell nothing. Returns how many. */
static size_t
delete_outdated_workers (struct ray_planner *p, const char *why)
{
  size_t before = p->plan->nops;

  for (size_t g = 0; g < p->cluster->ngroups; g++)
    {
      const struct ray_group *group = &p->cluster->groups[g];
      uint64_t hash = ray_template_hash (group);

      for (size_t i = 0; i < p->observed->npods; i++)
        {
          const struct ray_pod *pod = p->observed->pods[i];

          if (ray_pod_owned (pod, p->cluster) && text_eq (pod->node_type, "worker") && text_eq (pod->group, group->name)
              && pod->template_hash != 0 && pod->template_hash != hash)
            ray_plan_delete_pod (p, group, pod, why);
        }
    }
  return p->plan->nops - before;
}

/* upgradeStrategy Recreate (§2.4): the head carries the hash of the spec it was made from, and speaks for all pods. One
 * of another operator tells nothing: it is replaced by ours, and counts from then on. A head that was lost between the
 * change and its discovery told nobody, so that old workers are found by themselves. Returns whether pods go for this.
 */
static bool
recreate (struct ray_planner *p)
{
  static const char why[] = "the spec has changed, and spec.upgradeStrategy is Recreate";
  const struct ray_pod *head = live_head (p);
  char hash[RAY_RECREATE_HASH_SIZE];

  if (!text_eq (json_str (p->cluster->object, "spec", "upgradeStrategy", "type"), "Recreate"))
    return false;
  ray_recreate_hash (hash, p->cluster);
  if (head == NULL || strcmp (head->recreate_hash, hash) == 0)
    return delete_outdated_workers (p, why) > 0;
  if (!text_starts_with (head->recreate_hash, RAY_RECREATE_HASH_PREFIX))
    {
      ray_plan_add (p, RAY_OP_STAMP_HEAD, RAY_STAGE_LEDGER)->pod = head;
      return false;
    }
  /* The head last: as long as it lives, what is left of the others is seen to be old. */
  if (delete_all (p, "worker", why) == 0)
    delete_all (p, "head", why);
  return true;
}

/* Whether the head is gone for good (§2.4.5): a RayJob whose submitter runs beside the head asks for that, because
 * another head would know nothing of the job. Its workers are then nobody's to replace either. */
static bool
is_over (const struct ray_planner *p)
{
  const cJSON *conditions = json_get (p->cluster->object, "status", "conditions");
  const char *asked = json_str (p->cluster->object, "metadata", "annotations", RAY_ANNOTATION_NO_HEAD_RESTART);

  if (!text_eq (asked, "true")
      || !text_eq (json_str (json_find (conditions, "type", "RayClusterProvisioned"), "status"), "True"))
    return false;
  return live_head (p) == NULL;
}

static void
plan_pods (struct ray_planner *p)
{
  enum ray_suspension suspension = ray_suspension_of (p->cluster);

  if (suspension == RAY_SUSPENDING)
    {
      delete_all (p, "head", "the cluster is suspended");
      delete_all (p, "worker", "the cluster is suspended");
    }
  if (suspension != RAY_ACTIVE || recreate (p) || is_over (p))
    return;
  ray_plan_group (p, &p->cluster->head);
  for (size_t i = 0; i < p->cluster->ngroups; i++)
    ray_plan_group (p, &p->cluster->groups[i]);
  drain_strays (p);
}

/* What did not find room in the text is not written again and again. */
static void
plan_ledger (struct ray_planner *p, const char *old)
{
  cleanup_free char *text = ray_ledger_print (&p->ledger);

  if (strcmp (text, old) == 0)
    return;
  p->plan->ledger = take_ptr (text);
  ray_plan_add (p, RAY_OP_WRITE_LEDGER, RAY_STAGE_LEDGER);
}

void
ray_plan_make (struct ray_plan *plan, const struct ray_cluster *cluster, const struct ray_observed *observed,
               const struct ray_plan_options *options, int64_t now_ms)
{
  struct ray_planner p
      = { .plan = plan, .cluster = cluster, .observed = observed, .options = options, .now_ms = now_ms };
  const char *text = json_str (cluster->object, "metadata", "annotations", RAY_ANNOTATION_SLICES);

  *plan = (struct ray_plan){ 0 };
  if (cluster->deleting || cluster->managed_elsewhere)
    return;
  plan->ledger_unsound = !ray_ledger_parse (&p.ledger, text);
  p.ledger.changed = plan->ledger_unsound;
  ray_ledger_retain (&p.ledger, cluster, observed);
  ray_name_set_copy (&p.gone, observed->gone, observed->ngone);
  plan_pods (&p);
  ray_name_set_free (&p.gone);
  if (p.ledger.changed)
    plan_ledger (&p, log_nonnull (text));
  ray_ledger_free (&p.ledger);
  order_ops (plan);
}

void
ray_plan_delete_all (struct ray_plan *plan, const struct ray_cluster *cluster, const struct ray_observed *observed,
                     const char *why)
{
  struct ray_planner p = { .plan = plan, .cluster = cluster, .observed = observed };

  *plan = (struct ray_plan){ 0 };
  delete_all (&p, "head", why);
  delete_all (&p, "worker", why);
}

void
ray_plan_hold (struct ray_plan *plan, bool workers_too)
{
  size_t kept = 0;

  for (size_t i = 0; i < plan->nops; i++)
    {
      const struct ray_op *op = &plan->ops[i];

      if (op->kind != RAY_OP_CREATE_POD || !(workers_too || op->group->is_head))
        plan->ops[kept++] = *op;
    }
  plan->nops = kept;
}

void
ray_plan_free (struct ray_plan *plan)
{
  free (plan->ops);
  free (plan->ledger);
  *plan = (struct ray_plan){ 0 };
}
