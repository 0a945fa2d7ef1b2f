/* children.h - what a RayCluster owns besides its pods: Services, the autoscaler's identity, the Ingress, the token
 * Secret, the volume of the embedded store, NetworkPolicies. Desired objects, and how a live one is brought back to
 * what is desired without taking from users and the cluster what is theirs. Rules: facts/kuberay.md §2.3, §2.10. */
#ifndef RAY_CHILDREN_H
#define RAY_CHILDREN_H

#include "ray/build.h"

enum ray_child_kind
{
  RAY_CHILD_SERVICE,
  RAY_CHILD_SERVICE_ACCOUNT,
  RAY_CHILD_ROLE,
  RAY_CHILD_ROLE_BINDING,
  RAY_CHILD_INGRESS,
  RAY_CHILD_SECRET,
  RAY_CHILD_PVC,
  RAY_CHILD_NETWORK_POLICY,
  RAY_CHILD_KIND_MAX
};

struct ray_child_type
{
  const char *kind, *api_version;
  const char *prefix, *plural; /* "/apis/rbac.authorization.k8s.io/v1", "roles" */
  const char *noun;            /* in event notes and logs */
  const char *suffix;          /* of event reasons: "Created" "Service" (§5.2) */
  const char *failure;         /* reason of the condition ReplicaFailure while pods wait for it */
  bool prune;                  /* one of ours that is no longer desired is deleted */
};
extern const struct ray_child_type ray_child_types[RAY_CHILD_KIND_MAX];

/* What waits for a child: pods that could not work, or would run unprotected, are not made before it. */
enum ray_child_gate
{
  RAY_GATE_NONE, /* nothing: the cluster works without (Ingress, serve Service, Role) */
  RAY_GATE_HEAD, /* the head: its pod would be refused or stay Pending (ServiceAccount, volume claim) */
  RAY_GATE_PODS, /* every pod: addresses of head and slices, the token, NetworkPolicies */
};

struct ray_child
{
  enum ray_child_kind kind;
  enum ray_child_gate gate;
  bool external; /* the user's own: it must exist, and is neither made nor changed */
  bool keep;     /* survives the RayCluster: without owner reference (a claim with deletionPolicy Retain) */
  cJSON *object; /* complete, but for the Secret's data, which is random and therefore the caller's to add. Owned */
  uint64_t hash; /* of the object: another one means that the desire has changed */
};

struct ray_children
{
  struct ray_child *items; /* in the order of creation */
  size_t count, cap;
};

/* `cluster` must have passed ray_validate. */
void ray_children_make (struct ray_children *children, const struct ray_cluster *cluster,
                        const struct ray_options *options);
void ray_children_free (struct ray_children *children);
#define cleanup_children __attribute__ ((cleanup (ray_children_free)))

const char *ray_child_name (const struct ray_child *child);

/* Whether a live object under the child's name is this cluster's to change: its controller is the cluster, or it is a
 * volume claim without controller that an earlier cluster of the same name left behind. */
bool ray_child_is_ours (const struct ray_child *child, const struct ray_cluster *cluster, const cJSON *live);

/* The merge patch (RFC 7386) that restores in a live object of ours what is ours, or NULL when nothing needs to be.
 * Kept: what the server or a controller filled in (clusterIP, nodePorts, load balancer addresses, an Ingress class),
 * labels, annotations, finalizers and owner references of others. Owned by the caller. */
cJSON *ray_child_repair (const struct ray_child *child, const cJSON *live);

/* One sentence when the live object differs in what cannot be changed in place (a claim's size or class, a binding's
 * role); NULL when not. Owned by the caller. */
char *ray_child_complaint (const struct ray_child *child, const cJSON *live);

/* ---- what exists: digests ---- */

struct ray_child_seen
{
  enum ray_child_kind kind;
  const char *namespace, *name, *uid;
  const char *cluster;   /* ray.io/cluster */
  const char *owner_uid; /* of the controller owner reference, "" when none */
  uint64_t resource_version;
  bool deleting;
  bool prunable; /* its kind may be pruned and we made it (app.kubernetes.io/created-by) */
};

/* One allocation: free () frees all. NULL when the object has no cluster label. */
struct ray_child_seen *ray_child_digest (enum ray_child_kind kind, const cJSON *object);

/* ---- builders, one object each; NULL-free trees owned by the caller ---- */

cJSON *ray_build_serve_service (const struct ray_cluster *cluster, const struct ray_options *options);
cJSON *ray_build_ingress (const struct ray_cluster *cluster);
/* The policy of one group, the head included. */
cJSON *ray_build_network_policy (const struct ray_cluster *cluster, const struct ray_group *group,
                                 const struct ray_options *options);

#define RAY_ANNOTATION_SERVE_SERVICE "ray.io/enable-serve-service"
#define RAY_LABEL_SERVE "ray.io/serve"
#define RAY_AUTH_TOKEN_KEY "auth_token" /* key of the token in its Secret */

#endif
