/* expand_set.c - LeaderWorkerSet, StatefulSet, Deployment (facts/tpu_injection.md §1.3, §2.6). */
#include "workload/workload_internal.h"

#include <errno.h>
#include <inttypes.h>

#define LWS "leaderworkerset.sigs.k8s.io/"

/* As the StatefulSet controller marks its pods. */
static cJSON *
ordinal_pod (struct expansion *x, const cJSON *template, const char *set, int64_t ordinal)
{
  cleanup_free char *name = xasprintf ("%s-%" PRId64, set, ordinal), *number = xasprintf ("%" PRId64, ordinal);
  cJSON *pod = workload_pod (x, template, name, "StatefulSet", set);

  if (pod == NULL)
    return NULL;
  workload_label (pod, "statefulset.kubernetes.io/pod-name", name);
  workload_label (pod, "apps.kubernetes.io/pod-index", number);
  json_set_str (json_get (pod, "spec"), "hostname", name);
  return pod;
}

int
workload_expand_statefulset (struct expansion *x, const cJSON *set)
{
  int64_t replicas = json_int (set, 1, "spec", "replicas"), start = json_int (set, 0, "spec", "ordinals", "start");

  for (int64_t i = 0; i < replicas; i++)
    {
      cJSON *pod = ordinal_pod (x, json_get (set, "spec", "template"), workload_name (set), start + i);

      if (pod == NULL)
        return -EINVAL;
      json_set_str (json_get (pod, "spec"), "subdomain", json_str (set, "spec", "serviceName"));
    }
  return 0;
}

int
workload_expand_deployment (struct expansion *x, const cJSON *deployment)
{
  int64_t replicas = json_int (deployment, 1, "spec", "replicas");
  cleanup_free char *prefix = xasprintf ("%s-", workload_name (deployment));

  for (int64_t i = 0; i < replicas; i++)
    if (workload_pod (x, json_get (deployment, "spec", "template"), prefix, "ReplicaSet", workload_name (deployment))
        == NULL)
      return -EINVAL;
  return 0;
}

/* ---- LeaderWorkerSet ---- */

struct group
{
  const char *set;
  const cJSON *leader_template, *worker_template, *spec;
  const char *subdomain_policy;
  bool leader_tpus;
  int64_t replicas, size;
};

struct group_env
{
  const char *address, *size, *index;
};

/* In front of the user's, who may refer to them; each that is not there yet (§1.1 rule 11). */
static void
add_group_env (cJSON *container, const void *data)
{
  const struct group_env *g = data;
  const char *const entries[][2]
      = { { "LWS_LEADER_ADDRESS", g->address }, { "LWS_GROUP_SIZE", g->size }, { "LWS_WORKER_INDEX", g->index } };
  const cJSON *own = json_get (container, "env"), *entry;
  cJSON *env;

  if (own != NULL && !cJSON_IsArray (own))
    return;
  env = cJSON_CreateArray ();
  for (size_t i = 0; i < ARRAY_LEN (entries); i++)
    if (json_find (own, "name", entries[i][0]) == NULL)
      {
        cJSON *made = json_push_obj (env);

        json_set_str (made, "name", entries[i][0]);
        json_set_str (made, "value", entries[i][1]);
      }
  cJSON_ArrayForEach (entry, own)
    json_push (env, cJSON_Duplicate (entry, true));
  json_set (container, "env", env);
}

static void
annotate_group (cJSON *pod, const struct group *g, int64_t worker)
{
  cleanup_free char *size = xasprintf ("%" PRId64, g->size), *replicas = xasprintf ("%" PRId64, g->replicas);
  int64_t subgroup = json_int (g->spec, 0, "leaderWorkerTemplate", "subGroupPolicy", "subGroupSize");
  cleanup_free char *subgroup_text = subgroup > 0 ? xasprintf ("%" PRId64, subgroup) : NULL;

  workload_annotate (pod, LWS "size", size);
  workload_annotate (pod, LWS "subgroup-size", subgroup_text);
  workload_annotate (pod, LWS "subgroup-policy-type",
                     json_str (g->spec, "leaderWorkerTemplate", "subGroupPolicy", "subGroupPolicyType"));
  workload_annotate (pod, LWS "subdomainPolicy", g->subdomain_policy);
  if (worker == 0)
    workload_annotate (pod, LWS "replicas", replicas);
  else if (g->leader_tpus)
    workload_annotate (pod, LWS "leader-requests-tpus", "true");
}

/* With what the set's own webhook writes, but for the TPU environment. */
static int
add_member (struct expansion *x, const struct group *g, int64_t group, int64_t worker)
{
  cleanup_free char *leader = xasprintf ("%s-%" PRId64, g->set, group);
  cleanup_free char *group_text = xasprintf ("%" PRId64, group), *index = xasprintf ("%" PRId64, worker);
  cleanup_free char *size = xasprintf ("%" PRId64, g->size), *address = NULL;
  const char *subdomain = text_eq (g->subdomain_policy, "UniquePerReplica") ? leader : g->set;
  const char *namespace = json_str (x->object, "metadata", "namespace");
  cJSON *pod = worker == 0 ? ordinal_pod (x, g->leader_template, g->set, group)
                           : ordinal_pod (x, g->worker_template, leader, worker);

  if (pod == NULL)
    return -EINVAL;
  workload_label (pod, LWS "name", g->set);
  workload_label (pod, LWS "group-index", group_text);
  workload_label (pod, LWS "worker-index", index);
  annotate_group (pod, g, worker);
  if (worker > 0)
    workload_annotate (pod, LWS "leader-name", leader);
  json_set_str (json_get (pod, "spec"), "subdomain", subdomain);
  address = xasprintf ("%s.%s.%s", leader, subdomain, namespace ? namespace : "default");
  workload_each_container (pod, add_group_env, &(struct group_env){ address, size, index });
  return 0;
}

static bool
requests_tpus (const cJSON *template)
{
  struct tpu_request r;

  return tpu_request_read (&r, template, NULL, NULL) < 0 || r.chips > 0;
}

int
workload_expand_lws (struct expansion *x, const cJSON *set)
{
  const cJSON *spec = json_get (set, "spec"), *template = json_get (spec, "leaderWorkerTemplate");
  const cJSON *leader = json_get (template, "leaderTemplate"), *worker = json_get (template, "workerTemplate");
  struct group g = { .set = workload_name (set),
                     .leader_template = cJSON_IsObject (leader) ? leader : worker,
                     .worker_template = worker,
                     .spec = spec,
                     .subdomain_policy = json_str (spec, "networkConfig", "subdomainPolicy"),
                     .replicas = json_int (spec, 1, "replicas"),
                     .size = json_int (template, 1, "size") };

  g.leader_tpus = requests_tpus (g.leader_template);
  for (int64_t group = 0; group < g.replicas; group++)
    for (int64_t i = 0; i < g.size; i++)
      if (add_member (x, &g, group, i) < 0)
        return -EINVAL;
  return 0;
}
