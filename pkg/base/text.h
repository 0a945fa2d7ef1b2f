/* text.h - small questions about text: names Kubernetes accepts, membership, quoting, stable hashes, whole files. */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

bool text_eq (const char *a, const char *b); /* NULL equals only NULL */
bool text_starts_with (const char *text, const char *prefix);
bool text_ends_with (const char *text, const char *suffix);
bool text_eq_nocase (const char *a, const char *b);
int text_index (const char *text, const char *const *list, size_t count); /* -1 when absent */

bool text_is_dns1123_label (const char *text);     /* [a-z0-9]([-a-z0-9]*[a-z0-9])?, at most 63 */
bool text_is_dns1035_label (const char *text);     /* the same, starting with a letter */
bool text_is_dns1123_subdomain (const char *text); /* labels joined by dots, at most 253 */

/* A label's value, or the name in a label's or annotation's key: [A-Za-z0-9] at both ends, '-', '_' and '.' between, at
 * most 63. "" is a value and no name. */
bool text_is_label_value (const char *text);
bool text_is_label_key (const char *text); /* the name, with an optional DNS subdomain and '/' in front */

/* A whole decimal number in [min, max]; anything else (spaces, signs on unsigned ranges, overflow) is -EINVAL. */
int text_to_int (const char *text, int64_t min, int64_t max, int64_t *value);

void text_quote_json (struct buf *out, const char *text); /* with the quotes; invalid UTF-8 is passed through */

uint64_t text_hash (uint64_t seed, const void *data, size_t len); /* FNV-1a, 64 bit, then mixed; stable for ever */
uint64_t text_hash_str (uint64_t seed, const char *text);         /* includes the terminating NUL: "a","b" != "ab","" */

/* Reads a whole file of at most `limit` bytes into out. */
int text_read_file (const char *path, size_t limit, struct buf *out, struct error *err);

#endif
