/* ray_internal.h - what the files of pkg/ray share and nobody else sees. */
#ifndef RAY_RAY_INTERNAL_H
#define RAY_RAY_INTERNAL_H

#include "ray/build.h"
#include "ray/children.h"
#include "ray/cluster.h"
#include "ray/manifest.h"
#include "ray/validate.h"

#define RAY_PORT_GCS 6379
#define RAY_PORT_CLIENT 10001
#define RAY_PORT_DASHBOARD 8265
#define RAY_PORT_METRICS 8080
#define RAY_PORT_SERVE 8000
#define RAY_PORT_AGENT 52365

#define RAY_ANNOTATION_OVERWRITE_CMD "ray.io/overwrite-container-cmd"
#define RAY_ANNOTATION_FT_ENABLED "ray.io/ft-enabled"
#define RAY_ANNOTATION_STORAGE_NAMESPACE "ray.io/external-storage-namespace"
#define RAY_AUTOSCALER_CONTAINER "autoscaler"
#define RAY_WAIT_CONTAINER "wait-gcs-ready"

#define LABEL_APP_NAME "app.kubernetes.io/name"
#define LABEL_CREATED_BY "app.kubernetes.io/created-by"

/* An object without members: stands for absent objects, so that readers need no NULL checks. */
extern const cJSON ray_nothing;

/* ---- reading ---- */

/* A quantity as manifests write it: a string, or a plain number. -EINVAL for anything else, -ERANGE when too large. */
int ray_quantity (struct quantity *q, const cJSON *value, struct error *err);
bool ray_version_at_least (const struct ray_cluster *cluster, int major,
                           int minor); /* false when absent or unreadable */
bool ray_is_gpu_key (const char *key); /* "...gpu", or an NVIDIA MIG slice such as nvidia.com/mig-1g.5gb (§3.2) */
/* The port in a start parameter, or def when it is absent or no port number. */
int ray_param_port (const cJSON *params, const char *key, int def);
const char *
ray_head_port (const struct ray_cluster *cluster);          /* the GCS port as text: param `port` of the head or 6379 */
bool ray_autoscaler_v2 (const struct ray_cluster *cluster); /* autoscaling with the explicit version v2 */

/* ---- features (features.c) ---- */

enum ray_fault_tolerance
{
  RAY_FT_NONE,
  RAY_FT_REDIS,               /* by gcsFaultToleranceOptions */
  RAY_FT_REDIS_BY_ANNOTATION, /* by ray.io/ft-enabled */
  RAY_FT_ROCKSDB,
};
enum ray_fault_tolerance ray_fault_tolerance (const struct ray_cluster *cluster);
const char *ray_storage_namespace (const struct ray_cluster *cluster); /* options > annotation > uid (§3.4) */
void ray_claim_name (char out[RAY_NAME_SIZE + 16],
                     const struct ray_cluster *cluster); /* rocksdb: of the volume claim */

enum ray_auth
{
  RAY_AUTH_NONE,
  RAY_AUTH_TOKEN,
  RAY_AUTH_K8S_TOKEN,
};
enum ray_auth ray_auth (const struct ray_cluster *cluster);
void ray_token_secret_name (char out[RAY_NAME_SIZE], const struct ray_cluster *cluster);
bool ray_needs_token_secret (const struct ray_cluster *cluster); /* and it is ours to make */

/* ---- objects (children.c) ---- */

/* apiVersion, kind, name, namespace. */
cJSON *ray_new_object (const struct ray_cluster *cluster, enum ray_child_kind kind, const char *name);
/* ray.io/cluster and the two app.kubernetes.io ones; returns the labels. */
cJSON *ray_add_common_labels (cJSON *object, const struct ray_cluster *cluster);

/* Removes null members and elements, at any depth. null means "not set" in every Kubernetes type; without it builders
 * need not tell null from absent, and what is posted has none. */
void ray_drop_nulls (cJSON *v);

/* ---- start parameters and the command line (build_params.c, build_command.c) ---- */

/* The user's rayStartParams, the group's `resources` and `labels` folded in, and the operator's defaults (§3.2), all
 * strings. Owned by the caller. */
cJSON *ray_params_new (const struct ray_cluster *cluster, const struct ray_group *group,
                       const struct ray_options *options);
/* Adds what the Ray container's resources say: num-cpus, memory, num-gpus and one accelerator in resources. */
void ray_params_add_container (cJSON *params, const cJSON *resources);
char *ray_params_render (const cJSON *params, bool is_head); /* `ray start ...` (§3.3). Owned by the caller */

/* ---- one pod under construction ---- */

struct pod_build
{
  const struct ray_cluster *cluster;
  const struct ray_group *group;
  const struct ray_identity *identity;
  const struct ray_options *options;
  char head_service[RAY_NAME_SIZE];
  char head_fqdn[RAY_NAME_SIZE * 2];
  cJSON *template;          /* the template without nulls, which the parts of the pod are taken from */
  cJSON *params;            /* complete start parameters */
  char *ray_start;          /* the bare `ray start` line */
  cJSON *pod, *meta, *spec; /* pod owns the other two */
  cJSON *ray;               /* containers[0], always the Ray container */
};

/* Each adds one thing to b->pod; build_pod.c calls them in the order of §3.1. */
void ray_add_labels (struct pod_build *b);          /* build_labels.c */
void ray_add_annotations (struct pod_build *b);     /* build_labels.c */
void ray_add_wait_container (struct pod_build *b);  /* build_containers.c */
void ray_add_autoscaler (struct pod_build *b);      /* build_containers.c */
void ray_add_fault_tolerance (struct pod_build *b); /* build_fault_tolerance.c */
void ray_add_auth (struct pod_build *b);            /* build_auth.c */
void ray_add_config_defaults (struct pod_build *b); /* build_defaults.c: sidecars, labels, annotations */
void ray_add_config_env (struct pod_build *b);      /* build_defaults.c */
void ray_add_metrics_port (struct pod_build *b);    /* build_containers.c */
void ray_add_volumes (struct pod_build *b);         /* build_volumes.c */
void ray_add_command (struct pod_build *b);         /* build_command.c */
void ray_add_env (struct pod_build *b);             /* build_env.c */
void ray_add_probes (struct pod_build *b);          /* build_probes.c */

/* FQ_RAY_IP and RAY_IP: how init containers and workers find the head (§3.4). */
void ray_env_head_address (const struct pod_build *b, cJSON *container);
/* An entry of that name wins: nothing happens when the container has one. */
void ray_env_default (cJSON *container, const char *name, const char *value);
/* Ours wins: takes the place of the user's entry or is appended. `value` or, when that is NULL, the pod field at
 * `path`. */
void ray_env_set (cJSON *container, const char *name, const char *value, const char *path);
bool ray_env_has (const cJSON *container, const char *name);

/* ["/bin/bash", "-c" or "-cl", "--"] (§3.3) and the script as the only argument. */
void ray_set_shell (cJSON *container, const struct ray_options *options, const char *script);

/* ---- validation (validate*.c) ---- */

#define RAY_REASON_METADATA "InvalidRayClusterMetadata"
#define RAY_REASON_SPEC "InvalidRayClusterSpec"
#define RAY_REASON_UNSUPPORTED "UnsupportedRayClusterFeature"
#define RAY_REASON_TPU "TPUWarning"

/* An item of a list whose `key` must be a text that no earlier item has. */
void ray_check_unique (struct ray_problems *problems, const cJSON *list, const cJSON *item, const char *key,
                       const char *path);

/* A text that names another object: it comes into paths of requests, in which a `..` would lead elsewhere. */
void ray_check_name_of (struct ray_problems *problems, const cJSON *object, const char *key, const char *path);

/* The containers in spec.<section>; `others`: a list whose names they must not have either, or NULL. */
void ray_validate_containers (struct ray_problems *problems, const cJSON *spec, const char *section,
                              const cJSON *others, const char *spec_path);
void ray_validate_group (struct ray_problems *problems, const struct ray_cluster *cluster,
                         const struct ray_group *group, const char *path, const struct ray_options *options);
void ray_validate_autoscaling (struct ray_problems *problems, const struct ray_cluster *cluster);
void ray_validate_options (struct ray_problems *problems, const struct ray_cluster *cluster);
void ray_check_unsupported (struct ray_problems *problems, const struct ray_cluster *cluster); /* ray_unsupported */
void ray_check_slices (struct ray_problems *problems, const struct ray_cluster *cluster,
                       const struct ray_options *options); /* the rest of ray_warnings */

/* "a 4x4 v6e topology with 4 chips per host has 4 hosts", of a request whose hosts are known. */
#define RAY_SLICE_TEXT_SIZE 192
void ray_slice_text (char out[RAY_SLICE_TEXT_SIZE], const struct tpu_request *r);

#endif
