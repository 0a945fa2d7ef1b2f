#include "base/memory.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static void __attribute__ ((noreturn)) out_of_memory (size_t size)
{
  fprintf (stderr, "fatal: out of memory (wanted %zu bytes); raise the memory limit of this container\n", size);
  abort ();
}

void *
xmalloc (size_t size)
{
  void *p = malloc (size ? size : 1);

  if (p == NULL)
    out_of_memory (size);
  return p;
}

void *
xcalloc (size_t count, size_t size)
{
  void *p = calloc (count ? count : 1, size ? size : 1);

  if (p == NULL)
    out_of_memory (count * size);
  return p;
}

void *
xrealloc (void *ptr, size_t size)
{
  void *p = realloc (ptr, size ? size : 1);

  if (p == NULL)
    out_of_memory (size);
  return p;
}

char *
xstrdup (const char *text)
{
  return xstrndup (text, strlen (text));
}

char *
xstrndup (const char *text, size_t len)
{
  char *copy;

  len = strnlen (text, len);
  copy = xmalloc (len + 1);
  memcpy (copy, text, len);
  copy[len] = '\0';
  return copy;
}

char *
xvasprintf (const char *fmt, va_list args)
{
  char *text = NULL;

  if (vasprintf (&text, fmt, args) < 0 || text == NULL)
    out_of_memory (0);
  return text;
}

char *
xasprintf (const char *fmt, ...)
{
  va_list args;
  char *text;

  va_start (args, fmt);
  text = xvasprintf (fmt, args);
  va_end (args);
  return text;
}

void *
xgrow (void *array, size_t count, size_t *capacity, size_t size)
{
  size_t wanted = *capacity ? *capacity : 8;

  if (array != NULL && count < *capacity)
    return array;
  while (wanted <= count)
    wanted *= 2;
  if (wanted > SIZE_MAX / size)
    out_of_memory (SIZE_MAX);
  *capacity = wanted;
  return xrealloc (array, wanted * size);
}

#define ARENA_CHUNK 4096
#define ARENA_ALIGN 16

struct arena_chunk
{
  struct arena_chunk *next;
  size_t used, size;
  _Alignas(ARENA_ALIGN) char data[];
};

void *
arena_alloc (struct arena *arena, size_t size)
{
  struct arena_chunk *chunk = arena->head;
  void *p;

  if (size > SIZE_MAX - 2 * ARENA_CHUNK)
    out_of_memory (size);
  size = (size + ARENA_ALIGN - 1) & ~(size_t) (ARENA_ALIGN - 1);
  if (chunk == NULL || chunk->size - chunk->used < size)
    {
      size_t room = size > ARENA_CHUNK ? size : ARENA_CHUNK;

      chunk = xmalloc (sizeof (*chunk) + room);
      *chunk = (struct arena_chunk){ .next = arena->head, .size = room };
      arena->head = chunk;
    }
  p = chunk->data + chunk->used;
  chunk->used += size;
  return memset (p, 0, size);
}

char *
arena_strdup (struct arena *arena, const char *text)
{
  return text ? arena_strndup (arena, text, strlen (text)) : NULL;
}

char *
arena_strndup (struct arena *arena, const char *text, size_t len)
{
  char *copy;

  len = strnlen (text, len);
  copy = arena_alloc (arena, len + 1);
  memcpy (copy, text, len);
  return copy;
}

char *
arena_printf (struct arena *arena, const char *fmt, ...)
{
  va_list args, again;
  char *text;
  int n;

  va_start (args, fmt);
  va_copy (again, args);
  n = vsnprintf (NULL, 0, fmt, args);
  va_end (args);
  text = arena_alloc (arena, (size_t) (n < 0 ? 0 : n) + 1);
  if (n > 0)
    vsnprintf (text, (size_t) n + 1, fmt, again);
  va_end (again);
  return text;
}

void
arena_free (struct arena *arena)
{
  while (arena->head != NULL)
    {
      struct arena_chunk *chunk = arena->head;

      arena->head = chunk->next;
      free (chunk);
    }
}
