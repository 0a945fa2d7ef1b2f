/* The configuration file (§5.1): what it says, what it may not say, and that the command line wins. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "manager/config_file.h"
#include "manager/manager.h"

static const char whole[] = "apiVersion: config.ray.io/v1alpha1\n"
                            "kind: Configuration\n"
                            "metricsAddr: ':9090'\n"
                            "reconcileConcurrency: 7\n"
                            "watchNamespace: a,b\n"
                            "enableLeaderElection: true\n"
                            "qps: 100\n"
                            "burst: 200\n"
                            "logStdoutEncoder: json\n"
                            "defaultContainerEnvs: [{name: A, value: x}]\n"
                            "defaultPodLabels: {team: t}\n"
                            "headSidecarContainers: [{name: s, image: i}]\n";

static void
test_errors (void **state)
{
  static const struct
  {
    const char *text, *words;
  } rows[] = {
    { "[]", "must be one object" },
    { "a: 1\n---\nb: 2\n", "2 documents" },
    { "nonsense: 1\n", "no field nonsense" },
    { "qps: many\n", "qps must be a number, not \"many\"" },
    { "enableLeaderElection: 1\n", "must be true or false" },
    { "defaultPodLabels: {a: 1}\n", "quote numbers" },
    { "headSidecarContainers: [{image: i}]\n", "each with a name" },
    { "a: [\n", "FILE" },
  };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (rows); i++)
    {
      cJSON *config;
      struct error err = { "" };

      assert_true (config_parse (&config, rows[i].text, strlen (rows[i].text), "FILE", &err) < 0);
      assert_null (config);
      if (strstr (err.message, rows[i].words) == NULL || strstr (err.message, "FILE") == NULL)
        fail_msg ("%s: %s", rows[i].text, err.message);
    }
}

static void
test_empty (void **state)
{
  struct ray_options ray = ray_default_options;
  cJSON *config;

  (void) state;
  assert_int_equal (config_parse (&config, "", 0, "FILE", NULL), 0);
  config_pods (config, &ray);
  assert_null (ray.default_env);
  cJSON_Delete (config);
}

static int
parse (struct manager_options *options, char *text, const char *flag, struct error *err)
{
  char name[] = "/tmp/raytpu-config-XXXXXX";
  cleanup_close int fd = mkstemp (name);
  cleanup_free char *argument = xasprintf ("--config=%s", name);
  cleanup_buf struct buf out = { 0 };
  char *argv[] = { "ray-tpu-operator", argument, (char *) (uintptr_t) flag };
  int ret;

  assert_true (fd >= 0);
  assert_int_equal (write (fd, text, strlen (text)), strlen (text));
  ret = manager_options_parse (options, flag != NULL ? 3 : 2, argv, &out, err);
  unlink (name);
  return ret;
}

static void
test_flags_by_another_name (void **state)
{
  cleanup_options struct manager_options options;
  cleanup_free char *text = xstrdup (whole);
  struct error err = { "" };
  struct ray_options ray = ray_default_options;

  (void) state;
  if (parse (&options, text, "--workers=3", &err) != 0)
    fail_msg ("%s", err.message);
  assert_string_equal (options.metrics_address, ":9090");
  assert_int_equal (options.workers, 3); /* the command line wins */
  assert_int_equal (options.nnamespaces, 2);
  assert_string_equal (options.namespaces[1], "b");
  assert_true (options.leader_elect);
  assert_true (options.qps > 99 && options.qps < 101);
  assert_int_equal (options.burst, 200);
  config_pods (options.config, &ray);
  assert_string_equal (json_str (cJSON_GetArrayItem (ray.default_env, 0), "value"), "x");
  assert_string_equal (json_str (ray.default_labels, "team"), "t");
  assert_string_equal (json_str (cJSON_GetArrayItem (ray.head_sidecars, 0), "image"), "i");
  assert_null (ray.worker_sidecars);
}

static void
test_a_value_that_its_flag_refuses (void **state)
{
  struct manager_options options;
  cleanup_free char *text = xstrdup ("reconcileConcurrency: 1000\n");
  struct error err = { "" };

  (void) state;
  assert_true (parse (&options, text, NULL, &err) < 0);
  assert_non_null (strstr (err.message, "reconcileConcurrency"));
  assert_non_null (strstr (err.message, "1 to 64"));
}

static void
test_no_such_file (void **state)
{
  char *argv[] = { "ray-tpu-operator", "--config=/nonexistent/config.yaml" };
  struct manager_options options;
  cleanup_buf struct buf out = { 0 };
  struct error err = { "" };

  (void) state;
  assert_true (manager_options_parse (&options, 2, argv, &out, &err) < 0);
  assert_non_null (strstr (err.message, "/nonexistent/config.yaml"));
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_errors),
    cmocka_unit_test (test_empty),
    cmocka_unit_test (test_flags_by_another_name),
    cmocka_unit_test (test_a_value_that_its_flag_refuses),
    cmocka_unit_test (test_no_such_file),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
