#include "base/version.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>

int
version_parse (struct version *v, const char *text)
{
  int n;

  *v = (struct version){ 0 };
  if (*text == 'v')
    text++;
  if (!isdigit ((unsigned char) *text))
    return -EINVAL;
  n = sscanf (text, "%6d.%6d.%6d", &v->major, &v->minor, &v->patch);
  return n >= 2 && v->minor >= 0 ? 0 : -EINVAL;
}

bool
version_at_least (const struct version *v, int major, int minor)
{
  return v->major > major || (v->major == major && v->minor >= minor);
}
