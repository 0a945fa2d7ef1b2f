/* certs.c - the serving certificate: where it comes from, when it is replaced, and the order that makes a replacement
 * harmless: agreed upon (Secret), then trusted (webhook configurations), then used (server). One thread does all of it;
 * it is woken by the watch on the webhook configurations and by time. */
#include "manager/certs_internal.h"

#include <errno.h>
#include <string.h>

#define RETRY_BASE_MS 500
#define RETRY_CAP_MS 30000

static const struct pki_pair *
pair_of (const struct certs *c)
{
  return c->from_files ? &c->pair : &c->bundle.serving;
}

/* ---- names ---- */

static void
add_name (struct certs *c, char *name)
{
  size_t capacity = c->nnames;

  c->names = xgrow (c->names, c->nnames, &capacity, sizeof (char *));
  c->names[c->nnames++] = name;
}

/* The host of "https://host:port/path", without brackets. */
static char *
url_host (const char *url)
{
  const char *host = strstr (url, "://") + 3;

  if (host[0] == '[')
    return xstrndup (host + 1, strcspn (host + 1, "]"));
  return xstrndup (host, strcspn (host, ":/"));
}

static void
choose_names (struct certs *c)
{
  static const char *const local[] = { "localhost", "127.0.0.1", "::1" };
  const struct manager_options *o = c->options;
  const char *service = o->webhook_service;

  if (o->webhook_url[0] != '\0')
    {
      add_name (c, url_host (o->webhook_url));
      return;
    }
  /* The API server asks for the first; the others are for people. */
  add_name (c, xasprintf ("%s.%s.svc", service, c->namespace));
  add_name (c, xasprintf ("%s.%s.svc.%s", service, c->namespace, o->cluster_domain));
  add_name (c, xasprintf ("%s.%s", service, c->namespace));
  add_name (c, xstrdup (service));
  for (size_t i = 0; i < ARRAY_LEN (local) && strcmp (o->kubeconfig, MANAGER_KUBECONFIG_NONE) == 0; i++)
    add_name (c, xstrdup (local[i]));
}

/* ---- one turn of the thread ---- */

static char *
trust_of (const struct certs *c)
{
  /* A certificate from a file is trusted as it is: Go's verifier accepts a root that is the leaf itself. */
  return c->from_files ? xstrdup (c->pair.cert_pem) : pki_bundle_trust (&c->bundle);
}

static void
note_served (struct certs *c, const char *cert_pem, const struct pki_info *info)
{
  pthread_mutex_lock (&c->lock);
  c->served = *info;
  pthread_mutex_unlock (&c->lock);
  free (c->served_pem);
  c->served_pem = xstrdup (cert_pem);
}

/* Makes the present pair the one that is served. */
static int
serve (struct certs *c, struct error *err)
{
  const struct pki_pair *pair = pair_of (c);
  struct pki_info info = { 0 };
  int ret;

  if (strcmp (pair->cert_pem, c->served_pem) == 0)
    return 0;
  ret = pki_info (&info, pair->cert_pem, err);
  if (ret == 0)
    ret = admission_server_set_certificate (c->server, pair->cert_pem, pair->key_pem, err);
  if (ret < 0)
    return ret;
  log_info ("serving with another certificate", LF_STR ("subject", info.subject), LF_STR ("serial", info.serial));
  note_served (c, pair->cert_pem, &info);
  return 0;
}

static void
conclude (struct certs *c, int ret, const struct error *err)
{
  cleanup_free char *trust = c->from_files ? NULL : trust_of (c);
  bool news;

  pthread_mutex_lock (&c->lock);
  news = ret < 0 && strcmp (c->trouble.message, err->message) != 0;
  c->trouble = ret < 0 ? *err : (struct error){ 0 };
  c->settled = c->settled || ret == 0;
  free (c->trust_pem);
  c->trust_pem = take_ptr (trust);
  pthread_mutex_unlock (&c->lock);
  if (news)
    log_warn ("cannot bring the webhook's certificate up to date", LF_STR ("error", err->message));
}

static int64_t
retry_ms (int failures)
{
  int64_t ms = RETRY_BASE_MS;

  while (--failures > 0 && ms < RETRY_CAP_MS)
    ms *= 2;
  return ms < RETRY_CAP_MS ? ms : RETRY_CAP_MS;
}

/* Does what is due; returns the monotonic time of the next turn. */
static int64_t
turn (struct certs *c)
{
  cleanup_free char *trust = NULL;
  struct error err = { 0 };
  int64_t next = INT64_MAX;
  bool due = clock_mono_ms () >= c->refresh_ms;
  int ret = due ? certs_refresh (c, &err) : 0;

  if (due && ret < 0)
    {
      c->failures++;
      c->refresh_ms = clock_mono_ms () + retry_ms (c->failures);
      conclude (c, ret, &err);
    }
  trust = trust_of (c);
  if (c->hooks != NULL && (c->settled || (due && ret == 0)))
    next = clock_mono_ms () + hooks_sync (c->hooks, trust);
  if (due && ret == 0)
    {
      c->failures = 0;
      conclude (c, serve (c, &err), &err);
    }
  return next < c->refresh_ms ? next : c->refresh_ms;
}

static void *
run (void *data)
{
  struct certs *c = data;

  pthread_mutex_lock (&c->lock);
  while (!c->stop)
    {
      int64_t next;

      c->dirty = false;
      pthread_mutex_unlock (&c->lock);
      next = turn (c);
      pthread_mutex_lock (&c->lock);
      while (!c->stop && !c->dirty && clock_mono_ms () < next)
        {
          struct timespec until = { .tv_sec = next / 1000, .tv_nsec = (next % 1000) * 1000000 };

          pthread_cond_timedwait (&c->wake, &c->lock, &until);
        }
    }
  pthread_mutex_unlock (&c->lock);
  return NULL;
}

static void
hooks_changed (void *data)
{
  struct certs *c = data;

  pthread_mutex_lock (&c->lock);
  c->dirty = true;
  pthread_cond_signal (&c->wake);
  pthread_mutex_unlock (&c->lock);
}

/* ---- life ---- */

int
certs_new (struct certs **out, const struct manager_options *options, const char *namespace, struct error *err)
{
  struct certs *c = xcalloc (1, sizeof (*c));
  pthread_condattr_t attr;
  struct pki_info info;
  int ret;

  c->options = options;
  c->namespace = xstrdup (namespace);
  c->from_files = options->webhook_cert_file[0] != '\0';
  pthread_mutex_init (&c->lock, NULL);
  pthread_condattr_init (&attr);
  pthread_condattr_setclock (&attr, CLOCK_MONOTONIC);
  pthread_cond_init (&c->wake, &attr);
  pthread_condattr_destroy (&attr);
  choose_names (c);
  /* With a Secret, what is made here is what we propose: it is stored if there is none yet. */
  ret = certs_refresh (c, err);
  if (ret == 0)
    ret = pki_info (&info, pair_of (c)->cert_pem, err);
  if (ret < 0)
    {
      certs_free (c);
      return ret;
    }
  note_served (c, pair_of (c)->cert_pem, &info);
  *out = c;
  return 0;
}

const struct pki_pair *
certs_first (const struct certs *c)
{
  return pair_of (c);
}

void
certs_start (struct certs *c, struct admission_server *server, struct kube_client *client)
{
  const struct manager_options *o = c->options;
  /* Without a URL, a certificate from files is somebody else's, and so is telling the API server of it. */
  bool writes_hooks = client != NULL && (!c->from_files || o->webhook_url[0] != '\0');
  const struct hooks_options hooks = {
    .client = client,
    .name = o->webhook_config,
    .service = o->webhook_service,
    .namespace = c->namespace,
    .url = o->webhook_url,
    .namespaces = (const char *const *) o->namespaces,
    .nnamespaces = o->nnamespaces,
    .changed = hooks_changed,
    .data = c,
  };

  c->server = server;
  c->client = client;
  c->from_secret = client != NULL && !c->from_files && o->cert_secret[0] != '\0';
  c->settled = !c->from_secret;
  error_set (&c->trouble, EAGAIN, "Secret %s/%s has not been looked at yet", c->namespace, o->cert_secret);
  c->refresh_ms = 0;
  if (writes_hooks)
    c->hooks = hooks_start (&hooks);
  else if (!c->from_files)
    log_warn ("nobody can know our certificate without API access; give --webhook-cert-file and --webhook-key-file");
  manager_thread_start (&c->thread, run, c, "certs");
  c->running = true;
}

void
certs_stop (struct certs *c)
{
  if (!c->running)
    return;
  pthread_mutex_lock (&c->lock);
  c->stop = true;
  pthread_cond_signal (&c->wake);
  pthread_mutex_unlock (&c->lock);
  pthread_join (c->thread, NULL);
  c->running = false;
  if (c->hooks != NULL)
    hooks_withdraw (c->hooks);
}

void
certs_free (struct certs *c)
{
  if (c == NULL)
    return;
  hooks_stop (c->hooks);
  pki_bundle_free (&c->bundle);
  pki_pair_free (&c->pair);
  for (size_t i = 0; i < c->nnames; i++)
    free (c->names[i]);
  free (c->names);
  free (c->namespace);
  free (c->trust_pem);
  free (c->served_pem);
  pthread_cond_destroy (&c->wake);
  pthread_mutex_destroy (&c->lock);
  free (c);
}

/* ---- questions of other threads ---- */

bool
certs_ready (struct certs *c, struct error *why)
{
  int64_t now = clock_wall_ms ();
  bool ready = false;

  pthread_mutex_lock (&c->lock);
  if (!c->settled)
    *why = c->trouble;
  else if (now >= c->served.not_after_ms)
    error_set (why, EINVAL, "the serving certificate (%s) has expired", c->served.subject);
  else if (now < c->served.not_before_ms)
    error_set (why, EINVAL, "the serving certificate (%s) is not valid yet", c->served.subject);
  else
    ready = true;
  pthread_mutex_unlock (&c->lock);
  return ready && (c->hooks == NULL || hooks_ready (c->hooks, why));
}

int64_t
certs_expiry_ms (struct certs *c)
{
  int64_t expiry;

  pthread_mutex_lock (&c->lock);
  expiry = c->served.not_after_ms;
  pthread_mutex_unlock (&c->lock);
  return expiry;
}

void
certs_probe (struct certs *c, char **name, char **trust_pem)
{
  pthread_mutex_lock (&c->lock);
  *trust_pem = c->trust_pem != NULL ? xstrdup (c->trust_pem) : NULL;
  pthread_mutex_unlock (&c->lock);
  *name = xstrdup (c->names[0]);
}
