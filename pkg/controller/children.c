/* children.c - the owned objects other than pods: made when missing, brought back when changed, deleted when no longer
 * desired. What to wish and what to mend is pkg/ray's to say (ray/children.h).
 *
 * An object is read only when there is reason to: it is not of the version it had when it was last right, the wish has
 * changed, or it has not been looked at since the start. */
#include "controller/children_internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include <openssl/evp.h>

/* Of a conversation about one object at the most: create, refused; read; repair, conflict; read; repair. */
#define MAX_ROUNDS 6
/* Another controller that undoes our repairs, or deletes what we make, is answered this often at the most. It may be
 * the garbage collector, which knows before us that the RayCluster is gone. Nor is what somebody else must mend looked
 * at, and complained of, more often. */
#define REPAIR_INTERVAL_MS 2000
/* What is not watched is looked at again after this long: within the resync of a ready cluster (300 s). */
#define RECHECK_MS 240000

static char *
path_of (const struct child_work *w, const struct ray_child_type *type, const char *name)
{
  return kube_object_path (type->prefix, w->cluster->namespace, type->plural, name);
}

/* ---- what to do first ---- */

struct seen
{
  uint64_t version;
  bool deleting;
};

static bool
find_seen (const struct child_work *w, enum ray_child_kind kind, const char *name, struct seen *seen)
{
  const struct cache_snapshot *s = w->snapshot;

  for (size_t i = 0; kind == RAY_CHILD_SERVICE && i < s->observed.nservices; i++)
    if (strcmp (s->observed.services[i]->name, name) == 0)
      {
        *seen = (struct seen){ s->observed.services[i]->resource_version, s->observed.services[i]->deleting };
        return true;
      }
  for (size_t i = 0; i < s->nchildren; i++)
    if (s->children[i]->kind == kind && strcmp (s->children[i]->name, name) == 0)
      {
        *seen = (struct seen){ s->children[i]->resource_version, s->children[i]->deleting };
        return true;
      }
  return false;
}

static bool
is_watched (const struct ray_child *child)
{
  return !child->external && child->kind != RAY_CHILD_SECRET;
}

/* Pods are not made before what they need: that there are some says that it was there. */
static bool
has_pods (const struct child_work *w)
{
  const struct ray_observed *observed = &w->snapshot->observed;

  for (size_t i = 0; i < observed->npods; i++)
    if (strcmp (observed->pods[i]->owner_uid, w->cluster->uid) == 0)
      return true;
  return false;
}

/* Time decides; and what a cluster that has a status may have had before is rather read than made. */
static enum child_step
first_step_unwatched (const struct child_work *w, struct child_item *item, bool known)
{
  bool had = json_get (w->cluster->object, "status") != NULL;

  item->believed = known || (!item->child->external && has_pods (w));
  if (known && item->memo.hash == item->child->hash && clock_mono_ms () - item->memo.checked_ms < RECHECK_MS)
    return STEP_DONE;
  return known || item->child->external || had ? STEP_GET : STEP_CREATE;
}

static enum child_step
step_later (struct child_work *w, int64_t wait_ms)
{
  if (w->result->requeue_ms == 0 || wait_ms < w->result->requeue_ms)
    w->result->requeue_ms = wait_ms;
  return STEP_DONE;
}

/* Pods go on waiting, with the same words. */
static enum child_step
fail_again (struct child_work *w, struct child_item *item)
{
  item->quiet = true;
  if (item->child->external)
    child_fail_missing (w, item);
  else
    child_fail_foreign (w, item);
  return step_later (w, item->memo.refused_ms + REPAIR_INTERVAL_MS - clock_mono_ms ());
}

static enum child_step
first_step (struct child_work *w, struct child_item *item)
{
  bool known = cache_memo_get (w->c->cache, w->key, item->id, &item->memo) && item->memo.refused_ms == 0;
  int64_t wait = item->memo.written_ms ? item->memo.written_ms + REPAIR_INTERVAL_MS - clock_mono_ms () : 0;
  struct seen seen;

  if (item->memo.refused_ms != 0 && clock_mono_ms () - item->memo.refused_ms < REPAIR_INTERVAL_MS)
    return fail_again (w, item);
  if (!is_watched (item->child))
    return first_step_unwatched (w, item, known);
  if (!find_seen (w, item->child->kind, item->name, &seen))
    {
      item->absent = true;
      return wait <= 0 ? STEP_CREATE : step_later (w, wait);
    }
  if (seen.deleting)
    {
      item->absent = true; /* its end wakes the cluster */
      return STEP_DONE;
    }
  item->believed = true;
  if (known && item->memo.version == seen.version && item->memo.hash == item->child->hash)
    return STEP_DONE;
  if (wait <= 0 || item->memo.hash != item->child->hash)
    return STEP_GET;
  return step_later (w, wait);
}

/* ---- requests and answers ---- */

/* The token that authenticates the cluster's processes to each other: 32 random bytes (§2.3). */
static int
add_token (cJSON *secret)
{
  unsigned char random[32];
  char text[EVP_ENCODE_LENGTH (sizeof (random)) + 1];

  if (getrandom (random, sizeof (random), 0) != (ssize_t) sizeof (random))
    return -EIO;
  EVP_EncodeBlock ((unsigned char *) text, random, sizeof (random));
  json_set_str (json_obj (secret, "stringData"), RAY_AUTH_TOKEN_KEY, text);
  explicit_bzero (random, sizeof (random));
  explicit_bzero (text, sizeof (text));
  return 0;
}

static int
make_create (struct child_work *w, struct child_item *item, struct kube_request *request)
{
  cleanup_json cJSON *copy = NULL;

  *request = (struct kube_request){ .verb = KUBE_POST, .path = path_of (w, item->type, NULL) };
  if (item->child->kind == RAY_CHILD_SECRET)
    {
      copy = cJSON_Duplicate (item->child->object, true);
      if (add_token (copy) < 0)
        {
          free (take_ptr (request->path));
          return -EIO;
        }
    }
  request->body = json_print (copy ? copy : item->child->object);
  return 0;
}

static int
make_get (struct child_work *w, struct child_item *item, struct kube_request *request)
{
  *request = (struct kube_request){ .verb = KUBE_GET, .path = path_of (w, item->type, item->name) };
  return 0;
}

static int
make_patch (struct child_work *w, struct child_item *item, struct kube_request *request)
{
  *request = (struct kube_request){ .verb = KUBE_PATCH_MERGE,
                                    .path = path_of (w, item->type, item->name),
                                    .body = item->patch };
  item->patch = NULL; /* the batch frees it */
  return 0;
}

static void
done_create (struct child_work *w, struct child_item *item, struct kube_response *response)
{
  cleanup_free char *note = xasprintf ("Created %s %s/%s", item->type->noun, w->cluster->namespace, item->name);

  if (response->status == 409)
    {
      item->step = STEP_GET;
      return;
    }
  if (!kube_ok (response))
    {
      child_fail (w, item, "FailedToCreate", "Create", response->error.message);
      return;
    }
  controller_observe_child (w->c, item->child->kind, response->body);
  item->absent = false;
  item->memo.written_ms = clock_mono_ms ();
  child_tell (w, item, KUBE_EVENT_NORMAL, "Created", "Create", note);
  child_settle (w, item, response->body);
}

/* Guarded by the version it was made from: ports and rules are replaced whole. */
static void
prepare_patch (struct child_item *item, cJSON *patch, const cJSON *live)
{
  json_set_copy (json_obj (patch, "metadata"), "resourceVersion", json_get (live, "metadata", "resourceVersion"));
  free (item->patch);
  item->patch = json_print (patch);
  item->step = STEP_PATCH;
}

static void
done_get (struct child_work *w, struct child_item *item, struct kube_response *response)
{
  cleanup_json cJSON *patch = NULL;

  if (response->status == 404 && item->child->external)
    child_fail_missing (w, item);
  else if (response->status == 404)
    item->step = STEP_CREATE;
  else if (!kube_ok (response) && item->believed)
    child_fail_repair (w, item, response->error.message);
  else if (!kube_ok (response))
    child_fail (w, item, "FailedToCreate", "Create", response->error.message);
  else if (item->child->external)
    child_settle (w, item, response->body);
  else if (!ray_child_is_ours (item->child, w->cluster, response->body))
    child_fail_foreign (w, item);
  else if (json_get (response->body, "metadata", "deletionTimestamp") != NULL)
    {
      item->absent = true;
      item->step = STEP_DONE;
    }
  else if ((patch = ray_child_repair (item->child, response->body)) != NULL)
    prepare_patch (item, patch, response->body);
  else
    {
      controller_observe_child (w->c, item->child->kind, response->body);
      child_settle (w, item, response->body);
    }
}

static void
done_patch (struct child_work *w, struct child_item *item, struct kube_response *response)
{
  cleanup_free char *note = xasprintf ("Updated %s %s/%s", item->type->noun, w->cluster->namespace, item->name);

  if (response->status == 409)
    item->step = STEP_GET;
  else if (response->status == 404)
    item->step = STEP_CREATE;
  else if (!kube_ok (response))
    child_fail_repair (w, item, response->error.message);
  else
    {
      controller_observe_child (w->c, item->child->kind, response->body);
      item->memo.written_ms = clock_mono_ms ();
      child_tell (w, item, KUBE_EVENT_NORMAL, "Updated", "Update", note);
      child_settle (w, item, response->body);
    }
}

static const struct
{
  int (*make) (struct child_work *w, struct child_item *item, struct kube_request *request);
  void (*done) (struct child_work *w, struct child_item *item, struct kube_response *response);
} steps[] = {
  [STEP_CREATE] = { make_create, done_create },
  [STEP_GET] = { make_get, done_get },
  [STEP_PATCH] = { make_patch, done_patch },
};

static int
batch_make (void *data, size_t i, struct kube_request *request)
{
  struct child_work *w = data;
  struct child_item *item = &w->items[w->asked[i]];
  int ret;

  if (!controller_in_term (w->c, w->term))
    return -ECANCELED;
  ret = steps[item->step].make (w, item, request);
  controller_bound (request);
  return ret;
}

static void
batch_done (void *data, size_t i, struct kube_response *response)
{
  struct child_work *w = data;
  struct child_item *item = &w->items[w->asked[i]];

  steps[item->step].done (w, item, response);
}

static void
converse (struct child_work *w)
{
  for (int round = 0; round < MAX_ROUNDS && controller_in_term (w->c, w->term); round++)
    {
      size_t n = 0;

      for (size_t i = 0; i < w->count; i++)
        if (w->items[i].step != STEP_DONE)
          w->asked[n++] = i;
      if (n == 0)
        return;
      kube_batch (w->c->options.client, n, 0, batch_make, batch_done, w);
    }
}

/* ---- the whole ---- */

static void
begin (struct child_work *w, const struct ray_children *children)
{
  w->count = children->count;
  w->items = xcalloc (w->count, sizeof (*w->items));
  w->asked = xcalloc (w->count, sizeof (*w->asked));
  w->key = xasprintf ("%s/%s", w->cluster->namespace, w->cluster->name);
  for (size_t i = 0; i < w->count; i++)
    {
      struct child_item *item = &w->items[i];

      item->child = &children->items[i];
      item->type = &ray_child_types[item->child->kind];
      item->name = ray_child_name (item->child);
      item->id = xasprintf ("%s/%s", item->type->plural, item->name);
      item->step = first_step (w, item);
      item->absent |= item->step == STEP_CREATE;
    }
}

static void
end (struct child_work *w)
{
  for (size_t i = 0; i < w->count; i++)
    {
      struct child_item *item = &w->items[i];

      w->result->failed |= item->step != STEP_DONE;
      if (item->absent && item->child->gate > w->result->gate)
        w->result->gate = item->child->gate;
      free (item->id);
      free (item->patch);
    }
  free (w->items);
  free (w->asked);
  free (w->key);
}

void
children_apply (struct controller *c, unsigned term, const struct ray_cluster *cluster,
                const struct cache_snapshot *snapshot, struct children_result *result)
{
  cleanup_children struct ray_children children = { 0 };
  struct child_work w = { .c = c, .term = term, .cluster = cluster, .snapshot = snapshot, .result = result };

  *result = (struct children_result){ 0 };
  ray_children_make (&children, cluster, &c->options.ray);
  begin (&w, &children);
  converse (&w);
  result->failed |= !children_prune (c, term, cluster, snapshot, &children);
  end (&w);
}
