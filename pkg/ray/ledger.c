/* ledger.c - the annotation that remembers what cannot be read off the pods. Its text is as long as what there is to
 * tell, not as the highest index. */
#include "ray/manifest.h"
#include "ray/plan_internal.h"

#include <stdlib.h>
#include <string.h>

/* More slices than one group can sensibly have; a bound against nonsense in a hand-edited annotation. */
#define MAX_INDEX 100000
/* As many groups as a spec may have, and as many again that were removed from it. */
#define MAX_GROUPS (2 * RAY_ITEMS_MAX)
/* From here on a leap is shorter than commas, and a count than repetition. */
#define LEAP_MIN 4
#define RUN_MIN 4
/* Longest text of a group's beginning or of one run: its name, ";=" and a comma; "4294967295c" RUN_MIN - 1 times. */
#define ITEM_MAX 160

/* ---- groups and runs ---- */

static struct ray_ledger_group *
find_group (const struct ray_ledger *ledger, const char *name, size_t len)
{
  struct ray_ledger_group *group;

  HASH_FIND (hh, ledger->groups, name, len, group);
  return group;
}

static struct ray_ledger_group *
make_group (struct ray_ledger *ledger, const char *name, size_t len)
{
  struct ray_ledger_group *group = find_group (ledger, name, len);

  if (group != NULL)
    return group;
  group = xcalloc (1, sizeof (*group));
  group->name = xstrndup (name, len);
  HASH_ADD_KEYPTR (hh, ledger->groups, group->name, len, group);
  return group;
}

static void
drop_group (struct ray_ledger *ledger, struct ray_ledger_group *group)
{
  /* The analyzer does not know that only a list of one has no next. NOLINTNEXTLINE(clang-analyzer-*) */
  HASH_DEL (ledger->groups, group);
  free (group->name);
  free (group->runs);
  free (group);
}

static size_t
run_end (const struct ray_ledger_run *run)
{
  return (size_t) run->index + run->count;
}

/* Position of the first run that ends behind `index`. */
static size_t
find_run (const struct ray_ledger_group *group, size_t index)
{
  size_t low = 0, high = group->count;

  while (low < high)
    {
      size_t middle = low + (high - low) / 2;

      if (run_end (&group->runs[middle]) <= index)
        low = middle + 1;
      else
        high = middle;
    }
  return low;
}

static bool
covers (const struct ray_ledger_group *group, size_t at, size_t index)
{
  return at < group->count && group->runs[at].index <= index;
}

static bool
is_nothing (struct ray_ledger_entry entry)
{
  return entry.incarnation == 0 && !entry.complete;
}

static bool
is_same (struct ray_ledger_entry a, struct ray_ledger_entry b)
{
  return a.incarnation == b.incarnation && a.complete == b.complete;
}

/* Appends a run, or lengthens the last one when it goes on there. Returns how many there are. */
static size_t
push_run (struct ray_ledger_run *runs, size_t n, size_t index, size_t count, struct ray_ledger_entry entry)
{
  if (count == 0 || is_nothing (entry))
    return n;
  if (n > 0 && run_end (&runs[n - 1]) == index && is_same (runs[n - 1].entry, entry))
    {
      runs[n - 1].count += (uint32_t) count;
      return n;
    }
  runs[n] = (struct ray_ledger_run){ .index = (uint32_t) index, .count = (uint32_t) count, .entry = entry };
  return n + 1;
}

/* Cuts the index out of its run, and joins what comes to lie side by side. */
static void
set_entry (struct ray_ledger_group *group, size_t index, struct ray_ledger_entry entry)
{
  size_t at = find_run (group, index), first = at > 0 ? at - 1 : 0, last = at, n = 0;
  struct ray_ledger_run runs[5], cut = { 0 };

  if (first < at)
    n = push_run (runs, n, group->runs[first].index, group->runs[first].count, group->runs[first].entry);
  if (covers (group, at, index))
    cut = group->runs[last++];
  if (cut.count > 0)
    n = push_run (runs, n, cut.index, index - cut.index, cut.entry);
  n = push_run (runs, n, index, 1, entry);
  if (cut.count > 0)
    n = push_run (runs, n, index + 1, run_end (&cut) - index - 1, cut.entry);
  if (last < group->count)
    {
      n = push_run (runs, n, group->runs[last].index, group->runs[last].count, group->runs[last].entry);
      last++;
    }
  group->runs = xgrow (group->runs, group->count + n, &group->cap, sizeof (*group->runs));
  memmove (&group->runs[first + n], &group->runs[last], (group->count - last) * sizeof (*group->runs));
  memcpy (&group->runs[first], runs, n * sizeof (*runs));
  group->count += n - (last - first);
}

/* ---- from text ---- */

/* Reads digits; what is more than `max` is `max`, and not as we write it. */
static size_t
parse_number (const char **p, size_t max, bool *sound)
{
  char *end;
  unsigned long number = strtoul (*p, &end, 10);

  *p = end;
  *sound &= number <= max;
  return number <= max ? number : max;
}

/* One item, "500:2c*40": takes it in and returns where it ends; *index: where the next one begins. */
static const char *
parse_item (struct ray_ledger_group *group, const char *p, size_t *index, bool *sound)
{
  struct ray_ledger_entry entry = { 0 };
  size_t count = 1, number = parse_number (&p, UINT32_MAX, sound);

  if (*p == ':')
    {
      bool onward = number >= *index && number < MAX_INDEX; /* runs are appended */

      *sound &= onward;
      *index = onward ? number : MAX_INDEX;
      p++;
      number = parse_number (&p, UINT32_MAX, sound);
    }
  entry.incarnation = (uint32_t) number;
  entry.complete = *p == 'c';
  if (entry.complete)
    p++;
  if (*p == '*')
    {
      p++;
      count = parse_number (&p, MAX_INDEX - *index, sound);
    }
  if (is_nothing (entry))
    count = 1;
  group->runs = xgrow (group->runs, group->count, &group->cap, sizeof (*group->runs));
  if (*index < MAX_INDEX)
    group->count = push_run (group->runs, group->count, *index, count, entry);
  *index += count;
  return p;
}

/* "0c,2c,,1" up to `;` or the end; returns where it stopped. */
static const char *
parse_entries (struct ray_ledger_group *group, const char *p, bool *sound)
{
  size_t index = 0, len;

  while (index < MAX_INDEX)
    {
      p = parse_item (group, p, &index, sound);
      if (*p != ',')
        break;
      p++;
    }
  len = strcspn (p, ";");
  *sound &= len == 0;
  return p + len;
}

bool
ray_ledger_parse (struct ray_ledger *ledger, const char *text)
{
  bool sound = true;

  *ledger = (struct ray_ledger){ 0 };
  for (const char *p = text ? text : ""; *p != '\0';)
    {
      size_t len = strcspn (p, "=;");

      if (p[len] == '=' && len > 0 && find_group (ledger, p, len) == NULL && HASH_COUNT (ledger->groups) < MAX_GROUPS)
        {
          bool group_sound = true;

          p = parse_entries (make_group (ledger, p, len), p + len + 1, &group_sound);
          sound &= group_sound;
        }
      else
        {
          sound = false;
          p += strcspn (p, ";");
        }
      if (*p == ';')
        p++;
    }
  return sound;
}

/* ---- to text ---- */

/* The separators up to the item of `index`, when the last one ended before `next`. */
static void
print_gap (struct buf *out, size_t next, size_t index)
{
  size_t gap = index - next;

  if (next > 0)
    buf_char (out, ',');
  if (gap >= LEAP_MIN)
    buf_printf (out, "%zu:", index);
  else
    while (gap-- > 0)
      buf_char (out, ',');
}

static void
print_run (struct buf *out, const struct ray_ledger_run *run)
{
  const char *c = run->entry.complete ? "c" : "";

  if (run->count >= RUN_MIN)
    buf_printf (out, "%u%s*%u", run->entry.incarnation, c, run->count);
  else
    for (uint32_t i = 0; i < run->count; i++)
      buf_printf (out, "%s%u%s", i ? "," : "", run->entry.incarnation, c);
}

/* Up to about `room` bytes; without the slices that were never complete, when told so. */
static void
print_group (struct buf *out, const struct ray_ledger_group *group, bool only_complete, size_t room)
{
  size_t next = 0, begin = out->len;

  for (size_t i = 0; i < group->count && out->len - begin < room; i++)
    {
      const struct ray_ledger_run *run = &group->runs[i];

      if (only_complete && !run->entry.complete)
        continue;
      if (out->len == begin)
        buf_printf (out, "%s%s=", begin ? ";" : "", group->name);
      print_gap (out, next, run->index);
      print_run (out, run);
      next = run_end (run);
    }
}

static char *
print (const struct ray_ledger *ledger, bool only_complete, size_t room)
{
  const struct ray_ledger_group *group;
  struct buf out = { 0 };

  for (group = ledger->groups; group != NULL; group = group->hh.next)
    print_group (&out, group, only_complete, room);
  return buf_take (&out);
}

char *
ray_ledger_print (const struct ray_ledger *ledger)
{
  char *text = print (ledger, false, SIZE_MAX);

  if (strlen (text) > RAY_LEDGER_MAX)
    {
      free (text);
      text = print (ledger, true, SIZE_MAX);
    }
  if (strlen (text) > RAY_LEDGER_MAX)
    {
      size_t share = RAY_LEDGER_MAX / (HASH_COUNT (ledger->groups) + 1);

      free (text);
      text = print (ledger, true, share > ITEM_MAX ? share - ITEM_MAX : 0);
    }
  return text;
}

/* ---- entries ---- */

bool
ray_ledger_holds (int64_t index)
{
  return index >= 0 && index < MAX_INDEX;
}

struct ray_ledger_entry
ray_ledger_get (const struct ray_ledger *ledger, const char *group, int64_t index)
{
  const struct ray_ledger_group *found = find_group (ledger, group, strlen (group));
  size_t at;

  if (found == NULL || !ray_ledger_holds (index))
    return (struct ray_ledger_entry){ 0 };
  at = find_run (found, (size_t) index);
  return covers (found, at, (size_t) index) ? found->runs[at].entry : (struct ray_ledger_entry){ 0 };
}

void
ray_ledger_set (struct ray_ledger *ledger, const char *group, int64_t index, struct ray_ledger_entry entry)
{
  if (!ray_ledger_holds (index) || is_same (ray_ledger_get (ledger, group, index), entry))
    return;
  set_entry (make_group (ledger, group, strlen (group)), (size_t) index, entry);
  ledger->changed = true;
}

static void
want_group (const struct ray_ledger *ledger, const char *name)
{
  struct ray_ledger_group *group = find_group (ledger, name, strlen (name));

  if (group != NULL)
    group->wanted = true;
}

void
ray_ledger_retain (struct ray_ledger *ledger, const struct ray_cluster *cluster, const struct ray_observed *observed)
{
  struct ray_ledger_group *group, *tmp;

  want_group (ledger, RAY_HEAD_GROUP);
  for (size_t i = 0; i < cluster->ngroups; i++)
    want_group (ledger, cluster->groups[i].name);
  for (size_t i = 0; i < observed->npods; i++)
    if (ray_pod_owned (observed->pods[i], cluster))
      want_group (ledger, observed->pods[i]->group);
  HASH_ITER (hh, ledger->groups, group, tmp)
    if (!group->wanted)
      {
        drop_group (ledger, group);
        ledger->changed = true;
      }
}

void
ray_ledger_free (struct ray_ledger *ledger)
{
  struct ray_ledger_group *group, *tmp;

  HASH_ITER (hh, ledger->groups, group, tmp)
    drop_group (ledger, group);
  *ledger = (struct ray_ledger){ 0 };
}

char *
ray_slices_unseen (const char *text)
{
  cleanup_ledger struct ray_ledger ledger = { 0 };

  ray_ledger_parse (&ledger, text);
  for (struct ray_ledger_group *group = ledger.groups; group != NULL; group = group->hh.next)
    for (size_t i = 0; i < group->count; i++)
      group->runs[i].entry.complete = false;
  return ray_ledger_print (&ledger);
}
