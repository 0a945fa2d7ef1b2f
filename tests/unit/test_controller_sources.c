/* Whether the controller's mirrors are worth being believed, against an API server on loopback that fails as told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <stdatomic.h>

#include "controller/controller_internal.h"
#include "kube_test_server.h"

struct fake
{
  struct test_server *server;
  atomic_bool refuses_pods;
};

static void
answer (void *data, const struct test_request *request, struct test_answer *answer)
{
  struct fake *fake = data;

  if (strstr (request->path, "/pods?") != NULL && atomic_load (&fake->refuses_pods))
    {
      answer->status = 403;
      answer->body = xstrdup ("{\"kind\":\"Status\",\"message\":\"no right to list pods\"}");
    }
  else if (strstr (request->path, "watch=true") != NULL)
    answer->body = xstrdup (""); /* ends at once; the next one comes soon */
  else
    answer->body = xstrdup ("{\"kind\":\"List\",\"metadata\":{\"resourceVersion\":\"7\"},\"items\":[]}");
}

static void
a_mirror_that_stands_still_is_none (void **state)
{
  struct fake fake = { .refuses_pods = false };
  struct controller_options options = { .workers = 1, .stale_ms = 1 };
  struct controller_stats stats;
  struct controller *c;
  struct error why = { 0 };

  (void) state;
  fake.server = test_server_start (answer, &fake, false);
  options.client = test_server_client (fake.server, NULL);
  c = controller_start (&options);
  wait_for (controller_synced (c, &why));
  controller_stats (c, &stats);
  assert_int_equal (stats.stale_ms, 0);

  atomic_store (&fake.refuses_pods, true);
  wait_for (!controller_synced (c, &why));
  assert_non_null (strstr (why.message, "the list of pods is not kept up: "));
  assert_non_null (strstr (why.message, "no right to list pods"));
  controller_stats (c, &stats);
  assert_true (stats.stale_ms > 1);

  atomic_store (&fake.refuses_pods, false);
  wait_for (controller_synced (c, &why));
  controller_stop (c);
  kube_client_free (options.client);
  test_server_stop (fake.server);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (a_mirror_that_stands_still_is_none),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
