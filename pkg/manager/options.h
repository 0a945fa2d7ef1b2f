/* options.h - the kinds of values a flag may take (option_kinds.c), for the table of flags (options.c). */
#ifndef MANAGER_OPTIONS_H
#define MANAGER_OPTIONS_H

#include "manager/manager.h"

struct flag
{
  const char *name;
  const struct flag_kind *kind;
  size_t field;           /* offset in struct manager_options */
  const char *preset;     /* default, as it would be written */
  const char *help;       /* NULL: not shown by --help */
  const char *variable;   /* environment variable that replaces the default; NULL: none */
  int64_t min, max;       /* numbers and durations (ms) */
  const char *preset_doc; /* the default in words, when it depends on something */
};

struct flag_kind
{
  const char *placeholder; /* "N"; NULL: the flag may stand without a value (a boolean) */
  const char *allowed;     /* what the value may be, after "give"; NULL: made from min and max */
  /* Reads text into the field; false when it is not allowed. */
  bool (*read) (const struct flag *flag, void *field, const char *text);
};

extern const struct flag_kind flag_boolean, flag_text, flag_address, flag_address_or_off, flag_url, flag_name,
    flag_name_or_empty, flag_domain, flag_namespaces, flag_labels, flag_selector, flag_number, flag_rate, flag_duration,
    flag_log_level, flag_log_format;

void flag_labels_free (struct manager_labels *labels);

/* "a whole number from 1 to 64". */
void flag_describe_allowed (const struct flag *flag, struct buf *out);

#endif
