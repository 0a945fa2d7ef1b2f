/* check.h - what the files of the judge share: slices as they are on the server, whatever the operators think. */
#ifndef CHECK_H
#define CHECK_H

#include "sim.h"

/* ---- check_slices.c ---- */

struct slice_now
{
  int64_t live, bad, hosts_seen; /* bad: dead or terminating; hosts_seen: distinct host indices */
  int64_t top;                   /* the highest host index */
  bool named;                    /* has a replica name */
};

bool pod_is_live (const struct ray_pod *p);
const char *slice_key (const struct ray_pod *p); /* the same for the hosts of one slice, and for no others */
const char *slice_group (const struct ray_pod *p);
struct slice_record *slice_record_of (const struct ray_pod *p);
struct slice_now slice_look (const struct slice_record *r);
bool slice_belongs (const struct slice_record *r, const char *uid, const struct ray_group *group);
bool slice_is_listed (const struct ray_group *group, const struct slice_record *r); /* in workersToDelete */
/* Every host there, none too many, none doomed. */
bool slice_is_complete (const struct slice_now *now, const struct ray_group *group);
/* May become or stay one of the replicas asked for. */
bool slice_is_viable (const struct slice_record *r, const struct slice_now *now, const struct ray_group *group);
/* Slices that somebody whose picture is of `pod_view` may count as replicas. */
int64_t slice_count (const char *uid, const struct ray_group *group, uint64_t pod_view);

/* Of a spec that is not this one. */
bool pod_is_outdated (const struct ray_pod *p, const struct ray_cluster *cluster);
bool cluster_recreates (const struct ray_cluster *cluster); /* its upgrade strategy is Recreate */

/* What the user wanted since: the states of one RayCluster that were current at `since` or later, newest first. */
struct window
{
  const char *uid;
  uint64_t since;
  size_t next; /* in the log, backwards */
  bool end;
};
const struct ray_cluster *window_next (struct window *w); /* NULL at the end */

/* ---- check_teardown.c ---- */

void check_provision (const struct call *call, const struct ray_pod *p); /* when it is created */

/* ---- check_names.c ---- */

void check_name (const struct call *call, const struct ray_pod *p); /* when it is created */

#endif
