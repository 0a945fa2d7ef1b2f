/* error.h - one human sentence that carries the values that matter, wrapped on the way up.
 * Functions that can fail return 0 or -errno and fill the trailing `struct error *` (design §6). */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

struct error
{
  char message[1024]; /* "" while nothing went wrong; longer sentences are cut and end in "..." */
};

/* Sets the message (err may be NULL) and returns -code, so that failures read `return error_set (err, EINVAL, ...);`.
 */
int error_set (struct error *err, int code, const char *fmt, ...) __attribute__ ((format (printf, 3, 4)));

/* Puts "<text>: " in front of the message and returns ret unchanged. */
int error_wrap (struct error *err, int ret, const char *fmt, ...) __attribute__ ((format (printf, 3, 4)));

#endif
