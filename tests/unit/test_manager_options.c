/* The operator's flags: what is taken, from where, and what is said about the rest. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>

#include "manager/manager.h"

#define ARGS_MAX 6

static int
parse (struct manager_options *o, const char *const *args, struct buf *text, struct error *err)
{
  char *argv[ARGS_MAX + 2] = { (char *) (uintptr_t) "ray-tpu-operator" };
  int argc = 1;

  for (; argc <= ARGS_MAX && args[argc - 1] != NULL; argc++)
    argv[argc] = (char *) (uintptr_t) args[argc - 1];
  return manager_options_parse (o, argc, argv, text, err);
}

static int
parse_fine (struct manager_options *o, const char *const *args)
{
  cleanup_buf struct buf text = { 0 };
  struct error err = { 0 };
  int ret = parse (o, args, &text, &err);

  assert_string_equal (err.message, "");
  return ret;
}

static void
test_defaults (void **state)
{
  cleanup_options struct manager_options o;

  (void) state;
  assert_int_equal (parse_fine (&o, (const char *const[]){ NULL }), 0);
  assert_string_equal (o.kubeconfig, "");
  assert_true (o.enable_controller && o.enable_webhook && o.init_container && o.probes);
  assert_false (o.strict || o.leader_elect || o.login_shell || o.head_cluster_ip || o.random_delete);
  assert_false (o.test_no_injection);
  assert_string_equal (o.webhook_address, ":9443");
  assert_string_equal (o.webhook_config, "ray-tpu-operator");
  assert_string_equal (o.webhook_service, "ray-tpu-operator-webhook");
  assert_string_equal (o.cert_secret, "");
  assert_string_equal (o.metrics_address, ":8080");
  assert_string_equal (o.health_address, ":8082");
  assert_string_equal (o.cluster_domain, "cluster.local");
  assert_int_equal (o.workers, 4);
  assert_int_equal (o.nnamespaces, 0);
  assert_int_equal (o.lease_duration_ms, 15000);
  assert_int_equal (o.renew_deadline_ms, 10000);
  assert_int_equal (o.retry_period_ms, 2000);
  assert_int_equal (o.terminating_timeout_ms, 30000);
  assert_int_equal (o.resync_ms, 300000);
  assert_string_equal (o.selector, "");
  assert_true (o.kuberay_metrics && o.redis_cleanup);
  assert_false (o.fixed_head_name);
  assert_true (o.qps == 0 && o.burst == 0);
  assert_int_equal (o.log_level, LOG_INFO);
  assert_int_equal (o.log_format, LOG_TEXT);
}

static void
test_both_ways_of_writing_a_value (void **state)
{
  cleanup_options struct manager_options o;
  const char *const args[] = { "--workers", "7", "--log-level=debug", "--strict", "--enable-controller=false", NULL };

  (void) state;
  assert_int_equal (parse_fine (&o, args), 0);
  assert_int_equal (o.workers, 7);
  assert_int_equal (o.log_level, LOG_DEBUG);
  assert_true (o.strict);
  assert_false (o.enable_controller);
}

static void
test_the_last_of_several_counts (void **state)
{
  cleanup_options struct manager_options o;
  const char *const args[]
      = { "--watch-namespaces=a,b", "--watch-namespaces=c,team-1", "--strict", "--strict=false", NULL };

  (void) state;
  assert_int_equal (parse_fine (&o, args), 0);
  assert_int_equal (o.nnamespaces, 2);
  assert_string_equal (o.namespaces[0], "c");
  assert_string_equal (o.namespaces[1], "team-1");
  assert_false (o.strict);
}

static void
test_durations (void **state)
{
  static const struct
  {
    const char *text;
    int64_t ms; /* -1: refused */
  } cases[] = { { "30", 30000 },   { "0", 0 },          { "1500ms", 1500 }, { "1.5s", 1500 }, { "1m30s", 90000 },
                { "2h", 7200000 }, { "24h", 86400000 }, { "25h", -1 },      { "", -1 },       { "s", -1 },
                { "5x", -1 },      { "5ms3", -1 },      { "-5s", -1 },      { "1.s", -1 },    { "5 s", -1 },
                { "0x10", -1 },    { "1e3s", -1 },      { "inf", -1 } };

  (void) state;
  for (size_t i = 0; i < sizeof (cases) / sizeof (cases[0]); i++)
    {
      cleanup_options struct manager_options o;
      cleanup_buf struct buf text = { 0 };
      cleanup_free char *flag = xasprintf ("--terminating-timeout=%s", cases[i].text);
      struct error err = { 0 };
      int ret = parse (&o, (const char *const[]){ flag, NULL }, &text, &err);

      if (ret != (cases[i].ms < 0 ? -EINVAL : 0) || (ret == 0 && o.terminating_timeout_ms != cases[i].ms))
        fail_msg ("\"%s\": %d, %lld ms, %s", cases[i].text, ret, (long long) o.terminating_timeout_ms, err.message);
    }
}

static void
test_label_keys (void **state)
{
  struct manager_options o;
  cleanup_buf struct buf text = { 0 };
  struct error err = { 0 };

  (void) state;
  assert_int_equal (parse (&o, (const char *[]){ NULL }, &text, &err), 0);
  assert_string_equal (o.topology_labels.items[0], "cloud.google.com/gke-tpu-topology");
  assert_string_equal (o.topology_labels.items[1], "cloud.google.com/gk8s-tpu-topology");
  assert_null (o.topology_labels.items[2]);
  assert_false (o.legacy_service_names);
  manager_options_free (&o);
  assert_int_equal (parse (&o,
                           (const char *[]){ "--tpu-topology-label=a,b,c", "--tpu-topology-label=x.io/T_1",
                                             "--kuberay-legacy-service-names", NULL },
                           &text, &err),
                    0);
  assert_string_equal (o.topology_labels.items[0], "x.io/T_1");
  assert_null (o.topology_labels.items[1]);
  assert_string_equal (o.accelerator_labels.items[0], "cloud.google.com/gke-tpu-accelerator");
  assert_true (o.legacy_service_names);
  manager_options_free (&o);
}

static void
test_a_wrong_flag_is_named_with_what_is_allowed (void **state)
{
  static const struct
  {
    const char *args[4];
    const char *said[3]; /* each is part of the sentence */
  } cases[] = {
    { { "--worker=3" }, { "--worker", "--help" } },
    { { "--workers=0" }, { "--workers", "\"0\"", "from 1 to 64" } },
    { { "--workers=4x" }, { "--workers", "\"4x\"", "whole number" } },
    { { "--workers" }, { "--workers", "needs a value" } },
    { { "--workers", "--strict" }, { "--workers", "needs a value" } },
    { { "--strict=maybe" }, { "--strict", "\"maybe\"", "true or false" } },
    { { "--strict", "false" }, { "\"false\"", "--flag=value" } },
    { { "-strict" }, { "\"-strict\"", "--flag=value" } },
    { { "--webhook-bind-address=9443" }, { "--webhook-bind-address", "\"9443\"", "host:port" } },
    { { "--webhook-bind-address=0" }, { "--webhook-bind-address", "\"0\"", "host:port" } },
    { { "--health-bind-address=:99999" }, { "--health-bind-address", "\":99999\"", "or 0" } },
    { { "--health-bind-address=::1:80" }, { "--health-bind-address", "\"::1:80\"", "[IPv6]" } },
    { { "--webhook-url=http://h" }, { "--webhook-url", "\"http://h\"", "https://" } },
    { { "--webhook-url=https://" }, { "--webhook-url", "https://host" } },
    { { "--webhook-url=https://h/?a" }, { "--webhook-url", "without" } },
    { { "--webhook-url=https://h/" }, { "--webhook-url", "trailing slash" } },
    { { "--webhook-config-name=A_b" }, { "--webhook-config-name", "\"A_b\"", "lower case" } },
    { { "--watch-namespaces=a,,b" }, { "--watch-namespaces", "\"a,,b\"", "commas" } },
    { { "--watch-namespaces=a," }, { "--watch-namespaces", "\"a,\"", "commas" } },
    { { "--watch-namespaces=a,B" }, { "--watch-namespaces", "\"a,B\"", "commas" } },
    { { "--tpu-topology-label=" }, { "--tpu-topology-label", "\"\"", "label keys" } },
    { { "--tpu-topology-label=a,,b" }, { "--tpu-topology-label", "\"a,,b\"", "commas" } },
    { { "--tpu-topology-label=a/b/c" }, { "--tpu-topology-label", "\"a/b/c\"", "label keys" } },
    { { "--tpu-topology-label=A_b/c" }, { "--tpu-topology-label", "\"A_b/c\"", "label keys" } },
    { { "--tpu-accelerator-label=-a" }, { "--tpu-accelerator-label", "\"-a\"", "label keys" } },
    { { "--tpu-accelerator-label=a,b,c,d,e" }, { "--tpu-accelerator-label", "\"a,b,c,d,e\"", "one to four" } },
    { { "--kuberay-legacy-service-names=1.3" }, { "--kuberay-legacy-service-names", "true or false" } },
    { { "--watch-selector=team a" }, { "--watch-selector", "\"team a\"", "label selector such as team=a" } },
    { { "--resync-period=0" }, { "--resync-period", "\"0\"", "from 1s" } },
    { { "--kube-api-qps=-1" }, { "--kube-api-qps", "\"-1\"", "0 for no limit" } },
    { { "--log-level=loud" }, { "--log-level", "\"loud\"", "debug, info, warn or error" } },
    { { "--log-format=xml" }, { "--log-format", "\"xml\"", "text or json" } },
    { { "--webhook-cert-file=c" }, { "--webhook-cert-file", "--webhook-key-file", "both" } },
    { { "--leader-elect-renew-deadline=15s" }, { "--leader-elect-renew-deadline", "--leader-elect-lease-duration" } },
    { { "--leader-elect-retry-period=6s" }, { "--leader-elect-retry-period", "--leader-elect-renew-deadline" } },
    { { "--kube-api-burst=5" }, { "--kube-api-burst", "--kube-api-qps" } },
    { { "--enable-controller=false", "--enable-webhook=false" }, { "--enable-controller", "--enable-webhook" } },
    { { "--kubeconfig=none", "--enable-webhook=false" }, { "--kubeconfig", "--enable-webhook" } },
    { { "--kubeconfig=none", "--webhook-url=https://h" }, { "--kubeconfig", "--webhook-url" } },
    { { "run" }, { "\"run\"", "--help" } },
  };

  (void) state;
  for (size_t i = 0; i < sizeof (cases) / sizeof (cases[0]); i++)
    {
      struct manager_options o;
      cleanup_buf struct buf text = { 0 };
      struct error err = { 0 };

      if (parse (&o, cases[i].args, &text, &err) != -EINVAL)
        fail_msg ("%s %s is taken", cases[i].args[0], cases[i].args[1] ? cases[i].args[1] : "");
      for (size_t s = 0; s < 3 && cases[i].said[s] != NULL; s++)
        if (strstr (err.message, cases[i].said[s]) == NULL)
          fail_msg ("%s: \"%s\" is not in: %s", cases[i].args[0], cases[i].said[s], err.message);
      assert_null (strchr (err.message, '\n'));
    }
}

static void
test_in_a_pod_the_certificate_is_shared_and_a_leader_elected (void **state)
{
  cleanup_options struct manager_options o, p;

  (void) state;
  setenv ("POD_NAMESPACE", "system", 1);
  setenv ("POD_NAME", "op-0", 1);
  assert_int_equal (parse_fine (&o, (const char *const[]){ NULL }), 0);
  assert_int_equal (parse_fine (&p, (const char *const[]){ "--leader-elect=false", "--cert-secret=", NULL }), 0);
  unsetenv ("POD_NAMESPACE");
  unsetenv ("POD_NAME");
  assert_true (o.leader_elect);
  assert_string_equal (o.cert_secret, "ray-tpu-operator-webhook-cert");
  assert_string_equal (o.pod_namespace, "system");
  assert_string_equal (o.pod_name, "op-0");
  assert_false (p.leader_elect);
  assert_string_equal (p.cert_secret, "");
}

static bool
has_resync (const struct manager_options *o)
{
  return o->resync_ms == 60000;
}

static bool
has_random_delete (const struct manager_options *o)
{
  return o->random_delete;
}

static bool
has_no_redis_cleanup (const struct manager_options *o)
{
  return !o->redis_cleanup;
}

static bool
has_no_init_container (const struct manager_options *o)
{
  return !o->init_container;
}

static bool
has_no_probes (const struct manager_options *o)
{
  return !o->probes;
}

static bool
has_head_cluster_ip (const struct manager_options *o)
{
  return o->head_cluster_ip;
}

static bool
has_fixed_head_name (const struct manager_options *o)
{
  return o->fixed_head_name;
}

static bool
has_login_shell (const struct manager_options *o)
{
  return o->login_shell;
}

static bool
has_domain (const struct manager_options *o)
{
  return strcmp (o->cluster_domain, "corp.example") == 0;
}

/* The switches people know from KubeRay (facts/kuberay.md §0.5), those that concern RayClusters. */
static const struct variable
{
  const char *name, *value, *flag; /* the flag says otherwise */
  bool (*is_set) (const struct manager_options *o);
} variables[] = {
  { "RAYCLUSTER_DEFAULT_REQUEUE_SECONDS_ENV", "60", "--resync-period=5m", has_resync },
  { "ENABLE_RANDOM_POD_DELETE", "true", "--random-pod-delete=false", has_random_delete },
  { "ENABLE_GCS_FT_REDIS_CLEANUP", "false", "--redis-cleanup", has_no_redis_cleanup },
  { "ENABLE_INIT_CONTAINER_INJECTION", "False", "--inject-init-container", has_no_init_container },
  { "ENABLE_PROBES_INJECTION", "FALSE", "--inject-probes", has_no_probes },
  { "ENABLE_RAY_HEAD_CLUSTER_IP_SERVICE", "True", "--head-cluster-ip-service=false", has_head_cluster_ip },
  { "ENABLE_DETERMINISTIC_HEAD_POD_NAME", "true", "--deterministic-head-pod-name=false", has_fixed_head_name },
  { "ENABLE_LOGIN_SHELL", "true", "--login-shell=false", has_login_shell },
  { "CLUSTER_DOMAIN", "corp.example", "--cluster-domain=cluster.local", has_domain },
};

static void
test_environment_counts_unless_a_flag_is_given (void **state)
{
  (void) state;
  for (size_t i = 0; i < sizeof (variables) / sizeof (variables[0]); i++)
    {
      const struct variable *v = &variables[i];
      cleanup_options struct manager_options unset, set, empty, flag;

      assert_int_equal (parse_fine (&unset, (const char *const[]){ NULL }), 0);
      setenv (v->name, v->value, 1);
      assert_int_equal (parse_fine (&set, (const char *const[]){ NULL }), 0);
      assert_int_equal (parse_fine (&flag, (const char *const[]){ v->flag, NULL }), 0);
      setenv (v->name, "", 1);
      assert_int_equal (parse_fine (&empty, (const char *const[]){ NULL }), 0);
      unsetenv (v->name);
      if (!v->is_set (&set) || v->is_set (&unset) || v->is_set (&empty) || v->is_set (&flag))
        fail_msg ("%s: unset %d, set %d, empty %d, flag %d", v->name, v->is_set (&unset), v->is_set (&set),
                  v->is_set (&empty), v->is_set (&flag));
    }
}

static void
test_a_wrong_variable_is_named (void **state)
{
  cleanup_buf struct buf text = { 0 };
  struct manager_options o;
  struct error err = { 0 };

  (void) state;
  setenv ("ENABLE_LOGIN_SHELL", "maybe", 1);
  assert_int_equal (parse (&o, (const char *const[]){ NULL }, &text, &err), -EINVAL);
  unsetenv ("ENABLE_LOGIN_SHELL");
  assert_non_null (strstr (err.message, "ENABLE_LOGIN_SHELL \"maybe\""));
}

static void
test_help_and_version (void **state)
{
  struct manager_options o;
  cleanup_buf struct buf help = { 0 }, version = { 0 };
  struct error err = { 0 };

  (void) state;
  assert_int_equal (parse (&o, (const char *const[]){ "--workers=2", "--help", NULL }, &help, &err), 1);
  assert_non_null (strstr (help.data, "--webhook-url=URL"));
  assert_non_null (strstr (help.data, "$ENABLE_LOGIN_SHELL"));
  assert_null (strstr (help.data, "test-disable"));
  assert_int_equal (parse (&o, (const char *const[]){ "--version", NULL }, &version, &err), 1);
  assert_string_equal (version.data, "ray-tpu-operator " VERSION "\n");
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_defaults),
    cmocka_unit_test (test_both_ways_of_writing_a_value),
    cmocka_unit_test (test_the_last_of_several_counts),
    cmocka_unit_test (test_durations),
    cmocka_unit_test (test_label_keys),
    cmocka_unit_test (test_a_wrong_flag_is_named_with_what_is_allowed),
    cmocka_unit_test (test_in_a_pod_the_certificate_is_shared_and_a_leader_elected),
    cmocka_unit_test (test_environment_counts_unless_a_flag_is_given),
    cmocka_unit_test (test_a_wrong_variable_is_named),
    cmocka_unit_test (test_help_and_version),
  };

  unsetenv ("POD_NAME");
  unsetenv ("POD_NAMESPACE");
  for (size_t i = 0; i < sizeof (variables) / sizeof (variables[0]); i++)
    unsetenv (variables[i].name);
  return cmocka_run_group_tests (tests, NULL, NULL);
}
