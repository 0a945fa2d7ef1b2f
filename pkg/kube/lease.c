/* lease.c - the algorithm of client-go's leaderelection: whether a lease has run out is decided by how long ago *we
 * saw* it change, by our monotonic clock, never by the timestamps in it; writes carry the resourceVersion they are
 * based on. */
#include "kube/lease.h"

#include <string.h>

#include "kube/kube_internal.h"

#define DEFAULT_DURATION_MS 15000
#define DEFAULT_RENEW_DEADLINE_MS 10000
#define DEFAULT_RETRY_MS 2000
#define RELEASE_BOUND_MS 2000
#define DEADLINE_MARGIN_MS 100 /* for the scheduler: `lost` must be called before the deadline, not at it */

struct kube_lease
{
  struct kube_client *client;
  struct kube_lease_options options;
  char *namespace, *name, *identity;
  char *collection, *path;
  pthread_t thread;

  pthread_mutex_t lock;
  pthread_cond_t wake;
  bool stop;
  struct kube_cancellable cancellable;
  atomic_int_least64_t held_until_ms; /* 0: not held */

  /* the lease thread's */
  cJSON *object;        /* the Lease as last seen or written; NULL: unknown */
  int64_t observed_ms;  /* when its spec was last seen to change */
  int64_t renewed_ms;   /* when the last renewal that succeeded was sent */
  bool held, no_answer; /* no_answer: the last request got none; try another connection */
  struct log_trouble trouble;
};

static bool
stopped (struct kube_lease *lease)
{
  bool stop;

  pthread_mutex_lock (&lease->lock);
  stop = lease->stop;
  pthread_mutex_unlock (&lease->lock);
  return stop;
}

static int64_t
deadline_of (const struct kube_lease *lease, int64_t renewed_ms)
{
  int64_t margin = lease->options.renew_deadline_ms / 10;

  return renewed_ms + lease->options.renew_deadline_ms - (margin < DEADLINE_MARGIN_MS ? margin : DEADLINE_MARGIN_MS);
}

/* ---- becoming and ceasing to be the holder ---- */

static void
become_holder (struct kube_lease *lease, int64_t sent_ms)
{
  bool new = !lease->held;

  lease->renewed_ms = sent_ms;
  lease->held = true;
  atomic_store (&lease->held_until_ms, deadline_of (lease, sent_ms));
  kube_client_fence (lease->client, deadline_of (lease, sent_ms));
  if (!new)
    return;
  log_info ("became the leader", LF_STR ("lease", lease->name), LF_STR ("identity", lease->identity));
  if (lease->options.acquired != NULL)
    lease->options.acquired (lease->options.data);
}

static void
cease_to_hold (void *data)
{
  struct kube_lease *lease = data;

  if (!lease->held)
    return;
  lease->held = false;
  atomic_store (&lease->held_until_ms, 0);
  log_warn ("no longer the leader", LF_STR ("lease", lease->name), LF_STR ("identity", lease->identity));
  if (lease->options.lost != NULL)
    lease->options.lost (lease->options.data);
  kube_client_fence (lease->client, 0); /* after it: ending them takes the transport, which may be stuck */
}

/* ---- requests ---- */

/* Half the renew deadline at most, so that a connection that hangs leaves time for another try. While the lease is held
 * it is given up when its moment comes, whatever the request and even the transport do. */
static void
send_request (struct kube_lease *lease, enum kube_verb verb, const cJSON *body, struct kube_response *response)
{
  cleanup_free char *text = body ? json_print (body) : NULL;
  int64_t deadline = lease->held ? deadline_of (lease, lease->renewed_ms) : INT64_MAX;
  struct kube_request request = {
    .verb = verb,
    .path = verb == KUBE_POST ? lease->collection : lease->path,
    .body = text,
    .timeout_ms = lease->options.renew_deadline_ms / 2,
  };
  unsigned flags = KUBE_CALL_SYSTEM | KUBE_CALL_URGENT | KUBE_CALL_ONCE | (lease->no_answer ? KUBE_CALL_FRESH : 0);

  kube_do_cancellable (lease->client, &lease->cancellable, &request, response, flags, deadline, cease_to_hold, lease);
  lease->no_answer = response->status == 0;
}

/* ---- the Lease object ---- */

static const char *
holder_of (const cJSON *object)
{
  const char *holder = json_str (object, "spec", "holderIdentity");

  return holder ? holder : "";
}

/* Keeps an object the server sent; a changed spec restarts the clock of its expiry. */
static void
observe (struct kube_lease *lease, cJSON *object)
{
  if (lease->object == NULL || !json_equal (json_get (lease->object, "spec"), json_get (object, "spec")))
    lease->observed_ms = clock_mono_ms ();
  cJSON_Delete (lease->object);
  lease->object = object;
}

static void
forget (struct kube_lease *lease)
{
  cJSON_Delete (lease->object);
  lease->object = NULL;
}

static bool
belongs_to_another (const struct kube_lease *lease)
{
  const char *holder = holder_of (lease->object);
  int64_t duration_ms = json_int (lease->object, 0, "spec", "leaseDurationSeconds") * 1000;

  if (holder[0] == '\0' || strcmp (holder, lease->identity) == 0)
    return false;
  if (duration_ms <= 0)
    duration_ms = lease->options.duration_ms;
  return clock_mono_ms () < lease->observed_ms + duration_ms;
}

/* The object as it is when we hold it from now on. Whatever else it carries is kept. */
static cJSON *
make_ours (const struct kube_lease *lease)
{
  cJSON *object = lease->object ? cJSON_Duplicate (lease->object, true) : cJSON_CreateObject (), *spec;
  bool ours = strcmp (holder_of (object), lease->identity) == 0;
  int64_t transitions = json_int (object, 0, "spec", "leaseTransitions");
  char now[CLOCK_RFC3339_MS_SIZE];

  clock_format_rfc3339_micro (clock_wall_ms (), now);
  json_set_str (object, "apiVersion", "coordination.k8s.io/v1");
  json_set_str (object, "kind", "Lease");
  json_set_str (json_obj (object, "metadata"), "name", lease->name);
  json_set_str (json_obj (object, "metadata"), "namespace", lease->namespace);
  spec = json_obj (object, "spec");
  json_set_str (spec, "holderIdentity", lease->identity);
  json_set_int (spec, "leaseDurationSeconds", (lease->options.duration_ms + 999) / 1000);
  if (!ours || json_str (spec, "acquireTime") == NULL)
    json_set_str (spec, "acquireTime", now);
  json_set_str (spec, "renewTime", now);
  json_set_int (spec, "leaseTransitions", transitions + (lease->object != NULL && !ours ? 1 : 0));
  return object;
}

/* ---- one try ---- */

static void
note_failure (struct kube_lease *lease, const struct kube_response *response)
{
  log_at (log_trouble_level (&lease->trouble, clock_mono_ms ()),
          lease->held ? "cannot renew the lease" : "cannot acquire the lease", LF_STR ("lease", lease->name),
          LF_STR ("error", response->error.message));
}

static void
note_success (struct kube_lease *lease)
{
  int64_t lasted_ms;

  if (log_trouble_over (&lease->trouble, clock_mono_ms (), &lasted_ms))
    log_info ("the lease can be read and written again", LF_STR ("lease", lease->name),
              LF_INT ("lasted_ms", lasted_ms));
}

/* Reads the Lease; false when the server did not say whether there is one. */
static bool
fetch (struct kube_lease *lease)
{
  cleanup_response struct kube_response response = { 0 };

  send_request (lease, KUBE_GET, NULL, &response);
  if (kube_ok (&response) && response.body != NULL)
    {
      observe (lease, take_ptr (response.body));
      return true;
    }
  if (response.status == 404)
    {
      forget (lease);
      return true;
    }
  note_failure (lease, &response);
  return false;
}

/* Writes the Lease as ours. After a conflict what we know is outdated and is read again by the next try. */
static void
claim (struct kube_lease *lease)
{
  cleanup_response struct kube_response response = { 0 };
  cleanup_json cJSON *object = make_ours (lease);
  int64_t sent_ms = clock_mono_ms ();

  send_request (lease, lease->object ? KUBE_PUT : KUBE_POST, object, &response);
  if (kube_ok (&response) && response.body != NULL)
    {
      observe (lease, take_ptr (response.body));
      note_success (lease);
      if (sent_ms + lease->options.renew_deadline_ms > clock_mono_ms ())
        become_holder (lease, sent_ms);
      return;
    }
  if (response.status != 409)
    note_failure (lease, &response);
}

/* The holder writes at once, on top of what it wrote last; everybody else, and the holder whose last write did not
 * succeed, looks first. */
static void
try_once (struct kube_lease *lease)
{
  bool fast = lease->held && lease->object != NULL && strcmp (holder_of (lease->object), lease->identity) == 0;

  if (fast)
    {
      int64_t before = lease->renewed_ms;

      claim (lease);
      if (lease->renewed_ms != before || stopped (lease))
        return;
    }
  if (!fetch (lease) || stopped (lease))
    return;
  if (belongs_to_another (lease))
    {
      note_success (lease);
      cease_to_hold (lease);
      return;
    }
  claim (lease);
}

/* ---- the thread ---- */

/* Until the next try; as the holder, not beyond the moment the lease must be given up. */
static void
pause_between (struct kube_lease *lease)
{
  int64_t retry_ms = lease->options.retry_ms;
  int64_t until = clock_mono_ms () + retry_ms + (int64_t) (kube_random () % (uint64_t) (retry_ms / 5 + 1));
  int64_t deadline = lease->held ? deadline_of (lease, lease->renewed_ms) : INT64_MAX;

  pthread_mutex_lock (&lease->lock);
  while (!lease->stop && kube_cond_wait (&lease->wake, &lease->lock, until < deadline ? until : deadline))
    ;
  pthread_mutex_unlock (&lease->lock);
  if (lease->held && clock_mono_ms () >= deadline)
    cease_to_hold (lease);
}

/* Lets the others in at once instead of after leaseDurationSeconds. */
static void
release (struct kube_lease *lease)
{
  cleanup_response struct kube_response response = { 0 };
  char now[CLOCK_RFC3339_MS_SIZE];
  cJSON *spec;

  lease->options.renew_deadline_ms = RELEASE_BOUND_MS; /* a request takes half of it at most */
  lease->held = false;
  atomic_store (&lease->held_until_ms, 0);
  kube_client_fence (lease->client, 0);
  kube_cancellable_reset (&lease->cancellable);
  if (!fetch (lease) || lease->object == NULL || strcmp (holder_of (lease->object), lease->identity) != 0)
    return;
  clock_format_rfc3339_micro (clock_wall_ms (), now);
  spec = json_obj (lease->object, "spec");
  json_set_str (spec, "holderIdentity", "");
  json_set_int (spec, "leaseDurationSeconds", 1);
  json_set_str (spec, "acquireTime", now);
  json_set_str (spec, "renewTime", now);
  send_request (lease, KUBE_PUT, lease->object, &response);
  if (kube_ok (&response))
    log_info ("gave the lease back", LF_STR ("lease", lease->name));
  else
    log_warn ("cannot give the lease back", LF_STR ("lease", lease->name), LF_STR ("error", response.error.message));
}

static void *
lease_thread (void *data)
{
  struct kube_lease *lease = data;

  while (!stopped (lease))
    {
      try_once (lease);
      pause_between (lease);
    }
  if (lease->held)
    release (lease);
  return NULL;
}

/* Timings that contradict each other would give two leaders; they are pulled into line, and it is said. */
static void
settle_timings (struct kube_lease_options *o)
{
  int64_t deadline, retry;

  o->duration_ms = o->duration_ms > 0 ? o->duration_ms : DEFAULT_DURATION_MS;
  o->renew_deadline_ms = o->renew_deadline_ms > 0 ? o->renew_deadline_ms : DEFAULT_RENEW_DEADLINE_MS;
  o->retry_ms = o->retry_ms > 0 ? o->retry_ms : DEFAULT_RETRY_MS;
  deadline = o->renew_deadline_ms < o->duration_ms ? o->renew_deadline_ms : o->duration_ms * 2 / 3;
  retry = o->retry_ms < deadline ? o->retry_ms : deadline / 4;
  if (deadline != o->renew_deadline_ms || retry != o->retry_ms)
    log_warn ("lease timings must be retry < renew deadline < duration; using others",
              LF_INT ("duration_ms", o->duration_ms), LF_INT ("renew_deadline_ms", deadline),
              LF_INT ("retry_ms", retry));
  o->renew_deadline_ms = deadline;
  o->retry_ms = retry > 0 ? retry : 1;
}

struct kube_lease *
kube_lease_start (struct kube_client *client, const struct kube_lease_options *options)
{
  struct kube_lease *lease = xcalloc (1, sizeof (*lease));

  lease->client = client;
  lease->options = *options;
  settle_timings (&lease->options);
  lease->namespace = xstrdup (options->namespace);
  lease->name = xstrdup (options->name);
  lease->identity = xstrdup (options->identity);
  lease->collection = xasprintf ("/apis/coordination.k8s.io/v1/namespaces/%s/leases", lease->namespace);
  lease->path = xasprintf ("%s/%s", lease->collection, lease->name);
  pthread_mutex_init (&lease->lock, NULL);
  kube_cond_init (&lease->wake);
  kube_cancellable_init (&lease->cancellable);
  kube_client_fence (client, 0);
  kube_thread_start (&lease->thread, lease_thread, lease, "kube-lease");
  return lease;
}

bool
kube_lease_held (const struct kube_lease *lease)
{
  return clock_mono_ms () < atomic_load (&lease->held_until_ms);
}

void
kube_lease_stop (struct kube_lease *lease)
{
  if (lease == NULL)
    return;
  kube_cancellable_cancel (&lease->cancellable); /* first: what is sent once `stop` is seen is the release */
  pthread_mutex_lock (&lease->lock);
  lease->stop = true;
  pthread_cond_signal (&lease->wake);
  pthread_mutex_unlock (&lease->lock);
  pthread_join (lease->thread, NULL);
  forget (lease);
  kube_cancellable_destroy (&lease->cancellable);
  pthread_cond_destroy (&lease->wake);
  pthread_mutex_destroy (&lease->lock);
  free (lease->namespace);
  free (lease->name);
  free (lease->identity);
  free (lease->collection);
  free (lease->path);
  free (lease);
}
