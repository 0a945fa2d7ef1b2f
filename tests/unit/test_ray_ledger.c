/* The text that remembers slices: what it says, that it is short, and that older texts are read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ray/plan_internal.h"

static void
test_text_survives_a_round_trip (void **state)
{
  static const struct
  {
    const char *text, *expect;
  } cases[] = {
    { "", "" },
    { "tpu=0c,2c,,1;headgroup=1", "tpu=0c,2c,,1;headgroup=1" },
    { "tpu=,,,", "" },
    { "tpu=0,0,3", "tpu=,,3" },
    { "nonsense", "" },
    { ";;a=1;=5;b=x9", "a=1" },
    { "a=99999999999999999999c", "a=4294967295c" },
    /* As versions before the short forms wrote it. */
    { "a=0c,0c,0c,0c,0c,1,,,,,,,2c", "a=0c*5,1,12:2c" },
    /* The short forms. */
    { "a=0c*3,1*4,,,,2", "a=0c,0c,0c,1*4,,,,2" },
    { "a=99998:1c;b=7:0c*4,3", "a=99998:1c;b=7:0c*4,3" },
    /* Nonsense in them. */
    { "a=1:2:3c", "a=,2" },
    { "a=99999:1*9,5", "a=99999:1" },
    { "a=123456789123456789123:1", "" },
    { "a=0*3,1", "a=,1" },
    { "a=1*0,2", "a=2" },
    { "a=1*x,2", "" },
    { "a=5:1,3:2", "a=5:1" },
    { "a=1;b=2;a=3", "a=1;b=2" },
    { "a=1x,2;b=3", "a=1;b=3" },
  };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (cases); i++)
    {
      cleanup_ledger struct ray_ledger ledger = { 0 };
      cleanup_free char *text = NULL;

      ray_ledger_parse (&ledger, cases[i].text);
      text = ray_ledger_print (&ledger);
      assert_string_equal (text, cases[i].expect);
    }
}

static void
test_entries_are_read_back_whatever_they_are (void **state)
{
  (void) state;
  for (uint32_t seed = 1; seed <= 50; seed++)
    {
      cleanup_ledger struct ray_ledger ledger = { 0 }, again = { 0 };
      cleanup_free char *text = NULL;
      uint32_t random = seed, step = 1 + seed % 7;

      for (int64_t index = 0; index < 300; index += 1 + random % step)
        {
          random = random * 1664525 + 1013904223;
          ray_ledger_set (&ledger, "g", index,
                          (struct ray_ledger_entry){ .incarnation = random >> 30, .complete = random >> 29 & 1 });
        }
      text = ray_ledger_print (&ledger);
      ray_ledger_parse (&again, text);
      for (int64_t index = 0; index < 310; index++)
        {
          struct ray_ledger_entry a = ray_ledger_get (&ledger, "g", index), b = ray_ledger_get (&again, "g", index);

          assert_int_equal (a.incarnation, b.incarnation);
          assert_int_equal (a.complete, b.complete);
        }
    }
}

/* A pod with the label 99998 once made an annotation of 100 kB. */
static void
test_is_no_longer_than_what_it_tells (void **state)
{
  cleanup_ledger struct ray_ledger ledger = { 0 };
  cleanup_free char *text = NULL;

  (void) state;
  ray_ledger_set (&ledger, "g", 99998, (struct ray_ledger_entry){ .complete = true });
  ray_ledger_set (&ledger, "g", 100000, (struct ray_ledger_entry){ .complete = true });
  ray_ledger_set (&ledger, "h", 0, (struct ray_ledger_entry){ .complete = true });
  for (int64_t index = 0; index < 50000; index++)
    ray_ledger_set (&ledger, "h", index, (struct ray_ledger_entry){ .complete = true });
  text = ray_ledger_print (&ledger);
  assert_string_equal (text, "g=99998:0c;h=0c*50000");
}

static void
test_fits_its_annotation_whatever_happens (void **state)
{
  static const char *const groups[] = { "a", "b", "c" };

  (void) state;
  for (int complete = 0; complete <= 1; complete++)
    {
      cleanup_ledger struct ray_ledger ledger = { 0 }, again = { 0 };
      cleanup_free char *text = NULL;

      for (size_t g = 0; g < ARRAY_LEN (groups); g++)
        for (int64_t index = 0; index < 100000; index++)
          ray_ledger_set (&ledger, groups[g], index,
                          (struct ray_ledger_entry){ .incarnation = 4000000000u + (uint32_t) index,
                                                     .complete = complete || index == 70000 });
      text = ray_ledger_print (&ledger);
      assert_true (strlen (text) <= RAY_LEDGER_MAX);
      ray_ledger_parse (&again, text);
      for (size_t g = 0; g < ARRAY_LEN (groups); g++) /* every group keeps something, and the best first */
        assert_true (ray_ledger_get (&again, groups[g], complete ? 0 : 70000).complete);
    }
}

static const char *const sound_texts[] = { "", "a=0c,2c,,1;b=1", "a=99998:1c;b=7:0c*4,3", "a=0*3,1", "a=1*99999" };
static const char *const unsound_texts[]
    = { "a",           "a=1;=5",     "a=x",       "a=1;a=2", "a=5:1,3:2", "a=99999999999999999999", "a=1*99999999",
        "a=99999:1*9", "a=1:2:3c,4", "a=100000:1" };

static void
test_tells_what_it_did_not_write (void **state)
{
  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (sound_texts) + ARRAY_LEN (unsound_texts); i++)
    {
      cleanup_ledger struct ray_ledger ledger = { 0 }, again = { 0 };
      cleanup_free char *text = NULL;
      bool sound = i < ARRAY_LEN (sound_texts);

      assert_int_equal (ray_ledger_parse (&ledger, sound ? sound_texts[i] : unsound_texts[i - ARRAY_LEN (sound_texts)]),
                        sound);
      text = ray_ledger_print (&ledger);
      assert_true (ray_ledger_parse (&again, text)); /* what comes of it is ours */
    }
}

static size_t
bytes_of (const struct ray_ledger *ledger)
{
  size_t bytes = 0;

  for (const struct ray_ledger_group *group = ledger->groups; group != NULL; group = group->hh.next)
    bytes += sizeof (*group) + strlen (group->name) + group->cap * sizeof (*group->runs);
  return bytes;
}

/* The longest text that a cluster can have, of `item`s with a number in it. */
static char *
fill (const char *item)
{
  struct buf text = { 0 };

  for (unsigned i = 0; text.len < (size_t) 250 * 1024; i++)
    {
      for (const char *p = item; *p != '\0'; p++)
        if (*p == '#')
          buf_printf (&text, "%x", i);
        else
          buf_char (&text, *p);
    }
  return buf_take (&text);
}

static void
test_memory_is_that_of_the_text (void **state)
{
  static const char *const items[]
      = { "#=1*99999;", "a=1*99999;", "#=0c,1*99998;", "#=;", "a=1,2,1,2;", "1,2c,", "#:1c*9,", ",",
          ";",          "=",          "#=9:1*9;" };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (items); i++)
    {
      cleanup_ledger struct ray_ledger ledger = { 0 };
      cleanup_free char *rest = fill (items[i]);
      cleanup_free char *text = xasprintf ("g=%s", rest), *printed = NULL;

      ray_ledger_parse (&ledger, text);
      assert_true (bytes_of (&ledger) < (size_t) 8 << 20);
      printed = ray_ledger_print (&ledger);
      assert_true (strlen (printed) <= RAY_LEDGER_MAX);
    }
}

/* Random texts of what texts are made of, and random entries set on top: memory stays in proportion, and what is
 * printed reads back the same. */
static void
test_random_texts_are_harmless (void **state)
{
  static const char *const parts[] = { "a",  "b=",  "=", ";",  ",",  "c",  "*",     ":",     "0",       "1",
                                       "7:", "3c,", "x", "-1", "*9", ",,", "99999", "c*40,", "500:2c,", "4294967296" };

  (void) state;
  for (uint32_t seed = 1; seed <= 3000; seed++)
    {
      cleanup_ledger struct ray_ledger ledger = { 0 }, again = { 0 };
      cleanup_free char *text = NULL, *printed = NULL, *reprinted = NULL;
      struct buf made = { 0 };
      uint32_t random = seed;

      buf_str (&made, "a=");
      for (uint32_t i = 0; i < 3 + seed % 60; i++)
        {
          random = random * 1664525 + 1013904223;
          buf_str (&made, parts[(random >> 16) % ARRAY_LEN (parts)]);
        }
      text = buf_take (&made);
      ray_ledger_parse (&ledger, text);
      assert_true (bytes_of (&ledger) <= 256 * (strlen (text) + 1));
      for (int i = 0; i < 20; i++)
        {
          struct ray_ledger_entry entry = { .incarnation = random >> 31, .complete = random >> 30 & 1 };
          int64_t index = (random >> 12) % 600;

          ray_ledger_set (&ledger, "a", index, entry);
          assert_int_equal (ray_ledger_get (&ledger, "a", index).incarnation, entry.incarnation);
          assert_int_equal (ray_ledger_get (&ledger, "a", index).complete, entry.complete);
          random = random * 1664525 + 1013904223;
        }
      printed = ray_ledger_print (&ledger);
      assert_true (ray_ledger_parse (&again, printed));
      reprinted = ray_ledger_print (&again);
      assert_string_equal (printed, reprinted);
    }
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_text_survives_a_round_trip),
    cmocka_unit_test (test_entries_are_read_back_whatever_they_are),
    cmocka_unit_test (test_is_no_longer_than_what_it_tells),
    cmocka_unit_test (test_fits_its_annotation_whatever_happens),
    cmocka_unit_test (test_tells_what_it_did_not_write),
    cmocka_unit_test (test_memory_is_that_of_the_text),
    cmocka_unit_test (test_random_texts_are_harmless),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
