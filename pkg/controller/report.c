/* report.c - what users see of a pass: events with KubeRay's reasons (facts/kuberay.md §5.2), one per pass and kind of
 * thing rather than one per pod, because an event costs as much as a pod (facts/control_plane.md, "Measured"). */
#include "controller/controller_internal.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* What failed because the lease was lost is no failure; and what failed otherwise the next leader finds out. */
static void
emit (struct controller *c, const struct ray_cluster *cluster, enum kube_event_type type, const char *reason,
      const char *action, const char *note)
{
  struct kube_object_ref about = { "ray.io/v1", "RayCluster", cluster->namespace, cluster->name, cluster->uid };

  if (c->options.events != NULL && (type == KUBE_EVENT_NORMAL || controller_leads (c)))
    kube_event (c->options.events, &about, type, reason, action, note);
}

/* The first operation of this kind on this kind of pod: the example a summary names. */
static const struct ray_op *
example (const struct ray_plan *plan, enum ray_op_kind kind, bool head)
{
  for (size_t i = 0; i < plan->nops; i++)
    {
      const struct ray_op *op = &plan->ops[i];
      bool is_head = op->pod ? text_eq (op->pod->node_type, "head") : op->group != NULL && op->group->is_head;

      if (op->kind == kind && is_head == head)
        return op;
    }
  return NULL;
}

static const struct summary
{
  enum ray_op_kind kind;
  bool head;
  size_t counter; /* offset in struct applied */
  const char *reason, *action, *one, *many;
} summaries[] = {
  { RAY_OP_CREATE_POD, true, offsetof (struct applied, created_heads), "CreatedHeadPod", "Create", "Created head Pod",
    "Created head Pods" },
  { RAY_OP_CREATE_POD, false, offsetof (struct applied, created_workers), "CreatedWorkerPod", "Create",
    "Created worker Pod", "Created worker Pods" },
  { RAY_OP_DELETE_POD, true, offsetof (struct applied, deleted_heads), "DeletedHeadPod", "Delete", "Deleted head Pod",
    "Deleted head Pods" },
  { RAY_OP_DELETE_POD, false, offsetof (struct applied, deleted_workers), "DeletedWorkerPod", "Delete",
    "Deleted worker Pod", "Deleted worker Pods" },
};

/* The same pass writes the annotation anew, so that this is said once. */
static void
report_unsound_ledger (struct controller *c, const struct ray_cluster *cluster)
{
  report_event (c, cluster, KUBE_EVENT_WARNING, "InvalidSlicesAnnotation", "Repair",
                "metadata.annotations[\"" RAY_ANNOTATION_SLICES
                "\"] is not as the operator writes it: what could not be read is forgotten, and a slice that was "
                "complete may count as still forming; leave this annotation to the operator");
}

void
report_applied (struct controller *c, const struct ray_cluster *cluster, const struct ray_plan *plan,
                const struct applied *applied)
{
  if (plan->ledger_unsound)
    report_unsound_ledger (c, cluster);
  for (size_t i = 0; i < ARRAY_LEN (summaries); i++)
    {
      const struct summary *s = &summaries[i];
      uint64_t n = *(const uint64_t *) (const void *) ((const char *) applied + s->counter);
      const struct ray_op *op = n ? example (plan, s->kind, s->head) : NULL;
      const char *name;
      char note[1024];
      int len;

      if (op == NULL)
        continue;
      name = op->pod ? op->pod->name : op->identity.name;
      if (n == 1)
        len = snprintf (note, sizeof (note), "%s %s/%s", s->one, cluster->namespace, name);
      else
        len = snprintf (note, sizeof (note), "%s %s/%s and %" PRIu64 " more", s->many, cluster->namespace, name, n - 1);
      if (op->why[0] != '\0')
        snprintf (note + len, sizeof (note) - (size_t) len, ": %s", op->why);
      emit (c, cluster, KUBE_EVENT_NORMAL, s->reason, s->action, note);
    }
}

void
report_op_failure (struct controller *c, const struct ray_cluster *cluster, const struct ray_op *op,
                   const char *message)
{
  static const char *const reasons[][2] = {
    [RAY_OP_WRITE_LEDGER] = { "FailedToUpdateRayCluster", "FailedToUpdateRayCluster" },
    [RAY_OP_STAMP_HEAD] = { "FailedToUpdateHeadPod", "FailedToUpdateHeadPod" },
    [RAY_OP_DELETE_POD] = { "FailedToDeleteWorkerPod", "FailedToDeleteHeadPod" },
    [RAY_OP_CREATE_POD] = { "FailedToCreateWorkerPod", "FailedToCreateHeadPod" },
  };
  bool head = op->pod ? text_eq (op->pod->node_type, "head") : op->group != NULL && op->group->is_head;
  const char *reason = reasons[op->kind][head];

  log_warn ("operation failed", LF_STR ("namespace", cluster->namespace), LF_STR ("cluster", cluster->name),
            LF_STR ("reason", reason), LF_STR ("error", message));
  emit (c, cluster, KUBE_EVENT_WARNING, reason, op->kind == RAY_OP_DELETE_POD ? "Delete" : "Create", message);
}

void
report_event (struct controller *c, const struct ray_cluster *cluster, enum kube_event_type type, const char *reason,
              const char *action, const char *note)
{
  log_at (type == KUBE_EVENT_WARNING ? LOG_WARN : LOG_INFO, note, LF_STR ("namespace", cluster->namespace),
          LF_STR ("cluster", cluster->name), LF_STR ("reason", reason));
  emit (c, cluster, type, reason, action, note);
}

void
report_problems (struct controller *c, const struct ray_cluster *cluster, const struct ray_problems *problems)
{
  cleanup_free char *text = ray_problems_text (problems);

  log_warn ("invalid RayCluster: nothing is done until it is mended", LF_STR ("namespace", cluster->namespace),
            LF_STR ("cluster", cluster->name), LF_STR ("problems", text));
  emit (c, cluster, KUBE_EVENT_WARNING, problems->items[0].reason, "Validate", text);
}

void
report_warnings (struct controller *c, const struct ray_cluster *cluster, const struct ray_problems *warnings)
{
  for (size_t i = 0, n; i < warnings->count; i += n)
    {
      const char *reason = warnings->items[i].reason;
      cleanup_free char *text = NULL;

      for (n = 1; i + n < warnings->count && text_eq (warnings->items[i + n].reason, reason);)
        n++;
      text = ray_problems_text (&(struct ray_problems){ .items = warnings->items + i, .count = n });
      log_warn ("the RayCluster runs, but perhaps not as meant", LF_STR ("namespace", cluster->namespace),
                LF_STR ("cluster", cluster->name), LF_STR ("reason", reason), LF_STR ("warnings", text));
      emit (c, cluster, KUBE_EVENT_WARNING, reason, "Validate", text);
    }
}
