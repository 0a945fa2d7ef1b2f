/* build.h - the objects a RayCluster stands for, exactly as they are posted. Every function returns a new tree, owned
 * by the caller. */
#ifndef RAY_BUILD_H
#define RAY_BUILD_H

#include "ray/cluster.h"

/* Operator-wide switches (§0.5); initialise from ray_default_options. */
struct ray_options
{
  const char *cluster_domain; /* CLUSTER_DOMAIN: "cluster.local" */
  bool init_container;        /* ENABLE_INIT_CONTAINER_INJECTION: wait-gcs-ready on workers */
  bool probes;                /* ENABLE_PROBES_INJECTION */
  bool login_shell;           /* ENABLE_LOGIN_SHELL: bash -cl instead of -c */
  bool head_cluster_ip;       /* ENABLE_RAY_HEAD_CLUSTER_IP_SERVICE */
  bool inject_tpu;            /* pods are built through tpu_inject ("born complete"); off only to test the webhook */
  bool redis_cleanup;  /* ENABLE_GCS_FT_REDIS_CLEANUP: a finalizer and a Job remove a cluster's state from Redis */
  const char *version; /* ours, for ray.io/kuberay-version and usage tags */
  struct tpu_options tpu;
  /* Of the configuration file (§5.1); NULL: none. They must outlive every use. */
  const cJSON *default_env;                          /* list: of the Ray container */
  const cJSON *default_labels, *default_annotations; /* objects: of every pod */
  const cJSON *head_sidecars, *worker_sidecars;      /* lists of containers */
};
extern const struct ray_options ray_default_options;

/* Who a worker pod is. For a group with hosts == 1, replica_name is "" and host_index 0; for the head all but name are
 * unused. */
struct ray_identity
{
  char name[RAY_NAME_SIZE];         /* metadata.name */
  char replica_name[RAY_NAME_SIZE]; /* {group}-{suffix}, the same for all hosts of the slice (§2.5 multi-host) */
  int64_t replica_index, host_index;
};

cJSON *ray_build_head_service (const struct ray_cluster *cluster, const struct ray_options *options);     /* §2.3 */
cJSON *ray_build_headless_service (const struct ray_cluster *cluster, const struct ray_options *options); /* §2.3 */

/* Head or worker pod (§3.1-§3.8) with labels, ownerReference, ray start command, environment, probes, init container,
 * volumes, the autoscaler of an autoscaling head. With options->inject_tpu also what tpu_inject adds, and workers of
 * groups with hosts > 1, TPU or not, carry hostname `<group>-<replica>-<host>` and subdomain `<cluster>-headless`
 * (§9.18); without it the pod is as KubeRay makes it. Warnings of tpu_inject are not passed on: ask it about the
 * template's pod. -EINVAL when the template cannot become a pod (ray_validate says so beforehand). */
int ray_build_pod (cJSON **pod, const struct ray_cluster *cluster, const struct ray_group *group,
                   const struct ray_identity *identity, const struct ray_options *options, struct error *err);

/* "{headsvc}.{ns}.svc.{domain}" */
void ray_head_fqdn (char out[RAY_NAME_SIZE * 2], const struct ray_cluster *cluster, const struct ray_options *options);

/* The bare `ray start ...` line (§3.3) from merged params; exposed for golden tests. Owned by the caller. */
char *ray_start_command (const struct ray_cluster *cluster, const struct ray_group *group,
                         const struct ray_options *options);

/* ownerReferences entry: controller and blockOwnerDeletion true. Nothing for a RayCluster without a uid, which the API
 * server has not seen yet: such objects are only rendered, and a reference without a uid could not be applied. */
void ray_set_owner (cJSON *object, const struct ray_cluster *cluster);

#endif
