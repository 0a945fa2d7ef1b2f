#include "kube/kube_internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <openssl/evp.h>

#define FILE_LIMIT (4 * 1024 * 1024)
#define SERVICE_ACCOUNT_DIRECTORY "/var/run/secrets/kubernetes.io/serviceaccount"

/* The kubeconfig being read, for finding relative files and for saying where an error is. */
struct source
{
  const char *file;
  const char *context;
};

static char *
copy_or_null (const char *text)
{
  return text != NULL && text[0] != '\0' ? xstrdup (text) : NULL;
}

void
kube_config_free (struct kube_config *config)
{
  char **texts[]
      = { &config->server, &config->namespace,  &config->ca_pem,          &config->cert_pem, &config->key_pem,
          &config->token,  &config->token_file, &config->tls_server_name, &config->proxy_url };

  if (config->key_pem != NULL)
    explicit_bzero (config->key_pem, strlen (config->key_pem));
  if (config->token != NULL)
    explicit_bzero (config->token, strlen (config->token));
  for (size_t i = 0; i < ARRAY_LEN (texts); i++)
    free (*texts[i]);
  *config = (struct kube_config){ 0 };
}

void
kube_config_copy (struct kube_config *to, const struct kube_config *from)
{
  *to = (struct kube_config){
    .server = copy_or_null (from->server),
    .namespace = copy_or_null (from->namespace),
    .ca_pem = copy_or_null (from->ca_pem),
    .cert_pem = copy_or_null (from->cert_pem),
    .key_pem = copy_or_null (from->key_pem),
    .token = copy_or_null (from->token),
    .token_file = copy_or_null (from->token_file),
    .tls_server_name = copy_or_null (from->tls_server_name),
    .proxy_url = copy_or_null (from->proxy_url),
    .insecure = from->insecure,
  };
}

/* The base64 of a "…-data" field. YAML may have folded it, so white space does not count. */
static int
decode_base64 (char **out, const char *text, const struct source *source, const char *field, struct error *err)
{
  cleanup_free char *packed = xmalloc (strlen (text) + 1);
  cleanup_free char *decoded = NULL;
  size_t len = 0, padding = 0;
  int n;

  for (const char *p = text; *p != '\0'; p++)
    if (strchr (" \t\r\n", *p) == NULL)
      packed[len++] = *p;
  packed[len] = '\0';
  while (padding < len && padding < 2 && packed[len - padding - 1] == '=')
    padding++;
  decoded = xmalloc (len / 4 * 3 + 4);
  n = len > FILE_LIMIT ? -1 : EVP_DecodeBlock ((unsigned char *) decoded, (const unsigned char *) packed, (int) len);
  if (len == 0 || n < (int) padding)
    return error_set (err, EINVAL, "%s: context \"%s\": %s is not base64", source->file, source->context, field);
  decoded[(size_t) n - padding] = '\0';
  *out = take_ptr (decoded);
  return 0;
}

/* A file name as written in the kubeconfig, relative to its directory. */
static char *
resolve_path (const struct source *source, const char *name)
{
  const char *slash = strrchr (source->file, '/');

  if (name[0] == '/' || slash == NULL)
    return xstrdup (name);
  return xasprintf ("%.*s%s", (int) (slash - source->file + 1), source->file, name);
}

/* PEM from "<field>-data" if there, else from the file named by "<field>"; *out stays NULL when there is neither. */
static int
read_pem (char **out, const cJSON *object, const char *field, const struct source *source, struct error *err)
{
  cleanup_free char *data_field = xasprintf ("%s-data", field);
  const char *data = json_str (object, data_field), *name = json_str (object, field);
  cleanup_buf struct buf text = { 0 };
  cleanup_free char *path = NULL;
  int ret;

  if (data != NULL && data[0] != '\0')
    return decode_base64 (out, data, source, data_field, err);
  if (name == NULL || name[0] == '\0')
    return 0;
  path = resolve_path (source, name);
  ret = text_read_file (path, FILE_LIMIT, &text, err);
  if (ret < 0)
    return error_wrap (err, ret, "%s: context \"%s\": %s", source->file, source->context, field);
  *out = buf_take (&text);
  return 0;
}

/* The entry called `name` of a kubeconfig list, and in it the object at `key`. */
static int
find_entry (cJSON **out, const cJSON *root, const char *list, const char *key, const char *name,
            const struct source *source, struct error *err)
{
  const cJSON *entry = json_find (json_get (root, list), "name", name);

  *out = json_get (entry, key);
  if (entry == NULL)
    return error_set (err, ENOENT, "%s: context \"%s\": there is no %s named \"%s\" under %s", source->file,
                      source->context, key, name, list);
  return 0;
}

static int
read_cluster (struct kube_config *config, const cJSON *cluster, const struct source *source, struct error *err)
{
  const char *server = json_str (cluster, "server");
  size_t len = server ? strlen (server) : 0;

  if (server == NULL || !(text_starts_with (server, "https://") || text_starts_with (server, "http://")))
    return error_set (err, EINVAL, "%s: context \"%s\": cluster.server is \"%s\", not an https:// or http:// address",
                      source->file, source->context, server ? server : "");
  while (len > 0 && server[len - 1] == '/')
    len--;
  config->server = xstrndup (server, len);
  config->tls_server_name = copy_or_null (json_str (cluster, "tls-server-name"));
  config->proxy_url = copy_or_null (json_str (cluster, "proxy-url"));
  config->insecure = json_bool (cluster, false, "insecure-skip-tls-verify");
  return read_pem (&config->ca_pem, cluster, "certificate-authority", source, err);
}

static int
refuse_plugins (const cJSON *user, const struct source *source, struct error *err)
{
  static const struct
  {
    const char *field, *remedy;
  } refused[] = {
    { "exec", "credential plugins are not run here; use a service-account token or a client certificate" },
    { "auth-provider", "auth providers are not supported; use a service-account token or a client certificate" },
    { "username", "user name and password are not supported; use a token or a client certificate" },
  };

  for (size_t i = 0; i < ARRAY_LEN (refused); i++)
    if (json_get (user, refused[i].field) != NULL)
      return error_set (err, ENOTSUP, "%s: context \"%s\": user.%s: %s", source->file, source->context,
                        refused[i].field, refused[i].remedy);
  return 0;
}

static int
read_user (struct kube_config *config, const cJSON *user, const struct source *source, struct error *err)
{
  const char *token_file = json_str (user, "tokenFile");
  int ret = read_pem (&config->cert_pem, user, "client-certificate", source, err);

  if (ret == 0)
    ret = read_pem (&config->key_pem, user, "client-key", source, err);
  if (ret < 0)
    return ret;
  if ((config->cert_pem == NULL) != (config->key_pem == NULL))
    return error_set (err, EINVAL, "%s: context \"%s\": user has a client-%s but no client-%s; both are needed",
                      source->file, source->context, config->cert_pem ? "certificate" : "key",
                      config->cert_pem ? "key" : "certificate");
  /* As in client-go, a token file wins over a token: it is the one that is kept fresh. */
  if (token_file != NULL && token_file[0] != '\0')
    config->token_file = resolve_path (source, token_file);
  else
    config->token = copy_or_null (json_str (user, "token"));
  if (config->cert_pem == NULL && config->token == NULL && config->token_file == NULL)
    return refuse_plugins (user, source, err);
  return 0;
}

static int
read_context (struct kube_config *config, const cJSON *root, struct source *source, struct error *err)
{
  const char *current = json_str (root, "current-context"), *user_name, *cluster_name, *namespace;
  cJSON *context = NULL, *cluster = NULL, *user = NULL;
  int ret;

  if (current == NULL || current[0] == '\0')
    return error_set (err, EINVAL, "%s: current-context is not set; choose one with kubectl config use-context",
                      source->file);
  source->context = current;
  ret = find_entry (&context, root, "contexts", "context", current, source, err);
  if (ret < 0)
    return ret;
  cluster_name = json_str (context, "cluster");
  user_name = json_str (context, "user");
  namespace = json_str (context, "namespace");
  ret = find_entry (&cluster, root, "clusters", "cluster", cluster_name ? cluster_name : "", source, err);
  if (ret == 0 && user_name != NULL && user_name[0] != '\0')
    ret = find_entry (&user, root, "users", "user", user_name, source, err);
  if (ret < 0)
    return ret;
  config->namespace = xstrdup (namespace != NULL && namespace[0] != '\0' ? namespace : "default");
  ret = read_cluster (config, cluster, source, err);
  return ret < 0 ? ret : read_user (config, user, source, err);
}

static int
load_file (struct kube_config *config, const char *path, struct error *err)
{
  struct source source = { .file = path, .context = "" };
  cleanup_buf struct buf text = { 0 };
  cleanup_json cJSON *docs = NULL;
  int ret = text_read_file (path, FILE_LIMIT, &text, err);

  if (ret < 0)
    return error_wrap (err, ret, "kubeconfig");
  ret = yaml_parse (&docs, buf_text (&text), text.len, err);
  if (ret < 0)
    return error_wrap (err, ret, "kubeconfig %s", path);
  if (cJSON_GetArraySize (docs) != 1 || !cJSON_IsObject (docs->child))
    return error_set (err, EINVAL, "kubeconfig %s: expected one YAML object with clusters, users and contexts", path);
  ret = read_context (config, docs->child, &source, err);
  if (ret < 0)
    {
      kube_config_free (config);
      return error_wrap (err, ret, "kubeconfig");
    }
  return 0;
}

int
kube_config_in_cluster (struct kube_config *config, const char *directory, const char *host, const char *port,
                        struct error *err)
{
  cleanup_free char *ca_path = xasprintf ("%s/ca.crt", directory),
                    *namespace_path = xasprintf ("%s/namespace", directory);
  cleanup_free char *token_path = xasprintf ("%s/token", directory);
  cleanup_buf struct buf ca = { 0 }, namespace = { 0 };
  bool ipv6 = strchr (host, ':') != NULL && host[0] != '[';
  int ret = text_read_file (ca_path, FILE_LIMIT, &ca, err);

  if (ret < 0)
    return error_wrap (err, ret, "in-cluster configuration: the service account's CA");
  if (access (token_path, R_OK) < 0)
    return error_set (err, errno, "in-cluster configuration: %s: %s; is automountServiceAccountToken false?",
                      token_path, strerror (errno));
  if (text_read_file (namespace_path, 4096, &namespace, NULL) < 0 || namespace.len == 0)
    buf_str (&namespace, "default");
  *config = (struct kube_config){
    .server = xasprintf (ipv6 ? "https://[%s]:%s" : "https://%s:%s", host, port && port[0] ? port : "443"),
    .namespace = xstrndup (buf_text (&namespace), strcspn (buf_text (&namespace), " \r\n")),
    .ca_pem = buf_take (&ca),
    .token_file = take_ptr (token_path),
  };
  return 0;
}

/* The first file of the colon-separated list that exists; NULL when none does. */
static char *
first_existing (const char *list)
{
  while (list != NULL && *list != '\0')
    {
      size_t len = strcspn (list, ":");
      char *path = xstrndup (list, len);

      if (len > 0 && access (path, F_OK) == 0)
        return path;
      free (path);
      list += len + (list[len] == ':');
    }
  return NULL;
}

int
kube_config_load (struct kube_config *config, const char *path, struct error *err)
{
  const char *list = getenv ("KUBECONFIG"), *host = getenv ("KUBERNETES_SERVICE_HOST"), *home = getenv ("HOME");
  cleanup_free char *found = NULL;

  *config = (struct kube_config){ 0 };
  if (path != NULL && path[0] != '\0')
    return load_file (config, path, err);
  if (list != NULL && list[0] != '\0')
    {
      found = first_existing (list);
      return found ? load_file (config, found, err)
                   : error_set (err, ENOENT, "KUBECONFIG is \"%s\", but no such file exists", list);
    }
  if (host != NULL && host[0] != '\0')
    return kube_config_in_cluster (config, SERVICE_ACCOUNT_DIRECTORY, host, getenv ("KUBERNETES_SERVICE_PORT"), err);
  found = xasprintf ("%s/.kube/config", home ? home : "");
  if (access (found, F_OK) < 0)
    return error_set (
        err, ENOENT,
        "no way to reach an API server: KUBECONFIG is not set, this is no pod (KUBERNETES_SERVICE_HOST is "
        "not set), and %s does not exist; name a kubeconfig file",
        found);
  return load_file (config, found, err);
}
