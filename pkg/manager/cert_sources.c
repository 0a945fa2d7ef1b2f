/* cert_sources.c - where the serving certificate comes from: files, our own making kept in memory, or our own making
 * kept in a Secret that all replicas share. */
#include "manager/certs_internal.h"

#include <errno.h>
#include <string.h>

#define FILE_POLL_MS 10000
#define SECRET_POLL_MS                                                                                                 \
  (INT64_C (10) * 60 * 1000) /* replicas and people change the Secret; nothing of that is urgent                       \
                              */
#define REQUEST_TIMEOUT_MS 5000
#define CONFLICTS_MAX 5
#define FILE_LIMIT ((size_t) 1024 * 1024)

/* ---- files ---- */

static struct stamp
stamp_of (const char *path)
{
  struct stat st;

  if (stat (path, &st) < 0)
    return (struct stamp){ .size = -1 };
  return (struct stamp){ .changed = st.st_mtim, .inode = st.st_ino, .size = st.st_size };
}

static bool
same_stamp (const struct stamp *a, const struct stamp *b)
{
  return a->changed.tv_sec == b->changed.tv_sec && a->changed.tv_nsec == b->changed.tv_nsec && a->inode == b->inode
         && a->size == b->size;
}

static int
read_pair (const struct manager_options *o, struct pki_pair *pair, struct error *err)
{
  cleanup_buf struct buf cert = { 0 }, key = { 0 };
  int ret = text_read_file (o->webhook_cert_file, FILE_LIMIT, &cert, err);

  if (ret == 0)
    ret = text_read_file (o->webhook_key_file, FILE_LIMIT, &key, err);
  if (ret < 0)
    return error_wrap (err, ret, "serving certificate");
  pair->cert_pem = buf_take (&cert);
  pair->key_pem = buf_take (&key);
  ret = pki_check_pair (pair, err);
  if (ret < 0)
    {
      pki_pair_free (pair);
      return error_wrap (err, ret, "--webhook-cert-file %s and --webhook-key-file %s", o->webhook_cert_file,
                         o->webhook_key_file);
    }
  return 0;
}

/* Reads the files when they have changed. Between the writing of one and of the other they do not fit together: the old
 * pair stays until they do. */
static int
refresh_files (struct certs *c, struct error *err)
{
  const struct stamp now[2] = { stamp_of (c->options->webhook_cert_file), stamp_of (c->options->webhook_key_file) };
  struct pki_pair pair = { 0 };
  int ret;

  c->refresh_ms = clock_mono_ms () + FILE_POLL_MS;
  if (c->pair.cert_pem != NULL && same_stamp (&now[0], &c->stamps[0]) && same_stamp (&now[1], &c->stamps[1]))
    return 0;
  ret = read_pair (c->options, &pair, err);
  if (ret < 0)
    return ret;
  pki_pair_free (&c->pair);
  c->pair = pair;
  c->stamps[0] = now[0];
  c->stamps[1] = now[1];
  return 0;
}

/* ---- our own making ---- */

static int
refresh_bundle (struct certs *c, struct pki_bundle *bundle, bool *changed, struct error *err)
{
  int64_t now = clock_wall_ms (), next = now;
  int ret = pki_bundle_refresh (bundle, (const char *const *) c->names, c->nnames, &pki_default_policy, now, changed,
                                &next, err);

  c->refresh_ms = clock_mono_ms () + (next - now);
  return ret;
}

static int
refresh_memory (struct certs *c, struct error *err)
{
  bool changed;

  return refresh_bundle (c, &c->bundle, &changed, err);
}

static void
copy_text (char **to, const char *from)
{
  *to = from != NULL ? xstrdup (from) : NULL;
}

static void
copy_bundle (struct pki_bundle *to, const struct pki_bundle *from)
{
  copy_text (&to->ca.cert_pem, from->ca.cert_pem);
  copy_text (&to->ca.key_pem, from->ca.key_pem);
  copy_text (&to->serving.cert_pem, from->serving.cert_pem);
  copy_text (&to->serving.key_pem, from->serving.key_pem);
  copy_text (&to->old_ca_pem, from->old_ca_pem);
}

static int
send_secret (struct certs *c, enum kube_verb verb, const cJSON *secret, struct kube_response *response)
{
  cleanup_free char *path
      = kube_object_path ("/api/v1", c->namespace, "secrets", verb == KUBE_POST ? NULL : c->options->cert_secret);
  cleanup_free char *body = secret ? json_print (secret) : NULL;
  const struct kube_request request = { .verb = verb, .path = path, .body = body, .timeout_ms = REQUEST_TIMEOUT_MS };

  kube_do (c->client, &request, response);
  return response->status;
}

static cJSON *
new_secret (const struct certs *c)
{
  cJSON *secret = cJSON_CreateObject ();

  json_set_str (secret, "apiVersion", "v1");
  json_set_str (secret, "kind", "Secret");
  json_set_str (json_obj (secret, "metadata"), "name", c->options->cert_secret);
  json_set_str (json_obj (secret, "metadata"), "namespace", c->namespace);
  json_set_str (json_obj (json_obj (secret, "metadata"), "labels"), "app.kubernetes.io/managed-by", MANAGER_NAME);
  json_set_str (secret, "type", "Opaque");
  return secret;
}

static void
adopt (struct certs *c, struct pki_bundle *bundle)
{
  pki_bundle_free (&c->bundle);
  c->bundle = *bundle;
  *bundle = (struct pki_bundle){ 0 };
}

/* One round: read, refresh, write what is new. 0; -EAGAIN when another replica was faster. */
static int
agree_once (struct certs *c, struct error *err)
{
  cleanup_response struct kube_response got = { 0 }, put = { 0 };
  cleanup_bundle struct pki_bundle bundle = { 0 };
  cleanup_json cJSON *secret = NULL;
  int status = send_secret (c, KUBE_GET, NULL, &got), ret;
  bool exists = kube_ok (&got), changed = false;

  if (!exists && status != 404)
    return error_set (err, EIO, "%s", got.error.message);
  if (exists)
    secret_read_bundle (&bundle, got.body);
  else
    copy_bundle (&bundle, &c->bundle);
  ret = refresh_bundle (c, &bundle, &changed, err);
  if (ret == 0 && (changed || !exists))
    {
      secret = exists ? take_ptr (got.body) : new_secret (c);
      secret_write_bundle (secret, &bundle);
      status = send_secret (c, exists ? KUBE_PUT : KUBE_POST, secret, &put);
      if (!kube_ok (&put))
        return error_set (err, status == 409 ? EAGAIN : EIO, "%s", put.error.message);
      log_info ("stored the webhook's certificate", LF_STR ("secret", c->options->cert_secret),
                LF_STR ("namespace", c->namespace));
    }
  if (ret == 0)
    adopt (c, &bundle);
  return ret;
}

static int
refresh_secret (struct certs *c, struct error *err)
{
  int64_t poll;
  int ret = -EAGAIN;

  for (int i = 0; i < CONFLICTS_MAX && ret == -EAGAIN; i++)
    ret = agree_once (c, err);
  poll = clock_mono_ms () + SECRET_POLL_MS;
  c->refresh_ms = c->refresh_ms < poll ? c->refresh_ms : poll;
  if (ret < 0)
    return error_wrap (err, ret, "Secret %s/%s", c->namespace, c->options->cert_secret);
  err->message[0] = '\0'; /* of a round that lost a race */
  return 0;
}

int
certs_refresh (struct certs *c, struct error *err)
{
  if (c->from_files)
    return refresh_files (c, err);
  return c->from_secret ? refresh_secret (c, err) : refresh_memory (c, err);
}
