/* What everything stands on: quantities, versions, names, times, errors, text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <errno.h>

#include <cmocka.h>

#include "base/base.h"

static void
test_quantities_read_and_print_as_kubernetes_does (void **state)
{
  static const struct
  {
    const char *text, *canonical;
    int64_t ceil;
  } cases[] = {
    { "4", "4", 4 },
    { "0", "0", 0 },
    { "500m", "500m", 1 },
    { "1500m", "1500m", 2 },
    { "2000m", "2", 2 },
    { "0.5", "500m", 1 },
    { "16Gi", "16Gi", 17179869184 },
    { "1024Ki", "1Mi", 1048576 },
    { "40G", "40G", 40000000000 },
    { "1e3", "1e3", 1000 },
    { "1E3", "1e3", 1000 },
    { "1E", "1E", 1000000000000000000 },
    { "1.5Gi", "1536Mi", 1610612736 },
    { "100u", "100u", 1 },
    { "1n", "1n", 1 },
    { "0.1n", "1n", 1 },
    { "-1", "-1", -1 },
    { "+3", "3", 3 },
    { "100000", "100k", 100000 },
    { "1023Ki", "1023Ki", 1047552 },
    { ".5", "500m", 1 },
    { "5.", "5", 5 },
  };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (cases); i++)
    {
      char text[QUANTITY_TEXT_SIZE];
      struct error err = { 0 };
      struct quantity q;

      if (quantity_parse (&q, cases[i].text, &err) < 0)
        fail_msg ("%s: %s", cases[i].text, err.message);
      quantity_format_text (&q, text);
      assert_string_equal (text, cases[i].canonical);
      assert_int_equal (quantity_ceil (&q), cases[i].ceil);
    }
}

static void
test_what_is_no_quantity_is_refused_with_the_value (void **state)
{
  static const char *const cases[]
      = { "",     "x",   "4x",  "Gi",   "--1",  "1.2.3", " 4",
          "4 ",   "1e",  "1 k", "0x10", "1e99", "ki",    "99999999999999999999999999999999999999999",
          "10Ei", "1ee3" };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (cases); i++)
    {
      struct error err = { 0 };
      struct quantity q;

      if (quantity_parse (&q, cases[i], &err) == 0)
        fail_msg ("\"%s\" was accepted", cases[i]);
      assert_non_null (strstr (err.message, "quantity"));
    }
}

static void
test_sums_keep_the_format_of_the_first_operand (void **state)
{
  struct quantity sum = { 0 }, q;
  char text[QUANTITY_TEXT_SIZE];

  (void) state;
  assert_int_equal (quantity_parse (&q, "16Gi", NULL), 0);
  quantity_add (&sum, &q);
  assert_int_equal (quantity_parse (&q, "200Gi", NULL), 0);
  quantity_add (&sum, &q);
  quantity_format_text (&sum, text);
  assert_string_equal (text, "216Gi");
}

static void
test_versions (void **state)
{
  static const struct
  {
    const char *text;
    int ret;
    bool at_least_2_53;
  } cases[] = {
    { "2.53.0", 0, true },   { "2.52.9", 0, false },    { "v2.53", 0, true },        { "2.53.0rc1", 0, true },
    { "3.0.0", 0, true },    { "2.9.0", 0, false },     { "", -EINVAL, false },      { "nightly", -EINVAL, false },
    { "2", -EINVAL, false }, { "2.x", -EINVAL, false }, { "-2.53", -EINVAL, false },
  };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (cases); i++)
    {
      struct version v;

      assert_int_equal (version_parse (&v, cases[i].text), cases[i].ret);
      assert_int_equal (version_at_least (&v, 2, 53), cases[i].at_least_2_53);
    }
}

static void
test_names_kubernetes_accepts (void **state)
{
  static const struct
  {
    const char *text;
    bool label, label_1035, subdomain;
  } cases[] = {
    { "a", true, true, true },
    { "v6e-16", true, true, true },
    { "7x", true, false, true },
    { "a.b-c.d", false, false, true },
    { "-a", false, false, false },
    { "a-", false, false, false },
    { "A", false, false, false },
    { "a_b", false, false, false },
    { "", false, false, false },
    { "a..b", false, false, false },
    { "a.", false, false, false },
    { "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", true, true, true },
    { "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false, false, false },
  };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (cases); i++)
    {
      assert_int_equal (text_is_dns1123_label (cases[i].text), cases[i].label);
      assert_int_equal (text_is_dns1035_label (cases[i].text), cases[i].label_1035);
      assert_int_equal (text_is_dns1123_subdomain (cases[i].text), cases[i].subdomain);
    }
}

static void
test_label_texts (void **state)
{
  static const char *const values[] = { "", "a", "A-b_c.9" }, *const no_values[] = { "-a", "a.", "a b", "\xc3\xa4" };
  static const char *const keys[] = { "a", "x.io/A_b", "a-b" };
  static const char *const no_keys[] = { "", "/", "a/", "/a", "X.io/a", "a/b/c", "a b", "x.io/" };
  char longest[65];

  (void) state;
  memset (longest, 'a', sizeof (longest));
  longest[64] = '\0';
  assert_false (text_is_label_value (longest) || text_is_label_key (longest));
  longest[63] = '\0';
  assert_true (text_is_label_value (longest) && text_is_label_key (longest));
  for (size_t i = 0; i < ARRAY_LEN (values); i++)
    assert_true (text_is_label_value (values[i]));
  for (size_t i = 0; i < ARRAY_LEN (no_values); i++)
    assert_false (text_is_label_value (no_values[i]) || text_is_label_key (no_values[i]));
  for (size_t i = 0; i < ARRAY_LEN (keys); i++)
    assert_true (text_is_label_key (keys[i]));
  for (size_t i = 0; i < ARRAY_LEN (no_keys); i++)
    assert_false (text_is_label_key (no_keys[i]));
}

static void
test_times (void **state)
{
  static const struct
  {
    const char *text;
    int64_t ms;
  } cases[] = {
    { "1970-01-01T00:00:00Z", 0 },
    { "2026-08-19T10:11:12Z", 1787134272000 },
    { "2026-08-19T10:11:12.345Z", 1787134272345 },
    { "2026-08-19T10:11:12.345678Z", 1787134272345 },
    { "2026-08-19T12:11:12+02:00", 1787134272000 },
    { "2026-08-19T04:41:12-05:30", 1787134272000 },
  };
  static const char *const bad[] = { "", "2026-08-19", "2026-08-19T10:11:12", "2026-08-19T10:11:12ZZ", "x" };
  char text[CLOCK_RFC3339_SIZE], micro[CLOCK_RFC3339_MS_SIZE];
  int64_t ms;

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (cases); i++)
    {
      assert_int_equal (clock_parse_rfc3339 (cases[i].text, &ms), 0);
      assert_int_equal (ms, cases[i].ms);
    }
  for (size_t i = 0; i < ARRAY_LEN (bad); i++)
    assert_int_equal (clock_parse_rfc3339 (bad[i], &ms), -EINVAL);
  clock_format_rfc3339 (1787134272345, text);
  assert_string_equal (text, "2026-08-19T10:11:12Z");
  clock_format_rfc3339_micro (1787134272345, micro);
  assert_string_equal (micro, "2026-08-19T10:11:12.345000Z");
}

static void
test_errors_wrap_and_are_cut_visibly (void **state)
{
  struct error err = { 0 };
  char big[3000];

  (void) state;
  assert_int_equal (error_set (&err, EINVAL, "value %d", 7), -EINVAL);
  assert_int_equal (error_wrap (&err, -EINVAL, "field %s", "x"), -EINVAL);
  assert_string_equal (err.message, "field x: value 7");
  memset (big, 'a', sizeof (big) - 1);
  big[sizeof (big) - 1] = '\0';
  error_set (&err, EINVAL, "%s", big);
  assert_int_equal (strlen (err.message), sizeof (err.message) - 1);
  assert_true (text_ends_with (err.message, "..."));
  error_wrap (&err, -EINVAL, "outer");
  assert_true (text_starts_with (err.message, "outer: aaa"));
  assert_true (text_ends_with (err.message, "..."));
  assert_int_equal (error_set (NULL, ENOENT, "nobody listens"), -ENOENT);
}

static void
test_whole_numbers (void **state)
{
  static const struct
  {
    const char *text;
    int ret;
  } cases[] = {
    { "0", 0 },        { "42", 0 },        { "-1", -EINVAL }, { "", -EINVAL },   { " 1", -EINVAL },
    { "1 ", -EINVAL }, { "101", -EINVAL }, { "1x", -EINVAL }, { "+1", -EINVAL }, { "99999999999999999999", -EINVAL }
  };
  int64_t value;

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (cases); i++)
    assert_int_equal (text_to_int (cases[i].text, 0, 100, &value), cases[i].ret);
  assert_int_equal (text_to_int ("-5", -10, 10, &value), 0);
  assert_int_equal (value, -5);
}

static void
test_buffers_arenas_and_quoting (void **state)
{
  cleanup_buf struct buf b = { 0 };
  cleanup_arena struct arena arena = { 0 };
  char *first = arena_strdup (&arena, "first"), *text;

  (void) state;
  assert_string_equal (buf_text (&b), "");
  for (int i = 0; i < 1000; i++)
    buf_printf (&b, "%d,", i);
  assert_true (text_ends_with (b.data, "998,999,"));
  buf_reset (&b);
  text_quote_json (&b, "a\"b\\c\nd\te\x01");
  assert_string_equal (b.data, "\"a\\\"b\\\\c\\nd\\te\\u0001\"");
  text = buf_take (&b);
  assert_null (b.data);
  free (text);
  for (int i = 0; i < 1000; i++)
    memset (arena_alloc (&arena, 100), 0xff, 100);
  assert_string_equal (first, "first");
  assert_string_equal (arena_printf (&arena, "%s-%d", "x", 7), "x-7");
  assert_int_equal (((const char *) arena_alloc (&arena, 100000))[99999], 0);
}

static void
test_hashes_are_stable_and_separate_their_parts (void **state)
{
  (void) state;
  assert_true (text_hash_str (0, "") != text_hash_str (1, ""));
  assert_true (text_hash_str (text_hash_str (0, "a"), "b") != text_hash_str (text_hash_str (0, "ab"), ""));
  /* Pod names depend on it: this value must never change. */
  assert_int_equal (text_hash_str (0, "ray-torchtpu-cluster"), text_hash (0, "ray-torchtpu-cluster", 21));
}

static void
test_a_lasting_trouble_is_told_less_and_less_often (void **state)
{
  struct log_trouble trouble = { 0 };
  int64_t lasted_ms, last_told = 0, widest = 0;
  int told = 0;

  (void) state;
  assert_false (log_trouble_over (&trouble, 500, &lasted_ms));
  for (int64_t now = 1000; now <= 1000 + 3600 * 1000; now += 2000)
    if (log_trouble_level (&trouble, now) == LOG_WARN)
      {
        assert_true (told > 0 || now == 1000);
        assert_true (now - last_told >= widest || widest >= 600000);
        widest = told > 0 ? now - last_told : 0;
        last_told = now;
        told++;
      }
  assert_in_range (told, 8, 14); /* in an hour */
  assert_true (log_trouble_over (&trouble, 3602000, &lasted_ms));
  assert_int_equal (lasted_ms, 3601000);
  assert_false (log_trouble_over (&trouble, 3602000, &lasted_ms));
  assert_int_equal (log_trouble_level (&trouble, 3603000), LOG_WARN); /* another one */
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_label_texts),
    cmocka_unit_test (test_quantities_read_and_print_as_kubernetes_does),
    cmocka_unit_test (test_what_is_no_quantity_is_refused_with_the_value),
    cmocka_unit_test (test_sums_keep_the_format_of_the_first_operand),
    cmocka_unit_test (test_versions),
    cmocka_unit_test (test_names_kubernetes_accepts),
    cmocka_unit_test (test_times),
    cmocka_unit_test (test_errors_wrap_and_are_cut_visibly),
    cmocka_unit_test (test_whole_numbers),
    cmocka_unit_test (test_a_lasting_trouble_is_told_less_and_less_often),
    cmocka_unit_test (test_buffers_arenas_and_quoting),
    cmocka_unit_test (test_hashes_are_stable_and_separate_their_parts),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
