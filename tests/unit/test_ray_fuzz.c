/* Manifests with members of wrong types, of hostile texts, missing or doubled: nothing may crash, and a cluster that
 * ray_validate passes must build into objects an API server takes. The seeds are fixed: a failure repeats. */
#include "test_ray.h"

#include "ray/teardown.h"

#define ROUNDS 4000
#define MUTATIONS_MAX 4
#define TEN "aaaaaaaaaa"
#define LONG_TEXT "\"" TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN "\""

static uint64_t random_state;

static uint64_t
random_below (uint64_t n)
{
  random_state = text_hash (random_state, &n, sizeof (n));
  return n > 0 ? random_state % n : 0;
}

static size_t
count_nodes (const cJSON *v)
{
  size_t n = 1;
  const cJSON *item;

  cJSON_ArrayForEach (item, v)
    n += count_nodes (item);
  return n;
}

/* The node at position *index below v in document order, with its parent. */
static cJSON *
find_node (cJSON *v, size_t *index, cJSON **parent)
{
  cJSON *item;

  cJSON_ArrayForEach (item, v)
    {
      cJSON *found;

      *parent = v;
      if ((*index)-- == 0)
        return item;
      found = find_node (item, index, parent);
      if (found != NULL)
        return found;
    }
  return NULL;
}

static cJSON *
random_value (void)
{
  static const char *const values[] = {
    "null",
    "true",
    "false",
    "0",
    "-1",
    "1",
    "2",
    "1.5",
    "2147483648",
    "1e300",
    "\"\"",
    "\"x\"",
    "\"4x\"",
    "\"2x2x2\"",
    "\"99999999x99999999\"",
    "\"-4\"",
    "\"1e9999\"",
    "\"%s%n\"",
    "\"a\\u0000b\"",
    "\"'; ray start\"",
    "[]",
    "{}",
    "[null]",
    "[[]]",
    "[{}]",
    "{\"name\":\"x\"}",
    "[{\"name\":\"x\"},{\"name\":\"x\"}]",
    "{\"\":\"\"}",
    "{\"a/b\":1}",
    "{\"limits\":{\"google.com/tpu\":\"4\"}}",
    LONG_TEXT,
  };
  cJSON *v = cJSON_Parse (values[random_below (ARRAY_LEN (values))]);

  assert_non_null (v);
  return v;
}

static void
mutate (cJSON *object)
{
  size_t index = random_below (count_nodes (object) - 1);
  cJSON *parent = object, *node = find_node (object, &index, &parent);

  assert_non_null (node);
  switch (random_below (4))
    {
    case 0:
      cJSON_Delete (cJSON_DetachItemViaPointer (parent, node));
      break;
    case 1: /* its value elsewhere in the document */
      if (cJSON_IsArray (parent))
        json_push (parent, cJSON_Duplicate (node, true));
      else
        cJSON_AddItemToObject (parent, node->string, cJSON_Duplicate (node, true));
      break;
    default:
      {
        cJSON *value = random_value ();

        if (cJSON_IsObject (parent))
          value->string = xstrdup (node->string);
        cJSON_ReplaceItemViaPointer (parent, node, value);
      }
    }
}

/* What was made is ours, and in need of no repair; whatever is found under its name, the repair mends all there is to.
 */
static void
build_children (const struct ray_cluster *cluster)
{
  cleanup_children struct ray_children children = { 0 };

  ray_children_make (&children, cluster, &ray_default_options);
  for (size_t i = 0; i < children.count; i++)
    {
      const struct ray_child *child = &children.items[i];
      cleanup_json cJSON *first = NULL, *second = NULL, *broken = cJSON_Duplicate (child->object, true);

      assert_no_nulls (child->object);
      assert_true (*ray_child_name (child) != '\0');
      if (child->kind != RAY_CHILD_SERVICE)
        first = ray_child_repair (child, child->object);
      assert_null (first);
      mutate (broken);
      free (ray_child_complaint (child, broken));
      second = ray_child_repair (child, broken);
    }
}

static void
build_job (const struct ray_cluster *cluster, bool valid)
{
  cleanup_json cJSON *job = NULL;
  int ret = ray_build_redis_cleanup_job (&job, cluster, &ray_default_options, NULL);

  if (valid)
    assert_int_equal (ret, 0);
  assert_int_equal (ret == 0, job != NULL);
}

/* A group of ten thousand hosts is built like one of three. */
static void
build_all (const struct ray_cluster *cluster, bool valid)
{
  cleanup_json cJSON *head = ray_build_head_service (cluster, &ray_default_options);
  cleanup_json cJSON *headless = ray_build_headless_service (cluster, &ray_default_options);

  assert_no_nulls (head);
  assert_no_nulls (headless);
  if (valid)
    assert_service_postable (head);
  build_children (cluster);
  build_job (cluster, valid);
  for (size_t g = 0; g <= cluster->ngroups; g++)
    {
      const struct ray_group *group = g == 0 ? &cluster->head : &cluster->groups[g - 1];
      struct ray_identity identity = { .name = "pod", .replica_name = "replica", .host_index = group->hosts - 1 };
      struct error err = { 0 };
      cleanup_json cJSON *pod = NULL;
      cleanup_free char *text = NULL;
      int ret = ray_build_pod (&pod, cluster, group, &identity, &ray_default_options, &err);

      if (valid && ret < 0)
        fail_msg ("a valid cluster does not build: %s", err.message);
      assert_true (ret == 0 ? pod != NULL : pod == NULL && *err.message != '\0');
      if (pod == NULL)
        continue;
      text = json_print (pod);
      assert_no_nulls (pod);
      if (valid)
        {
          assert_unique (json_get (pod, "spec", "containers"), "name");
          assert_unique (json_get (pod, "spec", "volumes"), "name");
          assert_unique (json_get (ray_container_of (pod), "ports"), "name");
        }
    }
}

static void
test_mutated_manifests (void **state)
{
  static const char *const names[]
      = { "tutorial_a_v6e_4x4.yaml", "tutorial_a_tpu7x_2x2x2.yaml", "raycluster_v4_multihost.yaml", "children.yaml" };
  int valid_seen = 0, invalid_seen = 0;

  (void) state;
  for (int round = 0; round < ROUNDS; round++)
    {
      struct scene base = scene_fixture (names[round % (int) ARRAY_LEN (names)]);
      cleanup_json cJSON *object = base.object;
      struct ray_cluster cluster;
      cleanup_problems struct ray_problems problems = { 0 };
      cleanup_free char *text = NULL;

      ray_cluster_free (&base.cluster);
      random_state = (uint64_t) round;
      for (uint64_t n = 1 + random_below (MUTATIONS_MAX); n > 0; n--)
        mutate (object);
      if (ray_cluster_decode (&cluster, object, NULL, NULL) < 0)
        continue;
      ray_validate (&cluster, &ray_default_options, &problems);
      text = ray_problems_text (&problems);
      build_all (&cluster, problems.count == 0);
      *(problems.count == 0 ? &valid_seen : &invalid_seen) += 1;
      ray_warnings (&cluster, &ray_default_options, &problems);
      ray_cluster_free (&cluster);
    }
  /* Both sides of the property were tried. */
  assert_true (valid_seen > ROUNDS / 20);
  assert_true (invalid_seen > ROUNDS / 20);
}

int
main (void)
{
  const struct CMUnitTest tests[] = { cmocka_unit_test (test_mutated_manifests) };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
