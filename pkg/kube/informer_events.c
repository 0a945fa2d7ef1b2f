/* informer_events.c - what a list or a watch brings, told to the informer's owner. */
#include "kube/informer_internal.h"

#include <errno.h>
#include <string.h>

void
informer_set_text (char **to, const char *text)
{
  char *copy = text != NULL && text[0] != '\0' ? xstrdup (text) : NULL;

  free (*to);
  *to = copy;
}

uint64_t
informer_version (const char *text)
{
  int64_t n;

  return text != NULL && text_to_int (text, 0, INT64_MAX, &n) == 0 ? (uint64_t) n : 0;
}

static uint64_t
object_version (const cJSON *object)
{
  return informer_version (json_str (object, "metadata", "resourceVersion"));
}

int
informer_on_list_value (void *data, cJSON *value, bool last, struct error *err)
{
  struct kube_informer *inf = data;
  const char *version = json_str (value, "metadata", "resourceVersion");

  if (!last)
    {
      inf->handler.upsert (inf->handler.data, value, object_version (value));
      return 0;
    }
  if (version == NULL || version[0] == '\0')
    return error_set (err, EPROTO, "%s: the list has no metadata.resourceVersion; is this an API server?", inf->path);
  informer_set_text (&inf->version, version);
  informer_set_text (&inf->next_page, json_str (value, "metadata", "continue"));
  inf->list_complete = true;
  return 0;
}

static int
on_upsert (struct kube_informer *inf, const cJSON *object, struct error *err)
{
  (void) err;
  inf->handler.upsert (inf->handler.data, object, object_version (object));
  return 0;
}

static int
on_remove (struct kube_informer *inf, const cJSON *object, struct error *err)
{
  (void) err;
  inf->handler.remove (inf->handler.data, object, object_version (object));
  return 0;
}

static int
on_error_event (struct kube_informer *inf, const cJSON *object, struct error *err)
{
  const char *message = json_str (object, "message"), *reason = json_str (object, "reason");

  inf->gone = json_int (object, 0, "code") == 410 || text_eq (reason, "Expired") || text_eq (reason, "Gone");
  return error_set (err, EIO, "%s: the watch ended with an error: %s", inf->path,
                    message  ? message
                    : reason ? reason
                             : "no message");
}

static const struct event_type
{
  const char *name;
  int (*apply) (struct kube_informer *inf, const cJSON *object, struct error *err); /* NULL: only its version counts */
} event_types[] = {
  { "ADDED", on_upsert }, { "MODIFIED", on_upsert },   { "DELETED", on_remove },
  { "BOOKMARK", NULL },   { "ERROR", on_error_event },
};

static int
apply_event (struct kube_informer *inf, const char *type, const cJSON *object, struct error *err)
{
  for (size_t i = 0; i < ARRAY_LEN (event_types) && cJSON_IsObject (object); i++)
    if (text_eq (type, event_types[i].name))
      return event_types[i].apply ? event_types[i].apply (inf, object, err) : 0;
  return error_set (err, EPROTO,
                    "%s: the watch sent an event of type \"%s\" with %s as its object; expected ADDED, "
                    "MODIFIED, DELETED, BOOKMARK or ERROR with an object",
                    inf->path, log_nonnull (type), json_type_name (object));
}

int
informer_on_watch_value (void *data, cJSON *value, bool last, struct error *err)
{
  struct kube_informer *inf = data;
  const cJSON *object = json_get (value, "object");
  const char *version = json_str (object, "metadata", "resourceVersion");
  int ret = apply_event (inf, json_str (value, "type"), object, err);

  (void) last;
  if (ret < 0)
    return ret;
  if (version != NULL)
    informer_set_text (&inf->version, version);
  inf->watch_moved = true;
  inf->failures = 0;
  if (inf->handler.progress != NULL)
    inf->handler.progress (inf->handler.data, informer_version (inf->version));
  return 0;
}

/* ---- what cannot be read ---- */

/* Whoever may create one such object must not blind us for all others. */
static void
tell_unfit (const struct kube_informer *inf, const cJSON *object)
{
  log_warn ("an object is too large to be read: going on as if it did not exist", LF_STR ("resource", inf->name),
            LF_STR ("namespace", log_nonnull (json_str (object, "metadata", "namespace"))),
            LF_STR ("name", log_nonnull (json_str (object, "metadata", "name"))));
}

/* That it is not upserted between list_begin and list_end says that it is not there. */
int
informer_on_unfit_item (void *data, cJSON *value, bool last, struct error *err)
{
  (void) last;
  (void) err;
  tell_unfit (data, value);
  return 0;
}

int
informer_on_unfit_event (void *data, cJSON *value, bool last, struct error *err)
{
  const char *type = json_str (value, "type");

  tell_unfit (data, json_get (value, "object"));
  if (text_eq (type, "ADDED") || text_eq (type, "MODIFIED"))
    json_set_str (value, "type", "DELETED");
  return informer_on_watch_value (data, value, last, err);
}
