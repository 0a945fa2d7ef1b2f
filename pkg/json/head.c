/* head.c - what the beginning of a JSON text says when the rest of it is not there. */
#include "json/json.h"

#include <string.h>

#define DEPTH_MAX 64 /* metadata is not deeper */

/* The brackets that are open, as what closes them. */
struct open_brackets
{
  char closers[DEPTH_MAX];
  size_t depth;
};

static bool
track (struct open_brackets *open, char c)
{
  if (c == '{' || c == '[')
    {
      if (open->depth == DEPTH_MAX)
        return false;
      open->closers[open->depth++] = c == '{' ? '}' : ']';
    }
  else if ((c == '}' || c == ']') && open->depth > 0)
    open->depth--;
  return true;
}

/* How much of the text ends with a whole member, before a comma; *open: what is still open there. */
static size_t
whole_members (const char *text, size_t len, struct open_brackets *open)
{
  struct open_brackets now = { .depth = 0 };
  bool in_string = false;
  size_t end = 0;

  *open = now;
  for (size_t i = 0; i < len; i++)
    {
      if (in_string && text[i] == '\\')
        i++;
      else if (text[i] == '"')
        in_string = !in_string;
      else if (!in_string && text[i] == ',')
        {
          end = i;
          *open = now;
        }
      else if (!in_string && !track (&now, text[i]))
        break;
    }
  return end;
}

int
json_parse_head (cJSON **out, const char *text, size_t len, struct error *err)
{
  cleanup_buf struct buf closed = { 0 };
  struct open_brackets open;

  buf_add (&closed, text, whole_members (text, len, &open));
  while (open.depth > 0)
    buf_char (&closed, open.closers[--open.depth]);
  return json_parse (out, buf_text (&closed), closed.len, err);
}
