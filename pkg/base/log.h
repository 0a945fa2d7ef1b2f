/* log.h - one line per decision, as text or JSON, on standard error. Thread-safe: a line is one write.
 *
 *   log_info ("created pod", LF_STR ("pod", name), LF_INT ("worker_id", id));
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

enum log_level
{
  LOG_DEBUG,
  LOG_INFO,
  LOG_WARN,
  LOG_ERROR,
  LOG_LEVEL_MAX
};
enum log_format
{
  LOG_TEXT,
  LOG_JSON
};

struct log_field
{
  const char *key;  /* NULL ends the list */
  const char *text; /* NULL: the number counts */
  int64_t number;
};

#define LF_STR(k, v) ((struct log_field){ .key = (k), .text = log_nonnull (v) })
#define LF_INT(k, v) ((struct log_field){ .key = (k), .number = (int64_t) (v) })

#define log_debug(...) log_at (LOG_DEBUG, __VA_ARGS__)
#define log_info(...) log_at (LOG_INFO, __VA_ARGS__)
#define log_warn(...) log_at (LOG_WARN, __VA_ARGS__)
#define log_error(...) log_at (LOG_ERROR, __VA_ARGS__)

/* log_at (level, message, fields...): the fields are evaluated only when the level is on. */
#define log_at(level, ...)                                                                                             \
  do                                                                                                                   \
    {                                                                                                                  \
      enum log_level level_of_line_ = (level);                                                                         \
                                                                                                                       \
      if (log_enabled (level_of_line_))                                                                                \
        log_at_ (level_of_line_, __VA_ARGS__, ((struct log_field){ .key = NULL }));                                    \
    }                                                                                                                  \
  while (0)
#define log_at_(level, message, ...) log_write ((level), (message), (const struct log_field[]){ __VA_ARGS__ })

static inline const char *
log_nonnull (const char *text)
{
  return text ? text : "";
}

void log_configure (enum log_level level, enum log_format format); /* default: info, text */
bool log_enabled (enum log_level level);
void log_write (enum log_level level, const char *message, const struct log_field *fields);

/* A trouble that lasts, and that every try finds again: worth a warning when it begins and then at growing intervals, a
 * debug line otherwise. {0}: there is none. Times are monotonic. */
struct log_trouble
{
  bool on;
  int64_t since_ms, next_ms, interval_ms;
};
enum log_level log_trouble_level (struct log_trouble *trouble, int64_t now_ms); /* it is there, or still there */
/* It is over, or was not there: then false. *lasted_ms is how long it was there. */
bool log_trouble_over (struct log_trouble *trouble, int64_t now_ms, int64_t *lasted_ms);

/* "debug" | "info" | "warn" | "error"; "text" | "json". -1 when the name is none of them. */
int log_level_parse (const char *name);
int log_format_parse (const char *name);

#endif
