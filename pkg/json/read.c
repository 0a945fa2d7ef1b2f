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

bool
json_equal (const cJSON *a, const cJSON *b)
{
  return a == b || (a != NULL && b != NULL && cJSON_Compare (a, b, true));
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

  return text ? text : xstrdup ("null");
}
