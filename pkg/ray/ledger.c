#include "ray/plan_internal.h"

#include <stdlib.h>
#include <string.h>

/* More slices than one group can sensibly have; a bound against nonsense in a hand-edited annotation. */
#define MAX_INDEX 100000

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
set_entry (struct ray_ledger_group *group, size_t index, struct ray_ledger_entry entry)
{
  while (group->count <= index)
    {
      group->entries = xgrow (group->entries, group->count, &group->cap, sizeof (*group->entries));
      group->entries[group->count++] = (struct ray_ledger_entry){ 0 };
    }
  group->entries[index] = entry;
}

/* "0c,2c,,1" up to `;` or the end; returns where it stopped. */
static const char *
parse_entries (struct ray_ledger_group *group, const char *p)
{
  for (size_t index = 0; index < MAX_INDEX; index++)
    {
      struct ray_ledger_entry entry = { 0 };
      char *end;

      entry.incarnation = (uint32_t) strtoul (p, &end, 10);
      p = end;
      if (*p == 'c')
        {
          entry.complete = true;
          p++;
        }
      if (entry.incarnation != 0 || entry.complete)
        set_entry (group, index, entry);
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

static size_t
used_entries (const struct ray_ledger_group *group)
{
  size_t n = group->count;

  while (n > 0 && group->entries[n - 1].incarnation == 0 && !group->entries[n - 1].complete)
    n--;
  return n;
}

char *
ray_ledger_print (const struct ray_ledger *ledger)
{
  struct buf out = { 0 };

  for (size_t i = 0; i < ledger->count; i++)
    {
      const struct ray_ledger_group *group = &ledger->groups[i];
      size_t n = used_entries (group);

      if (n == 0)
        continue;
      buf_printf (&out, "%s%s=", out.len ? ";" : "", group->name);
      for (size_t k = 0; k < n; k++)
        {
          if (k > 0)
            buf_char (&out, ',');
          if (group->entries[k].incarnation != 0 || group->entries[k].complete)
            buf_printf (&out, "%u%s", group->entries[k].incarnation, group->entries[k].complete ? "c" : "");
        }
    }
  return buf_take (&out);
}

bool
ray_ledger_holds (int64_t index)
{
  return index >= 0 && index < MAX_INDEX;
}

struct ray_ledger_entry
ray_ledger_get (const struct ray_ledger *ledger, const char *group, int64_t index)
{
  const struct ray_ledger_group *found = find_group (ledger, group, strlen (group));

  if (found == NULL || index < 0 || (size_t) index >= found->count)
    return (struct ray_ledger_entry){ 0 };
  return found->entries[index];
}

void
ray_ledger_set (struct ray_ledger *ledger, const char *group, int64_t index, struct ray_ledger_entry entry)
{
  struct ray_ledger_entry old = ray_ledger_get (ledger, group, index);

  if (!ray_ledger_holds (index) || (old.incarnation == entry.incarnation && old.complete == entry.complete))
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
      {
        free (ledger->groups[i].name);
        free (ledger->groups[i].entries);
      }
  ledger->changed |= kept != ledger->count;
  ledger->count = kept;
}

void
ray_ledger_free (struct ray_ledger *ledger)
{
  for (size_t i = 0; i < ledger->count; i++)
    {
      free (ledger->groups[i].name);
      free (ledger->groups[i].entries);
    }
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
      ledger.groups[i].entries[k].complete = false;
  return ray_ledger_print (&ledger);
}
