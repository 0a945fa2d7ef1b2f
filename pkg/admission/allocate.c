#include "admission/allocate.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include <utlist.h>

#define ANNOTATION_RESERVED "ray-tpu-operator/reserved-places"
#define ANNOTATION_WRITTEN_BY "ray-tpu-operator/written-by" /* nonce of the last write */
#define LABEL_PLACES "ray-tpu-operator/places"              /* on every Lease of ours */

#define MIN_LEFT_MS 500 /* with less time left a reservation would come too late */
#define PAUSE_MIN_MS 2
#define PAUSE_MAX_MS 100
#define PAGE "500"
#define LEASE_KEPT_MS (INT64_C (60) * 60 * 1000) /* after its last reservation */
#define SWEEP_MAX 20

/* One request that waits for its place. Lives on its thread's stack. */
struct waiter
{
  struct waiter *prev, *next;
  const struct admission_request *request;
  const struct tpu_place_need *need;
  int64_t deadline_ms;
  bool taken; /* out of the line, into the batch under way */
  bool done;
  int ret;
  struct place_entry got;
  struct error err;
};

/* The waiters of one worker group. Exists while there are any. */
struct group
{
  struct group *prev, *next;
  char *key;
  struct waiter *line;
  size_t users;
  bool busy; /* a batch is under way */
};

struct admission_allocator
{
  struct kube_client *client;
  char *namespace; /* of the Leases */
  int64_t ttl_ms;
  pthread_mutex_t lock; /* guards the groups and what is in them */
  pthread_cond_t changed;
  struct group *groups;
};

struct admission_allocator *
admission_allocator_new (struct kube_client *client, const char *namespace, int64_t ttl_ms)
{
  struct admission_allocator *a = xcalloc (1, sizeof (*a));
  pthread_condattr_t attr;

  a->client = client;
  a->namespace = xstrdup (namespace);
  a->ttl_ms = ttl_ms;
  pthread_mutex_init (&a->lock, NULL);
  pthread_condattr_init (&attr);
  pthread_condattr_setclock (&attr, CLOCK_MONOTONIC);
  pthread_cond_init (&a->changed, &attr);
  pthread_condattr_destroy (&attr);
  return a;
}

void
admission_allocator_free (struct admission_allocator *a)
{
  if (a == NULL)
    return;
  pthread_cond_destroy (&a->changed);
  pthread_mutex_destroy (&a->lock);
  free (a->namespace);
  free (a);
}

/* The Lease's name. A RayCluster that takes the name of another gets a Lease of its own. */
static char *
lease_name (const struct admission_request *request, const struct tpu_place_need *need)
{
  const cJSON *owner = json_find (json_get (request->object, "metadata", "ownerReferences"), "kind", "RayCluster");
  const char *uid = json_str (owner, "uid");

  return xasprintf ("places.%s.%s.%s%s%s", request->namespace, need->cluster, need->group, uid ? "." : "",
                    log_nonnull (uid));
}

/* `rest` is "", "/NAME" or a query. */
static char *
leases_path (const struct admission_allocator *a, const char *rest)
{
  return xasprintf ("/apis/coordination.k8s.io/v1/namespaces/%s/leases%s", a->namespace, rest);
}

/* ---- the book, as the API server has it ---- */

/* One attempt at a batch: what was read, what is to be written. */
struct book
{
  struct admission_allocator *allocator;
  const char *namespace, *cluster, *group;
  int64_t deadline_ms; /* monotonic */
  char *name, *path;   /* of the Lease */
  cJSON *lease;        /* as read, NULL: there is none */
  struct places places;
  char nonce[17]; /* of this batch */
};

static void
book_free (struct book *b)
{
  free (b->name);
  free (b->path);
  cJSON_Delete (b->lease);
  places_free (&b->places);
}

/* What the caller can do about a call that failed. */
static int
explain (const struct kube_response *response, struct error *err)
{
  bool refused = response->status == 401 || response->status == 403 || response->status == 422;

  return error_set (err, refused ? EACCES : EAGAIN, "%s", response->error.message);
}

static int
call (struct book *b, enum kube_verb verb, const char *path, const cJSON *body, struct kube_response *response,
      struct error *err)
{
  cleanup_free char *text = body != NULL ? json_print (body) : NULL;
  cleanup_free char *where = xstrdup (path);
  int64_t left = b->deadline_ms - clock_mono_ms ();
  const struct kube_request request = { .verb = verb, .path = where, .body = text, .timeout_ms = left };

  if (left <= 0)
    return error_set (err, EAGAIN, "the API server took too long");
  kube_do (b->allocator->client, &request, response);
  return 0;
}

/* Of a batch that is repeated: the write that seemed to fail may have been applied. */
static bool
is_ours (const struct book *b)
{
  return text_eq (json_str (b->lease, "metadata", "annotations", ANNOTATION_WRITTEN_BY), b->nonce);
}

static int
read_lease (struct book *b, struct error *err)
{
  cleanup_response struct kube_response response = { 0 };
  int ret = call (b, KUBE_GET, b->path, NULL, &response, err);

  cJSON_Delete (take_ptr (b->lease));
  if (ret < 0)
    return ret;
  if (!kube_ok (&response))
    return response.status == 404 ? 0 : explain (&response, err);
  b->lease = take_ptr (response.body);
  return 0;
}

/* A broken list of reservations is dropped: it is ours alone, and the pods tell their places themselves. */
static void
note_reservations (struct book *b)
{
  const char *text = json_str (b->lease, "metadata", "annotations", ANNOTATION_RESERVED);
  struct error err = { "" };

  if (text != NULL && places_read (&b->places, text, clock_wall_ms (), &err) < 0)
    log_warn ("reservations of TPU places are broken and forgotten", LF_STR ("namespace", b->namespace),
              LF_STR ("lease", b->name), LF_STR ("error", err.message));
}

static int64_t
index_of (const cJSON *pod, const char *label, const char *annotation)
{
  const char *text = json_str (pod, "metadata", "labels", label);
  int64_t index;

  if (text == NULL)
    text = json_str (pod, "metadata", "annotations", annotation);
  return text != NULL && text_to_int (text, 0, INT32_MAX, &index) == 0 ? index : -1;
}

static void
note_pod (struct book *b, const cJSON *pod)
{
  const struct place place = { index_of (pod, RAY_LABEL_REPLICA_INDEX, TPU_ANNOTATION_REPLICA_INDEX),
                               index_of (pod, RAY_LABEL_HOST_INDEX, TPU_ANNOTATION_HOST_INDEX) };
  const char *phase = json_str (pod, "status", "phase");
  const char *until = json_str (pod, "metadata", "annotations", ADMISSION_ANNOTATION_RESERVED_UNTIL);
  int64_t until_ms = 0;
  bool leaving = json_str (pod, "metadata", "deletionTimestamp") != NULL || text_eq (phase, "Failed")
                 || text_eq (phase, "Succeeded");

  text_to_int (log_nonnull (until), 0, INT64_MAX, &until_ms);
  places_note (&b->places, place, leaving ? PLACE_LEAVING : PLACE_LIVE, until_ms);
}

static char *
page_path (const struct book *b, const char *token)
{
  cleanup_free char *selector = xasprintf (RAY_LABEL_CLUSTER "=%s," RAY_LABEL_GROUP "=%s", b->cluster, b->group);
  cleanup_free char *escaped = kube_escape (selector);
  cleanup_free char *after = token != NULL ? kube_escape (token) : NULL;

  return xasprintf ("/api/v1/namespaces/%s/pods?limit=" PAGE "&labelSelector=%s%s%s", b->namespace, escaped,
                    after ? "&continue=" : "", log_nonnull (after));
}

/* Without a resourceVersion the list is as new as the moment it was asked for. */
static int
read_pods (struct book *b, struct error *err)
{
  cleanup_free char *token = NULL;

  do
    {
      cleanup_response struct kube_response response = { 0 };
      cleanup_free char *path = page_path (b, token);
      int ret = call (b, KUBE_GET, path, NULL, &response, err);
      const char *next;
      const cJSON *pod;

      if (ret < 0)
        return ret;
      if (!kube_ok (&response))
        return explain (&response, err);
      cJSON_ArrayForEach (pod, json_get (response.body, "items"))
        note_pod (b, pod);
      next = json_str (response.body, "metadata", "continue");
      free (take_ptr (token));
      token = next != NULL && next[0] != '\0' ? xstrdup (next) : NULL;
    }
  while (token != NULL);
  return 0;
}

/* How many slices the group is to have. A RayCluster that is not there (somebody else makes such pods), or that does
 * not know the group, sets no limit. */
static int
read_cluster (struct book *b, struct error *err)
{
  cleanup_response struct kube_response response = { 0 };
  cleanup_cluster struct ray_cluster cluster = { 0 };
  cleanup_free char *path = xasprintf ("/apis/ray.io/v1/namespaces/%s/rayclusters/%s", b->namespace, b->cluster);
  const struct ray_group *group;
  int ret = call (b, KUBE_GET, path, NULL, &response, err);

  b->places.replicas = -1;
  if (ret < 0)
    return ret;
  if (!kube_ok (&response))
    return response.status == 404 ? 0 : explain (&response, err);
  if (ray_cluster_decode (&cluster, response.body, b->namespace, NULL) < 0)
    return 0;
  group = ray_cluster_group (&cluster, b->group);
  /* What numOfHosts says and what the topology has need not agree; pods are what KubeRay counts. */
  if (group != NULL)
    b->places.replicas = (group->replicas * group->hosts + b->places.hosts - 1) / b->places.hosts;
  return 0;
}

/* The Lease before the pods: a reservation that somebody takes out of it is that of a pod which the list then has. */
static int
book_read (struct book *b, struct error *err)
{
  int64_t hosts = b->places.hosts;
  int ret = read_lease (b, err);

  if (ret < 0 || is_ours (b))
    return ret;
  places_free (&b->places);
  b->places = (struct places){ .hosts = hosts };
  note_reservations (b);
  ret = read_pods (b, err);
  return ret < 0 ? ret : read_cluster (b, err);
}

static cJSON *
make_lease (struct book *b)
{
  cJSON *lease = b->lease != NULL ? cJSON_Duplicate (b->lease, true) : cJSON_CreateObject ();
  cJSON *metadata = json_obj (lease, "metadata"), *annotations = json_obj (metadata, "annotations");
  cleanup_free char *reserved = places_print (&b->places);
  char now[CLOCK_RFC3339_MS_SIZE];

  json_set_str (lease, "apiVersion", "coordination.k8s.io/v1");
  json_set_str (lease, "kind", "Lease");
  json_set_str (metadata, "name", b->name);
  json_set_str (metadata, "namespace", b->allocator->namespace);
  json_set_str (json_obj (metadata, "labels"), LABEL_PLACES, "true");
  clock_format_rfc3339_micro (clock_wall_ms (), now);
  json_set_str (json_obj (lease, "spec"), "renewTime", now);
  json_set_str (annotations, ANNOTATION_RESERVED, reserved);
  json_set_str (annotations, ANNOTATION_WRITTEN_BY, b->nonce);
  return lease;
}

/* Under the version that was read: 1 when somebody else has written meanwhile. */
static int
book_write (struct book *b, struct error *err)
{
  cleanup_json cJSON *lease = make_lease (b);
  cleanup_response struct kube_response response = { 0 };
  cleanup_free char *collection = leases_path (b->allocator, "");
  bool new = b->lease == NULL;
  int ret = call (b, new ? KUBE_POST : KUBE_PUT, new ? collection : b->path, lease, &response, err);

  if (ret < 0 || kube_ok (&response))
    return ret;
  if (response.status == 409 || (response.status == 404 && !new))
    return 1;
  return explain (&response, err);
}

/* ---- Leases that nobody needs any more ---- */

/* Everything that an old Lease holds has expired; whoever is about to write to it finds it gone and makes a new one. */
static void
delete_lease (struct book *b, const cJSON *lease)
{
  cleanup_response struct kube_response response = { 0 };
  cleanup_json cJSON *options = cJSON_CreateObject ();
  cleanup_free char *slashed = xasprintf ("/%s", json_str (lease, "metadata", "name"));
  cleanup_free char *path = leases_path (b->allocator, slashed);

  json_set_str (options, "apiVersion", "v1");
  json_set_str (options, "kind", "DeleteOptions");
  json_set_copy (json_obj (options, "preconditions"), "resourceVersion",
                 json_get (lease, "metadata", "resourceVersion"));
  call (b, KUBE_DELETE, path, options, &response, NULL);
}

static bool
is_old (const struct admission_allocator *a, const cJSON *lease)
{
  const char *text = json_str (lease, "spec", "renewTime");
  int64_t written_ms;

  return text != NULL && clock_parse_rfc3339 (text, &written_ms) == 0
         && clock_wall_ms () - written_ms > LEASE_KEPT_MS + a->ttl_ms;
}

/* Done by who makes a new Lease, so that there are never many more than groups in use. Its failure is nobody's. */
static void
sweep (struct book *b)
{
  cleanup_response struct kube_response response = { 0 };
  cleanup_free char *path = leases_path (b->allocator, "?limit=" PAGE "&labelSelector=ray-tpu-operator%2Fplaces");
  const cJSON *lease;
  int deleted = 0;

  if (call (b, KUBE_GET, path, NULL, &response, NULL) < 0)
    return;
  cJSON_ArrayForEach (lease, json_get (response.body, "items"))
    {
      if (deleted == SWEEP_MAX || !is_old (b->allocator, lease))
        continue;
      delete_lease (b, lease);
      deleted++;
    }
}

/* ---- a batch ---- */

static void
take_places (struct book *b, struct waiter *batch, bool dry_run)
{
  int64_t expires_ms = clock_wall_ms () + b->allocator->ttl_ms;
  struct waiter *w;

  DL_FOREACH (batch, w)
    {
      if (w->request->dry_run != dry_run)
        continue;
      w->ret = places_take (&b->places, expires_ms, &w->got);
      if (w->ret == -EAGAIN)
        error_set (&w->err, EAGAIN,
                   "all %" PRId64 " TPU slices of group %s of RayCluster %s are full; some of the places are held by "
                   "Pods that have been admitted but not created yet, for %" PRId64 " s at most",
                   b->places.replicas, b->group, b->cluster, b->allocator->ttl_ms / 1000);
      else if (w->ret < 0)
        error_set (&w->err, -w->ret,
                   "all hosts of the %" PRId64 " TPU slices of group %s of RayCluster %s are there already: a Pod "
                   "beyond them has no place in a slice",
                   b->places.replicas, b->group, b->cluster);
    }
}

static bool
has_reserved (const struct waiter *batch)
{
  const struct waiter *w;

  DL_FOREACH (batch, w)
    if (!w->request->dry_run && w->ret == 0)
      return true;
  return false;
}

/* The shorter the more often it has to be tried: who waits has most of the others behind him. */
static void
pause_between_tries (void)
{
  unsigned int random = 0;

  if (getrandom (&random, sizeof (random), GRND_NONBLOCK) < 0)
    random = (unsigned int) clock_mono_us ();
  clock_sleep_ms (PAUSE_MIN_MS + random % (PAUSE_MAX_MS - PAUSE_MIN_MS));
}

static int
reserve (struct book *b, struct waiter *batch, struct error *err)
{
  for (;;)
    {
      int ret = book_read (b, err);

      if (ret == 0 && !is_ours (b))
        {
          take_places (b, batch, false);
          ret = has_reserved (batch) ? book_write (b, err) : 0;
        }
      if (ret == 0)
        take_places (b, batch, true); /* after what was reserved */
      if (ret == 0 && b->lease == NULL && has_reserved (batch))
        sweep (b);
      if (ret <= 0)
        return ret;
      pause_between_tries ();
    }
}

static void
book_open (struct book *b, struct admission_allocator *a, const struct waiter *first)
{
  cleanup_free char *name = lease_name (first->request, first->need), *slashed = xasprintf ("/%s", name);
  uint64_t random = 0;

  *b = (struct book){
    .allocator = a,
    .namespace = first->request->namespace,
    .cluster = first->need->cluster,
    .group = first->need->group,
    .deadline_ms = first->deadline_ms,
    .places = { .hosts = first->need->hosts },
  };
  b->path = leases_path (a, slashed);
  b->name = take_ptr (name);
  if (getrandom (&random, sizeof (random), 0) != (ssize_t) sizeof (random))
    random = (uint64_t) clock_mono_us () ^ ((uint64_t) getpid () << 40);
  snprintf (b->nonce, sizeof (b->nonce), "%016" PRIx64, random);
}

/* All of one group; the first has waited longest, so its deadline is the earliest. Those whose time is up are not
 * served any more: nobody listens, and a place would be held in vain. */
static void
serve (struct admission_allocator *a, struct waiter *batch)
{
  struct book book;
  struct error err = { "" };
  struct waiter *w;
  int ret;

  book_open (&book, a, batch);
  ret = reserve (&book, batch, &err);
  book_free (&book);
  if (ret == 0)
    return;
  DL_FOREACH (batch, w)
    {
      w->ret = ret;
      error_set (&w->err, -ret, "a place in the TPU slices of group %s of RayCluster %s could not be reserved: %s",
                 w->need->group, w->need->cluster, err.message);
    }
}

/* ---- the line of a group ---- */

static struct group *
join (struct admission_allocator *a, const char *key)
{
  struct group *g;

  DL_FOREACH (a->groups, g)
    if (strcmp (g->key, key) == 0)
      break;
  if (g == NULL)
    {
      g = xcalloc (1, sizeof (*g));
      g->key = xstrdup (key);
      DL_APPEND (a->groups, g);
    }
  g->users++;
  return g;
}

static void
leave (struct admission_allocator *a, struct group *g)
{
  if (--g->users > 0)
    return;
  DL_DELETE (a->groups, g);
  free (g->key);
  free (g);
}

/* Takes from the line those who have time left and want the same number of hosts as the first of them. */
static struct waiter *
take_batch (struct group *g)
{
  int64_t now = clock_mono_ms ();
  struct waiter *batch = NULL, *w, *next;

  DL_FOREACH_SAFE (g->line, w, next)
    {
      if (w->deadline_ms - now < MIN_LEFT_MS || (batch != NULL && w->need->hosts != batch->need->hosts))
        continue;
      DL_DELETE (g->line, w);
      w->taken = true;
      DL_APPEND (batch, w);
    }
  return batch;
}

/* Serves everybody who is in line; the lock is held on entry and on return, not meanwhile. */
static void
lead (struct admission_allocator *a, struct group *g)
{
  struct waiter *batch = take_batch (g), *w, *next;

  if (batch == NULL)
    return;
  g->busy = true;
  pthread_mutex_unlock (&a->lock);
  serve (a, batch);
  pthread_mutex_lock (&a->lock);
  g->busy = false;
  DL_FOREACH_SAFE (batch, w, next)
    w->done = true;
  pthread_cond_broadcast (&a->changed);
}

static void
wait_until (struct admission_allocator *a, int64_t until_ms)
{
  const struct timespec until = { .tv_sec = until_ms / 1000, .tv_nsec = (until_ms % 1000) * 1000000 };

  pthread_cond_timedwait (&a->changed, &a->lock, &until);
}

/* Whoever finds nobody at work does the work for all who are in line, himself included. */
static void
stand_in_line (struct admission_allocator *a, struct group *g, struct waiter *me)
{
  DL_APPEND (g->line, me);
  while (!me->done)
    {
      int64_t left = me->deadline_ms - clock_mono_ms ();

      if (!me->taken && left < MIN_LEFT_MS)
        {
          DL_DELETE (g->line, me);
          me->ret = error_set (&me->err, EAGAIN, "too many Pods of group %s of RayCluster %s are created at a time",
                               me->need->group, me->need->cluster);
          return;
        }
      if (!g->busy)
        lead (a, g);
      else
        wait_until (a, me->taken ? clock_mono_ms () + 1000 : me->deadline_ms - MIN_LEFT_MS + 1);
    }
}

int
admission_allocate (struct admission_allocator *a, const struct admission_request *request,
                    const struct tpu_place_need *need, struct place_entry *out, struct error *err)
{
  struct waiter me = { .request = request, .need = need, .deadline_ms = clock_mono_ms () + ADMISSION_PLACE_TIMEOUT_MS };
  cleanup_free char *key = NULL;
  struct group *g;

  if (!text_is_dns1123_label (need->group) || !text_is_dns1123_label (need->cluster))
    return error_set (err, EINVAL,
                      "labels " RAY_LABEL_CLUSTER " \"%.80s\" and " RAY_LABEL_GROUP
                      " \"%.80s\" must be lower case names to make host names of",
                      need->cluster, need->group);
  key = lease_name (request, need);
  pthread_mutex_lock (&a->lock);
  g = join (a, key);
  stand_in_line (a, g, &me);
  leave (a, g);
  pthread_mutex_unlock (&a->lock);
  *out = me.got;
  if (me.ret < 0)
    *err = me.err;
  return me.ret;
}
