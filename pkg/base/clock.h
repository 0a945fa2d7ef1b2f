/* clock.h - time: monotonic for waiting, wall clock for people. All in milliseconds; pure code is handed its `now`. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

#define CLOCK_RFC3339_SIZE 32
#define CLOCK_RFC3339_MS_SIZE 40

int64_t clock_mono_ms (void); /* CLOCK_MONOTONIC */
int64_t clock_mono_us (void);
int64_t clock_wall_ms (void); /* since the epoch, UTC */

/* "2026-08-19T10:11:12Z" (whole seconds, as metav1.Time) and with microseconds "…12.345000Z" (metav1.MicroTime). */
void clock_format_rfc3339 (int64_t wall_ms, char out[CLOCK_RFC3339_SIZE]);
void clock_format_rfc3339_micro (int64_t wall_ms, char out[CLOCK_RFC3339_MS_SIZE]);
void clock_format_rfc3339_ms (int64_t wall_ms, char out[CLOCK_RFC3339_MS_SIZE]);

/* RFC 3339 with optional fraction, Z or ±hh:mm offset -> ms since the epoch; -EINVAL when it is none. */
int clock_parse_rfc3339 (const char *text, int64_t *wall_ms);

void clock_sleep_ms (int64_t ms);

#endif
