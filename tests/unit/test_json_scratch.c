/* Scratch memory: nothing shows but the time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <pthread.h>

#include "json/json.h"

static cJSON *
numbers (int count)
{
  cJSON *list = cJSON_CreateArray ();

  for (int i = 0; i < count; i++)
    json_push (list, cJSON_CreateNumber (i));
  return list;
}

static void
values_from_before_live_on_and_may_be_deleted_inside (void **state)
{
  cJSON *kept = numbers (3), *deleted = numbers (3);

  (void) state;
  {
    cleanup_scratch struct json_scratch scratch = json_scratch_begin ();
    cleanup_json cJSON *inside = numbers (1000);

    cJSON_Delete (deleted);
    assert_int_equal (cJSON_GetArraySize (inside), 1000);
  }
  assert_int_equal (cJSON_GetArraySize (kept), 3);
  cJSON_Delete (kept);
}

static void
what_does_not_fit_is_ordinary_memory (void **state)
{
  (void) state;
  for (int round = 0; round < 3; round++)
    {
      cleanup_scratch struct json_scratch scratch = json_scratch_begin ();
      cleanup_json cJSON *many = numbers (20000); /* more than a megabyte */
      cleanup_free char *text = json_print (many);
      cleanup_json cJSON *again = NULL;
      struct error err;

      assert_int_equal (json_parse (&again, text, strlen (text), &err), 0);
      assert_true (json_equal (many, again));
    }
}

static void
text_outlives_the_scratch_it_was_printed_in (void **state)
{
  char *text;

  (void) state;
  {
    cleanup_scratch struct json_scratch scratch = json_scratch_begin ();
    cleanup_json cJSON *list = numbers (3);

    text = json_print (list);
  }
  {
    cleanup_scratch struct json_scratch scratch = json_scratch_begin ();
    cleanup_json cJSON *other = numbers (100);

    assert_int_equal (cJSON_GetArraySize (other), 100);
    assert_string_equal (text, "[0,1,2]");
  }
  free (text);
}

static void
an_inner_scratch_is_part_of_the_outer (void **state)
{
  cleanup_scratch struct json_scratch outer = json_scratch_begin ();
  cleanup_json cJSON *list = numbers (3);
  cleanup_json cJSON *after = NULL;

  (void) state;
  {
    cleanup_scratch struct json_scratch inner = json_scratch_begin ();
    cleanup_json cJSON *other = numbers (3);

    assert_int_equal (cJSON_GetArraySize (other), 3);
    assert_true (outer.outermost);
    assert_false (inner.outermost);
  }
  after = numbers (1000); /* must not come to lie on the first list */
  assert_int_equal (cJSON_GetArrayItem (list, 2)->valueint, 2);
}

static void *
work (void *result)
{
  for (int i = 0; i < 200; i++)
    {
      cleanup_scratch struct json_scratch scratch = json_scratch_begin ();
      cleanup_json cJSON *list = numbers (500);

      *(int *) result += cJSON_GetArrayItem (list, 499)->valueint == 499;
    }
  return NULL;
}

static void
each_thread_has_its_own (void **state)
{
  pthread_t threads[4];
  int right[4] = { 0 };

  (void) state;
  for (size_t i = 0; i < 4; i++)
    assert_int_equal (pthread_create (&threads[i], NULL, work, &right[i]), 0);
  for (size_t i = 0; i < 4; i++)
    {
      pthread_join (threads[i], NULL);
      assert_int_equal (right[i], 200);
    }
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (values_from_before_live_on_and_may_be_deleted_inside),
    cmocka_unit_test (what_does_not_fit_is_ordinary_memory),
    cmocka_unit_test (text_outlives_the_scratch_it_was_printed_in),
    cmocka_unit_test (an_inner_scratch_is_part_of_the_outer),
    cmocka_unit_test (each_thread_has_its_own),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
