/* config.h - where the API server is and how we prove who we are: kubeconfig files and the in-cluster service account.
 */
#ifndef KUBE_CONFIG_H
#define KUBE_CONFIG_H

#include "json/json.h"

struct kube_config
{
  char *server;    /* "https://127.0.0.1:6443", no trailing slash */
  char *namespace; /* of the context or the service account; "default" when none is given */
  char *ca_pem;    /* NULL: the system's CAs */
  char *cert_pem;  /* client certificate and key; NULL when a token is used */
  char *key_pem;
  char *token;      /* bearer token; NULL when a certificate or token_file is used */
  char *token_file; /* re-read at least once a minute, since service-account tokens rotate */
  char *tls_server_name;
  char *proxy_url; /* NULL: HTTPS_PROXY and NO_PROXY count, as for curl; a loopback server is never proxied */
  bool insecure;   /* insecure-skip-tls-verify */
};

/* path: a kubeconfig file; NULL or "" means $KUBECONFIG (first existing file of the list), else the in-cluster service
 * account when KUBERNETES_SERVICE_HOST is set, else ~/.kube/config. current-context is used. Relative file names are
 * relative to the kubeconfig. exec and auth-provider plugins and user/password are refused with a message that says so.
 * Errors name the file, the context and the field. On failure nothing is left to free. */
int kube_config_load (struct kube_config *config, const char *path, struct error *err);
void kube_config_free (struct kube_config *config);

#endif
