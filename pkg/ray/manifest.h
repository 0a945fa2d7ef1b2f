/* manifest.h - what any manifest is checked for member by member: JSON types, values out of a list, pod templates. For
 * RayClusters (validate.h) and for the workloads of pkg/workload alike; an API server's schema does the same, but
 * `raytpu` has none. */
#ifndef RAY_MANIFEST_H
#define RAY_MANIFEST_H

#include "ray/validate.h"

/* A field path such as spec.workerGroupSpecs[0].template; bounded, longer ones are cut. */
struct ray_path
{
  char text[512];
};

struct ray_path ray_path (const char *fmt, ...) __attribute__ ((format (printf, 1, 2)));
void ray_problem (struct ray_problems *problems, const char *reason, const char *field, const char *fmt, ...)
    __attribute__ ((format (printf, 4, 5)));

/* Longer lists and maps are refused unread: some checks and builders take quadratic
 * time, and nobody's cluster may keep the operator from the others'. */
#define RAY_ITEMS_MAX 4096

bool ray_is_list (const cJSON *v); /* an array of at most RAY_ITEMS_MAX */

enum ray_kind
{
  RAY_KIND_OBJECT,
  RAY_KIND_STRING,
  RAY_KIND_BOOL,
  RAY_KIND_WHOLE,      /* an int32 */
  RAY_KIND_COUNT,      /* an int32 of at least 0 */
  RAY_KIND_STRINGS,    /* a list of strings */
  RAY_KIND_NAMES,      /* one as long as a group may have pods */
  RAY_KIND_OBJECTS,    /* a list of objects */
  RAY_KIND_STRING_MAP, /* an object of strings */
  RAY_KIND_QUANTITY,   /* none negative */
  RAY_KIND_QUANTITIES, /* an object of quantities, none negative */
  RAY_KIND_MAX
};

struct ray_field
{
  const char *key;
  enum ray_kind kind;
};

/* Reports every listed member of `object` that is there and of another kind. null counts as absent. */
void ray_check_kinds (struct ray_problems *problems, const cJSON *object, const char *path,
                      const struct ray_field *fields, size_t count);

#define RAY_ENUM_MAX 4

struct ray_enum
{
  const char *key;
  const char *values[RAY_ENUM_MAX]; /* NULL ends, as does the array */
};

/* Reports every listed member that is a text, not empty, and none of its values. */
void ray_check_enum (struct ray_problems *problems, const cJSON *object, const char *path,
                     const struct ray_enum *fields, size_t count);
/* A pod template, or a Pod: metadata, spec and containers as the API server wants them. `path` is in front of the
 * fields, without a dot at its end; "" for a Pod. */
void ray_validate_template (struct ray_problems *problems, const cJSON *template, const char *path);

#endif
