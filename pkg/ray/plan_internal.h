/* plan_internal.h - what the files of the planner share: the ledger and the slices of a group. */
#ifndef RAY_PLAN_INTERNAL_H
#define RAY_PLAN_INTERNAL_H

#include <uthash.h>

#include "ray/plan.h"

/* ---- ledger.c ---- */

struct ray_ledger_entry
{
  uint32_t incarnation;
  bool complete; /* every host existed at the same time once */
};

/* `count` indices of one kind from `index` on. */
struct ray_ledger_run
{
  uint32_t index, count;
  struct ray_ledger_entry entry;
};

struct ray_ledger_group
{
  char *name;
  struct ray_ledger_run *runs; /* by replica index, ascending and apart; what is not there is {0, false} */
  size_t count, cap;
  bool wanted; /* by ray_ledger_retain */
  UT_hash_handle hh;
};

struct ray_ledger
{
  struct ray_ledger_group *groups; /* uthash, by name */
  bool changed;
};

/* "v6e-16=0c,2c,,1,500:0c*40;headgroup=1": per group, by index, the incarnation and a c once complete. "500:" leaps to
 * an index, "*40" is so many of the same. What does not parse is treated as absent: names may then repeat, nothing
 * worse. Anybody who may edit the cluster may write this text: memory and time are those of its length, whatever it
 * says. Returns false when something was dropped, which no text of ours is. */
bool ray_ledger_parse (struct ray_ledger *ledger, const char *text);
/* At most RAY_LEDGER_MAX bytes, half of what all annotations of an object may have together: should it ever be more,
 * first the incarnations of slices that were never complete go, then the highest indices. */
#define RAY_LEDGER_MAX (128 * 1024)
char *ray_ledger_print (const struct ray_ledger *ledger);
bool ray_ledger_holds (int64_t index); /* beyond, nothing is written down */
struct ray_ledger_entry ray_ledger_get (const struct ray_ledger *ledger, const char *group, int64_t index);
void ray_ledger_set (struct ray_ledger *ledger, const char *group, int64_t index, struct ray_ledger_entry entry);
/* Drops groups that are not in the spec, once no owned pod of theirs is left: one that comes back meanwhile must know
 * which of its slices were complete. */
void ray_ledger_retain (struct ray_ledger *ledger, const struct ray_cluster *cluster,
                        const struct ray_observed *observed);
void ray_ledger_free (struct ray_ledger *ledger);
#define cleanup_ledger __attribute__ ((cleanup (ray_ledger_free)))

/* ---- name_set.c ---- */

struct ray_name_set
{
  const char **names; /* sorted; they belong to whoever filled the set */
  size_t count;
};

void ray_name_set_list (struct ray_name_set *set, const cJSON *list); /* the strings in it */
void ray_name_set_copy (struct ray_name_set *set, const char *const *names, size_t count);
bool ray_name_set_has (const struct ray_name_set *set, const char *name);
void ray_name_set_free (struct ray_name_set *set);

/* ---- slices.c ---- */

enum ray_slice_state
{
  RAY_SLICE_FORMING,     /* hosts are missing, and it was never complete */
  RAY_SLICE_WHOLE,       /* every host exists */
  RAY_SLICE_BROKEN,      /* has live pods but must be replaced */
  RAY_SLICE_TERMINATING, /* only pods that are being deleted */
};

struct ray_slice
{
  const struct ray_pod **pods; /* reaches into the sorted array of its group */
  size_t npods, live;
  const char *replica_name;
  int64_t index; /* -1 when its pods carry none */
  enum ray_slice_state state;
  const char *why;    /* why it is broken */
  bool ready;         /* whole, and every pod is ready */
  bool doomed;        /* chosen for deletion */
  bool listed;        /* in workersToDelete */
  int64_t created_ms; /* of its oldest pod */
  int64_t expires_ms; /* terminating: when its index is given up; INT64_MAX while a pod is live */
};

struct ray_slices
{
  struct ray_slice *items;
  size_t count, cap;
  const struct ray_pod **pods; /* sorted by slice, then host */
  size_t npods;
  struct ray_name_set listed; /* workersToDelete */
};

/* The slices that the owned pods of one group make. `hosts` is the group's. */
void ray_slices_read (struct ray_slices *slices, const struct ray_cluster *cluster, const struct ray_group *group,
                      const struct ray_observed *observed, const struct ray_ledger *ledger,
                      const struct ray_plan_options *options);
void ray_slices_free (struct ray_slices *slices);
#define cleanup_slices __attribute__ ((cleanup (ray_slices_free)))

/* ---- plan_names.c ---- */

/* The value of ray.io/worker-group-replica-name that an incarnation of an index of a multi-host group has. */
void ray_replica_name (char out[RAY_NAME_SIZE], const struct ray_cluster *cluster, const struct ray_group *group,
                       int64_t index, uint32_t incarnation);
/* What the names of one pod are made from (ray_op.name_seed). */
uint64_t ray_pod_seed (const struct ray_cluster *cluster, const struct ray_group *group,
                       const struct ray_identity *identity, uint32_t incarnation);
/* The names that stand for one seed: the first, and those taken after a collision. */
struct ray_pod_names
{
  char names[RAY_NAME_ATTEMPTS][RAY_NAME_SIZE];
};
void ray_pod_names (struct ray_pod_names *names, uint64_t seed, const struct ray_cluster *cluster,
                    const struct ray_group *group);
bool ray_pod_names_have (const struct ray_pod_names *names, const char *name);
bool ray_pod_names_meet (const struct ray_pod_names *names, const struct ray_name_set *set); /* one is in it */
/* "{cluster}-head" (facts/kuberay.md §0.2, PodName). */
void ray_fixed_head_name (char out[RAY_NAME_SIZE], const struct ray_cluster *cluster);
/* Whether the names that (index, incarnation) stands for are, or may still be, those of `slice`. */
bool ray_slice_wears_name (const struct ray_slice *slice, const struct ray_cluster *cluster,
                           const struct ray_group *group, uint32_t incarnation);

/* ---- plan.c ---- */

enum ray_stage
{
  RAY_STAGE_LEDGER,
  RAY_STAGE_HEAD, /* before the workers: under a tight quota they would else take the head's place */
  RAY_STAGE_WORKERS
};

struct ray_planner
{
  struct ray_plan *plan;
  const struct ray_cluster *cluster;
  const struct ray_observed *observed;
  const struct ray_plan_options *options;
  struct ray_ledger ledger;
  struct ray_name_set gone; /* observed->gone */
  int64_t now_ms;
};

struct ray_op *ray_plan_add (struct ray_planner *p, enum ray_op_kind kind, enum ray_stage stage);
void ray_plan_delete_pod (struct ray_planner *p, const struct ray_group *group, const struct ray_pod *pod,
                          const char *why); /* nothing when it is being deleted already */

/* ---- plan_group.c ---- */

void ray_plan_group (struct ray_planner *p, const struct ray_group *group);

/* ---- plan_grow.c ---- */

void ray_plan_complete_slice (struct ray_planner *p, const struct ray_group *group, const struct ray_slice *slice);
/* Starts `missing` slices, or as many as there are indices for. */
void ray_plan_scale_up (struct ray_planner *p, const struct ray_group *group, const struct ray_slices *slices,
                        size_t missing);

#endif
