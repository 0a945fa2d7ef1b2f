#include "json/json.h"

#include <stdio.h>
#include <string.h>

static cJSON *
made (cJSON *v)
{
  if (v == NULL)
    {
      fputs ("fatal: out of memory while building JSON\n", stderr);
      abort ();
    }
  return v;
}

cJSON *
json_set (cJSON *object, const char *key, cJSON *value)
{
  made (value);
  if (cJSON_GetObjectItemCaseSensitive (object, key) != NULL)
    cJSON_ReplaceItemInObjectCaseSensitive (object, key, value);
  else
    cJSON_AddItemToObject (object, key, value);
  return value;
}

cJSON *
json_set_str (cJSON *object, const char *key, const char *value)
{
  return value ? json_set (object, key, cJSON_CreateString (value)) : NULL;
}

cJSON *
json_set_int (cJSON *object, const char *key, int64_t value)
{
  return json_set (object, key, cJSON_CreateNumber ((double) value));
}

cJSON *
json_set_bool (cJSON *object, const char *key, bool value)
{
  return json_set (object, key, cJSON_CreateBool (value));
}

cJSON *
json_set_copy (cJSON *object, const char *key, const cJSON *value)
{
  return value ? json_set (object, key, cJSON_Duplicate (value, true)) : NULL;
}

cJSON *
json_obj (cJSON *object, const char *key)
{
  cJSON *v = cJSON_GetObjectItemCaseSensitive (object, key);

  return cJSON_IsObject (v) ? v : json_set (object, key, cJSON_CreateObject ());
}

cJSON *
json_arr (cJSON *object, const char *key)
{
  cJSON *v = cJSON_GetObjectItemCaseSensitive (object, key);

  return cJSON_IsArray (v) ? v : json_set (object, key, cJSON_CreateArray ());
}

cJSON *
json_push (cJSON *array, cJSON *value)
{
  cJSON_AddItemToArray (array, made (value));
  return value;
}

cJSON *
json_push_str (cJSON *array, const char *value)
{
  return json_push (array, cJSON_CreateString (value));
}

cJSON *
json_push_obj (cJSON *array)
{
  return json_push (array, cJSON_CreateObject ());
}

void
json_drop (cJSON *object, const char *key)
{
  cJSON_DeleteItemFromObjectCaseSensitive (object, key);
}

void
json_merge_flat (cJSON *into, const cJSON *from, bool overwrite)
{
  const cJSON *item;

  if (!cJSON_IsObject (from))
    return;
  cJSON_ArrayForEach (item, from)
    if (overwrite || cJSON_GetObjectItemCaseSensitive (into, item->string) == NULL)
      json_set_copy (into, item->string, item);
}

/* ---- printing for people ---- */

static void
indent (struct buf *out, int level)
{
  buf_printf (out, "\n%*s", level * 2, "");
}

static void
print_pretty (struct buf *out, const cJSON *v, int level)
{
  bool object = cJSON_IsObject (v);
  const cJSON *item;

  if ((!object && !cJSON_IsArray (v)) || v->child == NULL)
    {
      cleanup_free char *text = json_print (v);

      buf_str (out, text);
      return;
    }
  buf_char (out, object ? '{' : '[');
  cJSON_ArrayForEach (item, v)
    {
      indent (out, level + 1);
      if (object)
        {
          text_quote_json (out, item->string);
          buf_str (out, ": ");
        }
      print_pretty (out, item, level + 1);
      if (item->next != NULL)
        buf_char (out, ',');
    }
  indent (out, level);
  buf_char (out, object ? '}' : ']');
}

char *
json_print_pretty (const cJSON *v)
{
  struct buf out = { 0 };

  print_pretty (&out, v, 0);
  buf_char (&out, '\n');
  return buf_take (&out);
}
