/* hosts.c - lists of host names and what is joined from them. The longest have thousands of entries: lengths are known
 * before anything is written, and what could not be an env value is never built. */
#include "tpu/tpu_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define INDEX_DIGITS 20

static char *
put (char *at, const char *text, size_t len)
{
  memcpy (at, text, len);
  return at + len;
}

void
tpu_hosts_name (struct tpu_hosts *hosts, const struct tpu_identity *id, struct arena *arena)
{
  static const struct tpu_word local = { "localhost", sizeof ("localhost") - 1 };
  size_t stem_len = id->stem ? strlen (id->stem) : 0, domain_len = id->stem ? strlen (id->domain) : 0;
  size_t shortest = stem_len + domain_len;
  char *at;

  *hosts = (struct tpu_hosts){ .count = (size_t) id->hosts };
  if (hosts->count > TPU_ENV_MAX / (shortest + 1))
    return;
  hosts->items = arena_alloc (arena, hosts->count * sizeof (hosts->items[0]));
  at = arena_alloc (arena, hosts->count * (shortest + INDEX_DIGITS + 1));
  for (size_t h = 0; h < hosts->count; h++)
    {
      bool lead = id->lead != NULL && h == 0;
      char index[INDEX_DIGITS + 1];
      char *start = at;

      if (id->stem == NULL)
        {
          hosts->items[h] = local;
          continue;
        }
      snprintf (index, sizeof (index), "%" PRId64, id->first + (int64_t) h - (id->lead != NULL));
      at = put (at, lead ? id->lead : id->stem, lead ? strlen (id->lead) : stem_len);
      at = put (at, index, lead ? 0 : strlen (index));
      at = put (at, ".", 1);
      at = put (at, id->domain, domain_len);
      hosts->items[h] = (struct tpu_word){ .text = start, .len = (size_t) (at - start) };
    }
}

static bool
is_host (const struct tpu_word *word)
{
  char name[TPU_NAME_SIZE];

  if (word->len >= sizeof (name))
    return false;
  *put (name, word->text, word->len) = '\0';
  return text_is_dns1123_subdomain (name);
}

static bool
same_word (const struct tpu_word *a, const struct tpu_word *b)
{
  return a->len == b->len && memcmp (a->text, b->text, a->len) == 0;
}

/* By a hash table of twice their number: a list of the user's may have thousands. */
static bool
all_differ (const struct tpu_hosts *hosts, struct arena *arena)
{
  size_t room = 2 * hosts->count;
  const struct tpu_word **seen = arena_alloc (arena, room * sizeof (const struct tpu_word *));

  memset (seen, 0, room * sizeof (const struct tpu_word *));
  for (size_t h = 0; h < hosts->count; h++)
    {
      size_t at = text_hash (0, hosts->items[h].text, hosts->items[h].len) % room;

      for (; seen[at] != NULL; at = (at + 1) % room)
        if (same_word (seen[at], &hosts->items[h]))
          return false;
      seen[at] = &hosts->items[h];
    }
  return true;
}

int
tpu_hosts_parse (struct tpu_hosts *hosts, const char *list, int64_t count, struct arena *arena)
{
  size_t len = strnlen (list, TPU_ENV_MAX), n = 0;

  *hosts = (struct tpu_hosts){ .count = (size_t) count };
  if (len == TPU_ENV_MAX || hosts->count > len) /* no variable has room for it, or it for so many */
    return -EINVAL;
  hosts->items = arena_alloc (arena, hosts->count * sizeof (hosts->items[0]));
  for (const char *p = list;; p++)
    {
      struct tpu_word word = { .text = p, .len = strcspn (p, ",") };

      if (!is_host (&word))
        return -EINVAL;
      if (n == 0 || !same_word (&word, &hosts->items[n - 1]))
        {
          if (n == hosts->count)
            return -EINVAL;
          hosts->items[n++] = word;
        }
      p += word.len;
      if (*p == '\0')
        return n == hosts->count && all_differ (hosts, arena) ? 0 : -EINVAL;
    }
}

static size_t
total_length (const struct tpu_word *words, size_t count)
{
  size_t total = 0;

  for (size_t i = 0; i < count; i++)
    total += words[i].len;
  return total;
}

char *
tpu_hosts_join (const struct tpu_hosts *hosts, const struct tpu_word *suffixes, size_t nsuffixes, const char *name,
                struct arena *arena)
{
  size_t limit = TPU_ENV_MAX - strlen (name) - 2; /* the equals sign and the NUL */
  size_t length;
  char *joined, *at;

  if (hosts->items == NULL || nsuffixes > limit || hosts->count * nsuffixes > limit)
    return NULL;
  length = nsuffixes * total_length (hosts->items, hosts->count)
           + hosts->count * (total_length (suffixes, nsuffixes) + nsuffixes) - 1;
  if (length > limit)
    return NULL;
  at = joined = arena_alloc (arena, length + 1);
  for (size_t h = 0; h < hosts->count; h++)
    for (size_t s = 0; s < nsuffixes; s++)
      {
        if (at != joined)
          *at++ = ',';
        at = put (at, hosts->items[h].text, hosts->items[h].len);
        at = put (at, suffixes[s].text, suffixes[s].len);
      }
  return joined;
}
