/* plan.h - from what a RayCluster wants and what exists to what to do next about its pods. Level-triggered and pure:
 * the same picture always gives the same plan; names are a function of identity, so that a repeated or overlapping
 * create cannot make two of one host (design §4).
 *
 * Slices. A slice is one replica of a group: `hosts` pods for a multi-host group, one pod else; the head is a slice of
 * one. A slice that was never complete is forming and gets its missing hosts; one that was complete and lost a host is
 * broken and is replaced whole. A slice's index is reserved while any pod carries it, but no longer than
 * `terminating_timeout_ms` past a pod's deletion deadline; a pod of an earlier RayCluster of the same name counts, too,
 * and an orphan, for their hosts' names are the same.
 *
 * The ledger. What must survive a restart and cannot be read off the pods is kept in one annotation of the RayCluster:
 * per group and index the incarnation (so that a replacement has other names than what it replaces) and whether the
 * slice was complete once. */
#ifndef RAY_PLAN_H
#define RAY_PLAN_H

#include "ray/build.h"

#define RAY_ANNOTATION_SLICES "ray-tpu-operator/slices"
/* "true" on a RayCluster: once it was provisioned, a lost head is not replaced, and neither is any worker then. */
#define RAY_ANNOTATION_NO_HEAD_RESTART "ray.io/disable-provisioned-head-restart"

/* On every pod: what its group's part of the spec was when it was made (ray_template_hash), to tell the user of pods
 * that are out of date. Pods of other operators lack it, and nothing is said of them. */
#define RAY_ANNOTATION_TEMPLATE_HASH "ray-tpu-operator/template-hash"
/* On the head: of the spec it was made from. "rto1-" and a hash; anything else was written by another operator. */
#define RAY_ANNOTATION_RECREATE_HASH "ray.io/upgrade-strategy-recreate-hash"
#define RAY_RECREATE_HASH_PREFIX "rto1-"
#define RAY_RECREATE_HASH_SIZE 32
uint64_t ray_template_hash (const struct ray_group *group); /* never 0; scaling and what Kueue adds do not change it */
void ray_recreate_hash (char out[RAY_RECREATE_HASH_SIZE], const struct ray_cluster *cluster);

/* ---- what exists: digests, a few hundred bytes each (design §3.4) ---- */

enum ray_phase
{
  RAY_PENDING,
  RAY_RUNNING,
  RAY_SUCCEEDED,
  RAY_FAILED,
  RAY_UNKNOWN
};

struct ray_pod
{
  const char *namespace, *name, *uid;
  const char *cluster;                      /* ray.io/cluster */
  const char *group;                        /* ray.io/group, "" when absent */
  const char *node_type;                    /* ray.io/node-type */
  const char *replica_name;                 /* ray.io/worker-group-replica-name, "" when absent */
  const char *owner_uid;                    /* of the controller owner reference, "" when none */
  const char *ip;                           /* status.podIP, "" when none */
  const char *ready_reason, *ready_message; /* heads only: for the HeadPodReady condition */
  const char *recreate_hash;                /* heads only: RAY_ANNOTATION_RECREATE_HASH, "" when absent */
  uint64_t template_hash;                   /* RAY_ANNOTATION_TEMPLATE_HASH, 0 when absent */
  int64_t created_ms;                       /* wall clock */
  int64_t deletion_ms; /* metadata.deletionTimestamp, i.e. when the grace period ends; 0: not being deleted */
  uint64_t resource_version;
  int32_t replica_index, host_index; /* -1 when absent */
  enum ray_phase phase;
  bool cluster_owned; /* the controller owner is a RayCluster of the name in `cluster`: this one or an earlier one */
  bool ready;         /* the PodReady condition is True */
  bool ready_known;   /* there is a PodReady condition */
  bool dead; /* Failed, Succeeded, or the Ray container ended and restartPolicy is Never (facts §2.4 shouldDelete) */
};

struct ray_service
{
  const char *namespace, *name, *uid;
  const char *cluster; /* ray.io/cluster, or ray.io/headless-worker-svc */
  const char *owner_uid;
  const char *cluster_ip; /* "None" when headless */
  const char *endpoints;  /* JSON object text: port name -> nodePort, else targetPort (facts §1.5) */
  uint64_t resource_version;
  bool is_head;  /* labelled ray.io/node-type=head */
  bool deleting; /* has a deletionTimestamp */
  bool prunable; /* goes when it is no longer desired (ray/children.h) */
};

/* One allocation each: free () frees all. NULL when the object is not of a RayCluster (no label). */
struct ray_pod *ray_pod_digest (const cJSON *pod);
struct ray_service *ray_service_digest (const cJSON *service);

struct ray_observed
{
  const struct ray_pod **pods; /* those of the namespace labelled with this cluster's name, whoever owns them */
  size_t npods;
  const struct ray_service **services;
  size_t nservices;
  const char **gone; /* names of pods that were there and went lately: the ledger may not know of them */
  size_t ngone;
};

/* A pod is ours when its controller owner is this very cluster (by uid). */
bool ray_pod_owned (const struct ray_pod *pod, const struct ray_cluster *cluster);
/* A predecessor's is of an earlier cluster of this name: the garbage collector's to delete, not ours. */
bool ray_pod_of_predecessor (const struct ray_pod *pod, const struct ray_cluster *cluster);
/* An orphan has no controller owner: its RayCluster was deleted with --cascade=orphan, say. No controller deletes it.
 */
bool ray_pod_orphaned (const struct ray_pod *pod);

/* ---- what to do ---- */

enum ray_op_kind
{
  RAY_OP_WRITE_LEDGER, /* merge-patch RAY_ANNOTATION_SLICES with plan->ledger, guarded by the cluster's resourceVersion
                        */
  RAY_OP_STAMP_HEAD,   /* merge-patch RAY_ANNOTATION_RECREATE_HASH of `pod` with the hash of the spec */
  RAY_OP_DELETE_POD,   /* with uid precondition */
  RAY_OP_CREATE_POD,
};

struct ray_op
{
  enum ray_op_kind kind;
  int stage;                     /* operations of one stage run in parallel; a failed stage 0 ends the plan */
  const struct ray_group *group; /* pods: the group; NULL when it is no longer in the spec */
  struct ray_identity identity;  /* created pods */
  uint64_t name_seed;            /* created pods: see ray_op_rename */
  const struct ray_pod *pod;     /* deleted and stamped pods */
  const char *why;               /* for logs and events: "slice is incomplete", "scale down", ... */
};

struct ray_plan
{
  struct ray_op *ops; /* by stage */
  size_t nops, cap;
  char *ledger;                 /* new annotation value, NULL: unchanged */
  bool ledger_unsound;          /* somebody else wrote to the annotation: what was not understood of it is dropped */
  const struct ray_pod *orphan; /* holds a place that is wanted, NULL: none */
  const struct ray_group *orphan_group;
  size_t norphans;
  int64_t requeue_ms; /* look again after this long even if nothing happens; 0: no need */
};

struct ray_plan_options
{
  int64_t terminating_timeout_ms; /* how long past its deadline a Terminating pod may hold its index (default 30 s) */
  bool random_delete; /* ENABLE_RANDOM_POD_DELETE: the operator may pick victims although autoscaling is on */
  /* ENABLE_DETERMINISTIC_HEAD_POD_NAME: the head is named {cluster}-head, unless a pod of that name is there and may
   * not hold things up any longer */
  bool fixed_head_name;
};
extern const struct ray_plan_options ray_default_plan_options;

/* `cluster` must have passed ray_validate. Everything in the plan points into cluster and observed. */
void ray_plan_make (struct ray_plan *plan, const struct ray_cluster *cluster, const struct ray_observed *observed,
                    const struct ray_plan_options *options, int64_t now_ms);
/* The deletion of every pod that the cluster owns and that is not being deleted yet. */
void ray_plan_delete_all (struct ray_plan *plan, const struct ray_cluster *cluster, const struct ray_observed *observed,
                          const char *why);
/* Takes creations out of the plan: those of heads, or of all pods. For when an object they need is missing. */
void ray_plan_hold (struct ray_plan *plan, bool workers_too);
void ray_plan_free (struct ray_plan *plan);
#define cleanup_plan __attribute__ ((cleanup (ray_plan_free)))

/* The slices annotation for a plan without a look at what exists: incarnations stay, so that names come out as in the
 * cluster, but nothing counts as having been complete, and so as lost. Owned by the caller. */
char *ray_slices_unseen (const char *text);

/* The create was answered 409 and the pod of that name is somebody else's: takes the next name of this identity, from
 * attempt 1 on. An identity has no more names than this. */
#define RAY_NAME_ATTEMPTS 6
void ray_op_rename (struct ray_op *op, const struct ray_cluster *cluster, int attempt);

#endif
