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

int
tpu_hosts_parse (struct tpu_hosts *hosts, const char *list, int64_t count, struct arena *arena)
{
  size_t n = 0;

  *hosts = (struct tpu_hosts){ .count = (size_t) count };
  if (hosts->count > TPU_ENV_MAX)
    return -EINVAL;
  hosts->items = arena_alloc (arena, hosts->count * sizeof (hosts->items[0]));
  for (const char *p = list;; p++)
    {
      size_t len = strcspn (p, ",");
      const char *name = arena_strndup (arena, p, len);

      if (!text_is_dns1123_subdomain (name))
        return -EINVAL;
      if (n == 0 || !text_eq (name, hosts->items[n - 1].text))
        {
          if (n == hosts->count)
            return -EINVAL;
          hosts->items[n++] = (struct tpu_word){ .text = name, .len = len };
        }
      p += len;
      if (*p == '\0')
        return n == hosts->count ? 0 : -EINVAL;
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
