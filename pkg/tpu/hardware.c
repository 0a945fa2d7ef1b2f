/* hardware.c - generations of TPUs and the shapes of their slices. */
#include "tpu/tpu_internal.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define DIMENSION_MAX 4096

/* §4.1. TORCH_TPU_* of v3 was never seen: two devices per chip, and no fourth dimension is defined for it (§9.2). */
static const struct tpu_accelerator accelerators[] = {
  { "tpu-v3-device", "v3", 2, 2, 4, false, false, false },
  { "tpu-v3-slice", "v3", 2, 2, 4, false, false, false },
  { "tpu-v4-lite-device", "v4lite", 2, 1, 4, false, true, false },
  { "tpu-v4-podslice", "v4", 3, 1, 4, false, true, true },
  { "tpu-v5-lite-device", "v5e", 2, 1, 8, false, true, false },
  { "tpu-v5-lite-podslice", "v5e", 2, 1, 8, false, true, true },
  { "tpu-v5p-slice", "v5p", 3, 1, 4, false, true, true },
  { "tpu-v6e-slice", "v6e", 2, 1, 8, false, true, true },
  { "tpu7x", "tpu7x", 3, 2, 4, true, true, true },
};

const struct tpu_accelerator *
tpu_accelerator_find (const char *label)
{
  for (size_t i = 0; i < ARRAY_LEN (accelerators); i++)
    if (text_eq (accelerators[i].label, label))
      return &accelerators[i];
  return NULL;
}

/* Reads one dimension at *text and moves behind it. NULL, or what is wrong with it. */
static const char *
read_dimension (const char **text, int *value)
{
  const char *p = *text;

  *value = 0;
  if (!isdigit ((unsigned char) *p))
    return "a dimension is not a number";
  if (*p == '0')
    return "a dimension starts with 0";
  for (; isdigit ((unsigned char) *p); p++)
    if ((*value = *value * 10 + (*p - '0')) > DIMENSION_MAX)
      return "a dimension is above 4096";
  *text = p;
  return NULL;
}

static const char *
read_topology (struct tpu_topology *t, const char *text)
{
  const char *wrong;

  for (;;)
    {
      if (t->ndims == (int) ARRAY_LEN (t->dims))
        return "it has more than three dimensions";
      wrong = read_dimension (&text, &t->dims[t->ndims]);
      if (wrong != NULL)
        return wrong;
      t->ndims++;
      if (*text == '\0')
        return t->ndims < 2 ? "it has one dimension only" : NULL;
      if (*text++ != 'x')
        return "dimensions must be joined by a small x";
    }
}

int
tpu_topology_parse (struct tpu_topology *t, const char *text, struct error *err)
{
  const char *wrong;

  *t = (struct tpu_topology){ 0 };
  wrong = read_topology (t, text);
  if (wrong == NULL)
    return 0;
  *t = (struct tpu_topology){ 0 };
  return error_set (err, EINVAL, "topology \"%.64s\" is not valid, %s: write chips per dimension, as in 4x4 or 2x2x2",
                    text, wrong);
}

void
tpu_topology_print (char out[TPU_TOPOLOGY_SIZE], const struct tpu_topology *t)
{
  size_t at = 0;

  for (int i = 0; i < t->ndims; i++)
    at += (size_t) snprintf (out + at, TPU_TOPOLOGY_SIZE - at, "%s%d", i > 0 ? "x" : "", t->dims[i] & 0x1fff);
}

int64_t
tpu_topology_chips (const struct tpu_topology *t)
{
  int64_t chips = t->ndims > 0 ? 1 : 0;

  for (int i = 0; i < t->ndims; i++)
    chips *= t->dims[i];
  return chips;
}
