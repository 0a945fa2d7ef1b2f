/* json.h - conveniences over cJSON: path reads, building, JSON Patch, a value-at-a-time stream, YAML <-> JSON.
 *
 * Kubernetes keys are case-sensitive; use these instead of cJSON_GetObjectItem. Nothing here knows of Kubernetes.
 * Parsed trees are bounded in depth (1000 levels, cJSON's limit; YAML 200). */
#ifndef JSON_JSON_H
#define JSON_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "base/base.h"

/* ---- ownership ---- */

static inline void
cleanup_jsonp (cJSON **v)
{
  cJSON_Delete (*v);
}

/* `cleanup_json cJSON *v = ...;` deletes v when its scope ends; hand it over with take_ptr (v). */
#define cleanup_json __attribute__ ((cleanup (cleanup_jsonp)))

/* ---- scratch memory: an arena for the values of one request (design §5) ---- */

struct json_scratch
{
  bool outermost;
};

/* `cleanup_scratch struct json_scratch scratch = json_scratch_begin ();`: until the scope ends, values made by this
 * thread come from one block, which is given back as a whole; what does not fit into it is ordinary memory. So values
 * made inside are deleted inside, and must not be kept; those made before may be used and deleted. An inner scratch is
 * part of the outer one. */
struct json_scratch json_scratch_begin (void);
void json_scratch_end (struct json_scratch *scratch);
#define cleanup_scratch __attribute__ ((cleanup (json_scratch_end), unused))

/* ---- reading: each takes keys from the root downwards; NULL or an absent/mistyped value is answered with "absent"
 * ---- */

/* json_get (pod, "metadata", "labels", "ray.io/cluster") -> the value or NULL. */
#define json_get(v, ...) json_get_ ((v), (const char *const[]){ __VA_ARGS__, NULL })
/* The string at that path, or NULL when absent or no string. Lives as long as the tree. */
#define json_str(v, ...) json_str_ ((v), (const char *const[]){ __VA_ARGS__, NULL })
/* The whole number at that path, or def when absent, no number, fractional or beyond 2^53. */
#define json_int(v, def, ...) json_int_ ((v), (def), (const char *const[]){ __VA_ARGS__, NULL })
/* The boolean at that path, or def when absent or no boolean. */
#define json_bool(v, def, ...) json_bool_ ((v), (def), (const char *const[]){ __VA_ARGS__, NULL })

cJSON *json_get_ (const cJSON *v, const char *const *keys);
const char *json_str_ (const cJSON *v, const char *const *keys);
int64_t json_int_ (const cJSON *v, int64_t def, const char *const *keys);
bool json_bool_ (const cJSON *v, bool def, const char *const *keys);

/* The element of an array of objects whose `key` is the string `value`, or NULL (containers by name, env by name, ...).
 */
cJSON *json_find (const cJSON *array, const char *key, const char *value);
bool json_is_whole (const cJSON *v);              /* a number without fraction within +-2^53 */
bool json_equal (const cJSON *a, const cJSON *b); /* deep, object order ignored, NULL equals only NULL */
const char *json_type_name (const cJSON *v); /* "object", "array", "string", "number", "boolean", "null", "nothing" */

/* ---- building: all return the new child, owned by its parent ---- */

cJSON *json_set (cJSON *object, const char *key, cJSON *value);          /* adds or replaces; takes value */
cJSON *json_set_str (cJSON *object, const char *key, const char *value); /* NULL value: nothing is set */
cJSON *json_set_int (cJSON *object, const char *key, int64_t value);
cJSON *json_set_bool (cJSON *object, const char *key, bool value);
cJSON *json_set_copy (cJSON *object, const char *key, const cJSON *value); /* deep copy; NULL value: nothing is set */
cJSON *json_obj (cJSON *object, const char *key);                          /* the object at key, made when absent */
cJSON *json_arr (cJSON *object, const char *key);                          /* the array at key, made when absent */
cJSON *json_push (cJSON *array, cJSON *value);                             /* appends; takes value */
cJSON *json_push_str (cJSON *array, const char *value);
cJSON *json_push_obj (cJSON *array);
void json_drop (cJSON *object, const char *key);
/* Copies every member of `from` into `into`; with `overwrite` false existing keys stay. */
void json_merge_flat (cJSON *into, const cJSON *from, bool overwrite);

/* ---- text ---- */

/* Parses exactly one value; trailing bytes other than white space are an error that names the byte offset. */
int json_parse (cJSON **out, const char *text, size_t len, struct error *err);

/* Parses what a text that has been cut off says: every member that is whole. */
int json_parse_head (cJSON **out, const char *text, size_t len, struct error *err);

/* Whether a string in this JSON text holds the character NUL (\u0000). The tree that json_parse makes of it ends the
 * string there, so who parses what others wrote asks, and refuses it. */
bool json_has_nul (const char *text, size_t len);
/* Where: path of the first such string, or member with such a name, below the value at these keys, as in
 * spec.containers[0].name; NULL when there is none. Owned by the caller. */
#define json_nul_path(text, len, ...) json_nul_path_ ((text), (len), (const char *const[]){ __VA_ARGS__, NULL })
char *json_nul_path_ (const char *text, size_t len, const char *const *keys);

char *json_print (const cJSON *v);        /* compact; owned by the caller */
char *json_print_pretty (const cJSON *v); /* two-space indent, newline at the end; owned by the caller */

/* ---- JSON Patch (RFC 6902) ---- */

/* Appends an operation; path is made from the tokens given, escaped: json_patch_op (p, "add", value, "metadata",
 * "labels", "a/b"). Takes value (NULL for "remove"). "-" appends to an array. */
#define json_patch_op(patch, op, value, ...)                                                                           \
  json_patch_op_ ((patch), (op), (value), (const char *const[]){ __VA_ARGS__, NULL })
cJSON *json_patch_op_ (cJSON *patch, const char *op, cJSON *value, const char *const *tokens);
int json_patch_apply (cJSON *object, const cJSON *patch,
                      struct error *err); /* object is left half-patched on failure */

/* ---- streams: watch bodies and lists, one value at a time ---- */

struct json_stream;

enum json_stream_mode
{
  JSON_STREAM_VALUES, /* a sequence of values (a watch): each is handed over */
  JSON_STREAM_LIST,   /* one object (a list): each element of its top-level "items" is handed over, then, at the end of
                         the   object, the rest of it (kind, metadata, status fields; without items) with `last` true */
};

/* Called for each value; the tree is the stream's and is deleted after the call. A negative return stops the stream
 * with that code. */
typedef int (*json_stream_fn) (void *data, cJSON *value, bool last, struct error *err);

struct json_stream *json_stream_new (enum json_stream_mode mode, size_t max_value_bytes, json_stream_fn fn, void *data);
/* Without it a value (not the rest of a list) that is larger than allowed, or that cJSON does not take, ends the
 * stream. With it one such value keeps nobody from the others: `fn` gets what its first 64 KiB say (NULL when they say
 * nothing), and the stream goes on behind it. */
void json_stream_on_unfit (struct json_stream *s, json_stream_fn fn);
/* Feeds bytes as they come; memory is bounded by one value. 0, or -EINVAL/-EFBIG/the callback's code. */
int json_stream_feed (struct json_stream *s, const char *bytes, size_t len, struct error *err);
bool json_stream_at_boundary (const struct json_stream *s); /* no value is half read */
void json_stream_free (struct json_stream *s);              /* NULL is fine */

/* ---- YAML ---- */

/* Parses all documents of a YAML (or JSON, which is YAML) text into a JSON array; empty documents are left out. Scalars
 * follow what kubectl does (YAML 1.1 booleans yes/no/on/off, numbers, ~/null); anchors and merge keys work, bounded
 * against expansion bombs; duplicate keys are an error. Errors name the line. */
int yaml_parse (cJSON **docs, const char *text, size_t len, struct error *err);

/* The same, and where each value stands. *lines is owned by the caller; NULL on failure. */
struct yaml_lines;
int yaml_parse_lines (cJSON **docs, struct yaml_lines **lines, const char *text, size_t len, struct error *err);
/* Line, from 1, of the value at a path such as spec.containers[0].resources.limits["google.com/tpu"] in the document
 * with that index in docs; of what is closest above it when it is not written there, e.g. behind an alias. 0 when
 * lines is NULL. */
size_t yaml_line (const struct yaml_lines *lines, int document, const char *path);
void yaml_lines_free (struct yaml_lines *lines); /* NULL is fine */

/* Appends v as one YAML document (no leading "---"), keys in their order, strings quoted where a reader would take
 * them for something else. */
void yaml_print (struct buf *out, const cJSON *v);

#endif
