#include "admission/allocate.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include <utlist.h>

#include "admission/book.h"
#include "admission/confirm.h"

#define MIN_LEFT_MS 500 /* with less time left a reservation would come too late */
#define PAUSE_MIN_MS 2
#define PAUSE_MAX_MS 100

/* One request that waits for its place. Lives on its thread's stack. */
struct waiter
{
  struct waiter *prev, *next;
  const struct admission_request *request;
  const struct tpu_place_need *need;
  int64_t deadline_ms;
  bool taken; /* out of the line, into the batch under way */
  bool done;
  bool new; /* `got` is a reservation that the Lease does not have yet */
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
  const struct tpu_options *options;
  char *namespace; /* of the Leases */
  int64_t ttl_ms, idle_ms;
  pthread_mutex_t lock; /* guards the groups and what is in them */
  pthread_cond_t changed;
  struct group *groups;
  struct confirmer *confirmer;
};

struct admission_allocator *
admission_allocator_new (struct kube_client *client, const char *namespace, const struct tpu_options *options,
                         int64_t ttl_ms, int64_t idle_ms)
{
  struct admission_allocator *a = xcalloc (1, sizeof (*a));
  pthread_condattr_t attr;

  a->client = client;
  a->options = options;
  a->namespace = xstrdup (namespace);
  a->ttl_ms = ttl_ms;
  a->idle_ms = idle_ms;
  pthread_mutex_init (&a->lock, NULL);
  pthread_condattr_init (&attr);
  pthread_condattr_setclock (&attr, CLOCK_MONOTONIC);
  pthread_cond_init (&a->changed, &attr);
  pthread_condattr_destroy (&attr);
  a->confirmer = confirmer_start (ttl_ms, idle_ms);
  return a;
}

void
admission_allocator_free (struct admission_allocator *a)
{
  if (a == NULL)
    return;
  confirmer_stop (a->confirmer);
  pthread_cond_destroy (&a->changed);
  pthread_mutex_destroy (&a->lock);
  free (a->namespace);
  free (a);
}

struct kube_client *
admission_allocator_client (const struct admission_allocator *a)
{
  return a->client;
}

/* The uid of the RayCluster of that name that owns the Pod, or NULL. */
static const char *
owner_uid (const struct admission_request *request, const struct tpu_place_need *need)
{
  const cJSON *owners = json_get (request->object, "metadata", "ownerReferences"), *owner;

  if (cJSON_IsArray (owners))
    cJSON_ArrayForEach (owner, owners)
      if (text_eq (json_str (owner, "kind"), "RayCluster") && text_eq (json_str (owner, "name"), need->cluster))
        return json_str (owner, "uid");
  return NULL;
}

/* The Lease's name. A RayCluster that takes the name of another gets a Lease of its own. */
static char *
lease_name (const struct admission_request *request, const struct tpu_place_need *need)
{
  return xasprintf ("places.%s.%s.%s.%s", request->namespace, need->cluster, need->group, owner_uid (request, need));
}

/* ---- a batch ---- */

/* A Pod that is reviewed a second time, after another webhook, brings what the first time gave it. Annotations alone
 * prove nothing: a template may have been copied from a Pod. */
static bool
has_its_place (const struct book *b, struct waiter *w)
{
  w->got = book_place_of (w->request->object);
  return w->got.place.host < b->places.hosts && places_hold (&b->places, &w->got);
}

static int
take_place (struct book *b, struct waiter *w, int64_t ttl_ms)
{
  int ret;

  w->new = false;
  if (w->need->hosts != b->places.hosts)
    return error_set (&w->err, ENOENT,
                      "its topology and chips make slices of %" PRId64
                      " hosts, but the template of group %s of RayCluster %s makes slices of %" PRId64
                      ": no place in a slice can be given to it; mend what changes it, or delete it",
                      w->need->hosts, b->of.group, b->of.cluster, b->places.hosts);
  if (has_its_place (b, w))
    return 0;
  ret = places_take (&b->places, clock_wall_ms () + ttl_ms, &w->got);
  w->new = ret == 0;
  if (ret == -EAGAIN)
    error_set (&w->err, EAGAIN,
               "all %" PRId64 " TPU slices of group %s of RayCluster %s are full; some of the places are held by Pods "
               "that have been admitted but not created yet, for %" PRId64 " s at most",
               b->places.replicas, b->of.group, b->of.cluster, ttl_ms / 1000);
  else if (ret < 0)
    error_set (&w->err, -ret,
               "all hosts of the %" PRId64 " TPU slices of group %s of RayCluster %s are there already: a Pod beyond "
               "them has no place in a slice",
               b->places.replicas, b->of.group, b->of.cluster);
  return ret;
}

static void
take_places (struct book *b, struct waiter *batch, int64_t ttl_ms, bool dry_run)
{
  struct waiter *w;

  DL_FOREACH (batch, w)
    if (w->request->dry_run == dry_run)
      w->ret = take_place (b, w, ttl_ms);
}

static bool
has_reserved (const struct waiter *batch)
{
  const struct waiter *w;

  DL_FOREACH (batch, w)
    if (!w->request->dry_run && w->new)
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
reserve (struct admission_allocator *a, struct book *b, struct waiter *batch, struct error *err)
{
  int ret = book_find_group (b, a->options, err);

  while (ret == 0)
    {
      ret = book_read (b, err);
      if (ret == 0 && !book_is_ours (b))
        {
          take_places (b, batch, a->ttl_ms, false);
          ret = has_reserved (batch) ? book_write (b, err) : 0;
        }
      if (ret == 0)
        take_places (b, batch, a->ttl_ms, true); /* after what was reserved */
      if (ret == 0 && b->lease == NULL && has_reserved (batch))
        book_sweep (b, a->idle_ms);
      if (ret <= 0)
        return ret;
      pause_between_tries ();
      ret = 0;
    }
  return ret;
}

/* All of one group; the first has waited longest, so its deadline is the earliest. Those whose time is up are not
 * served any more: nobody listens, and a place would be held in vain. */
static void
serve (struct admission_allocator *a, struct waiter *batch)
{
  cleanup_free char *name = lease_name (batch->request, batch->need);
  const struct book_of of = { .client = a->client,
                              .lease_namespace = a->namespace,
                              .name = name,
                              .namespace = batch->request->namespace,
                              .cluster = batch->need->cluster,
                              .group = batch->need->group,
                              .owner_uid = owner_uid (batch->request, batch->need) };
  cleanup_book struct book book = { 0 };
  struct error err = { "" };
  struct waiter *w;
  int ret;

  book_open (&book, &of, batch->deadline_ms);
  ret = reserve (a, &book, batch, &err);
  if (ret == 0)
    {
      if (has_reserved (batch))
        confirmer_note (a->confirmer, &of);
      return;
    }
  DL_FOREACH (batch, w)
    {
      w->ret = ret;
      if (ret == -ENOENT)
        w->err = err;
      else
        error_set (&w->err, -ret, "a place in the TPU slices of group %s of RayCluster %s could not be reserved: %s",
                   of.group, of.cluster, err.message);
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
  /* The analyzer does not know that only a list of one has no next. NOLINTNEXTLINE(clang-analyzer-core.*) */
  DL_DELETE (a->groups, g);
  free (g->key);
  free (g);
}

/* Takes from the line those who have time left. */
static struct waiter *
take_batch (struct group *g)
{
  int64_t now = clock_mono_ms ();
  struct waiter *batch = NULL, *w, *next;

  DL_FOREACH_SAFE (g->line, w, next)
    {
      if (w->deadline_ms - now < MIN_LEFT_MS)
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
  if (owner_uid (request, need) == NULL)
    return error_set (err, ENOENT,
                      "the Pod has no owner reference to RayCluster %s, which its label " RAY_LABEL_CLUSTER
                      " names: no place in a slice can be given to it",
                      need->cluster);
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
