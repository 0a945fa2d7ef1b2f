/* tpu_internal.h - what the files of pkg/tpu share: request -> identity -> values per container -> patch. */
#ifndef TPU_TPU_INTERNAL_H
#define TPU_TPU_INTERNAL_H

#include "tpu/tpu.h"

#define TPU_RESOURCE "google.com/tpu"
#define TPU_LABEL_RAY_CLUSTER "ray.io/cluster"
#define TPU_LABEL_LWS_NAME "leaderworkerset.sigs.k8s.io/name"
#define TPU_LABEL_JOBSET_NAME "jobset.sigs.k8s.io/jobset-name"
#define TPU_LABEL_JOB_NAME "batch.kubernetes.io/job-name"
#define TPU_LABEL_JOB_NAME_LEGACY "job-name"
#define TPU_LABEL_POD_INDEX "apps.kubernetes.io/pod-index"
#define TPU_LABEL_RAY_GROUP "ray.io/group"
#define TPU_LABEL_RAY_REPLICA_NAME "ray.io/worker-group-replica-name"
#define TPU_ANNOTATION_SLICE_TOPOLOGY "cloud.google.com/gke-tpu-slice-topology"

/* ---- request.c ---- */

/* A container that asks for TPUs. */
struct tpu_container
{
  const cJSON *object;
  const char *section; /* "containers" or "initContainers" */
  int index;           /* in that array */
  int64_t chips;
  bool concurrent; /* runs beside the others: a container or a sidecar, not an ordinary init container */
  int64_t
      slot; /* process number inside the pod: containers in their order, then sidecars; ordinary init containers 0 */
};

struct tpu_containers
{
  struct tpu_container *items; /* in the arena */
  size_t count;
};

/* tpu_request_read, which also tells the containers. */
int tpu_request_collect (struct tpu_request *r, struct tpu_containers *containers, const cJSON *template,
                         const struct tpu_options *options, struct arena *arena, struct error *err);

/* ---- identity.c, and a file for each family of owners ---- */

/* Who the pod is. Host h of the slice is reachable as "<stem><first + h>.<domain>"; where there is a `lead`, that is
 * host 0 under its own name and the numbered ones follow. Texts live in the pod or the arena. */
struct tpu_identity
{
  enum tpu_owner owner;
  const char *unknown; /* why the place in the slice is not known and what to do; NULL when it is known */
  bool needs_place;    /* its owner wrote no indices: the shell has to give it one, or to confirm the one it has */
  const char *slice;   /* TPU_NAME; "" when there is none to give */
  int64_t host;        /* index in the slice; 0 for single host; -1 when not known */
  int64_t hosts;       /* of the slice, as the owner has them: the request's but for LeaderWorkerSet; 0: not known */
  const char *stem, *domain, *lead; /* stem is NULL when hosts have no names, lead when all are numbered */
  int64_t first;                    /* number of the first numbered host */
  int64_t processes;                /* per host that are told apart: TPU containers but for subgroups (§1.2) */
  int64_t process_port;             /* TPU_PROCESS_PORT of the first process */
  const char *cluster;              /* Ray: the RayCluster; else NULL */
  const char *coordinator;          /* Ray, JobSet: host 0 of slice 0 of the group; NULL when its name cannot be told */
  int64_t replica;                  /* Ray, JobSet: index of the slice in its group; -1 when not known */
  int64_t slices;                   /* JobSet: declared slices of the group; else 0 */
  const char *replica_name;         /* Ray: what all hosts of the slice, and no others, are labelled with; or NULL */
};

typedef void (*tpu_identify_fn) (struct tpu_identity *id, const cJSON *pod, const struct tpu_request *r,
                                 const struct tpu_options *options, struct arena *arena);

void tpu_identify (struct tpu_identity *id, const cJSON *pod, const struct tpu_request *r,
                   const struct tpu_options *options, struct arena *arena);

/* What identify functions are made of. */
const char *tpu_label (const cJSON *pod, const char *key);
const char *tpu_annotation (const cJSON *pod, const char *key);
const char *tpu_spec_text (const cJSON *pod, const char *key);        /* "" counts as absent, as for the API server */
const char *tpu_controller_name (const cJSON *pod, const char *kind); /* of a controlling owner of that kind, or NULL */
const char *tpu_pod_name (const cJSON *pod, struct arena *arena);     /* or generateName without its dashes; "" */
int64_t tpu_index_of (const char *text);                              /* -1 when it is no index */
/* "set-3" -> "set-" and 3; false when it does not end so. */
bool tpu_split_ordinal (const char *name, const char **stem, int64_t *ordinal, struct arena *arena);
const char *tpu_host_name (const struct tpu_identity *id, int64_t host, struct arena *arena); /* without the domain */
/* Sets `unknown` when the user's spec.hostname is not the name that the others are told. */
void tpu_check_hostname (struct tpu_identity *id, const cJSON *pod, struct arena *arena);

/* The headless Service that makes names of a RayCluster's hosts. */
const char *tpu_ray_service (const struct tpu_identity *id, const struct tpu_options *options, struct arena *arena);

/* Asked about pods with the labels of their row in the table of owners. */
void tpu_identify_ray (struct tpu_identity *id, const cJSON *pod, const struct tpu_request *r,
                       const struct tpu_options *options, struct arena *arena);
void tpu_identify_lws (struct tpu_identity *id, const cJSON *pod, const struct tpu_request *r,
                       const struct tpu_options *options, struct arena *arena);
void tpu_identify_job (struct tpu_identity *id, const cJSON *pod, const struct tpu_request *r,
                       const struct tpu_options *options, struct arena *arena);
void tpu_identify_jobset (struct tpu_identity *id, const cJSON *pod, const struct tpu_request *r,
                          const struct tpu_options *options, struct arena *arena);
void tpu_identify_statefulset (struct tpu_identity *id, const cJSON *pod, const struct tpu_request *r,
                               const struct tpu_options *options, struct arena *arena);

/* ---- env.c, and a file for each family of variables ---- */

/* Appends env entries for every TPU container to patch, and to warnings what the user should know. */
void tpu_env_patch (cJSON *patch, cJSON *warnings, const struct tpu_containers *containers, const struct tpu_request *r,
                    const struct tpu_identity *id, struct arena *arena);

/* ---- hosts.c ---- */

/* Linux refuses to exec when one "NAME=value" string is longer, NUL included (§4.3): such a pod never starts. */
#define TPU_ENV_MAX 131072

struct tpu_word
{
  const char *text;
  size_t len;
};

/* Host names in worker order. `items` is NULL when a list of them could not be an env value anyway. */
struct tpu_hosts
{
  struct tpu_word *items;
  size_t count;
};

/* The hosts of a known identity in worker order; `localhost` when they have no names. */
void tpu_hosts_name (struct tpu_hosts *hosts, const struct tpu_identity *id, struct arena *arena);
/* From a comma-separated list, into which the words reach, each host once however often it is repeated in a row.
 * -EINVAL when these are not `count` valid host names or IPv4 addresses that all differ. */
int tpu_hosts_parse (struct tpu_hosts *hosts, const char *list, int64_t count, struct arena *arena);
/* host + suffix, host-major, comma-separated; NULL when "name=" and that does not fit into TPU_ENV_MAX. */
char *tpu_hosts_join (const struct tpu_hosts *hosts, const struct tpu_word *suffixes, size_t nsuffixes,
                      const char *name, struct arena *arena);

/* ---- placement.c ---- */

/* Ray: hostname, subdomain and slice affinity. -EINVAL when spec.affinity is not of its type. */
int tpu_place (cJSON *patch, cJSON *warnings, const cJSON *pod, const struct tpu_request *r,
               const struct tpu_identity *id, struct error *err);

/* ---- advice.c ---- */

/* What the user should know about a pod that is injected: annotations, hardware, network, group, names. */
void tpu_advise (cJSON *warnings, const cJSON *pod, const struct tpu_request *r, const struct tpu_identity *id,
                 const struct tpu_options *options, struct arena *arena);
/* Adds a sentence once. After TPU_WARNINGS_MAX - 1 of them one says that there is more, and the rest is dropped: a Pod
 * with thousands of things to complain about must not cost more than a Pod with a few. */
#define TPU_WARNINGS_MAX 20
void tpu_warn (cJSON *warnings, const char *fmt, ...) __attribute__ ((format (printf, 2, 3)));

#endif
