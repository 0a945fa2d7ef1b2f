#include "ray/ray_internal.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* Upstream's limits (§0.2): pod prefixes keep the head of a long text, CheckName and CheckLabel its tail. */
#define POD_PREFIX_MAX 50
#define CHECK_NAME_MAX 50
#define CHECK_LABEL_MAX 63

static const char *
tail (const char *text, size_t max)
{
  size_t len = strlen (text);

  return len > max ? text + len - max : text;
}

void
ray_pod_name_prefix (char out[RAY_NAME_SIZE], const struct ray_cluster *cluster, const struct ray_group *group)
{
  char full[2 * RAY_NAME_SIZE];

  if (group->is_head)
    snprintf (full, sizeof (full), "%.*s", RAY_NAME_SIZE - 1, cluster->name);
  else
    snprintf (full, sizeof (full), "%.*s-%.*s", RAY_NAME_SIZE - 1, cluster->name, RAY_NAME_SIZE - 1, group->name);
  snprintf (out, RAY_NAME_SIZE, "%.*s-%s-", POD_PREFIX_MAX, full, group->is_head ? "head" : "worker");
  for (char *p = out; *p != '\0'; p++)
    *p = (char) tolower ((unsigned char) *p);
}

void
ray_check_name (char out[RAY_NAME_SIZE], const char *text)
{
  snprintf (out, RAY_NAME_SIZE, "%s", tail (text, CHECK_NAME_MAX));
  if (isdigit ((unsigned char) out[0]) || ispunct ((unsigned char) out[0]))
    out[0] = 'r';
}

void
ray_check_label (char out[RAY_NAME_SIZE], const char *text)
{
  snprintf (out, RAY_NAME_SIZE, "%s", tail (text, CHECK_LABEL_MAX));
  if (ispunct ((unsigned char) out[0]))
    out[0] = 'r';
}

void
ray_head_service_name (char out[RAY_NAME_SIZE], const struct ray_cluster *cluster)
{
  const char *custom = json_str (cluster->head.spec, "headService", "metadata", "name");

  if (custom != NULL && *custom != '\0')
    snprintf (out, RAY_NAME_SIZE, "%.*s", RAY_NAME_SIZE - 1, custom);
  else
    snprintf (out, RAY_NAME_SIZE, "%.*s-head-svc", RAY_NAME_SIZE - 10, cluster->name);
}

void
ray_headless_service_name (char out[RAY_NAME_SIZE], const struct ray_cluster *cluster)
{
  snprintf (out, RAY_NAME_SIZE, "%.*s-headless", RAY_NAME_SIZE - 10, cluster->name);
}

void
ray_suffix (char out[RAY_SUFFIX_SIZE], uint64_t hash)
{
  static const char alphabet[] = "bcdfghjklmnpqrstvwxz2456789"; /* no vowels: no words (§0.2) */
  const size_t letters = sizeof (alphabet) - 1;

  for (int i = 0; i < RAY_SUFFIX_SIZE - 1; i++, hash /= letters)
    out[i] = alphabet[hash % letters];
  out[RAY_SUFFIX_SIZE - 1] = '\0';
}

void
ray_head_fqdn (char out[RAY_NAME_SIZE * 2], const struct ray_cluster *cluster, const struct ray_options *options)
{
  char service[RAY_NAME_SIZE];

  ray_head_service_name (service, cluster);
  snprintf (out, RAY_NAME_SIZE * 2, "%s.%.63s.svc.%.180s", service, cluster->namespace, options->cluster_domain);
}
