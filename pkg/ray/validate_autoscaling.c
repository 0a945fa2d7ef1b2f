/* Rules around the in-tree autoscaler (§1.6). */
#include "ray/ray_internal.h"

#include <inttypes.h>

#define ENV_V2 "RAY_enable_autoscaler_v2"

static const cJSON *
ray_container (const struct ray_group *group)
{
  return cJSON_GetArrayItem (json_get (group->template, "spec", "containers"), 0);
}

/* The head's environment switches v2 on ("1" or "true"). */
static bool
env_says_v2 (const struct ray_cluster *cluster)
{
  const char *value = json_str (json_find (json_get (ray_container (&cluster->head), "env"), "name", ENV_V2), "value");

  return text_eq (value, "1") || text_eq (value, "true");
}

static void
check_version (struct ray_problems *problems, const struct ray_cluster *cluster, const cJSON *given)
{
  static const char *const versions[] = { "v1", "v2" };
  const char *version = json_str (given, "version");

  if (!cluster->autoscaling && env_says_v2 (cluster))
    ray_problem (problems, RAY_REASON_SPEC, "spec.headGroupSpec.template.spec.containers[0].env",
                 ENV_V2 " is on, but autoscaling is off: set spec.enableInTreeAutoscaling or remove the variable");
  if (version == NULL)
    return;
  if (text_index (version, versions, ARRAY_LEN (versions)) < 0)
    ray_problem (problems, RAY_REASON_SPEC, "spec.autoscalerOptions.version", "\"%.100s\" is unknown: use v1 or v2",
                 version);
  if (ray_env_has (ray_container (&cluster->head), ENV_V2))
    ray_problem (problems, RAY_REASON_SPEC, "spec.autoscalerOptions.version",
                 "cannot stand beside the head's variable " ENV_V2 ": remove the variable");
}

/* v2 replaces pods itself; a kubelet that restarts them behind its back breaks its bookkeeping. */
static void
check_restart_policy (struct ray_problems *problems, const struct ray_group *group, const char *path)
{
  const char *policy = json_str (group->template, "spec", "restartPolicy");

  if (policy != NULL && *policy != '\0' && !text_eq (policy, "Never"))
    ray_problem (problems, RAY_REASON_SPEC, ray_path ("%s.template.spec.restartPolicy", path).text,
                 "is %.100s, but autoscaler v2 needs Never: leave it out", policy);
}

static void
check_options (struct ray_problems *problems, const cJSON *given)
{
  static const struct ray_field fields[] = {
    { "image", RAY_KIND_STRING },
    { "imagePullPolicy", RAY_KIND_STRING },
    { "securityContext", RAY_KIND_OBJECT },
    { "resources", RAY_KIND_OBJECT },
    { "env", RAY_KIND_OBJECTS },
    { "envFrom", RAY_KIND_OBJECTS },
    { "volumeMounts", RAY_KIND_OBJECTS },
    { "command", RAY_KIND_STRINGS },
    { "args", RAY_KIND_STRINGS },
    { "version", RAY_KIND_STRING },
    { "idleTimeoutSeconds", RAY_KIND_WHOLE },
  };
  int64_t idle = json_int (given, 0, "idleTimeoutSeconds");

  ray_check_kinds (problems, given, "spec.autoscalerOptions", fields, ARRAY_LEN (fields));
  if (idle < 0)
    ray_problem (problems, RAY_REASON_SPEC, "spec.autoscalerOptions.idleTimeoutSeconds",
                 "is %" PRId64 ": it must be 0 or more", idle);
  if (ray_env_has (given, "KUBERAY_GEN_AUTOSCALER_START_CMD"))
    ray_problem (problems, RAY_REASON_SPEC, "spec.autoscalerOptions.env",
                 "KUBERAY_GEN_AUTOSCALER_START_CMD is set by the operator: remove it");
}

static void
check_group_autoscaling (struct ray_problems *problems, const struct ray_cluster *cluster,
                         const struct ray_group *group, const char *path)
{
  const cJSON *idle = json_get (group->spec, "idleTimeoutSeconds");
  bool v2 = ray_autoscaler_v2 (cluster) || (cluster->autoscaling && env_says_v2 (cluster));

  if (group->suspend && cluster->autoscaling)
    ray_problem (problems, RAY_REASON_SPEC, ray_path ("%s.suspend", path).text,
                 "a group cannot be suspended while spec.enableInTreeAutoscaling is on: turn one of them off");
  if (idle != NULL && !cJSON_IsNull (idle) && !v2)
    ray_problem (problems, RAY_REASON_SPEC, ray_path ("%s.idleTimeoutSeconds", path).text,
                 "only autoscaler v2 knows it: set spec.autoscalerOptions.version to v2");
  if (json_int (group->spec, 0, "idleTimeoutSeconds") < 0)
    ray_problem (problems, RAY_REASON_SPEC, ray_path ("%s.idleTimeoutSeconds", path).text, "must be 0 or more");
  if (json_int (group->spec, 0, "priority") != 0 && (!v2 || !ray_version_at_least (cluster, 2, 56)))
    ray_problem (problems, RAY_REASON_SPEC, ray_path ("%s.priority", path).text,
                 "needs autoscaler v2 and spec.rayVersion 2.56 or newer");
  if (ray_autoscaler_v2 (cluster))
    check_restart_policy (problems, group, path);
}

void
ray_validate_autoscaling (struct ray_problems *problems, const struct ray_cluster *cluster)
{
  const cJSON *given = json_get (cluster->object, "spec", "autoscalerOptions");

  check_options (problems, given);
  check_version (problems, cluster, given);
  if (ray_autoscaler_v2 (cluster))
    check_restart_policy (problems, &cluster->head, "spec.headGroupSpec");
  for (size_t i = 0; i < cluster->ngroups; i++)
    check_group_autoscaling (problems, cluster, &cluster->groups[i], ray_path ("spec.workerGroupSpecs[%zu]", i).text);
}
