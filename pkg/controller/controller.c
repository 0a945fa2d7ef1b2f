/* controller.c - the life of the controller: workers on the queue, leadership, counters. */
#include "controller/controller_internal.h"

#include <string.h>

#define DEFAULT_WORKERS 4
#define BACKOFF_BASE_MS 5
#define BACKOFF_CAP_MS 60000
/* Events about pods and Services come in bursts; one pass serves those of this long. */
#define BURST_DELAY_MS 20
/* Nothing is decided from half a picture: until every first list is complete, keys wait this long; and while it is open
 * whether we lead. */
#define UNSYNCED_DELAY_MS 10
#define WORKER_STACK (512 * 1024)

const int64_t controller_bucket_us[CONTROLLER_BUCKETS]
    = { 250, 500, 1000, 2500, 5000, 10000, 25000, 50000, 100000, 250000, 500000, 1000000, 10000000, INT64_MAX };

static const char *const result_names[CONTROLLER_RESULT_MAX] = { "success", "requeue", "error", "invalid" };

const char *
controller_result_name (enum controller_result result)
{
  return result_names[result];
}

void
controller_count (struct controller *c, uint64_t *counter, uint64_t n)
{
  pthread_mutex_lock (&c->stats_lock);
  *counter += n;
  pthread_mutex_unlock (&c->stats_lock);
}

static void
count_pass (struct controller *c, enum controller_result result, int64_t us)
{
  size_t bucket = 0;

  while (us > controller_bucket_us[bucket])
    bucket++;
  pthread_mutex_lock (&c->stats_lock);
  c->stats.reconciles[result]++;
  c->stats.duration[bucket]++;
  c->stats.duration_sum_us += (uint64_t) us;
  pthread_mutex_unlock (&c->stats_lock);
}

static void
on_change (void *data, const char *key, enum cache_kind kind)
{
  struct controller *c = data;

  if (!atomic_load (&c->active))
    return; /* controller_activate looks at everything */
  if (kind == CACHE_CLUSTER)
    kube_queue_add (c->queue, key);
  else
    kube_queue_add_after (c->queue, key, BURST_DELAY_MS);
}

void
controller_work (struct controller *c, const char *key)
{
  if (!atomic_load (&c->active))
    ; /* controller_activate brings the key back */
  else if (!controller_leads (c) || !controller_synced (c, NULL))
    kube_queue_add_after (c->queue, key, UNSYNCED_DELAY_MS);
  else
    {
      int64_t start = clock_mono_us ();
      enum controller_result result;

      controller_start_child_sources (c);
      result = reconcile_cluster (c, key);

      count_pass (c, result, clock_mono_us () - start);
    }
  kube_queue_done (c->queue, key);
}

static void *
work (void *data)
{
  struct controller *c = data;
  char *key;

  while ((key = kube_queue_get (c->queue)) != NULL)
    {
      controller_work (c, key);
      free (key);
    }
  return NULL;
}

static void
start_workers (struct controller *c)
{
  int wanted = c->options.workers > 0 ? c->options.workers : DEFAULT_WORKERS;
  pthread_attr_t attr;

  pthread_attr_init (&attr);
  pthread_attr_setstacksize (&attr, WORKER_STACK);
  c->threads = xcalloc ((size_t) wanted, sizeof (*c->threads));
  while (c->nthreads < wanted && pthread_create (&c->threads[c->nthreads], &attr, work, c) == 0)
    c->nthreads++;
  pthread_attr_destroy (&attr);
  if (c->nthreads < wanted)
    log_warn ("not all reconcile workers could be started", LF_INT ("wanted", wanted), LF_INT ("started", c->nthreads));
}

struct controller *
controller_new (const struct controller_options *options)
{
  struct controller *c = xcalloc (1, sizeof (*c));

  c->options = *options;
  if (options->selector != NULL)
    kube_selector_parse (&c->selector, options->selector, NULL);
  pthread_mutex_init (&c->stats_lock, NULL);
  c->cache = cache_new ();
  cache_on_change (c->cache, on_change, c);
  c->queue = kube_queue_new (BACKOFF_BASE_MS, BACKOFF_CAP_MS);
  return c;
}

struct controller *
controller_start (const struct controller_options *options)
{
  struct controller *c = controller_new (options);

  start_workers (c);
  controller_start_sources (c);
  return c;
}

static void
enqueue (void *data, const char *key)
{
  struct controller *c = data;

  kube_queue_add (c->queue, key);
}

void
controller_activate (struct controller *c)
{
  atomic_fetch_add (&c->term, 1);
  atomic_store (&c->active, true);
  cache_each_cluster (c->cache, enqueue, c);
}

bool
controller_leads (const struct controller *c)
{
  return atomic_load (&c->active) && !kube_client_fenced (c->options.client);
}

bool
controller_in_term (const struct controller *c, unsigned term)
{
  return controller_leads (c) && atomic_load (&c->term) == term;
}

void
controller_deactivate (struct controller *c)
{
  atomic_store (&c->active, false);
}

bool
controller_synced (const struct controller *c, struct error *why)
{
  return controller_sources_synced (c, why);
}

void
controller_stop (struct controller *c)
{
  if (c == NULL)
    return;
  controller_deactivate (c);
  kube_queue_shutdown (c->queue);
  /* A pass that has a request in flight hands its answer to a source, so the sources go after the workers. */
  for (int i = 0; i < c->nthreads; i++)
    pthread_join (c->threads[i], NULL);
  free (c->threads);
  controller_stop_sources (c);
  kube_queue_free (c->queue);
  cache_free (c->cache);
  kube_selector_free (c->selector);
  pthread_mutex_destroy (&c->stats_lock);
  free (c);
}

void
controller_stats (struct controller *c, struct controller_stats *stats)
{
  size_t counts[CACHE_KIND_MAX];

  pthread_mutex_lock (&c->stats_lock);
  *stats = c->stats;
  pthread_mutex_unlock (&c->stats_lock);
  cache_counts (c->cache, counts);
  stats->clusters = counts[CACHE_CLUSTER];
  stats->pods = counts[CACHE_POD];
  stats->services = counts[CACHE_SERVICE];
  stats->stale_ms = controller_sources_stale_ms (c);
  kube_queue_stats (c->queue, &stats->queue);
}

void
controller_each_cluster (struct controller *c, controller_cluster_fn fn, void *data)
{
  cache_describe_clusters (c->cache, fn, data);
}
