/* check_slices.c - what the judge knows of slices: those on the server, and what the user wanted of them since when. */
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "ray/plan_internal.h"

/* ---- slices, as they are on the server ---- */

const char *
slice_key (const struct ray_pod *p)
{
  return p->replica_name[0] != '\0' ? p->replica_name : p->uid;
}

const char *
slice_group (const struct ray_pod *p)
{
  return text_eq (p->node_type, "head") ? RAY_HEAD_GROUP : p->group;
}

struct slice_record *
slice_record_of (const struct ray_pod *p)
{
  struct slice_record *r;

  for (size_t i = 0; i < sim->nslices; i++)
    {
      r = &sim->slices[i];
      if (strcmp (r->key, slice_key (p)) == 0 && strcmp (r->uid, p->owner_uid) == 0
          && strcmp (r->group, slice_group (p)) == 0)
        return r;
    }
  sim->slices = xgrow (sim->slices, sim->nslices, &sim->slices_cap, sizeof (*sim->slices));
  r = &sim->slices[sim->nslices++];
  *r = (struct slice_record){ .index = text_eq (p->node_type, "head") ? 0 : p->replica_index };
  snprintf (r->uid, sizeof (r->uid), "%s", p->owner_uid);
  snprintf (r->group, sizeof (r->group), "%s", slice_group (p));
  snprintf (r->key, sizeof (r->key), "%s", slice_key (p));
  return r;
}

bool
pod_is_live (const struct ray_pod *p)
{
  return p->deletion_ms == 0;
}

static bool
is_sound (const struct revision *v)
{
  return v != NULL && pod_is_live (v->pod) && !v->pod->dead;
}

struct slice_now
slice_look (const struct slice_record *r)
{
  struct slice_now now = { .top = -1 };
  uint64_t hosts = 0;

  for (size_t i = 0; i < sim->nobjects; i++)
    {
      const struct ray_pod *p = sim->objects[i]->now->pod;

      if (p == NULL || strcmp (slice_key (p), r->key) != 0 || strcmp (p->owner_uid, r->uid) != 0
          || strcmp (slice_group (p), r->group) != 0)
        continue;
      now.named |= p->replica_name[0] != '\0';
      now.bad += p->dead || !pod_is_live (p);
      now.live += pod_is_live (p);
      hosts |= p->host_index >= 0 ? (uint64_t) 1 << p->host_index : 1;
      if (p->host_index > now.top)
        now.top = p->host_index;
    }
  now.hosts_seen = __builtin_popcountll (hosts);
  return now;
}

bool
slice_is_complete (const struct slice_now *now, const struct ray_group *group)
{
  bool shape = group->is_head || now->named == (group->hosts > 1);

  return shape && now->bad == 0 && now->live == group->hosts && now->hosts_seen == group->hosts
         && now->top < group->hosts;
}

bool
slice_is_viable (const struct slice_record *r, const struct slice_now *now, const struct ray_group *group)
{
  bool shape = group->is_head || (now->named == (group->hosts > 1) && now->top < group->hosts);

  return shape && now->live > 0 && now->bad == 0 && !(r->recorded && now->live < group->hosts);
}

/* ---- what the user wanted since ---- */

const struct ray_cluster *
window_next (struct window *w)
{
  while (!w->end && w->next > 0)
    {
      const struct change *change = &sim->log[--w->next];

      if (change->kind != KIND_CLUSTER || change->after == NULL || strcmp (change->after->cluster->uid, w->uid) != 0)
        continue;
      w->end = change->rv <= w->since;
      return change->after->cluster;
    }
  return NULL;
}

bool
slice_is_listed (const struct ray_group *group, const struct slice_record *r)
{
  const cJSON *item;

  cJSON_ArrayForEach (item, group->workers_to_delete)
    {
      const struct object *pod = server_find (KIND_POD, log_nonnull (cJSON_GetStringValue (item)));

      if (pod != NULL && pod->now->pod != NULL && strcmp (slice_key (pod->now->pod), r->key) == 0)
        return true;
    }
  return false;
}

bool
slice_belongs (const struct slice_record *r, const char *uid, const struct ray_group *group)
{
  return strcmp (r->uid, uid) == 0 && strcmp (r->group, group->name) == 0;
}

int64_t
slice_count (const char *uid, const struct ray_group *group, uint64_t pod_view)
{
  int64_t n = 0;

  for (size_t i = 0; i < sim->nslices; i++)
    {
      const struct slice_record *r = &sim->slices[i];
      struct slice_now now;

      if (!slice_belongs (r, uid, group))
        continue;
      now = slice_look (r);
      n += (now.live > 0 && now.bad == 0) || r->broken_rv > pod_view;
    }
  return n;
}

/* ---- the spec that pods were made from ---- */

bool
cluster_recreates (const struct ray_cluster *cluster)
{
  return text_eq (json_str (cluster->object, "spec", "upgradeStrategy", "type"), "Recreate");
}

bool
pod_is_outdated (const struct ray_pod *p, const struct ray_cluster *cluster)
{
  const struct ray_group *group = ray_cluster_group (cluster, p->group);
  char hash[RAY_RECREATE_HASH_SIZE];

  if (strcmp (p->owner_uid, cluster->uid) != 0)
    return false;
  if (!text_eq (p->node_type, "head"))
    return group != NULL && p->template_hash != ray_template_hash (group);
  ray_recreate_hash (hash, cluster);
  return strcmp (p->recreate_hash, hash) != 0;
}

/* ---- after every change ---- */

void
check_pod_changed (const struct change *change)
{
  const struct revision *v = change->after ? change->after : change->before;

  if (v->pod == NULL || v->pod->owner_uid[0] == '\0')
    return;
  /* Also when what was broken goes: what is left may look whole, after a change of numOfHosts above all. */
  if (!is_sound (change->after) && (is_sound (change->before) || change->after == NULL))
    slice_record_of (v->pod)->broken_rv = change->rv;
}

/* Which slices the ledger now calls complete. */
void
check_cluster_changed (const struct change *change)
{
  cleanup_ledger struct ray_ledger ledger = { 0 };
  const struct ray_cluster *cluster;

  if (change->after == NULL)
    return;
  cluster = change->after->cluster;
  ray_ledger_parse (&ledger, json_str (cluster->object, "metadata", "annotations", RAY_ANNOTATION_SLICES));
  for (size_t i = 0; i < sim->nslices; i++)
    {
      struct slice_record *r = &sim->slices[i];

      if (strcmp (r->uid, cluster->uid) == 0 && ray_ledger_get (&ledger, r->group, r->index).complete)
        {
          struct slice_now now = slice_look (r);

          r->recorded |= now.live > 0 && now.named;
        }
    }
}
