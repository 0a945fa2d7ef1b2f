#include "base/quantity.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define NANO 1000000000
/* 2^63-1 in nanos: what resource.Quantity caps at. */
#define QUANTITY_LIMIT ((__int128) INT64_MAX * NANO)

static const struct suffix
{
  const char *text;
  enum quantity_format format;
  int power10; /* DECIMAL_SI: value is 10^power10 */
  int power2;  /* BINARY_SI: value is 2^power2 */
} suffixes[] = {
  { "", QUANTITY_DECIMAL_SI, 0, 0 },   { "n", QUANTITY_DECIMAL_SI, -9, 0 }, { "u", QUANTITY_DECIMAL_SI, -6, 0 },
  { "m", QUANTITY_DECIMAL_SI, -3, 0 }, { "k", QUANTITY_DECIMAL_SI, 3, 0 },  { "M", QUANTITY_DECIMAL_SI, 6, 0 },
  { "G", QUANTITY_DECIMAL_SI, 9, 0 },  { "T", QUANTITY_DECIMAL_SI, 12, 0 }, { "P", QUANTITY_DECIMAL_SI, 15, 0 },
  { "E", QUANTITY_DECIMAL_SI, 18, 0 }, { "Ki", QUANTITY_BINARY_SI, 0, 10 }, { "Mi", QUANTITY_BINARY_SI, 0, 20 },
  { "Gi", QUANTITY_BINARY_SI, 0, 30 }, { "Ti", QUANTITY_BINARY_SI, 0, 40 }, { "Pi", QUANTITY_BINARY_SI, 0, 50 },
  { "Ei", QUANTITY_BINARY_SI, 0, 60 },
};

/* Finds the scale of a suffix, decimal exponents ("e3", "E-2") included. */
static int
parse_suffix (const char *text, struct suffix *out)
{
  int exponent, used = 0;

  for (size_t i = 0; i < sizeof (suffixes) / sizeof (suffixes[0]); i++)
    if (strcmp (text, suffixes[i].text) == 0)
      {
        *out = suffixes[i];
        return 0;
      }
  if ((text[0] == 'e' || text[0] == 'E') && !isspace ((unsigned char) text[1])
      && sscanf (text + 1, "%4d%n", &exponent, &used) == 1 && text[1 + used] == '\0' && exponent >= -27
      && exponent <= 27)
    {
      *out = (struct suffix){ .format = QUANTITY_DECIMAL_EXPONENT, .power10 = exponent };
      return 0;
    }
  return -EINVAL;
}

/* digits * 10^-decimals, scaled by the suffix, in nanos; rounded up (away from zero) below one nano, as upstream does.
 */
static int
scale (__int128 digits, int decimals, const struct suffix *s, __int128 *nano)
{
  __int128 value = digits;
  int power = 9 - decimals + s->power10;
  bool inexact = false;

  for (int i = 0; i < s->power2; i++)
    if ((value *= 2) > QUANTITY_LIMIT * NANO)
      return -ERANGE;
  for (; power > 0; power--)
    if ((value *= 10) > QUANTITY_LIMIT * NANO)
      return -ERANGE;
  for (; power < 0; power++)
    {
      inexact |= value % 10 != 0;
      value /= 10;
    }
  *nano = value + (inexact ? 1 : 0);
  return *nano > QUANTITY_LIMIT ? -ERANGE : 0;
}

int
quantity_parse (struct quantity *q, const char *text, struct error *err)
{
  __int128 digits = 0, nano;
  int count = 0, decimals = 0, ret;
  struct suffix suffix;
  const char *p = text;
  bool negative = *p == '-', fraction = false;

  if (*p == '-' || *p == '+')
    p++;
  for (; isdigit ((unsigned char) *p) || (*p == '.' && !fraction); p++)
    if (*p == '.')
      fraction = true;
    else
      {
        if (digits > QUANTITY_LIMIT / 10)
          return error_set (err, ERANGE, "quantity \"%.64s\" is too large: at most 2^63-1 is allowed", text);
        digits = digits * 10 + (*p - '0');
        count++;
        decimals += fraction ? 1 : 0;
      }
  if (count == 0 || parse_suffix (p, &suffix) < 0)
    return error_set (err, EINVAL,
                      "\"%.64s\" is not a quantity: write a number with an optional suffix such as 4, 500m or 16Gi",
                      text);
  ret = scale (digits, decimals, &suffix, &nano);
  if (ret < 0)
    return error_set (err, ERANGE, "quantity \"%.64s\" is too large: at most 2^63-1 is allowed", text);
  *q = (struct quantity){ .nano = negative ? -nano : nano, .format = suffix.format };
  return 0;
}

void
quantity_add (struct quantity *q, const struct quantity *other)
{
  if (q->nano == 0)
    q->format = other->format;
  q->nano += other->nano;
}

bool
quantity_is_integer (const struct quantity *q)
{
  return q->nano % NANO == 0;
}

int64_t
quantity_ceil (const struct quantity *q)
{
  __int128 whole = q->nano / NANO;

  return (int64_t) (q->nano > 0 && q->nano % NANO != 0 ? whole + 1 : whole);
}

static void
format_scaled (char *out, __int128 value, const char *suffix)
{
  snprintf (out, QUANTITY_TEXT_SIZE, "%" PRId64 "%s", (int64_t) value, suffix);
}

/* Binary suffixes are used only for integers of at least 1024; everything else is written in decimal SI. */
static bool
format_binary (const struct quantity *q, char *out)
{
  __int128 value = q->nano / NANO;
  size_t best = 0;

  if (!quantity_is_integer (q) || (value < 1024 && value > -1024))
    return false;
  for (size_t i = 10; i < sizeof (suffixes) / sizeof (suffixes[0]); i++)
    if (value % ((__int128) 1 << suffixes[i].power2) == 0)
      best = i;
  format_scaled (out, best ? value >> suffixes[best].power2 : value, suffixes[best].text);
  return true;
}

void
quantity_format_text (const struct quantity *q, char out[QUANTITY_TEXT_SIZE])
{
  static const char *const si[] = { "n", "u", "m", "", "k", "M", "G", "T", "P", "E" };
  static const char *const exponent[] = { "e-9", "e-6", "e-3", "", "e3", "e6", "e9", "e12", "e15", "e18" };
  __int128 value = q->nano;
  size_t i = 0;

  if (q->format == QUANTITY_BINARY_SI && format_binary (q, out))
    return;
  if (value == 0)
    i = 3;
  else
    for (; i < 9 && value % 1000 == 0; i++)
      value /= 1000;
  format_scaled (out, value, (q->format == QUANTITY_DECIMAL_EXPONENT ? exponent : si)[i]);
}
