#include "kube/kube_internal.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include <curl/curl.h>

/* Enough for a TLS handshake and for 256 levels of JSON, also with a sanitizer's larger frames. */
#define THREAD_STACK (512 * 1024)

void
kube_thread_start (pthread_t *thread, void *(*run) (void *), void *data, const char *name)
{
  sigset_t all, before;
  pthread_attr_t attr;
  int ret;

  sigfillset (&all);
  pthread_sigmask (SIG_SETMASK, &all, &before);
  pthread_attr_init (&attr);
  pthread_attr_setstacksize (&attr, THREAD_STACK);
  ret = pthread_create (thread, &attr, run, data);
  pthread_attr_destroy (&attr);
  pthread_sigmask (SIG_SETMASK, &before, NULL);
  if (ret != 0)
    {
      fprintf (stderr, "fatal: cannot start the %s thread: %s; raise the limit of processes\n", name, strerror (ret));
      abort ();
    }
  pthread_setname_np (*thread, name);
}

void
kube_cond_init (pthread_cond_t *cond)
{
  pthread_condattr_t attr;

  pthread_condattr_init (&attr);
  pthread_condattr_setclock (&attr, CLOCK_MONOTONIC);
  pthread_cond_init (cond, &attr);
  pthread_condattr_destroy (&attr);
}

bool
kube_cond_wait (pthread_cond_t *cond, pthread_mutex_t *lock, int64_t until_ms)
{
  struct timespec until;

  if (until_ms == INT64_MAX)
    {
      pthread_cond_wait (cond, lock);
      return true;
    }
  until_ms = until_ms < 0 ? 0 : until_ms;
  until = (struct timespec){ .tv_sec = until_ms / 1000, .tv_nsec = (until_ms % 1000) * 1000000 };
  return pthread_cond_timedwait (cond, lock, &until) != ETIMEDOUT;
}

uint64_t
kube_random (void)
{
  uint64_t value = 0;

  if (getrandom (&value, sizeof (value), 0) != (ssize_t) sizeof (value))
    value = (uint64_t) clock_mono_us () * 0x9e3779b97f4a7c15ULL; /* jitter need not be secret */
  return value;
}

int64_t
kube_jitter (int64_t ms)
{
  int64_t half = ms / 2;

  return ms - half + (half > 0 ? (int64_t) (kube_random () % (uint64_t) (half + 1)) : 0);
}

int64_t
kube_backoff (int64_t base_ms, int64_t cap_ms, int failures)
{
  int64_t ms = base_ms;

  for (int i = 0; i < failures && ms < cap_ms; i++)
    ms *= 2;
  return kube_jitter (ms < cap_ms ? ms : cap_ms);
}

const char *
kube_verb_name (enum kube_verb verb)
{
  static const char *const names[KUBE_VERB_MAX] = {
    [KUBE_GET] = "get",           [KUBE_POST] = "create",      [KUBE_PUT] = "update",        [KUBE_DELETE] = "delete",
    [KUBE_PATCH_MERGE] = "patch", [KUBE_PATCH_JSON] = "patch", [KUBE_PATCH_APPLY] = "apply",
  };

  return verb < KUBE_VERB_MAX ? names[verb] : "";
}

char *
kube_object_path (const char *prefix, const char *namespace, const char *plural, const char *name)
{
  cleanup_free char *in = kube_escape (namespace), *of = name != NULL ? kube_escape (name) : NULL;

  return xasprintf ("%s/namespaces/%s/%s%s%s", prefix, in, plural, of ? "/" : "", of ? of : "");
}

char *
kube_escape (const char *text)
{
  char *escaped = curl_easy_escape (NULL, text, (int) strlen (text));
  char *copy = xstrdup (escaped ? escaped : "");

  curl_free (escaped);
  return copy;
}
