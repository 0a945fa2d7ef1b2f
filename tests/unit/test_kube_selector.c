/* Label selectors: what is taken, and what it selects. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>

#include "kube/selector.h"

static bool
matches (const char *text, const char *labels_text)
{
  struct kube_selector *selector = NULL;
  cleanup_json cJSON *labels = NULL;
  struct error err = { 0 };
  bool ret;

  if (kube_selector_parse (&selector, text, &err) < 0
      || (labels_text != NULL && json_parse (&labels, labels_text, strlen (labels_text), &err) < 0))
    fail_msg ("%s", err.message);
  ret = kube_selector_matches (selector, labels);
  kube_selector_free (selector);
  return ret;
}

#define LABELS "{\"team\":\"a\",\"x.io/tier\":\"b-1\",\"empty\":\"\"}"

static void
test_what_is_selected (void **state)
{
  static const struct
  {
    const char *selector;
    bool with, without; /* LABELS; no labels at all */
  } cases[] = {
    { "", true, true },
    { "  ", true, true },
    { "team=a", true, false },
    { "team==a", true, false },
    { " team = a ", true, false },
    { "team=b", false, false },
    { "team!=a", false, true },
    { "team!=b", true, true },
    { "team", true, false },
    { "!team", false, true },
    { "!other", true, true },
    { "other=a", false, false },
    { "empty=", true, false },
    { "empty!=", false, true },
    { "x.io/tier in (a, b-1)", true, false },
    { "x.io/tier in (a)", false, false },
    { "x.io/tier notin (a,b-1)", false, true },
    { "x.io/tier notin (a)", true, true },
    { "x.io/tier in(b-1),team=a", true, false },
    { "x.io/tier in (b-1),team=b", false, false },
    { "team=a,!other,empty", true, false },
    { "in=in", false, false },
  };

  (void) state;
  for (size_t i = 0; i < sizeof (cases) / sizeof (cases[0]); i++)
    if (matches (cases[i].selector, LABELS) != cases[i].with || matches (cases[i].selector, NULL) != cases[i].without)
      fail_msg ("\"%s\"", cases[i].selector);
}

static void
test_what_is_refused (void **state)
{
  static const char *const cases[] = {
    ",",         "team=a,",    "=a",         "team=a b",
    "team in a", "team in (a", "team in a)", "team in",
    "team is a", "!team=a",    "!",          "te am=a",
    "team=-a",   "a/b/c=d",    "A_b/c=d",    "/c=d",
    "team=a/b",  "team>1",     "team=(a)",   "team=a;b=c",
    "team=a=b",  "team!a",     "team=\"a\"", "k=0123456789012345678901234567890123456789012345678901234567890123",
  };

  (void) state;
  for (size_t i = 0; i < sizeof (cases) / sizeof (cases[0]); i++)
    {
      struct kube_selector *selector = NULL;
      struct error err = { 0 };

      if (kube_selector_parse (&selector, cases[i], &err) != -EINVAL)
        fail_msg ("\"%s\" is taken", cases[i]);
      assert_null (selector);
      assert_non_null (strstr (err.message, cases[i]));
      assert_non_null (strstr (err.message, "key=value"));
    }
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_what_is_selected),
    cmocka_unit_test (test_what_is_refused),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
