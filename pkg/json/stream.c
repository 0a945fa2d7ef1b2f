/* stream.c - finds the borders of JSON values in bytes that arrive in arbitrary pieces, so that a list of any length is
 * decoded in the memory of one element. It only counts brackets and quotes; cJSON judges each value. */
#include "json/json.h"

#include <errno.h>
#include <string.h>

struct json_stream
{
  enum json_stream_mode mode;
  size_t max;
  json_stream_fn fn;
  json_stream_fn unfit; /* NULL: what does not fit is an error */
  void *data;

  struct buf value; /* the value being read (in lists: the element) */
  struct buf rest;  /* lists: everything but the elements */
  char last[8];     /* lists: the last string at depth 1, as far as "items" needs it */
  size_t last_len;
  int depth;
  bool in_string, escaped;
  bool key_is_items; /* lists: the member being read at depth 1 is "items" */
  bool in_items;
  bool skipping; /* the value being read is too large: `value` has its beginning */
};

#define HEAD_MAX ((size_t) 64 * 1024) /* metadata comes early */

struct json_stream *
json_stream_new (enum json_stream_mode mode, size_t max_value_bytes, json_stream_fn fn, void *data)
{
  struct json_stream *s = xcalloc (1, sizeof (*s));

  *s = (struct json_stream){ .mode = mode, .max = max_value_bytes, .fn = fn, .data = data };
  return s;
}

void
json_stream_free (struct json_stream *s)
{
  if (s == NULL)
    return;
  buf_free (&s->value);
  buf_free (&s->rest);
  free (s);
}

bool
json_stream_at_boundary (const struct json_stream *s)
{
  return s->depth == 0;
}

void
json_stream_on_unfit (struct json_stream *s, json_stream_fn fn)
{
  s->unfit = fn;
}

/* The rest of the value is counted only. */
static void
skip (struct json_stream *s)
{
  cleanup_buf struct buf head = { 0 };

  buf_add (&head, buf_text (&s->value), s->value.len < HEAD_MAX ? s->value.len : HEAD_MAX);
  buf_free (&s->value);
  s->value = head;
  head = (struct buf){ 0 };
  s->skipping = true;
}

static int
emit_unfit (struct json_stream *s, struct error *err)
{
  size_t len = s->value.len < HEAD_MAX ? s->value.len : HEAD_MAX;
  cleanup_json cJSON *head = NULL;

  json_parse_head (&head, buf_text (&s->value), len, NULL);
  s->skipping = false;
  buf_reset (&s->value);
  return s->unfit (s->data, head, false, err);
}

static int
emit (struct json_stream *s, struct buf *text, bool last, struct error *err)
{
  cleanup_json cJSON *v = NULL;
  int ret = s->skipping ? -EFBIG : json_parse (&v, buf_text (text), text->len, err);

  if (ret < 0 && !last && s->unfit != NULL)
    return emit_unfit (s, err);
  if (ret == 0 && last)
    json_drop (v, "items");
  if (ret == 0)
    ret = s->fn (s->data, v, last, err);
  buf_reset (text);
  return ret;
}

static void
string_byte (struct json_stream *s, char c)
{
  if (s->depth == 1 && s->mode == JSON_STREAM_LIST && s->last_len < sizeof (s->last) && c != '"')
    s->last[s->last_len++] = c;
  if (s->escaped)
    s->escaped = false;
  else if (c == '\\')
    s->escaped = true;
  else if (c == '"')
    s->in_string = false;
}

static void
structure_byte (struct json_stream *s, char c)
{
  switch (c)
    {
    case '"':
      s->in_string = true;
      if (s->depth == 1)
        s->last_len = 0;
      break;
    case '{':
    case '[':
      s->depth++;
      if (c == '[' && s->depth == 2 && s->key_is_items)
        s->in_items = true;
      break;
    case '}':
    case ']':
      s->depth--;
      if (s->depth == 1)
        s->in_items = false;
      break;
    case ':':
      if (s->depth == 1)
        s->key_is_items = s->mode == JSON_STREAM_LIST && s->last_len == 5 && memcmp (s->last, "items", 5) == 0;
      break;
    case ',':
      if (s->depth == 1)
        s->key_is_items = false;
      break;
    default:
      break;
    }
}

static void
keep (struct json_stream *s, bool of_value, const char *bytes, size_t len)
{
  if (!of_value)
    buf_add (&s->rest, bytes, len);
  else if (!s->skipping)
    buf_add (&s->value, bytes, len);
}

/* Reads one byte; true when it completed a value that is to be handed over. */
static bool
take_byte (struct json_stream *s, char c)
{
  bool was_inside_element = s->in_items && s->depth > 2, was_string = s->in_string;
  int before = s->depth;
  bool element;

  if (was_string)
    string_byte (s, c);
  else
    structure_byte (s, c);
  element = was_inside_element || (s->in_items && s->depth > 2);
  if (s->in_items && before == 2 && s->depth == 2 && !was_string)
    return false; /* commas and white space between elements */
  if (before > 0 || s->depth > 0)
    keep (s, element || s->mode == JSON_STREAM_VALUES, &c, 1);
  return !was_string && s->depth < before && (element ? s->depth == 2 : s->depth == 0);
}

/* Takes at once the bytes from here on that only need to be kept: the inside of a string, or what is neither bracket,
 * quote nor separator. Most bytes are of that kind, and one by one they cost more than all the rest of reading.
 * Returns how many; 0 leaves the next byte to take_byte. */
static size_t
take_plain (struct json_stream *s, const char *bytes, size_t len)
{
  bool is_key = s->depth == 1 && s->mode == JSON_STREAM_LIST && s->last_len < sizeof (s->last);
  size_t n = 0;

  if (s->depth == 0)
    return 0;
  if (s->in_string && !s->escaped && !is_key)
    while (n < len && bytes[n] != '"' && bytes[n] != '\\')
      n++;
  else if (!s->in_string && !(s->in_items && s->depth == 2))
    while (n < len && strchr ("\"{}[]:,", bytes[n]) == NULL)
      n++;
  if (n > 0)
    keep (s, (s->in_items && s->depth > 2) || s->mode == JSON_STREAM_VALUES, bytes, n);
  return n;
}

int
json_stream_feed (struct json_stream *s, const char *bytes, size_t len, struct error *err)
{
  for (size_t i = 0; i < len; i++)
    {
      bool complete;
      int ret = 0;

      i += take_plain (s, bytes + i, len - i);
      if (i < len && s->depth == 0 && strchr (" \t\r\n{", bytes[i]) == NULL)
        return error_set (err, EINVAL, "the server sent something that is no JSON object (first byte 0x%02x)",
                          (unsigned) (unsigned char) bytes[i]);
      complete = i < len && take_byte (s, bytes[i]);
      if (s->depth < 0)
        return error_set (err, EINVAL, "the server sent JSON with unbalanced brackets");
      if (s->value.len > s->max && s->unfit != NULL && !s->skipping)
        skip (s);
      if ((s->value.len > s->max && !s->skipping) || s->rest.len > s->max)
        return error_set (err, EFBIG, "the server sent a value larger than %zu bytes", s->max);
      if (complete && s->depth == 2)
        ret = emit (s, &s->value, false, err);
      else if (complete)
        ret = emit (s, s->mode == JSON_STREAM_LIST ? &s->rest : &s->value, s->mode == JSON_STREAM_LIST, err);
      if (ret < 0)
        return ret;
    }
  return 0;
}
