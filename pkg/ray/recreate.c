/* What upgradeStrategy Recreate and the condition PodTemplateOutOfDate compare (§2.4): a hash of the spec without what
 * scaling, suspending and admission controllers change. Upstream's cannot be reproduced (it is of Go's JSON): ours says
 * by its first letters that it is ours, and any other is opaque. */
#include "ray/plan.h"
#include "ray/ray_internal.h"

#include <inttypes.h>
#include <stdio.h>

/* The order of members says nothing, hence the sum; null says nothing either. */
static uint64_t
hash_value (uint64_t seed, const cJSON *v)
{
  uint64_t sum = seed;
  const cJSON *item;
  cleanup_free char *text = NULL;

  if (cJSON_IsObject (v))
    {
      cJSON_ArrayForEach (item, v)
        if (!cJSON_IsNull (item))
          sum += hash_value (text_hash_str (1, item->string), item);
      return text_hash (2, &sum, sizeof (sum));
    }
  if (cJSON_IsArray (v))
    {
      cJSON_ArrayForEach (item, v)
        sum = hash_value (sum, item);
      return text_hash (3, &sum, sizeof (sum));
    }
  text = json_print (v);
  return text_hash_str (seed, text);
}

/* Kueue adds tolerations and scheduling gates to a cluster it admits. */
static void
strip_group (cJSON *group)
{
  static const char *const members[] = { "replicas", "minReplicas", "maxReplicas", "scaleStrategy", "suspend" };
  cJSON *spec = json_get (group, "template", "spec");

  for (size_t i = 0; i < ARRAY_LEN (members); i++)
    json_drop (group, members[i]);
  json_drop (spec, "tolerations");
  json_drop (spec, "schedulingGates");
}

void
ray_recreate_hash (char out[RAY_RECREATE_HASH_SIZE], const struct ray_cluster *cluster)
{
  static const char *const members[] = { "upgradeStrategy", "suspend", "managedBy" };
  cleanup_json cJSON *spec = cJSON_Duplicate (json_get (cluster->object, "spec"), true);
  cJSON *group;

  for (size_t i = 0; i < ARRAY_LEN (members); i++)
    json_drop (spec, members[i]);
  strip_group (json_get (spec, "headGroupSpec"));
  cJSON_ArrayForEach (group, json_get (spec, "workerGroupSpecs"))
    strip_group (group);
  snprintf (out, RAY_RECREATE_HASH_SIZE, RAY_RECREATE_HASH_PREFIX "%016" PRIx64, hash_value (0, spec));
}

uint64_t
ray_template_hash (const struct ray_group *group)
{
  cleanup_json cJSON *spec = cJSON_Duplicate (group->spec, true);
  uint64_t hash;

  strip_group (spec);
  hash = hash_value (0, spec);
  return hash ? hash : 1;
}
