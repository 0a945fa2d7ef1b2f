/* call.c - one request from its turn in line, through its retries, to its answer. Everything between begin and done
 * happens on the transport thread. */
#include "kube/kube_internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <utlist.h>

#define DEFAULT_TIMEOUT_MS 60000 /* of a call, as client.h says */
#define ATTEMPT_TIMEOUT_MS 30000
#define BACKOFF_BASE_MS 100
#define BACKOFF_CAP_MS 5000
#define RETRY_AFTER_CAP_MS 30000

/* Which answers are worth another attempt, and how many attempts in all. Busy servers answer 429 (priority and
 * fairness) and 503 before they did anything; the others may come after the work was done. */
static const struct retry_rule
{
  int status;
  bool any_verb;
  int attempts;
} retry_rules[] = {
  { 0, false, 4 }, { 429, true, 12 }, { 500, false, 4 }, { 502, false, 4 }, { 503, true, 12 }, { 504, false, 4 },
};

void
kube_client_count (struct kube_client *client, const struct transfer *x)
{
  int class = x->status >= 100 && x->status < 600 ? x->status / 100 : 0;

  atomic_fetch_add (&client->requests[x->verb][class], 1);
  if (x->status == 429)
    atomic_fetch_add (&client->throttled, 1);
}

/* A POST may be repeated only when we chose the object's name: a second object cannot come of it then. */
static bool
is_repeatable (const struct kube_request *request)
{
  cleanup_json cJSON *object = NULL;

  if (request->verb != KUBE_POST)
    return true;
  if (request->body == NULL || json_parse (&object, request->body, strlen (request->body), NULL) < 0)
    return false;
  return json_str (object, "metadata", "name") != NULL;
}

/* ---- the transport's side ---- */

static void
set_in_flight (struct kube_client *client, int change)
{
  client->in_flight += change;
  atomic_store (&client->in_flight_shown, client->in_flight);
}

static void
end_call (struct kube_call *call)
{
  struct kube_client *client = call->client;
  struct kube_waiter *waiter = call->waiter;

  transport_untimer (client->transport, &call->timer);
  transport_cancel (&call->transfer);
  if (call->state == CALL_IN_LINE)
    DL_DELETE (client->line, call);
  else
    {
      DL_DELETE (client->busy, call);
      if (call->state == CALL_SENT)
        set_in_flight (client, -1);
    }
  pthread_mutex_lock (&client->done_lock);
  call->state = CALL_DONE;
  DL_APPEND (waiter->done, call);
  pthread_cond_signal (&waiter->cond);
  pthread_mutex_unlock (&client->done_lock);
}

static const char fence_reason[] = "it was called off: the lease is lost";

static void
give_up (struct kube_call *call, const char *why)
{
  call->transfer.status = 0;
  call->given_up = why;
  end_call (call);
}

static void
send_call (struct kube_call *call)
{
  int64_t left = call->deadline_ms - clock_mono_ms ();
  struct transfer *x = &call->transfer;

  transport_untimer (call->client->transport, &call->timer);
  x->timeout_ms = left < 1 ? 1 : left > ATTEMPT_TIMEOUT_MS ? ATTEMPT_TIMEOUT_MS : left;
  call->attempts++;
  call->state = CALL_SENT;
  DL_APPEND (call->client->busy, call);
  set_in_flight (call->client, 1);
  transport_start (call->client->transport, x);
}

static bool
take_token (struct kube_client *client)
{
  int64_t now = clock_mono_us ();

  if (client->qps <= 0)
    return true;
  client->tokens += (double) (now - client->tokens_at_us) * client->qps / 1e6;
  client->tokens = client->tokens > client->burst ? client->burst : client->tokens;
  client->tokens_at_us = now;
  if (client->tokens < 1)
    {
      transport_timer (client->transport, &client->token_timer,
                       1 + (int64_t) ((1 - client->tokens) / client->qps * 1000));
      return false;
    }
  client->tokens -= 1;
  return true;
}

/* Calls that wait for their turn are served fairly by waiter (a batch is one): each call's turn is one after that of
 * the waiter's call before it, but never in the past, so that a batch of hundreds does not keep a single call
 * waiting (start-time fair queueing). Of equal turns the first come is served first. */
static int
by_turn (const struct kube_call *queued, const struct kube_call *added)
{
  return queued->turn <= added->turn ? -1 : 1;
}

static void
take_turn (struct kube_call *call)
{
  struct kube_waiter *waiter = call->waiter;

  call->turn = waiter->next_turn > call->client->turn ? waiter->next_turn : call->client->turn;
  waiter->next_turn = call->turn + 1;
  DL_INSERT_INORDER (call->client->line, call, by_turn);
}

/* Sends what may be sent, in the order of turns. */
static void
pump (struct kube_client *client)
{
  while (client->line != NULL && client->in_flight < client->max_in_flight && take_token (client))
    {
      struct kube_call *call = client->line;

      if (call->request->fenced && kube_client_fenced (client))
        {
          give_up (call, fence_reason);
          continue;
        }
      /* The analyzer does not know that only a list of one has no next. NOLINTNEXTLINE(clang-analyzer-core.*) */
      DL_DELETE (client->line, call);
      client->turn = call->turn;
      send_call (call);
    }
}

static void
on_token_timer (struct timer *timer)
{
  pump (container_of (timer, struct kube_client, token_timer));
}

static void
line_up (struct kube_call *call)
{
  struct kube_client *client = call->client;

  client->token_timer.fire = on_token_timer;
  if (call->flags & KUBE_CALL_URGENT)
    {
      send_call (call);
      return;
    }
  call->state = CALL_IN_LINE;
  take_turn (call);
  transport_timer (client->transport, &call->timer, call->deadline_ms - clock_mono_ms ());
  pump (client);
}

/* In line: its time is up. Paused: the next attempt is due. */
static void
on_call_timer (struct timer *timer)
{
  struct kube_call *call = container_of (timer, struct kube_call, timer);

  if (call->state == CALL_IN_LINE)
    {
      give_up (call, "timed out before its turn came");
      return;
    }
  DL_DELETE (call->client->busy, call);
  line_up (call);
}

/* How long to wait before the next attempt; -1 when there must be none. */
static int64_t
retry_delay (struct kube_call *call)
{
  const struct transfer *x = &call->transfer;
  int64_t delay, asked = x->retry_after_ms > RETRY_AFTER_CAP_MS ? RETRY_AFTER_CAP_MS : x->retry_after_ms;

  if (x->status == 401 && !call->token_retried && transport_renew_token (call->client->transport, x))
    {
      call->token_retried = true;
      return 0;
    }
  if (call->flags & KUBE_CALL_ONCE)
    return -1;
  for (size_t i = 0; i < ARRAY_LEN (retry_rules); i++)
    {
      const struct retry_rule *rule = &retry_rules[i];

      if (rule->status != x->status || x->permanent || call->attempts >= rule->attempts
          || !(rule->any_verb || x->unsent || is_repeatable (call->request)))
        continue;
      delay = kube_backoff (BACKOFF_BASE_MS, BACKOFF_CAP_MS, call->attempts - 1);
      /* Spread over a quarter more than asked, lest everybody comes back in the same instant. */
      if (asked > 0)
        delay = asked + (int64_t) (kube_random () % (uint64_t) (asked / 4 + 1));
      return clock_mono_ms () + delay < call->deadline_ms ? delay : -1;
    }
  return -1;
}

static void
on_call_done (struct transfer *x)
{
  struct kube_call *call = container_of (x, struct kube_call, transfer);
  struct kube_client *client = call->client;
  int64_t delay = retry_delay (call);

  kube_client_count (client, x);
  if (delay < 0)
    {
      end_call (call);
      pump (client);
      return;
    }
  atomic_fetch_add (&client->retries, 1);
  log_debug ("trying an API request again", LF_STR ("verb", kube_verb_name (x->verb)), LF_STR ("path", x->path),
             LF_INT ("status", x->status), LF_STR ("error", x->error), LF_INT ("delay_ms", delay));
  x->fresh = x->timed_out;
  call->state = CALL_PAUSED;
  set_in_flight (client, -1);
  transport_timer (client->transport, &call->timer, delay);
  pump (client);
}

/* ---- the end of many ---- */

static bool
is_fenced (const struct kube_call *call)
{
  return call->request->fenced;
}

static bool
is_not_systems (const struct kube_call *call)
{
  return !(call->flags & KUBE_CALL_SYSTEM);
}

static void
end_calls (struct kube_client *client, bool (*which) (const struct kube_call *call), const char *why)
{
  struct kube_call *call, *next;

  /* Those in line first, or ending the others would send them. */
  DL_FOREACH_SAFE (client->line, call, next)
    if (which (call))
      give_up (call, why);
  DL_FOREACH_SAFE (client->busy, call, next)
    if (which (call))
      give_up (call, why);
  pump (client);
}

void
kube_calls_end_all (struct kube_client *client)
{
  end_calls (client, is_not_systems, "the client is shut down");
}

static bool
has_fenced (const struct kube_call *list)
{
  const struct kube_call *call;

  DL_FOREACH (list, call)
    if (is_fenced (call))
      return true;
  return false;
}

/* The fence falls by the clock alone: nobody may be there to say so in time. */
static void
on_fence_timer (struct timer *timer)
{
  kube_calls_mind_fence (container_of (timer, struct kube_client, fence_timer));
}

void
kube_calls_mind_fence (void *data)
{
  struct kube_client *client = data;
  int64_t until = atomic_load (&client->fence_ms);

  client->fence_timer.fire = on_fence_timer;
  if (kube_client_fenced (client))
    end_calls (client, is_fenced, fence_reason);
  else if (until < INT64_MAX && (has_fenced (client->line) || has_fenced (client->busy)))
    transport_timer (client->transport, &client->fence_timer, until - clock_mono_ms ());
}

/* A name that was no name would make the request one for something else. */
static bool
leads_elsewhere (const char *path)
{
  for (size_t len; *path == '/'; path += len)
    {
      path++;
      len = strcspn (path, "/?");
      if ((len == 1 || len == 2) && strncmp (path, "..", len) == 0)
        return true;
    }
  return false;
}

/* Why the call must not be sent; NULL: it may. */
static const char *
refusal (const struct kube_call *call)
{
  if (leads_elsewhere (call->request->path))
    return "not sent: there is a . or .. in the path where a name should be";
  if (atomic_load (&call->client->stopping) && !(call->flags & KUBE_CALL_SYSTEM))
    return "the client is shut down";
  return NULL;
}

static void
on_call_begin (struct task *task)
{
  struct kube_call *call = container_of (task, struct kube_call, task);
  struct kube_client *client = call->client;
  const char *refused = refusal (call);
  bool fenced = is_fenced (call);

  if (refused != NULL)
    {
      DL_APPEND (client->line, call);
      give_up (call, refused);
      return;
    }
  line_up (call); /* it may be done already, and gone */
  if (fenced && !client->fence_timer.armed)
    kube_calls_mind_fence (client);
}

/* ---- the callers' side ---- */

void
kube_waiter_init (struct kube_waiter *waiter)
{
  kube_cond_init (&waiter->cond);
  waiter->done = NULL;
  waiter->next_turn = 0;
}

void
kube_waiter_destroy (struct kube_waiter *waiter)
{
  pthread_cond_destroy (&waiter->cond);
}

void
kube_call_begin (struct kube_call *call)
{
  const struct kube_request *request = call->request;

  call->deadline_ms = clock_mono_ms () + (request->timeout_ms > 0 ? request->timeout_ms : DEFAULT_TIMEOUT_MS);
  call->state = CALL_IN_LINE;
  call->timer.fire = on_call_timer;
  call->task.run = on_call_begin;
  call->transfer = (struct transfer){
    .verb = request->verb,
    .path = request->path,
    .body = request->body,
    .answer_max = request->answer_max > 0 ? request->answer_max : KUBE_ANSWER_MAX,
    .metadata_only = request->metadata_only,
    .fresh = (call->flags & KUBE_CALL_FRESH) != 0,
    .on_done = on_call_done,
  };
  transport_post (call->client->transport, &call->task);
}

struct kube_call *
kube_waiter_next (struct kube_client *client, struct kube_waiter *waiter, int64_t until_ms)
{
  struct kube_call *call;

  pthread_mutex_lock (&client->done_lock);
  while (waiter->done == NULL && kube_cond_wait (&waiter->cond, &client->done_lock, until_ms))
    ;
  call = waiter->done;
  if (call != NULL)
    DL_DELETE (waiter->done, call);
  pthread_mutex_unlock (&client->done_lock);
  return call;
}

static void
cancel_call (void *data)
{
  struct kube_call *call = data;

  if (call->state != CALL_DONE)
    give_up (call, "it was called off");
}

void
kube_call_cancel (struct kube_call *call)
{
  transport_run (call->client->transport, cancel_call, call);
}

/* What the server said besides the status: Status.message of a JSON answer, else its first line of text. */
static void
describe_failure (struct kube_response *response, const struct kube_call *call)
{
  const struct kube_request *request = call->request;
  const char *text = call->transfer.answer.data, *message = json_str (response->body, "message");
  const char *reason = json_str (response->body, "reason");
  int shown = text != NULL ? (int) strcspn (text, "\r\n") : 0;

  snprintf (response->reason, sizeof (response->reason), "%s", reason ? reason : "");
  if (message == NULL && (response->body != NULL || shown == 0))
    message = "no message";
  error_set (&response->error, EIO, "%s %s: HTTP %d%s%s: %.*s", kube_verb_name (request->verb), request->path,
             response->status, reason ? " " : "", reason ? reason : "",
             message       ? 900
             : shown > 200 ? 200
                           : shown,
             message ? message : text);
}

void
kube_call_finish (struct kube_call *call, struct kube_response *response)
{
  struct transfer *x = &call->transfer;

  *response = (struct kube_response){ .status = x->status };
  if (x->status == 0)
    error_set (&response->error, EIO, "%s %s: %s", kube_verb_name (x->verb), x->path,
               call->given_up ? call->given_up : x->error);
  else if (x->answer.len > 0 && json_parse (&response->body, x->answer.data, x->answer.len, NULL) < 0)
    response->body = NULL;
  if (x->status != 0 && !kube_ok (response))
    describe_failure (response, call);
  buf_free (&x->answer);
}

void
kube_do_flags (struct kube_client *client, const struct kube_request *request, struct kube_response *response,
               unsigned flags)
{
  struct kube_waiter waiter;
  struct kube_call call = { .client = client, .request = request, .waiter = &waiter, .flags = flags };

  kube_waiter_init (&waiter);
  kube_call_begin (&call);
  kube_waiter_next (client, &waiter, INT64_MAX);
  kube_call_finish (&call, response);
  kube_waiter_destroy (&waiter);
}
