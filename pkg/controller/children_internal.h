/* children_internal.h - one pass over the owned objects: what children.c decides and sends, children_tell.c tells and
 * remembers. */
#ifndef CONTROLLER_CHILDREN_INTERNAL_H
#define CONTROLLER_CHILDREN_INTERNAL_H

#include "controller/controller_internal.h"

enum child_step
{
  STEP_DONE,
  STEP_CREATE,
  STEP_GET,
  STEP_PATCH,
};

struct child_item
{
  const struct ray_child *child;
  const struct ray_child_type *type;
  const char *name;
  char *id; /* "plural/name" */
  struct cache_memo memo;
  enum child_step step;
  char *patch;   /* to be sent. Owned */
  bool absent;   /* it is known not to be there, or not as pods need it */
  bool quiet;    /* its failure has been told of a moment ago */
  bool believed; /* there is reason to believe it is there: to fail in a look at it changes nothing */
};

struct child_work
{
  struct controller *c;
  unsigned term; /* of the pass */
  const struct ray_cluster *cluster;
  const struct cache_snapshot *snapshot;
  struct children_result *result;
  char *key;
  struct child_item *items;
  size_t *asked; /* the items of the batch in flight */
  size_t count;
};

void child_tell (const struct child_work *w, const struct child_item *item, enum kube_event_type type, const char *what,
                 const char *action, const char *note);
/* A failure. Pods that need the object wait, and the condition says why. */
void child_fail (struct child_work *w, struct child_item *item, const char *what, const char *action,
                 const char *message);
/* An object that cannot be read or written although it is there: pods do not wait for that. */
void child_fail_repair (struct child_work *w, struct child_item *item, const char *message);
void child_fail_foreign (struct child_work *w, struct child_item *item);
void child_fail_missing (struct child_work *w, struct child_item *item);
/* The object is as it should be, or as near as it can be brought. */
void child_settle (struct child_work *w, struct child_item *item, const cJSON *live);

#endif
