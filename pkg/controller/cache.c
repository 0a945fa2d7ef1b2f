/* cache.c - digests of what the server has, grouped by RayCluster. Pods and Services are kept as digests; a RayCluster,
 * whose every field may matter, as compact text without what only servers and kubectl read. */
#include "controller/controller_internal.h"

#include <stdio.h>
#include <string.h>

#include <uthash.h>
#include <utlist.h>

struct group; /* everything about one cluster key */

/* One allocation. */
struct kept_cluster
{
  char uid[CONTROLLER_UID_SIZE], owner_kind[CONTROLLER_KIND_SIZE];
  bool provisioned;
  int64_t provisioned_after_ms; /* -1: not known */
  char text[];
};

struct cache_item
{
  char *key; /* namespace/name */
  enum cache_kind kind;
  union
  {
    struct ray_pod *pod;
    struct ray_service *service;
    struct ray_child_seen *child;
    struct kept_cluster *cluster;
    void *any;
  } u;
  uint64_t version;
  uint64_t shape; /* clusters: of everything but the status */
  const struct cache_source *source;
  unsigned epoch;
  int refs;
  struct group *group;
  struct cache_item *prev, *next;
  UT_hash_handle hh;
};

struct group
{
  char *key;
  struct cache_item *members[CACHE_KIND_MAX]; /* lists */
  size_t counts[CACHE_KIND_MAX];
  int64_t status_ms;
  struct memo *memos;
  size_t nmemos, memos_cap;
  char **doubts; /* names of pods */
  size_t ndoubts, doubts_cap;
  UT_hash_handle hh;
};

struct memo
{
  char *id;
  struct cache_memo memo;
};

struct cache
{
  pthread_mutex_t lock;
  struct cache_item *items[CACHE_KIND_MAX]; /* hashes by key */
  struct group *groups;
  cache_changed_fn changed;
  void *data;
};

struct cache *
cache_new (void)
{
  struct cache *cache = xcalloc (1, sizeof (*cache));

  pthread_mutex_init (&cache->lock, NULL);
  return cache;
}

void
cache_on_change (struct cache *cache, cache_changed_fn fn, void *data)
{
  cache->changed = fn;
  cache->data = data;
}

/* ---- items ---- */

static void
item_unref (struct cache_item *item)
{
  if (--item->refs > 0)
    return;
  free (item->u.any);
  free (item->key);
  free (item);
}

/* How long after its creation the cluster was last provisioned, going by itself, so that a restart of ours changes
 * nothing. -1: it is not, or does not say since when. */
static int64_t
provisioned_after_ms (const cJSON *object, const cJSON *condition)
{
  const char *created = json_str (object, "metadata", "creationTimestamp");
  const char *since = json_str (condition, "lastTransitionTime");
  int64_t from, to;

  if (!text_eq (json_str (condition, "status"), "True") || created == NULL || since == NULL
      || clock_parse_rfc3339 (created, &from) < 0 || clock_parse_rfc3339 (since, &to) < 0)
    return -1;
  return to > from ? to - from : 0;
}

/* What of a RayCluster is worth keeping. *shape is a hash of what a pass depends on and somebody else writes: the
 * metadata, whose generation stands for the spec. */
static struct kept_cluster *
keep_cluster (const cJSON *object, uint64_t *shape)
{
  const cJSON *condition = json_find (json_get (object, "status", "conditions"), "type", "RayClusterProvisioned");
  const char *owner_kind = json_str (object, "metadata", "labels", RAY_LABEL_ORIGIN_CRD);
  cleanup_json cJSON *copy = cJSON_Duplicate (object, true);
  cleanup_json cJSON *metadata = NULL;
  cleanup_free char *hashed = NULL;
  cleanup_free char *text = NULL;
  struct kept_cluster *kept;
  size_t size;

  json_drop (json_get (copy, "metadata"), "managedFields");
  json_drop (json_get (copy, "metadata", "annotations"), "kubectl.kubernetes.io/last-applied-configuration");
  metadata = cJSON_Duplicate (json_get (copy, "metadata"), true);
  json_drop (metadata, "resourceVersion");
  hashed = json_print (metadata);
  *shape = text_hash_str (0, hashed);
  text = json_print (copy);
  size = strlen (text) + 1;
  kept = xcalloc (1, sizeof (*kept) + size);
  snprintf (kept->uid, sizeof (kept->uid), "%s", log_nonnull (json_str (object, "metadata", "uid")));
  snprintf (kept->owner_kind, sizeof (kept->owner_kind), "%s", owner_kind ? owner_kind : "None");
  kept->provisioned = text_eq (json_str (condition, "status"), "True");
  kept->provisioned_after_ms = provisioned_after_ms (object, condition);
  memcpy (kept->text, text, size);
  return kept;
}

/* Roles and RoleBindings, say, may have the same name. */
static char *
item_key (const struct cache_source *source, const cJSON *object)
{
  bool child = source->kind == CACHE_CHILD;

  return xasprintf ("%s%s%s/%s", child ? ray_child_types[source->child].plural : "", child ? "/" : "",
                    log_nonnull (json_str (object, "metadata", "namespace")),
                    log_nonnull (json_str (object, "metadata", "name")));
}

/* Makes an item of the object; *group_key ("namespace/cluster", owned by the caller) tells which cluster it belongs to.
 * NULL when it is none of ours. */
static struct cache_item *
item_new (const struct cache_source *source, const cJSON *object, uint64_t version, char **group_key)
{
  const char *namespace = log_nonnull (json_str (object, "metadata", "namespace"));
  const char *name = log_nonnull (json_str (object, "metadata", "name"));
  enum cache_kind kind = source->kind;
  struct cache_item item = { .kind = kind, .version = version, .refs = 1 };
  const char *cluster = name;
  struct cache_item *copy;

  if (kind == CACHE_CLUSTER)
    item.u.cluster = keep_cluster (object, &item.shape);
  else if (kind == CACHE_POD && (item.u.pod = ray_pod_digest (object)) != NULL)
    cluster = item.u.pod->cluster;
  else if (kind == CACHE_SERVICE && (item.u.service = ray_service_digest (object)) != NULL)
    cluster = item.u.service->cluster;
  else if (kind == CACHE_CHILD && (item.u.child = ray_child_digest (source->child, object)) != NULL)
    cluster = item.u.child->cluster;
  if (item.u.any == NULL)
    return NULL;
  *group_key = xasprintf ("%s/%s", namespace, cluster);
  copy = xmalloc (sizeof (*copy));
  *copy = item;
  copy->key = item_key (source, object);
  return copy;
}

static void
drop_group_if_empty (struct cache *cache, struct group *group)
{
  for (int kind = 0; kind < CACHE_KIND_MAX; kind++)
    if (group->members[kind] != NULL)
      return;
  HASH_DEL (cache->groups, group);
  for (size_t i = 0; i < group->nmemos; i++)
    free (group->memos[i].id);
  free (group->memos);
  for (size_t i = 0; i < group->ndoubts; i++)
    free (group->doubts[i]);
  free (group->doubts);
  free (group->key);
  free (group);
}

static struct group *
find_group (struct cache *cache, const char *key, bool make)
{
  struct group *group;

  HASH_FIND_STR (cache->groups, key, group);
  if (group != NULL || !make)
    return group;
  group = xcalloc (1, sizeof (*group));
  group->key = xstrdup (key);
  HASH_ADD_KEYPTR (hh, cache->groups, group->key, strlen (group->key), group);
  return group;
}

/* Takes the item out of the hash, its group and the cache's reference; returns its group's key (owned by the caller).
 */
static char *
item_detach (struct cache *cache, struct cache_item *item)
{
  struct group *group = item->group;
  char *key = xstrdup (group->key);

  HASH_DEL (cache->items[item->kind], item);
  DL_DELETE (group->members[item->kind], item);
  group->counts[item->kind]--;
  item->group = NULL;
  drop_group_if_empty (cache, group);
  item_unref (item);
  return key;
}

static void
item_attach (struct cache *cache, struct cache_item *item, const char *group_key)
{
  struct group *group = find_group (cache, group_key, true);

  item->group = group;
  DL_APPEND (group->members[item->kind], item);
  group->counts[item->kind]++;
  HASH_ADD_KEYPTR (hh, cache->items[item->kind], item->key, strlen (item->key), item);
}

static void
notify (struct cache *cache, const char *key, enum cache_kind kind)
{
  if (key != NULL && cache->changed != NULL)
    cache->changed (cache->data, key, kind);
}

/* ---- changes ---- */

/* Puts the item in place of what is there, unless that is newer. Consumes the item. From an API answer, an unknown
 * object is only taken when the source has not yet seen its version: else it is known to be gone again. */
static void
replace (struct cache *cache, struct cache_source *source, struct cache_item *item, char *group_key, bool from_answer)
{
  cleanup_free char *old_key = NULL;
  cleanup_free char *new_key = group_key;
  struct cache_item *old;
  bool keep, same_shape;

  pthread_mutex_lock (&cache->lock);
  HASH_FIND_STR (cache->items[item->kind], item->key, old);
  keep = old ? old->version <= item->version : !(from_answer && item->version <= source->progress);
  same_shape = old != NULL && item->kind == CACHE_CLUSTER && old->shape == item->shape;
  if (!from_answer && item->version > source->progress)
    source->progress = item->version;
  if (old != NULL && !from_answer)
    {
      old->epoch = source->epoch;
      old->source = source;
    }
  if (keep)
    {
      item->source = source;
      /* An answer is no part of a list: an object that is gone again when a list that is under way ends must not stay.
       */
      item->epoch = !from_answer ? source->epoch : old ? old->epoch : source->epoch - 1;
      find_group (cache, new_key,
                  true); /* so that a group that is only refreshed does not go and lose its status time */
      old_key = old ? item_detach (cache, old) : NULL;
      item_attach (cache, item, new_key);
    }
  pthread_mutex_unlock (&cache->lock);
  if (keep && !same_shape)
    notify (cache, new_key, source->kind);
  if (keep && old_key != NULL && strcmp (old_key, new_key) != 0)
    notify (cache, old_key, source->kind);
  if (!keep)
    item_unref (item);
}

void
cache_upsert (struct cache *cache, struct cache_source *source, const cJSON *object, uint64_t version)
{
  char *group_key;
  struct cache_item *item = item_new (source, object, version, &group_key);

  if (item != NULL)
    replace (cache, source, item, group_key, false);
}

void
cache_observe (struct cache *cache, struct cache_source *source, const cJSON *object)
{
  uint64_t version = strtoull (log_nonnull (json_str (object, "metadata", "resourceVersion")), NULL, 10);
  char *group_key;
  struct cache_item *item = version ? item_new (source, object, version, &group_key) : NULL;

  if (item != NULL)
    replace (cache, source, item, group_key, true);
}

void
cache_remove (struct cache *cache, struct cache_source *source, const cJSON *object, uint64_t version)
{
  cleanup_free char *key = item_key (source, object);
  cleanup_free char *group_key = NULL;
  struct cache_item *item;

  pthread_mutex_lock (&cache->lock);
  if (version > source->progress)
    source->progress = version;
  HASH_FIND_STR (cache->items[source->kind], key, item);
  if (item != NULL && (item->version <= version || version == 0))
    group_key = item_detach (cache, item);
  pthread_mutex_unlock (&cache->lock);
  notify (cache, group_key, source->kind);
}

void
cache_list_begin (struct cache *cache, struct cache_source *source)
{
  pthread_mutex_lock (&cache->lock);
  source->epoch++;
  pthread_mutex_unlock (&cache->lock);
}

/* One object of this source that the list did not bring and that is not newer than the list. */
static struct cache_item *
find_vanished (struct cache *cache, const struct cache_source *source, uint64_t version)
{
  struct cache_item *item, *tmp;

  HASH_ITER (hh, cache->items[source->kind], item, tmp)
    {
      if (item->source == source && item->epoch != source->epoch && item->version <= version)
        return item;
    }
  return NULL;
}

void
cache_list_end (struct cache *cache, struct cache_source *source, uint64_t version)
{
  for (;;)
    {
      cleanup_free char *group_key = NULL;
      struct cache_item *item;

      pthread_mutex_lock (&cache->lock);
      if (version > source->progress)
        source->progress = version;
      item = find_vanished (cache, source, version);
      if (item != NULL)
        group_key = item_detach (cache, item);
      pthread_mutex_unlock (&cache->lock);
      if (item == NULL)
        return;
      notify (cache, group_key, source->kind);
    }
}

void
cache_progress (struct cache *cache, struct cache_source *source, uint64_t version)
{
  pthread_mutex_lock (&cache->lock);
  if (version > source->progress)
    source->progress = version;
  pthread_mutex_unlock (&cache->lock);
}

/* ---- snapshots ---- */

static void
hold (struct cache_snapshot *snapshot, struct cache_item *item)
{
  item->refs++;
  snapshot->items[snapshot->nitems++] = item;
}

void
cache_snapshot_take (struct cache *cache, const char *key, struct cache_snapshot *s)
{
  struct cache_item *item;
  struct group *group;

  *s = (struct cache_snapshot){ .cache = cache };
  pthread_mutex_lock (&cache->lock);
  group = find_group (cache, key, false);
  if (group != NULL)
    {
      size_t npods = group->counts[CACHE_POD], nservices = group->counts[CACHE_SERVICE];
      size_t nchildren = group->counts[CACHE_CHILD];

      s->items = xcalloc (npods + nservices + nchildren + 1, sizeof (*s->items));
      s->children = xcalloc (nchildren, sizeof (*s->children));
      s->observed.pods = xcalloc (npods, sizeof (*s->observed.pods));
      s->observed.services = xcalloc (nservices, sizeof (*s->observed.services));
      DL_FOREACH (group->members[CACHE_POD], item)
        {
          hold (s, item);
          s->observed.pods[s->observed.npods++] = item->u.pod;
        }
      DL_FOREACH (group->members[CACHE_SERVICE], item)
        {
          hold (s, item);
          s->observed.services[s->observed.nservices++] = item->u.service;
        }
      DL_FOREACH (group->members[CACHE_CHILD], item)
        {
          hold (s, item);
          s->children[s->nchildren++] = item->u.child;
        }
      s->cluster = group->members[CACHE_CLUSTER];
      if (s->cluster != NULL)
        {
          hold (s, s->cluster);
          s->text = s->cluster->u.cluster->text;
          s->len = strlen (s->text);
        }
    }
  pthread_mutex_unlock (&cache->lock);
}

void
cache_snapshot_drop (struct cache_snapshot *s)
{
  if (s->cache == NULL)
    return;
  pthread_mutex_lock (&s->cache->lock);
  for (size_t i = 0; i < s->nitems; i++)
    item_unref (s->items[i]);
  pthread_mutex_unlock (&s->cache->lock);
  free (s->items);
  free (s->observed.pods);
  free (s->observed.services);
  free (s->children);
  *s = (struct cache_snapshot){ 0 };
}

/* ---- the rest ---- */

void
cache_each_cluster (struct cache *cache, void (*fn) (void *data, const char *key), void *data)
{
  struct cache_item *item, *tmp;

  pthread_mutex_lock (&cache->lock);
  HASH_ITER (hh, cache->items[CACHE_CLUSTER], item, tmp)
    {
      fn (data, item->key);
    }
  pthread_mutex_unlock (&cache->lock);
}

void
cache_describe_clusters (struct cache *cache, controller_cluster_fn fn, void *data)
{
  struct cache_item *item, *tmp;

  pthread_mutex_lock (&cache->lock);
  HASH_ITER (hh, cache->items[CACHE_CLUSTER], item, tmp)
    {
      const struct kept_cluster *kept = item->u.cluster;
      const char *slash = strchr (item->key, '/');
      const struct controller_cluster cluster = {
        .namespace = item->key,
        .namespace_len = (int) (slash - item->key),
        .name = slash + 1,
        .uid = kept->uid,
        .owner_kind = kept->owner_kind,
        .provisioned = kept->provisioned,
        .provisioned_after_ms = kept->provisioned_after_ms,
      };

      fn (data, &cluster);
    }
  pthread_mutex_unlock (&cache->lock);
}

void
cache_counts (struct cache *cache, size_t counts[CACHE_KIND_MAX])
{
  pthread_mutex_lock (&cache->lock);
  for (int kind = 0; kind < CACHE_KIND_MAX; kind++)
    counts[kind] = HASH_COUNT (cache->items[kind]);
  pthread_mutex_unlock (&cache->lock);
}

int64_t
cache_status_time (struct cache *cache, const char *key)
{
  struct group *group;
  int64_t ms;

  pthread_mutex_lock (&cache->lock);
  group = find_group (cache, key, false);
  ms = group ? group->status_ms : 0;
  pthread_mutex_unlock (&cache->lock);
  return ms;
}

void
cache_set_status_time (struct cache *cache, const char *key, int64_t mono_ms)
{
  struct group *group;

  pthread_mutex_lock (&cache->lock);
  group = find_group (cache, key, false);
  if (group != NULL)
    group->status_ms = mono_ms;
  pthread_mutex_unlock (&cache->lock);
}

static struct memo *
find_memo (const struct group *group, const char *id)
{
  for (size_t i = 0; group != NULL && i < group->nmemos; i++)
    if (strcmp (group->memos[i].id, id) == 0)
      return &group->memos[i];
  return NULL;
}

bool
cache_memo_get (struct cache *cache, const char *key, const char *id, struct cache_memo *memo)
{
  const struct memo *found;

  pthread_mutex_lock (&cache->lock);
  found = find_memo (find_group (cache, key, false), id);
  *memo = found ? found->memo : (struct cache_memo){ 0 };
  pthread_mutex_unlock (&cache->lock);
  return found != NULL;
}

void
cache_memo_set (struct cache *cache, const char *key, const char *id, const struct cache_memo *memo)
{
  struct group *group;
  struct memo *slot;

  pthread_mutex_lock (&cache->lock);
  group = find_group (cache, key, false);
  slot = find_memo (group, id);
  if (group != NULL && slot == NULL)
    {
      group->memos = xgrow (group->memos, group->nmemos, &group->memos_cap, sizeof (*group->memos));
      slot = &group->memos[group->nmemos++];
      slot->id = xstrdup (id);
    }
  if (slot != NULL)
    slot->memo = *memo;
  pthread_mutex_unlock (&cache->lock);
}

static size_t
find_doubt (const struct group *group, const char *pod)
{
  size_t i = 0;

  while (i < group->ndoubts && strcmp (group->doubts[i], pod) != 0)
    i++;
  return i;
}

void
cache_doubt_add (struct cache *cache, const char *key, const char *pod)
{
  struct group *group;

  pthread_mutex_lock (&cache->lock);
  group = find_group (cache, key, false);
  if (group != NULL && find_doubt (group, pod) == group->ndoubts)
    {
      group->doubts = xgrow (group->doubts, group->ndoubts, &group->doubts_cap, sizeof (char *));
      group->doubts[group->ndoubts++] = xstrdup (pod);
    }
  pthread_mutex_unlock (&cache->lock);
}

char *
cache_doubt_any (struct cache *cache, const char *key)
{
  const struct group *group;
  char *pod;

  pthread_mutex_lock (&cache->lock);
  group = find_group (cache, key, false);
  pod = group != NULL && group->ndoubts > 0 ? xstrdup (group->doubts[group->ndoubts - 1]) : NULL;
  pthread_mutex_unlock (&cache->lock);
  return pod;
}

void
cache_doubt_drop (struct cache *cache, const char *key, const char *pod)
{
  struct group *group;
  size_t i;

  pthread_mutex_lock (&cache->lock);
  group = find_group (cache, key, false);
  i = group ? find_doubt (group, pod) : 0;
  if (group != NULL && i < group->ndoubts)
    {
      free (group->doubts[i]);
      group->doubts[i] = group->doubts[--group->ndoubts];
    }
  pthread_mutex_unlock (&cache->lock);
}

void
cache_free (struct cache *cache)
{
  struct cache_item *item, *tmp;

  for (int kind = 0; kind < CACHE_KIND_MAX; kind++)
    HASH_ITER (hh, cache->items[kind], item, tmp)
      {
        free (item_detach (cache, item));
      }
  pthread_mutex_destroy (&cache->lock);
  free (cache);
}
