#include "base/log.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/text.h"

#define TROUBLE_INTERVAL_MS 10000
#define TROUBLE_INTERVAL_CAP_MS 600000

static const char *const level_names[LOG_LEVEL_MAX] = { "debug", "info", "warn", "error" };
static const char *const format_names[] = { "text", "json" };

static atomic_int current_level = LOG_INFO;
static atomic_int current_format = LOG_TEXT;

void
log_configure (enum log_level level, enum log_format format)
{
  atomic_store (&current_level, (int) level);
  atomic_store (&current_format, (int) format);
}

bool
log_enabled (enum log_level level)
{
  return (int) level >= atomic_load_explicit (&current_level, memory_order_relaxed);
}

int
log_level_parse (const char *name)
{
  return text_index (name, level_names, LOG_LEVEL_MAX);
}

int
log_format_parse (const char *name)
{
  return text_index (name, format_names, 2);
}

static bool
needs_quotes (const char *text)
{
  return text[0] == '\0' || text[strcspn (text, " \"=\n\t\\")] != '\0';
}

static void
write_json (struct buf *line, const char *stamp, enum log_level level, const char *message,
            const struct log_field *fields)
{
  buf_printf (line, "{\"time\":\"%s\",\"level\":\"%s\",\"msg\":", stamp, level_names[level]);
  text_quote_json (line, message);
  for (; fields->key != NULL; fields++)
    {
      buf_char (line, ',');
      text_quote_json (line, fields->key);
      buf_char (line, ':');
      if (fields->text != NULL)
        text_quote_json (line, fields->text);
      else
        buf_printf (line, "%" PRId64, fields->number);
    }
  buf_str (line, "}\n");
}

static void
write_text (struct buf *line, const char *stamp, enum log_level level, const char *message,
            const struct log_field *fields)
{
  buf_printf (line, "%s %-5s %s", stamp, level_names[level], message);
  for (; fields->key != NULL; fields++)
    {
      buf_printf (line, " %s=", fields->key);
      if (fields->text == NULL)
        buf_printf (line, "%" PRId64, fields->number);
      else if (needs_quotes (fields->text))
        text_quote_json (line, fields->text);
      else
        buf_str (line, fields->text);
    }
  buf_char (line, '\n');
}

void
log_write (enum log_level level, const char *message, const struct log_field *fields)
{
  cleanup_buf struct buf line = { 0 };
  char stamp[CLOCK_RFC3339_MS_SIZE];
  size_t done = 0;

  clock_format_rfc3339_ms (clock_wall_ms (), stamp);
  if (atomic_load (&current_format) == LOG_JSON)
    write_json (&line, stamp, level, message, fields);
  else
    write_text (&line, stamp, level, message, fields);
  while (done < line.len)
    {
      ssize_t n = write (STDERR_FILENO, line.data + done, line.len - done);

      if (n <= 0)
        return; /* nobody to tell that standard error is gone */
      done += (size_t) n;
    }
}

enum log_level
log_trouble_level (struct log_trouble *trouble, int64_t now_ms)
{
  if (!trouble->on)
    *trouble = (struct log_trouble){ true, now_ms, now_ms, TROUBLE_INTERVAL_MS };
  if (now_ms < trouble->next_ms)
    return LOG_DEBUG;
  trouble->next_ms = now_ms + trouble->interval_ms;
  trouble->interval_ms *= 2;
  if (trouble->interval_ms > TROUBLE_INTERVAL_CAP_MS)
    trouble->interval_ms = TROUBLE_INTERVAL_CAP_MS;
  return LOG_WARN;
}

bool
log_trouble_over (struct log_trouble *trouble, int64_t now_ms, int64_t *lasted_ms)
{
  bool was_on = trouble->on;

  *lasted_ms = was_on ? now_ms - trouble->since_ms : 0;
  trouble->on = false;
  return was_on;
}
