/* The flags: one table drives parsing, defaults, the environment and --help. */
#include "manager/config_file.h"
#include "manager/options.h"

#include <errno.h>
#include <string.h>

#define PROGRAM "ray-tpu-operator"
#define FIELD(name) offsetof (struct manager_options, name)
#define DAY_MS (INT64_C (24) * 60 * 60 * 1000)

/* Variables without a flag's prefix are KubeRay's switches (facts/kuberay.md §0.5). */
static const struct flag flags[] = {
  { "kubeconfig", &flag_text, FIELD (kubeconfig), "",
    "How to reach the API server; \"none\": not at all, then only admission requests are answered.", NULL, 0, 0,
    "$KUBECONFIG, the pod's service account, ~/.kube/config" },
  { "enable-controller", &flag_boolean, FIELD (enable_controller), "true", "Reconcile RayClusters.", NULL, 0, 0, NULL },
  { "enable-webhook", &flag_boolean, FIELD (enable_webhook), "true", "Answer admission requests.", NULL, 0, 0, NULL },

  { "webhook-bind-address", &flag_address, FIELD (webhook_address), ":9443", "Where admission requests are answered.",
    NULL, 0, 0, NULL },
  { "webhook-cert-file", &flag_text, FIELD (webhook_cert_file), "",
    "Serving certificate (chain, PEM); read again when it changes.", NULL, 0, 0, "one of our own making" },
  { "webhook-key-file", &flag_text, FIELD (webhook_key_file), "", "Its key (PEM).", NULL, 0, 0, NULL },
  { "webhook-url", &flag_url, FIELD (webhook_url), "",
    "Where the API server reaches us when we run outside the cluster. The webhook configurations are then\n"
    "        made to point there, and taken away or put back on a clean stop.",
    NULL, 0, 0, NULL },
  { "webhook-config-name", &flag_name, FIELD (webhook_config), PROGRAM,
    "Name of the mutating and the validating webhook configuration.", NULL, 0, 0, NULL },
  { "webhook-service-name", &flag_name, FIELD (webhook_service), PROGRAM "-webhook",
    "Service through which the API server reaches us inside the cluster.", NULL, 0, 0, NULL },
  { "cert-secret", &flag_name_or_empty, FIELD (cert_secret), NULL,
    "Secret of our namespace that keeps CA and serving certificate; \"\": only memory does.", NULL, 0, 0,
    PROGRAM "-webhook-cert when POD_NAMESPACE is set, else \"\"" },
  { "strict", &flag_boolean, FIELD (strict), "false",
    "Deny, instead of admit with a warning, TPU Pods that are wrong or cannot be placed, and what we fail on.", NULL, 0,
    0, NULL },

  { "tpu-accelerator-label", &flag_labels, FIELD (accelerator_labels),
    "cloud.google.com/gke-tpu-accelerator,cloud.google.com/gk8s-tpu-accelerator",
    "Label of nodes that names their TPU; of several the first that a Pod selects by counts.", NULL, 0, 0, NULL },
  { "tpu-topology-label", &flag_labels, FIELD (topology_labels),
    "cloud.google.com/gke-tpu-topology,cloud.google.com/gk8s-tpu-topology",
    "Label of nodes that names the topology of their slice.", NULL, 0, 0, NULL },
  { "kuberay-legacy-service-names", &flag_boolean, FIELD (legacy_service_names), "false",
    "Pods of KubeRay before 1.4, which cuts the names of long headless Services, are admitted.", NULL, 0, 0, NULL },
  { "place-reservation", &flag_duration, FIELD (reservation_ms), "90s",
    "How long a place in a TPU slice is kept for a Pod of a KubeRay without index labels that was admitted and\n"
    "        has not been seen yet. Longer than the API server takes for a request, which is a minute.",
    NULL, 1000, DAY_MS, NULL },

  { "metrics-bind-address", &flag_address_or_off, FIELD (metrics_address), ":8080", "Where /metrics is; 0: nowhere.",
    NULL, 0, 0, NULL },
  { "health-bind-address", &flag_address_or_off, FIELD (health_address), ":8082",
    "Where /healthz and /readyz are; 0: nowhere.", NULL, 0, 0, NULL },
  { "enable-kuberay-metrics", &flag_boolean, FIELD (kuberay_metrics), "true",
    "/metrics has KubeRay's series about RayClusters, three for each.", NULL, 0, 0, NULL },

  { "watch-namespaces", &flag_namespaces, FIELD (namespaces), "", "Only RayClusters and Pods of these.", NULL, 0, 0,
    "all" },
  { "watch-selector", &flag_selector, FIELD (selector), "",
    "Only RayClusters with these labels are reconciled; admission is for all.", NULL, 0, 0, "all" },
  { "workers", &flag_number, FIELD (workers), "4", "RayClusters reconciled at the same time.", NULL, 1, 64, NULL },
  { "resync-period", &flag_duration, FIELD (resync_ms), "300s",
    "How often a RayCluster is looked at even if nothing happens; one that is not provisioned, every 30s at least.",
    "RAYCLUSTER_DEFAULT_REQUEUE_SECONDS_ENV", 1000, DAY_MS, NULL },
  { "terminating-timeout", &flag_duration, FIELD (terminating_timeout_ms), "30s",
    "How long past its grace period a Terminating Pod keeps its place from being filled.", NULL, 0, DAY_MS, NULL },
  { "cluster-domain", &flag_domain, FIELD (cluster_domain), "cluster.local", "DNS domain of the cluster.",
    "CLUSTER_DOMAIN", 0, 0, NULL },
  { "inject-init-container", &flag_boolean, FIELD (init_container), "true",
    "Workers wait for the head in an init container.", "ENABLE_INIT_CONTAINER_INJECTION", 0, 0, NULL },
  { "inject-probes", &flag_boolean, FIELD (probes), "true", "Ray containers get liveness and readiness probes.",
    "ENABLE_PROBES_INJECTION", 0, 0, NULL },
  { "login-shell", &flag_boolean, FIELD (login_shell), "false", "Ray is started by a login shell.",
    "ENABLE_LOGIN_SHELL", 0, 0, NULL },
  { "head-cluster-ip-service", &flag_boolean, FIELD (head_cluster_ip), "false",
    "The head's Service gets a cluster IP instead of being headless.", "ENABLE_RAY_HEAD_CLUSTER_IP_SERVICE", 0, 0,
    NULL },
  { "deterministic-head-pod-name", &flag_boolean, FIELD (fixed_head_name), "false",
    "The head's Pod is named CLUSTER-head.", "ENABLE_DETERMINISTIC_HEAD_POD_NAME", 0, 0, NULL },
  { "redis-cleanup", &flag_boolean, FIELD (redis_cleanup), "true",
    "RayClusters with fault tolerance in Redis end with a Job that removes their state from it.",
    "ENABLE_GCS_FT_REDIS_CLEANUP", 0, 0, NULL },
  { "config", &flag_text, FIELD (config_file), "",
    "KubeRay's Configuration (YAML): sidecars, variables, labels and annotations of every Ray pod. Fields that are\n"
    "        flags here count where the flag is not given.",
    NULL, 0, 0, "none" },
  { "random-pod-delete", &flag_boolean, FIELD (random_delete), "false",
    "Scale down also where the Ray autoscaler is to name the victims.", "ENABLE_RANDOM_POD_DELETE", 0, 0, NULL },

  { "leader-elect", &flag_boolean, FIELD (leader_elect), NULL, "Reconcile only while holding a Lease.", NULL, 0, 0,
    "true when POD_NAMESPACE is set, else false" },
  { "leader-elect-resource-name", &flag_name, FIELD (lease_name), PROGRAM, "Name of the Lease.", NULL, 0, 0, NULL },
  { "leader-elect-resource-namespace", &flag_name_or_empty, FIELD (lease_namespace), "", "Namespace of the Lease.",
    NULL, 0, 0, "our own" },
  { "leader-elect-lease-duration", &flag_duration, FIELD (lease_duration_ms), "15s",
    "How long others wait before they take a Lease that is not renewed.", NULL, 1000, DAY_MS, NULL },
  { "leader-elect-renew-deadline", &flag_duration, FIELD (renew_deadline_ms), "10s",
    "How long the leader goes on without having renewed the Lease.", NULL, 500, DAY_MS, NULL },
  { "leader-elect-retry-period", &flag_duration, FIELD (retry_period_ms), "2s", "Time between two tries.", NULL, 100,
    DAY_MS, NULL },
  { "kube-api-qps", &flag_rate, FIELD (qps), "0", "Requests per second to the API server; 0: as many as it takes.",
    NULL, 0, 1000000, NULL },
  { "kube-api-burst", &flag_number, FIELD (burst), "0", "Requests beyond --kube-api-qps at a time; 0: twice as many.",
    NULL, 0, 1000000, NULL },

  { "log-level", &flag_log_level, FIELD (log_level), "info", "What is logged: debug, info, warn or error.", NULL, 0, 0,
    NULL },
  { "log-format", &flag_log_format, FIELD (log_format), "text", "How: text or json, on standard error.", NULL, 0, 0,
    NULL },
  { "test-disable-controller-injection", &flag_boolean, FIELD (test_no_injection), "false", NULL, NULL, 0, 0, NULL },
};

#define NFLAGS ARRAY_LEN (flags)

static int
set_value (struct manager_options *options, const struct flag *flag, const char *shown, const char *text,
           struct error *err)
{
  cleanup_buf struct buf allowed = { 0 };

  if (flag->kind->read (flag, (char *) options + flag->field, text))
    return 0;
  flag_describe_allowed (flag, &allowed);
  return error_set (err, EINVAL, "%s \"%s\" is not allowed: give %s", shown, text, allowed.data);
}

/* ---- --help ---- */

static void
print_help (struct buf *out)
{
  buf_str (out,
           "Usage: " PROGRAM " [--FLAG=VALUE]...\n\n"
           "Runs Ray and other workloads on multi-host Cloud TPU slices: reconciles RayClusters, and tells every Pod\n"
           "that asks for google.com/tpu its place in the slice.\n\n"
           "Flags:\n");
  for (size_t i = 0; i < NFLAGS; i++)
    {
      const struct flag *f = &flags[i];
      const char *preset = f->preset_doc ? f->preset_doc : f->preset;

      if (f->help == NULL)
        continue;
      buf_printf (out, "  --%s%s%s\n        %s", f->name, f->kind->placeholder ? "=" : "[=true|false]",
                  log_nonnull (f->kind->placeholder), f->help);
      if (preset != NULL && preset[0] != '\0')
        buf_printf (out, " Default: %s.", preset);
      if (f->variable != NULL)
        buf_printf (out, " Without the flag $%s counts.", f->variable);
      buf_char (out, '\n');
    }
  buf_str (out, "  --version\n        Prints the version.\n  --help\n        Prints this.\n");
}

/* ---- defaults, environment, arguments ---- */

static const char *
variable (const char *name)
{
  const char *value = getenv (name);

  return value ? value : "";
}

static int
set_presets (struct manager_options *options, struct error *err)
{
  options->pod_name = variable ("POD_NAME");
  options->pod_namespace = variable ("POD_NAMESPACE");
  options->leader_elect = options->pod_namespace[0] != '\0';
  options->cert_secret = options->leader_elect ? PROGRAM "-webhook-cert" : "";
  for (size_t i = 0; i < NFLAGS; i++)
    {
      const char *outside = flags[i].variable ? variable (flags[i].variable) : "";
      int ret = 0;

      if (outside[0] != '\0')
        ret = set_value (options, &flags[i], flags[i].variable, outside, err);
      else if (flags[i].preset != NULL)
        ret = set_value (options, &flags[i], flags[i].name, flags[i].preset, err);
      if (ret < 0)
        return ret;
    }
  return 0;
}

static const struct flag *
find_flag (const char *name, size_t len)
{
  for (size_t i = 0; i < NFLAGS; i++)
    if (strlen (flags[i].name) == len && strncmp (flags[i].name, name, len) == 0)
      return &flags[i];
  return NULL;
}

/* One flag with its value, argv[*i] and, when the value stands apart, the one after it. */
static int
read_flag (struct manager_options *options, int argc, char *const *argv, int *i, struct error *err)
{
  const char *argument = argv[*i], *value = strchr (argument, '=');
  size_t len = value != NULL ? (size_t) (value - argument) : strlen (argument);
  const struct flag *flag = find_flag (argument + 2, len - 2);
  cleanup_free char *shown = xstrndup (argument, len);
  cleanup_buf struct buf allowed = { 0 };

  if (flag == NULL)
    return error_set (err, EINVAL, "there is no flag %s: --help lists them", shown);
  if (value != NULL)
    return set_value (options, flag, shown, value + 1, err);
  if (flag->kind->placeholder == NULL)
    return set_value (options, flag, shown, "true", err);
  if (*i + 1 < argc && !text_starts_with (argv[*i + 1], "--"))
    return set_value (options, flag, shown, argv[++*i], err);
  flag_describe_allowed (flag, &allowed);
  return error_set (err, EINVAL, "%s needs a value: give %s", shown, allowed.data);
}

static int
read_arguments (struct manager_options *options, int argc, char *const *argv, struct buf *text, struct error *err)
{
  for (int i = 1; i < argc; i++)
    {
      int ret;

      if (strcmp (argv[i], "--help") == 0 || strcmp (argv[i], "-h") == 0)
        {
          print_help (text);
          return 1;
        }
      if (strcmp (argv[i], "--version") == 0)
        {
          buf_str (text, PROGRAM " " VERSION "\n");
          return 1;
        }
      if (!text_starts_with (argv[i], "--"))
        return error_set (err, EINVAL, "\"%s\" is no flag: all are written --flag=value, --help lists them", argv[i]);
      ret = read_flag (options, argc, argv, &i, err);
      if (ret < 0)
        return ret;
    }
  return 0;
}

/* ---- the configuration file ---- */

static int
set_from_config (void *data, const char *name, const char *text, struct error *err)
{
  const struct flag *flag = find_flag (name, strlen (name));

  return set_value (data, flag, name, text, err);
}

/* Its fields come before the arguments, which name it: hence these are read a second time. */
static int
read_config (struct manager_options *options, int argc, char *const *argv, struct error *err)
{
  cleanup_buf struct buf nowhere = { 0 };
  int ret;

  if (options->config_file[0] == '\0')
    return 0;
  ret = config_file_load (&options->config, options->config_file, err);
  if (ret == 0)
    ret = config_flags (options->config, set_from_config, options, err);
  return ret == 0 ? read_arguments (options, argc, argv, &nowhere, err) : ret;
}

/* ---- what only fits together or not ---- */

static int
check_work (const struct manager_options *o, struct error *err)
{
  bool offline = strcmp (o->kubeconfig, MANAGER_KUBECONFIG_NONE) == 0;

  if (!o->enable_controller && !o->enable_webhook)
    return error_set (err, EINVAL,
                      "--enable-controller and --enable-webhook are both false: nothing is left to do, remove one");
  if (offline && !o->enable_webhook)
    return error_set (
        err, EINVAL,
        "--kubeconfig none and --enable-webhook=false: without API access only admission works: remove one");
  if (offline && o->webhook_url[0] != '\0')
    return error_set (
        err, EINVAL,
        "--webhook-url \"%s\" and --kubeconfig none: nobody could write the webhook configurations: remove one",
        o->webhook_url);
  return 0;
}

static int
check_rest (const struct manager_options *o, struct error *err)
{
  if ((o->webhook_cert_file[0] == '\0') != (o->webhook_key_file[0] == '\0'))
    return error_set (err, EINVAL, "--webhook-cert-file \"%s\" and --webhook-key-file \"%s\": give both or none",
                      o->webhook_cert_file, o->webhook_key_file);
  if (o->renew_deadline_ms >= o->lease_duration_ms)
    return error_set (err, EINVAL,
                      "--leader-elect-renew-deadline (%gs) must be shorter than --leader-elect-lease-duration (%gs)",
                      (double) o->renew_deadline_ms / 1000, (double) o->lease_duration_ms / 1000);
  if (o->retry_period_ms * 2 > o->renew_deadline_ms)
    return error_set (err, EINVAL,
                      "--leader-elect-retry-period (%gs) must be at most half of --leader-elect-renew-deadline (%gs)",
                      (double) o->retry_period_ms / 1000, (double) o->renew_deadline_ms / 1000);
  if (o->burst > 0 && o->qps <= 0)
    return error_set (err, EINVAL, "--kube-api-burst without --kube-api-qps has no meaning: give both");
  return 0;
}

int
manager_options_parse (struct manager_options *options, int argc, char *const *argv, struct buf *text,
                       struct error *err)
{
  int ret;

  *options = (struct manager_options){ 0 };
  ret = set_presets (options, err);
  if (ret == 0)
    ret = read_arguments (options, argc, argv, text, err);
  if (ret == 0)
    ret = read_config (options, argc, argv, err);
  if (ret == 0)
    ret = check_work (options, err);
  if (ret == 0)
    ret = check_rest (options, err);
  if (ret != 0)
    manager_options_free (options);
  return ret;
}

void
manager_options_free (struct manager_options *options)
{
  for (size_t i = 0; i < options->nnamespaces; i++)
    free (options->namespaces[i]);
  free (take_ptr (options->namespaces));
  options->nnamespaces = 0;
  cJSON_Delete (take_ptr (options->config));
  flag_labels_free (&options->accelerator_labels);
  flag_labels_free (&options->topology_labels);
}
