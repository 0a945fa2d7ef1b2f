/* output.c - what the commands print: objects as YAML documents or one v1 List, environment lines, messages. */
#include "raytpu.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

const char *const output_format_names[OUTPUT_FORMAT_MAX] = {
  [OUTPUT_YAML] = "yaml",
  [OUTPUT_JSON] = "json",
  [OUTPUT_ENV] = "env",
  [OUTPUT_TEXT] = "text",
};

#define LIST_BEGIN "{\n  \"apiVersion\": \"v1\",\n  \"kind\": \"List\",\n  \"items\": ["
#define LIST_INDENT 4

static void
put (struct output *out, const char *text, size_t len)
{
  if (out->failed == 0 && fwrite (text, 1, len, stdout) != len)
    out->failed = errno ? errno : EIO;
}

static void
put_str (struct output *out, const char *text)
{
  put (out, text, strlen (text));
}

/* Printed JSON has line feeds between its tokens only, so each of them begins a line to indent. */
static void
put_list_item (struct output *out, const cJSON *object)
{
  cleanup_free char *text = json_print_pretty (object);
  char *line, *rest = text;

  put_str (out, out->objects == 0 ? LIST_BEGIN "\n" : ",\n");
  while ((line = strsep (&rest, "\n")) != NULL && *line != '\0')
    {
      put (out, "        ", LIST_INDENT);
      put_str (out, line);
      if (rest != NULL && *rest != '\0')
        put_str (out, "\n");
    }
}

static void
put_document (struct output *out, const cJSON *object)
{
  cleanup_buf struct buf text = { 0 };

  yaml_print (&text, object);
  if (out->objects > 0)
    put_str (out, "---\n");
  put (out, buf_text (&text), text.len);
}

void
output_object (struct output *out, const cJSON *object)
{
  if (out->format == OUTPUT_JSON)
    put_list_item (out, object);
  else
    put_document (out, object);
  out->objects++;
}

void
output_env (struct output *out, const char *title, const char *lines)
{
  struct env_block *block;

  if (*lines == '\0')
    return;
  out->blocks = xgrow (out->blocks, out->nblocks, &out->cap, sizeof (*out->blocks));
  block = &out->blocks[out->nblocks++];
  *block = (struct env_block){ .title = xstrdup (title), .lines = xstrdup (lines) };
  report_clean (block->title);
}

void
output_line (struct output *out, const char *text)
{
  cleanup_free char *line = xstrdup (text);

  report_clean (line);
  put_str (out, line);
  put_str (out, "\n");
}

static void
put_blocks (struct output *out)
{
  for (size_t i = 0; i < out->nblocks; i++)
    {
      if (out->need_titles || out->nblocks > 1)
        {
          put_str (out, "# ");
          put_str (out, out->blocks[i].title);
          put_str (out, "\n");
        }
      put_str (out, out->blocks[i].lines);
    }
}

/* Closing tells of errors that a buffer or a network file system kept back. */
static int
close_stdout (int failed, struct error *err)
{
  errno = 0;
  if (fclose (stdout) != 0 && failed == 0)
    failed = errno ? errno : EIO;
  return failed ? error_set (err, failed, "cannot write the output: %s", strerror (failed)) : 0;
}

int
output_end (struct output *out, struct error *err)
{
  if (out->format == OUTPUT_JSON)
    put_str (out, out->objects == 0 ? LIST_BEGIN "]\n}\n" : "\n  ]\n}\n");
  put_blocks (out);
  return close_stdout (out->failed, err);
}

void
output_free (struct output *out)
{
  for (size_t i = 0; i < out->nblocks; i++)
    {
      free (out->blocks[i].title);
      free (out->blocks[i].lines);
    }
  free (out->blocks);
  *out = (struct output){ 0 };
}

int
output_text (const char *text)
{
  struct output out = { .format = OUTPUT_YAML };
  struct error err = { "" };

  put_str (&out, text);
  if (close_stdout (out.failed, &err) == 0)
    return RAYTPU_OK;
  report ("error", "%s", err.message);
  return RAYTPU_FAILED;
}

/* ---- messages ---- */

void
report_clean (char *text)
{
  for (; *text != '\0'; text++)
    if ((unsigned char) *text < 0x20 || *text == 0x7f)
      *text = '?';
}

void
report (const char *severity, const char *fmt, ...)
{
  cleanup_free char *message = NULL;
  va_list args;

  va_start (args, fmt);
  message = xvasprintf (fmt, args);
  va_end (args);
  report_clean (message);
  fprintf (stderr, "%s: %s\n", severity, message);
}
