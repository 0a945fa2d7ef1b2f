/* One group, the head included: names, counts, logical resources and labels, and whether a TPU group fits its slice. */
#include "ray/ray_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define LABEL_VALUE_MAX 63

/* Within one group: what every check needs. */
struct group_check
{
  struct ray_problems *problems;
  const struct ray_cluster *cluster;
  const struct ray_group *group;
  const char *path;
};

#define GROUP_PROBLEM(c, member, ...)                                                                                  \
  ray_problem ((c)->problems, RAY_REASON_SPEC, ray_path ("%s.%s", (c)->path, (member)).text, __VA_ARGS__)

/* ---- types ---- */

static const struct ray_field common_fields[] = {
  { "rayStartParams", RAY_KIND_STRING_MAP },
  { "resources", RAY_KIND_STRING_MAP },
  { "labels", RAY_KIND_STRING_MAP },
  { "template", RAY_KIND_OBJECT },
};

static const struct ray_field head_fields[] = {
  { "serviceType", RAY_KIND_STRING },
  { "headService", RAY_KIND_OBJECT },
  { "enableIngress", RAY_KIND_BOOL },
  { "ingressOptions", RAY_KIND_OBJECT },
};

static const struct ray_field worker_fields[] = {
  { "groupName", RAY_KIND_STRING },     { "replicas", RAY_KIND_WHOLE },   { "minReplicas", RAY_KIND_WHOLE },
  { "maxReplicas", RAY_KIND_WHOLE },    { "numOfHosts", RAY_KIND_WHOLE }, { "suspend", RAY_KIND_BOOL },
  { "scaleStrategy", RAY_KIND_OBJECT },
};

static void
check_types (const struct group_check *c)
{
  static const struct ray_field scale_fields[] = { { "workersToDelete", RAY_KIND_NAMES } };

  ray_check_kinds (c->problems, c->group->spec, c->path, common_fields, ARRAY_LEN (common_fields));
  if (c->group->is_head)
    ray_check_kinds (c->problems, c->group->spec, c->path, head_fields, ARRAY_LEN (head_fields));
  else
    ray_check_kinds (c->problems, c->group->spec, c->path, worker_fields, ARRAY_LEN (worker_fields));
  ray_check_kinds (c->problems, json_get (c->group->spec, "scaleStrategy"), ray_path ("%s.scaleStrategy", c->path).text,
                   scale_fields, ARRAY_LEN (scale_fields));
}

/* ---- counts ---- */

static void
check_counts (const struct group_check *c)
{
  /* numOfHosts 0 is what Go clients send for "not set" (§1.2). */
  static const char *const counts[] = { "replicas", "minReplicas", "maxReplicas", "numOfHosts" };
  const struct ray_group *g = c->group;

  for (size_t i = 0; i < ARRAY_LEN (counts); i++)
    {
      int64_t n = json_int (g->spec, 0, counts[i]);

      if (n < 0)
        GROUP_PROBLEM (c, counts[i], "%s is %" PRId64 ": it must be 0 or more", counts[i], n);
    }
  if (g->min > g->max)
    GROUP_PROBLEM (c, "minReplicas",
                   "minReplicas is %" PRId64 ", but maxReplicas is %" PRId64 ": raise maxReplicas or lower minReplicas",
                   g->min, g->max);
  if (g->hosts > RAY_SLICE_HOSTS_MAX)
    GROUP_PROBLEM (c, "numOfHosts", "numOfHosts is %" PRId64 ": one replica has at most %d hosts; lower it", g->hosts,
                   RAY_SLICE_HOSTS_MAX);
  else if (g->replicas * g->hosts > RAY_GROUP_PODS_MAX)
    GROUP_PROBLEM (c, "replicas",
                   "%" PRId64 " replicas of %" PRId64 " hosts are more than the %d pods a group may have: lower one",
                   g->replicas, g->hosts, RAY_GROUP_PODS_MAX);
}

/* ---- the name ---- */

static int
digits (int64_t n)
{
  return snprintf (NULL, 0, "%" PRId64, n);
}

/* The longest name of a multi-host group whose hosts `<group>-<replica>-<host>` and whose label value
 * `<group>-<suffix>` fit into 63 characters. The replicas counted are the most the group may get, unless maxReplicas
 * was left at its default, and as many again: an index is not reused while a pod that carries it still exists. */
static int
longest_name (const struct ray_group *g)
{
  int64_t replicas = g->max < INT32_MAX && g->max > g->replicas ? g->max : g->replicas;
  int hostname = digits (2 * replicas) + digits (g->hosts - 1) + 2;

  return LABEL_VALUE_MAX - (hostname > RAY_SUFFIX_SIZE ? hostname : RAY_SUFFIX_SIZE);
}

static void
check_group_name (const struct group_check *c)
{
  const char *name = c->group->name;
  int max = longest_name (c->group);

  if (c->group->is_head)
    return;
  if (*name == '\0')
    GROUP_PROBLEM (c, "groupName", "is missing: give the group a name");
  else if (text_eq (name, RAY_HEAD_GROUP))
    GROUP_PROBLEM (c, "groupName", "\"%s\" means the head in labels: choose another name", name);
  else if (!text_is_dns1123_label (name))
    GROUP_PROBLEM (
        c, "groupName",
        "\"%.100s\" is no DNS label: use lower-case letters, digits and '-', at most 63, starting and ending "
        "with a letter or digit",
        name);
  else if (c->group->hosts > 1 && (int) strlen (name) > max)
    GROUP_PROBLEM (c, "groupName",
                   "\"%s\" has %zu characters, but host names and labels made from it fit into 63 only up to %d: "
                   "shorten it",
                   name, strlen (name), max);
}

/* ---- resources, labels, start parameters ---- */

static void
check_resources (const struct group_check *c)
{
  static const char *const exclusive[] = { "num-cpus", "num-gpus", "memory", "resources" };
  const cJSON *resources = json_get (c->group->spec, "resources"), *item;
  struct error err = { 0 };
  struct quantity q;

  if (cJSON_IsObject (resources) && resources->child != NULL)
    {
      for (size_t i = 0; i < ARRAY_LEN (exclusive); i++)
        if (json_get (c->group->params, exclusive[i]) != NULL)
          GROUP_PROBLEM (c, "resources", "cannot stand beside rayStartParams.%s: say it in one place only",
                         exclusive[i]);
      cJSON_ArrayForEach (item, resources)
        if (cJSON_IsString (item) && ray_quantity (&q, item, &err) < 0)
          GROUP_PROBLEM (c, "resources", "%.100s: %s", item->string, err.message);
    }
  if (json_get (c->group->params, "labels") != NULL)
    GROUP_PROBLEM (c, "rayStartParams.labels", "is not allowed: use the group's `labels` field");
  if (json_get (c->group->params, "redis-username") != NULL)
    GROUP_PROBLEM (c, "rayStartParams.redis-username",
                   "is not allowed: use spec.gcsFaultToleranceOptions.redisUsername");
}

static void
check_labels (const struct group_check *c)
{
  const cJSON *labels = json_get (c->group->spec, "labels"), *label;

  if (!cJSON_IsObject (labels))
    return;
  cJSON_ArrayForEach (label, labels)
    {
      const char *value = cJSON_GetStringValue (label);

      if (!text_is_label_key (label->string))
        GROUP_PROBLEM (
            c, "labels",
            "\"%.100s\" is no label key: letters, digits, '-', '_' and '.', at most 63, with an optional DNS "
            "name and '/' in front",
            label->string);
      else if (value != NULL && !text_is_label_value (value))
        GROUP_PROBLEM (c, "labels",
                       "%s is \"%.100s\", which is no label value: letters, digits, '-', '_' and '.', at most 63",
                       label->string, value);
    }
}

/* Redis variables belong to GCS fault tolerance and are set by the operator (§1.6). */
static void
check_redis_env (const struct group_check *c)
{
  const cJSON *ray = cJSON_GetArrayItem (json_get (c->group->template, "spec", "containers"), 0);
  const cJSON *spec = json_get (c->cluster->object, "spec");
  const char *legacy = json_str (c->cluster->object, "metadata", "annotations", "ray.io/ft-enabled");
  bool ft = json_get (spec, "gcsFaultToleranceOptions") != NULL || (legacy != NULL && *legacy != '\0');

  if (ray_env_has (ray, "REDIS_USERNAME"))
    GROUP_PROBLEM (c, "template.spec.containers[0].env",
                   "REDIS_USERNAME is not allowed: use spec.gcsFaultToleranceOptions.redisUsername");
  if (c->group->is_head && !ft && ray_env_has (ray, "RAY_REDIS_ADDRESS"))
    GROUP_PROBLEM (
        c, "template.spec.containers[0].env",
        "RAY_REDIS_ADDRESS is set without GCS fault tolerance: use spec.gcsFaultToleranceOptions.redisAddress");
}

/* ---- the head Service ---- */

static void
check_head_service (const struct group_check *c)
{
  static const char *const types[] = { "", "ClusterIP", "NodePort", "LoadBalancer", "ExternalName" };
  static const struct ray_field fields[] = { { "metadata", RAY_KIND_OBJECT }, { "spec", RAY_KIND_OBJECT } };
  static const struct ray_field meta_fields[]
      = { { "name", RAY_KIND_STRING }, { "labels", RAY_KIND_STRING_MAP }, { "annotations", RAY_KIND_STRING_MAP } };
  static const struct ray_field spec_fields[] = { { "ports", RAY_KIND_OBJECTS }, { "type", RAY_KIND_STRING } };
  const cJSON *service = json_get (c->group->spec, "headService");
  const char *type = json_str (c->group->spec, "serviceType"), *name = json_str (service, "metadata", "name");

  if (type != NULL && text_index (type, types, ARRAY_LEN (types)) < 0)
    GROUP_PROBLEM (c, "serviceType", "\"%.100s\" is no Service type: use ClusterIP, NodePort or LoadBalancer", type);
  ray_check_kinds (c->problems, service, ray_path ("%s.headService", c->path).text, fields, ARRAY_LEN (fields));
  ray_check_kinds (c->problems, json_get (service, "metadata"), ray_path ("%s.headService.metadata", c->path).text,
                   meta_fields, ARRAY_LEN (meta_fields));
  ray_check_kinds (c->problems, json_get (service, "spec"), ray_path ("%s.headService.spec", c->path).text, spec_fields,
                   ARRAY_LEN (spec_fields));
  if (name != NULL && *name != '\0' && !text_is_dns1035_label (name))
    GROUP_PROBLEM (c, "headService.metadata.name",
                   "\"%.100s\" is no Service name: lower-case letters, digits and '-', at most 63, starting with a "
                   "letter",
                   name);
}

/* ---- TPUs ---- */

void
ray_slice_text (char out[RAY_SLICE_TEXT_SIZE], const struct tpu_request *r)
{
  snprintf (out, RAY_SLICE_TEXT_SIZE, "a %.64s%s%s topology with %" PRId64 " chip%s per host has %" PRId64 " host%s",
            r->topology_text, r->accelerator != NULL ? " " : "",
            r->accelerator != NULL ? r->accelerator->generation : "", r->chips, r->chips == 1 ? "" : "s", r->hosts,
            r->hosts == 1 ? "" : "s");
}

/* Hosts of multi-host slices have 4 chips in every generation, also where a machine of 8 exists (§4.2 of
 * facts/tpu_injection.md): pods that ask for more are never scheduled. */
static bool
exceeds_its_host (const struct tpu_request *r)
{
  return r->accelerator != NULL && r->hosts > 1 && r->chips > TPU_SLICE_VM_CHIPS
         && tpu_topology_chips (&r->topology) % TPU_SLICE_VM_CHIPS == 0;
}

static void
wrong_chips (const struct group_check *c, const struct tpu_request *r)
{
  GROUP_PROBLEM (c, "template.spec",
                 "a pod asks for %" PRId64 " chips, but the hosts of a multi-host %.64s %s slice have %d: ask for "
                 "google.com/tpu: %d and set numOfHosts to %" PRId64,
                 r->chips, r->topology_text, r->accelerator->generation, TPU_SLICE_VM_CHIPS, TPU_SLICE_VM_CHIPS,
                 tpu_topology_chips (&r->topology) / TPU_SLICE_VM_CHIPS);
}

static void
check_hosts (const struct group_check *c, const struct tpu_request *r)
{
  char slice[RAY_SLICE_TEXT_SIZE], text[TPU_TOPOLOGY_SIZE];
  struct tpu_topology instead;

  ray_slice_text (slice, r);
  if (c->group->is_head)
    {
      if (r->hosts > 1)
        GROUP_PROBLEM (c, "template.spec", "the head is one pod, but %s: use a worker group for it", slice);
      return;
    }
  if (r->hosts == c->group->hosts)
    return;
  if (!tpu_request_offered (r, &instead))
    {
      tpu_topology_print (text, &instead);
      GROUP_PROBLEM (c, "template.spec", "there is no %s slice of topology %.64s: did you mean %s?",
                     r->accelerator->generation, r->topology_text, text);
      return;
    }
  GROUP_PROBLEM (c, "numOfHosts", "numOfHosts is %" PRId64 "%s, but %s: set numOfHosts to %" PRId64,
                 json_int (c->group->spec, 1, "numOfHosts"),
                 json_get (c->group->spec, "numOfHosts") == NULL ? " (its default)" : "", slice, r->hosts);
}

/* What tells one host of a slice from the others is written to each Pod: a template that has it, copied from a Pod,
 * makes all of them the same host where its writer leaves it alone. */
static void
check_places (const struct group_check *c)
{
  static const char *const labels[] = { RAY_LABEL_REPLICA_INDEX, RAY_LABEL_HOST_INDEX, RAY_LABEL_REPLICA_NAME };
  static const char *const annotations[]
      = { TPU_ANNOTATION_REPLICA_INDEX, TPU_ANNOTATION_HOST_INDEX, TPU_ANNOTATION_RESERVED_UNTIL };
  const struct
  {
    const char *path;
    const cJSON *map;
    const char *const *keys;
  } maps[] = {
    { "labels", json_get (c->group->spec, "labels"), labels },
    { "template.metadata.labels", json_get (c->group->template, "metadata", "labels"), labels },
    { "template.metadata.annotations", json_get (c->group->template, "metadata", "annotations"), annotations },
  };

  for (size_t m = 0; m < ARRAY_LEN (maps); m++)
    for (size_t i = 0; i < ARRAY_LEN (labels); i++)
      if (json_get (maps[m].map, maps[m].keys[i]) != NULL)
        GROUP_PROBLEM (c, ray_path ("%s[\"%s\"]", maps[m].path, maps[m].keys[i]).text,
                       "is what tells the hosts of a slice apart, and is written to each Pod: remove it");
}

/* Which field a refused request is about: the topology when that alone does not parse, else the template. */
static struct ray_path
request_path (const struct group_check *c, const struct ray_options *options)
{
  const char *const *labels = options->tpu.topology_labels;
  struct tpu_topology topology;

  for (size_t i = 0; i < TPU_LABELS_MAX && labels[i] != NULL; i++)
    {
      const char *text = json_str (c->group->template, "spec", "nodeSelector", labels[i]);

      if (text != NULL && tpu_topology_parse (&topology, text, NULL) < 0)
        return ray_path ("%s.template.spec.nodeSelector[\"%s\"]", c->path, labels[i]);
    }
  return ray_path ("%s.template.spec", c->path);
}

static void
check_tpu (const struct group_check *c, const struct ray_options *options)
{
  struct error err = { 0 };
  struct tpu_request r;

  if (tpu_request_read (&r, c->group->template, &options->tpu, &err) < 0)
    {
      ray_problem (c->problems, RAY_REASON_SPEC, request_path (c, options).text, "%s", err.message);
      return;
    }
  if (r.chips > 0 && c->group->hosts > 1)
    check_places (c);
  if (exceeds_its_host (&r) && !c->group->is_head)
    wrong_chips (c, &r);
  else if (r.chips > 0 && r.hosts > 0)
    check_hosts (c, &r);
  else if (r.chips > 0 && c->group->hosts > 1)
    GROUP_PROBLEM (c, "template.spec.nodeSelector",
                   "%s is missing: without it the workers of this %" PRId64
                   "-host TPU group cannot know their slice; set it to the node pool's topology",
                   options->tpu.topology_labels[0], c->group->hosts);
}

void
ray_validate_group (struct ray_problems *problems, const struct ray_cluster *cluster, const struct ray_group *group,
                    const char *path, const struct ray_options *options)
{
  const struct group_check c = { problems, cluster, group, path };
  struct ray_path template = ray_path ("%s.template", path);

  check_types (&c);
  check_group_name (&c);
  if (!group->is_head)
    check_counts (&c);
  check_resources (&c);
  check_labels (&c);
  if (group->is_head)
    check_head_service (&c);
  ray_validate_template (problems, group->template, template.text);
  check_redis_env (&c);
  check_tpu (&c, options);
}
