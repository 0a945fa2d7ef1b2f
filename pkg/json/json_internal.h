/* json_internal.h - what the files of pkg/json share. */
#ifndef JSON_INTERNAL_H
#define JSON_INTERNAL_H

#include <stdbool.h>

bool yaml_is_ambiguous (const char *text);

#endif
