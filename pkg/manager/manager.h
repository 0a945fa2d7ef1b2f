/* manager.h - the process: flags, the order in which things start and stop, certificates and webhook configurations,
 * health, metrics. Not here: any decision about an object (tpu, ray), how requests travel (kube), how reviews are
 * answered (admission).
 *
 * Start: certificate and admission server; then client, informers and lease in parallel; ready when caches are synced,
 * the listener answers and the webhook configurations carry our CA. An API server that does not answer delays being
 * ready, nothing else; wrong flags, an unreadable kubeconfig or an address in use end the process.
 *
 * Stop (SIGTERM, SIGINT): not ready at once; no reconcile write any more; answers in flight are sent; the lease is
 * given back; events are flushed for a bounded time. A second signal ends the process at once. */
#ifndef MANAGER_MANAGER_H
#define MANAGER_MANAGER_H

#include "base/base.h"

#define MANAGER_KUBECONFIG_NONE "none"

/* What the flags say, in their order of --help. Texts belong to argv, the environment or the table of flags, unless
 * said otherwise. */
struct manager_options
{
  const char *kubeconfig; /* "": where kubectl would look; "none": no API access, hence admission only */
  bool enable_controller, enable_webhook;

  const char *webhook_address, *webhook_cert_file, *webhook_key_file;
  const char *webhook_url;                      /* "": the API server reaches us through webhook_service */
  const char *webhook_config, *webhook_service; /* names */
  const char *cert_secret;                      /* "": the certificate is kept in memory */
  struct manager_labels
  {
    char *items[4];                      /* NULL ends; owned */
  } accelerator_labels, topology_labels; /* of nodes, the first that a Pod selects by counts */
  bool strict;
  bool legacy_service_names; /* Pods without a subdomain are those of KubeRay before 1.4 */
  int64_t reservation_ms;

  const char *metrics_address, *health_address; /* "0": off */

  char **namespaces; /* watched; none: all. Owned */
  size_t nnamespaces;
  const char *selector; /* of RayClusters; "": all */
  int64_t workers, resync_ms;
  int64_t terminating_timeout_ms;
  const char *cluster_domain;
  bool init_container, probes, login_shell, head_cluster_ip, random_delete, redis_cleanup, fixed_head_name,
      kuberay_metrics;
  const char *config_file; /* "": none */
  struct cJSON *config;    /* its content (manager/config_file.h), NULL: none. Owned */

  bool leader_elect;
  const char *lease_name, *lease_namespace; /* namespace "": our own */
  int64_t lease_duration_ms, renew_deadline_ms, retry_period_ms;
  double qps;
  int64_t burst;

  int64_t log_level, log_format; /* enum log_level, enum log_format */
  bool test_no_injection;        /* the controller leaves the TPU environment to the webhook */

  const char *pod_name, *pod_namespace; /* who we are when we run in a cluster, else "" */
};

/* Reads flags, and the environment for what flags leave open. 0: run. 1: nothing to run, *text is what --help or
 * --version prints. -EINVAL: one sentence that names flag, value and what is allowed. */
int manager_options_parse (struct manager_options *options, int argc, char *const *argv, struct buf *text,
                           struct error *err);
void manager_options_free (struct manager_options *options);
#define cleanup_options __attribute__ ((cleanup (manager_options_free)))

/* Runs until it is told to stop; the process's exit code. */
int manager_run (const struct manager_options *options);

/* Flags and all: the whole of main(). */
int manager_main (int argc, char *const *argv);

#endif
