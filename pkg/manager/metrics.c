/* metrics.c - the Prometheus text format. Names are a promise to dashboards: add, do not rename. */
#include "manager/manager_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#define PREFIX "ray_tpu_operator_"

static void
head (struct buf *out, const char *name, const char *type, const char *help)
{
  buf_printf (out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void
single (struct buf *out, const char *name, const char *type, const char *help, double value)
{
  head (out, name, type, help);
  buf_printf (out, "%s %.15g\n", name, value);
}

/* Samples of one histogram. `label` is `name="value"` or "". Buckets are in microseconds and not cumulative. */
static void
histogram (struct buf *out, const char *name, const char *label, const int64_t *bounds, const uint64_t *buckets,
           size_t count, uint64_t sum_us)
{
  const char *comma = label[0] != '\0' ? "," : "";
  uint64_t total = 0;

  for (size_t i = 0; i < count; i++)
    {
      total += buckets[i];
      if (bounds[i] == INT64_MAX)
        buf_printf (out, "%s_bucket{%s%sle=\"+Inf\"} %" PRIu64 "\n", name, label, comma, total);
      else
        buf_printf (out, "%s_bucket{%s%sle=\"%.6g\"} %" PRIu64 "\n", name, label, comma, (double) bounds[i] / 1e6,
                    total);
    }
  if (label[0] != '\0')
    {
      buf_printf (out, "%s_sum{%s} %.6f\n", name, label, (double) sum_us / 1e6);
      buf_printf (out, "%s_count{%s} %" PRIu64 "\n", name, label, total);
    }
  else
    {
      buf_printf (out, "%s_sum %.6f\n", name, (double) sum_us / 1e6);
      buf_printf (out, "%s_count %" PRIu64 "\n", name, total);
    }
}

static void
print_controller (struct buf *out, const struct controller_stats *s)
{
  const struct
  {
    const char *kind;
    size_t count;
  } cached[] = { { "raycluster", s->clusters }, { "pod", s->pods }, { "service", s->services } };

  head (out, PREFIX "reconcile_total", "counter", "Passes over one RayCluster, by how they ended.");
  for (size_t i = 0; i < CONTROLLER_RESULT_MAX; i++)
    buf_printf (out, PREFIX "reconcile_total{result=\"%s\"} %" PRIu64 "\n",
                controller_result_name ((enum controller_result) i), s->reconciles[i]);
  head (out, PREFIX "reconcile_duration_seconds", "histogram", "Duration of a pass over one RayCluster.");
  histogram (out, PREFIX "reconcile_duration_seconds", "", controller_bucket_us, s->duration, CONTROLLER_BUCKETS,
             s->duration_sum_us);
  single (out, PREFIX "workqueue_depth", "gauge", "RayClusters waiting for a worker.", (double) s->queue.depth);
  single (out, PREFIX "workqueue_delayed", "gauge", "RayClusters to be looked at later.", (double) s->queue.delayed);
  single (out, PREFIX "workqueue_oldest_seconds", "gauge", "How long the RayCluster that waits longest has waited.",
          (double) s->queue.oldest_ready_ms / 1e3);
  single (out, PREFIX "workqueue_retries_total", "counter", "RayClusters put back after a failure.",
          (double) s->queue.retries);
  single (out, PREFIX "pods_created_total", "counter", "Pods created.", (double) s->pods_created);
  single (out, PREFIX "pods_deleted_total", "counter", "Pods deleted.", (double) s->pods_deleted);
  single (out, PREFIX "status_writes_total", "counter", "RayCluster statuses written.", (double) s->status_writes);
  single (out, PREFIX "operation_failures_total", "counter", "Creates, deletes and writes that failed.",
          (double) s->failures);
  single (out, PREFIX "cache_stale_seconds", "gauge",
          "For how long a watch that is needed has failed, of those the longest; above 60 nothing is reconciled.",
          (double) s->stale_ms / 1e3);
  head (out, PREFIX "cache_objects", "gauge", "Objects in the cache, by kind.");
  for (size_t i = 0; i < ARRAY_LEN (cached); i++)
    buf_printf (out, PREFIX "cache_objects{kind=\"%s\"} %zu\n", cached[i].kind, cached[i].count);
}

/* Merge and JSON patches are one verb to people. */
static bool
verb_shown_before (enum kube_verb verb)
{
  for (size_t i = 0; i < (size_t) verb; i++)
    if (text_eq (kube_verb_name ((enum kube_verb) i), kube_verb_name (verb)))
      return true;
  return false;
}

static uint64_t
requests_of (const struct kube_client_stats *s, const char *verb, size_t class)
{
  uint64_t sum = 0;

  for (size_t i = 0; i < KUBE_VERB_MAX; i++)
    if (text_eq (kube_verb_name ((enum kube_verb) i), verb))
      sum += s->requests[i][class];
  return sum;
}

static void
print_client (struct buf *out, const struct kube_client_stats *s)
{
  static const char *const classes[] = { "none", "1xx", "2xx", "3xx", "4xx", "5xx" };

  head (out, PREFIX "api_requests_total", "counter",
        "Requests to the API server by verb and class of the answer; none: no answer came.");
  for (size_t verb = 0; verb < KUBE_VERB_MAX; verb++)
    for (size_t class = 0; class < ARRAY_LEN (classes); class ++)
      {
        const char *name = kube_verb_name ((enum kube_verb) verb);
        uint64_t count = requests_of (s, name, class);

        if (count > 0 && !verb_shown_before ((enum kube_verb) verb))
          buf_printf (out, PREFIX "api_requests_total{verb=\"%s\",code=\"%s\"} %" PRIu64 "\n", name, classes[class],
                      count);
      }
  single (out, PREFIX "api_retries_total", "counter", "Requests to the API server that were sent again.",
          (double) s->retries);
  single (out, PREFIX "api_throttled_total", "counter", "Requests answered with 429.", (double) s->throttled);
  single (out, PREFIX "api_in_flight", "gauge", "Requests waiting for the API server's answer.", (double) s->in_flight);
  single (out, PREFIX "watch_starts_total", "counter", "Watches begun.", (double) s->watch_starts);
  single (out, PREFIX "watch_errors_total", "counter", "Watches that ended with an error.", (double) s->watch_errors);
}

static void
print_admission (struct buf *out, const struct metrics_view *view)
{
  char label[128];

  head (out, PREFIX "admission_reviews_total", "counter", "Admission requests, by webhook and verdict.");
  for (size_t i = 0; i < view->nroutes; i++)
    {
      const struct admission_stats *s = &view->admission[i];
      const struct
      {
        const char *verdict;
        uint64_t count;
      } verdicts[] = {
        { "allowed", s->allowed }, { "denied", s->denied }, { "failed", s->failed }, { "malformed", s->malformed }
      };

      for (size_t v = 0; v < ARRAY_LEN (verdicts); v++)
        buf_printf (out, PREFIX "admission_reviews_total{webhook=\"%s\",verdict=\"%s\"} %" PRIu64 "\n",
                    view->routes[i].name, verdicts[v].verdict, verdicts[v].count);
    }
  head (out, PREFIX "admission_duration_seconds", "histogram", "From the body of an admission request to the answer.");
  for (size_t i = 0; i < view->nroutes; i++)
    {
      snprintf (label, sizeof (label), "webhook=\"%s\"", view->routes[i].name);
      histogram (out, PREFIX "admission_duration_seconds", label, admission_bucket_us, view->admission[i].latency,
                 ADMISSION_BUCKETS, view->admission[i].latency_sum_us);
    }
}

void
metrics_print (struct buf *out, const struct metrics_view *view)
{
  head (out, PREFIX "build_info", "gauge", "Always 1; the version is a label.");
  buf_printf (out, PREFIX "build_info{version=\"%s\"} 1\n", view->version);
  if (view->controller != NULL)
    {
      print_controller (out, view->controller);
      single (out, PREFIX "leader", "gauge", "Whether this replica reconciles (1) or stands by (0).",
              view->leader ? 1 : 0);
      single (out, PREFIX "other_controller_active", "gauge",
              "Whether a live Lease " RIVAL_LEASE " says that KubeRay's controller runs in this cluster, too.",
              view->other_controller ? 1 : 0);
    }
  if (view->nroutes > 0)
    print_admission (out, view);
  if (view->client != NULL)
    print_client (out, view->client);
  if (view->events_dropped != NULL)
    single (out, PREFIX "events_dropped_total", "counter", "Events that could not be written.",
            (double) *view->events_dropped);
  if (view->kuberay != NULL)
    buf_str (out, buf_text (view->kuberay));
  if (view->certificate_expiry_ms > 0)
    single (out, PREFIX "webhook_certificate_expiry_timestamp_seconds", "gauge",
            "When the serving certificate expires.", (double) view->certificate_expiry_ms / 1e3);
  single (out, "process_start_time_seconds", "gauge", "When the process started, in seconds since the epoch.",
          (double) view->start_ms / 1e3);
  single (out, "process_resident_memory_bytes", "gauge", "Resident memory.", (double) view->resident_bytes);
  single (out, "process_cpu_seconds_total", "counter", "User and system CPU time.", view->cpu_seconds);
}

static double
seconds_of (const struct timeval *t)
{
  return (double) t->tv_sec + (double) t->tv_usec / 1e6;
}

void
metrics_read_process (struct metrics_view *view)
{
  cleanup_buf struct buf statm = { 0 };
  struct rusage usage;
  unsigned long long pages;

  if (text_read_file ("/proc/self/statm", 4096, &statm, NULL) == 0
      && sscanf (buf_text (&statm), "%*u %llu", &pages) == 1)
    view->resident_bytes = pages * (uint64_t) sysconf (_SC_PAGESIZE);
  if (getrusage (RUSAGE_SELF, &usage) == 0)
    view->cpu_seconds = seconds_of (&usage.ru_utime) + seconds_of (&usage.ru_stime);
}
