/* JSON and YAML conveniences, table by table. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <errno.h>

#include <cmocka.h>

#include "json/json.h"

static cJSON *
parse (const char *text)
{
  struct error err = { 0 };
  cJSON *v;

  if (json_parse (&v, text, strlen (text), &err) < 0)
    fail_msg ("%s: %s", text, err.message);
  return v;
}

static void
assert_json (const cJSON *v, const char *expect)
{
  cleanup_json cJSON *wanted = parse (expect);
  cleanup_free char *text = json_print (v);

  if (!json_equal (v, wanted))
    fail_msg ("%s\n    is not\n    %s", text, expect);
}

static void
test_paths_answer_absent_for_whatever_is_not_there (void **state)
{
  cleanup_json cJSON *v
      = parse ("{\"a\":{\"b.c/d\":\"x\",\"n\":3,\"f\":1.5,\"t\":true,\"A\":1},\"l\":[{\"name\":\"p\",\"v\":1}]}");

  (void) state;
  assert_string_equal (json_str (v, "a", "b.c/d"), "x");
  assert_null (json_str (v, "a", "B.C/D"));
  assert_null (json_str (v, "a", "n"));
  assert_null (json_str (v, "l", "x"));
  assert_null (json_str (NULL, "a"));
  assert_int_equal (json_int (v, -1, "a", "n"), 3);
  assert_int_equal (json_int (v, -1, "a", "f"), -1);
  assert_true (json_bool (v, false, "a", "t"));
  assert_true (json_bool (v, true, "a", "n"));
  assert_int_equal (json_int (json_find (json_get (v, "l"), "name", "p"), 0, "v"), 1);
  assert_null (json_find (json_get (v, "a"), "name", "p"));
}

static void
test_broken_json_says_where (void **state)
{
  static const char *const cases[] = { "", "{", "{\"a\":}", "{} x", "[1,]", "nul", "\"abc" };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (cases); i++)
    {
      struct error err = { 0 };
      cJSON *v;

      assert_int_equal (json_parse (&v, cases[i], strlen (cases[i]), &err), -EINVAL);
      assert_null (v);
      assert_non_null (strstr (err.message, "byte"));
    }
}

static void
test_patches_apply_or_name_the_operation (void **state)
{
  static const struct
  {
    const char *name, *object, *patch, *expect; /* expect NULL: refused */
  } cases[] = {
    { "add a member", "{}", "[{\"op\":\"add\",\"path\":\"/a\",\"value\":1}]", "{\"a\":1}" },
    { "add replaces", "{\"a\":2}", "[{\"op\":\"add\",\"path\":\"/a\",\"value\":1}]", "{\"a\":1}" },
    { "append", "{\"a\":[1]}", "[{\"op\":\"add\",\"path\":\"/a/-\",\"value\":2}]", "{\"a\":[1,2]}" },
    { "insert", "{\"a\":[1,3]}", "[{\"op\":\"add\",\"path\":\"/a/1\",\"value\":2}]", "{\"a\":[1,2,3]}" },
    { "insert at the end", "{\"a\":[1]}", "[{\"op\":\"add\",\"path\":\"/a/1\",\"value\":2}]", "{\"a\":[1,2]}" },
    { "insert past the end", "{\"a\":[1]}", "[{\"op\":\"add\",\"path\":\"/a/5\",\"value\":2}]", NULL },
    { "escapes", "{\"a/b\":{\"~\":1}}", "[{\"op\":\"replace\",\"path\":\"/a~1b/~0\",\"value\":2}]",
      "{\"a/b\":{\"~\":2}}" },
    { "replace what is not there", "{}", "[{\"op\":\"replace\",\"path\":\"/a\",\"value\":1}]", NULL },
    { "remove", "{\"a\":1,\"b\":2}", "[{\"op\":\"remove\",\"path\":\"/a\"}]", "{\"b\":2}" },
    { "remove what is not there", "{}", "[{\"op\":\"remove\",\"path\":\"/a\"}]", NULL },
    { "no parent", "{}", "[{\"op\":\"add\",\"path\":\"/a/b\",\"value\":1}]", NULL },
    { "add without value", "{}", "[{\"op\":\"add\",\"path\":\"/a\"}]", NULL },
    { "test holds", "{\"a\":[1]}", "[{\"op\":\"test\",\"path\":\"/a\",\"value\":[1]}]", "{\"a\":[1]}" },
    { "test fails", "{\"a\":1}", "[{\"op\":\"test\",\"path\":\"/a\",\"value\":2}]", NULL },
    { "unknown operation", "{\"a\":1}", "[{\"op\":\"move\",\"path\":\"/a\",\"value\":2}]", NULL },
  };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (cases); i++)
    {
      cleanup_json cJSON *object = parse (cases[i].object), *patch = NULL;
      struct error err = { 0 };
      int ret;

      patch = parse (cases[i].patch);
      ret = json_patch_apply (object, patch, &err);
      if ((ret == 0) != (cases[i].expect != NULL))
        fail_msg ("%s: %s", cases[i].name, ret == 0 ? "was accepted" : err.message);
      if (ret == 0)
        assert_json (object, cases[i].expect);
    }
}

/* ---- streams ---- */

struct seen
{
  struct buf text;
  int values, lasts;
};

static int
collect (void *data, cJSON *value, bool last, struct error *err)
{
  struct seen *seen = data;
  cleanup_free char *text = json_print (value);

  (void) err;
  buf_printf (&seen->text, "%s;", text);
  seen->values++;
  seen->lasts += last;
  return 0;
}

static void
test_streams_find_values_however_the_bytes_are_cut (void **state)
{
  static const struct
  {
    enum json_stream_mode mode;
    const char *bytes, *expect;
    int lasts;
  } cases[] = {
    { JSON_STREAM_VALUES, "{\"a\":\"}\"}\n {\"b\":[{}]}", "{\"a\":\"}\"};{\"b\":[{}]};", 0 },
    { JSON_STREAM_LIST, "{\"items\":[],\"metadata\":{\"resourceVersion\":\"7\"}}",
      "{\"metadata\":{\"resourceVersion\":\"7\"}};", 1 },
    { JSON_STREAM_LIST, "{\"kind\":\"items\",\"items\":[{\"a\":\"]\\\"}\"} , {\"items\":[{}]}],\"x\":{\"items\":[1]}}",
      "{\"a\":\"]\\\"}\"};{\"items\":[{}]};{\"kind\":\"items\",\"x\":{\"items\":[1]}};", 1 },
    { JSON_STREAM_LIST, "{\"items\":null,\"k\":1}", "{\"k\":1};", 1 },
  };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (cases); i++)
    for (size_t cut = 1; cut <= strlen (cases[i].bytes); cut++)
      {
        struct seen seen = { 0 };
        struct json_stream *s = json_stream_new (cases[i].mode, 1000, collect, &seen);
        struct error err = { 0 };

        for (size_t at = 0; at < strlen (cases[i].bytes); at += cut)
          {
            size_t n = strlen (cases[i].bytes) - at;

            if (json_stream_feed (s, cases[i].bytes + at, n < cut ? n : cut, &err) < 0)
              fail_msg ("%s", err.message);
          }
        assert_true (json_stream_at_boundary (s));
        assert_string_equal (buf_text (&seen.text), cases[i].expect);
        assert_int_equal (seen.lasts, cases[i].lasts);
        json_stream_free (s);
        buf_free (&seen.text);
      }
}

static void
test_streams_refuse_garbage_and_giants (void **state)
{
  static const struct
  {
    const char *bytes;
    int ret;
  } cases[] = {
    { "<html>", -EINVAL },
    { "\"text\"", -EINVAL },
    { "{\"a\" 1}", -EINVAL },
    { "{}]", -EINVAL },
    { "{\"a\":\"0123456789012345678901234567890123456789012345678901234567890123456789\"}", -EFBIG },
  };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (cases); i++)
    {
      struct seen seen = { 0 };
      struct json_stream *s = json_stream_new (JSON_STREAM_VALUES, 50, collect, &seen);
      struct error err = { 0 };

      assert_int_equal (json_stream_feed (s, cases[i].bytes, strlen (cases[i].bytes), &err), cases[i].ret);
      assert_true (err.message[0] != '\0');
      json_stream_free (s);
      buf_free (&seen.text);
    }
}

/* Tells what came of a value that does not fit. */
static int
collect_unfit (void *data, cJSON *value, bool last, struct error *err)
{
  struct seen *seen = data;

  buf_str (&seen->text, "!");
  return collect (data, value, last, err);
}

static void
test_streams_go_on_behind_what_does_not_fit (void **state)
{
#define LARGE "\"0123456789012345678901234567890123456789\\\"}],[{\""
  static const struct
  {
    enum json_stream_mode mode;
    const char *bytes, *expect;
  } cases[] = {
    { JSON_STREAM_VALUES, "{\"a\":[{\"n\":1},{\"m\":2,\"x\":" LARGE "}],\"c\":[3]}{\"b\":1}",
      "!{\"a\":[{\"n\":1},{\"m\":2}]};{\"b\":1};" },
    { JSON_STREAM_LIST, "{\"items\":[{\"a\":1},{\"b\":{\"n\":2,\"x\":" LARGE "}},{\"c\":3}],\"k\":1}",
      "{\"a\":1};!{\"b\":{\"n\":2}};{\"c\":3};{\"k\":1};" },
    { JSON_STREAM_LIST, "{\"items\":[{\"a\":1,\"b\" 2},{\"c\":3}]}", "!{\"a\":1};{\"c\":3};{};" },
  };
#undef LARGE

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (cases); i++)
    for (size_t cut = 1; cut <= strlen (cases[i].bytes); cut++)
      {
        struct seen seen = { 0 };
        struct json_stream *s = json_stream_new (cases[i].mode, 50, collect, &seen);
        struct error err = { 0 };

        json_stream_on_unfit (s, collect_unfit);
        for (size_t at = 0; at < strlen (cases[i].bytes); at += cut)
          {
            size_t n = strlen (cases[i].bytes) - at;

            if (json_stream_feed (s, cases[i].bytes + at, n < cut ? n : cut, &err) < 0)
              fail_msg ("%s", err.message);
          }
        assert_true (json_stream_at_boundary (s));
        if (cut < 40) /* more at once, and more of the head is there */
          assert_string_equal (buf_text (&seen.text), cases[i].expect);
        json_stream_free (s);
        buf_free (&seen.text);
      }
}

/* ---- YAML ---- */

static void
test_yaml_reads_as_kubectl_does (void **state)
{
  static const struct
  {
    const char *yaml, *json;
  } cases[] = {
    { "a: 1\nb: [x, 'y', \"z\"]", "[{\"a\":1,\"b\":[\"x\",\"y\",\"z\"]}]" },
    { "a: yes\nb: No\nc: on\nd: y\ne: true", "[{\"a\":true,\"b\":false,\"c\":true,\"d\":true,\"e\":true}]" },
    { "a: \"yes\"\nb: !!str 12", "[{\"a\":\"yes\",\"b\":\"12\"}]" },
    { "a: ~\nb:\nc: null", "[{\"a\":null,\"b\":null,\"c\":null}]" },
    { "a: 0x10\nb: 010\nc: 1_000\nd: 1.5\ne: 1e3\nf: -7",
      "[{\"a\":16,\"b\":8,\"c\":1000,\"d\":1.5,\"e\":1000,\"f\":-7}]" },
    { "a: 4x4\nb: 1.2.3\nc: 500m\nd: 12:30\ne: 2026-01-01",
      "[{\"a\":\"4x4\",\"b\":\"1.2.3\",\"c\":\"500m\",\"d\":\"12:30\",\"e\":\"2026-01-01\"}]" },
    { "---\na: 1\n---\n---\nb: 2\n...\n", "[{\"a\":1},{\"b\":2}]" },
    { "", "[]" },
    { "# nothing\n", "[]" },
    { "x: &d {p: 1, q: 2}\ny: {<<: *d, q: 3}\nz: *d",
      "[{\"x\":{\"p\":1,\"q\":2},\"y\":{\"p\":1,\"q\":3},\"z\":{\"p\":1,\"q\":2}}]" },
    { "a: |\n  one\n  two\nb: >-\n  one\n  two\n", "[{\"a\":\"one\\ntwo\\n\",\"b\":\"one two\"}]" },
    { "{\"a\": {\"b\": [1, 2]}}", "[{\"a\":{\"b\":[1,2]}}]" },
    { "1: a\ntrue: b", "[{\"1\":\"a\",\"true\":\"b\"}]" },
  };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (cases); i++)
    {
      cleanup_json cJSON *docs = NULL;
      struct error err = { 0 };

      if (yaml_parse (&docs, cases[i].yaml, strlen (cases[i].yaml), &err) < 0)
        fail_msg ("%s: %s", cases[i].yaml, err.message);
      assert_json (docs, cases[i].json);
    }
}

static void
test_broken_yaml_names_the_line (void **state)
{
  static const struct
  {
    const char *yaml, *expect;
  } cases[] = {
    { "a: 1\nb: [\n", "line 3" },   { "a: 1\nb: 2\na: 3\n", "line 3" }, { "a: *nobody\n", "names no anchor" },
    { "a: 1\n\tb: 2\n", "line 2" }, { "? [a]\n: b\n", "plain text" },
  };
  cleanup_buf struct buf bomb = { 0 }, deep = { 0 };
  struct error err = { 0 };
  cJSON *docs;

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (cases); i++)
    {
      assert_int_equal (yaml_parse (&docs, cases[i].yaml, strlen (cases[i].yaml), &err), -EINVAL);
      assert_null (docs);
      if (strstr (err.message, cases[i].expect) == NULL)
        fail_msg ("%s: \"%s\" lacks \"%s\"", cases[i].yaml, err.message, cases[i].expect);
    }
  buf_str (&bomb, "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n");
  for (int i = 1; i < 12; i++)
    buf_printf (&bomb, "a%d: &a%d [*a%d,*a%d,*a%d,*a%d,*a%d,*a%d,*a%d,*a%d,*a%d,*a%d]\n", i, i, i - 1, i - 1, i - 1,
                i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1);
  assert_int_equal (yaml_parse (&docs, bomb.data, bomb.len, &err), -EINVAL);
  assert_non_null (strstr (err.message, "too much"));
  for (int i = 0; i < 100000; i++)
    buf_char (&deep, '[');
  assert_int_equal (yaml_parse (&docs, deep.data, deep.len, &err), -EINVAL);
}

static void
test_text_that_is_no_utf8_is_printed_as_a_mark_not_lost (void **state)
{
  cleanup_json cJSON *v = cJSON_CreateObject ();
  cleanup_buf struct buf out = { 0 };

  (void) state;
  json_set_str (v, "a", "x\xff");
  json_set_str (v, "b", "after");
  yaml_print (&out, v);
  assert_non_null (strstr (out.data, "b: after"));
}

static void
test_printed_yaml_reads_back_the_same (void **state)
{
  static const char *const cases[] = {
    "{\"a\":\"yes\",\"b\":\"1\",\"c\":\"null\",\"d\":\"\",\"e\":\"4x4\",\"f\":\"a: b\",\"g\":\"#x\",\"h\":\"- x\"}",
    "{\"a\":[],\"b\":{},\"c\":null,\"d\":true,\"e\":1.5,\"f\":[[1],[{\"x\":[2]}]]}",
    ("{\"script\":\"one\\ntwo\\n\",\"trail\":\"x \\ny\",\"tab\":\"a\\tb\",\"quote\":\"it's "
     "\\\"so\\\"\",\"u\":\"\\u00e9\"}"),
    "{\"yes\":1,\"1\":2,\"<<\":3,\"a b\":4,\"true\":5}",
    "{\"a\":\"~\",\"b\":\"0x1f\",\"c\":\"1e3\",\"d\":\".5\",\"e\":\"+1\",\"f\":\"-1\",\"g\":\".inf\",\"h\":\"<<\"}",
  };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (cases); i++)
    {
      cleanup_json cJSON *v = parse (cases[i]), *docs = NULL;
      cleanup_buf struct buf out = { 0 };
      struct error err = { 0 };

      yaml_print (&out, v);
      if (yaml_parse (&docs, out.data, out.len, &err) < 0)
        fail_msg ("%s: %s", out.data, err.message);
      assert_json (cJSON_GetArrayItem (docs, 0), cases[i]);
    }
}

static void
test_nul_is_found (void **state)
{
  static const struct
  {
    const char *text, *path; /* NULL: none */
  } cases[] = {
    { "{\"a\":\"x\"}", NULL },
    { "{\"a\":{\"b\":\"x\\u0000\"}}", "b" },
    { "{\"a\":[1,{\"c.d\":[\"\\u0000\"]}]}", "[1][\"c.d\"][0]" },
    { "{\"a\":{\"k\\u0000\":1}}", "k\xef\xb7\x90" },
    { "{\"a\":\"\\\\u0000\"}", NULL },
    { "{\"a\":{\"b\":\"\\\\\\u0000\"}}", "b" },
    { "{\"a\":\"\\\\u0000\",\"b\":\"\\u0000\"}", "" }, /* elsewhere */
  };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (cases); i++)
    {
      size_t len = strlen (cases[i].text);
      cleanup_free char *path = json_nul_path (cases[i].text, len, "a");

      assert_int_equal (json_has_nul (cases[i].text, len), cases[i].path != NULL);
      if (!text_eq (path, cases[i].path != NULL && *cases[i].path ? cases[i].path : NULL))
        fail_msg ("%s: %s", cases[i].text, path ? path : "none");
    }
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_nul_is_found),
    cmocka_unit_test (test_paths_answer_absent_for_whatever_is_not_there),
    cmocka_unit_test (test_broken_json_says_where),
    cmocka_unit_test (test_patches_apply_or_name_the_operation),
    cmocka_unit_test (test_streams_find_values_however_the_bytes_are_cut),
    cmocka_unit_test (test_streams_refuse_garbage_and_giants),
    cmocka_unit_test (test_streams_go_on_behind_what_does_not_fit),
    cmocka_unit_test (test_yaml_reads_as_kubectl_does),
    cmocka_unit_test (test_broken_yaml_names_the_line),
    cmocka_unit_test (test_text_that_is_no_utf8_is_printed_as_a_mark_not_lost),
    cmocka_unit_test (test_printed_yaml_reads_back_the_same),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
