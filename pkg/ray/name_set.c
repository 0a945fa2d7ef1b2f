/* name_set.c - names to be looked up many times: sorted once. */
#include "ray/plan_internal.h"

#include <stdlib.h>
#include <string.h>

static int
compare_names (const void *a, const void *b)
{
  return strcmp (*(const char *const *) a, *(const char *const *) b);
}

static void
sort (struct ray_name_set *set)
{
  if (set->count > 1)
    qsort (set->names, set->count, sizeof (*set->names), compare_names);
}

void
ray_name_set_list (struct ray_name_set *set, const cJSON *list)
{
  size_t cap = 0;
  const cJSON *item;

  *set = (struct ray_name_set){ 0 };
  cJSON_ArrayForEach (item, list)
    if (cJSON_IsString (item))
      {
        set->names = xgrow (set->names, set->count, &cap, sizeof (*set->names));
        set->names[set->count++] = item->valuestring;
      }
  sort (set);
}

void
ray_name_set_copy (struct ray_name_set *set, const char *const *names, size_t count)
{
  *set = (struct ray_name_set){ 0 };
  if (count == 0)
    return;
  set->names = xcalloc (count, sizeof (*set->names));
  set->count = count;
  memcpy (set->names, names, count * sizeof (*names));
  sort (set);
}

bool
ray_name_set_has (const struct ray_name_set *set, const char *name)
{
  return set->count > 0 && bsearch (&name, set->names, set->count, sizeof (*set->names), compare_names) != NULL;
}

void
ray_name_set_free (struct ray_name_set *set)
{
  free (set->names);
  *set = (struct ray_name_set){ 0 };
}
