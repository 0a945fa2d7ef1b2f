/* operator.c - the life of an operator process: what controller.c does with threads is done here with fibers. */
#include <stdlib.h>
#include <string.h>

#include "sim.h"

struct operator* operator_start (void)
{
  struct operator* op = xcalloc (1, sizeof (*op));
  struct controller_options options = {
    .client = &op->client,
    .ray = ray_default_options,
    .plan = ray_default_plan_options,
  };

  options.ray.redis_cleanup = true;
  op->number = ++sim->operators_started;
  op->client.op = op;
  for (size_t i = 0; i < SIM_WORKERS; i++)
    op->workers[i].op = op;
  sim_trace ("op%d starts", op->number);
  op->controller = controller_new (&options);
  controller_start_sources (op->controller);
  return op;
}

void operator_activate (struct operator* op)
{
  sim_trace ("op%d leads", op->number);
  op->active = true;
  op->cut_off = false;
  controller_activate (op->controller);
}

void operator_deactivate (struct operator* op)
{
  sim_trace ("op%d leads no more", op->number);
  op->active = false;
  controller_deactivate (op->controller);
  calls_cut_off (op); /* kube_client_fence */
}

void operator_crash (struct operator* op)
{
  sim_trace ("op%d crashes", op->number);
  op->active = false;
  calls_cut_off (op);
  controller_stop (op->controller);
  free (op);
}

static void
run_pass (void *data)
{
  struct worker *worker = data;
  char *key = worker->key;

  controller_work (worker->op->controller, key);
  sim->passes++;
  worker->key = NULL;
  free (key);
}

bool operator_work (struct operator* op)
{
  struct worker *worker = NULL;

  for (size_t i = 0; i < SIM_WORKERS; i++)
    if (op->workers[i].fiber == NULL)
      worker = &op->workers[i];
  if (worker == NULL || (worker->key = kube_queue_try_get (op->controller->queue, &op->next_ms)) == NULL)
    return false;
  worker->cluster_view = informer_seen (op, KIND_CLUSTER);
  worker->pod_view = informer_seen (op, KIND_POD);
  worker->began = sim->steps;
  sim_trace ("op%d looks at %s", op->number, worker->key);
  sim->running = worker;
  worker->fiber = fiber_start (run_pass, worker);
  sim->running = NULL;
  if (fiber_ended (worker->fiber))
    {
      fiber_free (worker->fiber);
      worker->fiber = NULL;
    }
  return true;
}
