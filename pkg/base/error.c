#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void
mark_cut (struct error *err, int wanted)
{
  if (wanted >= (int) sizeof (err->message))
    memcpy (err->message + sizeof (err->message) - 4, "...", 4);
}

int
error_set (struct error *err, int code, const char *fmt, ...)
{
  va_list args;

  if (err != NULL)
    {
      va_start (args, fmt);
      mark_cut (err, vsnprintf (err->message, sizeof (err->message), fmt, args));
      va_end (args);
    }
  return -code;
}

int
error_wrap (struct error *err, int ret, const char *fmt, ...)
{
  char inner[sizeof (err->message)];
  va_list args;
  size_t len;

  if (err == NULL)
    return ret;
  memcpy (inner, err->message, sizeof (inner));
  va_start (args, fmt);
  mark_cut (err, vsnprintf (err->message, sizeof (err->message), fmt, args));
  va_end (args);
  len = strlen (err->message);
  mark_cut (err, (int) len + snprintf (err->message + len, sizeof (err->message) - len, ": %s", inner));
  return ret;
}
