#include "base/clock.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static int64_t
now_us (clockid_t id)
{
  struct timespec ts;

  clock_gettime (id, &ts);
  return (int64_t) ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

int64_t
clock_mono_us (void)
{
  return now_us (CLOCK_MONOTONIC);
}

int64_t
clock_mono_ms (void)
{
  return now_us (CLOCK_MONOTONIC) / 1000;
}

int64_t
clock_wall_ms (void)
{
  return now_us (CLOCK_REALTIME) / 1000;
}

static size_t
format_seconds (int64_t wall_ms, char *out, size_t size)
{
  time_t seconds = (time_t) (wall_ms / 1000);
  struct tm tm;

  gmtime_r (&seconds, &tm);
  return strftime (out, size, "%Y-%m-%dT%H:%M:%S", &tm);
}

void
clock_format_rfc3339 (int64_t wall_ms, char out[CLOCK_RFC3339_SIZE])
{
  size_t n = format_seconds (wall_ms, out, CLOCK_RFC3339_SIZE);

  snprintf (out + n, CLOCK_RFC3339_SIZE - n, "Z");
}

void
clock_format_rfc3339_micro (int64_t wall_ms, char out[CLOCK_RFC3339_MS_SIZE])
{
  size_t n = format_seconds (wall_ms, out, CLOCK_RFC3339_MS_SIZE);

  snprintf (out + n, CLOCK_RFC3339_MS_SIZE - n, ".%03" PRId64 "000Z", wall_ms % 1000);
}

void
clock_format_rfc3339_ms (int64_t wall_ms, char out[CLOCK_RFC3339_MS_SIZE])
{
  size_t n = format_seconds (wall_ms, out, CLOCK_RFC3339_MS_SIZE);

  snprintf (out + n, CLOCK_RFC3339_MS_SIZE - n, ".%03" PRId64 "Z", wall_ms % 1000);
}

/* The part after the seconds: [.fraction](Z|±hh:mm). */
static int
parse_fraction_and_zone (const char *p, int64_t *extra_ms)
{
  int64_t fraction = 0, scale = 100;
  int hours, minutes, used = 0;

  if (*p == '.')
    for (p++; isdigit ((unsigned char) *p); p++, scale /= 10)
      fraction += (*p - '0') * scale;
  *extra_ms = fraction;
  if ((*p == 'Z' || *p == 'z') && p[1] == '\0')
    return 0;
  if ((*p != '+' && *p != '-') || sscanf (p + 1, "%2d:%2d%n", &hours, &minutes, &used) != 2 || p[1 + used] != '\0')
    return -EINVAL;
  *extra_ms += (*p == '+' ? -1 : 1) * (int64_t) (hours * 60 + minutes) * 60000;
  return 0;
}

int
clock_parse_rfc3339 (const char *text, int64_t *wall_ms)
{
  struct tm tm = { 0 };
  int64_t extra_ms;
  char *rest;

  rest = strptime (text, "%Y-%m-%dT%H:%M:%S", &tm);
  if (rest == NULL || parse_fraction_and_zone (rest, &extra_ms) < 0)
    return -EINVAL;
  *wall_ms = (int64_t) timegm (&tm) * 1000 + extra_ms;
  return 0;
}

void
clock_sleep_ms (int64_t ms)
{
  struct timespec ts = { .tv_sec = ms / 1000, .tv_nsec = (ms % 1000) * 1000000 };

  while (nanosleep (&ts, &ts) < 0 && errno == EINTR)
    ;
}
