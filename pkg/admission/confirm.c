#include "admission/confirm.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <utlist.h>

#define FIRST_LOOK_MS 250 /* pods are stored milliseconds after their admission */
#define LOOK_MAX_MS 15000 /* then at twice the distance each time, up to this */
#define CALLS_MS 10000

struct pending
{
  struct pending *prev, *next;
  struct book_of of; /* its texts are owned */
  int64_t due_ms, pause_ms;
  int64_t until_ms; /* what is reserved has expired by then, and the Lease been idle */
};

struct confirmer
{
  int64_t ttl_ms, idle_ms;
  pthread_t thread;
  pthread_mutex_t lock; /* guards the rest */
  pthread_cond_t changed;
  struct pending *pending;
  bool stop;
};

static void
pending_free (struct pending *p)
{
  free ((char *) p->of.lease_namespace);
  free ((char *) p->of.name);
  free ((char *) p->of.namespace);
  free ((char *) p->of.cluster);
  free ((char *) p->of.group);
  free ((char *) p->of.owner_uid);
  free (p);
}

enum look
{
  LOOK_AGAIN, /* there are reservations, or it is not known */
  LOOK_LATER, /* there are none, but the Lease is */
  LOOK_DONE
};

/* Another look that finds less is written down. */
static enum look
confirm (const struct confirmer *c, const struct book_of *of)
{
  cleanup_book struct book book = { 0 };
  struct error err = { "" };
  int ret;

  book_open (&book, of, clock_mono_ms () + CALLS_MS);
  ret = book_read (&book, &err);
  if (ret == 0 && book_reserved (&book) < book.reserved)
    ret = book_write (&book, &err);
  else if (ret == 0 && book_reserved (&book) == 0 && book_discard (&book, c->idle_ms))
    return LOOK_DONE;
  if (ret < 0)
    log_debug ("reservations of TPU places are not confirmed yet", LF_STR ("lease", of->name),
               LF_STR ("error", err.message));
  return ret == 0 && book_reserved (&book) == 0 ? LOOK_LATER : LOOK_AGAIN;
}

/* The one that is due first, taken out when it is due; else NULL and how long to wait. */
static struct pending *
next_due (struct confirmer *c, int64_t *until_ms)
{
  struct pending *p, *first = NULL;

  DL_FOREACH (c->pending, p)
    if (first == NULL || p->due_ms < first->due_ms)
      first = p;
  *until_ms = first != NULL ? first->due_ms : INT64_MAX;
  if (first == NULL || first->due_ms > clock_mono_ms ())
    return NULL;
  DL_DELETE (c->pending, first);
  return first;
}

static struct pending *
find (struct confirmer *c, const char *name)
{
  struct pending *p;

  DL_FOREACH (c->pending, p)
    if (strcmp (p->of.name, name) == 0)
      return p;
  return NULL;
}

/* Keeps one that is to be looked at again, unless it has been noted anew meanwhile. */
static void
put_back (struct confirmer *c, struct pending *p, enum look look)
{
  int64_t now = clock_mono_ms ();

  if (now > p->until_ms || find (c, p->of.name) != NULL)
    {
      pending_free (p);
      return;
    }
  p->due_ms = now + (look == LOOK_LATER ? c->idle_ms + 1 : p->pause_ms); /* by then it is idle */
  p->pause_ms = p->pause_ms * 2 < LOOK_MAX_MS ? p->pause_ms * 2 : LOOK_MAX_MS;
  DL_APPEND (c->pending, p);
}

static void
wait_until (struct confirmer *c, int64_t until_ms)
{
  const struct timespec until = { .tv_sec = until_ms / 1000, .tv_nsec = (until_ms % 1000) * 1000000 };

  if (until_ms == INT64_MAX)
    pthread_cond_wait (&c->changed, &c->lock);
  else
    pthread_cond_timedwait (&c->changed, &c->lock, &until);
}

static void *
run (void *data)
{
  struct confirmer *c = data;

  pthread_mutex_lock (&c->lock);
  while (!c->stop)
    {
      int64_t until_ms;
      struct pending *p = next_due (c, &until_ms);
      enum look look;

      if (p == NULL)
        {
          wait_until (c, until_ms);
          continue;
        }
      pthread_mutex_unlock (&c->lock);
      look = confirm (c, &p->of);
      pthread_mutex_lock (&c->lock);
      if (look == LOOK_DONE)
        pending_free (p);
      else
        put_back (c, p, look);
    }
  pthread_mutex_unlock (&c->lock);
  return NULL;
}

struct confirmer *
confirmer_start (int64_t ttl_ms, int64_t idle_ms)
{
  struct confirmer *c = xcalloc (1, sizeof (*c));
  pthread_condattr_t attr;
  sigset_t all, before;
  int ret;

  c->ttl_ms = ttl_ms;
  c->idle_ms = idle_ms;
  pthread_mutex_init (&c->lock, NULL);
  pthread_condattr_init (&attr);
  pthread_condattr_setclock (&attr, CLOCK_MONOTONIC);
  pthread_cond_init (&c->changed, &attr);
  pthread_condattr_destroy (&attr);
  sigfillset (&all);
  pthread_sigmask (SIG_SETMASK, &all, &before);
  ret = pthread_create (&c->thread, NULL, run, c);
  pthread_sigmask (SIG_SETMASK, &before, NULL);
  if (ret != 0)
    {
      fprintf (stderr, "fatal: cannot start the confirmer thread: %s; raise the limit of processes\n", strerror (ret));
      abort ();
    }
  pthread_setname_np (c->thread, "confirmer");
  return c;
}

void
confirmer_stop (struct confirmer *c)
{
  struct pending *p, *next;

  if (c == NULL)
    return;
  pthread_mutex_lock (&c->lock);
  c->stop = true;
  pthread_cond_signal (&c->changed);
  pthread_mutex_unlock (&c->lock);
  pthread_join (c->thread, NULL);
  DL_FOREACH_SAFE (c->pending, p, next)
    pending_free (p);
  pthread_cond_destroy (&c->changed);
  pthread_mutex_destroy (&c->lock);
  free (c);
}

void
confirmer_note (struct confirmer *c, const struct book_of *of)
{
  struct pending *p;

  pthread_mutex_lock (&c->lock);
  p = find (c, of->name);
  if (p == NULL)
    {
      p = xcalloc (1, sizeof (*p));
      p->of = (struct book_of){ .client = of->client,
                                .lease_namespace = xstrdup (of->lease_namespace),
                                .name = xstrdup (of->name),
                                .namespace = xstrdup (of->namespace),
                                .cluster = xstrdup (of->cluster),
                                .group = xstrdup (of->group),
                                .owner_uid = xstrdup (of->owner_uid) };
      p->due_ms = clock_mono_ms () + FIRST_LOOK_MS;
      DL_APPEND (c->pending, p);
      pthread_cond_signal (&c->changed);
    }
  else if (p->due_ms > clock_mono_ms () + FIRST_LOOK_MS)
    {
      p->due_ms = clock_mono_ms () + FIRST_LOOK_MS;
      pthread_cond_signal (&c->changed);
    }
  p->pause_ms = FIRST_LOOK_MS;
  p->until_ms = clock_mono_ms () + c->ttl_ms + 2 * (c->idle_ms + LOOK_MAX_MS);
  pthread_mutex_unlock (&c->lock);
}
