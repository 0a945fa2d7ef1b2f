/* offers.c - machine types and topologies that GKE has (§4.1, §4.2). */
#include "tpu/tpu_internal.h"

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
  { "tpu-v3-device", "v3", 2, { { "ct3-hightpu-4t", 4 } }, one_host },
  { "tpu-v3-slice", "v3", 2, { { "ct3p-hightpu-4t", 4 } }, v3_slices },
  { "tpu-v4-lite-device", "v4lite", 1, { { "ct4l-hightpu-4t", 4 } }, one_host },
  { "tpu-v4-podslice", "v4", 2, { { "ct4p-hightpu-4t", 4 } }, cubes },
  { "tpu-v5-lite-device",
    "v5lite",
    1,
    { { "ct5l-hightpu-1t", 1 }, { "ct5l-hightpu-4t", 4 }, { "ct5l-hightpu-8t", 8 } },
    flat_devices },
  { "tpu-v5-lite-podslice",
    "v5litepod",
    1,
    { { "ct5lp-hightpu-1t", 1 }, { "ct5lp-hightpu-4t", 4 }, { "ct5lp-hightpu-8t", 8 } },
    flat },
  { "tpu-v5p-slice", "v5p", 2, { { "ct5p-hightpu-4t", 4 } }, cubes },
  { "tpu-v6e-slice",
    "v6e",
    1,
    { { "ct6e-standard-1t", 1 }, { "ct6e-standard-4t", 4 }, { "ct6e-standard-8t", 8 } },
    flat },
  { "tpu7x", "tpu7x", 2, { { "tpu7x-standard-1t", 1 }, { "tpu7x-standard-4t", 4 } }, ironwood },
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
