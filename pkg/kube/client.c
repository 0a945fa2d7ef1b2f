/* client.c - the public face of calls: one at a time, batches, shutdown, counters. */
#include "kube/kube_internal.h"

#include <errno.h>
#include <string.h>

/* Several connections beat one (facts/control_plane.md, "Measured"), and beyond some 32 requests at a time the server,
 * not the wire, is the limit; 64 leave room for two such batches at once and cost about 3 MiB at the peak. A
 * connection's share is then 16 and the spare ones, so that one batch uses two connections already. */
#define DEFAULT_CONNECTIONS 4
#define DEFAULT_IN_FLIGHT 64
#define DEFAULT_WINDOW 32
/* Streams left free on each connection for watches and the lease, which do not wait for their turn. */
#define SPARE_STREAMS 4

int
kube_client_new (struct kube_client **out, const struct kube_config *config, const struct kube_client_options *options,
                 struct error *err)
{
  int connections = options->max_connections > 0 ? options->max_connections : DEFAULT_CONNECTIONS;
  int in_flight = options->max_in_flight > 0 ? options->max_in_flight : DEFAULT_IN_FLIGHT;
  struct transport_options transport = {
    .user_agent = options->user_agent,
    .max_connections = connections,
    .http1 = options->http1,
    .max_streams = (in_flight + connections - 1) / connections + SPARE_STREAMS,
  };
  struct kube_client *client = xcalloc (1, sizeof (*client));
  int ret;

  client->max_in_flight = in_flight;
  atomic_store (&client->fence_ms, INT64_MAX);
  client->qps = options->qps;
  client->burst = options->burst >= 1 ? options->burst : 1;
  client->tokens = client->burst;
  client->tokens_at_us = clock_mono_us ();
  pthread_mutex_init (&client->done_lock, NULL);
  ret = transport_new (&client->transport, config, &transport, err);
  if (ret < 0)
    {
      pthread_mutex_destroy (&client->done_lock);
      free (client);
      return ret;
    }
  *out = client;
  return 0;
}

static void
end_all_for_shutdown (struct task *task)
{
  kube_calls_end_all (container_of (task, struct kube_client, shutdown_task));
}

void
kube_client_shutdown (struct kube_client *client)
{
  if (atomic_exchange (&client->stopping, true))
    return;
  client->shutdown_task.run = end_all_for_shutdown;
  transport_post (client->transport, &client->shutdown_task);
}

void
kube_client_fence (struct kube_client *client, int64_t until_ms)
{
  int64_t before = atomic_exchange (&client->fence_ms, until_ms);

  if (until_ms < before || kube_client_fenced (client))
    transport_run (client->transport, kube_calls_mind_fence, client);
}

bool
kube_client_fenced (const struct kube_client *client)
{
  return clock_mono_ms () >= atomic_load (&client->fence_ms);
}

void
kube_client_free (struct kube_client *client)
{
  if (client == NULL)
    return;
  kube_client_shutdown (client);
  transport_free (client->transport);
  pthread_mutex_destroy (&client->done_lock);
  free (client);
}

void
kube_response_free (struct kube_response *r)
{
  cJSON_Delete (r->body);
  *r = (struct kube_response){ 0 };
}

void
kube_do (struct kube_client *client, const struct kube_request *request, struct kube_response *response)
{
  kube_do_flags (client, request, response, 0);
}

/* ---- batches ---- */

/* One of the requests of a batch that are on their way; reused for the next when its answer has come. */
struct slot
{
  struct kube_call call;
  struct kube_request request;
};

struct batch
{
  struct kube_client *client;
  struct kube_waiter waiter;
  size_t next, count, running;
  bool ended; /* make said stop, or the client is shut down */
  kube_make_fn make;
  kube_done_fn done;
  void *data;
};

static void
free_request (struct kube_request *request)
{
  free (request->path);
  free (request->body);
  *request = (struct kube_request){ 0 };
}

/* Sends the next request of the batch by this slot, if there is one. */
static void
fill_slot (struct batch *batch, struct slot *slot)
{
  size_t i = batch->next;

  if (batch->ended || i == batch->count)
    return;
  *slot = (struct slot){ .call = { .client = batch->client, .waiter = &batch->waiter, .index = i } };
  slot->call.request = &slot->request;
  if (atomic_load (&batch->client->stopping) || batch->make (batch->data, i, &slot->request) != 0)
    {
      free_request (&slot->request);
      batch->ended = true;
      return;
    }
  batch->next++;
  batch->running++;
  kube_call_begin (&slot->call);
}

static void
empty_slot (struct batch *batch, struct slot *slot)
{
  cleanup_response struct kube_response response = { 0 };

  kube_call_finish (&slot->call, &response);
  free_request (&slot->request);
  batch->running--;
  batch->done (batch->data, slot->call.index, &response);
}

void
kube_batch (struct kube_client *client, size_t count, size_t window, kube_make_fn make, kube_done_fn done, void *data)
{
  struct batch batch = { .client = client, .count = count, .make = make, .done = done, .data = data };
  cleanup_free struct slot *slots = NULL;

  window = window > 0 ? window : DEFAULT_WINDOW;
  window = window < count ? window : count;
  slots = xcalloc (window, sizeof (*slots));
  kube_waiter_init (&batch.waiter);
  for (size_t i = 0; i < window; i++)
    fill_slot (&batch, &slots[i]);
  while (batch.running > 0)
    {
      struct kube_call *call = kube_waiter_next (client, &batch.waiter, INT64_MAX);
      struct slot *slot = container_of (call, struct slot, call);

      empty_slot (&batch, slot);
      fill_slot (&batch, slot);
    }
  kube_waiter_destroy (&batch.waiter);
}

/* ---- counters ---- */

void
kube_client_stats (struct kube_client *client, struct kube_client_stats *stats)
{
  for (size_t verb = 0; verb < KUBE_VERB_MAX; verb++)
    for (size_t class = 0; class < ARRAY_LEN (stats->requests[verb]); class ++)
      stats->requests[verb][class] = atomic_load (&client->requests[verb][class]);
  stats->retries = atomic_load (&client->retries);
  stats->throttled = atomic_load (&client->throttled);
  stats->watch_starts = atomic_load (&client->watch_starts);
  stats->watch_errors = atomic_load (&client->watch_errors);
  stats->in_flight = atomic_load (&client->in_flight_shown);
}

void
kube_client_stats_add (struct kube_client_stats *sum, const struct kube_client_stats *other)
{
  for (size_t verb = 0; verb < KUBE_VERB_MAX; verb++)
    for (size_t class = 0; class < ARRAY_LEN (sum->requests[verb]); class ++)
      sum->requests[verb][class] += other->requests[verb][class];
  sum->retries += other->retries;
  sum->throttled += other->throttled;
  sum->watch_starts += other->watch_starts;
  sum->watch_errors += other->watch_errors;
  sum->in_flight += other->in_flight;
}
