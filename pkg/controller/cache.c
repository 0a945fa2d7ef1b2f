/* cache.c - digests of what the server has, grouped by RayCluster: how they come, change and go. */
#include "controller/cache_internal.h"

#include <string.h>

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

/* ---- items and their clusters ---- */

void
cache_drop_group_if_empty (struct cache *cache, struct group *group)
{
  for (int kind = 0; kind < CACHE_KIND_MAX; kind++)
    if (group->members[kind] != NULL)
      return;
  if (group->ndoubts > 0)
    return; /* a pod may be there that a later cluster of this name must know of */
  HASH_DEL (cache->groups, group);
  cache_forget_notes (group);
  free (group->key);
  free (group);
}

struct group *
cache_find_group (struct cache *cache, const char *key)
{
  struct group *group;

  HASH_FIND_STR (cache->groups, key, group);
  return group;
}

struct group *
cache_need_group (struct cache *cache, const char *key)
{
  struct group *group = cache_find_group (cache, key);

  if (group != NULL)
    return group;
  group = xcalloc (1, sizeof (*group));
  group->key = xstrdup (key);
  HASH_ADD_KEYPTR (hh, cache->groups, group->key, strlen (group->key), group);
  return group;
}

/* Who was known and is gone leaves its name behind. */
static void
remember (const struct cache_item *item, struct group *group)
{
  if (item->kind == CACHE_POD && group != NULL)
    recent_add (&group->gone, item->u.pod->name, clock_mono_ms ());
}

/* Takes the item out of the hash, its group and the cache's reference; the group stays. Returns its group. */
static struct group *
item_unlink (struct cache *cache, struct cache_item *item)
{
  struct group *group = item->group;

  HASH_DEL (cache->items[item->kind], item);
  DL_DELETE (group->members[item->kind], item);
  group->counts[item->kind]--;
  item->group = NULL;
  cache_item_unref (item);
  return group;
}

/* The same, and the group goes with its last member; returns its group's key (owned by the caller). */
static char *
item_detach (struct cache *cache, struct cache_item *item)
{
  struct group *group = item_unlink (cache, item);
  char *key = xstrdup (group->key);

  cache_drop_group_if_empty (cache, group);
  return key;
}

static void
item_attach (struct cache *cache, struct cache_item *item, const char *group_key)
{
  struct group *group = cache_need_group (cache, group_key);

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

/* An object that is listed as older than it is known to be. When what is known turns out to be older than the list, it
 * is not of this server's past. */
static void
note_contradiction (struct cache_source *source, const struct cache_item *old, const struct cache_item *listed)
{
  if (source->listing && old->version > listed->version
      && (source->contradicted == 0 || old->version < source->contradicted))
    source->contradicted = old->version;
}

/* Who has the object, now that this source has brought it. An answer is no part of a list: an object that is gone again
 * when a list that is under way ends must not stay for it. */
static void
note_sighting (struct cache_item *item, const struct cache_source *source, bool from_answer)
{
  struct sighting *sighting = &item->sightings[source->view];

  if (!from_answer)
    *sighting = (struct sighting){ source, source->epoch };
  else if (sighting->source == NULL)
    *sighting = (struct sighting){ source, source->epoch - 1 };
}

/* Puts the item in place of what is there, unless that is newer. Consumes the item. From an API answer, an unknown
 * object is only taken when the source has not yet seen its version: else it is known to be gone again. */
static void
replace (struct cache *cache, struct cache_source *source, struct cache_item *item, char *group_key, bool from_answer)
{
  cleanup_free char *old_key = NULL;
  cleanup_free char *new_key = group_key;
  struct cache_item *old;
  struct group *left = NULL;
  bool keep, same_shape;

  pthread_mutex_lock (&cache->lock);
  HASH_FIND_STR (cache->items[item->kind], item->key, old);
  keep = old ? old->version <= item->version : !(from_answer && item->version <= source->progress);
  same_shape = old != NULL && item->kind == CACHE_CLUSTER && old->shape == item->shape;
  if (!from_answer && item->version > source->progress)
    source->progress = item->version;
  if (old != NULL && !from_answer)
    {
      note_contradiction (source, old, item);
      note_sighting (old, source, from_answer);
    }
  if (keep)
    {
      if (old != NULL)
        memcpy (item->sightings, old->sightings, sizeof (item->sightings));
      note_sighting (item, source, from_answer);
      if (old != NULL)
        {
          left = item_unlink (cache, old);
          old_key = xstrdup (left->key);
        }
      item_attach (cache, item, new_key);
      if (left != NULL)
        cache_drop_group_if_empty (cache, left); /* only now: what is noted of it must outlive its refreshing */
    }
  else if (old == NULL)
    remember (item, cache_find_group (cache, new_key));
  pthread_mutex_unlock (&cache->lock);
  if (keep && !same_shape)
    notify (cache, new_key, source->kind);
  if (keep && old_key != NULL && strcmp (old_key, new_key) != 0)
    notify (cache, old_key, source->kind);
  if (!keep)
    cache_item_unref (item);
}

void
cache_upsert (struct cache *cache, struct cache_source *source, const cJSON *object, uint64_t version)
{
  char *group_key;
  struct cache_item *item = cache_item_new (source, object, version, &group_key);

  if (item != NULL)
    replace (cache, source, item, group_key, false);
}

void
cache_observe (struct cache *cache, struct cache_source *source, const cJSON *object)
{
  uint64_t version = strtoull (log_nonnull (json_str (object, "metadata", "resourceVersion")), NULL, 10);
  char *group_key;
  struct cache_item *item = version ? cache_item_new (source, object, version, &group_key) : NULL;

  if (item != NULL)
    replace (cache, source, item, group_key, true);
}

/* This source has the object no more. Returns the key of its group when nobody has it now (owned by the caller). */
static char *
let_go (struct cache *cache, struct cache_item *item, const struct cache_source *source)
{
  item->sightings[source->view].source = NULL;
  for (size_t i = 0; i < CACHE_VIEWS; i++)
    if (item->sightings[i].source != NULL)
      return NULL;
  remember (item, item->group);
  return item_detach (cache, item);
}

void
cache_remove (struct cache *cache, struct cache_source *source, const cJSON *object, uint64_t version)
{
  cleanup_free char *key = cache_item_key (source, object);
  cleanup_free char *group_key = NULL;
  struct cache_item *item;

  pthread_mutex_lock (&cache->lock);
  if (version > source->progress)
    source->progress = version;
  HASH_FIND_STR (cache->items[source->kind], key, item);
  if (item != NULL && (item->version <= version || version == 0))
    group_key = let_go (cache, item, source);
  pthread_mutex_unlock (&cache->lock);
  notify (cache, group_key, source->kind);
}

/* ---- lists ---- */

void
cache_list_begin (struct cache *cache, struct cache_source *source)
{
  pthread_mutex_lock (&cache->lock);
  source->epoch++;
  source->listing = true;
  source->begun_in = cache->pasts;
  source->contradicted = 0;
  pthread_mutex_unlock (&cache->lock);
}

/* Whatever is known from this source counts as older than anything the next list brings. */
static void
forget_versions (struct cache *cache, struct cache_source *source)
{
  struct cache_item *item, *tmp;

  source->progress = 0;
  HASH_ITER (hh, cache->items[source->kind], item, tmp)
    {
      if (item->sightings[source->view].source != source)
        continue;
      item->version = 0;
      cache_forget_memos (item->group);
    }
}

struct keys
{
  char **items;
  size_t count, cap;
};

/* Lets go of the source's objects that the list did not bring and that are not newer than the list. */
static void
let_go_of_vanished (struct cache *cache, const struct cache_source *source, uint64_t version, struct keys *changed)
{
  struct cache_item *item, *tmp;

  HASH_ITER (hh, cache->items[source->kind], item, tmp)
    {
      const struct sighting *sighting = &item->sightings[source->view];
      char *group_key;

      if (sighting->source != source || sighting->epoch == source->epoch || item->version > version)
        continue;
      group_key = let_go (cache, item, source);
      if (group_key == NULL)
        continue;
      changed->items = xgrow (changed->items, changed->count, &changed->cap, sizeof (*changed->items));
      changed->items[changed->count++] = group_key;
    }
}

bool
cache_is_current (struct cache *cache, const struct cache_source *source)
{
  bool current;

  pthread_mutex_lock (&cache->lock);
  current = source->known_in == cache->pasts;
  pthread_mutex_unlock (&cache->lock);
  return current;
}

bool
cache_list_end (struct cache *cache, struct cache_source *source, uint64_t version, bool *news)
{
  struct keys changed = { 0 };
  bool fits;

  pthread_mutex_lock (&cache->lock);
  source->listing = false;
  fits = version >= source->progress && (source->contradicted == 0 || source->contradicted > version);
  *news = !fits && source->known_in == cache->pasts;
  cache->pasts += *news;
  if (fits)
    {
      source->known_in = source->begun_in;
      source->progress = version;
      let_go_of_vanished (cache, source, version, &changed);
    }
  else
    forget_versions (cache, source);
  pthread_mutex_unlock (&cache->lock);
  for (size_t i = 0; i < changed.count; i++)
    {
      notify (cache, changed.items[i], source->kind);
      free (changed.items[i]);
    }
  free (changed.items);
  return fits;
}

void
cache_progress (struct cache *cache, struct cache_source *source, uint64_t version)
{
  pthread_mutex_lock (&cache->lock);
  if (version > source->progress)
    source->progress = version;
  pthread_mutex_unlock (&cache->lock);
}

void
cache_free (struct cache *cache)
{
  struct cache_item *item, *tmp;
  struct group *group, *tmp_group;

  for (int kind = 0; kind < CACHE_KIND_MAX; kind++)
    HASH_ITER (hh, cache->items[kind], item, tmp)
      {
        free (item_detach (cache, item));
      }
  HASH_ITER (hh, cache->groups, group, tmp_group)
    {
      while (group->ndoubts > 0)
        free (group->doubts[--group->ndoubts]);
      cache_drop_group_if_empty (cache, group);
    }
  pthread_mutex_destroy (&cache->lock);
  free (cache);
}
