/* rival.c - whether KubeRay's controller is at work in this cluster, too: a thread that looks at its Lease now and
 * then. Two controllers of the same RayClusters undo each other's work, and nothing but the Lease tells. */
#include "manager/manager_internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define PATH "/apis/coordination.k8s.io/v1/leases?fieldSelector=metadata.name%3D" RIVAL_LEASE
#define LOOK_EVERY_MS 60000
#define ANSWER_WITHIN_MS 20000
/* How far clocks of two machines may be apart before a look alone does not tell; then the next one does. */
#define CLOCK_SLACK_MS 10000
#define REMEDY                                                                                                         \
  "two controllers of the same RayClusters undo each other's work: stop the other one, or turn this one off with "     \
  "--enable-controller=false, or split the work with --watch-namespaces or --watch-selector"

struct rivals
{
  struct rivals_options options;
  pthread_t thread;
  pthread_mutex_t lock; /* guards the next three */
  pthread_cond_t wake;
  bool stop;
  struct rival found;

  /* the thread's */
  cJSON *seen;
  bool failure_said;
};

/* ---- one look ---- */

/* By its timestamps, or because it was renewed since the last look. A Lease without holder was given back. */
static bool
is_live (const cJSON *lease, const char *renewed_before, int64_t now_ms)
{
  const char *holder = json_str (lease, "spec", "holderIdentity"), *renewed = json_str (lease, "spec", "renewTime");
  int64_t duration_ms = json_int (lease, 0, "spec", "leaseDurationSeconds") * 1000, renewed_ms;

  if (holder == NULL || holder[0] == '\0' || renewed == NULL || clock_parse_rfc3339 (renewed, &renewed_ms) < 0)
    return false;
  return renewed_ms + duration_ms + CLOCK_SLACK_MS >= now_ms
         || (renewed_before != NULL && strcmp (renewed, renewed_before) != 0);
}

void
rival_judge (struct rival *found, cJSON **seen, const cJSON *list, const char *own_namespace, int64_t now_ms)
{
  cJSON *now_seen = cJSON_CreateObject ();
  const cJSON *lease;

  *found = (struct rival){ 0 };
  cJSON_ArrayForEach (lease, json_get (list, "items"))
    {
      const char *namespace = json_str (lease, "metadata", "namespace");

      if (namespace == NULL || !text_eq (json_str (lease, "metadata", "name"), RIVAL_LEASE)
          || text_eq (namespace, own_namespace))
        continue;
      if (!found->active && is_live (lease, json_str (*seen, namespace), now_ms))
        {
          found->active = true;
          snprintf (found->namespace, sizeof (found->namespace), "%s", namespace);
          snprintf (found->holder, sizeof (found->holder), "%s", json_str (lease, "spec", "holderIdentity"));
        }
      json_set_str (now_seen, namespace, json_str (lease, "spec", "renewTime"));
    }
  cJSON_Delete (*seen);
  *seen = now_seen;
}

/* Said when it changes. Who has split the work already has read the warning. */
static void
tell (const struct rivals *r, const struct rival *before, const struct rival *found)
{
  if (found->active
      && !(before->active && text_eq (before->namespace, found->namespace) && text_eq (before->holder, found->holder)))
    {
      log_at (r->options.split ? LOG_INFO : LOG_WARN, "another RayCluster controller is active in this cluster",
              LF_STR ("lease", found->namespace), LF_STR ("lease_name", RIVAL_LEASE), LF_STR ("holder", found->holder),
              LF_STR ("remedy", r->options.split ? "none, if it leaves our RayClusters alone" : REMEDY));
    }
  else if (before->active && !found->active)
    log_info ("the other RayCluster controller is not active any more", LF_STR ("namespace", before->namespace),
              LF_STR ("holder", before->holder));
}

/* Not being allowed to look, for example in an install without a ClusterRole, is no trouble. */
static void
look (struct rivals *r)
{
  char path[] = PATH;
  const struct kube_request request = { .verb = KUBE_GET, .path = path, .timeout_ms = ANSWER_WITHIN_MS };
  cleanup_response struct kube_response response = { 0 };
  struct rival before = r->found, found;

  kube_do (r->options.client, &request, &response);
  if (!kube_ok (&response))
    {
      if (!r->failure_said)
        log_debug ("cannot look for another RayCluster controller", LF_STR ("error", response.error.message));
      r->failure_said = true;
      return;
    }
  rival_judge (&found, &r->seen, response.body, r->options.own_namespace, clock_wall_ms ());
  pthread_mutex_lock (&r->lock);
  r->found = found;
  pthread_mutex_unlock (&r->lock);
  tell (r, &before, &found);
}

/* ---- the thread ---- */

/* Until the next look is due; false when there is none any more. */
static bool
wait_for_next (struct rivals *r)
{
  int64_t next = clock_mono_ms () + LOOK_EVERY_MS;
  const struct timespec until = { .tv_sec = next / 1000, .tv_nsec = (next % 1000) * 1000000 };
  int ret = 0;
  bool stop;

  pthread_mutex_lock (&r->lock);
  while (!r->stop && ret != ETIMEDOUT)
    ret = pthread_cond_timedwait (&r->wake, &r->lock, &until);
  stop = r->stop;
  pthread_mutex_unlock (&r->lock);
  return !stop;
}

static void *
run (void *data)
{
  struct rivals *r = data;

  do
    look (r);
  while (wait_for_next (r));
  return NULL;
}

struct rivals *
rivals_start (const struct rivals_options *options)
{
  struct rivals *r = xcalloc (1, sizeof (*r));
  pthread_condattr_t attr;

  r->options = *options;
  pthread_mutex_init (&r->lock, NULL);
  pthread_condattr_init (&attr);
  pthread_condattr_setclock (&attr, CLOCK_MONOTONIC);
  pthread_cond_init (&r->wake, &attr);
  pthread_condattr_destroy (&attr);
  manager_thread_start (&r->thread, run, r, "rivals");
  return r;
}

void
rivals_found (struct rivals *r, struct rival *found)
{
  pthread_mutex_lock (&r->lock);
  *found = r->found;
  pthread_mutex_unlock (&r->lock);
}

void
rivals_stop (struct rivals *r)
{
  if (r == NULL)
    return;
  pthread_mutex_lock (&r->lock);
  r->stop = true;
  pthread_cond_signal (&r->wake);
  pthread_mutex_unlock (&r->lock);
  pthread_join (r->thread, NULL);
  pthread_cond_destroy (&r->wake);
  pthread_mutex_destroy (&r->lock);
  cJSON_Delete (r->seen);
  free (r);
}
