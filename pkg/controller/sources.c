/* sources.c - the informers that feed the cache: one table of what is watched, times the watched namespaces. */
#include "controller/controller_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CHILDREN_PATIENCE_MS 5000
#define STALE_MS 60000

struct watch
{
  enum cache_kind kind;
  const char *name, *prefix, *plural, *selector;
  unsigned view;
};

struct source
{
  struct cache_source cache_source;
  struct watch watch;
  struct controller *controller;
  struct kube_informer *informer;
  char *namespace;
};

/* Headless Services carry that one label only (facts/kuberay.md §2.3), hence two lines for Services. */
static const struct watch watches[] = {
  { CACHE_CLUSTER, "rayclusters", "/apis/ray.io/v1", "rayclusters", NULL, 0 },
  { CACHE_POD, "pods", "/api/v1", "pods", RAY_LABEL_CLUSTER, 0 },
  { CACHE_SERVICE, "services", "/api/v1", "services", RAY_LABEL_CLUSTER, 0 },
  { CACHE_SERVICE, "headless-services", "/api/v1", "services", RAY_LABEL_HEADLESS, 1 },
};

/* Watched too, but their lists are waited for a little only, lest each of them is asked for after a restart: an API
 * group may be absent or not granted, and an object that exists although it has not been seen yet is found when its
 * creation is refused. Secrets are not watched: what they say is nobody's business, and a look at the resync is enough
 * for them. */
static const enum ray_child_kind watched_children[] = {
  RAY_CHILD_SERVICE_ACCOUNT, RAY_CHILD_ROLE, RAY_CHILD_ROLE_BINDING,
  RAY_CHILD_INGRESS,         RAY_CHILD_PVC,  RAY_CHILD_NETWORK_POLICY,
};

/* Nothing is decided before its list is there. */
static bool
is_needed (const struct source *s)
{
  return s->cache_source.kind != CACHE_CHILD;
}

static void
on_upsert (void *data, const cJSON *object, uint64_t version)
{
  struct source *s = data;

  cache_upsert (s->controller->cache, &s->cache_source, object, version);
}

static void
on_remove (void *data, const cJSON *object, uint64_t version)
{
  struct source *s = data;

  cache_remove (s->controller->cache, &s->cache_source, object, version);
}

static void
on_list_begin (void *data)
{
  struct source *s = data;

  cache_list_begin (s->controller->cache, &s->cache_source);
}

/* Pods of the past and RayClusters of a future that is no more would make a wrong picture: none is used
 * (controller_sources_synced) until every list has been made anew. */
static void
renew_others (const struct source *s)
{
  struct controller *c = s->controller;

  for (size_t i = 0; i < c->nsources && !atomic_load (&c->stopping_sources); i++)
    if (&c->sources[i] != s && is_needed (&c->sources[i]))
      kube_informer_renew (c->sources[i].informer);
}

static bool
on_list_end (void *data, uint64_t version)
{
  struct source *s = data;
  bool news, fits = cache_list_end (s->controller->cache, &s->cache_source, version, &news);

  if (news)
    renew_others (s);
  return fits;
}

static void
on_progress (void *data, uint64_t version)
{
  struct source *s = data;

  cache_progress (s->controller->cache, &s->cache_source, version);
}

static void
add_source (struct controller *c, const struct watch *watch, enum ray_child_kind child, const char *namespace)
{
  struct source *s = &c->sources[c->nsources++];

  s->controller = c;
  s->watch = *watch;
  s->namespace = namespace ? xstrdup (namespace) : NULL;
  s->cache_source = (struct cache_source){
    .kind = watch->kind, .view = watch->view, .child = child, .namespace = s->namespace, .label = watch->selector
  };
}

static void
start_source (struct source *s)
{
  const struct watch *watch = &s->watch;
  const struct controller_options *o = &s->controller->options;
  cleanup_free char *path = s->namespace ? xasprintf ("%s/namespaces/%s/%s", watch->prefix, s->namespace, watch->plural)
                                         : xasprintf ("%s/%s", watch->prefix, watch->plural);
  const char *selector
      = watch->kind == CACHE_CLUSTER && s->controller->selector != NULL ? o->selector : watch->selector;
  struct kube_informer_options options
      = { .path = path, .label_selector = selector, .name = watch->name, .transient = true };
  struct kube_informer_handler handler = {
    .upsert = on_upsert,
    .remove = on_remove,
    .list_begin = on_list_begin,
    .list_end = on_list_end,
    .progress = on_progress,
    .data = s,
  };

  s->informer = kube_informer_start (o->watch_client ? o->watch_client : o->client, &options, &handler);
}

static void
add_child_source (struct controller *c, enum ray_child_kind child, const char *namespace)
{
  const struct ray_child_type *type = &ray_child_types[child];
  struct watch watch = { CACHE_CHILD, type->plural, type->prefix, type->plural, RAY_LABEL_CLUSTER, 0 };

  add_source (c, &watch, child, namespace);
}

void
controller_start_sources (struct controller *c)
{
  size_t nnamespaces = c->options.nnamespaces ? c->options.nnamespaces : 1;

  c->sources = xcalloc (nnamespaces * (ARRAY_LEN (watches) + ARRAY_LEN (watched_children)), sizeof (*c->sources));
  for (size_t n = 0; n < nnamespaces; n++)
    {
      const char *namespace = c->options.nnamespaces ? c->options.namespaces[n] : NULL;

      for (size_t w = 0; w < ARRAY_LEN (watches); w++)
        add_source (c, &watches[w], RAY_CHILD_SERVICE, namespace);
      for (size_t w = 0; w < ARRAY_LEN (watched_children); w++)
        add_child_source (c, watched_children[w], namespace);
    }
  for (size_t i = 0; i < c->nsources; i++)
    if (is_needed (&c->sources[i]))
      start_source (&c->sources[i]);
}

void
controller_start_child_sources (struct controller *c)
{
  if (atomic_exchange (&c->children_watched, true))
    return;
  for (size_t i = 0; i < c->nsources; i++)
    if (c->sources[i].cache_source.kind == CACHE_CHILD)
      start_source (&c->sources[i]);
  atomic_store (&c->children_since_ms, clock_mono_ms ());
}

bool
controller_children_known (const struct controller *c)
{
  int64_t since = atomic_load (&c->children_since_ms);
  bool tried = since != 0;

  if (since != 0 && clock_mono_ms () - since >= CHILDREN_PATIENCE_MS)
    return true;
  for (size_t i = 0; i < c->nsources && tried; i++)
    tried = c->sources[i].cache_source.kind != CACHE_CHILD || kube_informer_tried (c->sources[i].informer);
  return tried;
}

void
controller_stop_sources (struct controller *c)
{
  atomic_store (&c->stopping_sources, true);
  for (size_t i = 0; i < c->nsources; i++)
    {
      kube_informer_stop (c->sources[i].informer);
      free (c->sources[i].namespace);
    }
  free (c->sources);
  c->sources = NULL;
  c->nsources = 0;
}

int64_t
controller_sources_stale_ms (const struct controller *c)
{
  int64_t longest = 0;

  for (size_t i = 0; i < c->nsources; i++)
    {
      int64_t ms = is_needed (&c->sources[i]) ? kube_informer_trouble_ms (c->sources[i].informer) : 0;

      longest = ms > longest ? ms : longest;
    }
  return longest;
}

static bool
is_stale (const struct controller *c, const struct source *s)
{
  int64_t limit = c->options.stale_ms > 0 ? c->options.stale_ms : STALE_MS;

  return kube_informer_trouble_ms (s->informer) > limit;
}

bool
controller_sources_synced (const struct controller *c, struct error *why)
{
  for (size_t i = 0; i < c->nsources; i++)
    {
      const struct source *s = &c->sources[i];
      struct error err = { 0 };
      bool complete, stale;

      if (!is_needed (s))
        continue;
      complete = kube_informer_synced (s->informer) && cache_is_current (c->cache, &s->cache_source);
      stale = is_stale (c, s);
      if (complete && !stale)
        continue;
      kube_informer_error (s->informer, &err);
      error_set (why, EAGAIN, "the list of %s is not %s%s%s", s->watch.name, complete ? "kept up" : "complete yet",
                 err.message[0] ? ": " : "", err.message);
      return false;
    }
  return true;
}

static bool
watches_object (const struct cache_source *s, enum cache_kind kind, enum ray_child_kind child, const cJSON *object)
{
  return s->kind == kind && (kind != CACHE_CHILD || s->child == child)
         && (s->namespace == NULL || text_eq (s->namespace, json_str (object, "metadata", "namespace")))
         && (s->label == NULL || json_get (object, "metadata", "labels", s->label) != NULL);
}

/* A RayCluster that lost its labels while a write to it was under way: the watch reports that as a deletion of an older
 * version than the one in the answer, so it must not be taken back. */
static bool
is_let_go (const struct controller *c, enum cache_kind kind, const cJSON *object)
{
  return kind == CACHE_CLUSTER && !kube_selector_matches (c->selector, json_get (object, "metadata", "labels"));
}

static void
observe (struct controller *c, enum cache_kind kind, enum ray_child_kind child, const cJSON *object)
{
  for (size_t i = 0; i < c->nsources; i++)
    if (watches_object (&c->sources[i].cache_source, kind, child, object))
      {
        if (is_let_go (c, kind, object))
          cache_remove (c->cache, &c->sources[i].cache_source, object,
                        strtoull (log_nonnull (json_str (object, "metadata", "resourceVersion")), NULL, 10));
        else
          cache_observe (c->cache, &c->sources[i].cache_source, object);
        return;
      }
}

void
controller_observe (struct controller *c, enum cache_kind kind, const cJSON *object)
{
  observe (c, kind, RAY_CHILD_SERVICE, object);
}

void
controller_observe_child (struct controller *c, enum ray_child_kind child, const cJSON *object)
{
  observe (c, child == RAY_CHILD_SERVICE ? CACHE_SERVICE : CACHE_CHILD, child, object);
}
