#include "manager/manager_internal.h"

#include <stdio.h>
#include <string.h>

/* Enough for a TLS handshake and deep JSON, also with a sanitizer's larger frames. */
#define THREAD_STACK (512 * 1024)

void
manager_thread_start (pthread_t *thread, void *(*run) (void *), void *data, const char *name)
{
  pthread_attr_t attr;
  int ret;

  pthread_attr_init (&attr);
  pthread_attr_setstacksize (&attr, THREAD_STACK);
  ret = pthread_create (thread, &attr, run, data);
  pthread_attr_destroy (&attr);
  if (ret != 0)
    {
      fprintf (stderr, "fatal: cannot start the %s thread: %s; raise the limit of processes\n", name, strerror (ret));
      abort ();
    }
  pthread_setname_np (*thread, name);
}
