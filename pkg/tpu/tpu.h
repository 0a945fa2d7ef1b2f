/* tpu.h - TPU slices: what a topology means, who a pod is in its slice, what its containers must be told.
 * Pure: no I/O, no clock, no globals that change; safe to call from any number of threads. Rules:
 * facts/tpu_injection.md, "§" below means its sections. */
#ifndef TPU_TPU_H
#define TPU_TPU_H

#include "json/json.h"

/* ---- hardware (§4) ---- */

struct tpu_topology
{
  int dims[3]; /* 4x4 -> {4,4}; chips along X, Y, Z */
  int ndims;   /* 2 or 3 */
};

/* Parses "4x4" or "2x2x2". Dimensions are 1..4096; anything else is -EINVAL and says what was wrong. */
int tpu_topology_parse (struct tpu_topology *t, const char *text, struct error *err);
int64_t tpu_topology_chips (const struct tpu_topology *t);
#define TPU_TOPOLOGY_SIZE 16 /* "4096x4096x4096" and the NUL */
void tpu_topology_print (char out[TPU_TOPOLOGY_SIZE], const struct tpu_topology *t);

struct tpu_accelerator
{
  const char *label;      /* value of cloud.google.com/gke-tpu-accelerator, e.g. "tpu-v6e-slice" */
  const char *generation; /* "v3", "v4lite", "v4", "v5e", "v5p", "v6e", "tpu7x" */
  int ndims;              /* dimensions of its topologies */
  int devices_per_chip;   /* what a framework sees per chip: 2 for tpu7x's chiplets and v3's cores, else 1 (§6.2) */
  int vm_chips;        /* chips of its largest VM; multi-host slices are always made of TPU_SLICE_VM_CHIPS-chip VMs */
  bool process_family; /* multi-host pods need TPU_PROCESS_ADDRESSES/PORT (§8.2 rule 12b) */
  bool torch_family;   /* TORCH_TPU_* is defined for it (§9.2) */
  bool multislice;     /* its slices can work together over the data centre network (§2.3) */
};

#define TPU_SLICE_VM_CHIPS 4 /* §4.2 */

const struct tpu_accelerator *tpu_accelerator_find (const char *label); /* NULL for an unknown generation or NULL */

/* ---- what can be had on GKE, for people to choose from (§4.1, §4.2); what is injected does not depend on it ---- */

struct tpu_machine
{
  const char *type; /* "ct6e-standard-4t" */
  int chips;
};

struct tpu_offer
{
  const char *label;       /* of a struct tpu_accelerator */
  const char *type_prefix; /* TPU_ACCELERATOR_TYPE of the device plugin is "<prefix>-<cores>" (§2.4) */
  int cores_per_chip;
  struct tpu_machine machines[3]; /* ascending; those without a type are none */
  const char *const *topologies;  /* ascending, NULL ends; of three dimensions the usual ones */
  int cubes_max;                  /* chips of its largest slice of more than 64, of multiples of 4; 0: none but these */
  bool any_order;                 /* of those multiples */
};

/* By index from 0; NULL behind the last. */
const struct tpu_offer *tpu_offer_at (size_t index);
/* Whether slices of the topology are made of that machine: one that is it, or several of TPU_SLICE_VM_CHIPS chips. */
bool tpu_offer_fits (const struct tpu_machine *machine, const struct tpu_topology *topology);
/* False when there is no such slice of this accelerator; `instead` is then the one that is probably meant: the same
 * numbers in their order, else the nearest by chips. */
bool tpu_offer_has (const struct tpu_accelerator *accelerator, const struct tpu_topology *topology,
                    struct tpu_topology *instead);
/* tpu_offer_has of what a template asks for; true also of what is not known: another accelerator, no topology, a part
 * of a larger slice. */
struct tpu_request;
bool tpu_request_offered (const struct tpu_request *r, struct tpu_topology *instead);

/* ---- pods ---- */

#define TPU_LABELS_MAX 4

struct tpu_options
{
  /* Node labels that mean the same, the first that a Pod selects by counts; NULL ends, as does the array. Clusters that
   * are not GKE's have other keys (§4.1). */
  const char *accelerator_labels[TPU_LABELS_MAX];
  const char *topology_labels[TPU_LABELS_MAX];
  bool legacy_service_names; /* KubeRay before 1.4 cuts "<cluster>-headless" to its last 50 characters (§5.4) */
  bool owned;  /* Pods come with the references to their controllers, as those of an API server do, and a Ray Pod of a
                  multi-host slice without one is nobody's */
  bool strict; /* a TPU pod whose place in its slice cannot be known is an error instead of a warning */
};

/* GKE's labels, then those of self-managed clusters. */
#define TPU_DEFAULT_ACCELERATOR_LABELS "cloud.google.com/gke-tpu-accelerator", "cloud.google.com/gk8s-tpu-accelerator"
#define TPU_DEFAULT_TOPOLOGY_LABELS "cloud.google.com/gke-tpu-topology", "cloud.google.com/gk8s-tpu-topology"
#define TPU_DEFAULT_OPTIONS                                                                                            \
  {                                                                                                                    \
    .accelerator_labels = { TPU_DEFAULT_ACCELERATOR_LABELS }, .topology_labels = { TPU_DEFAULT_TOPOLOGY_LABELS }       \
  }
extern const struct tpu_options tpu_default_options;

/* What a pod template asks for, the same for pods and for the templates inside workload objects. Texts reach into it.
 */
struct tpu_request
{
  int64_t chips;                 /* google.com/tpu over all concurrently running TPU containers; 0: no TPU pod */
  int64_t containers;            /* how many containers (sidecar init containers included) ask for TPUs at a time */
  const char *accelerator_label; /* the node label that says it, the first one that could when absent */
  const char *accelerator_text;  /* from node selector or single-valued required node affinity; NULL when absent */
  const struct tpu_accelerator *accelerator; /* NULL when absent or unknown */
  const char *topology_text; /* slice annotation, else node selector, else single-valued affinity; NULL when absent */
  struct tpu_topology topology; /* valid when topology_text is set */
  bool partial;                 /* the slice annotation names a topology that is not the selected nodes' own (§2.4) */
  int64_t hosts;                /* chips of the topology / chips of the pod; 1 = single host; 0 when not known */
};

/* Reads `template` ({metadata, spec} of a Pod or PodTemplateSpec). -EINVAL with a sentence that names field, value and
 * remedy for a topology that does not parse, fractional or negative chips, chips that do not divide the topology, or a
 * dimension count that the accelerator does not have. A pod without google.com/tpu is no error: chips is 0 and nothing
 * else is read. Ordinary init containers never run beside the others and do not add to chips (§8.2 rule 11). NULL
 * options are the default ones. */
int tpu_request_read (struct tpu_request *r, const cJSON *template, const struct tpu_options *options,
                      struct error *err);

/* Who made the Pod, by its labels, else by its controller (§8.1 rule 2). */
enum tpu_owner
{
  TPU_OWNER_RAY,    /* our controller's or KubeRay's */
  TPU_OWNER_LWS,    /* also when it carries Ray: the set decides on hostnames */
  TPU_OWNER_JOBSET, /* Pathways and TrainJobs too */
  TPU_OWNER_JOB,
  TPU_OWNER_STATEFULSET,
  TPU_OWNER_BARE, /* nobody who numbers hosts: Deployment, ReplicaSet, DaemonSet, no controller */
  TPU_OWNER_MAX
};

const char *tpu_owner_name (enum tpu_owner owner); /* "RayCluster", "LeaderWorkerSet", ..., "Pod" */

#define TPU_NAME_SIZE 254 /* longest object name and the NUL */

/* Annotations of a Pod; of others with this prefix tpu_inject warns. */
#define TPU_ANNOTATION_PREFIX "ray-tpu-operator/"
/* "false" keeps the Pod exactly as it is. */
#define TPU_ANNOTATION_INJECT TPU_ANNOTATION_PREFIX "inject"
/* spec.ordinals.start of its StatefulSet, which the Pod does not carry; absent: 0. */
#define TPU_ANNOTATION_FIRST_ORDINAL TPU_ANNOTATION_PREFIX "first-ordinal"
/* The place that tpu_place_needed asked for: index of the slice in its group, and of the host in the slice. They count
 * where the Pod has none of KubeRay's index labels. */
#define TPU_ANNOTATION_REPLICA_INDEX TPU_ANNOTATION_PREFIX "replica-index"
#define TPU_ANNOTATION_HOST_INDEX TPU_ANNOTATION_PREFIX "host-index"
/* When the reservation of that place expires, in milliseconds of the wall clock. */
#define TPU_ANNOTATION_RESERVED_UNTIL TPU_ANNOTATION_PREFIX "reserved-until"

struct tpu_injection
{
  cJSON *patch;         /* RFC 6902 array; empty when nothing is to be added. Owned */
  cJSON *warnings;      /* array of strings for the user (admission warnings), each once, important ones first. Owned */
  enum tpu_owner owner; /* how the identity was found */
  char slice[TPU_NAME_SIZE]; /* TPU_NAME, "" when not known */
  int64_t worker_id;         /* host index in the slice; -1 when not known */
  int64_t hosts;             /* hosts of the slice; 0 when not known */
};

/* Decides what a Pod that asks for google.com/tpu must be told (§6.2, §8) and returns it as a patch: env entries of its
 * TPU containers (init containers that ask included) and, for Ray pods on multi-host slices, hostname, subdomain and
 * slice affinity merged into the user's. Idempotent: applied twice it changes nothing the second time.
 *
 * The user's own env entries are final in any form, literal, empty or valueFrom. Where one variable of a family is the
 * user's, the rest of the family is theirs too: {TPU_WORKER_HOSTNAMES, TPU_WORKER_ID}, {TORCH_TPU_TOPOLOGY,
 * TORCH_TPU_SLICEBUILDER_ADDRESSES}, {TPU_PROCESS_ADDRESSES, TPU_PROCESS_PORT}, {MEGASCALE_NUM_SLICES,
 * MEGASCALE_SLICE_ID, MEGASCALE_COORDINATOR_ADDRESS} (for Ray pods MEGASCALE_NUM_SLICES is the user's to set and brings
 * the others); a literal TPU_PROCESS_PORT, and a Ray pod's MEGASCALE_PORT, is taken as input, and the rest is built
 * around it. Pods of a LeaderWorkerSet are told what its own webhook tells them, whichever comes first.
 * What envFrom brings cannot be seen here, and Kubernetes lets env win over it: who sets these variables through a
 * ConfigMap needs the opt-out annotation.
 *
 * Where the place in a multi-host slice cannot be known, nothing that depends on it is injected and a warning says why.
 *
 * 0, or -EINVAL (invalid pod: what and how to mend it; with options->strict also unknown identity); then out is empty.
 * NULL options are the default ones. */
int tpu_inject (struct tpu_injection *out, const cJSON *pod, const struct tpu_options *options, struct error *err);
void tpu_injection_free (struct tpu_injection *injection);

/* Pods of KubeRay before 1.6, or without its gate RayMultiHostIndexing, carry no indices: on a multi-host slice
 * somebody with a memory has to give them a place. */
struct tpu_place_need
{
  const char *cluster, *group; /* reach into the pod */
  int64_t hosts;               /* per slice */
};

/* 1 when the Pod needs a place: find one, add it to the Pod as TPU_ANNOTATION_REPLICA_INDEX and _HOST_INDEX, and
 * tpu_inject knows the rest. Also when the Pod brings these annotations: whether they were written for it, or copied
 * into the template of many, only somebody with a memory knows. 0 when it does not: no such Pod, or its owner has
 * labelled it with its place, or it has opted out. -EINVAL as tpu_request_read. */
int tpu_place_needed (struct tpu_place_need *need, const cJSON *pod, const struct tpu_options *options,
                      struct error *err);
#define cleanup_injection __attribute__ ((cleanup (tpu_injection_free)))

#endif
