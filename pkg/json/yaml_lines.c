/* yaml_lines.c - where the values of YAML documents stand, found by the path that messages name them with. */
#include "json/json.h"
#include "json/json_internal.h"

#include <ctype.h>
#include <string.h>

/* Longer paths are found by what is above them: hostile keys must not cost their length for every value below. */
#define PATH_NOTED 512

struct place
{
  char *path; /* "" is the document itself */
  int document;
  size_t line;
};

struct yaml_lines
{
  struct place *places;
  size_t count, cap;
  struct buf path; /* of what is being read */
  int document;
};

struct yaml_lines *
yaml_lines_new (void)
{
  return xcalloc (1, sizeof (struct yaml_lines));
}

void
yaml_lines_free (struct yaml_lines *lines)
{
  if (lines == NULL)
    return;
  for (size_t i = 0; i < lines->count; i++)
    free (lines->places[i].path);
  free (lines->places);
  buf_free (&lines->path);
  free (lines);
}

/* ---- while reading ---- */

static void
note (struct yaml_lines *lines, size_t line)
{
  if (lines->path.len > PATH_NOTED)
    return;
  lines->places = xgrow (lines->places, lines->count, &lines->cap, sizeof (lines->places[0]));
  lines->places[lines->count++]
      = (struct place){ .path = xstrdup (buf_text (&lines->path)), .document = lines->document, .line = line + 1 };
}

/* What needs no brackets. */
static bool
is_word (const char *key)
{
  for (const char *p = key; *p != '\0'; p++)
    if (!isalnum ((unsigned char) *p) && *p != '_' && *p != '-')
      return false;
  return *key != '\0';
}

size_t
yaml_lines_enter_key (struct yaml_lines *lines, const char *key, size_t line)
{
  size_t mark;

  if (lines == NULL)
    return 0;
  mark = lines->path.len;
  if (is_word (key))
    buf_printf (&lines->path, "%s%s", mark > 0 ? "." : "", key);
  else
    buf_printf (&lines->path, "[\"%s\"]", key);
  note (lines, line);
  return mark;
}

size_t
yaml_lines_enter_item (struct yaml_lines *lines, size_t index, size_t line)
{
  size_t mark;

  if (lines == NULL)
    return 0;
  mark = lines->path.len;
  buf_printf (&lines->path, "[%zu]", index);
  note (lines, line);
  return mark;
}

void
yaml_lines_leave (struct yaml_lines *lines, size_t mark)
{
  if (lines == NULL)
    return;
  lines->path.len = mark;
  if (lines->path.data != NULL)
    lines->path.data[mark] = '\0';
}

void
yaml_lines_begin (struct yaml_lines *lines, int document, size_t line)
{
  if (lines == NULL)
    return;
  lines->document = document;
  buf_reset (&lines->path);
  note (lines, line);
}

/* ---- afterwards ---- */

/* Whether `place` is `path` or above it. */
static bool
holds (const char *place, const char *path)
{
  size_t len = strlen (place);

  return strncmp (place, path, len) == 0 && (len == 0 || path[len] == '\0' || path[len] == '.' || path[len] == '[');
}

size_t
yaml_line (const struct yaml_lines *lines, int document, const char *path)
{
  size_t line = 0, best = 0;

  for (size_t i = 0; lines != NULL && i < lines->count; i++)
    if (lines->places[i].document == document && holds (lines->places[i].path, path)
        && strlen (lines->places[i].path) >= best) /* of two the last: an empty document leaves its number */
      {
        best = strlen (lines->places[i].path);
        line = lines->places[i].line;
      }
  return line;
}
