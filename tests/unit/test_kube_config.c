/* Kubeconfig files and the in-cluster service account: what is read, and what the message says when it cannot be. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <stdio.h>
#include <sys/stat.h>

#include "kube/kube_internal.h"

static char directory[] = "/tmp/kube-config-XXXXXX";

static char *
path_of (const char *name)
{
  return xasprintf ("%s/%s", directory, name);
}

static void
write_file (const char *name, const char *text)
{
  cleanup_free char *path = path_of (name);
  FILE *f = fopen (path, "w");

  assert_non_null (f);
  fputs (text, f);
  fclose (f);
}

static int
make_directory (void **state)
{
  (void) state;
  return mkdtemp (directory) == NULL;
}

static int
remove_directory (void **state)
{
  static const char *const names[]
      = { "config", "ca.pem", "key.pem", "cert.pem", "token", "ca.crt", "namespace", "second" };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (names); i++)
    {
      cleanup_free char *path = path_of (names[i]);

      unlink (path);
    }
  return rmdir (directory);
}

static int
load (struct kube_config *config, const char *yaml, struct error *err)
{
  cleanup_free char *path = path_of ("config");

  write_file ("config", yaml);
  return kube_config_load (config, path, err);
}

#define CONTEXT "contexts:\n- name: c\n  context: {cluster: k, user: u}\ncurrent-context: c\n"
#define CLUSTER "clusters:\n- name: k\n  cluster: {server: 'https://10.0.0.1:6443'}\n"

struct expectation
{
  const char *server, *namespace, *ca, *cert, *key, *token, *token_file, *tls_server_name, *proxy_url;
  bool insecure;
};

static void
assert_text (const char *case_name, const char *field, const char *actual, const char *expected)
{
  if (!text_eq (actual, expected))
    fail_msg ("%s: %s is \"%s\", not \"%s\"", case_name, field, log_nonnull (actual), log_nonnull (expected));
}

static void
what_a_kubeconfig_says (void **state)
{
  cleanup_free char *token_file = path_of ("token");
  const struct
  {
    const char *name, *yaml;
    struct expectation want;
  } cases[] = {
    { "embedded data, trailing slash, namespace",
      "clusters:\n- name: k\n  cluster: {server: 'https://h:1/', certificate-authority-data: Q0E=}\n"
      "users:\n- name: u\n  user: {client-certificate-data: Q0VSVA==, client-key-data: S0VZ}\n"
      "contexts:\n- name: c\n  context: {cluster: k, user: u, namespace: team}\ncurrent-context: c\n",
      { .server = "https://h:1", .namespace = "team", .ca = "CA", .cert = "CERT", .key = "KEY" } },
    { "files relative to the kubeconfig",
      "clusters:\n- name: k\n  cluster: {server: 'https://h', certificate-authority: ca.pem}\n"
      "users:\n- name: u\n  user: {client-certificate: cert.pem, client-key: key.pem}\n" CONTEXT,
      { .server = "https://h", .namespace = "default", .ca = "ca-file", .cert = "cert-file", .key = "key-file" } },
    { "data wins over files",
      "clusters:\n- name: k\n  cluster: {server: 'https://h', certificate-authority: nowhere, "
      "certificate-authority-data: Q0E=}\nusers: [{name: u, user: {token: t}}]\n" CONTEXT,
      { .server = "https://h", .namespace = "default", .ca = "CA", .token = "t" } },
    { "base64 folded over lines",
      "clusters:\n- name: k\n  cluster:\n    server: https://h\n    certificate-authority-data: |\n      Q0FD\n      "
      "QUNB\n"
      "users: [{name: u, user: {token: t}}]\n" CONTEXT,
      { .server = "https://h", .namespace = "default", .ca = "CACACA", .token = "t" } },
    { "token file wins over token",
      CLUSTER "users: [{name: u, user: {token: t, tokenFile: token}}]\n" CONTEXT,
      { .server = "https://10.0.0.1:6443", .namespace = "default", .token_file = token_file } },
    { "no verification, TLS name, proxy",
      "clusters:\n- name: k\n  cluster: {server: 'https://h', insecure-skip-tls-verify: true, tls-server-name: api, "
      "proxy-url: 'http://p:1'}\nusers: [{name: u, user: {token: t}}]\n" CONTEXT,
      { .server = "https://h",
        .namespace = "default",
        .token = "t",
        .tls_server_name = "api",
        .proxy_url = "http://p:1",
        .insecure = true } },
    { "current-context chooses",
      "clusters:\n- {name: a, cluster: {server: 'https://a'}}\n- {name: b, cluster: {server: 'https://b'}}\n"
      "users: [{name: u, user: {token: t}}]\ncontexts:\n- {name: a, context: {cluster: a, user: u}}\n"
      "- {name: b, context: {cluster: b, user: u}}\ncurrent-context: b\n",
      { .server = "https://b", .namespace = "default", .token = "t" } },
    { "a context without a user, plain HTTP",
      "clusters: [{name: k, cluster: {server: 'http://127.0.0.1:8001'}}]\n"
      "contexts: [{name: c, context: {cluster: k}}]\ncurrent-context: c\n",
      { .server = "http://127.0.0.1:8001", .namespace = "default" } },
    { "JSON is YAML",
      "{\"clusters\":[{\"name\":\"k\",\"cluster\":{\"server\":\"https://h\"}}],\"users\":[{\"name\":\"u\",\"user\":"
      "{\"token\":\"t\"}}],\"contexts\":[{\"name\":\"c\",\"context\":{\"cluster\":\"k\",\"user\":\"u\"}}],"
      "\"current-context\":\"c\"}",
      { .server = "https://h", .namespace = "default", .token = "t" } },
  };

  (void) state;
  write_file ("ca.pem", "ca-file");
  write_file ("cert.pem", "cert-file");
  write_file ("key.pem", "key-file");
  for (size_t i = 0; i < ARRAY_LEN (cases); i++)
    {
      const struct expectation *want = &cases[i].want;
      struct kube_config config;
      struct error err = { 0 };

      if (load (&config, cases[i].yaml, &err) != 0)
        fail_msg ("%s: %s", cases[i].name, err.message);
      assert_text (cases[i].name, "server", config.server, want->server);
      assert_text (cases[i].name, "namespace", config.namespace, want->namespace);
      assert_text (cases[i].name, "ca_pem", config.ca_pem, want->ca);
      assert_text (cases[i].name, "cert_pem", config.cert_pem, want->cert);
      assert_text (cases[i].name, "key_pem", config.key_pem, want->key);
      assert_text (cases[i].name, "token", config.token, want->token);
      assert_text (cases[i].name, "token_file", config.token_file, want->token_file);
      assert_text (cases[i].name, "tls_server_name", config.tls_server_name, want->tls_server_name);
      assert_text (cases[i].name, "proxy_url", config.proxy_url, want->proxy_url);
      assert_int_equal (config.insecure, want->insecure);
      kube_config_free (&config);
    }
}

static void
what_is_wrong_with_a_kubeconfig (void **state)
{
  static const struct
  {
    const char *name, *yaml;
    const char *says[3];
  } cases[] = {
    { "no YAML", "a: [1\nb", { "/config", "line" } },
    { "no object", "just text", { "expected one YAML object" } },
    { "no current-context", CLUSTER, { "current-context is not set", "kubectl config use-context" } },
    { "unknown context", "current-context: x\n" CLUSTER, { "no context named \"x\" under contexts" } },
    { "unknown cluster",
      "users: [{name: u, user: {token: t}}]\n" CONTEXT,
      { "context \"c\"", "no cluster named \"k\" under clusters" } },
    { "unknown user", CLUSTER CONTEXT, { "no user named \"u\" under users" } },
    { "no server",
      "clusters: [{name: k, cluster: {}}]\nusers: [{name: u, user: {token: t}}]\n" CONTEXT,
      { "cluster.server is \"\"", "https://" } },
    { "no https server",
      "clusters: [{name: k, cluster: {server: 'ftp://h'}}]\nusers: [{name: u, user: {token: t}}]\n" CONTEXT,
      { "cluster.server is \"ftp://h\"" } },
    { "bad base64",
      "clusters: [{name: k, cluster: {server: 'https://h', certificate-authority-data: '%%%'}}]\n"
      "users: [{name: u, user: {token: t}}]\n" CONTEXT,
      { "certificate-authority-data is not base64", "context \"c\"" } },
    { "missing file",
      "clusters: [{name: k, cluster: {server: 'https://h', certificate-authority: absent.pem}}]\n"
      "users: [{name: u, user: {token: t}}]\n" CONTEXT,
      { "certificate-authority", "absent.pem", "No such file" } },
    { "certificate without key",
      CLUSTER "users: [{name: u, user: {client-certificate-data: Q0VSVA==}}]\n" CONTEXT,
      { "client-certificate but no client-key" } },
    { "exec plugin", CLUSTER "users: [{name: u, user: {exec: {command: gke}}}]\n" CONTEXT, { "user.exec", "token" } },
    { "auth provider",
      CLUSTER "users: [{name: u, user: {auth-provider: {name: gcp}}}]\n" CONTEXT,
      { "user.auth-provider" } },
    { "user and password",
      CLUSTER "users: [{name: u, user: {username: a, password: b}}]\n" CONTEXT,
      { "user.username" } },
  };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (cases); i++)
    {
      struct kube_config config;
      struct error err = { 0 };

      if (load (&config, cases[i].yaml, &err) >= 0)
        fail_msg ("%s: was accepted", cases[i].name);
      assert_null (config.server);
      for (size_t j = 0; j < ARRAY_LEN (cases[i].says) && cases[i].says[j] != NULL; j++)
        if (strstr (err.message, cases[i].says[j]) == NULL)
          fail_msg ("%s: \"%s\" does not say \"%s\"", cases[i].name, err.message, cases[i].says[j]);
    }
}

static void
KUBECONFIG_names_the_first_file_that_exists (void **state)
{
  cleanup_free char *second = path_of ("second"), *list = xasprintf ("/nonexistent/a::%s:/nonexistent/b", second);
  struct kube_config config;
  struct error err = { 0 };

  (void) state;
  write_file ("second", CLUSTER "users: [{name: u, user: {token: t}}]\n" CONTEXT);
  setenv ("KUBECONFIG", list, 1);
  assert_int_equal (kube_config_load (&config, NULL, &err), 0);
  assert_string_equal (config.server, "https://10.0.0.1:6443");
  kube_config_free (&config);
  setenv ("KUBECONFIG", "/nonexistent/a", 1);
  assert_true (kube_config_load (&config, "", &err) < 0);
  assert_non_null (strstr (err.message, "/nonexistent/a"));
  unsetenv ("KUBECONFIG");
}

static void
nothing_to_go_by_is_said_with_a_remedy (void **state)
{
  struct kube_config config;
  struct error err = { 0 };

  (void) state;
  unsetenv ("KUBECONFIG");
  unsetenv ("KUBERNETES_SERVICE_HOST");
  setenv ("HOME", "/nonexistent", 1);
  assert_true (kube_config_load (&config, NULL, &err) < 0);
  assert_non_null (strstr (err.message, "/nonexistent/.kube/config does not exist"));
  assert_non_null (strstr (err.message, "name a kubeconfig file"));
}

static void
a_service_account_is_read_from_its_directory (void **state)
{
  cleanup_free char *token_file = path_of ("token");
  struct kube_config config = { 0 };
  struct error err = { 0 };

  (void) state;
  write_file ("ca.crt", "the CA");
  write_file ("namespace", "ray-system\n");
  assert_true (kube_config_in_cluster (&config, directory, "10.0.0.1", "443", &err) < 0);
  assert_non_null (strstr (err.message, "automountServiceAccountToken"));
  write_file ("token", "secret");
  assert_int_equal (kube_config_in_cluster (&config, directory, "10.0.0.1", "443", &err), 0);
  assert_string_equal (config.server, "https://10.0.0.1:443");
  assert_string_equal (config.namespace, "ray-system");
  assert_string_equal (config.ca_pem, "the CA");
  assert_string_equal (config.token_file, token_file);
  assert_null (config.token);
  kube_config_free (&config);
  assert_int_equal (kube_config_in_cluster (&config, directory, "fd00::1", NULL, &err), 0);
  assert_string_equal (config.server, "https://[fd00::1]:443");
  kube_config_free (&config);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (what_a_kubeconfig_says),
    cmocka_unit_test (what_is_wrong_with_a_kubeconfig),
    cmocka_unit_test (KUBECONFIG_names_the_first_file_that_exists),
    cmocka_unit_test (nothing_to_go_by_is_said_with_a_remedy),
    cmocka_unit_test (a_service_account_is_read_from_its_directory),
  };

  return cmocka_run_group_tests (tests, make_directory, remove_directory);
}
