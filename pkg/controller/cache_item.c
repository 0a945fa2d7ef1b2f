/* cache_item.c - what is kept of an object. Pods, Services and the other owned objects as digests; a RayCluster, whose
 * every field may matter, as compact text without what only servers and kubectl read. */
#include "controller/cache_internal.h"

#include <stdio.h>
#include <string.h>

/* How long after its creation the cluster was last provisioned, going by itself, so that a restart of ours changes
 * nothing. -1: it is not, or does not say since when. */
static int64_t
provisioned_after_ms (const cJSON *object, const cJSON *condition)
{
  const char *created = json_str (object, "metadata", "creationTimestamp");
  const char *since = json_str (condition, "lastTransitionTime");
  int64_t from, to;

  if (!text_eq (json_str (condition, "status"), "True") || created == NULL || since == NULL
      || clock_parse_rfc3339 (created, &from) < 0 || clock_parse_rfc3339 (since, &to) < 0)
    return -1;
  return to > from ? to - from : 0;
}

/* What of a RayCluster is worth keeping. *shape is a hash of what a pass depends on and somebody else writes: the
 * metadata, whose generation stands for the spec. */
static struct kept_cluster *
keep_cluster (const cJSON *object, uint64_t *shape)
{
  const cJSON *condition = json_find (json_get (object, "status", "conditions"), "type", "RayClusterProvisioned");
  const char *owner_kind = json_str (object, "metadata", "labels", RAY_LABEL_ORIGIN_CRD);
  cleanup_json cJSON *copy = cJSON_Duplicate (object, true);
  cleanup_json cJSON *metadata = NULL;
  cleanup_free char *hashed = NULL;
  cleanup_free char *text = NULL;
  struct kept_cluster *kept;
  size_t size;

  json_drop (json_get (copy, "metadata"), "managedFields");
  json_drop (json_get (copy, "metadata", "annotations"), "kubectl.kubernetes.io/last-applied-configuration");
  metadata = cJSON_Duplicate (json_get (copy, "metadata"), true);
  json_drop (metadata, "resourceVersion");
  hashed = json_print (metadata);
  *shape = text_hash_str (0, hashed);
  text = json_print (copy);
  size = strlen (text) + 1;
  kept = xcalloc (1, sizeof (*kept) + size);
  snprintf (kept->uid, sizeof (kept->uid), "%s", log_nonnull (json_str (object, "metadata", "uid")));
  snprintf (kept->owner_kind, sizeof (kept->owner_kind), "%s", owner_kind ? owner_kind : "None");
  kept->provisioned = text_eq (json_str (condition, "status"), "True");
  kept->provisioned_after_ms = provisioned_after_ms (object, condition);
  memcpy (kept->text, text, size);
  return kept;
}

/* Roles and RoleBindings, say, may have the same name. */
char *
cache_item_key (const struct cache_source *source, const cJSON *object)
{
  bool child = source->kind == CACHE_CHILD;

  return xasprintf ("%s%s%s/%s", child ? ray_child_types[source->child].plural : "", child ? "/" : "",
                    log_nonnull (json_str (object, "metadata", "namespace")),
                    log_nonnull (json_str (object, "metadata", "name")));
}

struct cache_item *
cache_item_new (const struct cache_source *source, const cJSON *object, uint64_t version, char **group_key)
{
  const char *namespace = log_nonnull (json_str (object, "metadata", "namespace"));
  const char *name = log_nonnull (json_str (object, "metadata", "name"));
  enum cache_kind kind = source->kind;
  struct cache_item item = { .kind = kind, .version = version, .refs = 1 };
  const char *cluster = name;
  struct cache_item *copy;

  if (kind == CACHE_CLUSTER)
    item.u.cluster = keep_cluster (object, &item.shape);
  else if (kind == CACHE_POD && (item.u.pod = ray_pod_digest (object)) != NULL)
    cluster = item.u.pod->cluster;
  else if (kind == CACHE_SERVICE && (item.u.service = ray_service_digest (object)) != NULL)
    cluster = item.u.service->cluster;
  else if (kind == CACHE_CHILD && (item.u.child = ray_child_digest (source->child, object)) != NULL)
    cluster = item.u.child->cluster;
  if (item.u.any == NULL)
    return NULL;
  *group_key = xasprintf ("%s/%s", namespace, cluster);
  copy = xmalloc (sizeof (*copy));
  *copy = item;
  copy->key = cache_item_key (source, object);
  return copy;
}

void
cache_item_unref (struct cache_item *item)
{
  if (--item->refs > 0)
    return;
  free (item->u.any);
  free (item->key);
  free (item);
}
