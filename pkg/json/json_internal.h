/* json_internal.h - what the files of pkg/json share. */
#ifndef JSON_INTERNAL_H
#define JSON_INTERNAL_H

#include <stdbool.h>

bool yaml_is_ambiguous (const char *text);

/* ---- yaml_lines.c: the path of the value that is being read ---- */

struct yaml_lines *yaml_lines_new (void);
/* Go down to a member or item, which begins at that line (from 0), and back up. NULL lines: nothing is kept. */
size_t yaml_lines_enter_key (struct yaml_lines *lines, const char *key, size_t line);
size_t yaml_lines_enter_item (struct yaml_lines *lines, size_t index, size_t line);
void yaml_lines_leave (struct yaml_lines *lines, size_t mark); /* mark: what entering returned */
void yaml_lines_begin (struct yaml_lines *lines, int document, size_t line);

#endif
