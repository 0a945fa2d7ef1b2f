/* expand_job.c - Job, CronJob and JobSet (facts/tpu_injection.md §2.1, §2.2). */
#include "workload/workload_internal.h"

#include <errno.h>
#include <inttypes.h>

#define COMPLETION_INDEX "batch.kubernetes.io/job-completion-index"
#define JOBSET "jobset.sigs.k8s.io/"

/* ---- Job ---- */

static void
add_completion_index (cJSON *container, const void *data)
{
  cJSON *env = json_get (container, "env"), *entry;

  (void) data;
  if (json_find (env, "name", "JOB_COMPLETION_INDEX") != NULL || (env != NULL && !cJSON_IsArray (env)))
    return;
  entry = json_push_obj (json_arr (container, "env"));
  json_set_str (entry, "name", "JOB_COMPLETION_INDEX");
  json_set_str (json_obj (json_obj (entry, "valueFrom"), "fieldRef"), "fieldPath",
                "metadata.labels['" COMPLETION_INDEX "']");
}

static int
add_job_pod (struct expansion *x, const cJSON *job, bool indexed, int64_t index)
{
  const char *name = workload_name (job);
  cleanup_free char *hostname = xasprintf ("%s-%" PRId64, name, index), *number = xasprintf ("%" PRId64, index);
  cleanup_free char *prefix = indexed ? xasprintf ("%s-", hostname) : xasprintf ("%s-", name);
  cJSON *pod = workload_pod (x, json_get (job, "spec", "template"), prefix, "Job", name);

  if (pod == NULL)
    return -EINVAL;
  workload_label (pod, "batch.kubernetes.io/job-name", name);
  workload_label (pod, "job-name", name);
  if (!indexed)
    return 0;
  workload_label (pod, COMPLETION_INDEX, number);
  workload_annotate (pod, COMPLETION_INDEX, number);
  json_set_str (json_get (pod, "spec"), "hostname", hostname);
  workload_each_container (pod, add_completion_index, NULL);
  return 0;
}

/* All completions, though fewer may run at a time. */
int
workload_expand_job (struct expansion *x, const cJSON *job)
{
  bool indexed = text_eq (json_str (job, "spec", "completionMode"), "Indexed");
  int64_t parallelism = json_int (job, 1, "spec", "parallelism");
  int64_t completions = json_int (job, parallelism, "spec", "completions");

  for (int64_t i = 0; i < completions; i++)
    if (add_job_pod (x, job, indexed, i) < 0)
      return -EINVAL;
  return 0;
}

/* ---- CronJob ---- */

/* One of its Jobs. They are named after the minute of their time, which has eight digits. */
int
workload_expand_cronjob (struct expansion *x, const cJSON *cronjob)
{
  cleanup_json cJSON *job = cJSON_CreateObject ();
  cleanup_free char *name = xasprintf ("%s-00000000", workload_name (cronjob));

  json_set_str (json_obj (job, "metadata"), "name", name);
  json_set_copy (job, "spec", json_get (cronjob, "spec", "jobTemplate", "spec"));
  return workload_expand_job (x, job);
}

/* ---- JobSet ---- */

/* Counts over all replicatedJobs. */
struct position
{
  const char *subdomain, *coordinator; /* NULL: none */
  int64_t global_index, global_replicas;
};

static void
add_fact (cJSON *template, const char *key, const char *value)
{
  cJSON *metadata = json_obj (template, "metadata");

  json_set_str (json_obj (metadata, "labels"), key, value);
  json_set_str (json_obj (metadata, "annotations"), key, value);
}

static void
add_number (cJSON *template, const char *key, int64_t value)
{
  cleanup_free char *text = xasprintf ("%" PRId64, value);

  add_fact (template, key, text);
}

static void
add_facts (cJSON *template, const cJSON *jobset, const cJSON *rjob, int64_t replicas, int64_t index,
           const struct position *p)
{
  const char *group = json_str (rjob, "groupName");

  add_fact (template, JOBSET "jobset-name", workload_name (jobset));
  add_fact (template, JOBSET "replicatedjob-name", json_str (rjob, "name"));
  add_number (template, JOBSET "replicatedjob-replicas", replicas);
  add_number (template, JOBSET "job-index", index);
  add_number (template, JOBSET "job-global-index", p->global_index);
  add_number (template, JOBSET "global-replicas", p->global_replicas);
  add_number (template, JOBSET "restart-attempt", 0);
  add_fact (template, JOBSET "group-name", group ? group : "default");
  if (p->coordinator != NULL)
    add_fact (template, JOBSET "coordinator", p->coordinator);
}

/* The Job that the JobSet's controller creates. */
static int
expand_child (struct expansion *x, const cJSON *jobset, const cJSON *rjob, int64_t replicas, int64_t index,
              const struct position *p)
{
  cleanup_json cJSON *job = cJSON_CreateObject ();
  cleanup_free char *name
      = xasprintf ("%s-%s-%" PRId64, workload_name (jobset), log_nonnull (json_str (rjob, "name")), index);
  const cJSON *spec = json_get (rjob, "template", "spec");
  cJSON *template;

  if (json_str (rjob, "name") == NULL || !cJSON_IsObject (json_get (spec, "template")))
    return error_set (x->err, EINVAL, "replicatedJob \"%.63s\" needs a name and a template.spec.template",
                      log_nonnull (json_str (rjob, "name")));
  json_set_str (json_obj (job, "metadata"), "name", name);
  json_set_copy (job, "spec", spec);
  if (json_str (spec, "completionMode") == NULL)
    json_set_str (json_get (job, "spec"), "completionMode", "Indexed");
  template = json_get (job, "spec", "template");
  add_facts (template, jobset, rjob, replicas, index, p);
  if (p->subdomain != NULL && cJSON_IsObject (json_get (template, "spec")))
    json_set_str (json_get (template, "spec"), "subdomain", p->subdomain);
  return workload_expand_job (x, job);
}

static char *
coordinator_of (const cJSON *jobset, const char *subdomain)
{
  const cJSON *c = json_get (jobset, "spec", "coordinator");

  if (json_str (c, "replicatedJob") == NULL)
    return NULL;
  return xasprintf ("%s-%s-%" PRId64 "-%" PRId64 ".%s", workload_name (jobset), json_str (c, "replicatedJob"),
                    json_int (c, 0, "jobIndex"), json_int (c, 0, "podIndex"), log_nonnull (subdomain));
}

static int
expand_replicated_job (struct expansion *x, const cJSON *jobset, const cJSON *rjob, struct position *p)
{
  int64_t replicas = json_int (rjob, 1, "replicas");

  if (replicas > WORKLOAD_PODS_MAX)
    return error_set (x->err, E2BIG, "its replicas make more than %d Jobs: lower them", WORKLOAD_PODS_MAX);
  for (int64_t i = 0; i < replicas; i++, p->global_index++)
    {
      int ret = expand_child (x, jobset, rjob, replicas, i, p);

      if (ret < 0)
        return ret;
    }
  return 0;
}

int
workload_expand_jobset (struct expansion *x, const cJSON *jobset)
{
  const char *own = json_str (jobset, "spec", "network", "subdomain");
  bool named = json_bool (jobset, true, "spec", "network", "enableDNSHostnames");
  struct position p = { .subdomain = named ? (own ? own : workload_name (jobset)) : NULL };
  cleanup_free char *coordinator = coordinator_of (jobset, p.subdomain);
  const cJSON *rjobs = json_get (jobset, "spec", "replicatedJobs"), *rjob;
  int ret = 0;

  if (!cJSON_IsArray (rjobs))
    return error_set (x->err, EINVAL, "spec.replicatedJobs must be a list");
  p.coordinator = coordinator;
  cJSON_ArrayForEach (rjob, rjobs)
    p.global_replicas += json_int (rjob, 1, "replicas");
  cJSON_ArrayForEach (rjob, rjobs)
    if (ret == 0)
      ret = expand_replicated_job (x, jobset, rjob, &p);
  return ret;
}
