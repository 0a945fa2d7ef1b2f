#include "admission/places.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define REPLICA_MAX 1000000 /* no group is this large; bounds what text can make of us */

void
places_free (struct places *places)
{
  free (take_ptr (places->entries));
  places->count = places->capacity = 0;
}

static int
compare (struct place a, struct place b)
{
  if (a.replica != b.replica)
    return a.replica < b.replica ? -1 : 1;
  return (a.host > b.host) - (a.host < b.host);
}

/* Index of the first entry that is not before the place. */
static size_t
find (const struct places *places, struct place place)
{
  size_t low = 0, high = places->count;

  while (low < high)
    {
      size_t middle = low + (high - low) / 2;

      if (compare (places->entries[middle].place, place) < 0)
        low = middle + 1;
      else
        high = middle;
    }
  return low;
}

/* Two know of a place: what holds it more firmly counts. */
static void
merge (struct place_entry *e, enum place_holder holder, int64_t expires_ms)
{
  bool used_up = e->expires_ms == expires_ms && e->holder != PLACE_LIVE && holder != PLACE_LIVE && holder != e->holder;

  if (used_up)
    e->holder = PLACE_LEAVING;
  else if (holder >= e->holder)
    *e = (struct place_entry){ e->place, holder, expires_ms };
}

void
places_note (struct places *places, struct place place, enum place_holder holder, int64_t expires_ms)
{
  size_t i;

  if (place.replica < 0 || place.replica > REPLICA_MAX || place.host < 0)
    return;
  i = find (places, place);
  if (i < places->count && compare (places->entries[i].place, place) == 0)
    {
      merge (&places->entries[i], holder, expires_ms);
      return;
    }
  places->entries = xgrow (places->entries, places->count, &places->capacity, sizeof (*places->entries));
  memmove (&places->entries[i + 1], &places->entries[i], (places->count - i) * sizeof (*places->entries));
  places->entries[i] = (struct place_entry){ place, holder, expires_ms };
  places->count++;
}

bool
places_hold (const struct places *places, const struct place_entry *reservation)
{
  size_t i = find (places, reservation->place);

  return i < places->count && compare (places->entries[i].place, reservation->place) == 0
         && places->entries[i].holder == PLACE_RESERVED && places->entries[i].expires_ms == reservation->expires_ms;
}

/* ---- choosing ---- */

/* The entries of one slice, entries[begin..end). */
struct slice
{
  int64_t replica;
  size_t begin, end;
  int64_t taken; /* places that a pod holds or is to hold */
};

static struct slice
slice_at (const struct places *places, size_t begin)
{
  struct slice s = { .replica = places->entries[begin].place.replica, .begin = begin, .end = begin };

  for (; s.end < places->count && places->entries[s.end].place.replica == s.replica; s.end++)
    if (places->entries[s.end].holder != PLACE_LEAVING)
      s.taken++;
  return s;
}

/* The lowest host of a slice that nobody has; else the lowest whose pod is leaving. */
static int64_t
free_host (const struct places *places, const struct slice *s)
{
  int64_t next = 0, leaving = -1;

  for (size_t i = s->begin; i < s->end; i++)
    {
      if (places->entries[i].place.host != next)
        return next;
      if (places->entries[i].holder == PLACE_LEAVING && leaving < 0)
        leaving = next;
      next++;
    }
  return next < places->hosts ? next : leaving;
}

/* Index for a new slice: the lowest that no pod has; where all that the group is to have have some, the lowest whose
 * pods are all leaving, because a higher one could not be a slice of that many. */
static int64_t
free_replica (const struct places *places)
{
  int64_t next = 0, leaving = -1;

  for (size_t i = 0; i < places->count;)
    {
      struct slice s = slice_at (places, i);

      if (s.replica != next)
        break;
      if (s.taken == 0 && leaving < 0)
        leaving = next;
      next++;
      i = s.end;
    }
  return next >= places->replicas && leaving >= 0 ? leaving : next;
}

/* Those that are places of the slices as they are now. */
static struct places
fitting (const struct places *places)
{
  struct places fit = { .hosts = places->hosts, .replicas = places->replicas };

  fit.entries = xcalloc (places->count + 1, sizeof (*fit.entries));
  fit.capacity = places->count + 1;
  for (size_t i = 0; i < places->count; i++)
    if (places->entries[i].place.host < places->hosts)
      fit.entries[fit.count++] = places->entries[i];
  return fit;
}

static int
choose (const struct places *places, struct place *out)
{
  int64_t begun = 0;
  bool reserved = false;

  for (size_t i = 0; i < places->count;)
    {
      struct slice s = slice_at (places, i);

      if (s.taken > 0 && s.taken < places->hosts)
        {
          *out = (struct place){ s.replica, free_host (places, &s) };
          return 0;
        }
      begun += s.taken > 0;
      for (; i < s.end; i++)
        reserved = reserved || places->entries[i].holder == PLACE_RESERVED;
    }
  if (begun >= places->replicas)
    return reserved ? -EAGAIN : -ENOSPC;
  *out = (struct place){ free_replica (places), 0 };
  return 0;
}

int
places_take (struct places *places, int64_t expires_ms, struct place_entry *out)
{
  cleanup_places struct places fit = fitting (places);
  size_t i;
  int ret;

  *out = (struct place_entry){ .holder = PLACE_RESERVED, .expires_ms = expires_ms };
  ret = choose (&fit, &out->place);
  if (ret < 0)
    return ret;
  i = find (places, out->place);
  /* Not the moment of the pod that leaves, or this reservation would be taken for its. */
  if (i < places->count && compare (places->entries[i].place, out->place) == 0
      && places->entries[i].expires_ms >= expires_ms)
    out->expires_ms = places->entries[i].expires_ms + 1;
  places_note (places, out->place, PLACE_RESERVED, out->expires_ms);
  return 0;
}

/* ---- text ---- */

char *
places_print (struct places *places)
{
  struct buf out = { 0 };

  buf_char (&out, '{');
  for (size_t i = 0; i < places->count; i++)
    {
      const struct place_entry *e = &places->entries[i];

      if (e->holder == PLACE_RESERVED)
        buf_printf (&out, "%s\"%" PRId64 ".%" PRId64 "\":%" PRId64, out.len > 1 ? "," : "", e->place.replica,
                    e->place.host, e->expires_ms);
    }
  buf_char (&out, '}');
  return buf_take (&out);
}

static int
read_place (struct place *out, const char *text)
{
  const char *dot = strchr (text, '.');
  cleanup_free char *replica = dot != NULL ? xstrndup (text, (size_t) (dot - text)) : NULL;

  if (replica == NULL || text_to_int (replica, 0, REPLICA_MAX, &out->replica) < 0
      || text_to_int (dot + 1, 0, INT32_MAX, &out->host) < 0)
    return -EINVAL;
  return 0;
}

int
places_read (struct places *places, const char *text, int64_t now_ms, struct error *err)
{
  cleanup_json cJSON *object = NULL;
  const cJSON *item;

  if (json_parse (&object, text, strlen (text), err) < 0)
    return -EINVAL;
  if (!cJSON_IsObject (object))
    return error_set (err, EINVAL, "reservations are of type %s, not an object", json_type_name (object));
  cJSON_ArrayForEach (item, object)
    {
      struct place place;

      if (!json_is_whole (item) || read_place (&place, item->string) < 0)
        return error_set (err, EINVAL, "\"%.40s\" is no reservation of a place", item->string);
      if ((int64_t) item->valuedouble > now_ms)
        places_note (places, place, PLACE_RESERVED, (int64_t) item->valuedouble);
    }
  return 0;
}
