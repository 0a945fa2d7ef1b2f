/* version.h - "2.53.0" and friends, as far as deciding "at least" needs it. */
#ifndef BASE_VERSION_H
#define BASE_VERSION_H

#include <stdbool.h>

struct version
{
  int major, minor, patch;
};

/* "2.53", "v2.53.0", "2.53.0rc1", "2.53.0+cu12": the numbers count. -EINVAL when there are no two numbers. */
int version_parse (struct version *v, const char *text);
bool version_at_least (const struct version *v, int major, int minor);

#endif
