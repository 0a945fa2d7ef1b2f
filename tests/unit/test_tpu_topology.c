/* Topologies, accelerators and the geometry tables of facts/tpu_injection.md §4. */
#include "test_tpu_pods.h"

static void
test_topology_text (void **state)
{
  static const struct
  {
    const char *text;
    int ndims, dims[3];
    int64_t chips;
  } good[] = {
    { "1x1", 2, { 1, 1, 0 }, 1 },
    { "4x4", 2, { 4, 4, 0 }, 16 },
    { "2x2x1", 3, { 2, 2, 1 }, 4 },
    { "12x24x24", 3, { 12, 24, 24 }, 6912 },
    { "4096x4096x4096", 3, { 4096, 4096, 4096 }, 68719476736 },
  };
  static const char *const bad[] = {
    "",
    "4",
    "4x",
    "x4",
    "x",
    "4xx4",
    "4x4x4x4",
    "4x4x",
    "0x4",
    "4x0",
    "04x4",
    "-1x2",
    "+4x4",
    "4X4",
    "4x4 ",
    " 4x4",
    "4 x4",
    "4x4\n",
    "4,4",
    "4x4a",
    "4x4097",
    "99999x99",
    "4x4.0",
    "1e1x4",
    "four",
    "４x4",
    "4*4",
    "4x-4",
    "0x10x4",
    "4294967297x4",
    "99999999999999999999999999999999999999999999x1",
    "2x2x2x2x2x2x2x2x2x2x2x2x2x2x2x2",
    "4x\xff",
    "%s%n",
  };
  struct tpu_topology t;
  struct error err;

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (good); i++)
    {
      assert_int_equal (tpu_topology_parse (&t, good[i].text, &err), 0);
      assert_int_equal (t.ndims, good[i].ndims);
      assert_memory_equal (t.dims, good[i].dims, sizeof (t.dims));
      assert_int_equal (tpu_topology_chips (&t), good[i].chips);
    }
  for (size_t i = 0; i < ARRAY_LEN (bad); i++)
    {
      err.message[0] = '\0';
      if (tpu_topology_parse (&t, bad[i], &err) != -EINVAL)
        fail_msg ("topology \"%s\" was accepted", bad[i]);
      assert_int_equal (t.ndims, 0);
      assert_int_equal (tpu_topology_chips (&t), 0);
      assert_non_null (strstr (err.message, "as in 4x4 or 2x2x2"));
    }
  assert_int_equal (tpu_topology_parse (&t, "4x", NULL), -EINVAL);
}

static void
test_accelerators (void **state)
{
  static const struct
  {
    const char *label, *generation;
    int ndims, devices_per_chip, vm_chips;
    bool process_family, torch_family;
  } rows[] = {
    { "tpu-v3-device", "v3", 2, 2, 4, false, false },
    { "tpu-v3-slice", "v3", 2, 2, 4, false, false },
    { "tpu-v4-lite-device", "v4lite", 2, 1, 4, false, true },
    { "tpu-v4-podslice", "v4", 3, 1, 4, false, true },
    { "tpu-v5-lite-device", "v5e", 2, 1, 8, false, true },
    { "tpu-v5-lite-podslice", "v5e", 2, 1, 8, false, true },
    { "tpu-v5p-slice", "v5p", 3, 1, 4, false, true },
    { "tpu-v6e-slice", "v6e", 2, 1, 8, false, true },
    { "tpu7x", "tpu7x", 3, 2, 4, true, true },
  };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (rows); i++)
    {
      const struct tpu_accelerator *a = tpu_accelerator_find (rows[i].label);

      assert_non_null (a);
      assert_string_equal (a->generation, rows[i].generation);
      assert_int_equal (a->ndims, rows[i].ndims);
      assert_int_equal (a->devices_per_chip, rows[i].devices_per_chip);
      assert_int_equal (a->vm_chips, rows[i].vm_chips);
      assert_int_equal (a->process_family, rows[i].process_family);
      assert_int_equal (a->torch_family, rows[i].torch_family);
    }
  assert_null (tpu_accelerator_find (NULL));
  assert_null (tpu_accelerator_find (""));
  assert_null (tpu_accelerator_find ("tpu8t"));
  assert_null (tpu_accelerator_find ("TPU7X"));
}

/* Every row of §4.3. `entries` 0: the list is longer than Linux allows and must be left out. */
static const struct geometry
{
  const char *accelerator, *topology, *chips;
  int hosts;
  const char *torch;
  size_t entries;
} geometries[] = {
  { "tpu-v4-podslice", "2x2x1", "4", 1, "2,2,1", 4 },
  { "tpu-v4-podslice", "2x2x2", "4", 2, "2,2,2", 8 },
  { "tpu-v4-podslice", "2x2x4", "4", 4, "2,2,4", 16 },
  { "tpu-v4-podslice", "2x4x4", "4", 8, "2,4,4", 32 },
  { "tpu-v4-podslice", "4x4x4", "4", 16, "4,4,4", 64 },
  { "tpu-v4-podslice", "4x4x8", "4", 32, "4,4,8", 128 },
  { "tpu-v4-podslice", "4x8x8", "4", 64, "4,8,8", 256 },
  { "tpu-v4-podslice", "8x8x8", "4", 128, "8,8,8", 512 },
  { "tpu-v4-podslice", "8x8x12", "4", 192, "8,8,12", 768 },
  { "tpu-v4-podslice", "8x8x16", "4", 256, "8,8,16", 1024 },
  { "tpu-v5p-slice", "2x2x1", "4", 1, "2,2,1", 4 },
  { "tpu-v5p-slice", "2x2x2", "4", 2, "2,2,2", 8 },
  { "tpu-v5p-slice", "2x2x4", "4", 4, "2,2,4", 16 },
  { "tpu-v5p-slice", "2x4x4", "4", 8, "2,4,4", 32 },
  { "tpu-v5p-slice", "4x4x4", "4", 16, "4,4,4", 64 },
  { "tpu-v5p-slice", "4x4x8", "4", 32, "4,4,8", 128 },
  { "tpu-v5p-slice", "4x8x8", "4", 64, "4,8,8", 256 },
  { "tpu-v5p-slice", "8x8x8", "4", 128, "8,8,8", 512 },
  { "tpu-v5p-slice", "8x8x12", "4", 192, "8,8,12", 768 },
  { "tpu-v5p-slice", "8x8x16", "4", 256, "8,8,16", 1024 },
  { "tpu-v5-lite-podslice", "1x1", "1", 1, "1,1,1", 1 },
  { "tpu-v5-lite-podslice", "2x2", "4", 1, "2,2,1", 4 },
  { "tpu-v5-lite-podslice", "2x4", "8", 1, "2,4,1", 8 },
  { "tpu-v5-lite-podslice", "2x4", "4", 2, "2,4,1", 8 },
  { "tpu-v5-lite-podslice", "4x4", "4", 4, "4,4,1", 16 },
  { "tpu-v5-lite-podslice", "4x8", "4", 8, "4,8,1", 32 },
  { "tpu-v5-lite-podslice", "8x8", "4", 16, "8,8,1", 64 },
  { "tpu-v5-lite-podslice", "8x16", "4", 32, "8,16,1", 128 },
  { "tpu-v5-lite-podslice", "16x16", "4", 64, "16,16,1", 256 },
  { "tpu-v6e-slice", "1x1", "1", 1, "1,1,1", 1 },
  { "tpu-v6e-slice", "2x2", "4", 1, "2,2,1", 4 },
  { "tpu-v6e-slice", "2x4", "8", 1, "2,4,1", 8 },
  { "tpu-v6e-slice", "2x4", "4", 2, "2,4,1", 8 },
  { "tpu-v6e-slice", "4x4", "4", 4, "4,4,1", 16 },
  { "tpu-v6e-slice", "4x8", "4", 8, "4,8,1", 32 },
  { "tpu-v6e-slice", "8x8", "4", 16, "8,8,1", 64 },
  { "tpu-v6e-slice", "8x16", "4", 32, "8,16,1", 128 },
  { "tpu-v6e-slice", "16x16", "4", 64, "16,16,1", 256 },
  { "tpu7x", "1x1x1", "1", 1, "1,1,1,2", 2 },
  { "tpu7x", "2x2x1", "4", 1, "2,2,1,2", 8 },
  { "tpu7x", "2x2x2", "4", 2, "2,2,2,2", 16 },
  { "tpu7x", "2x2x4", "4", 4, "2,2,4,2", 32 },
  { "tpu7x", "2x4x4", "4", 8, "2,4,4,2", 64 },
  { "tpu7x", "4x4x4", "4", 16, "4,4,4,2", 128 },
  { "tpu7x", "4x4x8", "4", 32, "4,4,8,2", 256 },
  { "tpu7x", "4x8x8", "4", 64, "4,8,8,2", 512 },
  { "tpu7x", "8x8x8", "4", 128, "8,8,8,2", 1024 },
  { "tpu7x", "8x8x16", "4", 256, "8,8,16,2", 2048 },
  { "tpu7x", "8x16x16", "4", 512, NULL, 0 },
  { "tpu7x", "12x24x24", "4", 1728, NULL, 0 },
};

/* Slicebuilder entries are host-major and count up from 8471 on every host. */
static void
check_slicebuilder (const char *list, size_t entries, int hosts)
{
  size_t per_host = entries / (size_t) hosts;
  cleanup_free char *copy = xstrdup (list);
  char *save = NULL, *item = strtok_r (copy, ",", &save);

  for (size_t i = 0; i < entries; i++, item = strtok_r (NULL, ",", &save))
    {
      char expected[128];

      if (hosts == 1)
        snprintf (expected, sizeof (expected), "localhost:%zu", 8471 + i);
      else
        snprintf (expected, sizeof (expected), "group-0-%zu.ray-torchtpu-cluster-headless:%zu", i / per_host,
                  8471 + i % per_host);
      assert_non_null (item);
      assert_string_equal (item, expected);
    }
  assert_null (item);
}

static void
test_geometry_tables (void **state)
{
  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (geometries); i++)
    {
      const struct geometry *g = &geometries[i];
      cleanup_json cJSON *pod = make_ray_pod (g->accelerator, g->topology, g->chips, "ray-torchtpu-cluster", "group", 0,
                                              g->hosts > 1 ? g->hosts - 1 : -1);
      cleanup_injection struct tpu_injection in = admit (pod, NULL);
      const char *list = env_of (pod, "TORCH_TPU_SLICEBUILDER_ADDRESSES");
      char id[16];

      print_message ("%s %s / %s\n", g->accelerator, g->topology, g->chips);
      assert_int_equal (in.hosts, g->hosts);
      assert_int_equal (count_entries (env_of (pod, "TPU_WORKER_HOSTNAMES")), g->hosts);
      snprintf (id, sizeof (id), "%d", g->hosts - 1);
      assert_string_equal (env_of (pod, "TPU_WORKER_ID"), id);
      assert_int_equal (count_entries (list), g->entries);
      if (g->entries == 0)
        {
          assert_null (env_of (pod, "TORCH_TPU_TOPOLOGY"));
          assert_true (warned (&in, "TORCH_TPU_SLICEBUILDER_ADDRESSES is not injected"));
          continue;
        }
      assert_int_equal (cJSON_GetArraySize (in.warnings), 0);
      assert_string_equal (env_of (pod, "TORCH_TPU_TOPOLOGY"), g->torch);
      check_slicebuilder (list, g->entries, g->hosts);
    }
}

static void
test_every_listed_topology_is_offered (void **state)
{
  (void) state;
  for (size_t i = 0; tpu_offer_at (i) != NULL; i++)
    for (size_t k = 0; tpu_offer_at (i)->topologies[k] != NULL; k++)
      {
        const char *text = tpu_offer_at (i)->topologies[k];
        struct tpu_topology t, instead;
        char printed[TPU_TOPOLOGY_SIZE];

        assert_int_equal (tpu_topology_parse (&t, text, NULL), 0);
        assert_true (tpu_offer_has (tpu_accelerator_find (tpu_offer_at (i)->label), &t, &instead));
        tpu_topology_print (printed, &t);
        assert_string_equal (printed, text);
      }
}

static void
test_other_topologies (void **state)
{
  static const struct
  {
    const char *accelerator, *topology, *chips, *instead; /* NULL: there is such a slice */
  } rows[] = {
    { "tpu-v6e-slice", "4x5", "4", "4x4" },
    { "tpu-v6e-slice", "4x2", "4", "2x4" },
    { "tpu-v6e-slice", "8x4", "4", "4x8" },
    { "tpu-v6e-slice", "3x4", "4", "4x4" },
    { "tpu-v6e-slice", "32x32", "4", "16x16" },
    { "tpu-v5-lite-device", "4x4", "4", "2x4" },
    { "tpu7x", "2x4x2", "4", "2x2x4" },
    { "tpu7x", "1x2x2", "4", "2x2x1" },
    { "tpu7x", "16x12x4", "4", "4x12x16" },
    { "tpu7x", "4x4x6", "4", "4x4x8" },
    { "tpu7x", "4096x4096x4096", "4", "12x24x24" },
    { "tpu-v5p-slice", "8x4x4", "4", "4x4x8" },
    { "tpu-v4-podslice", "2x2x16", "4", "4x4x4" },
    { "tpu7x", "4x12x16", "4", NULL },
    { "tpu7x", "16x16x36", "4", NULL },
    { "tpu-v5p-slice", "16x16x24", "4", NULL },
    { "tpu-v5p-slice", "4x4x12", "4", NULL },
    { "tpu-v4-podslice", "12x16x16", "4", NULL },
    { "tpu-v4-podslice", "8x4x4", "4", NULL },
    { "tpu-v3-slice", "32x32", "4", NULL },
    { "tpu9", "3x4", "4", NULL },
  };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (rows); i++)
    {
      cleanup_json cJSON *pod = make_job_pod (rows[i].accelerator, rows[i].topology, rows[i].chips, "j", 0, "s");
      cleanup_free char *says
          = xasprintf ("slice of topology %s: did you mean %s?", rows[i].topology, log_nonnull (rows[i].instead));
      cleanup_injection struct tpu_injection in = admit (pod, NULL);

      if (rows[i].instead != NULL ? !warned (&in, says) : warned (&in, "did you mean"))
        fail_msg ("%s %s: %s", rows[i].accelerator, rows[i].topology, json_print (in.warnings));
      assert_string_equal (env_of (pod, "TPU_NAME"), "j"); /* it is told what it can be */
    }
}

/* A part of a slice can have shapes that no node pool has. */
static void
test_slice_annotation_names_any_topology (void **state)
{
  cleanup_json cJSON *pod = make_job_pod ("tpu-v6e-slice", "16x16", "4", "j", 0, "s");
  cleanup_injection struct tpu_injection in = { 0 };

  (void) state;
  json_set_str (json_obj (json_get (pod, "metadata"), "annotations"), "cloud.google.com/gke-tpu-slice-topology", "2x8");
  in = admit (pod, NULL);
  assert_false (warned (&in, "did you mean"));
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_topology_text),    cmocka_unit_test (test_accelerators),
    cmocka_unit_test (test_geometry_tables),  cmocka_unit_test (test_every_listed_topology_is_offered),
    cmocka_unit_test (test_other_topologies), cmocka_unit_test (test_slice_annotation_names_any_topology),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
