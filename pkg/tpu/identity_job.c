/* identity_job.c - pods of Indexed Jobs, alone or as the slices of a JobSet, and of StatefulSets. */
#include "tpu/tpu_internal.h"

#include <inttypes.h>
#include <string.h>

#define JOB_COMPLETION_INDEX "batch.kubernetes.io/job-completion-index"
#define JOBSET_JOB_INDEX "jobset.sigs.k8s.io/job-index"
#define JOBSET_REPLICATED_JOB "jobset.sigs.k8s.io/replicatedjob-name"
#define JOBSET_REPLICAS "jobset.sigs.k8s.io/replicatedjob-replicas"

/* Of the labels, the new one first, else of the controller; an empty label is no name. */
static const char *
job_name (const cJSON *pod)
{
  const char *const names[] = { tpu_label (pod, TPU_LABEL_JOB_NAME), tpu_label (pod, TPU_LABEL_JOB_NAME_LEGACY),
                                tpu_controller_name (pod, "Job") };

  for (size_t i = 0; i < ARRAY_LEN (names); i++)
    if (names[i] != NULL && *names[i] != '\0')
      return names[i];
  return "";
}

/* The Job controller writes the index as annotation and, in newer versions, as label too. -1 with a reason when it is
 * not known. */
static int64_t
completion_index (struct tpu_identity *id, const cJSON *pod, struct arena *arena)
{
  const char *label = tpu_label (pod, JOB_COMPLETION_INDEX), *annotation = tpu_annotation (pod, JOB_COMPLETION_INDEX);
  int64_t index = tpu_index_of (annotation ? annotation : label);

  if (index < 0)
    id->unknown = "pods of its Job have no completion index: set completionMode: Indexed";
  else if (label != NULL && annotation != NULL && !text_eq (label, annotation))
    {
      id->unknown = arena_printf (
          arena,
          "its completion index is %.16s as a label and %.16s as an annotation: remove " JOB_COMPLETION_INDEX
          " from the template",
          label, annotation);
      index = -1;
    }
  return index;
}

/* Index, hostname and generated name are the Job controller's only where they are all there and agree: those of a pod
 * whose template was copied from another, in a Job that is not Indexed, are the same for all its pods. */
static void
check_index_is_its_own (struct tpu_identity *id, const cJSON *pod, struct arena *arena)
{
  const char *prefix = json_str (pod, "metadata", "generateName");
  const char *end = arena_printf (arena, "-%" PRId64 "-", id->host);

  if (tpu_spec_text (pod, "hostname") == NULL || (prefix != NULL && *prefix != '\0' && !text_ends_with (prefix, end)))
    id->unknown = arena_printf (arena,
                                "its completion index %" PRId64
                                " is not the Job controller's, which also puts it into hostname and name: set "
                                "completionMode: Indexed, and remove the index from the template",
                                id->host);
  else
    tpu_check_hostname (id, pod, arena);
}

/* The Job controller writes index, labels and hostname; the subdomain is the user's or the JobSet's (§2.1). On
 * single-host slices every completion is a slice of its own. */
static void
identify_completion (struct tpu_identity *id, const cJSON *pod, const struct tpu_request *r, struct arena *arena)
{
  if (r->hosts == 1)
    {
      if (*id->slice == '\0')
        id->slice = tpu_pod_name (pod, arena);
      id->host = 0;
      return;
    }
  if (*id->slice == '\0')
    {
      id->unknown = "its label " TPU_LABEL_JOB_NAME " names no Job: leave it as the Job controller writes it";
      return;
    }
  id->stem = arena_printf (arena, "%s-", id->slice);
  id->domain = tpu_spec_text (pod, "subdomain");
  id->host = completion_index (id, pod, arena);
  if (id->unknown != NULL)
    return;
  if (id->domain == NULL)
    id->unknown = "spec.subdomain of its Job's template is absent: name a headless Service that selects the Job's pods";
  else
    check_index_is_its_own (id, pod, arena);
}

void
tpu_identify_job (struct tpu_identity *id, const cJSON *pod, const struct tpu_request *r,
                  const struct tpu_options *options, struct arena *arena)
{
  (void) options;
  id->slice = job_name (pod);
  identify_completion (id, pod, r, arena);
}

/* JobSet writes its facts as labels and as annotations alike (§2.2). */
static const char *
jobset_fact (const cJSON *pod, const char *key)
{
  const char *text = tpu_label (pod, key);

  return text ? text : tpu_annotation (pod, key);
}

/* Slices are counted within the replicatedJob: the global index and count include a CPU head (report 19). */
void
tpu_identify_jobset (struct tpu_identity *id, const cJSON *pod, const struct tpu_request *r,
                     const struct tpu_options *options, struct arena *arena)
{
  const char *group = jobset_fact (pod, JOBSET_REPLICATED_JOB);
  int64_t replicas = tpu_index_of (jobset_fact (pod, JOBSET_REPLICAS));

  (void) options;
  id->slice = job_name (pod);
  id->replica = tpu_index_of (jobset_fact (pod, JOBSET_JOB_INDEX));
  if (*id->slice == '\0' && group != NULL && id->replica >= 0)
    id->slice = arena_printf (arena, "%s-%s-%" PRId64, tpu_label (pod, TPU_LABEL_JOBSET_NAME), group, id->replica);
  identify_completion (id, pod, r, arena);
  if (id->unknown != NULL || id->stem == NULL || group == NULL || id->replica < 0 || replicas < 0)
    return;
  id->slices = replicas;
  id->coordinator = arena_printf (arena, "%s-%s-0-0.%s", tpu_label (pod, TPU_LABEL_JOBSET_NAME), group, id->domain);
}

/* ---- StatefulSet (§2.6) ---- */

void
tpu_identify_statefulset (struct tpu_identity *id, const cJSON *pod, const struct tpu_request *r,
                          const struct tpu_options *options, struct arena *arena)
{
  const char *name = tpu_pod_name (pod, arena), *start = tpu_annotation (pod, TPU_ANNOTATION_FIRST_ORDINAL);
  const char *index = tpu_label (pod, TPU_LABEL_POD_INDEX);
  int64_t ordinal = -1;

  (void) options;
  if (r->hosts == 1)
    {
      id->slice = name;
      id->host = 0;
      return;
    }
  id->domain = tpu_spec_text (pod, "subdomain");
  id->first = start ? tpu_index_of (start) : 0;
  if (!tpu_split_ordinal (name, &id->stem, &ordinal, arena) || (index != NULL && tpu_index_of (index) != ordinal))
    id->unknown = "its name does not end in its ordinal, as the StatefulSet controller writes it";
  else if (id->first < 0)
    id->unknown = "annotation " TPU_ANNOTATION_FIRST_ORDINAL " is no number: write spec.ordinals.start of its "
                  "StatefulSet";
  else if (ordinal < id->first)
    id->unknown = "its ordinal is below annotation " TPU_ANNOTATION_FIRST_ORDINAL
                  ": write spec.ordinals.start of its StatefulSet";
  else if (id->domain == NULL)
    id->unknown = "it has no spec.subdomain: set spec.serviceName of its StatefulSet to a headless Service";
  if (id->unknown != NULL)
    return;
  id->slice = arena_strndup (arena, id->stem, strlen (id->stem) - 1);
  id->host = ordinal - id->first;
  tpu_check_hostname (id, pod, arena);
}
