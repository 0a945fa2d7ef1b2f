/* children_tell.c - what is told and remembered of owned objects: failures, complaints, and which version was right. */
#include "controller/children_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- telling ---- */

void
child_tell (const struct child_work *w, const struct child_item *item, enum kube_event_type type, const char *what,
            const char *action, const char *note)
{
  cleanup_free char *reason = xasprintf ("%s%s", what, item->type->suffix);

  report_event (w->c, w->cluster, type, reason, action, note);
}

void
child_fail (struct child_work *w, struct child_item *item, const char *what, const char *action, const char *message)
{
  struct children_result *r = w->result;

  item->step = STEP_DONE;
  item->absent = true;
  r->failed = true;
  if (!item->quiet)
    {
      controller_count (w->c, &w->c->stats.failures, 1);
      child_tell (w, item, KUBE_EVENT_WARNING, what, action, message);
    }
  if (item->child->gate == RAY_GATE_NONE || r->failure.reason != NULL)
    return;
  snprintf (r->failure_text, sizeof (r->failure_text), "%s", message);
  r->failure = (struct ray_failure){ item->type->failure, r->failure_text };
}

void
child_fail_repair (struct child_work *w, struct child_item *item, const char *message)
{
  item->step = STEP_DONE;
  w->result->failed = true;
  controller_count (w->c, &w->c->stats.failures, 1);
  child_tell (w, item, KUBE_EVENT_WARNING, "FailedToUpdate", "Update", message);
}

/* A failure that only somebody else can end. `also`: a reason of its own beside that of all children; NULL: none. */
static void
fail_refused (struct child_work *w, struct child_item *item, const char *also, const char *message)
{
  child_fail (w, item, "FailedToCreate", "Create", message);
  if (item->quiet)
    return;
  if (also != NULL)
    report_event (w->c, w->cluster, KUBE_EVENT_WARNING, also, "Create", message);
  item->memo = (struct cache_memo){ .refused_ms = clock_mono_ms () };
  cache_memo_set (w->c->cache, w->key, item->id, &item->memo);
}

void
child_fail_foreign (struct child_work *w, struct child_item *item)
{
  cleanup_free char *message
      = xasprintf ("%s %s/%s exists and does not belong to this RayCluster: delete or rename it, or choose another "
                   "cluster name",
                   item->type->kind, w->cluster->namespace, item->name);
  bool policy = item->child->kind == RAY_CHILD_NETWORK_POLICY;

  fail_refused (w, item, policy ? "NetworkPolicyNameCollision" : NULL, message);
}

void
child_fail_missing (struct child_work *w, struct child_item *item)
{
  cleanup_free char *message
      = xasprintf ("%s %s/%s, which the RayCluster names, does not exist: create it, or leave its name out of the spec",
                   item->type->kind, w->cluster->namespace, item->name);
  bool account = item->child->kind == RAY_CHILD_SERVICE_ACCOUNT;

  fail_refused (w, item, account ? "AutoscalerServiceAccountNotFound" : NULL, message);
}

/* ---- remembering ---- */

static uint64_t
version_of (const cJSON *object)
{
  return strtoull (log_nonnull (json_str (object, "metadata", "resourceVersion")), NULL, 10);
}

void
child_settle (struct child_work *w, struct child_item *item, const cJSON *live)
{
  cleanup_free char *complaint = ray_child_complaint (item->child, live);

  item->step = STEP_DONE;
  if (complaint != NULL)
    {
      cleanup_free char *note
          = xasprintf ("%s %s/%s: %s", item->type->noun, w->cluster->namespace, item->name, complaint);

      child_tell (w, item, KUBE_EVENT_WARNING, "FailedToUpdate", "Update", note);
    }
  item->memo.version = version_of (live);
  item->memo.hash = item->child->hash;
  item->memo.checked_ms = clock_mono_ms ();
  item->memo.refused_ms = 0;
  cache_memo_set (w->c->cache, w->key, item->id, &item->memo);
}
