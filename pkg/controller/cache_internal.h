/* cache_internal.h - what the files of the cache share: items, the clusters they belong to, the lock around both. */
#ifndef CACHE_INTERNAL_H
#define CACHE_INTERNAL_H

#include "controller/controller_internal.h"

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

/* That a source has the object. */
struct sighting
{
  const struct cache_source *source; /* NULL: it has not */
  unsigned epoch;                    /* of its list that last brought it */
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
  uint64_t version;                       /* 0: of a past that is no more */
  uint64_t shape;                         /* clusters: of everything but the status */
  struct sighting sightings[CACHE_VIEWS]; /* by cache_source.view; without any it is let go */
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
  struct recent gone; /* pods */
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
  unsigned pasts; /* counts how often the server went back in time */
  cache_changed_fn changed;
  void *data;
};

/* ---- cache_item.c ---- */

/* "namespace/name", below its plural when it is a child. Owned by the caller. */
char *cache_item_key (const struct cache_source *source, const cJSON *object);
/* Makes an item of the object; *group_key ("namespace/cluster", owned by the caller) tells which cluster it belongs to.
 * NULL when it is none of ours. */
struct cache_item *cache_item_new (const struct cache_source *source, const cJSON *object, uint64_t version,
                                   char **group_key);
void cache_item_unref (struct cache_item *item); /* with the lock held, unless it is nobody else's yet */

/* ---- cache_notes.c ---- */

void cache_forget_memos (struct group *group);
void cache_forget_notes (struct group *group);

/* ---- cache.c, with the lock held ---- */

struct group *cache_find_group (struct cache *cache, const char *key); /* NULL: there is none */
struct group *cache_need_group (struct cache *cache, const char *key); /* makes it */
void cache_drop_group_if_empty (struct cache *cache, struct group *group);

#endif
