/* transport.c - takes the place of pkg/kube/client.c: requests that travel, arrive in any order, are lost before or
 * after they took effect, are repeated by the client, or are refused. */
#include <stdio.h>
#include <string.h>

#include "sim.h"

void
kube_response_free (struct kube_response *r)
{
  cJSON_Delete (r->body);
  *r = (struct kube_response){ 0 };
}

static void
no_answer (struct kube_response *r)
{
  kube_response_free (r);
  snprintf (r->error.message, sizeof (r->error.message), "no answer");
}

static void
call_free (struct call *call)
{
  for (size_t i = 0; i < sim->ncalls; i++)
    if (sim->calls[i] == call)
      {
        memmove (&sim->calls[i], &sim->calls[i + 1], (sim->ncalls - i - 1) * sizeof (struct call *));
        sim->ncalls--;
        break;
      }
  kube_response_free (&call->response);
  cJSON_Delete (call->body);
  free (call->path);
  free (call);
}

void
calls_free (void)
{
  while (sim->ncalls > 0)
    call_free (sim->calls[0]);
  free (sim->calls);
}

static struct call *
call_send (struct operator* op, const struct kube_request *request)
{
  struct worker *worker = sim->running;
  struct call *call = xcalloc (1, sizeof (*call));

  *call = (struct call){ .op = op, .worker = worker, .verb = request->verb, .path = xstrdup (request->path) };
  if (request->body != NULL && json_parse (&call->body, request->body, strlen (request->body), NULL) < 0)
    sim_fail ("a request without a JSON body: %s %s", kube_verb_name (request->verb), request->path);
  snprintf (call->key, sizeof (call->key), "%s", worker->key);
  call->cluster_view = worker->cluster_view;
  call->pod_view = worker->pod_view;
  call->pass_began = worker->began;
  sim->calls = xgrow (sim->calls, sim->ncalls, &sim->calls_cap, sizeof (struct call *));
  sim->calls[sim->ncalls++] = call;
  if (op->cut_off)
    {
      no_answer (&call->response);
      call->state = CALL_ANSWERED;
    }
  else if (call->verb != KUBE_GET)
    check_write (call);
  return call;
}

static void
wait_here (void)
{
  struct worker *worker = sim->running;

  fiber_wait ();
  sim->running = worker;
}

void
kube_do (struct kube_client *client, const struct kube_request *request, struct kube_response *response)
{
  struct call *call = call_send (client->op, request);

  while (call->state != CALL_ANSWERED)
    wait_here ();
  *response = call->response;
  call->response = (struct kube_response){ 0 };
  call_free (call);
}

/* Leadership ends by operator_deactivate alone. */
bool
kube_client_fenced (const struct kube_client *client)
{
  (void) client;
  return false;
}

/* ---- batches ---- */

#define WINDOW 32

struct flight
{
  struct call *call; /* NULL: a free place */
  size_t index;
};

struct batch
{
  struct operator* op;
  size_t count, next, running;
  kube_make_fn make;
  void *data;
  struct flight flights[WINDOW];
};

static void
fill (struct batch *b, struct flight *flight)
{
  struct kube_request request = { 0 };

  flight->call = NULL;
  if (b->next >= b->count)
    return;
  if (b->make (b->data, b->next, &request) != 0)
    {
      b->next = b->count; /* asks for no more */
      return;
    }
  flight->index = b->next++;
  flight->call = call_send (b->op, &request);
  b->running++;
  free (request.path);
  free (request.body);
}

static struct flight *
landed (struct batch *b)
{
  for (size_t i = 0; i < WINDOW; i++)
    if (b->flights[i].call != NULL && b->flights[i].call->state == CALL_ANSWERED)
      return &b->flights[i];
  return NULL;
}

void
kube_batch (struct kube_client *client, size_t count, size_t window, kube_make_fn make, kube_done_fn done, void *data)
{
  struct batch b = { .op = client->op, .count = count, .make = make, .data = data };

  window = window > 0 && window < WINDOW ? window : WINDOW;
  for (size_t i = 0; i < window; i++)
    fill (&b, &b.flights[i]);
  while (b.running > 0)
    {
      struct flight *flight = landed (&b);
      struct kube_response response;

      if (flight == NULL)
        {
          wait_here ();
          continue;
        }
      response = flight->call->response;
      flight->call->response = (struct kube_response){ 0 };
      call_free (flight->call);
      b.running--;
      done (data, flight->index, &response);
      kube_response_free (&response);
      fill (&b, flight);
    }
}

/* ---- the way there and back ---- */

static void
trace_call (const struct call *call, const char *what)
{
  bool patch = call->verb == KUBE_PATCH_MERGE;
  cleanup_free char *body = patch && sim->verbose ? json_print (call->body) : NULL;
  const char *name = patch                     ? log_nonnull (body)
                     : call->verb == KUBE_POST ? log_nonnull (json_str (call->body, "metadata", "name"))
                                               : "";

  sim_trace ("  op%d %s %s %s%s%s -> %s %d", call->op ? call->op->number : 0, call->key, kube_verb_name (call->verb),
             strrchr (call->path, '/') + 1, name[0] ? " " : "", name, what, call->response.status);
}

/* Somebody else was quicker to make a pod of this very name. */
static void
take_name (const struct call *call)
{
  const char *name = json_str (call->body, "metadata", "name");

  if (call->verb == KUBE_POST && text_ends_with (call->path, "/pods") && name != NULL
      && server_find (KIND_POD, name) == NULL)
    nodes_foreign_pod (name);
}

/* What the client's own repetitions leave visible is one outcome; see kube_do in kube/client.h. */
static void
serve (struct call *call)
{
  const struct temper *t = &sim->temper;
  bool faults = !sim->calm;

  if (faults && sim_chance (t->taken))
    take_name (call);
  if (faults && sim_chance (t->lost_before))
    no_answer (&call->response);
  else if (faults && sim_chance (t->error))
    server_refuse (call, 500, "InternalError");
  else if (faults && sim_chance (t->throttle))
    server_refuse (call, 429, "TooManyRequests");
  else
    {
      server_serve (call);
      if (faults && call->op != NULL && sim_chance (t->repeat))
        {
          trace_call (call, "done, answer lost, sent again");
          kube_response_free (&call->response);
          return;
        }
      if (faults && sim_chance (t->lost_after))
        {
          trace_call (call, "done, answer lost");
          no_answer (&call->response);
          if (sim_chance (600))
            user_step_at_worst (strchr (call->key, '/') + 1);
        }
    }
  call->state = CALL_SERVED;
  trace_call (call, "served");
}

static struct call *
pick (enum call_state state)
{
  size_t n = 0, chosen;

  for (size_t i = 0; i < sim->ncalls; i++)
    n += sim->calls[i]->state == state;
  if (n == 0)
    return NULL;
  chosen = sim_pick (n);
  for (size_t i = 0; i < sim->ncalls; i++)
    if (sim->calls[i]->state == state && chosen-- == 0)
      return sim->calls[i];
  return NULL;
}

bool
call_serve_one (void)
{
  struct call *call = pick (CALL_SENT);

  if (call == NULL)
    return false;
  serve (call);
  if (call->op == NULL)
    call_free (call); /* nobody is there to hear the answer */
  return true;
}

static void
wake (struct worker *worker)
{
  fiber_resume (worker->fiber);
  sim->running = NULL;
  if (!fiber_ended (worker->fiber))
    return;
  fiber_free (worker->fiber);
  worker->fiber = NULL;
}

bool
call_deliver_one (void)
{
  struct call *call = pick (CALL_SERVED);

  if (call == NULL)
    return false;
  call->state = CALL_ANSWERED;
  wake (call->worker);
  return true;
}

/* Lets a request whose sender is gone go on by itself. */
static void
orphan (struct call *call)
{
  struct call *ghost = xcalloc (1, sizeof (*ghost));

  *ghost = *call;
  ghost->op = NULL;
  ghost->worker = NULL;
  ghost->path = xstrdup (call->path);
  ghost->body = call->body ? cJSON_Duplicate (call->body, true) : NULL;
  ghost->response = (struct kube_response){ 0 };
  sim->calls = xgrow (sim->calls, sim->ncalls, &sim->calls_cap, sizeof (struct call *));
  sim->calls[sim->ncalls++] = ghost;
}

/* What was on its way arrives or not: now, or, where histories may overlap, some time later. */
void calls_cut_off (struct operator* op)
{
  size_t n = sim->ncalls;

  for (size_t i = 0; i < n; i++)
    {
      struct call *call = sim->calls[i];

      if (call->op != op || call->state == CALL_ANSWERED)
        continue;
      if (call->state == CALL_SENT && sim_chance (500))
        {
          if (sim->overlap && !sim->calm)
            orphan (call);
          else
            serve (call);
        }
      no_answer (&call->response);
      call->state = CALL_ANSWERED;
    }
  op->cut_off = true;
  for (size_t i = 0; i < SIM_WORKERS; i++)
    while (op->workers[i].fiber != NULL)
      wake (&op->workers[i]);
}
