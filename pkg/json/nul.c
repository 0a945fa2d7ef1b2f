/* nul.c - the character NUL in JSON text. C's strings end there, so a parsed tree has lost what follows. */
#include "json/json.h"

#include <string.h>

#define ESCAPED "\\u0000"
#define MARK "\\ufdd0" /* a code point that Unicode keeps free of characters */
#define MARK_UTF8 "\xef\xb7\x90"

/* The next escape that is none of a backslash: in "\\u0000" the backslash is the character. */
static char *
next_nul (const char *text, size_t len, const char *from)
{
  const char *at = from;

  while ((at = memmem (at, len - (size_t) (at - text), ESCAPED, strlen (ESCAPED))) != NULL)
    {
      const char *first = at;

      while (first > text && first[-1] == '\\')
        first--;
      if ((at - first) % 2 == 0)
        return (char *) (uintptr_t) at;
      at++;
    }
  return NULL;
}

bool
json_has_nul (const char *text, size_t len)
{
  return next_nul (text, len, text) != NULL;
}

/* Appends the path of the first marked text below v; false when there is none. */
static bool
find_mark (const cJSON *v, struct buf *path)
{
  const cJSON *item;
  int index = 0;

  if (cJSON_IsString (v))
    return strstr (v->valuestring, MARK_UTF8) != NULL;
  cJSON_ArrayForEach (item, v)
    {
      size_t len = path->len;

      if (cJSON_IsArray (v))
        buf_printf (path, "[%d]", index++);
      else if (strpbrk (item->string, "./") != NULL)
        buf_printf (path, "[\"%s\"]", item->string);
      else
        buf_printf (path, "%s%s", len > 0 ? "." : "", item->string);
      if ((item->string != NULL && strstr (item->string, MARK_UTF8) != NULL) || find_mark (item, path))
        return true;
      path->len = len;
    }
  return false;
}

char *
json_nul_path_ (const char *text, size_t len, const char *const *keys)
{
  cleanup_free char *marked = xstrndup (text, len);
  cleanup_json cJSON *v = NULL;
  cleanup_buf struct buf path = { 0 };

  for (char *at = next_nul (marked, len, marked); at != NULL; at = next_nul (marked, len, at))
    memcpy (at, MARK, sizeof (MARK) - 1); /* as long as what it takes the place of */
  if (json_parse (&v, marked, len, NULL) < 0 || !find_mark (json_get_ (v, keys), &path))
    return NULL;
  return buf_take (&path);
}
