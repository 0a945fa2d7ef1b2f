/* patch.c - JSON Patch (RFC 6902), the operations an admission webhook needs: add, replace, remove, test.
 * By hand because Debian's libcjson comes without cJSON_Utils. */
#include "json/json.h"

#include <errno.h>
#include <string.h>

static void
add_token (struct buf *path, const char *token)
{
  buf_char (path, '/');
  for (; *token != '\0'; token++)
    if (*token == '~')
      buf_str (path, "~0");
    else if (*token == '/')
      buf_str (path, "~1");
    else
      buf_char (path, *token);
}

cJSON *
json_patch_op_ (cJSON *patch, const char *op, cJSON *value, const char *const *tokens)
{
  cleanup_buf struct buf path = { 0 };
  cJSON *entry = json_push_obj (patch);

  for (; *tokens != NULL; tokens++)
    add_token (&path, *tokens);
  json_set_str (entry, "op", op);
  json_set_str (entry, "path", buf_text (&path));
  if (value != NULL)
    json_set (entry, "value", value);
  return entry;
}

/* Takes the token that starts at *path (just behind a '/') into out, unescaped, and moves *path behind it. */
static void
next_token (const char **path, struct buf *out)
{
  const char *p = *path;

  buf_reset (out);
  for (; *p != '\0' && *p != '/'; p++)
    if (*p == '~' && (p[1] == '0' || p[1] == '1'))
      buf_char (out, *++p == '0' ? '~' : '/');
    else
      buf_char (out, *p);
  *path = p;
}

static cJSON *
array_item (const cJSON *array, const char *token, int *index)
{
  int64_t i;

  if (text_to_int (token, 0, INT32_MAX, &i) < 0)
    return NULL;
  *index = (int) i;
  return cJSON_GetArrayItem (array, (int) i);
}

static cJSON *
child (const cJSON *v, const char *token, int *index)
{
  if (cJSON_IsArray (v))
    return array_item (v, token, index);
  return cJSON_IsObject (v) ? cJSON_GetObjectItemCaseSensitive (v, token) : NULL;
}

/* Walks to the parent of what the pointer names; the last token is left in `token`. NULL when there is none. */
static cJSON *
find_parent (cJSON *root, const char *path, struct buf *token)
{
  cJSON *v = root;
  int index;

  if (*path != '/')
    return NULL;
  for (;;)
    {
      path++;
      next_token (&path, token);
      if (*path == '\0' || v == NULL)
        return v;
      v = child (v, buf_text (token), &index);
    }
}

/* Not by cJSON_InsertItemInArray: Debian's 1.7.15 refuses every place but the first. What comes behind is put behind
 * again. */
static void
insert (cJSON *array, int index, cJSON *value)
{
  int behind = cJSON_GetArraySize (array) - index;

  json_push (array, value);
  while (behind-- > 0)
    json_push (array, cJSON_DetachItemFromArray (array, index));
}

static bool
patch_add (cJSON *parent, const char *token, const cJSON *value)
{
  int index = -1;

  if (cJSON_IsObject (parent))
    return json_set_copy (parent, token, value) != NULL;
  if (!cJSON_IsArray (parent))
    return false;
  if (strcmp (token, "-") == 0)
    return json_push (parent, cJSON_Duplicate (value, true)) != NULL;
  if (array_item (parent, token, &index) == NULL && index != cJSON_GetArraySize (parent))
    return false;
  insert (parent, index, cJSON_Duplicate (value, true));
  return true;
}

static bool
patch_remove (cJSON *parent, const char *token)
{
  int index;
  cJSON *v = child (parent, token, &index);

  if (v == NULL)
    return false;
  cJSON_Delete (cJSON_DetachItemViaPointer (parent, v));
  return true;
}

static bool
patch_replace (cJSON *parent, const char *token, const cJSON *value)
{
  int index = 0;

  if (child (parent, token, &index) == NULL)
    return false;
  if (cJSON_IsArray (parent))
    return cJSON_ReplaceItemInArray (parent, index, cJSON_Duplicate (value, true));
  return json_set_copy (parent, token, value) != NULL;
}

static bool
apply_one (cJSON *object, const cJSON *op)
{
  cleanup_buf struct buf token = { 0 };
  const char *name = log_nonnull (json_str (op, "op"));
  const cJSON *value = json_get (op, "value");
  cJSON *parent = find_parent (object, log_nonnull (json_str (op, "path")), &token);
  int index;

  if (parent == NULL)
    return false;
  if (strcmp (name, "remove") == 0)
    return patch_remove (parent, buf_text (&token));
  if (value == NULL)
    return false;
  if (strcmp (name, "add") == 0)
    return patch_add (parent, buf_text (&token), value);
  if (strcmp (name, "replace") == 0)
    return patch_replace (parent, buf_text (&token), value);
  return strcmp (name, "test") == 0 && json_equal (child (parent, buf_text (&token), &index), value);
}

int
json_patch_apply (cJSON *object, const cJSON *patch, struct error *err)
{
  const cJSON *op;

  if (!cJSON_IsArray (patch))
    return error_set (err, EINVAL, "a JSON patch must be an array, this is %s", json_type_name (patch));
  cJSON_ArrayForEach (op, patch)
    if (!apply_one (object, op))
      return error_set (err, EINVAL, "the JSON patch operation %s %s cannot be applied",
                        log_nonnull (json_str (op, "op")), log_nonnull (json_str (op, "path")));
  return 0;
}
