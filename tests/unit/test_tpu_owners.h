/* test_tpu_owners.h - pods as LeaderWorkerSet, JobSet and StatefulSet post them. */
#ifndef TEST_TPU_OWNERS_H
#define TEST_TPU_OWNERS_H

#include "test_tpu_pods.h"

static inline void
set_annotation (cJSON *pod, const char *key, const char *value)
{
  json_set_str (json_obj (json_get (pod, "metadata"), "annotations"), key, value);
}

/* A pod of LeaderWorkerSet "test-sample" as its StatefulSets create it, before the set's own webhook has seen it: only
 * the leader has its worker index (§1.1 rule 4). NULLs leave out. */
static inline cJSON *
make_lws_pod (cJSON *pod, const char *name, bool leader, const char *size, const char *subgroup, bool leader_tpus)
{
  json_set_str (json_get (pod, "metadata"), "name", name);
  set_label (pod, "leaderworkerset.sigs.k8s.io/name", "test-sample");
  set_label (pod, "apps.kubernetes.io/pod-index", "0");
  if (leader)
    set_label (pod, "leaderworkerset.sigs.k8s.io/worker-index", "0");
  if (size != NULL)
    set_annotation (pod, "leaderworkerset.sigs.k8s.io/size", size);
  if (subgroup != NULL)
    set_annotation (pod, "leaderworkerset.sigs.k8s.io/subgroup-size", subgroup);
  if (leader_tpus)
    set_annotation (pod, "leaderworkerset.sigs.k8s.io/leader-requests-tpus", "true");
  json_set_str (json_get (pod, "spec"), "hostname", name);
  json_set_str (json_get (pod, "spec"), "subdomain", "default");
  return pod;
}

/* Host `index` of Job `job` of replicatedJob "w" in JobSet "s" (§2.2); the first replicatedJob is a CPU head, so the
 * global index is one more. */
static inline cJSON *
make_jobset_pod (const char *accelerator, const char *topology, const char *chips, int job, int jobs, int index)
{
  char text[64], number[16];
  cJSON *pod;

  snprintf (text, sizeof (text), "s-w-%d", job);
  pod = make_job_pod (accelerator, topology, chips, text, index, "s");
  set_label (pod, "jobset.sigs.k8s.io/jobset-name", "s");
  set_label (pod, "jobset.sigs.k8s.io/replicatedjob-name", "w");
  snprintf (number, sizeof (number), "%d", jobs);
  set_label (pod, "jobset.sigs.k8s.io/replicatedjob-replicas", number);
  snprintf (number, sizeof (number), "%d", job);
  set_label (pod, "jobset.sigs.k8s.io/job-index", number);
  snprintf (number, sizeof (number), "%d", job + 1);
  set_label (pod, "jobset.sigs.k8s.io/job-global-index", number);
  snprintf (number, sizeof (number), "%d", jobs + 1);
  set_label (pod, "jobset.sigs.k8s.io/global-replicas", number);
  set_label (pod, "jobset.sigs.k8s.io/coordinator", "s-head-0-0.s");
  return pod;
}

static inline cJSON *
make_statefulset_pod (const char *accelerator, const char *topology, const char *chips, int ordinal)
{
  cJSON *pod = make_pod (accelerator, topology, chips), *owner;
  char name[32], number[16];

  snprintf (name, sizeof (name), "db-%d", ordinal);
  snprintf (number, sizeof (number), "%d", ordinal);
  json_set_str (json_get (pod, "metadata"), "name", name);
  set_label (pod, "apps.kubernetes.io/pod-index", number);
  set_label (pod, "statefulset.kubernetes.io/pod-name", name);
  owner = json_push_obj (json_arr (json_get (pod, "metadata"), "ownerReferences"));
  json_set_str (owner, "kind", "StatefulSet");
  json_set_str (owner, "name", "db");
  json_set_bool (owner, "controller", true);
  json_set_str (json_get (pod, "spec"), "hostname", name);
  json_set_str (json_get (pod, "spec"), "subdomain", "db-svc");
  return pod;
}

#endif
