/* What was begun under one leadership is not gone on with under the next: another replica led in between. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <stdatomic.h>

#include "controller/controller_internal.h"
#include "kube_test_server.h"

struct scene
{
  struct test_server *server;
  struct kube_client *client;
  struct controller *c;
  cJSON *docs;
  struct ray_cluster cluster;
  struct cache_snapshot seen; /* nothing but the cluster */
  unsigned past, now;         /* terms */
  atomic_int requests;
};

static void
answer (void *data, const struct test_request *request, struct test_answer *answer)
{
  struct scene *s = data;

  atomic_fetch_add (&s->requests, 1);
  answer->status = 422;
  answer->body = xasprintf ("{\"kind\":\"Status\",\"message\":\"%s is not to be\"}", request->method);
}

static void
set_up (struct scene *s)
{
  static const char text[] = "apiVersion: ray.io/v1\n"
                             "kind: RayCluster\n"
                             "metadata: {name: c, namespace: ns, uid: u, resourceVersion: '5'}\n"
                             "spec:\n"
                             "  gcsFaultToleranceOptions: {redisAddress: 'r:6379'}\n"
                             "  headGroupSpec: {template: {spec: {containers: [{name: head, image: i}]}}}\n";
  struct controller_options options = { .ray.redis_cleanup = true };
  struct error err = { 0 };

  *s = (struct scene){ .server = NULL };
  s->server = test_server_start (answer, s, false);
  options.client = s->client = test_server_client (s->server, NULL);
  s->c = controller_new (&options);
  controller_activate (s->c);
  s->past = atomic_load (&s->c->term);
  controller_deactivate (s->c);
  controller_activate (s->c);
  s->now = atomic_load (&s->c->term);
  if (yaml_parse (&s->docs, text, strlen (text), &err) < 0
      || ray_cluster_decode (&s->cluster, s->docs->child, NULL, &err) < 0)
    fail_msg ("%s", err.message);
}

static void
tear_down (struct scene *s)
{
  ray_cluster_free (&s->cluster);
  cJSON_Delete (s->docs);
  controller_stop (s->c);
  kube_client_free (s->client);
  test_server_stop (s->server);
}

static void
a_request (struct scene *s, unsigned term)
{
  cleanup_response struct kube_response response = { 0 };
  struct kube_request request = { .verb = KUBE_DELETE, .path = (char *) "/api/v1/namespaces/ns/pods/p" };

  controller_request (s->c, term, &request, &response);
}

static void
children (struct scene *s, unsigned term)
{
  struct children_result result;

  children_apply (s->c, term, &s->cluster, &s->seen, &result);
}

static void
pruned_children (struct scene *s, unsigned term)
{
  const struct ray_child_seen role
      = { .kind = RAY_CHILD_ROLE, .name = "old", .uid = "x", .owner_uid = "u", .prunable = true };
  const struct ray_child_seen *list[] = { &role };
  const struct cache_snapshot seen = { .children = list, .nchildren = 1 };
  const struct ray_children none = { 0 };

  children_prune (s->c, term, &s->cluster, &seen, &none);
}

static void
a_finalizer (struct scene *s, unsigned term)
{
  struct teardown_result result;

  assert_true (teardown_run (s->c, term, &s->cluster, &s->seen.observed, &result));
  assert_true (result.retry);
}

static void
nothing_is_sent_for_a_term_that_is_over (void **state)
{
  static const struct
  {
    const char *name;
    void (*act) (struct scene *s, unsigned term);
  } cases[] = {
    { "a request", a_request },
    { "children", children },
    { "pruned children", pruned_children },
    { "a finalizer", a_finalizer },
  };
  struct scene s;

  (void) state;
  set_up (&s);
  assert_int_not_equal (s.past, s.now);
  for (size_t i = 0; i < ARRAY_LEN (cases); i++)
    {
      atomic_store (&s.requests, 0);
      cases[i].act (&s, s.past);
      if (atomic_load (&s.requests) != 0)
        fail_msg ("%s: sent for a term that is over", cases[i].name);
      cases[i].act (&s, s.now);
      if (atomic_load (&s.requests) == 0)
        fail_msg ("%s: not sent", cases[i].name);
    }
  tear_down (&s);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (nothing_is_sent_for_a_term_that_is_over),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
