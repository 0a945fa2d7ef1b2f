/* memory.h - allocation that cannot fail, cleanup attributes, and arenas.
 * Out of memory aborts with a message (design §6): there are no half-handled allocation failures anywhere. */
#ifndef BASE_MEMORY_H
#define BASE_MEMORY_H

#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

void *xmalloc (size_t size) __attribute__ ((malloc, returns_nonnull));
void *xcalloc (size_t count, size_t size) __attribute__ ((malloc, returns_nonnull));
void *xrealloc (void *ptr, size_t size) __attribute__ ((returns_nonnull));
char *xstrdup (const char *text) __attribute__ ((malloc, returns_nonnull));
char *xstrndup (const char *text, size_t len) __attribute__ ((malloc, returns_nonnull));
char *xasprintf (const char *fmt, ...) __attribute__ ((malloc, returns_nonnull, format (printf, 1, 2)));
char *xvasprintf (const char *fmt, va_list args) __attribute__ ((malloc, returns_nonnull, format (printf, 1, 0)));

/* Grows *array (elements of `size` bytes) so that index `count` is valid; *capacity is in elements. */
void *xgrow (void *array, size_t count, size_t *capacity, size_t size) __attribute__ ((returns_nonnull));

/* `cleanup_free char *s = ...;` frees s when its scope ends. */
#define cleanup_free __attribute__ ((cleanup (cleanup_freep)))
/* `cleanup_close int fd = -1;` closes fd when its scope ends and fd is not negative. */
#define cleanup_close __attribute__ ((cleanup (cleanup_closep)))

static inline void
cleanup_freep (void *p)
{
  free (*(void **) p);
}

static inline void
cleanup_closep (int *fd)
{
  if (*fd >= 0)
    close (*fd);
}

/* Takes the value out of a cleanup variable: returns it and leaves NULL behind. */
#define take_ptr(p)                                                                                                    \
  ({                                                                                                                   \
    __typeof__ (p) taken_ = (p);                                                                                       \
    (p) = NULL;                                                                                                        \
    taken_;                                                                                                            \
  })

#define ARRAY_LEN(a) (sizeof (a) / sizeof ((a)[0]))

/* A bump allocator: everything taken from it lives until arena_free. Zero-initialise (`struct arena a = { 0 };`).
 * One per request or per reconcile (design §5); not for sharing between threads. */
struct arena
{
  struct arena_chunk *head;
};

void *arena_alloc (struct arena *arena, size_t size) __attribute__ ((returns_nonnull)); /* zeroed, 16-byte aligned */
char *arena_strdup (struct arena *arena, const char *text);                             /* NULL stays NULL */
char *arena_strndup (struct arena *arena, const char *text, size_t len);
char *arena_printf (struct arena *arena, const char *fmt, ...)
    __attribute__ ((format (printf, 2, 3), returns_nonnull, nonnull (2)));
void arena_free (struct arena *arena);

#define cleanup_arena __attribute__ ((cleanup (arena_free)))

#endif
