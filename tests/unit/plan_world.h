/* plan_world.h - a tiny model of what exists, for planner tests: applies plans, lets things happen to pods, checks
 * invariants. */
#ifndef PLAN_WORLD_H
#define PLAN_WORLD_H

#include "ray/ray.h"

struct world
{
  cJSON *object;              /* the RayCluster */
  struct ray_cluster cluster; /* decoded anew by world_plan */
  struct ray_pod **pods;
  size_t npods, cap;
  const char **gone; /* names that the planner is told of as just gone */
  size_t ngone;
  int64_t now_ms;
  struct ray_plan_options options;
  struct ray_plan plan; /* the last one */
  char stamp[RAY_RECREATE_HASH_SIZE];
};

void world_init (struct world *w, const char *cluster_yaml);
void world_free (struct world *w);

/* Reads spec changes and makes w->plan from what exists now. */
void world_plan (struct world *w);
/* Carries out w->plan; fails (data, op) true: the op does not happen. NULL: none fails. Deleted pods terminate until
 * world_reap. */
void world_apply (struct world *w, bool (*fails) (void *data, const struct ray_op *op), void *data);
void world_settle (struct world *w); /* plan, apply, reap until nothing is planned; fails the test after 50 rounds */

size_t world_reap (struct world *w);           /* pods being deleted vanish; returns how many */
void world_delete (struct world *w, size_t i); /* somebody deletes pod i: it terminates */
void world_vanish (struct world *w, size_t i); /* pod i is gone at once */
void world_run_all (struct world *w);          /* every live pod is Running and ready */
struct ray_pod *world_find (struct world *w, const char *group, int64_t replica, int64_t host); /* live, or NULL */
size_t world_count (const struct world *w, const char *group);                                  /* live pods */
size_t world_ops (const struct world *w, enum ray_op_kind kind);                                /* in the last plan */
const char *world_ledger (const struct world *w); /* the annotation, "" when absent */

/* No two live pods of a group share replica and host index; all live pods of an index share their replica name. */
void world_check (const struct world *w);

#endif
