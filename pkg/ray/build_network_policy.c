/* NetworkPolicies (§2.10): one per group. All pods of the cluster may talk to each other; everything else is denied in
 * the directions that the mode names, but for the user's rules and two that upstream lacks and without which a cluster
 * does not work: DNS, by which workers find the head and slices their hosts, and the operator. */
#include "ray/children.h"

#include <string.h>

#include "ray/ray_internal.h"

#define PORT_DNS 53

enum direction
{
  INGRESS,
  EGRESS,
  DIRECTIONS
};

static const struct
{
  const char *type, *list, *peers, *user_rules, *not_in_mode;
} directions[DIRECTIONS] = {
  [INGRESS] = { "Ingress", "ingress", "from", "ingressRules", "DenyAllEgress" },
  [EGRESS] = { "Egress", "egress", "to", "egressRules", "DenyAllIngress" },
};

static void
add_port (cJSON *rule, const char *protocol, int64_t number)
{
  cJSON *port = json_push_obj (json_arr (rule, "ports"));

  json_set_str (port, "protocol", protocol);
  json_set_int (port, "port", number);
}

static void
allow_cluster (cJSON *rules, enum direction d, const struct ray_cluster *cluster)
{
  cJSON *peer = json_push_obj (json_arr (json_push_obj (rules), directions[d].peers));

  json_set_str (json_obj (json_obj (peer, "podSelector"), "matchLabels"), RAY_LABEL_CLUSTER, cluster->name);
}

/* To anybody on port 53: cluster DNS runs under other labels everywhere, and node-local caches on the host's network.
 */
static void
allow_dns (cJSON *rules)
{
  cJSON *rule = json_push_obj (rules);

  add_port (rule, "UDP", PORT_DNS);
  add_port (rule, "TCP", PORT_DNS);
}

/* The operator may ask the head's dashboard, from whatever namespace it runs in. */
static void
allow_operator (cJSON *rules, const struct ray_cluster *cluster)
{
  cJSON *rule = json_push_obj (rules), *peer = json_push_obj (json_arr (rule, "from"));

  json_obj (peer, "namespaceSelector");
  json_set_str (json_obj (json_obj (peer, "podSelector"), "matchLabels"), LABEL_APP_NAME, "ray-tpu-operator");
  add_port (rule, "TCP", ray_param_port (cluster->head.params, "dashboard-port", RAY_PORT_DASHBOARD));
}

/* The Job that submits a RayJob's entrypoint to the dashboard. */
static void
allow_submitter (cJSON *rules, const struct ray_cluster *cluster)
{
  const char *mode = json_str (cluster->object, "metadata", "labels", "ray.io/job-submission-mode");
  const char *job = json_str (cluster->object, "metadata", "labels", "ray.io/originated-from-cr-name");
  cJSON *rule, *labels;

  if (!text_eq (cluster->origin_crd, "RayJob") || !text_eq (mode, "K8sJobMode") || job == NULL)
    return;
  rule = json_push_obj (rules);
  labels = json_obj (json_obj (json_push_obj (json_arr (rule, "from")), "podSelector"), "matchLabels");
  json_set_str (labels, "batch.kubernetes.io/job-name", job);
  add_port (rule, "TCP", ray_param_port (cluster->head.params, "dashboard-port", RAY_PORT_DASHBOARD));
}

/* A group's own entry takes the place of the rules for all workers. */
static const cJSON *
user_rules (const struct ray_cluster *cluster, const struct ray_group *group, enum direction d)
{
  const cJSON *policy = json_get (cluster->object, "spec", "networkPolicy"), *own;

  if (group->is_head)
    return json_get (policy, "head", directions[d].user_rules);
  own = json_find (json_get (policy, "workerGroups"), "groupName", group->name);
  return json_get (own != NULL ? own : json_get (policy, "worker"), directions[d].user_rules);
}

/* With the protocol spelled out, as the API server stores it: what we wish and what is then look the same. */
static void
append_user_rules (cJSON *rules, const cJSON *given)
{
  const cJSON *item;
  cJSON *port;

  cJSON_ArrayForEach (item, given)
    {
      cJSON *rule = json_push (rules, cJSON_Duplicate (item, true));

      cJSON_ArrayForEach (port, json_get (rule, "ports"))
        if (json_str (port, "protocol") == NULL)
          json_set_str (port, "protocol", "TCP");
    }
}

static void
add_direction (cJSON *spec, enum direction d, const struct ray_cluster *cluster, const struct ray_group *group)
{
  const char *mode = json_str (cluster->object, "spec", "networkPolicy", "mode");
  cJSON *rules;

  if (text_eq (mode, directions[d].not_in_mode))
    return;
  json_push_str (json_arr (spec, "policyTypes"), directions[d].type);
  rules = json_arr (spec, directions[d].list);
  allow_cluster (rules, d, cluster);
  if (d == EGRESS)
    allow_dns (rules);
  if (d == INGRESS && group->is_head)
    {
      allow_operator (rules, cluster);
      allow_submitter (rules, cluster);
    }
  append_user_rules (rules, user_rules (cluster, group, d));
}

cJSON *
ray_build_network_policy (const struct ray_cluster *cluster, const struct ray_group *group,
                          const struct ray_options *options)
{
  cleanup_free char *name
      = group->is_head ? xasprintf ("%s-head", cluster->name) : xasprintf ("%s-workers-%s", cluster->name, group->name);
  cJSON *policy = ray_new_object (cluster, RAY_CHILD_NETWORK_POLICY, name), *spec, *selector;

  (void) options;
  json_set_str (ray_add_common_labels (policy, cluster), RAY_LABEL_GROUP, group->name);
  spec = json_obj (policy, "spec");
  selector = json_obj (json_obj (spec, "podSelector"), "matchLabels");
  json_set_str (selector, RAY_LABEL_CLUSTER, cluster->name);
  json_set_str (selector, RAY_LABEL_NODE_TYPE, group->is_head ? "head" : "worker");
  if (!group->is_head)
    json_set_str (selector, RAY_LABEL_GROUP, group->name);
  for (enum direction d = INGRESS; d < DIRECTIONS; d++)
    add_direction (spec, d, cluster, group);
  ray_drop_nulls (policy);
  ray_set_owner (policy, cluster);
  return policy;
}
