/* quantity.h - Kubernetes resource quantities ("4", "500m", "16Gi", "1e3"), exact to one thousand-millionth.
 * Grammar and canonical form: apimachinery's resource.Quantity. */
#ifndef BASE_QUANTITY_H
#define BASE_QUANTITY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

enum quantity_format
{
  QUANTITY_DECIMAL_SI,
  QUANTITY_BINARY_SI,
  QUANTITY_DECIMAL_EXPONENT
};

struct quantity
{
  __int128 nano; /* the value times 10^9 */
  enum quantity_format format;
};

#define QUANTITY_TEXT_SIZE 48

/* -EINVAL with a sentence when the text is no quantity; -ERANGE when it is beyond 2^63-1. */
int quantity_parse (struct quantity *q, const char *text, struct error *err);

/* Sum keeps the format of the first non-zero operand, as resource.Quantity.Add does. */
void quantity_add (struct quantity *q, const struct quantity *other);
void quantity_format_text (const struct quantity *q, char out[QUANTITY_TEXT_SIZE]); /* canonical form */

bool quantity_is_integer (const struct quantity *q);
int64_t quantity_ceil (const struct quantity *q); /* rounded up to an integer, as resource.Quantity.Value */

#endif
