/* Whether a Lease of KubeRay's controller is alive. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <stdio.h>

#include "manager/manager_internal.h"

#define LEASE(ns, name, holder, renewed)                                                                               \
  "{\"metadata\":{\"namespace\":\"" ns "\",\"name\":\"" name "\"},\"spec\":{\"holderIdentity\":\"" holder              \
  "\",\"leaseDurationSeconds\":15,\"renewTime\":\"2026-01-01T" renewed "Z\"}}"
#define NOW "12:00:00"

static void
look (struct rival *found, cJSON **seen, const char *leases, const char *own)
{
  cleanup_free char *text = xasprintf ("{\"kind\":\"LeaseList\",\"items\":[%s]}", leases);
  cleanup_json cJSON *list = NULL;
  struct error err = { 0 };
  int64_t now;

  if (json_parse (&list, text, strlen (text), &err) < 0)
    fail_msg ("%s", err.message);
  assert_int_equal (clock_parse_rfc3339 ("2026-01-01T" NOW "Z", &now), 0);
  rival_judge (found, seen, list, own, now);
}

static void
test_one_look (void **state)
{
  static const struct
  {
    const char *name, *leases, *own, *namespace; /* namespace of the one that is found; NULL: none */
  } cases[] = {
    { "no lease", "", NULL, NULL },
    { "renewed just now", LEASE ("ray", RIVAL_LEASE, "kr_1", "11:59:58.123456"), NULL, "ray" },
    { "about to end", LEASE ("ray", RIVAL_LEASE, "kr_1", "11:59:45"), NULL, "ray" },
    { "ended within the slack", LEASE ("ray", RIVAL_LEASE, "kr_1", "11:59:36"), NULL, "ray" },
    { "long dead", LEASE ("ray", RIVAL_LEASE, "kr_1", "11:59:30"), NULL, NULL },
    { "of a clock that is ahead", LEASE ("ray", RIVAL_LEASE, "kr_1", "12:00:30"), NULL, "ray" },
    { "given back", LEASE ("ray", RIVAL_LEASE, "", "11:59:59"), NULL, NULL },
    { "another name", LEASE ("ray", "ray-tpu-operator", "me", "11:59:59"), NULL, NULL },
    { "our own", LEASE ("ray", RIVAL_LEASE, "me", "11:59:59"), "ray", NULL },
    { "our own and another", LEASE ("ray", RIVAL_LEASE, "me", NOW) "," LEASE ("b", RIVAL_LEASE, "kr", NOW), "ray",
      "b" },
    { "a dead one first", LEASE ("a", RIVAL_LEASE, "kr", "01:00:00") "," LEASE ("b", RIVAL_LEASE, "kr", NOW), NULL,
      "b" },
    { "no times",
      "{\"metadata\":{\"namespace\":\"a\",\"name\":\"" RIVAL_LEASE "\"},\"spec\":{\"holderIdentity\":\"x\"}}", NULL,
      NULL },
    { "nothing", "{}", NULL, NULL },
  };

  (void) state;
  for (size_t i = 0; i < sizeof (cases) / sizeof (cases[0]); i++)
    {
      struct rival found;
      cJSON *seen = NULL;

      look (&found, &seen, cases[i].leases, cases[i].own);
      cJSON_Delete (seen);
      if (found.active != (cases[i].namespace != NULL)
          || strcmp (found.namespace, log_nonnull (cases[i].namespace)) != 0)
        fail_msg ("%s: %d, \"%s\"", cases[i].name, found.active, found.namespace);
    }
}

/* Where the clocks are hours apart the second look tells. */
static void
test_renewed_between_two_looks (void **state)
{
  struct rival found;
  cJSON *seen = NULL;

  (void) state;
  look (&found, &seen, LEASE ("ray", RIVAL_LEASE, "kr_1", "07:00:00"), NULL);
  assert_false (found.active);
  look (&found, &seen, LEASE ("ray", RIVAL_LEASE, "kr_1", "07:01:00"), NULL);
  assert_true (found.active);
  assert_string_equal (found.holder, "kr_1");
  look (&found, &seen, LEASE ("ray", RIVAL_LEASE, "kr_1", "07:01:00"), NULL);
  assert_false (found.active);
  look (&found, &seen, "", NULL);
  look (&found, &seen, LEASE ("ray", RIVAL_LEASE, "kr_1", "07:02:00"), NULL);
  assert_false (found.active);
  cJSON_Delete (seen);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_one_look),
    cmocka_unit_test (test_renewed_between_two_looks),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
