/* The text of /metrics: what a scraper demands of it, and the names dashboards rely on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <ctype.h>
#include <stdio.h>

#include "controller/controller_internal.h"
#include "manager/manager_internal.h"

static const struct admission_route routes[] = { { "/a", "pods", NULL, NULL }, { "/b", "rayclusters", NULL, NULL } };

/* A view with every part, each number another. */
static void
print_full (struct buf *out)
{
  struct controller_stats controller = { .reconciles = { [CONTROLLER_OK] = 11, [CONTROLLER_FAILED] = 2 },
                                         .duration = { 1, 2, 3 },
                                         .duration_sum_us = 1500000,
                                         .pods_created = 64,
                                         .clusters = 3,
                                         .pods = 70,
                                         .services = 6,
                                         .stale_ms = 1500,
                                         .queue = { .depth = 5, .oldest_ready_ms = 250 } };
  struct kube_client_stats client = { .retries = 9, .watch_starts = 6 };
  const struct admission_stats admission[2]
      = { { .allowed = 40, .denied = 1, .latency = { [3] = 41 }, .latency_sum_us = 8200 },
          { .denied = 2, .malformed = 3, .failed = 4 } };
  const uint64_t dropped = 8;
  const struct metrics_view view = {
    .version = "1.2.3",
    .controller = &controller,
    .client = &client,
    .routes = routes,
    .admission = admission,
    .nroutes = 2,
    .events_dropped = &dropped,
    .certificate_expiry_ms = 1800000000000,
    .leader = true,
    .start_ms = 1700000000500,
    .resident_bytes = 12345678901,
    .cpu_seconds = 1.25,
  };

  client.requests[KUBE_GET][2] = 21;
  client.requests[KUBE_POST][4] = 22;
  client.requests[KUBE_PATCH_MERGE][2] = 5;
  client.requests[KUBE_PATCH_JSON][2] = 6;
  client.requests[KUBE_GET][0] = 1;
  metrics_print (out, &view);
}

static void
test_values_are_under_their_names (void **state)
{
  static const char *const lines[] = {
    "ray_tpu_operator_build_info{version=\"1.2.3\"} 1",
    "ray_tpu_operator_reconcile_total{result=\"success\"} 11",
    "ray_tpu_operator_reconcile_total{result=\"error\"} 2",
    "ray_tpu_operator_reconcile_duration_seconds_bucket{le=\"+Inf\"} 6",
    "ray_tpu_operator_reconcile_duration_seconds_sum 1.500000",
    "ray_tpu_operator_reconcile_duration_seconds_count 6",
    "ray_tpu_operator_workqueue_depth 5",
    "ray_tpu_operator_workqueue_oldest_seconds 0.25",
    "ray_tpu_operator_pods_created_total 64",
    "ray_tpu_operator_cache_objects{kind=\"raycluster\"} 3",
    "ray_tpu_operator_cache_objects{kind=\"pod\"} 70",
    "ray_tpu_operator_cache_objects{kind=\"service\"} 6",
    "ray_tpu_operator_cache_stale_seconds 1.5",
    "ray_tpu_operator_leader 1",
    "ray_tpu_operator_admission_reviews_total{webhook=\"pods\",verdict=\"allowed\"} 40",
    "ray_tpu_operator_admission_reviews_total{webhook=\"pods\",verdict=\"denied\"} 1",
    "ray_tpu_operator_admission_reviews_total{webhook=\"rayclusters\",verdict=\"malformed\"} 3",
    "ray_tpu_operator_admission_reviews_total{webhook=\"rayclusters\",verdict=\"failed\"} 4",
    "ray_tpu_operator_admission_duration_seconds_count{webhook=\"pods\"} 41",
    "ray_tpu_operator_admission_duration_seconds_sum{webhook=\"pods\"} 0.008200",
    "ray_tpu_operator_api_requests_total{verb=\"get\",code=\"2xx\"} 21",
    "ray_tpu_operator_api_requests_total{verb=\"get\",code=\"none\"} 1",
    "ray_tpu_operator_api_requests_total{verb=\"create\",code=\"4xx\"} 22",
    "ray_tpu_operator_api_requests_total{verb=\"patch\",code=\"2xx\"} 11",
    "ray_tpu_operator_api_retries_total 9",
    "ray_tpu_operator_events_dropped_total 8",
    "ray_tpu_operator_webhook_certificate_expiry_timestamp_seconds 1800000000",
    "process_start_time_seconds 1700000000.5",
    "process_resident_memory_bytes 12345678901",
    "process_cpu_seconds_total 1.25",
  };
  cleanup_buf struct buf out = { 0 };

  (void) state;
  print_full (&out);
  for (size_t i = 0; i < sizeof (lines) / sizeof (lines[0]); i++)
    {
      cleanup_free char *line = xasprintf ("\n%s\n", lines[i]);

      if (strstr (out.data, line) == NULL)
        fail_msg ("no line \"%s\" in:\n%s", lines[i], out.data);
    }
}

/* A sample's metric: its name without the suffixes that histograms add. */
static void
metric_of (char out[128], const char *line)
{
  static const char *const suffixes[] = { "_bucket", "_sum", "_count" };
  size_t len = strcspn (line, "{ ");

  assert_true (len < 128);
  memcpy (out, line, len);
  out[len] = '\0';
  for (size_t i = 0; i < 3; i++)
    if (strstr (out, "_seconds_") != NULL && text_ends_with (out, suffixes[i]))
      out[strlen (out) - strlen (suffixes[i])] = '\0';
}

/* The rules of the text format that a scraper enforces: HELP and TYPE once per metric, before its samples, which stand
 * together; no sample twice; a number at the end. */
static size_t
assert_scrapable (const struct buf *out)
{
  char current[128] = "", name[128];
  char *rest, *line, *seen = NULL;
  size_t samples = 0;

  assert_int_equal (out->data[out->len - 1], '\n');
  cleanup_free char *copy = xstrdup (out->data);
  for (line = strtok_r (copy, "\n", &rest); line != NULL; line = strtok_r (NULL, "\n", &rest))
    {
      if (sscanf (line, "# HELP %127s", name) == 1)
        {
          cleanup_free char *type = xasprintf ("# TYPE %s ", name);

          assert_non_null (strstr (out->data, type));
          assert_null (strstr (strstr (out->data, type) + 1, type));
          strcpy (current, name);
          continue;
        }
      if (line[0] == '#')
        continue;
      samples++;
      metric_of (name, line);
      if (strcmp (name, current) != 0)
        fail_msg ("\"%s\" stands below the head of %s", line, current);
      cleanup_free char *series = xasprintf ("\n%.*s ", (int) (strrchr (line, ' ') - line), line);
      seen = strstr (out->data, series);
      assert_non_null (seen);
      if (strstr (seen + 1, series) != NULL)
        fail_msg ("twice: %s", line);
      assert_true (isdigit ((unsigned char) strrchr (line, ' ')[1]));
    }
  return samples;
}

static void
test_the_format_is_one_a_scraper_takes (void **state)
{
  cleanup_buf struct buf out = { 0 };

  (void) state;
  print_full (&out);
  assert_true (assert_scrapable (&out) > 60);
}

static void
test_buckets_grow (void **state)
{
  cleanup_buf struct buf out = { 0 };
  const char *at;
  double bound = -1;
  unsigned long long count = 0;

  (void) state;
  print_full (&out);
  at = out.data;
  for (int i = 0; i < ADMISSION_BUCKETS - 1; i++)
    {
      double next_bound;
      unsigned long long next_count;

      at = strstr (at, "admission_duration_seconds_bucket{webhook=\"pods\",le=\"");
      assert_non_null (at);
      assert_int_equal (
          sscanf (at, "admission_duration_seconds_bucket{webhook=\"pods\",le=\"%lf\"} %llu", &next_bound, &next_count),
          2);
      assert_true (next_bound > bound && next_count >= count);
      bound = next_bound;
      count = next_count;
      at++;
    }
  assert_int_equal (count, 41);
}

static void
test_parts_that_are_off_are_left_out (void **state)
{
  const struct metrics_view view = { .version = "1", .start_ms = 1 };
  cleanup_buf struct buf out = { 0 };

  (void) state;
  metrics_print (&out, &view);
  assert_null (strstr (out.data, "reconcile"));
  assert_null (strstr (out.data, "admission"));
  assert_null (strstr (out.data, "api_requests"));
  assert_null (strstr (out.data, "certificate"));
  assert_null (strstr (out.data, "leader"));
  assert_non_null (strstr (out.data, "build_info"));
}

static void
test_the_process_is_read (void **state)
{
  struct metrics_view view = { 0 };

  (void) state;
  metrics_read_process (&view);
  assert_true (view.resident_bytes > 100 * 1024);
  assert_true (view.cpu_seconds >= 0);
}

/* ---- KubeRay's series ---- */

static void
add_cluster (struct controller *c, struct cache_source *source, const char *name, const char *rest)
{
  cleanup_free char *text = xasprintf ("{\"metadata\":{\"name\":\"%s\",\"namespace\":\"ns\",\"uid\":\"u-%s\","
                                       "\"creationTimestamp\":\"2026-01-01T00:00:00Z\"%s}",
                                       name, name, rest);
  cleanup_json cJSON *object = NULL;
  struct error err = { 0 };

  if (json_parse (&object, text, strlen (text), &err) < 0)
    fail_msg ("%s: %s", name, err.message);
  cache_upsert (c->cache, source, object, 1);
}

#define PROVISIONED(status, since)                                                                                     \
  "},\"status\":{\"conditions\":[{\"type\":\"HeadPodReady\",\"status\":\"True\"},{\"type\":\"RayClusterProvisioned\"," \
  "\"status\":\"" status "\",\"lastTransitionTime\":\"" since "\"}]}"

static void
test_kuberays_series (void **state)
{
  static const char *const lines[] = {
    "# TYPE kuberay_cluster_info gauge",
    "kuberay_cluster_info{name=\"new\",namespace=\"ns\",uid=\"u-new\",owner_kind=\"None\"} 1",
    "kuberay_cluster_info{name=\"up\",namespace=\"ns\",uid=\"u-up\",owner_kind=\"RayJob\"} 1",
    "kuberay_cluster_condition_provisioned{name=\"new\",namespace=\"ns\",uid=\"u-new\",condition=\"false\"} 1",
    "kuberay_cluster_condition_provisioned{name=\"up\",namespace=\"ns\",uid=\"u-up\",condition=\"true\"} 1",
    "kuberay_cluster_condition_provisioned{name=\"down\",namespace=\"ns\",uid=\"u-down\",condition=\"false\"} 1",
    "kuberay_cluster_provisioned_duration_seconds{name=\"up\",namespace=\"ns\",uid=\"u-up\"} 90",
    "kuberay_cluster_provisioned_duration_seconds{name=\"skew\",namespace=\"ns\",uid=\"u-skew\"} 0",
  };
  const struct controller_options options = { 0 };
  struct controller *c = controller_new (&options);
  struct cache_source source = { .kind = CACHE_CLUSTER };
  cleanup_buf struct buf series = { 0 }, out = { 0 };
  const struct metrics_view view = { .version = "1", .kuberay = &series };

  (void) state;
  add_cluster (c, &source, "new", "}");
  add_cluster (c, &source, "up",
               ",\"labels\":{\"ray.io/originated-from-crd\":\"RayJob\"}" PROVISIONED ("True", "2026-01-01T00:01:30Z"));
  add_cluster (c, &source, "down", PROVISIONED ("False", "2026-01-01T00:01:30Z"));
  add_cluster (c, &source, "skew", PROVISIONED ("True", "2025-12-31T23:59:59Z"));
  kuberay_metrics_print (&series, c);
  controller_stop (c);
  metrics_print (&out, &view);
  for (size_t i = 0; i < sizeof (lines) / sizeof (lines[0]); i++)
    {
      cleanup_free char *line = xasprintf ("\n%s\n", lines[i]);

      if (strstr (out.data, line) == NULL)
        fail_msg ("no line \"%s\" in:\n%s", lines[i], out.data);
    }
  assert_null (strstr (out.data, "duration_seconds{name=\"new\""));
  assert_null (strstr (out.data, "duration_seconds{name=\"down\""));
  assert_scrapable (&out);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_values_are_under_their_names),
    cmocka_unit_test (test_the_format_is_one_a_scraper_takes),
    cmocka_unit_test (test_buckets_grow),
    cmocka_unit_test (test_parts_that_are_off_are_left_out),
    cmocka_unit_test (test_the_process_is_read),
    cmocka_unit_test (test_kuberays_series),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
