/* documents.c - from FILE to objects: YAML or JSON text, several documents, Lists inside of them. */
#include "raytpu.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

/* Far beyond any manifest, yet nothing a machine chokes on: `-f /dev/zero` ends. */
#define FILE_MAX_BYTES ((size_t) 64 << 20)

/* ---- reading ---- */

static const char *
file_title (const char *file)
{
  return text_eq (file, "-") ? "standard input" : file;
}

/* Not through /dev/stdin, which cannot be opened when it is a socket. */
static int
read_stdin (struct buf *text, struct error *err)
{
  char chunk[65536];
  ssize_t n;

  while ((n = read (STDIN_FILENO, chunk, sizeof (chunk))) > 0)
    {
      if (text->len + (size_t) n > FILE_MAX_BYTES)
        return error_set (err, EFBIG, "standard input is larger than %zu bytes", FILE_MAX_BYTES);
      buf_add (text, chunk, (size_t) n);
    }
  return n < 0 ? error_set (err, errno, "cannot read standard input: %s", strerror (errno)) : 0;
}

/* How many bytes the character at p has; 0 when it is no UTF-8. A text that is cut ends in a NUL, which continues no
 * character. */
static size_t
utf8_length (const unsigned char *p)
{
  static const struct
  {
    unsigned char lead, last, low, high; /* first byte from..to, second byte from..to */
    size_t len;
  } rows[] = {
    { 0x00, 0x7f, 0, 0, 1 },       { 0xc2, 0xdf, 0x80, 0xbf, 2 }, { 0xe0, 0xe0, 0xa0, 0xbf, 3 },
    { 0xe1, 0xec, 0x80, 0xbf, 3 }, { 0xed, 0xed, 0x80, 0x9f, 3 }, { 0xee, 0xef, 0x80, 0xbf, 3 },
    { 0xf0, 0xf0, 0x90, 0xbf, 4 }, { 0xf1, 0xf3, 0x80, 0xbf, 4 }, { 0xf4, 0xf4, 0x80, 0x8f, 4 },
  };

  for (size_t i = 0; i < ARRAY_LEN (rows); i++)
    if (*p >= rows[i].lead && *p <= rows[i].last)
      {
        size_t n = rows[i].len;

        if (n > 1 && (p[1] < rows[i].low || p[1] > rows[i].high))
          return 0;
        for (size_t k = 2; k < n; k++)
          if ((p[k] & 0xc0) != 0x80)
            return 0;
        return n;
      }
  return 0;
}

static bool
is_utf8 (const char *text, size_t len)
{
  size_t n;

  for (size_t i = 0; i < len; i += n)
    {
      n = utf8_length ((const unsigned char *) text + i);
      if (n == 0)
        return false;
    }
  return true;
}

/* What may stand between two values: white space, and YAML's document separators. */
static size_t
skip_gap (const char *text, size_t at)
{
  for (;;)
    {
      bool line_start = at == 0 || text[at - 1] == '\n';

      at += strspn (text + at, " \t\r\n");
      line_start |= at > 0 && text[at - 1] == '\n';
      if (!line_start || !text_starts_with (text + at, "---") || strspn (text + at + 3, " \t\r\n") == 0)
        return at;
      at += strlen ("---");
    }
}

/* JSON values one after the other, as jq and kubectl write them; false when the text is anything else, or holds a NUL:
 * YAML's reader says in which line. It takes most JSON, but neither tabs nor escaped surrogate pairs. */
static bool
read_json (cJSON *docs, const char *text, size_t len)
{
  size_t at = skip_gap (text, 0);

  if (text[at] != '{' || !is_utf8 (text, len) || json_has_nul (text, len))
    return false;
  for (; at < len; at = skip_gap (text, at))
    {
      const char *end = NULL;
      cJSON *value = cJSON_ParseWithLengthOpts (text + at, len - at, &end, false);

      if (value == NULL)
        return false;
      json_push (docs, value);
      at = (size_t) (end - text);
    }
  return true;
}

/* YAML with its lines; else JSON as YAML's reader does not take it, without. */
static bool
read_with_lines (cJSON **docs, struct yaml_lines **lines, const struct buf *text)
{
  cJSON *found;

  if (yaml_parse_lines (&found, lines, text->data ? text->data : "", text->len, NULL) < 0)
    return false;
  cJSON_Delete (*docs);
  *docs = found;
  return true;
}

static int
read_documents (cJSON **docs, struct yaml_lines **lines, const char *file, struct error *err)
{
  cleanup_buf struct buf text = { 0 };
  cleanup_json cJSON *found = cJSON_CreateArray ();
  int ret = text_eq (file, "-") ? read_stdin (&text, err) : text_read_file (file, FILE_MAX_BYTES, &text, err);

  *docs = NULL;
  if (ret < 0)
    return ret;
  if (!(lines != NULL && read_with_lines (&found, lines, &text)) && !read_json (found, buf_text (&text), text.len))
    {
      cJSON_Delete (take_ptr (found));
      ret = yaml_parse (&found, buf_text (&text), text.len, err);
      if (ret < 0)
        return error_wrap (err, ret, "%s", file_title (file));
    }
  if (cJSON_GetArraySize (found) == 0)
    return error_set (err, EINVAL, "%s is empty: it must hold at least one Kubernetes object", file_title (file));
  *docs = take_ptr (found);
  return 0;
}

/* ---- one object ---- */

static const char *
object_name (const cJSON *object)
{
  const char *name = json_str (object, "metadata", "name");

  if (name == NULL || *name == '\0')
    name = json_str (object, "metadata", "generateName");
  return name != NULL ? name : "";
}

size_t
document_line (const struct session *session, const struct document *doc, const char *field)
{
  cleanup_free char *path = xasprintf ("%s%s", doc->path, field);

  return yaml_line (session->lines, doc->number - 1, path);
}

void
document_report (const char *severity, const struct document *doc, const char *fmt, ...)
{
  cleanup_buf struct buf where = { 0 };
  cleanup_free char *message = NULL;
  va_list args;

  va_start (args, fmt);
  message = xvasprintf (fmt, args);
  va_end (args);
  buf_printf (&where, "%s: document %d", doc->file, doc->number);
  if (doc->item > 0)
    buf_printf (&where, ", item %d", doc->item);
  if (*doc->kind != '\0')
    buf_printf (&where, ": %.63s %.253s", doc->kind, *doc->name != '\0' ? doc->name : "(no name)");
  report (severity, "%s: %s", buf_text (&where), message);
}

/* ---- kinds ---- */

static const struct
{
  const char *api_version, *kind;
  enum role role;
} kinds[] = {
  { "v1", "Pod", ROLE_POD },
  { "batch/v1", "Job", ROLE_WORKLOAD },
  { "batch/v1", "CronJob", ROLE_WORKLOAD },
  { "jobset.x-k8s.io/v1alpha2", "JobSet", ROLE_WORKLOAD },
  { "leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", ROLE_WORKLOAD },
  { "apps/v1", "StatefulSet", ROLE_WORKLOAD },
  { "apps/v1", "Deployment", ROLE_WORKLOAD },
  { "ray.io/v1", "RayCluster", ROLE_CLUSTER },
  { "ray.io/v1", "RayJob", ROLE_CLUSTER_HOLDER },
  { "ray.io/v1", "RayService", ROLE_CLUSTER_HOLDER },
};

static void
skip (const struct session *session, const struct document *doc)
{
  cleanup_buf struct buf accepted = { 0 };

  for (size_t i = 0; i < ARRAY_LEN (kinds); i++)
    if (session->takes[kinds[i].role] != NULL)
      buf_printf (&accepted, "%s%s (%s)", accepted.len > 0 ? ", " : "", kinds[i].kind, kinds[i].api_version);
  document_report ("note", doc, "skipped: %s takes %s", session->settings->program, buf_text (&accepted));
}

static void
take_object (struct session *session, const struct document *doc)
{
  for (size_t i = 0; i < ARRAY_LEN (kinds); i++)
    if (text_eq (doc->kind, kinds[i].kind) && session->takes[kinds[i].role] != NULL)
      {
        if (text_eq (doc->api_version, kinds[i].api_version))
          session->takes[kinds[i].role](session, doc);
        else
          document_error (session, doc, "apiVersion: is \"%.63s\": write %s", doc->api_version, kinds[i].api_version);
        return;
      }
  skip (session, doc);
}

/* ---- all of them ---- */

static void take_document (struct session *session, const struct document *where);

/* Items of a typed list such as PodList carry no kind of their own: the list's name says it. */
static void
name_item (cJSON *item, const struct document *list)
{
  cleanup_free char *kind = xstrndup (list->kind, strlen (list->kind) - strlen ("List"));

  if (!cJSON_IsObject (item) || *kind == '\0')
    return;
  if (json_get (item, "kind") == NULL)
    json_set_str (item, "kind", kind);
  if (json_get (item, "apiVersion") == NULL)
    json_set_str (item, "apiVersion", list->api_version);
}

static void
take_list (struct session *session, const struct document *list)
{
  struct document where = { .file = list->file, .number = list->number };
  cJSON *items = json_get (list->object, "items"), *item;

  if (!cJSON_IsArray (items))
    {
      document_error (session, list, "items: must be a list of objects, not %s", json_type_name (items));
      return;
    }
  cJSON_ArrayForEach (item, items)
    {
      cleanup_free char *path = xasprintf ("%sitems[%d].", list->path, where.item);

      name_item (item, list);
      where.object = item;
      where.path = path;
      where.item++;
      take_document (session, &where);
    }
}

static void
take_document (struct session *session, const struct document *where)
{
  struct document doc = *where;

  if (session->out.failed != 0)
    return;
  doc.kind = log_nonnull (json_str (doc.object, "kind"));
  doc.api_version = log_nonnull (json_str (doc.object, "apiVersion"));
  doc.name = object_name (doc.object);
  if (!cJSON_IsObject (doc.object))
    document_error (session, &doc, "must be a Kubernetes object, not %s", json_type_name (doc.object));
  else if (*doc.kind == '\0')
    document_error (session, &doc, "kind: is missing: a Kubernetes object has apiVersion and kind");
  else if (text_eq (doc.kind, "List") || (text_ends_with (doc.kind, "List") && json_get (doc.object, "items") != NULL))
    take_list (session, &doc);
  else
    take_object (session, &doc);
}

int
documents_run (const struct settings *settings, const take_fn takes[ROLE_MAX])
{
  struct document where = { .file = file_title (settings->file), .path = "" };
  struct session session = { .settings = settings, .takes = takes };
  cleanup_json cJSON *docs = NULL;
  struct error err = { "" };

  if (read_documents (&docs, settings->want_lines ? &session.lines : NULL, settings->file, &err) < 0)
    {
      report ("error", "%s", err.message);
      yaml_lines_free (session.lines);
      return RAYTPU_FAILED;
    }
  session.out.format = settings->format;
  cJSON_ArrayForEach (where.object, docs)
    {
      where.number++;
      take_document (&session, &where);
    }
  if (output_end (&session.out, &err) < 0)
    {
      report ("error", "%s", err.message);
      session.failed = true;
    }
  output_free (&session.out);
  yaml_lines_free (session.lines);
  return session.failed ? RAYTPU_FAILED : RAYTPU_OK;
}
