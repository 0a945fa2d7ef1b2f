/* When two JSON values are the same, and that finding out takes no longer than reading them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "json/json.h"

static cJSON *
parse (const char *text)
{
  struct error err = { "" };
  cJSON *v;

  if (json_parse (&v, text, strlen (text), &err) < 0)
    fail_msg ("%s in %s", err.message, text);
  return v;
}

static void
values_are_equal_whatever_the_order_of_their_members (void **state)
{
  static const struct
  {
    const char *a, *b;
    bool equal;
  } cases[] = {
    { "null", "null", true },
    { "null", "false", false },
    { "true", "true", true },
    { "true", "false", false },
    { "1", "1.0", true },
    { "1", "2", false },
    { "1", "\"1\"", false },
    { "\"a\"", "\"a\"", true },
    { "\"a\"", "\"b\"", false },
    { "[]", "[]", true },
    { "[]", "{}", false },
    { "[1,2]", "[1,2]", true },
    { "[1,2]", "[2,1]", false },
    { "[1,2]", "[1]", false },
    { "[1]", "[1,2]", false },
    { "{}", "{}", true },
    { "{\"a\":1}", "{}", false },
    { "{}", "{\"a\":1}", false },
    { "{\"a\":1}", "{\"A\":1}", false },
    { "{\"a\":1,\"b\":2}", "{\"a\":1,\"b\":2}", true },
    { "{\"a\":1,\"b\":2}", "{\"b\":2,\"a\":1}", true },
    { "{\"a\":1,\"b\":2}", "{\"b\":1,\"a\":2}", false },
    { "{\"a\":1,\"b\":2}", "{\"a\":1,\"c\":2}", false },
    { "{\"a\":1,\"a\":1}", "{\"a\":1,\"b\":1}", false },
    { "{\"a\":{\"x\":[{\"y\":1,\"z\":2}]}}", "{\"a\":{\"x\":[{\"z\":2,\"y\":1}]}}", true },
    { "{\"a\":{\"x\":[{\"y\":1,\"z\":2}]}}", "{\"a\":{\"x\":[{\"z\":2,\"y\":3}]}}", false },
  };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (cases); i++)
    {
      cleanup_json cJSON *a = parse (cases[i].a);
      cleanup_json cJSON *b = parse (cases[i].b);

      if (json_equal (a, b) != cases[i].equal || json_equal (b, a) != cases[i].equal)
        fail_msg ("%s and %s should %sbe equal", cases[i].a, cases[i].b, cases[i].equal ? "" : "not ");
      assert_true (json_equal (a, a));
      assert_false (json_equal (a, NULL));
      assert_false (json_equal (NULL, b));
    }
  assert_true (json_equal (NULL, NULL));
}

/* Comparing each pair twice would take 2^200 steps here. */
static void
depth_costs_nothing_extra (void **state)
{
  cleanup_buf struct buf text = { 0 };
  cleanup_json cJSON *a = NULL;
  cleanup_json cJSON *b = NULL;

  (void) state;
  for (int i = 0; i < 200; i++)
    buf_str (&text, "{\"a\":");
  buf_str (&text, "1");
  for (int i = 0; i < 200; i++)
    buf_str (&text, "}");
  a = parse (text.data);
  b = parse (text.data);
  assert_true (json_equal (a, b));
}

/* Looking each of these names up from the start would take ten thousand million comparisons. */
static void
width_in_another_order_costs_little (void **state)
{
  cleanup_json cJSON *a = cJSON_CreateObject ();
  cleanup_json cJSON *b = cJSON_CreateObject ();

  (void) state;
  for (int i = 0; i < 100000; i++)
    {
      char name[16];

      snprintf (name, sizeof (name), "k%d", i);
      cJSON_AddItemToObject (a, name, cJSON_CreateNumber (i));
      snprintf (name, sizeof (name), "k%d", 99999 - i);
      cJSON_AddItemToObject (b, name, cJSON_CreateNumber (99999 - i));
    }
  assert_true (json_equal (a, b));
  cJSON_AddItemToObject (a, "one", cJSON_CreateNumber (1));
  cJSON_AddItemToObject (b, "another", cJSON_CreateNumber (1));
  assert_false (json_equal (a, b));
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (values_are_equal_whatever_the_order_of_their_members),
    cmocka_unit_test (depth_costs_nothing_extra),
    cmocka_unit_test (width_in_another_order_costs_little),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
