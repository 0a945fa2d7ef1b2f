/* validate.c - can the TPU Pods of a workload become slices? Counts against the topology, then what injection itself
 * says about the Pods. */
#include "workload/workload_internal.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct check
{
  cJSON *problems;
  const struct tpu_options *options;
};

static void problem (const struct check *c, const char *message, const char *fmt, ...)
    __attribute__ ((format (printf, 3, 4)));

/* The format is the field's. */
static void
problem (const struct check *c, const char *message, const char *fmt, ...)
{
  cJSON *object = json_push_obj (c->problems);
  char field[512];
  va_list args;

  va_start (args, fmt);
  vsnprintf (field, sizeof (field), fmt, args);
  va_end (args);
  json_set_str (object, "field", field);
  json_set_str (object, "message", message);
}

/* Where the topology stands: the problem of a template that is fine without one. */
static void
template_problem (const struct check *c, const cJSON *template, const char *path, const char *message)
{
  const char *const *labels = c->options->topology_labels;
  cleanup_json cJSON *bare = cJSON_Duplicate (template, true);
  struct tpu_request r;

  if (cJSON_IsObject (json_get (bare, "metadata")))
    json_drop (json_get (bare, "metadata"), "annotations");
  json_drop (json_get (bare, "spec"), "nodeSelector");
  json_drop (json_get (bare, "spec"), "affinity");
  if (tpu_request_read (&r, bare, c->options, NULL) < 0)
    {
      problem (c, message, "%sspec.containers", path);
      return;
    }
  if (json_get (template, "metadata", "annotations", "cloud.google.com/gke-tpu-slice-topology") != NULL)
    {
      problem (c, message, "%smetadata.annotations[\"cloud.google.com/gke-tpu-slice-topology\"]", path);
      return;
    }
  for (size_t i = 0; i < TPU_LABELS_MAX && labels[i] != NULL; i++)
    if (json_get (template, "spec", "nodeSelector", labels[i]) != NULL)
      {
        problem (c, message, "%sspec.nodeSelector[\"%s\"]", path, labels[i]);
        return;
      }
  problem (c, message, "%sspec", path);
}

/* Appends what was found, and frees it. True when there was something. */
static bool
take_problems (const struct check *c, struct ray_problems *found)
{
  bool any = found->count > 0;

  for (size_t i = 0; i < found->count; i++)
    problem (c, found->items[i].message, "%s", found->items[i].field);
  ray_problems_free (found);
  return any;
}

/* False when there is nothing to compare: no TPUs, no topology, or a problem that was told. */
static bool
read_request (const struct check *c, struct tpu_request *r, const cJSON *template, const char *path)
{
  cleanup_free char *bare = xstrndup (path, strlen (path) - (*path != '\0')); /* without the dot */
  struct ray_problems found = { 0 };
  struct error err = { "" };

  *r = (struct tpu_request){ 0 };
  ray_validate_template (&found, template, bare);
  if (take_problems (c, &found))
    return false;
  if (tpu_request_read (r, template, c->options, &err) == 0)
    return r->chips > 0;
  template_problem (c, template, path, err.message);
  return false;
}

/* A count of pods that has to be the hosts of a slice. */
static void
compare_hosts (const struct check *c, const struct tpu_request *r, int64_t count, const char *path, const char *field)
{
  cleanup_free char *message = NULL;

  if (r->hosts <= 1 || count == r->hosts)
    return;
  message = xasprintf ("%s is %" PRId64 ", but a %s slice with %" PRId64 " chips per Pod has %" PRId64
                       " hosts: set it to %" PRId64,
                       field, count, r->topology_text, r->chips, r->hosts, r->hosts);
  problem (c, message, "%s%s", path, field);
}

/* ---- one function per kind ---- */

/* The spec of a Job at `path`; `named` when the hosts get a subdomain from elsewhere. */
static void
check_job_spec (const struct check *c, const cJSON *spec, const char *path, const char *default_mode, bool named)
{
  cleanup_free char *template_path = xasprintf ("%stemplate.", path);
  const cJSON *template = json_get (spec, "template");
  const char *mode = json_str (spec, "completionMode");
  int64_t parallelism = json_int (spec, 1, "parallelism");
  struct tpu_request r;

  if (!read_request (c, &r, template, template_path) || r.hosts <= 1)
    return;
  if (!text_eq (mode ? mode : default_mode, "Indexed"))
    problem (c, "hosts of a slice need an index: set completionMode: Indexed", "%scompletionMode", path);
  compare_hosts (c, &r, parallelism, path, "parallelism");
  compare_hosts (c, &r, json_int (spec, parallelism, "completions"), path, "completions");
  if (!named && log_nonnull (json_str (template, "spec", "subdomain"))[0] == '\0')
    problem (c, "hosts of a slice need names: set subdomain to a headless Service that selects the Job's Pods",
             "%sspec.subdomain", template_path);
}

static void
check_job (const struct check *c, const cJSON *object)
{
  check_job_spec (c, json_get (object, "spec"), "spec.", "NonIndexed", false);
}

static void
check_cronjob (const struct check *c, const cJSON *object)
{
  check_job_spec (c, json_get (object, "spec", "jobTemplate", "spec"), "spec.jobTemplate.spec.", "NonIndexed", false);
}

static void
check_jobset (const struct check *c, const cJSON *object)
{
  bool named = json_bool (object, true, "spec", "network", "enableDNSHostnames");
  const cJSON *rjobs = json_get (object, "spec", "replicatedJobs"), *rjob;
  int i = 0;

  if (!cJSON_IsArray (rjobs))
    {
      problem (c, "is missing: list the replicatedJobs", "spec.replicatedJobs");
      return;
    }
  cJSON_ArrayForEach (rjob, rjobs)
    {
      cleanup_free char *path = xasprintf ("spec.replicatedJobs[%d].template.spec.", i++);

      check_job_spec (c, json_get (rjob, "template", "spec"), path, "Indexed", named);
    }
}

/* As the LeaderWorkerSet's own webhook has it, whether it asks for TPUs or not. False when it was told. */
static bool
check_subgroups (const struct check *c, const cJSON *template, int64_t size)
{
  const cJSON *stated = json_get (template, "subGroupPolicy", "subGroupSize");
  int64_t subgroup = json_int (template, 0, "subGroupPolicy", "subGroupSize");
  cleanup_free char *message = NULL;

  if (stated == NULL || cJSON_IsNull (stated) || (subgroup > 0 && (size % subgroup == 0 || (size - 1) % subgroup == 0)))
    return true;
  message = subgroup <= 0 ? xasprintf ("is %" PRId64 ": a subgroup has at least 1 Pod", subgroup)
                          : xasprintf ("is %" PRId64 ", which divides neither size %" PRId64 " nor the %" PRId64
                                       " Pods beside the leader: set size to a multiple of it",
                                       subgroup, size, size - 1);
  problem (c, message, "spec.leaderWorkerTemplate.subGroupPolicy.subGroupSize");
  return false;
}

static void
check_lws (const struct check *c, const cJSON *object)
{
  const cJSON *template = json_get (object, "spec", "leaderWorkerTemplate");
  const cJSON *leader = json_get (template, "leaderTemplate"), *worker = json_get (template, "workerTemplate");
  const char *path = "spec.leaderWorkerTemplate.";
  int64_t size = json_int (template, 1, "size"), subgroup = json_int (template, 0, "subGroupPolicy", "subGroupSize");
  struct tpu_request of_leader = { 0 }, of_worker;

  if (!check_subgroups (c, template, size)
      || !read_request (c, &of_worker, worker, "spec.leaderWorkerTemplate.workerTemplate."))
    return;
  if (leader != NULL && !read_request (c, &of_leader, leader, "spec.leaderWorkerTemplate.leaderTemplate.")
      && cJSON_GetArraySize (c->problems) > 0)
    return;
  if (subgroup > 0)
    compare_hosts (c, &of_worker, subgroup, path, "subGroupPolicy.subGroupSize");
  else if (leader != NULL && of_leader.chips == 0 && of_worker.hosts > 1 && size - 1 != of_worker.hosts)
    {
      cleanup_free char *message
          = xasprintf ("size is %" PRId64 " and the leader asks for no TPUs, but a %s slice with %" PRId64
                       " chips per Pod has %" PRId64 " hosts: set it to %" PRId64,
                       size, of_worker.topology_text, of_worker.chips, of_worker.hosts, of_worker.hosts + 1);

      problem (c, message, "%ssize", path);
    }
  else if (leader == NULL || of_leader.chips > 0)
    compare_hosts (c, &of_worker, size, path, "size");
}

static void
check_statefulset (const struct check *c, const cJSON *object)
{
  const cJSON *template = json_get (object, "spec", "template");
  int64_t replicas = json_int (object, 1, "spec", "replicas");
  struct tpu_request r;

  if (!read_request (c, &r, template, "spec.template.") || r.hosts <= 1)
    return;
  if (replicas > 0) /* 0: it is not to run now */
    compare_hosts (c, &r, replicas, "spec.", "replicas");
  if (log_nonnull (json_str (object, "spec", "serviceName"))[0] == '\0')
    problem (c, "hosts of a slice need names: set it to a headless Service that selects the Pods", "spec.serviceName");
  if (json_int (object, 0, "spec", "ordinals", "start") != 0
      && json_str (template, "metadata", "annotations", TPU_ANNOTATION_FIRST_ORDINAL) == NULL)
    problem (c, "Pods do not carry it: repeat it as annotation " TPU_ANNOTATION_FIRST_ORDINAL " of the template",
             "spec.ordinals.start");
}

static void
check_deployment (const struct check *c, const cJSON *object)
{
  struct tpu_request r;

  if (read_request (c, &r, json_get (object, "spec", "template"), "spec.template.") && r.hosts > 1)
    problem (c,
             "Pods of a Deployment have no index, but this slice has several hosts: use a StatefulSet, a JobSet or a "
             "LeaderWorkerSet",
             "spec.template.spec");
}

static void
check_pod (const struct check *c, const cJSON *object)
{
  struct tpu_request r;

  read_request (c, &r, object, "");
}

static const struct
{
  const char *kind;
  const char *pods; /* where what is wrong with the finished Pods comes from */
  void (*check) (const struct check *c, const cJSON *object);
} checks[] = {
  { "Pod", "spec", check_pod },
  { "Job", "spec.template", check_job },
  { "CronJob", "spec.jobTemplate.spec.template", check_cronjob },
  { "JobSet", "spec.replicatedJobs", check_jobset },
  { "LeaderWorkerSet", "spec.leaderWorkerTemplate", check_lws },
  { "StatefulSet", "spec.template", check_statefulset },
  { "Deployment", "spec.template", check_deployment },
};

static bool
was_told (const struct check *c, const char *message)
{
  const cJSON *p;

  cJSON_ArrayForEach (p, c->problems)
    if (text_eq (json_str (p, "message"), message))
      return true;
  return false;
}

/* What injection says about one finished Pod: warnings, and what strict mode refuses it for. False when refused. */
static bool
check_finished (const struct check *c, const cJSON *pod, const char *field)
{
  cleanup_injection struct tpu_injection injection = { 0 };
  struct tpu_options strict = *c->options;
  struct error err = { "" };
  const cJSON *warning;

  strict.strict = true;
  if (tpu_inject (&injection, pod, &strict, &err) < 0)
    {
      problem (c, err.message, "%s", field);
      return false;
    }
  cJSON_ArrayForEach (warning, injection.warnings)
    if (!was_told (c, warning->valuestring))
      {
        problem (c, warning->valuestring, "%s", field);
        json_set_bool (cJSON_GetArrayItem (c->problems, cJSON_GetArraySize (c->problems) - 1), "warning", true);
      }
  return true;
}

/* Names that are too long and the like: the first Pod that is refused speaks for all. */
static void
check_pods (const struct check *c, const cJSON *object, const char *field)
{
  cleanup_json cJSON *pods = NULL;
  struct error err = { "" };
  const cJSON *pod;

  if (text_eq (json_str (object, "kind"), "Pod"))
    {
      check_finished (c, object, field);
      return;
    }
  if (workload_expand (&pods, object, &err) < 0)
    {
      problem (c, err.message, "%s", field);
      return;
    }
  cJSON_ArrayForEach (pod, pods)
    if (!check_finished (c, pod, field))
      return;
}

void
workload_validate (cJSON *problems, const cJSON *object, const struct tpu_options *options)
{
  const struct check c = { .problems = problems, .options = options ? options : &tpu_default_options };
  int before = cJSON_GetArraySize (problems);
  struct ray_problems found = { 0 };

  workload_check_types (&found, object);
  if (take_problems (&c, &found))
    return;
  for (size_t i = 0; i < ARRAY_LEN (checks); i++)
    if (text_eq (json_str (object, "kind"), checks[i].kind))
      {
        checks[i].check (&c, object);
        if (cJSON_GetArraySize (problems) == before)
          check_pods (&c, object, checks[i].pods);
        return;
      }
}
