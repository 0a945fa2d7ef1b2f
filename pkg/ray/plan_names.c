/* plan_names.c - names as a function of identity: the same (cluster, group, index, incarnation, host) has the same name
 * for ever, so that a create can be repeated, and another incarnation has others. */
#include "ray/plan_internal.h"

#include <stdio.h>
#include <string.h>

static uint64_t
identity_hash (const struct ray_cluster *cluster, const char *what, const char *who, int64_t a, int64_t b)
{
  uint64_t h = text_hash_str (text_hash_str (text_hash_str (0, cluster->uid), what), who);

  return text_hash (text_hash (h, &a, sizeof (a)), &b, sizeof (b));
}

void
ray_replica_name (char out[RAY_NAME_SIZE], const struct ray_cluster *cluster, const struct ray_group *group,
                  int64_t index, uint32_t incarnation)
{
  char suffix[RAY_SUFFIX_SIZE];

  ray_suffix (suffix, identity_hash (cluster, "slice", group->name, index, incarnation));
  snprintf (out, RAY_NAME_SIZE, "%.*s-%s", RAY_NAME_SIZE - RAY_SUFFIX_SIZE - 2, group->name, suffix);
}

uint64_t
ray_pod_seed (const struct ray_cluster *cluster, const struct ray_group *group, const struct ray_identity *identity,
              uint32_t incarnation)
{
  if (group->hosts > 1)
    return identity_hash (cluster, "host", identity->replica_name, identity->host_index, 0);
  return identity_hash (cluster, "pod", group->name, identity->replica_index, incarnation);
}

static void
pod_name (char out[RAY_NAME_SIZE], const struct ray_cluster *cluster, const struct ray_group *group, uint64_t seed,
          int attempt)
{
  char suffix[RAY_SUFFIX_SIZE];
  size_t len;

  ray_pod_name_prefix (out, cluster, group);
  ray_suffix (suffix, text_hash (seed, &attempt, sizeof (attempt)));
  len = strlen (out);
  snprintf (out + len, RAY_NAME_SIZE - len, "%s", suffix);
}

void
ray_fixed_head_name (char out[RAY_NAME_SIZE], const struct ray_cluster *cluster)
{
  ray_pod_name_prefix (out, cluster, &cluster->head);
  out[strlen (out) - 1] = '\0';
}

void
ray_op_rename (struct ray_op *op, const struct ray_cluster *cluster, int attempt)
{
  pod_name (op->identity.name, cluster, op->group, op->name_seed, attempt);
}

void
ray_pod_names (struct ray_pod_names *names, uint64_t seed, const struct ray_cluster *cluster,
               const struct ray_group *group)
{
  for (int attempt = 0; attempt < RAY_NAME_ATTEMPTS; attempt++)
    pod_name (names->names[attempt], cluster, group, seed, attempt);
}

bool
ray_pod_names_have (const struct ray_pod_names *names, const char *name)
{
  for (int attempt = 0; attempt < RAY_NAME_ATTEMPTS; attempt++)
    if (strcmp (names->names[attempt], name) == 0)
      return true;
  return false;
}

bool
ray_pod_names_meet (const struct ray_pod_names *names, const struct ray_name_set *set)
{
  for (int attempt = 0; attempt < RAY_NAME_ATTEMPTS; attempt++)
    if (ray_name_set_has (set, names->names[attempt]))
      return true;
  return false;
}

bool
ray_slice_wears_name (const struct ray_slice *slice, const struct ray_cluster *cluster, const struct ray_group *group,
                      uint32_t incarnation)
{
  struct ray_identity identity = { .replica_index = slice->index };
  struct ray_pod_names names = { 0 };
  char replica[RAY_NAME_SIZE];

  if (group->hosts > 1)
    {
      ray_replica_name (replica, cluster, group, slice->index, incarnation);
      return strcmp (replica, slice->replica_name) == 0;
    }
  ray_pod_names (&names, ray_pod_seed (cluster, group, &identity, incarnation), cluster, group);
  return ray_pod_names_have (&names, slice->pods[0]->name);
}
