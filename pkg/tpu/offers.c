/* offers.c - machine types and topologies that GKE has (§4.1, §4.2). */
#include "tpu/tpu_internal.h"

#include <stdlib.h>
#include <string.h>

static const char *const one_host[] = { "2x2", NULL };
static const char *const v3_slices[] = { "4x4", "4x8", "8x8", "8x16", "16x16", "16x32", "32x32", NULL };
static const char *const flat_devices[] = { "1x1", "2x2", "2x4", NULL };
static const char *const flat[] = { "1x1", "2x2", "2x4", "4x4", "4x8", "8x8", "8x16", "16x16", NULL };
/* Beyond 64 chips any multiples of 4 that do not fall: the usual ones. */
static const char *const cubes[]
    = { "2x2x1", "2x2x2", "2x2x4", "2x4x4", "4x4x4", "4x4x8", "4x8x8", "8x8x8", "8x8x12", "8x8x16", "8x16x16", NULL };
static const char *const ironwood[] = { "1x1x1", "2x2x1", "2x2x2",  "2x2x4",   "2x4x4",    "4x4x4", "4x4x8",
                                        "4x8x8", "8x8x8", "8x8x16", "8x16x16", "12x24x24", NULL };

static const struct tpu_offer offers[] = {
  { "tpu-v3-device", "v3", 2, { { "ct3-hightpu-4t", 4 } }, one_host, 0, false },
  { "tpu-v3-slice", "v3", 2, { { "ct3p-hightpu-4t", 4 } }, v3_slices, 0, false },
  { "tpu-v4-lite-device", "v4lite", 1, { { "ct4l-hightpu-4t", 4 } }, one_host, 0, false },
  { "tpu-v4-podslice", "v4", 2, { { "ct4p-hightpu-4t", 4 } }, cubes, 4096, true },
  { "tpu-v5-lite-device",
    "v5lite",
    1,
    { { "ct5l-hightpu-1t", 1 }, { "ct5l-hightpu-4t", 4 }, { "ct5l-hightpu-8t", 8 } },
    flat_devices,
    0,
    false },
  { "tpu-v5-lite-podslice",
    "v5litepod",
    1,
    { { "ct5lp-hightpu-1t", 1 }, { "ct5lp-hightpu-4t", 4 }, { "ct5lp-hightpu-8t", 8 } },
    flat,
    0,
    false },
  { "tpu-v5p-slice", "v5p", 2, { { "ct5p-hightpu-4t", 4 } }, cubes, 8960, false },
  { "tpu-v6e-slice",
    "v6e",
    1,
    { { "ct6e-standard-1t", 1 }, { "ct6e-standard-4t", 4 }, { "ct6e-standard-8t", 8 } },
    flat,
    0,
    false },
  { "tpu7x", "tpu7x", 2, { { "tpu7x-standard-1t", 1 }, { "tpu7x-standard-4t", 4 } }, ironwood, 9216, false },
};

const struct tpu_offer *
tpu_offer_at (size_t index)
{
  return index < ARRAY_LEN (offers) ? &offers[index] : NULL;
}

bool
tpu_offer_fits (const struct tpu_machine *machine, const struct tpu_topology *topology)
{
  int64_t chips = tpu_topology_chips (topology);

  return chips == machine->chips
         || (machine->chips == TPU_SLICE_VM_CHIPS && chips > TPU_SLICE_VM_CHIPS && chips % TPU_SLICE_VM_CHIPS == 0);
}

/* ---- which slices there are (§4.2) ---- */

static const struct tpu_offer *
find_offer (const char *label)
{
  for (size_t i = 0; i < ARRAY_LEN (offers); i++)
    if (text_eq (offers[i].label, label))
      return &offers[i];
  return NULL;
}

static bool
same_topology (const struct tpu_topology *a, const struct tpu_topology *b)
{
  return a->ndims == b->ndims && memcmp (a->dims, b->dims, (size_t) a->ndims * sizeof (a->dims[0])) == 0;
}

/* Of more than 64 chips: any multiples of 4, which do not fall but on v4. */
static bool
is_cubes (const struct tpu_offer *offer, const struct tpu_topology *t)
{
  int64_t chips = tpu_topology_chips (t);

  for (int i = 0; i < t->ndims; i++)
    if (t->dims[i] % 4 != 0 || (i > 0 && t->dims[i] < t->dims[i - 1] && !offer->any_order))
      return false;
  return t->ndims == 3 && chips > 64 && chips <= offer->cubes_max;
}

static int
ascending (const void *a, const void *b)
{
  return *(const int *) a - *(const int *) b;
}

static bool
is_offered (const struct tpu_offer *offer, const struct tpu_topology *t)
{
  struct tpu_topology listed;

  for (size_t i = 0; offer->topologies[i] != NULL; i++)
    if (tpu_topology_parse (&listed, offer->topologies[i], NULL) == 0 && same_topology (&listed, t))
      return true;
  return is_cubes (offer, t);
}

/* Of two that are as near the larger. */
static struct tpu_topology
nearest (const struct tpu_offer *offer, int64_t chips)
{
  struct tpu_topology listed, best = { 0 };

  for (size_t i = 0; offer->topologies[i] != NULL; i++)
    if (tpu_topology_parse (&listed, offer->topologies[i], NULL) == 0
        && (best.ndims == 0
            || llabs (tpu_topology_chips (&listed) - chips) <= llabs (tpu_topology_chips (&best) - chips)))
      best = listed;
  return best;
}

/* The same numbers: as they are listed, which 2x2x1 is not in ascending order, else sorted. False when there are none
 * such. */
static bool
reordered (const struct tpu_offer *offer, struct tpu_topology t, struct tpu_topology *found)
{
  qsort (t.dims, (size_t) t.ndims, sizeof (t.dims[0]), ascending);
  for (size_t i = 0; offer->topologies[i] != NULL; i++)
    {
      struct tpu_topology listed, sorted;

      if (tpu_topology_parse (&listed, offer->topologies[i], NULL) < 0)
        continue;
      sorted = listed;
      qsort (sorted.dims, (size_t) sorted.ndims, sizeof (sorted.dims[0]), ascending);
      if (same_topology (&sorted, &t))
        {
          *found = listed;
          return true;
        }
    }
  *found = t;
  return is_cubes (offer, &t);
}

bool
tpu_offer_has (const struct tpu_accelerator *accelerator, const struct tpu_topology *topology,
               struct tpu_topology *instead)
{
  const struct tpu_offer *offer = find_offer (accelerator->label);

  if (offer == NULL || is_offered (offer, topology))
    return true;
  if (!reordered (offer, *topology, instead))
    *instead = nearest (offer, tpu_topology_chips (topology));
  return false;
}

bool
tpu_request_offered (const struct tpu_request *r, struct tpu_topology *instead)
{
  return r->accelerator == NULL || r->topology_text == NULL || r->partial
         || tpu_offer_has (r->accelerator, &r->topology, instead);
}
