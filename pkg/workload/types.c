/* types.c - the members of workload objects that everything else here reads: of their type, or told by field. */
#include "workload/workload_internal.h"

static const struct ray_field object_fields[] = { { "metadata", RAY_KIND_OBJECT }, { "spec", RAY_KIND_OBJECT } };

static const struct ray_field metadata_fields[] = { { "name", RAY_KIND_STRING },
                                                    { "generateName", RAY_KIND_STRING },
                                                    { "namespace", RAY_KIND_STRING },
                                                    { "labels", RAY_KIND_STRING_MAP },
                                                    { "annotations", RAY_KIND_STRING_MAP } };

static const struct ray_field job_fields[] = { { "parallelism", RAY_KIND_COUNT },
                                               { "completions", RAY_KIND_COUNT },
                                               { "completionMode", RAY_KIND_STRING },
                                               { "template", RAY_KIND_OBJECT } };
static const struct ray_enum job_enums[] = { { "completionMode", { "NonIndexed", "Indexed" } } };

static const struct ray_field cronjob_fields[]
    = { { "schedule", RAY_KIND_STRING }, { "jobTemplate", RAY_KIND_OBJECT } };

static const struct ray_field jobset_fields[]
    = { { "replicatedJobs", RAY_KIND_OBJECTS }, { "network", RAY_KIND_OBJECT }, { "coordinator", RAY_KIND_OBJECT } };
static const struct ray_field network_fields[]
    = { { "enableDNSHostnames", RAY_KIND_BOOL }, { "subdomain", RAY_KIND_STRING } };
static const struct ray_field coordinator_fields[]
    = { { "replicatedJob", RAY_KIND_STRING }, { "jobIndex", RAY_KIND_COUNT }, { "podIndex", RAY_KIND_COUNT } };
static const struct ray_field rjob_fields[] = { { "name", RAY_KIND_STRING },
                                                { "groupName", RAY_KIND_STRING },
                                                { "replicas", RAY_KIND_COUNT },
                                                { "template", RAY_KIND_OBJECT } };
static const struct ray_field job_template_fields[] = { { "spec", RAY_KIND_OBJECT } };

static const struct ray_field lws_fields[] = { { "replicas", RAY_KIND_COUNT },
                                               { "leaderWorkerTemplate", RAY_KIND_OBJECT },
                                               { "networkConfig", RAY_KIND_OBJECT } };
static const struct ray_field lws_network_fields[] = { { "subdomainPolicy", RAY_KIND_STRING } };
static const struct ray_enum lws_network_enums[] = { { "subdomainPolicy", { "Shared", "UniquePerReplica" } } };
static const struct ray_field lws_template_fields[] = { { "size", RAY_KIND_COUNT },
                                                        { "leaderTemplate", RAY_KIND_OBJECT },
                                                        { "workerTemplate", RAY_KIND_OBJECT },
                                                        { "subGroupPolicy", RAY_KIND_OBJECT } };
static const struct ray_field subgroup_fields[]
    = { { "subGroupSize", RAY_KIND_COUNT }, { "subGroupPolicyType", RAY_KIND_STRING } };
static const struct ray_enum subgroup_enums[] = { { "subGroupPolicyType", { "LeaderWorker", "LeaderExcluded" } } };

static const struct ray_field set_fields[] = { { "replicas", RAY_KIND_COUNT },
                                               { "serviceName", RAY_KIND_STRING },
                                               { "ordinals", RAY_KIND_OBJECT },
                                               { "template", RAY_KIND_OBJECT } };
static const struct ray_field ordinals_fields[] = { { "start", RAY_KIND_COUNT } };

#define FIELDS(list) (list), ARRAY_LEN (list)
#define ENUMS(list) (list), ARRAY_LEN (list)

/* Objects inside of a kind's objects, and what they may hold. */
static const struct level
{
  const char *kind;    /* NULL: every one */
  const char *keys[4]; /* NULL ends */
  const struct ray_field *fields;
  size_t nfields;
  const struct ray_enum *enums;
  size_t nenums;
} levels[] = {
  { NULL, { NULL }, FIELDS (object_fields), NULL, 0 },
  { NULL, { "metadata" }, FIELDS (metadata_fields), NULL, 0 },
  { "Job", { "spec" }, FIELDS (job_fields), ENUMS (job_enums) },
  { "CronJob", { "spec" }, FIELDS (cronjob_fields), NULL, 0 },
  { "CronJob", { "spec", "jobTemplate" }, FIELDS (job_template_fields), NULL, 0 },
  { "CronJob", { "spec", "jobTemplate", "spec" }, FIELDS (job_fields), ENUMS (job_enums) },
  { "JobSet", { "spec" }, FIELDS (jobset_fields), NULL, 0 },
  { "JobSet", { "spec", "network" }, FIELDS (network_fields), NULL, 0 },
  { "JobSet", { "spec", "coordinator" }, FIELDS (coordinator_fields), NULL, 0 },
  { "LeaderWorkerSet", { "spec" }, FIELDS (lws_fields), NULL, 0 },
  { "LeaderWorkerSet", { "spec", "networkConfig" }, FIELDS (lws_network_fields), ENUMS (lws_network_enums) },
  { "LeaderWorkerSet", { "spec", "leaderWorkerTemplate" }, FIELDS (lws_template_fields), NULL, 0 },
  { "LeaderWorkerSet",
    { "spec", "leaderWorkerTemplate", "subGroupPolicy" },
    FIELDS (subgroup_fields),
    ENUMS (subgroup_enums) },
  { "StatefulSet", { "spec" }, FIELDS (set_fields), NULL, 0 },
  { "StatefulSet", { "spec", "ordinals" }, FIELDS (ordinals_fields), NULL, 0 },
  { "Deployment", { "spec" }, FIELDS (set_fields), NULL, 0 },
};

static void
check_level (struct ray_problems *problems, const cJSON *object, const struct level *level)
{
  cleanup_buf struct buf path = { 0 };
  const cJSON *at = json_get_ (object, level->keys);

  for (size_t i = 0; level->keys[i] != NULL; i++)
    buf_printf (&path, "%s%s", i > 0 ? "." : "", level->keys[i]);
  ray_check_kinds (problems, at, buf_text (&path), level->fields, level->nfields);
  ray_check_enum (problems, at, buf_text (&path), level->enums, level->nenums);
}

static void
check_replicated_jobs (struct ray_problems *problems, const cJSON *rjobs)
{
  const cJSON *rjob;
  int i = 0;

  if (!cJSON_IsArray (rjobs))
    return;
  cJSON_ArrayForEach (rjob, rjobs)
    {
      struct ray_path path = ray_path ("spec.replicatedJobs[%d]", i++);
      struct ray_path template = ray_path ("%s.template", path.text), spec = ray_path ("%s.spec", template.text);
      const cJSON *job = json_get (rjob, "template", "spec");

      ray_check_kinds (problems, rjob, path.text, FIELDS (rjob_fields));
      ray_check_kinds (problems, json_get (rjob, "template"), template.text, FIELDS (job_template_fields));
      ray_check_kinds (problems, job, spec.text, FIELDS (job_fields));
      ray_check_enum (problems, job, spec.text, ENUMS (job_enums));
      if (json_str (rjob, "name") == NULL)
        ray_problem (problems, "", ray_path ("%s.name", path.text).text, "is missing: name the replicatedJob");
    }
}

void
workload_check_types (struct ray_problems *problems, const cJSON *object)
{
  const char *kind = json_str (object, "kind");

  for (size_t i = 0; i < ARRAY_LEN (levels); i++)
    if (levels[i].kind == NULL || text_eq (levels[i].kind, kind))
      check_level (problems, object, &levels[i]);
  if (text_eq (kind, "JobSet"))
    check_replicated_jobs (problems, json_get (object, "spec", "replicatedJobs"));
}
