/* watch.c - takes the place of pkg/kube/informer.c: each informer hears of the changes of its kind in their order, but
 * as late as it likes; lists are snapshots that arrive in pieces. */
#include <string.h>

#include "sim.h"

#define PAGE 3

enum phase
{
  WANTS_LIST,
  LISTING,
  WATCHING
};

struct kube_informer
{
  struct operator* op;
  struct kube_informer_handler handler;
  const char *label;
  enum kind kind;
  enum phase phase;
  struct revision **list; /* what the server had when it was asked, references held */
  size_t nlist, next;
  uint64_t list_rv, seen;
  size_t cursor; /* in the log */
  bool synced;
};

static bool
matches (const struct kube_informer *inf, const struct revision *v)
{
  return v != NULL && (inf->label == NULL || json_get (v->json, "metadata", "labels", inf->label) != NULL);
}

static void
drop_list (struct kube_informer *inf)
{
  for (size_t i = 0; i < inf->nlist; i++)
    revision_unref (inf->list[i]);
  free (inf->list);
  inf->list = NULL;
  inf->nlist = inf->next = 0;
}

struct kube_informer *
kube_informer_start (struct kube_client *client, const struct kube_informer_options *options,
                     const struct kube_informer_handler *handler)
{
  struct kube_informer *inf = xcalloc (1, sizeof (*inf));

  inf->op = client->op;
  inf->handler = *handler;
  inf->label = options->label_selector;
  inf->kind = kind_of_plural (strrchr (options->path, '/') + 1);
  inf->op->informers[inf->op->ninformers++] = inf;
  inf->handler.list_begin (inf->handler.data);
  return inf;
}

void
kube_informer_stop (struct kube_informer *inf)
{
  if (inf == NULL)
    return;
  for (size_t i = 0; i < inf->op->ninformers; i++)
    if (inf->op->informers[i] == inf)
      inf->op->informers[i] = inf->op->informers[--inf->op->ninformers];
  drop_list (inf);
  free (inf);
}

bool
kube_informer_synced (const struct kube_informer *inf)
{
  return inf->synced;
}

void
kube_informer_renew (struct kube_informer *inf)
{
  informer_expire (inf);
}

bool
kube_informer_tried (const struct kube_informer *inf)
{
  return inf->synced;
}

void
kube_informer_error (const struct kube_informer *inf, struct error *err)
{
  (void) inf;
  *err = (struct error){ 0 };
}

int64_t
kube_informer_trouble_ms (const struct kube_informer *inf)
{
  (void) inf;
  return 0;
}

static void
advance (struct kube_informer *inf, uint64_t rv)
{
  inf->seen = rv;
  inf->handler.progress (inf->handler.data, rv);
}

static void
take_snapshot (struct kube_informer *inf)
{
  inf->list = xcalloc (sim->nobjects + 1, sizeof (struct revision *));
  for (size_t i = 0; i < sim->nobjects; i++)
    {
      struct object *object = sim->objects[i];

      if (object->kind != inf->kind || !matches (inf, object->now))
        continue;
      object->now->refs++;
      inf->list[inf->nlist++] = object->now;
    }
  inf->list_rv = sim->rv;
  inf->cursor = sim->nlog;
  inf->phase = LISTING;
}

static void
tell (struct kube_informer *inf, const struct revision *v, uint64_t rv)
{
  inf->handler.upsert (inf->handler.data, v->json, rv);
  if (inf->kind == KIND_POD)
    check_known (inf->op, v);
}

static void
take_page (struct kube_informer *inf)
{
  for (size_t i = 0; i < PAGE && inf->next < inf->nlist; i++)
    {
      const struct revision *v = inf->list[inf->next++];

      tell (inf, v, v->rv);
    }
  if (inf->next < inf->nlist)
    return;
  drop_list (inf);
  inf->handler.list_end (inf->handler.data, inf->list_rv);
  inf->seen = inf->list_rv;
  inf->synced = true;
  inf->phase = WATCHING;
}

/* An object that is no longer selected is deleted to who selects it; both carry the version of the change. */
static bool
take_change (struct kube_informer *inf, const struct change *change)
{
  if (change->kind != inf->kind)
    return false;
  if (matches (inf, change->after))
    tell (inf, change->after, change->rv);
  else if (matches (inf, change->before))
    inf->handler.remove (inf->handler.data, change->before->json, change->rv);
  else
    return false;
  advance (inf, change->rv);
  return true;
}

bool
informer_step (struct kube_informer *inf)
{
  if (inf->phase == WANTS_LIST)
    take_snapshot (inf);
  else if (inf->phase == LISTING)
    take_page (inf);
  else
    {
      while (inf->cursor < sim->nlog)
        if (take_change (inf, &sim->log[inf->cursor++]))
          {
            sim_trace ("  op%d hears of %s up to %llu", inf->op->number, kind_plural (inf->kind),
                       (unsigned long long) inf->seen);
            return true;
          }
      return false;
    }
  return true;
}

void
informer_bookmark (struct kube_informer *inf)
{
  if (inf->phase != WATCHING)
    return;
  for (size_t i = inf->cursor; i < sim->nlog; i++)
    if (sim->log[i].kind == inf->kind)
      return;
  advance (inf, sim->rv);
}

void
informer_expire (struct kube_informer *inf)
{
  if (inf->phase != WATCHING)
    return;
  inf->phase = WANTS_LIST;
  inf->handler.list_begin (inf->handler.data);
}

void
informer_fail_list (struct kube_informer *inf)
{
  if (inf->phase != LISTING)
    return;
  drop_list (inf);
  inf->phase = WANTS_LIST;
  inf->handler.list_begin (inf->handler.data);
}

uint64_t
informer_seen (const struct operator* op, enum kind kind)
{
  for (size_t i = 0; i < op->ninformers; i++)
    if (op->informers[i]->kind == kind)
      return op->informers[i]->seen;
  return 0;
}
