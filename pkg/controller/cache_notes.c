/* cache_notes.c - what is remembered of a cluster besides what the server has of it, for as long as the cluster is
 * known. */
#include "controller/cache_internal.h"

#include <string.h>

int64_t
cache_status_time (struct cache *cache, const char *key)
{
  struct group *group;
  int64_t ms;

  pthread_mutex_lock (&cache->lock);
  group = cache_find_group (cache, key);
  ms = group ? group->status_ms : 0;
  pthread_mutex_unlock (&cache->lock);
  return ms;
}

void
cache_set_status_time (struct cache *cache, const char *key, int64_t mono_ms)
{
  struct group *group;

  pthread_mutex_lock (&cache->lock);
  group = cache_find_group (cache, key);
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
  found = find_memo (cache_find_group (cache, key), id);
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
  group = cache_find_group (cache, key);
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
  group = cache_need_group (cache, key);
  if (find_doubt (group, pod) == group->ndoubts)
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
  group = cache_find_group (cache, key);
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
  group = cache_find_group (cache, key);
  i = group ? find_doubt (group, pod) : 0;
  if (group != NULL && i < group->ndoubts)
    {
      free (group->doubts[i]);
      group->doubts[i] = group->doubts[--group->ndoubts];
      cache_drop_group_if_empty (cache, group);
    }
  pthread_mutex_unlock (&cache->lock);
}

void
cache_forget_memos (struct group *group)
{
  for (size_t i = 0; i < group->nmemos; i++)
    free (group->memos[i].id);
  group->nmemos = 0;
}

void
cache_forget_notes (struct group *group)
{
  cache_forget_memos (group);
  free (group->memos);
  free (group->doubts); /* empty, or the group would stay */
  recent_free (&group->gone);
}
