/* recent.c - the names of pods that went. What a pass has seen of a pod is in the ledger; one that came and went
 * between two passes is only here, so that its successor does not take its name. */
#include "controller/controller_internal.h"

#include <string.h>

/* The next pass comes at once, and a few more until it could write its ledger; this is plenty. */
#define KEPT_MS 300000
#define KEPT_MAX 256

struct recent_name
{
  char *name;
  int64_t ms;
};

static void
drop_oldest (struct recent *recent, size_t n)
{
  for (size_t i = 0; i < n; i++)
    free (recent->names[i].name);
  memmove (recent->names, recent->names + n, (recent->count - n) * sizeof (*recent->names));
  recent->count -= n;
}

static size_t
count_old (const struct recent *recent, int64_t now_ms)
{
  size_t n = 0;

  while (n < recent->count && recent->names[n].ms + KEPT_MS <= now_ms)
    n++;
  return n;
}

void
recent_add (struct recent *recent, const char *name, int64_t now_ms)
{
  size_t old = count_old (recent, now_ms);

  if (old > 0 || recent->count == KEPT_MAX)
    drop_oldest (recent, old > 0 ? old : 1);
  recent->names = xgrow (recent->names, recent->count, &recent->cap, sizeof (*recent->names));
  recent->names[recent->count++] = (struct recent_name){ .name = xstrdup (name), .ms = now_ms };
}

const char **
recent_copy (const struct recent *recent, int64_t now_ms, size_t *count)
{
  size_t first = count_old (recent, now_ms), size = 0;
  const char **copy;
  char *next;

  *count = recent->count - first;
  if (*count == 0)
    return NULL;
  for (size_t i = first; i < recent->count; i++)
    size += sizeof (*copy) + strlen (recent->names[i].name) + 1;
  copy = xmalloc (size);
  next = (char *) (copy + *count);
  for (size_t i = first; i < recent->count; i++)
    {
      copy[i - first] = next;
      next = stpcpy (next, recent->names[i].name) + 1;
    }
  return copy;
}

void
recent_free (struct recent *recent)
{
  if (recent->count > 0)
    drop_oldest (recent, recent->count);
  free (recent->names);
  *recent = (struct recent){ 0 };
}
