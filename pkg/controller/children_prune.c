/* children_prune.c - the end of owned objects that are no longer desired. */
#include "controller/controller_internal.h"

#include <string.h>

struct pruning
{
  struct controller *c;
  unsigned term; /* of the pass */
  const struct ray_cluster *cluster;
  const struct ray_children *desired;
  bool failed;
};

static bool
is_desired (const struct pruning *p, enum ray_child_kind kind, const char *name)
{
  for (size_t i = 0; i < p->desired->count; i++)
    if (p->desired->items[i].kind == kind && strcmp (ray_child_name (&p->desired->items[i]), name) == 0)
      return true;
  return false;
}

static void
delete_one (struct pruning *p, enum ray_child_kind kind, const char *name, const char *uid)
{
  const struct ray_child_type *type = &ray_child_types[kind];
  cleanup_free char *path = kube_object_path (type->prefix, p->cluster->namespace, type->plural, name);
  cleanup_free char *body = controller_delete_body (uid);
  cleanup_free char *reason = NULL, *note = NULL;
  cleanup_response struct kube_response response = { 0 };
  struct kube_request request = { .verb = KUBE_DELETE, .path = path, .body = body };
  bool ok;

  controller_request (p->c, p->term, &request, &response);
  if (response.status == 404 || response.status == 409)
    return; /* gone already, or another object by now */
  ok = kube_ok (&response);
  p->failed |= !ok;
  reason = xasprintf ("%s%s", ok ? "Deleted" : "FailedToDelete", type->suffix);
  note = ok ? xasprintf ("Deleted %s %s/%s: the RayCluster no longer asks for it", type->noun, p->cluster->namespace,
                         name)
            : xstrdup (response.error.message);
  report_event (p->c, p->cluster, ok ? KUBE_EVENT_NORMAL : KUBE_EVENT_WARNING, reason, "Delete", note);
}

static bool
is_ours (const struct pruning *p, bool prunable, bool deleting, const char *owner_uid)
{
  return prunable && !deleting && text_eq (owner_uid, p->cluster->uid);
}

bool
children_prune (struct controller *c, unsigned term, const struct ray_cluster *cluster,
                const struct cache_snapshot *snapshot, const struct ray_children *desired)
{
  struct pruning p = { .c = c, .term = term, .cluster = cluster, .desired = desired };

  for (size_t i = 0; i < snapshot->observed.nservices; i++)
    {
      const struct ray_service *v = snapshot->observed.services[i];

      if (is_ours (&p, v->prunable, v->deleting, v->owner_uid) && !is_desired (&p, RAY_CHILD_SERVICE, v->name))
        delete_one (&p, RAY_CHILD_SERVICE, v->name, v->uid);
    }
  for (size_t i = 0; i < snapshot->nchildren; i++)
    {
      const struct ray_child_seen *v = snapshot->children[i];

      if (is_ours (&p, v->prunable, v->deleting, v->owner_uid) && !is_desired (&p, v->kind, v->name))
        delete_one (&p, v->kind, v->name, v->uid);
    }
  return !p.failed;
}
