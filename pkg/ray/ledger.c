/* ledger.c - the annotation that remembers what cannot be read off the pods. Its text is as long as what there is to
 * tell, not as the highest index. */
#include "ray/plan_internal.h"

#include <stdlib.h>
#include <string.h>

/* More slices than one group can sensibly have; a bound against nonsense in a hand-edited annotation. */
#define MAX_INDEX 100000
/* From here on a leap is shorter than commas, and a count than repetition. */
#define LEAP_MIN 4
#define RUN_MIN 4
/* Longest text of a group's beginning or of one run: its name, ";=" and a comma; "4294967295c" RUN_MIN - 1 times. */
#define ITEM_MAX 160

/* ---- groups and slots ---- */

static struct ray_ledger_group *
find_group (const struct ray_ledger *ledger, const char *name, size_t len)
{
  for (size_t i = 0; i < ledger->count; i++)
    if (strlen (ledger->groups[i].name) == len && memcmp (ledger->groups[i].name, name, len) == 0)
      return &ledger->groups[i];
  return NULL;
}

static struct ray_ledger_group *
make_group (struct ray_ledger *ledger, const char *name, size_t len)
{
  struct ray_ledger_group *group = find_group (ledger, name, len);

  if (group != NULL)
    return group;
  ledger->groups = xgrow (ledger->groups, ledger->count, &ledger->cap, sizeof (*ledger->groups));
  group = &ledger->groups[ledger->count++];
  *group = (struct ray_ledger_group){ .name = xstrndup (name, len) };
  return group;
}

static void
free_group (struct ray_ledger_group *group)
{
  free (group->name);
  free (group->slots);
}

/* Position of the first slot whose index is not below `index`. */
static size_t
find_slot (const struct ray_ledger_group *group, size_t index)
{
  size_t low = 0, high = group->count;

  while (low < high)
    {
      size_t middle = low + (high - low) / 2;

      if (group->slots[middle].index < index)
        low = middle + 1;
      else
        high = middle;
    }
  return low;
}

static void
set_entry (struct ray_ledger_group *group, size_t index, struct ray_ledger_entry entry)
{
  size_t at = find_slot (group, index);

  if (at >= group->count || group->slots[at].index != index)
    {
      group->slots = xgrow (group->slots, group->count, &group->cap, sizeof (*group->slots));
      memmove (&group->slots[at + 1], &group->slots[at], (group->count - at) * sizeof (*group->slots));
      group->count++;
    }
  group->slots[at] = (struct ray_ledger_slot){ .index = (uint32_t) index, .entry = entry };
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

/* ---- from text ---- */

/* One item, "500:2c*40": takes it in and returns where it ends; *index: where the next one begins. */
static const char *
parse_item (struct ray_ledger_group *group, const char *p, size_t *index)
{
  struct ray_ledger_entry entry = { 0 };
  size_t count = 1;
  char *end;
  unsigned long number = strtoul (p, &end, 10);

  if (*end == ':')
    {
      *index = number < MAX_INDEX ? number : MAX_INDEX;
      number = strtoul (end + 1, &end, 10);
    }
  entry.incarnation = number < UINT32_MAX ? (uint32_t) number : UINT32_MAX;
  entry.complete = *end == 'c';
  if (entry.complete)
    end++;
  if (*end == '*')
    count = strtoul (end + 1, &end, 10);
  if (is_nothing (entry))
    count = 1;
  for (; count > 0 && *index < MAX_INDEX; count--, (*index)++)
    if (!is_nothing (entry))
      set_entry (group, *index, entry);
  return end;
}

/* "0c,2c,,1" up to `;` or the end; returns where it stopped. */
static const char *
parse_entries (struct ray_ledger_group *group, const char *p)
{
  size_t index = 0;

  while (index < MAX_INDEX)
    {
      p = parse_item (group, p, &index);
      if (*p != ',')
        break;
      p++;
    }
  return p + strcspn (p, ";");
}

void
ray_ledger_parse (struct ray_ledger *ledger, const char *text)
{
  *ledger = (struct ray_ledger){ 0 };
  for (const char *p = text ? text : ""; *p != '\0';)
    {
      size_t len = strcspn (p, "=;");

      if (p[len] == '=' && len > 0)
        p = parse_entries (make_group (ledger, p, len), p + len + 1);
      else
        p += strcspn (p, ";");
      if (*p == ';')
        p++;
    }
}

/* ---- to text ---- */

/* How many slots from `first` on are of one kind and next to each other. */
static size_t
run_length (const struct ray_ledger_group *group, size_t first)
{
  const struct ray_ledger_slot *slots = group->slots;
  size_t n = 1;

  while (first + n < group->count && slots[first + n].index == slots[first].index + n
         && is_same (slots[first + n].entry, slots[first].entry))
    n++;
  return n;
}

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
print_run (struct buf *out, struct ray_ledger_entry entry, size_t n)
{
  const char *c = entry.complete ? "c" : "";

  if (n >= RUN_MIN)
    buf_printf (out, "%u%s*%zu", entry.incarnation, c, n);
  else
    for (size_t i = 0; i < n; i++)
      buf_printf (out, "%s%u%s", i ? "," : "", entry.incarnation, c);
}

/* Up to about `room` bytes; without the slices that were never complete, when told so. */
static void
print_group (struct buf *out, const struct ray_ledger_group *group, bool only_complete, size_t room)
{
  size_t next = 0, begin = out->len;

  for (size_t i = 0, n; i < group->count && out->len - begin < room; i += n)
    {
      const struct ray_ledger_slot *slot = &group->slots[i];

      n = run_length (group, i);
      if (is_nothing (slot->entry) || (only_complete && !slot->entry.complete))
        continue;
      if (out->len == begin)
        buf_printf (out, "%s%s=", begin ? ";" : "", group->name);
      print_gap (out, next, slot->index);
      print_run (out, slot->entry, n);
      next = slot->index + n;
    }
}

static char *
print (const struct ray_ledger *ledger, bool only_complete, size_t room)
{
  struct buf out = { 0 };

  for (size_t i = 0; i < ledger->count; i++)
    print_group (&out, &ledger->groups[i], only_complete, room);
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
      size_t share = RAY_LEDGER_MAX / (ledger->count + 1);

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
  at = find_slot (found, (size_t) index);
  if (at >= found->count || found->slots[at].index != (size_t) index)
    return (struct ray_ledger_entry){ 0 };
  return found->slots[at].entry;
}

void
ray_ledger_set (struct ray_ledger *ledger, const char *group, int64_t index, struct ray_ledger_entry entry)
{
  if (!ray_ledger_holds (index) || is_same (ray_ledger_get (ledger, group, index), entry))
    return;
  set_entry (make_group (ledger, group, strlen (group)), (size_t) index, entry);
  ledger->changed = true;
}

void
ray_ledger_retain (struct ray_ledger *ledger, const struct ray_cluster *cluster)
{
  size_t kept = 0;

  for (size_t i = 0; i < ledger->count; i++)
    if (ray_cluster_group (cluster, ledger->groups[i].name) != NULL)
      ledger->groups[kept++] = ledger->groups[i];
    else
      free_group (&ledger->groups[i]);
  ledger->changed |= kept != ledger->count;
  ledger->count = kept;
}

void
ray_ledger_free (struct ray_ledger *ledger)
{
  for (size_t i = 0; i < ledger->count; i++)
    free_group (&ledger->groups[i]);
  free (ledger->groups);
  *ledger = (struct ray_ledger){ 0 };
}

char *
ray_slices_unseen (const char *text)
{
  cleanup_ledger struct ray_ledger ledger = { 0 };

  ray_ledger_parse (&ledger, text);
  for (size_t i = 0; i < ledger.count; i++)
    for (size_t k = 0; k < ledger.groups[i].count; k++)
      ledger.groups[i].slots[k].entry.complete = false;
  return ray_ledger_print (&ledger);
}
