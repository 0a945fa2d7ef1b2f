/* hooks.c - the webhook configurations, watched and kept right. An informer mirrors each kind; only the one object of
 * our name is kept. All writing is done by the caller of hooks_sync. */
#include "manager/manager_internal.h"

#include <errno.h>
#include <string.h>

#define COLLECTION "/apis/admissionregistration.k8s.io/v1/"
#define MANAGED_BY "app.kubernetes.io/managed-by"
#define CHECK_MS 30000 /* the watch tells us at once; this is for what it missed */
#define BACKOFF_BASE_MS 200
#define FREE_REPAIRS 5 /* at once, before we suspect a quarrel */
#define REQUEST_TIMEOUT_MS 5000
#define FAREWELL_TIMEOUT_MS 2000
#define FAREWELL_PAUSE_MS 300 /* API servers learn of a change by a watch, which takes them a few milliseconds */

struct hook
{
  struct hooks *hooks;
  enum hook_kind kind;
  struct kube_informer *informer;

  /* guarded by hooks->lock */
  cJSON *object; /* as last seen, NULL: there is none */
  uint64_t version;
  uint64_t listed;      /* version in the list under way, if that has brought the object */
  bool known, seen;     /* a first list is complete; the list under way has brought the object */
  struct error trouble; /* "": as it should be */
  bool optional_absent; /* its absence is no reason not to be ready */

  /* the thread of hooks_sync */
  cJSON *replaced; /* the webhooks of somebody else that ours took the place of */
  int failures;    /* in a row */
  int repairs;     /* at short intervals: somebody writes against us */
  int64_t repaired_ms;
};

struct hooks
{
  struct hooks_options options;
  pthread_mutex_t lock;
  struct hook hooks[HOOK_KIND_MAX];
};

static const char *const plurals[HOOK_KIND_MAX] = {
  [HOOK_MUTATING] = "mutatingwebhookconfigurations",
  [HOOK_VALIDATING] = "validatingwebhookconfigurations",
};

/* ---- the mirror ---- */

/* An answer and the watch may bring the same news in either order: the newer counts. */
static void
store (struct hook *hook, const cJSON *object, uint64_t version)
{
  pthread_mutex_lock (&hook->hooks->lock);
  if (version == 0 || version >= hook->version)
    {
      cJSON_Delete (hook->object);
      hook->object = object != NULL ? cJSON_Duplicate (object, true) : NULL;
      hook->version = version;
    }
  pthread_mutex_unlock (&hook->hooks->lock);
}

static bool
is_ours (const struct hook *hook, const cJSON *object)
{
  return text_eq (json_str (object, "metadata", "name"), hook->hooks->options.name);
}

static void
notify (struct hook *hook)
{
  hook->hooks->options.changed (hook->hooks->options.data);
}

static void
on_upsert (void *data, const cJSON *object, uint64_t version)
{
  struct hook *hook = data;

  if (!is_ours (hook, object))
    return;
  hook->seen = true;
  hook->listed = version;
  store (hook, object, version);
  notify (hook);
}

static void
on_remove (void *data, const cJSON *object, uint64_t version)
{
  struct hook *hook = data;

  if (!is_ours (hook, object))
    return;
  store (hook, NULL, version);
  notify (hook);
}

static void
on_list_begin (void *data)
{
  struct hook *hook = data;

  hook->seen = false;
}

/* Whether what we know is newer than the list: the server has gone back in time, or, which another list clears up too,
 * a write of ours came after it. */
static bool
is_ahead (struct hook *hook, uint64_t list_version)
{
  bool ahead;

  pthread_mutex_lock (&hook->hooks->lock);
  ahead = hook->version > (hook->seen ? hook->listed : list_version);
  if (ahead)
    hook->version = 0;
  pthread_mutex_unlock (&hook->hooks->lock);
  return ahead;
}

static bool
on_list_end (void *data, uint64_t version)
{
  struct hook *hook = data;

  if (is_ahead (hook, version))
    return false;
  if (!hook->seen)
    store (hook, NULL, version);
  pthread_mutex_lock (&hook->hooks->lock);
  hook->known = true;
  pthread_mutex_unlock (&hook->hooks->lock);
  notify (hook);
  return true;
}

struct hooks *
hooks_start (const struct hooks_options *options)
{
  struct hooks *hooks = xcalloc (1, sizeof (*hooks));

  hooks->options = *options;
  pthread_mutex_init (&hooks->lock, NULL);
  for (size_t i = 0; i < HOOK_KIND_MAX; i++)
    {
      struct hook *hook = &hooks->hooks[i];
      cleanup_free char *path = xasprintf (COLLECTION "%s", plurals[i]);
      const struct kube_informer_options informer = { .path = path, .name = plurals[i], .page_size = 50 };
      const struct kube_informer_handler handler = { on_upsert, on_remove, on_list_begin, on_list_end, NULL, hook };

      hook->hooks = hooks;
      hook->kind = (enum hook_kind) i;
      error_set (&hook->trouble, EAGAIN, "%s %s has not been looked at yet", hook_kind_name (hook->kind),
                 options->name);
      hook->informer = kube_informer_start (options->client, &informer, &handler);
    }
  return hooks;
}

void
hooks_stop (struct hooks *hooks)
{
  if (hooks == NULL)
    return;
  for (size_t i = 0; i < HOOK_KIND_MAX; i++)
    {
      kube_informer_stop (hooks->hooks[i].informer);
      cJSON_Delete (hooks->hooks[i].object);
      cJSON_Delete (hooks->hooks[i].replaced);
    }
  pthread_mutex_destroy (&hooks->lock);
  free (hooks);
}

/* ---- writing ---- */

static uint64_t
version_of (const cJSON *object)
{
  const char *text = json_str (object, "metadata", "resourceVersion");
  int64_t version;

  return text != NULL && text_to_int (text, 0, INT64_MAX, &version) == 0 ? (uint64_t) version : 0;
}

/* Sends a write about one configuration; what the server made of it replaces what we knew. */
static int
send_write (struct hook *hook, enum kube_verb verb, const cJSON *body, int64_t timeout_ms, struct error *err)
{
  const struct hooks_options *o = &hook->hooks->options;
  cleanup_response struct kube_response response = { 0 };
  cleanup_free char *text = json_print (body);
  cleanup_free char *path = verb == KUBE_POST ? xasprintf (COLLECTION "%s", plurals[hook->kind])
                                              : xasprintf (COLLECTION "%s/%s", plurals[hook->kind], o->name);
  const struct kube_request request = { .verb = verb, .path = path, .body = text, .timeout_ms = timeout_ms };

  kube_do (o->client, &request, &response);
  if (!kube_ok (&response))
    return error_set (err, EIO, "%s", response.error.message);
  if (verb != KUBE_DELETE)
    store (hook, response.body, version_of (response.body));
  return 0;
}

static int
put_webhooks (struct hook *hook, const cJSON *object, const cJSON *webhooks, int64_t timeout_ms, struct error *err)
{
  cleanup_json cJSON *body = cJSON_Duplicate (object, true);

  json_set_str (body, "apiVersion", "admissionregistration.k8s.io/v1"); /* items of a list lack both */
  json_set_str (body, "kind", hook_kind_name (hook->kind));
  json_set_copy (body, "webhooks", webhooks);
  return send_write (hook, KUBE_PUT, body, timeout_ms, err);
}

static bool
made_by_us (const cJSON *object)
{
  return text_eq (json_str (object, "metadata", "labels", MANAGED_BY), MANAGER_NAME);
}

static int
create (struct hook *hook, const cJSON *webhooks, struct error *err)
{
  cleanup_json cJSON *body = cJSON_CreateObject ();
  cJSON *metadata = json_obj (body, "metadata");

  json_set_str (body, "apiVersion", "admissionregistration.k8s.io/v1");
  json_set_str (body, "kind", hook_kind_name (hook->kind));
  json_set_str (metadata, "name", hook->hooks->options.name);
  json_set_str (json_obj (metadata, "labels"), MANAGED_BY, MANAGER_NAME);
  json_set_copy (body, "webhooks", webhooks);
  return send_write (hook, KUBE_POST, body, REQUEST_TIMEOUT_MS, err);
}

/* ---- what should be, and is not ---- */

static int64_t
backoff_ms (int failures)
{
  int64_t ms = BACKOFF_BASE_MS;

  while (failures-- > 0 && ms < CHECK_MS)
    ms *= 2;
  return ms < CHECK_MS ? ms : CHECK_MS;
}

/* In how many ms the next write may be sent: two writers that disagree must not become a hot loop. */
static int64_t
pause_ms (struct hook *hook)
{
  int64_t since = clock_mono_ms () - hook->repaired_ms, pause;

  if (since > 2 * CHECK_MS)
    hook->repairs = 0;
  pause = hook->repairs < FREE_REPAIRS ? 0 : backoff_ms (hook->repairs - FREE_REPAIRS);
  return since < pause ? pause - since : 0;
}

static int
fought_over (const struct hook *hook, struct error *err)
{
  return error_set (err, EAGAIN, "%s %s is changed by somebody else again and again", hook_kind_name (hook->kind),
                    hook->hooks->options.name);
}

static void
log_written (const struct hook *hook, const char *what)
{
  log_info (what, LF_STR ("kind", hook_kind_name (hook->kind)), LF_STR ("name", hook->hooks->options.name));
}

static void
note_repair (struct hook *hook, const char *what)
{
  hook->repairs++;
  hook->repaired_ms = clock_mono_ms ();
  log_written (hook, what);
}

static bool
calls_us (const struct hook *hook, const cJSON *object)
{
  const cJSON *webhooks = json_get (object, "webhooks");
  const char *url = webhooks != NULL ? json_str (webhooks->child, "clientConfig", "url") : NULL;

  return url != NULL && text_starts_with (url, hook->hooks->options.url);
}

/* Before we write over what is somebody else's. */
static void
keep_replaced (struct hook *hook, const cJSON *object)
{
  if (made_by_us (object) || calls_us (hook, object))
    return;
  log_warn ("the webhook configuration is somebody else's; its webhooks are put back on a clean stop",
            LF_STR ("kind", hook_kind_name (hook->kind)), LF_STR ("name", hook->hooks->options.name));
  cJSON_Delete (hook->replaced);
  hook->replaced = cJSON_Duplicate (json_get (object, "webhooks"), true);
}

static int
sync_url (struct hook *hook, const cJSON *object, const char *ca_base64, struct error *err)
{
  const struct hooks_options *o = &hook->hooks->options;
  const struct hook_target target
      = { .url = o->url, .ca_base64 = ca_base64, .namespaces = o->namespaces, .nnamespaces = o->nnamespaces };
  cleanup_json cJSON *webhooks = hook_definition (hook->kind, &target);
  int ret;

  if (object != NULL && hook_covers (json_get (object, "webhooks"), webhooks))
    return 0;
  if (pause_ms (hook) > 0)
    return fought_over (hook, err);
  if (object != NULL)
    keep_replaced (hook, object);
  ret = object == NULL ? create (hook, webhooks, err) : put_webhooks (hook, object, webhooks, REQUEST_TIMEOUT_MS, err);
  if (ret == 0)
    note_repair (hook,
                 object == NULL ? "created the webhook configuration" : "pointed the webhook configuration at us");
  return ret;
}

static int
sync_service (struct hook *hook, const cJSON *object, const char *ca_base64, struct error *err)
{
  const struct hooks_options *o = &hook->hooks->options;
  cleanup_json cJSON *patch = NULL;
  size_t ours;
  int ret;

  if (object == NULL)
    return error_set (err, ENOENT, "there is no %s %s: apply the manifests, or name it by --webhook-config-name",
                      hook_kind_name (hook->kind), o->name);
  patch = hook_ca_patch (object, o->service, o->namespace, ca_base64, &ours);
  if (ours == 0)
    return error_set (err, ENOENT, "no webhook of %s %s calls Service %s/%s: see --webhook-service-name",
                      hook_kind_name (hook->kind), o->name, o->namespace, o->service);
  if (cJSON_GetArraySize (patch) == 0)
    return 0;
  if (pause_ms (hook) > 0)
    return fought_over (hook, err);
  ret = send_write (hook, KUBE_PATCH_JSON, patch, REQUEST_TIMEOUT_MS, err);
  if (ret == 0)
    note_repair (hook, "wrote our CA into the webhook configuration");
  return ret;
}

/* Keeps the outcome for hooks_ready, and says it when it is news. */
static void
conclude (struct hook *hook, bool absent, const struct error *outcome)
{
  bool news;

  pthread_mutex_lock (&hook->hooks->lock);
  news = strcmp (hook->trouble.message, outcome->message) != 0;
  hook->trouble = *outcome;
  /* The controller checks every RayCluster itself: whoever leaves this webhook out loses nothing but early answers. */
  hook->optional_absent = absent && hook->kind == HOOK_VALIDATING && hook->hooks->options.url[0] == '\0';
  pthread_mutex_unlock (&hook->hooks->lock);
  if (news && outcome->message[0] != '\0')
    log_warn ("webhook configuration is not as it should be", LF_STR ("error", outcome->message));
}

static int64_t
sync_one (struct hook *hook, const char *ca_base64)
{
  cleanup_json cJSON *object = NULL;
  struct error outcome = { 0 };
  bool known;
  int ret;

  pthread_mutex_lock (&hook->hooks->lock);
  known = hook->known;
  object = hook->object ? cJSON_Duplicate (hook->object, true) : NULL;
  pthread_mutex_unlock (&hook->hooks->lock);
  if (!known)
    {
      kube_informer_error (hook->informer, &outcome);
      pthread_mutex_lock (&hook->hooks->lock);
      if (outcome.message[0] != '\0') /* else the list has just ended, and we are called again */
        hook->trouble = outcome;
      pthread_mutex_unlock (&hook->hooks->lock); /* the informer logs its own failures */
      return CHECK_MS;
    }
  if (hook->hooks->options.url[0] != '\0')
    ret = sync_url (hook, object, ca_base64, &outcome);
  else
    ret = sync_service (hook, object, ca_base64, &outcome);
  conclude (hook, object == NULL, &outcome);
  hook->failures = ret == -EIO ? hook->failures + 1 : 0;
  if (ret == -EAGAIN)
    return pause_ms (hook);
  return ret == -EIO ? backoff_ms (hook->failures - 1) : CHECK_MS;
}

int64_t
hooks_sync (struct hooks *hooks, const char *ca_pem)
{
  cleanup_free char *ca_base64 = base64_encode (ca_pem);
  int64_t next = CHECK_MS;

  for (size_t i = 0; i < HOOK_KIND_MAX; i++)
    {
      int64_t ms = sync_one (&hooks->hooks[i], ca_base64);

      next = ms < next ? ms : next;
    }
  return next;
}

bool
hooks_ready (struct hooks *hooks, struct error *why)
{
  bool ready = true;

  pthread_mutex_lock (&hooks->lock);
  for (size_t i = 0; i < HOOK_KIND_MAX && ready; i++)
    {
      const struct hook *hook = &hooks->hooks[i];

      ready = hook->trouble.message[0] == '\0' || hook->optional_absent;
      if (!ready)
        *why = hook->trouble;
    }
  pthread_mutex_unlock (&hooks->lock);
  return ready;
}

/* ---- farewell ---- */

/* Whether the API server was told anything. */
static bool
withdraw_one (struct hook *hook)
{
  cleanup_json cJSON *object = NULL, *options = cJSON_CreateObject ();
  struct error err = { 0 };
  int ret;

  pthread_mutex_lock (&hook->hooks->lock);
  object = hook->object ? cJSON_Duplicate (hook->object, true) : NULL;
  pthread_mutex_unlock (&hook->hooks->lock);
  if (object == NULL)
    return false;
  if (hook->replaced == NULL && !made_by_us (object))
    {
      /* An earlier run of ours took it over and did not end cleanly: what it was before is not known. */
      log_warn ("the webhook configuration is somebody else's and is left calling our URL, where nobody answers now",
                LF_STR ("kind", hook_kind_name (hook->kind)), LF_STR ("name", hook->hooks->options.name));
      return false;
    }
  if (hook->replaced != NULL)
    ret = put_webhooks (hook, object, hook->replaced, FAREWELL_TIMEOUT_MS, &err);
  else
    {
      json_set_str (options, "apiVersion", "v1");
      json_set_str (options, "kind", "DeleteOptions");
      json_set_copy (json_obj (options, "preconditions"), "uid", json_get (object, "metadata", "uid"));
      ret = send_write (hook, KUBE_DELETE, options, FAREWELL_TIMEOUT_MS, &err);
    }
  if (ret < 0)
    log_warn ("cannot withdraw the webhook configuration; it keeps calling a URL where nobody answers",
              LF_STR ("name", hook->hooks->options.name), LF_STR ("error", err.message));
  else
    log_written (hook,
                 hook->replaced != NULL ? "put the webhook configuration back" : "deleted the webhook configuration");
  return ret == 0;
}

void
hooks_withdraw (struct hooks *hooks)
{
  bool told = false;

  for (size_t i = 0; i < HOOK_KIND_MAX && hooks->options.url[0] != '\0'; i++)
    told = withdraw_one (&hooks->hooks[i]) || told;
  if (told)
    clock_sleep_ms (FAREWELL_PAUSE_MS);
}
