#include "json/json.h"

#include <errno.h>

#include <math.h>
#include <string.h>

cJSON *
json_get_ (const cJSON *v, const char *const *keys)
{
  for (; v != NULL && *keys != NULL; keys++)
    v = cJSON_IsObject (v) ? cJSON_GetObjectItemCaseSensitive (v, *keys) : NULL;
  return (cJSON *) (uintptr_t) v;
}

const char *
json_str_ (const cJSON *v, const char *const *keys)
{
  return cJSON_GetStringValue (json_get_ (v, keys));
}

bool
json_is_whole (const cJSON *v)
{
  return cJSON_IsNumber (v) && v->valuedouble == trunc (v->valuedouble) && fabs (v->valuedouble) <= 9007199254740992.0;
}

int64_t
json_int_ (const cJSON *v, int64_t def, const char *const *keys)
{
  const cJSON *found = json_get_ (v, keys);

  return json_is_whole (found) ? (int64_t) found->valuedouble : def;
}

bool
json_bool_ (const cJSON *v, bool def, const char *const *keys)
{
  const cJSON *found = json_get_ (v, keys);

  return cJSON_IsBool (found) ? cJSON_IsTrue (found) : def;
}

cJSON *
json_find (const cJSON *array, const char *key, const char *value)
{
  const cJSON *item;

  if (!cJSON_IsArray (array))
    return NULL;
  cJSON_ArrayForEach (item, array)
    if (text_eq (json_str (item, key), value))
      return (cJSON *) (uintptr_t) item;
  return NULL;
}

static int
compare_names (const void *a, const void *b)
{
  return strcmp ((*(const cJSON *const *) a)->string, (*(const cJSON *const *) b)->string);
}

/* The members of an object by name. Owned by the caller. */
static const cJSON **
sorted_members (const cJSON *object, size_t count)
{
  const cJSON **list = xcalloc (count + 1, sizeof (const cJSON *));
  const cJSON *item;
  size_t i = 0;

  cJSON_ArrayForEach (item, object)
    list[i++] = item;
  qsort (list, count, sizeof (const cJSON *), compare_names);
  return list;
}

static bool
same_members_sorted (const cJSON *a, const cJSON *b, size_t count)
{
  cleanup_free const cJSON **in_a = sorted_members (a, count);
  cleanup_free const cJSON **in_b = sorted_members (b, count);

  for (size_t i = 0; i < count; i++)
    if (strcmp (in_a[i]->string, in_b[i]->string) != 0 || !json_equal (in_a[i], in_b[i]))
      return false;
  return true;
}

static bool
same_members (const cJSON *a, const cJSON *b)
{
  size_t count = (size_t) cJSON_GetArraySize (a);
  const cJSON *x = a->child, *y = b->child;

  if (count != (size_t) cJSON_GetArraySize (b))
    return false;
  while (x != NULL && strcmp (x->string, y->string) == 0)
    {
      x = x->next;
      y = y->next;
    }
  if (x != NULL)
    return same_members_sorted (a, b, count);
  for (x = a->child, y = b->child; x != NULL; x = x->next, y = y->next)
    if (!json_equal (x, y))
      return false;
  return true;
}

static bool
same_elements (const cJSON *a, const cJSON *b)
{
  for (a = a->child, b = b->child; a != NULL && b != NULL; a = a->next, b = b->next)
    if (!json_equal (a, b))
      return false;
  return a == NULL && b == NULL;
}

/* Not cJSON_Compare: it compares each pair of members twice, so its time doubles with every level of nesting, and looks
 * every name up from the start. A few hundred bytes from outside could hold a thread for hours. */
bool
json_equal (const cJSON *a, const cJSON *b)
{
  if (a == b || a == NULL || b == NULL)
    return a == b;
  if ((a->type & 0xff) != (b->type & 0xff))
    return false;
  if (cJSON_IsObject (a))
    return same_members (a, b);
  if (cJSON_IsArray (a))
    return same_elements (a, b);
  if (cJSON_IsString (a))
    return strcmp (a->valuestring, b->valuestring) == 0;
  return !cJSON_IsNumber (a) || a->valuedouble == b->valuedouble;
}

const char *
json_type_name (const cJSON *v)
{
  static const struct
  {
    int type;
    const char *name;
  } names[] = {
    { cJSON_Object, "object" }, { cJSON_Array, "array" },  { cJSON_String, "string" }, { cJSON_Number, "number" },
    { cJSON_False, "boolean" }, { cJSON_True, "boolean" }, { cJSON_NULL, "null" },
  };

  for (size_t i = 0; v != NULL && i < ARRAY_LEN (names); i++)
    if ((v->type & 0xff) == names[i].type)
      return names[i].name;
  return "nothing";
}

int
json_parse (cJSON **out, const char *text, size_t len, struct error *err)
{
  const char *end = text;
  cJSON *v = cJSON_ParseWithLengthOpts (text, len, &end, false);

  *out = NULL;
  if (v == NULL)
    return error_set (err, EINVAL, "this is no JSON: it goes wrong at byte %zu of %zu", (size_t) (end - text), len);
  for (; end < text + len; end++)
    if (strchr (" \t\r\n", *end) == NULL || *end == '\0')
      {
        cJSON_Delete (v);
        return error_set (err, EINVAL, "this is no JSON: something follows the value at byte %zu of %zu",
                          (size_t) (end - text), len);
      }
  *out = v;
  return 0;
}

char *
json_print (const cJSON *v)
{
  char *text = cJSON_PrintBuffered (v, 1024, false);
  char *copy = xstrdup (text ? text : "null"); /* cJSON's memory is not always free ()'s: see scratch.c */

  cJSON_free (text);
  return copy;
}
