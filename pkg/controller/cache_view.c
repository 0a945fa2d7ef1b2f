/* cache_view.c - the cache as it is read: one cluster at one moment, all clusters, counts. */
#include "controller/cache_internal.h"

#include <string.h>

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
  group = cache_find_group (cache, key);
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
      s->observed.gone = recent_copy (&group->gone, clock_mono_ms (), &s->observed.ngone);
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
    cache_item_unref (s->items[i]);
  pthread_mutex_unlock (&s->cache->lock);
  free (s->items);
  free (s->observed.pods);
  free (s->observed.services);
  free (s->observed.gone);
  free (s->children);
  *s = (struct cache_snapshot){ 0 };
}

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
