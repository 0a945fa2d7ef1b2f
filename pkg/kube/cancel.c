/* cancel.c - calls that another thread may cut short. */
#include "kube/kube_internal.h"

void
kube_cancellable_init (struct kube_cancellable *c)
{
  *c = (struct kube_cancellable){ .running = NULL };
  pthread_mutex_init (&c->lock, NULL);
}

void
kube_cancellable_destroy (struct kube_cancellable *c)
{
  pthread_mutex_destroy (&c->lock);
}

void
kube_cancellable_cancel (struct kube_cancellable *c)
{
  pthread_mutex_lock (&c->lock);
  c->cancelled = true;
  if (c->running != NULL)
    kube_call_cancel (c->running);
  pthread_mutex_unlock (&c->lock);
}

void
kube_cancellable_reset (struct kube_cancellable *c)
{
  pthread_mutex_lock (&c->lock);
  c->cancelled = false;
  pthread_mutex_unlock (&c->lock);
}

static void
set_running (struct kube_cancellable *c, struct kube_call *call)
{
  pthread_mutex_lock (&c->lock);
  c->running = call;
  if (call != NULL && c->cancelled)
    kube_call_cancel (call);
  pthread_mutex_unlock (&c->lock);
}

void
kube_do_cancellable (struct kube_client *client, struct kube_cancellable *c, const struct kube_request *request,
                     struct kube_response *response, unsigned flags, int64_t until_ms, void (*late) (void *data),
                     void *late_data)
{
  struct kube_waiter waiter;
  struct kube_call call = { .client = client, .request = request, .waiter = &waiter, .flags = flags };

  kube_waiter_init (&waiter);
  kube_call_begin (&call);
  set_running (c, &call);
  if (kube_waiter_next (client, &waiter, until_ms) == NULL)
    {
      if (late != NULL)
        late (late_data);
      kube_call_cancel (&call);
      kube_waiter_next (client, &waiter, INT64_MAX);
    }
  set_running (c, NULL);
  kube_call_finish (&call, response);
  kube_waiter_destroy (&waiter);
}
