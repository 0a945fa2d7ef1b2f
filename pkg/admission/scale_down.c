/* scale_down.c - says so when fewer replicas may leave slices with holes: where its Pods carry no index labels KubeRay
 * knows of no slices, and deletes whichever Pods it comes by first. */
#include "admission/admission_internal.h"

#include <errno.h>
#include <inttypes.h>

#include "admission/allocate.h"

#define TIMEOUT_MS 2000 /* for all groups of a cluster: a warning is not worth a slow answer */

/* Groups at the same position; those that an update also moves are not looked for. */
static bool
loses_slices (const struct ray_group *now, const struct ray_group *before, const struct tpu_options *options)
{
  struct tpu_request r;

  return text_eq (now->name, before->name) && now->hosts > 1 && now->replicas > 0 && now->replicas < before->replicas
         && cJSON_GetArraySize (now->workers_to_delete) == 0 && tpu_request_read (&r, now->template, options, NULL) == 0
         && r.chips > 0;
}

/* Our own controller's Pods, and those of KubeRay that knows slices, all have the label. */
static bool
has_pods_without_index (struct kube_client *client, const struct ray_cluster *cluster, const struct ray_group *group,
                        int64_t deadline_ms)
{
  cleanup_free char *selector
      = xasprintf (RAY_LABEL_CLUSTER "=%s," RAY_LABEL_GROUP "=%s,!" RAY_LABEL_HOST_INDEX, cluster->name, group->name);
  cleanup_free char *escaped = kube_escape (selector);
  cleanup_free char *path
      = xasprintf ("/api/v1/namespaces/%s/pods?limit=1&labelSelector=%s", cluster->namespace, escaped);
  cleanup_response struct kube_response response = { 0 };
  const struct kube_request request = { .verb = KUBE_GET, .path = path, .timeout_ms = deadline_ms - clock_mono_ms () };

  if (request.timeout_ms <= 0)
    return false;
  kube_do (client, &request, &response);
  return kube_ok (&response) && cJSON_GetArraySize (json_get (response.body, "items")) > 0;
}

void
admission_warn_of_holes (const struct admission_policy *policy, const struct ray_cluster *cluster,
                         const struct ray_cluster *before, struct admission_verdict *verdict)
{
  int64_t deadline_ms = clock_mono_ms () + TIMEOUT_MS;

  if (policy->allocator == NULL)
    return;
  for (size_t i = 0; i < cluster->ngroups && i < before->ngroups; i++)
    {
      const struct ray_group *group = &cluster->groups[i];
      cleanup_free char *text = NULL;

      if (!loses_slices (group, &before->groups[i], &policy->tpu)
          || !has_pods_without_index (admission_allocator_client (policy->allocator), cluster, group, deadline_ms))
        continue;
      text = xasprintf ("spec.workerGroupSpecs[%zu].replicas: fewer slices, but Pods of group %.63s carry no index "
                        "labels: KubeRay does not know which of them are a slice, and may leave slices without some of "
                        "their hosts; turn on its gate RayMultiHostIndexing, or name all Pods of a slice in "
                        "scaleStrategy.workersToDelete",
                        i, group->name);
      admission_warn (verdict, text);
    }
}
