/* What runs, but perhaps not as its author means it: features that this version does not have yet, templates that
 * cannot fit all hosts of a slice, and what injection says about the pods. */
#include "ray/plan.h"
#include "ray/ray_internal.h"

#define ENV_WORKER_ID "TPU_WORKER_ID"

/* ---- not yet ---- */

static bool
has_tls (const cJSON *spec)
{
  return json_bool (spec, false, "tlsOptions", "enabled");
}

static bool
has_history (const cJSON *spec)
{
  return cJSON_IsObject (json_get (spec, "historyServerOptions"));
}

static const struct feature
{
  const char *field;
  bool (*asked) (const cJSON *spec);
  const char *consequence;
} features[] = {
  { "spec.tlsOptions.enabled", has_tls, "Ray's traffic is not encrypted" },
  { "spec.historyServerOptions", has_history, "no collector runs beside Ray" },
};

/* The serve Service is made of the head's serve ports; upstream makes no pods either when there is none (§2.3). */
static void
warn_about_serve (const struct ray_cluster *cluster, struct ray_problems *problems)
{
  const char *asked = json_str (cluster->object, "metadata", "annotations", RAY_ANNOTATION_SERVE_SERVICE);
  cleanup_json cJSON *service = NULL;

  if (!text_eq_nocase (asked, "true"))
    return;
  service = ray_build_serve_service (cluster, &ray_default_options);
  if (service == NULL)
    ray_problem (problems, RAY_REASON_UNSUPPORTED, "metadata.annotations[\"" RAY_ANNOTATION_SERVE_SERVICE "\"]",
                 "asks for a Service, but the head's first container has no port named serve or serve-*: no Service is "
                 "made; add the port");
}

/* ---- templates of slices ---- */

static void
warn_about_id (const cJSON *container, const char *path, int index, struct ray_problems *problems)
{
  const char *id = json_str (json_find (json_get (container, "env"), "name", ENV_WORKER_ID), "value");

  if (id != NULL && *id != '\0')
    ray_problem (problems, RAY_REASON_UNSUPPORTED, ray_path ("%s.containers[%d].env", path, index).text,
                 ENV_WORKER_ID " is \"%.32s\" for every host of a slice: remove it, each host is told its own", id);
}

/* A template stands for all hosts of a slice: what it fixes that must differ from host to host cannot work. */
static void
warn_about_hosts (const struct ray_cluster *cluster, const struct ray_group *group, size_t index,
                  struct ray_problems *problems)
{
  const cJSON *spec = json_get (group->template, "spec"), *container;
  const char *hostname = json_str (spec, "hostname"), *subdomain = json_str (spec, "subdomain");
  struct ray_path path = ray_path ("spec.workerGroupSpecs[%zu].template.spec", index);
  char service[RAY_NAME_SIZE];
  int i = 0;

  ray_headless_service_name (service, cluster);
  if (hostname != NULL && *hostname != '\0')
    ray_problem (problems, RAY_REASON_UNSUPPORTED, ray_path ("%s.hostname", path.text).text,
                 "is \"%.64s\" for every host of a slice, so they do not find each other: remove it, it is set for "
                 "each host",
                 hostname);
  if (subdomain != NULL && *subdomain != '\0' && !text_eq (subdomain, service))
    ray_problem (problems, RAY_REASON_UNSUPPORTED, ray_path ("%s.subdomain", path.text).text,
                 "is \"%.64s\": a headless Service of that name must select the Pods; remove it to use %s", subdomain,
                 service);
  cJSON_ArrayForEach (container, json_get (spec, "containers"))
    warn_about_id (container, path.text, i++, problems);
}

void
ray_check_unsupported (struct ray_problems *problems, const struct ray_cluster *cluster)
{
  const cJSON *spec = json_get (cluster->object, "spec");

  for (size_t i = 0; i < ARRAY_LEN (features); i++)
    if (features[i].asked (spec))
      ray_problem (problems, RAY_REASON_UNSUPPORTED, features[i].field, "is not implemented in this version: %s",
                   features[i].consequence);
  warn_about_serve (cluster, problems);
  for (size_t i = 0; i < cluster->ngroups; i++)
    if (cluster->groups[i].hosts > 1)
      warn_about_hosts (cluster, &cluster->groups[i], i, problems);
}

/* ---- what injection says ---- */

/* What warn_about_hosts has told by the field already. */
static void
drop_told (cJSON *pod)
{
  cJSON *spec = json_get (pod, "spec"), *container;

  json_drop (spec, "hostname");
  json_drop (spec, "subdomain");
  cJSON_ArrayForEach (container, json_get (spec, "containers"))
    {
      cJSON *id = json_find (json_get (container, "env"), "name", ENV_WORKER_ID);

      if (json_str (id, "value") != NULL)
        cJSON_Delete (cJSON_DetachItemViaPointer (json_get (container, "env"), id));
    }
}

/* All pods of a group are told the same: host 0 of its first slice stands for them. */
static void
warn_about_slice (const struct ray_cluster *cluster, const struct ray_group *group, const char *path,
                  const struct ray_options *options, struct ray_problems *problems)
{
  struct ray_identity identity = { .name = "pod", .replica_name = "slice" };
  cleanup_injection struct tpu_injection injection = { 0 };
  cleanup_json cJSON *pod = NULL;
  struct tpu_request r;
  const cJSON *warning;

  if (tpu_request_read (&r, group->template, &options->tpu, NULL) < 0 || r.chips == 0
      || ray_build_pod (&pod, cluster, group, &identity, options, NULL) < 0)
    return; /* no TPUs, or ray_validate says why not */
  if (group->hosts > 1)
    drop_told (pod);
  if (tpu_inject (&injection, pod, &options->tpu, NULL) < 0)
    return;
  cJSON_ArrayForEach (warning, injection.warnings)
    ray_problem (problems, RAY_REASON_TPU, path, "%s", warning->valuestring);
}

/* The annotations of a Pod have no effect where people look first, on the cluster. */
static void
warn_about_annotations (const struct ray_cluster *cluster, struct ray_problems *problems)
{
  const cJSON *annotations = json_get (cluster->object, "metadata", "annotations"), *item;

  if (!cJSON_IsObject (annotations))
    return;
  cJSON_ArrayForEach (item, annotations)
    if (text_starts_with (item->string, TPU_ANNOTATION_PREFIX) && !text_eq (item->string, RAY_ANNOTATION_SLICES))
      ray_problem (problems, RAY_REASON_TPU, ray_path ("metadata.annotations[\"%s\"]", item->string).text,
                   "has no effect on a cluster: write it into template.metadata.annotations of its groups");
}

void
ray_check_slices (struct ray_problems *problems, const struct ray_cluster *cluster, const struct ray_options *options)
{
  struct ray_options plain = *options;

  plain.inject_tpu = false; /* asked below, for what it says */
  plain.tpu.strict = false;
  warn_about_annotations (cluster, problems);
  warn_about_slice (cluster, &cluster->head, "spec.headGroupSpec.template", &plain, problems);
  for (size_t i = 0; i < cluster->ngroups; i++)
    warn_about_slice (cluster, &cluster->groups[i], ray_path ("spec.workerGroupSpecs[%zu].template", i).text, &plain,
                      problems);
}
