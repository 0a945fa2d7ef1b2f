/* yaml_parse.c - YAML to JSON by libyaml's events, with the scalar rules that kubectl's YAML library has. */
#include "json/json.h"
#include "json/json_internal.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <yaml.h>

#define MAX_DEPTH 200
#define MAX_NODES 1000000 /* across aliases: a bound for expansion bombs */

struct anchor
{
  char *name;
  cJSON *value; /* a copy */
};

struct loader
{
  yaml_parser_t parser;
  struct anchor *anchors;
  size_t nanchors, cap;
  size_t nodes;
  struct yaml_lines *lines; /* NULL: nobody asks */
  struct error *err;
};

static void
cleanup_eventp (yaml_event_t *event)
{
  yaml_event_delete (event);
}
#define cleanup_event __attribute__ ((cleanup (cleanup_eventp)))

static int
fail_at (struct loader *l, const yaml_mark_t *mark, const char *what)
{
  return error_set (l->err, EINVAL, "line %zu, column %zu: %s", mark->line + 1, mark->column + 1, what);
}

static int
next_event (struct loader *l, yaml_event_t *event)
{
  if (yaml_parser_parse (&l->parser, event))
    {
      if (event->type == YAML_SCALAR_EVENT
          && strlen ((const char *) event->data.scalar.value) != event->data.scalar.length)
        return fail_at (l, &event->start_mark, "this text holds the character NUL (\\0), which ends it: remove it");
      return 0;
    }
  return fail_at (l, &l->parser.problem_mark, l->parser.problem ? l->parser.problem : "this is no YAML");
}

static void
forget_anchors (struct loader *l)
{
  for (size_t i = 0; i < l->nanchors; i++)
    {
      free (l->anchors[i].name);
      cJSON_Delete (l->anchors[i].value);
    }
  l->nanchors = 0;
}

static void
remember_anchor (struct loader *l, const yaml_char_t *name, const cJSON *value)
{
  if (name == NULL)
    return;
  l->anchors = xgrow (l->anchors, l->nanchors, &l->cap, sizeof (*l->anchors));
  l->anchors[l->nanchors++]
      = (struct anchor){ .name = xstrdup ((const char *) name), .value = cJSON_Duplicate (value, true) };
}

/* ---- scalars ---- */

static bool
is_one_of (const char *text, const char *list)
{
  size_t n = strlen (text);

  for (const char *p = list; (p = strstr (p, text)) != NULL; p++)
    if (p[-1] == ' ' && p[n] == ' ')
      return true;
  return false;
}

/* Decimal, 0x, 0o, 0b and old octal integers, underscores allowed, as Go's ParseInt with base 0. */
static cJSON *
as_integer (const char *text)
{
  char digits[72];
  size_t n = 0;
  int base = 10;
  bool negative = *text == '-';
  const char *p = text + (*text == '-' || *text == '+');
  char *end;
  long long value;

  if (!isdigit ((unsigned char) *p) || strlen (p) >= sizeof (digits))
    return NULL;
  if (p[0] == '0' && p[1] != '\0')
    {
      base = tolower ((unsigned char) p[1]) == 'x' ? 16 : tolower ((unsigned char) p[1]) == 'b' ? 2 : 8;
      p += base != 8 || tolower ((unsigned char) p[1]) == 'o' ? 2 : 1;
    }
  for (; *p != '\0'; p++)
    if (*p != '_')
      digits[n++] = *p;
  digits[n] = '\0';
  errno = 0;
  value = strtoll (digits, &end, base);
  if (n == 0 || *end != '\0' || errno != 0 || !isalnum ((unsigned char) digits[0]))
    return NULL;
  return cJSON_CreateNumber ((double) (negative ? -value : value));
}

/* [-+]?[0-9]*.?[0-9]+([eE][-+]?[0-9]+)? */
static cJSON *
as_float (const char *text)
{
  const char *p = text + (*text == '-' || *text == '+');
  size_t whole = strspn (p, "0123456789"), fraction = 0;

  p += whole;
  if (*p == '.')
    {
      fraction = strspn (p + 1, "0123456789");
      p += 1 + fraction;
    }
  if (whole + fraction == 0)
    return NULL;
  if (*p == 'e' || *p == 'E')
    {
      size_t digits;

      p += 1 + (p[1] == '-' || p[1] == '+');
      digits = strspn (p, "0123456789");
      if (digits == 0)
        return NULL;
      p += digits;
    }
  return *p == '\0' ? cJSON_CreateNumber (strtod (text, NULL)) : NULL;
}

static cJSON *
resolve_plain (const char *text)
{
  cJSON *number;

  if (*text == '\0' || is_one_of (text, " ~ null Null NULL "))
    return cJSON_CreateNull ();
  if (is_one_of (text, " y Y yes Yes YES true True TRUE on On ON "))
    return cJSON_CreateTrue ();
  if (is_one_of (text, " n N no No NO false False FALSE off Off OFF "))
    return cJSON_CreateFalse ();
  number = as_integer (text);
  if (number == NULL)
    number = as_float (text);
  return number ? number : cJSON_CreateString (text);
}

static cJSON *
scalar_value (const yaml_event_t *event)
{
  const char *text = (const char *) event->data.scalar.value;
  const char *tag = (const char *) event->data.scalar.tag;

  if (tag != NULL && strcmp (tag, YAML_STR_TAG) == 0)
    return cJSON_CreateString (text);
  if (event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE && (tag == NULL || strcmp (tag, "!") == 0))
    return cJSON_CreateString (text);
  return resolve_plain (text);
}

/* ---- collections ---- */

static int load_node (struct loader *l, const yaml_event_t *event, int depth, cJSON **out);

static int
load_sequence (struct loader *l, int depth, cJSON *array)
{
  for (size_t i = 0;; i++)
    {
      cleanup_event yaml_event_t event = { 0 };
      cJSON *item = NULL;
      size_t mark;

      if (next_event (l, &event) < 0)
        return -EINVAL;
      if (event.type == YAML_SEQUENCE_END_EVENT)
        return 0;
      mark = yaml_lines_enter_item (l->lines, i, event.start_mark.line);
      if (load_node (l, &event, depth + 1, &item) < 0)
        return -EINVAL;
      yaml_lines_leave (l->lines, mark);
      json_push (array, item);
    }
}

/* "<<": the members of one or several mappings, for the keys that the mapping does not have itself. */
static void
apply_merges (cJSON *object, const cJSON *merges)
{
  const cJSON *from;

  cJSON_ArrayForEach (from, merges)
    {
      const cJSON *one;

      if (cJSON_IsArray (from))
        cJSON_ArrayForEach (one, from)
          json_merge_flat (object, one, false);
      else
        json_merge_flat (object, from, false);
    }
}

/* Keys are text in JSON: booleans and numbers get the text they were written as. */
static int
load_key (struct loader *l, const yaml_event_t *event, const cJSON *object)
{
  const char *key = (const char *) event->data.scalar.value;
  char what[160];

  if (event->type != YAML_SCALAR_EVENT)
    return fail_at (l, &event->start_mark, "a key must be plain text");
  if (cJSON_GetObjectItemCaseSensitive (object, key) == NULL)
    return 0;
  snprintf (what, sizeof (what), "the key \"%.80s\" is there twice: remove one", key);
  return fail_at (l, &event->start_mark, what);
}

static int
load_mapping (struct loader *l, int depth, cJSON *object)
{
  cleanup_json cJSON *merges = cJSON_CreateArray ();

  for (;;)
    {
      cleanup_event yaml_event_t key = { 0 };
      cleanup_event yaml_event_t event = { 0 };
      cJSON *value = NULL;
      size_t mark;

      if (next_event (l, &key) < 0)
        return -EINVAL;
      if (key.type == YAML_MAPPING_END_EVENT)
        break;
      if (load_key (l, &key, object) < 0 || next_event (l, &event) < 0)
        return -EINVAL;
      mark = yaml_lines_enter_key (l->lines, (const char *) key.data.scalar.value, key.start_mark.line);
      if (load_node (l, &event, depth + 1, &value) < 0)
        return -EINVAL;
      yaml_lines_leave (l->lines, mark);
      if (strcmp ((const char *) key.data.scalar.value, "<<") == 0 && key.data.scalar.style == YAML_PLAIN_SCALAR_STYLE)
        json_push (merges, value);
      else
        cJSON_AddItemToObject (object, (const char *) key.data.scalar.value, value);
    }
  apply_merges (object, merges);
  return 0;
}

static size_t
count_nodes (const cJSON *v)
{
  const cJSON *item;
  size_t n = 1;

  cJSON_ArrayForEach (item, v)
    n += count_nodes (item);
  return n;
}

static int
load_alias (struct loader *l, const yaml_event_t *event, cJSON **out)
{
  for (size_t i = l->nanchors; i-- > 0;)
    if (strcmp (l->anchors[i].name, (const char *) event->data.alias.anchor) == 0)
      {
        l->nodes += count_nodes (l->anchors[i].value);
        if (l->nodes > MAX_NODES)
          return fail_at (l, &event->start_mark, "the aliases of this document expand to too much");
        *out = cJSON_Duplicate (l->anchors[i].value, true);
        return 0;
      }
  return fail_at (l, &event->start_mark, "this alias names no anchor");
}

static int
load_collection (struct loader *l, const yaml_event_t *event, int depth, cJSON **out)
{
  bool mapping = event->type == YAML_MAPPING_START_EVENT;
  cleanup_json cJSON *v = mapping ? cJSON_CreateObject () : cJSON_CreateArray ();
  int ret = mapping ? load_mapping (l, depth, v) : load_sequence (l, depth, v);

  if (ret < 0)
    return ret;
  remember_anchor (l, mapping ? event->data.mapping_start.anchor : event->data.sequence_start.anchor, v);
  *out = take_ptr (v);
  return 0;
}

static int
load_node (struct loader *l, const yaml_event_t *event, int depth, cJSON **out)
{
  if (depth > MAX_DEPTH)
    return fail_at (l, &event->start_mark, "nested too deeply");
  if (++l->nodes > MAX_NODES)
    return fail_at (l, &event->start_mark, "this document has too many values");
  switch (event->type)
    {
    case YAML_SCALAR_EVENT:
      *out = scalar_value (event);
      remember_anchor (l, event->data.scalar.anchor, *out);
      return 0;
    case YAML_ALIAS_EVENT:
      return load_alias (l, event, out);
    case YAML_SEQUENCE_START_EVENT:
    case YAML_MAPPING_START_EVENT:
      return load_collection (l, event, depth, out);
    default:
      return fail_at (l, &event->start_mark, "a value was expected here");
    }
}

static int
load_documents (struct loader *l, cJSON *docs)
{
  for (;;)
    {
      cleanup_event yaml_event_t event = { 0 };
      cJSON *doc = NULL;

      if (next_event (l, &event) < 0)
        return -EINVAL;
      switch (event.type)
        {
        case YAML_STREAM_END_EVENT:
          return 0;
        case YAML_STREAM_START_EVENT:
        case YAML_DOCUMENT_START_EVENT:
        case YAML_DOCUMENT_END_EVENT:
          forget_anchors (l);
          break;
        default:
          yaml_lines_begin (l->lines, cJSON_GetArraySize (docs), event.start_mark.line);
          if (load_node (l, &event, 0, &doc) < 0)
            return -EINVAL;
          if (cJSON_IsNull (doc))
            cJSON_Delete (doc);
          else
            json_push (docs, doc);
        }
    }
}

static int
parse (cJSON **out, struct yaml_lines *lines, const char *text, size_t len, struct error *err)
{
  struct loader l = { .lines = lines, .err = err };
  cleanup_json cJSON *docs = cJSON_CreateArray ();
  int ret;

  *out = NULL;
  if (!yaml_parser_initialize (&l.parser))
    return error_set (err, ENOMEM, "the YAML parser cannot be started");
  yaml_parser_set_input_string (&l.parser, (const unsigned char *) text, len);
  ret = load_documents (&l, docs);
  forget_anchors (&l);
  free (l.anchors);
  yaml_parser_delete (&l.parser);
  if (ret == 0)
    *out = take_ptr (docs);
  return ret;
}

int
yaml_parse (cJSON **out, const char *text, size_t len, struct error *err)
{
  return parse (out, NULL, text, len, err);
}

int
yaml_parse_lines (cJSON **out, struct yaml_lines **lines, const char *text, size_t len, struct error *err)
{
  int ret;

  *lines = yaml_lines_new ();
  ret = parse (out, *lines, text, len, err);
  if (ret < 0)
    yaml_lines_free (take_ptr (*lines));
  return ret;
}

/* Whether a reader would take this text for something other than a string when it stands unquoted (for yaml_print). */
bool
yaml_is_ambiguous (const char *text)
{
  cleanup_json cJSON *v = resolve_plain (text);

  return !cJSON_IsString (v) || strcmp (text, "<<") == 0 || isdigit ((unsigned char) text[0]);
}
