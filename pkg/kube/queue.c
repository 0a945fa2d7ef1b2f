#include "kube/queue.h"

#include <pthread.h>
#include <string.h>

#include <uthash.h>
#include <utlist.h>

#include "kube/kube_internal.h"

#define NOT_DELAYED SIZE_MAX

/* All that is known of a key. Freed when there is nothing left to know. */
struct entry
{
  UT_hash_handle hh;
  struct entry *prev, *next; /* among the ready ones, while `ready` */
  bool ready, processing;
  bool again; /* added while it was processed */
  int failures;
  int64_t ready_since_ms;
  int64_t due_ms;
  size_t heap_index; /* NOT_DELAYED unless it waits for due_ms */
  char key[];
};

struct kube_queue
{
  pthread_mutex_t lock;
  pthread_cond_t wake;
  bool shutdown;
  int64_t backoff_base_ms, backoff_cap_ms;
  struct entry *entries; /* by key */
  struct entry *ready;   /* first come, first served */
  size_t ready_count, processing_count;
  struct entry **heap; /* delayed ones, the earliest at 0 */
  size_t heap_count, heap_capacity;
  uint64_t adds, retries;
};

/* ---- the heap of delayed keys ---- */

static void
heap_put (struct kube_queue *q, size_t i, struct entry *e)
{
  q->heap[i] = e;
  e->heap_index = i;
}

/* Moves e, which may sit anywhere, to where it belongs. */
static void
heap_settle (struct kube_queue *q, struct entry *e)
{
  size_t i = e->heap_index, child;

  for (; i > 0 && q->heap[(i - 1) / 2]->due_ms > e->due_ms; i = (i - 1) / 2)
    heap_put (q, i, q->heap[(i - 1) / 2]);
  while ((child = 2 * i + 1) < q->heap_count)
    {
      if (child + 1 < q->heap_count && q->heap[child + 1]->due_ms < q->heap[child]->due_ms)
        child++;
      if (q->heap[child]->due_ms >= e->due_ms)
        break;
      heap_put (q, i, q->heap[child]);
      i = child;
    }
  heap_put (q, i, e);
}

static void
heap_insert (struct kube_queue *q, struct entry *e)
{
  q->heap = xgrow (q->heap, q->heap_count, &q->heap_capacity, sizeof (struct entry *));
  heap_put (q, q->heap_count, e);
  q->heap_count++;
  heap_settle (q, e);
}

static struct entry *
heap_take_first (struct kube_queue *q)
{
  struct entry *first = q->heap[0], *last = q->heap[--q->heap_count];

  first->heap_index = NOT_DELAYED;
  if (last != first)
    {
      heap_put (q, 0, last);
      heap_settle (q, last);
    }
  return first;
}

/* ---- entries ---- */

static struct entry *
find (struct kube_queue *q, const char *key)
{
  struct entry *e;

  HASH_FIND (hh, q->entries, key, strlen (key), e);
  return e;
}

static struct entry *
find_or_make (struct kube_queue *q, const char *key)
{
  size_t len = strlen (key);
  struct entry *e = find (q, key);

  if (e != NULL)
    return e;
  e = xcalloc (1, sizeof (*e) + len + 1);
  memcpy (e->key, key, len + 1);
  e->heap_index = NOT_DELAYED;
  HASH_ADD_KEYPTR (hh, q->entries, e->key, len, e);
  return e;
}

static void
forget_if_idle (struct kube_queue *q, struct entry *e)
{
  if (e->ready || e->processing || e->heap_index != NOT_DELAYED || e->failures > 0)
    return;
  HASH_DEL (q->entries, e);
  free (e);
}

static void
make_ready (struct kube_queue *q, struct entry *e)
{
  if (e->processing)
    {
      e->again = true;
      return;
    }
  if (e->ready)
    return;
  e->ready = true;
  e->ready_since_ms = clock_mono_ms ();
  DL_APPEND (q->ready, e);
  q->ready_count++;
  pthread_cond_signal (&q->wake);
}

static void
delay (struct kube_queue *q, struct entry *e, int64_t delay_ms)
{
  int64_t due_ms = clock_mono_ms () + delay_ms;

  if (e->heap_index == NOT_DELAYED)
    {
      e->due_ms = due_ms;
      heap_insert (q, e);
    }
  else if (due_ms < e->due_ms)
    {
      e->due_ms = due_ms;
      heap_settle (q, e);
    }
  if (e->heap_index == 0)
    pthread_cond_signal (&q->wake); /* somebody must wait less long now */
}

/* ---- the public face ---- */

struct kube_queue *
kube_queue_new (int64_t backoff_base_ms, int64_t backoff_cap_ms)
{
  struct kube_queue *q = xcalloc (1, sizeof (*q));

  q->backoff_base_ms = backoff_base_ms > 0 ? backoff_base_ms : 5;
  q->backoff_cap_ms = backoff_cap_ms > q->backoff_base_ms ? backoff_cap_ms : q->backoff_base_ms;
  pthread_mutex_init (&q->lock, NULL);
  kube_cond_init (&q->wake);
  return q;
}

void
kube_queue_free (struct kube_queue *q)
{
  struct entry *e, *next;

  if (q == NULL)
    return;
  e = q->entries;
  HASH_CLEAR (hh, q->entries); /* frees the table; the entries stay linked */
  for (; e != NULL; e = next)
    {
      next = e->hh.next;
      free (e);
    }
  free (q->heap);
  pthread_cond_destroy (&q->wake);
  pthread_mutex_destroy (&q->lock);
  free (q);
}

void
kube_queue_add (struct kube_queue *q, const char *key)
{
  pthread_mutex_lock (&q->lock);
  if (!q->shutdown)
    {
      q->adds++;
      make_ready (q, find_or_make (q, key));
    }
  pthread_mutex_unlock (&q->lock);
}

void
kube_queue_add_after (struct kube_queue *q, const char *key, int64_t delay_ms)
{
  if (delay_ms <= 0)
    {
      kube_queue_add (q, key);
      return;
    }
  pthread_mutex_lock (&q->lock);
  if (!q->shutdown)
    {
      q->adds++;
      delay (q, find_or_make (q, key), delay_ms);
    }
  pthread_mutex_unlock (&q->lock);
}

static int64_t
backoff_of (const struct kube_queue *q, int failures)
{
  int64_t ms = q->backoff_base_ms;

  for (int i = 0; i < failures && ms < q->backoff_cap_ms; i++)
    ms *= 2;
  return ms < q->backoff_cap_ms ? ms : q->backoff_cap_ms;
}

void
kube_queue_retry (struct kube_queue *q, const char *key)
{
  pthread_mutex_lock (&q->lock);
  if (!q->shutdown)
    {
      struct entry *e = find_or_make (q, key);

      q->adds++;
      q->retries++;
      delay (q, e, backoff_of (q, e->failures++));
    }
  pthread_mutex_unlock (&q->lock);
}

void
kube_queue_forget (struct kube_queue *q, const char *key)
{
  struct entry *e;

  pthread_mutex_lock (&q->lock);
  e = find (q, key);
  if (e != NULL)
    {
      e->failures = 0;
      forget_if_idle (q, e);
    }
  pthread_mutex_unlock (&q->lock);
}

/* Moves what is due to the ready list; the time of the next one, INT64_MAX when none waits. */
static int64_t
release_due (struct kube_queue *q)
{
  int64_t now = clock_mono_ms ();

  while (q->heap_count > 0 && q->heap[0]->due_ms <= now)
    make_ready (q, heap_take_first (q));
  return q->heap_count > 0 ? q->heap[0]->due_ms : INT64_MAX;
}

/* Hands out the key that has been ready longest; NULL when none is. */
static char *
take_ready (struct kube_queue *q)
{
  struct entry *e = q->ready;

  if (e == NULL)
    return NULL;
  DL_DELETE (q->ready, e);
  q->ready_count--;
  e->ready = false;
  e->processing = true;
  q->processing_count++;
  return xstrdup (e->key);
}

char *
kube_queue_get (struct kube_queue *q)
{
  char *key = NULL;

  pthread_mutex_lock (&q->lock);
  while (!q->shutdown)
    {
      int64_t next_ms = release_due (q);

      key = take_ready (q);
      if (key == NULL)
        {
          kube_cond_wait (&q->wake, &q->lock, next_ms);
          continue;
        }
      /* This thread may have been the one that waited for the next key's time; another must take over. */
      if (q->ready != NULL || q->heap_count > 0)
        pthread_cond_signal (&q->wake);
      break;
    }
  pthread_mutex_unlock (&q->lock);
  return key;
}

char *
kube_queue_try_get (struct kube_queue *q, int64_t *next_ms)
{
  int64_t next = INT64_MAX;
  char *key = NULL;

  pthread_mutex_lock (&q->lock);
  if (!q->shutdown)
    {
      next = release_due (q);
      key = take_ready (q);
    }
  pthread_mutex_unlock (&q->lock);
  if (next_ms != NULL)
    *next_ms = next;
  return key;
}

void
kube_queue_done (struct kube_queue *q, const char *key)
{
  struct entry *e;

  pthread_mutex_lock (&q->lock);
  e = find (q, key);
  if (e != NULL && e->processing)
    {
      bool again = e->again;

      e->processing = e->again = false;
      q->processing_count--;
      if (again)
        make_ready (q, e);
      else
        forget_if_idle (q, e);
    }
  pthread_mutex_unlock (&q->lock);
}

void
kube_queue_shutdown (struct kube_queue *q)
{
  pthread_mutex_lock (&q->lock);
  q->shutdown = true;
  pthread_cond_broadcast (&q->wake);
  pthread_mutex_unlock (&q->lock);
}

void
kube_queue_stats (struct kube_queue *q, struct kube_queue_stats *stats)
{
  pthread_mutex_lock (&q->lock);
  *stats = (struct kube_queue_stats){
    .depth = q->ready_count,
    .delayed = q->heap_count,
    .processing = q->processing_count,
    .adds = q->adds,
    .retries = q->retries,
    .oldest_ready_ms = q->ready ? clock_mono_ms () - q->ready->ready_since_ms : 0,
  };
  pthread_mutex_unlock (&q->lock);
}
