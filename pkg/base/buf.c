#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"

static void
reserve (struct buf *b, size_t more)
{
  if (b->data == NULL || b->cap - b->len <= more)
    b->data = xgrow (b->data, b->len + more, &b->cap, 1);
}

void
buf_add (struct buf *b, const void *data, size_t len)
{
  reserve (b, len);
  if (len > 0)
    memcpy (b->data + b->len, data, len);
  b->len += len;
  b->data[b->len] = '\0';
}

void
buf_str (struct buf *b, const char *text)
{
  buf_add (b, text, strlen (text));
}

void
buf_char (struct buf *b, char c)
{
  buf_add (b, &c, 1);
}

void
buf_printf (struct buf *b, const char *fmt, ...)
{
  va_list args;
  int n;

  va_start (args, fmt);
  n = vsnprintf (NULL, 0, fmt, args);
  va_end (args);
  if (n <= 0)
    return;
  reserve (b, (size_t) n);
  va_start (args, fmt);
  vsnprintf (b->data + b->len, (size_t) n + 1, fmt, args);
  va_end (args);
  b->len += (size_t) n;
}

void
buf_reset (struct buf *b)
{
  b->len = 0;
  if (b->data != NULL)
    b->data[0] = '\0';
}

void
buf_free (struct buf *b)
{
  free (b->data);
  *b = (struct buf){ 0 };
}

char *
buf_take (struct buf *b)
{
  char *text = b->data ? b->data : xstrdup ("");

  *b = (struct buf){ 0 };
  return text;
}

const char *
buf_text (struct buf *b)
{
  return b->data ? b->data : "";
}
