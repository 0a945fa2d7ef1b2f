/* The planner: what is done next about what exists. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "plan_world.h"
#include "ray/plan_internal.h"

static const char two_groups[]
    = "apiVersion: ray.io/v1\n"
      "kind: RayCluster\n"
      "metadata: {name: c, namespace: default}\n"
      "spec:\n"
      "  headGroupSpec: {template: {spec: {containers: [{name: h}]}}}\n"
      "  workerGroupSpecs:\n"
      "  - {groupName: tpu, replicas: 1, numOfHosts: 4, template: {spec: {containers: [{name: w}]}}}\n"
      "  - {groupName: cpu, replicas: 2, template: {spec: {containers: [{name: w}]}}}\n";

static cJSON *
group_spec (struct world *w, int i)
{
  return cJSON_GetArrayItem (json_get (w->object, "spec", "workerGroupSpecs"), i);
}

static void
scale (struct world *w, int group, int replicas)
{
  json_set_int (group_spec (w, group), "replicas", replicas);
}

static void
test_new_cluster_gets_everything_in_order (void **state)
{
  struct world w;
  char first_replica[RAY_NAME_SIZE] = "";
  size_t tpu = 0;

  (void) state;
  world_init (&w, two_groups);
  world_plan (&w);
  assert_int_equal (w.plan.nops, 1 + 4 + 2);
  assert_true (w.plan.ops[0].group->is_head);
  for (size_t i = 1; i < w.plan.nops; i++)
    {
      const struct ray_op *op = &w.plan.ops[i];

      if (strcmp (op->group->name, "tpu") != 0)
        continue;
      if (tpu == 0)
        snprintf (first_replica, sizeof (first_replica), "%s", op->identity.replica_name);
      assert_int_equal (op->identity.host_index, tpu++);
      assert_int_equal (op->identity.replica_index, 0);
      assert_string_equal (op->identity.replica_name, first_replica);
      assert_true (text_starts_with (op->identity.name, "c-tpu-worker-"));
      assert_int_equal (strlen (op->identity.name), strlen ("c-tpu-worker-xxxxx"));
    }
  assert_int_equal (tpu, 4);
  assert_true (text_starts_with (first_replica, "tpu-"));
  world_free (&w);
}

static void
test_names_are_the_same_every_time_and_differ_between_clusters (void **state)
{
  struct world a, b, other;

  (void) state;
  world_init (&a, two_groups);
  world_init (&b, two_groups);
  world_init (&other, two_groups);
  json_set_str (json_obj (other.object, "metadata"), "uid", "uid-2");
  world_plan (&a);
  world_plan (&b);
  world_plan (&other);
  for (size_t i = 2; i < a.plan.nops; i++)
    {
      assert_string_equal (a.plan.ops[i].identity.name, b.plan.ops[i].identity.name);
      assert_string_not_equal (a.plan.ops[i].identity.name, other.plan.ops[i].identity.name);
    }
  world_free (&a);
  world_free (&b);
  world_free (&other);
}

static bool
fails_after (void *data, const struct ray_op *op)
{
  int *left = data;

  return op->kind == RAY_OP_CREATE_POD && (*left)-- <= 0;
}

static void
test_forming_slice_is_completed_not_torn_down (void **state)
{
  struct world w;
  int creates = 3; /* head and two of four hosts */

  (void) state;
  world_init (&w, two_groups);
  world_plan (&w);
  world_apply (&w, fails_after, &creates);
  assert_int_equal (world_count (&w, "tpu"), 2);
  world_plan (&w);
  assert_int_equal (world_ops (&w, RAY_OP_DELETE_POD), 0);
  assert_int_equal (world_ops (&w, RAY_OP_CREATE_POD), 2 + 2);
  assert_string_equal (w.plan.ops[1].identity.replica_name, world_find (&w, "tpu", 0, 0)->replica_name);
  world_settle (&w);
  assert_int_equal (world_count (&w, "tpu"), 4);
  assert_string_equal (world_ledger (&w), "headgroup=0c;tpu=0c;cpu=0c,0c");
  world_free (&w);
}

static void
test_lost_host_replaces_the_whole_slice_under_new_names (void **state)
{
  struct world w;
  char old_name[RAY_NAME_SIZE];

  (void) state;
  world_init (&w, two_groups);
  world_settle (&w);
  snprintf (old_name, sizeof (old_name), "%s", world_find (&w, "tpu", 0, 0)->replica_name);
  for (size_t i = 0; i < w.npods; i++)
    if (w.pods[i] == world_find (&w, "tpu", 0, 2))
      world_delete (&w, i);
  world_plan (&w);
  assert_int_equal (world_ops (&w, RAY_OP_DELETE_POD), 3);
  assert_int_equal (world_ops (&w, RAY_OP_CREATE_POD), 0); /* the index is taken until all are gone */
  assert_int_equal (w.plan.ops[0].kind, RAY_OP_WRITE_LEDGER);
  world_apply (&w, NULL, NULL);
  world_plan (&w);
  assert_int_equal (w.plan.nops, 0);
  assert_true (w.plan.requeue_ms > 0);
  world_settle (&w);
  assert_int_equal (world_count (&w, "tpu"), 4);
  assert_string_not_equal (world_find (&w, "tpu", 0, 0)->replica_name, old_name);
  assert_string_equal (world_ledger (&w), "headgroup=0c;tpu=1c;cpu=0c,0c");
  world_free (&w);
}

static void
test_host_that_vanished_unseen_breaks_a_complete_slice_after_a_restart (void **state)
{
  struct world w;

  (void) state;
  world_init (&w, two_groups);
  world_settle (&w);
  for (size_t i = 0; i < w.npods; i++)
    if (w.pods[i] == world_find (&w, "tpu", 0, 1))
      world_vanish (&w, i);
  world_plan (&w);
  assert_int_equal (world_ops (&w, RAY_OP_DELETE_POD), 3);
  world_settle (&w);
  assert_int_equal (world_count (&w, "tpu"), 4);
  world_free (&w);
}

static bool
fails_after_one_delete (void *data, const struct ray_op *op)
{
  int *left = data;

  return op->kind == RAY_OP_DELETE_POD && (*left)-- <= 0;
}

/* The ledger speaks of the successor already; the hosts that are left must not pass for a slice that is forming. */
static void
test_slice_on_its_way_out_is_not_completed_after_a_restart (void **state)
{
  struct world w;
  int deletes = 1;

  (void) state;
  world_init (&w, two_groups);
  world_settle (&w);
  for (size_t i = 0; i < w.npods; i++)
    if (w.pods[i] == world_find (&w, "tpu", 0, 1))
      world_vanish (&w, i);
  world_plan (&w);
  world_apply (&w, fails_after_one_delete, &deletes);
  world_reap (&w);
  assert_string_equal (world_ledger (&w), "headgroup=0c;tpu=1;cpu=0c,0c");
  assert_int_equal (world_count (&w, "tpu"), 2);
  world_plan (&w);
  assert_int_equal (world_ops (&w, RAY_OP_CREATE_POD), 0);
  assert_int_equal (world_ops (&w, RAY_OP_DELETE_POD), 2);
  world_settle (&w);
  assert_int_equal (world_count (&w, "tpu"), 4);
  assert_string_equal (world_ledger (&w), "headgroup=0c;tpu=1c;cpu=0c,0c");
  world_free (&w);
}

static void
test_pods_stuck_terminating_give_up_their_index_after_the_timeout (void **state)
{
  struct world w;

  (void) state;
  world_init (&w, two_groups);
  world_settle (&w);
  for (size_t i = 0; i < w.npods; i++)
    if (strcmp (w.pods[i]->group, "tpu") == 0)
      world_delete (&w, i);
  world_plan (&w);
  world_apply (&w, NULL, NULL);
  assert_int_equal (world_count (&w, "tpu"), 0);
  w.now_ms += 30000 + ray_default_plan_options.terminating_timeout_ms - 1;
  world_plan (&w);
  assert_int_equal (world_ops (&w, RAY_OP_CREATE_POD), 0);
  assert_int_equal (w.plan.requeue_ms, 1);
  w.now_ms += 1;
  world_plan (&w);
  assert_int_equal (world_ops (&w, RAY_OP_CREATE_POD), 4);
  world_apply (&w, NULL, NULL);
  assert_non_null (world_find (&w, "tpu", 1, 3)); /* index 0 is still worn by the dead */
  world_settle (&w);
  assert_int_equal (world_count (&w, "tpu"), 4);
  world_free (&w);
}

static void
test_scaling_keeps_indices_dense_and_takes_the_highest_first (void **state)
{
  struct world w;

  (void) state;
  world_init (&w, two_groups);
  world_settle (&w);
  world_run_all (&w);
  scale (&w, 0, 3);
  world_settle (&w);
  world_run_all (&w);
  assert_int_equal (world_count (&w, "tpu"), 12);
  assert_string_equal (world_ledger (&w), "headgroup=0c;tpu=0c,0c,0c;cpu=0c,0c");
  scale (&w, 0, 1);
  world_settle (&w);
  assert_int_equal (world_count (&w, "tpu"), 4);
  assert_non_null (world_find (&w, "tpu", 0, 0));
  scale (&w, 0, 2);
  world_settle (&w);
  assert_non_null (world_find (&w, "tpu", 1, 0));
  world_free (&w);
}

static void
test_victims_are_those_that_are_least_ready (void **state)
{
  struct world w;

  (void) state;
  world_init (&w, two_groups);
  scale (&w, 0, 3);
  world_settle (&w);
  world_run_all (&w);
  world_find (&w, "tpu", 0, 2)->ready = false;
  scale (&w, 0, 2);
  world_settle (&w);
  assert_null (world_find (&w, "tpu", 0, 0));
  assert_int_equal (world_count (&w, "tpu"), 8);
  world_free (&w);
}

static void
test_one_named_worker_takes_its_slice_and_its_name_does_not_return (void **state)
{
  struct world w;
  cJSON *list;
  char name[RAY_NAME_SIZE];

  (void) state;
  world_init (&w, two_groups);
  scale (&w, 0, 2);
  world_settle (&w);
  snprintf (name, sizeof (name), "%s", world_find (&w, "tpu", 0, 3)->name);
  list = json_arr (json_obj (group_spec (&w, 0), "scaleStrategy"), "workersToDelete");
  json_push_str (list, name);
  json_push_str (list, "some-other-pod");
  world_plan (&w);
  assert_int_equal (world_ops (&w, RAY_OP_DELETE_POD), 4);
  world_settle (&w);
  assert_int_equal (world_count (&w, "tpu"), 8);
  for (size_t i = 0; i < w.npods; i++)
    assert_string_not_equal (w.pods[i]->name, name);
  /* A ledger that was lost must not bring the name back either. */
  json_drop (json_get (w.object, "metadata"), "annotations");
  for (size_t i = w.npods; i-- > 0;)
    world_vanish (&w, i);
  world_settle (&w);
  for (size_t i = 0; i < w.npods; i++)
    assert_string_not_equal (w.pods[i]->name, name);
  world_free (&w);
}

static void
test_with_autoscaling_only_named_workers_go (void **state)
{
  struct world w;

  (void) state;
  world_init (&w, two_groups);
  scale (&w, 0, 2);
  world_settle (&w);
  json_set_bool (json_obj (w.object, "spec"), "enableInTreeAutoscaling", true);
  scale (&w, 0, 1);
  world_plan (&w);
  assert_int_equal (w.plan.nops, 0);
  world_free (&w);
}

/* The RayCluster was deleted and made again: the pods are those of its predecessor. */
static void
succeed (struct world *w)
{
  json_set_str (json_obj (w->object, "metadata"), "uid", "uid-of-a-new-cluster");
  json_drop (json_get (w->object, "metadata"), "annotations");
}

static void
test_foreign_pods_are_left_alone_and_not_counted (void **state)
{
  struct world w;

  (void) state;
  world_init (&w, two_groups);
  world_settle (&w);
  succeed (&w);
  for (size_t i = 0; i < w.npods; i++)
    w.pods[i]->cluster_owned = false; /* of a ReplicaSet, say */
  for (int terminating = 0; terminating <= 1; terminating++)
    {
      world_plan (&w);
      assert_int_equal (world_ops (&w, RAY_OP_DELETE_POD), 0);
      assert_int_equal (world_ops (&w, RAY_OP_CREATE_POD), 7);
      for (size_t i = 0; i < w.npods; i++)
        world_delete (&w, i);
    }
  world_free (&w);
}

/* Their host names are the same, whether the garbage collector has come to them yet or not. */
static void
test_pods_of_a_predecessor_hold_their_index (void **state)
{
  struct world w;
  size_t gone = 0;

  (void) state;
  world_init (&w, two_groups);
  world_settle (&w);
  succeed (&w);
  world_plan (&w);
  assert_int_equal (w.plan.nops, 0);
  assert_int_equal (w.plan.requeue_ms, 0);
  while (w.pods[gone] != world_find (&w, "cpu", 0, -1))
    gone++;
  world_vanish (&w, gone);
  world_plan (&w);
  assert_int_equal (world_ops (&w, RAY_OP_DELETE_POD), 0);
  assert_int_equal (world_ops (&w, RAY_OP_CREATE_POD), 1);
  assert_string_equal (w.plan.ops[0].group->name, "cpu");
  assert_int_equal (w.plan.ops[0].identity.replica_index, 0);
  for (size_t i = 0; i < w.npods; i++)
    world_delete (&w, i); /* the garbage collector is at work */
  world_plan (&w);
  assert_int_equal (world_ops (&w, RAY_OP_CREATE_POD), 1);
  assert_int_equal (w.plan.requeue_ms, 30000 + ray_default_plan_options.terminating_timeout_ms);
  w.now_ms += w.plan.requeue_ms;
  world_plan (&w);
  assert_int_equal (world_ops (&w, RAY_OP_CREATE_POD), 7);
  world_free (&w);
}

/* kubectl delete --cascade=orphan, and the cluster applied again: nobody owns the old pods, and their names are those
 * that the new ones would have. */
static void
test_orphans_hold_their_index_and_are_told (void **state)
{
  struct world w;

  (void) state;
  world_init (&w, two_groups);
  world_settle (&w);
  succeed (&w);
  for (size_t i = 0; i < w.npods; i++)
    {
      w.pods[i]->cluster_owned = false;
      w.pods[i]->owner_uid = "";
    }
  world_plan (&w);
  assert_int_equal (w.plan.nops, 0);
  assert_int_equal (w.plan.norphans, w.npods);
  assert_string_equal (w.plan.orphan->node_type, "head");
  assert_true (w.plan.orphan_group->is_head);
  for (size_t i = w.npods; i-- > 0;)
    if (strcmp (w.pods[i]->group, "cpu") == 0 || strcmp (w.pods[i]->node_type, "head") == 0)
      world_vanish (&w, i); /* the user deletes them, as told */
  world_plan (&w);
  assert_int_equal (world_ops (&w, RAY_OP_DELETE_POD), 0);
  assert_int_equal (world_ops (&w, RAY_OP_CREATE_POD), 3);
  assert_string_equal (w.plan.orphan->group, "tpu");
  for (size_t i = 0; i < w.npods; i++)
    world_delete (&w, i);
  w.now_ms += 30000 + ray_default_plan_options.terminating_timeout_ms;
  world_plan (&w); /* on a dead node they hold nothing up for ever */
  assert_int_equal (world_ops (&w, RAY_OP_CREATE_POD), 7);
  assert_null (w.plan.orphan);
  world_free (&w);
}

/* More indices are taken than one plan makes pods: nothing is to be done, and that is not found out again and again. */
static void
test_many_pods_of_a_predecessor_are_waited_for_without_haste (void **state)
{
  struct world w;

  (void) state;
  world_init (&w, two_groups);
  scale (&w, 0, 0);
  scale (&w, 1, 1500);
  world_settle (&w);
  assert_int_equal (world_count (&w, "cpu"), 1500);
  succeed (&w);
  world_plan (&w);
  assert_int_equal (w.plan.nops, 0);
  assert_int_equal (w.plan.requeue_ms, 0);
  world_free (&w);
}

static void
test_group_that_left_the_spec_is_drained (void **state)
{
  struct world w;

  (void) state;
  world_init (&w, two_groups);
  world_settle (&w);
  cJSON_DeleteItemFromArray (json_get (w.object, "spec", "workerGroupSpecs"), 0);
  world_settle (&w);
  assert_int_equal (world_count (&w, "tpu"), 0);
  assert_int_equal (world_count (&w, "cpu"), 2);
  assert_string_equal (world_ledger (&w), "headgroup=0c;cpu=0c,0c");
  world_free (&w);
}

/* A host of the slice goes while its group is out of the spec: the slice is replaced, not completed. */
static void
test_a_group_that_comes_back_knows_what_was_complete (void **state)
{
  struct world w;
  cJSON *group, *groups;
  size_t victim = 0;

  (void) state;
  world_init (&w, two_groups);
  world_settle (&w);
  groups = json_get (w.object, "spec", "workerGroupSpecs");
  group = cJSON_DetachItemFromArray (groups, 0);
  world_plan (&w);
  assert_int_equal (world_ops (&w, RAY_OP_DELETE_POD), 4);
  assert_int_equal (world_ops (&w, RAY_OP_WRITE_LEDGER), 0);
  while (w.pods[victim] != world_find (&w, "tpu", 0, 2))
    victim++;
  world_vanish (&w, victim); /* one deletion has come through, the others have not */
  cJSON_InsertItemInArray (groups, 0, group);
  world_plan (&w);
  assert_int_equal (world_ops (&w, RAY_OP_DELETE_POD), 3);
  assert_int_equal (world_ops (&w, RAY_OP_CREATE_POD), 0);
  world_settle (&w);
  assert_string_equal (world_ledger (&w), "headgroup=0c;tpu=1c;cpu=0c,0c");
  world_free (&w);
}

static void
test_changed_number_of_hosts_replaces_the_slice (void **state)
{
  static const int changes[] = { 2, 8, 1 };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (changes); i++)
    {
      struct world w;

      world_init (&w, two_groups);
      world_settle (&w);
      json_set_int (group_spec (&w, 0), "numOfHosts", changes[i]);
      world_settle (&w);
      assert_int_equal (world_count (&w, "tpu"), changes[i]);
      world_free (&w);
    }
}

/* Two pods with an index each and no replica name are no slice of two hosts: they know nothing of each other. */
static void
test_single_pods_are_replaced_when_their_group_gets_hosts (void **state)
{
  struct world w;

  (void) state;
  world_init (&w, two_groups);
  world_settle (&w);
  json_set_int (group_spec (&w, 1), "numOfHosts", 2);
  world_plan (&w);
  assert_int_equal (world_ops (&w, RAY_OP_DELETE_POD), 2);
  world_settle (&w);
  assert_int_equal (world_count (&w, "cpu"), 2 * 2);
  assert_non_null (world_find (&w, "cpu", 1, 1));
  world_free (&w);
}

/* A world whose TPU pods are of KubeRay before 1.6. */
static void
world_init_unlabelled (struct world *w, int slices)
{
  world_init (w, two_groups);
  scale (w, 0, slices);
  world_settle (w);
  for (size_t i = 0; i < w->npods; i++)
    if (strcmp (w->pods[i]->group, "tpu") == 0)
      {
        w->pods[i]->replica_name = "";
        w->pods[i]->replica_index = w->pods[i]->host_index = -1;
      }
}

static void
test_unlabelled_pods_of_old_kuberay_count_as_slices (void **state)
{
  struct world w;

  (void) state;
  world_init_unlabelled (&w, 1);
  world_plan (&w);
  assert_int_equal (w.plan.nops, 0);
  world_free (&w);
}

/* Of a slice that is deleted one pod goes before the others: those must not make a set with the pods that stay. */
static void
test_unlabelled_pods_stay_while_others_go_one_by_one (void **state)
{
  struct world w;

  (void) state;
  world_init_unlabelled (&w, 2);
  scale (&w, 0, 1);
  world_plan (&w);
  assert_int_equal (world_ops (&w, RAY_OP_DELETE_POD), 4);
  world_apply (&w, NULL, NULL);
  for (size_t left = 4; left > 0; left--)
    {
      for (size_t i = 0; i < w.npods; i++)
        if (w.pods[i]->deletion_ms != 0)
          {
            world_vanish (&w, i);
            break;
          }
      world_plan (&w);
      assert_int_equal (world_ops (&w, RAY_OP_DELETE_POD) + world_ops (&w, RAY_OP_CREATE_POD), 0);
    }
  assert_int_equal (world_count (&w, "tpu"), 4);
  world_free (&w);
}

static cJSON *
head_container (struct world *w)
{
  return cJSON_GetArrayItem (json_get (w->object, "spec", "headGroupSpec", "template", "spec", "containers"), 0);
}

static void
recreate_on_change (struct world *w)
{
  json_set_str (json_obj (json_obj (w->object, "spec"), "upgradeStrategy"), "type", "Recreate");
}

static void
test_recreate_replaces_all_pods_the_head_last (void **state)
{
  struct world w;

  (void) state;
  world_init (&w, two_groups);
  recreate_on_change (&w);
  world_settle (&w);
  world_plan (&w);
  assert_int_equal (w.plan.nops, 0);
  json_set_str (head_container (&w), "image", "newer");
  world_plan (&w);
  assert_int_equal (world_ops (&w, RAY_OP_DELETE_POD), 6);
  assert_int_equal (w.plan.nops, 6);
  world_apply (&w, NULL, NULL);
  assert_int_equal (world_count (&w, RAY_HEAD_GROUP), 1);
  world_plan (&w);
  assert_int_equal (w.plan.nops, 1);
  assert_string_equal (w.plan.ops[0].pod->node_type, "head");
  world_settle (&w);
  assert_int_equal (world_count (&w, RAY_HEAD_GROUP), 1);
  assert_int_equal (world_count (&w, "tpu"), 4);
  assert_int_equal (world_count (&w, "cpu"), 2);
  world_plan (&w);
  assert_int_equal (w.plan.nops, 0);
  world_free (&w);
}

/* The head was lost between the change and the plan that would have known it by the head. */
static void
test_old_workers_are_recreated_although_the_head_was_lost (void **state)
{
  struct world w;
  size_t head = 0;

  (void) state;
  world_init (&w, two_groups);
  recreate_on_change (&w);
  world_settle (&w);
  while (strcmp (w.pods[head]->node_type, "head") != 0)
    head++;
  world_vanish (&w, head);
  json_set_str (json_get (group_spec (&w, 0), "template", "spec", "containers")->child, "image", "newer");
  world_plan (&w);
  assert_int_equal (world_ops (&w, RAY_OP_DELETE_POD), 4); /* the other group was not changed */
  assert_int_equal (world_ops (&w, RAY_OP_CREATE_POD), 0);
  world_settle (&w);
  assert_int_equal (world_count (&w, "tpu"), 4);
  assert_int_equal (world_count (&w, RAY_HEAD_GROUP), 1);
  for (size_t i = 0; i < w.npods; i++)
    if (strcmp (w.pods[i]->group, "tpu") == 0)
      assert_true (w.pods[i]->template_hash == ray_template_hash (&w.cluster.groups[0]));
  world_free (&w);
}

/* Scaling, suspending and what Kueue adds change nothing; nor does any change without the strategy. */
static void
test_what_does_not_recreate (void **state)
{
  struct world w;
  cJSON *spec;

  (void) state;
  world_init (&w, two_groups);
  recreate_on_change (&w);
  world_settle (&w);
  spec = json_get (group_spec (&w, 1), "template", "spec");
  scale (&w, 1, 1);
  json_set_int (group_spec (&w, 1), "maxReplicas", 9);
  json_push_str (json_arr (json_obj (group_spec (&w, 1), "scaleStrategy"), "workersToDelete"), "nobody");
  json_set_str (json_push_obj (json_arr (spec, "tolerations")), "key", "k");
  json_set_str (json_push_obj (json_arr (spec, "schedulingGates")), "name", "g");
  json_set_bool (json_get (w.object, "spec"), "suspend", false);
  json_set (json_get (w.object, "spec"), "authOptions", cJSON_CreateNull ());
  world_plan (&w);
  assert_int_equal (world_ops (&w, RAY_OP_DELETE_POD), 1); /* the scale down */
  world_settle (&w);
  json_drop (json_get (w.object, "spec"), "upgradeStrategy");
  json_set_str (head_container (&w), "image", "newer");
  world_plan (&w);
  assert_int_equal (w.plan.nops, 0);
  world_free (&w);
}

/* Taken over from KubeRay: its hash says nothing, so no pod goes; ours is written, and counts for the next change. */
static void
test_a_foreign_hash_is_replaced_not_compared (void **state)
{
  struct world w;

  (void) state;
  world_init (&w, two_groups);
  recreate_on_change (&w);
  world_settle (&w);
  for (size_t i = 0; i < w.npods; i++)
    w.pods[i]->recreate_hash = "0OKJ2PGEV4V3A6P0";
  world_plan (&w);
  assert_int_equal (w.plan.nops, 1);
  assert_int_equal (w.plan.ops[0].kind, RAY_OP_STAMP_HEAD);
  world_settle (&w);
  assert_int_equal (world_ops (&w, RAY_OP_DELETE_POD), 0);
  json_set_str (head_container (&w), "image", "newer");
  world_plan (&w);
  assert_int_equal (world_ops (&w, RAY_OP_DELETE_POD), 6);
  world_free (&w);
}

static void
test_held_creations (void **state)
{
  struct world w;

  (void) state;
  world_init (&w, two_groups);
  world_plan (&w);
  ray_plan_hold (&w.plan, false);
  assert_int_equal (world_ops (&w, RAY_OP_CREATE_POD), 6);
  for (size_t i = 0; i < w.plan.nops; i++)
    assert_false (w.plan.ops[i].group->is_head);
  ray_plan_hold (&w.plan, true);
  assert_int_equal (world_ops (&w, RAY_OP_CREATE_POD), 0);
  world_free (&w);
}

static void
test_dead_pods_are_replaced (void **state)
{
  struct world w;
  char old_head[RAY_NAME_SIZE], old_worker[RAY_NAME_SIZE];

  (void) state;
  world_init (&w, two_groups);
  world_settle (&w);
  snprintf (old_head, sizeof (old_head), "%s", world_find (&w, RAY_HEAD_GROUP, -1, -1)->name);
  snprintf (old_worker, sizeof (old_worker), "%s", world_find (&w, "cpu", 1, -1)->name);
  world_find (&w, RAY_HEAD_GROUP, -1, -1)->dead = true;
  world_find (&w, "cpu", 1, -1)->dead = true;
  world_plan (&w);
  assert_int_equal (world_ops (&w, RAY_OP_DELETE_POD), 2);
  assert_int_equal (world_ops (&w, RAY_OP_CREATE_POD), 0);
  world_settle (&w);
  assert_int_equal (world_count (&w, RAY_HEAD_GROUP), 1);
  assert_int_equal (world_count (&w, "cpu"), 2);
  assert_string_not_equal (world_find (&w, RAY_HEAD_GROUP, -1, -1)->name, old_head);
  assert_string_not_equal (world_find (&w, "cpu", 1, -1)->name, old_worker);
  world_free (&w);
}

static void
test_pods_that_vanished_unseen_come_back_under_other_names (void **state)
{
  struct world w;
  char head[RAY_NAME_SIZE], worker[RAY_NAME_SIZE];

  (void) state;
  world_init (&w, two_groups);
  world_settle (&w);
  snprintf (head, sizeof (head), "%s", world_find (&w, RAY_HEAD_GROUP, -1, -1)->name);
  snprintf (worker, sizeof (worker), "%s", world_find (&w, "cpu", 1, -1)->name);
  for (size_t i = w.npods; i-- > 0;)
    if (strcmp (w.pods[i]->name, head) == 0 || strcmp (w.pods[i]->name, worker) == 0)
      world_vanish (&w, i);
  world_settle (&w);
  assert_string_not_equal (world_find (&w, RAY_HEAD_GROUP, -1, -1)->name, head);
  assert_string_not_equal (world_find (&w, "cpu", 1, -1)->name, worker);
  world_free (&w);
}

/* Made and gone before a plan could write them down. The hosts of a slice that begins anew are among them. */
static void
test_pods_that_came_and_went_between_two_plans_do_not_come_back (void **state)
{
  struct world w;
  char names[7][RAY_NAME_SIZE];
  const char *gone[7];

  (void) state;
  world_init (&w, two_groups);
  world_plan (&w);
  assert_int_equal (w.plan.nops, ARRAY_LEN (names));
  for (size_t i = 0; i < w.plan.nops; i++)
    gone[i] = memcpy (names[i], w.plan.ops[i].identity.name, RAY_NAME_SIZE);
  w.gone = gone;
  w.ngone = ARRAY_LEN (gone);
  world_plan (&w);
  assert_string_equal (w.plan.ledger, "headgroup=1;tpu=1;cpu=1,1");
  for (size_t i = 0; i < w.plan.nops; i++)
    for (size_t k = 0; k < ARRAY_LEN (names); k++)
      assert_string_not_equal (w.plan.ops[i].identity.name, names[k]);
  world_settle (&w);
  assert_int_equal (world_count (&w, "tpu"), 4);
  world_free (&w);
}

/* {cluster}-head is the name of every head, so that it may come back. */
static void
test_a_fixed_head_name_may_come_back_at_once (void **state)
{
  static const char *gone[] = { "c-head" };
  struct world w;

  (void) state;
  world_init (&w, two_groups);
  w.options.fixed_head_name = true;
  w.gone = gone;
  w.ngone = 1;
  world_plan (&w);
  assert_string_equal (w.plan.ops[0].identity.name, "c-head");
  world_free (&w);
}

/* Other people's pods had the first names, so that it wears the last. */
static void
test_a_pod_is_known_by_every_name_it_may_have (void **state)
{
  struct world w;
  struct ray_op *op;

  (void) state;
  world_init (&w, two_groups);
  json_set_str (json_obj (json_obj (w.object, "metadata"), "annotations"), RAY_ANNOTATION_SLICES, "cpu=,1");
  world_plan (&w);
  op = &w.plan.ops[w.plan.nops - 1];
  assert_int_equal (op->identity.replica_index, 1);
  ray_op_rename (op, &w.cluster, RAY_NAME_ATTEMPTS - 1);
  world_apply (&w, NULL, NULL);
  world_plan (&w);
  assert_string_equal (w.plan.ledger, "cpu=0c,1c;headgroup=0c;tpu=0c");
  world_free (&w);
}

static void
test_the_head_goes_first (void **state)
{
  struct world w;

  (void) state;
  world_init (&w, two_groups);
  world_plan (&w);
  assert_true (w.plan.ops[0].group->is_head);
  assert_true (w.plan.ops[0].stage < w.plan.ops[1].stage);
  world_free (&w);
}

static void
test_head_stuck_terminating_is_replaced_after_the_timeout (void **state)
{
  struct world w;

  (void) state;
  world_init (&w, two_groups);
  world_settle (&w);
  for (size_t i = 0; i < w.npods; i++)
    if (strcmp (w.pods[i]->node_type, "head") == 0)
      world_delete (&w, i);
  world_plan (&w);
  assert_int_equal (world_ops (&w, RAY_OP_CREATE_POD), 0);
  world_apply (&w, NULL, NULL);
  w.now_ms += 60000;
  world_plan (&w);
  assert_int_equal (world_ops (&w, RAY_OP_CREATE_POD), 1);
  world_apply (&w, NULL, NULL);
  world_plan (&w); /* the new head is written down */
  world_apply (&w, NULL, NULL);
  world_plan (&w);
  assert_int_equal (w.plan.nops, 0);
  assert_int_equal (world_count (&w, RAY_HEAD_GROUP), 1);
  world_free (&w);
}

/* Only once it was provisioned, and only when the head is lost, not a worker. */
static void
test_a_head_that_must_not_come_back_does_not (void **state)
{
  struct world w;
  cJSON *condition;
  size_t head = 0;

  (void) state;
  world_init (&w, two_groups);
  json_set_str (json_obj (json_obj (w.object, "metadata"), "annotations"), RAY_ANNOTATION_NO_HEAD_RESTART, "true");
  world_settle (&w);
  condition = json_push_obj (json_arr (json_obj (w.object, "status"), "conditions"));
  json_set_str (condition, "type", "RayClusterProvisioned");
  json_set_str (condition, "status", "True");
  for (size_t i = 0; i < w.npods; i++)
    if (w.pods[i] == world_find (&w, "tpu", 0, 1))
      world_vanish (&w, i);
  world_settle (&w);
  assert_int_equal (world_count (&w, "tpu"), 4);
  while (strcmp (w.pods[head]->node_type, "head") != 0)
    head++;
  world_vanish (&w, head);
  scale (&w, 0, 3);
  world_plan (&w);
  assert_int_equal (w.plan.nops, 0);
  json_set_str (condition, "status", "False");
  world_settle (&w);
  assert_int_equal (world_count (&w, RAY_HEAD_GROUP), 1);
  assert_int_equal (world_count (&w, "tpu"), 12);
  world_free (&w);
}

static void
test_suspension_deletes_all_and_makes_none (void **state)
{
  struct world w;
  cJSON *conditions, *condition;

  (void) state;
  world_init (&w, two_groups);
  world_settle (&w);
  json_set_bool (json_obj (w.object, "spec"), "suspend", true);
  world_plan (&w);
  assert_int_equal (w.plan.nops, 0); /* until the condition says so */
  conditions = json_arr (json_obj (w.object, "status"), "conditions");
  condition = json_push_obj (conditions);
  json_set_str (condition, "type", "RayClusterSuspending");
  json_set_str (condition, "status", "True");
  json_drop (json_obj (w.object, "spec"), "suspend"); /* changing one's mind half-way does not stop it */
  world_plan (&w);
  assert_int_equal (world_ops (&w, RAY_OP_DELETE_POD), 7);
  assert_int_equal (world_ops (&w, RAY_OP_CREATE_POD), 0);
  world_apply (&w, NULL, NULL);
  world_reap (&w);
  json_set_str (condition, "type", "RayClusterSuspended");
  world_plan (&w);
  assert_int_equal (w.plan.nops, 0);
  json_set_str (condition, "status", "False");
  world_settle (&w);
  assert_int_equal (world_count (&w, "tpu"), 4);
  world_free (&w);
}

static void
test_twins_are_reduced_to_the_better_one_without_end (void **state)
{
  struct world w;
  size_t n;

  (void) state;
  world_init (&w, two_groups);
  scale (&w, 0, 2);
  world_settle (&w);
  n = w.npods;
  for (size_t i = 0; i < n; i++) /* what two overlapping controllers could have left */
    if (strcmp (w.pods[i]->group, "tpu") == 0 && w.pods[i]->replica_index == 1)
      w.pods[i]->replica_index = 0;
  world_plan (&w);
  assert_int_equal (world_ops (&w, RAY_OP_DELETE_POD), 4);
  world_apply (&w, NULL, NULL);
  world_plan (&w); /* the slice that took index 1 is whole now */
  world_apply (&w, NULL, NULL);
  world_plan (&w);
  assert_int_equal (w.plan.nops, 0); /* nothing is written while they terminate */
  world_settle (&w);
  assert_int_equal (world_count (&w, "tpu"), 8);
  world_free (&w);
}

/* ---- reasons, which events and logs give ---- */

static void
no_group (struct world *w)
{
  for (size_t i = 0; i < w->npods; i++)
    if (strcmp (w->pods[i]->group, "cpu") == 0)
      w->pods[i]->group = "";
}

static void
second_head (struct world *w)
{
  for (size_t i = 0; i < w->npods; i++)
    if (strcmp (w->pods[i]->group, "cpu") == 0 && w->pods[i]->replica_index == 0)
      {
        w->pods[i]->group = RAY_HEAD_GROUP;
        w->pods[i]->node_type = "head";
      }
}

static void
twin_pods (struct world *w)
{
  for (size_t i = 0; i < w->npods; i++)
    if (strcmp (w->pods[i]->group, "cpu") == 0)
      w->pods[i]->replica_index = 0;
}

static void
fewer (struct world *w)
{
  scale (w, 1, 1);
}

static void
suspended (struct world *w)
{
  json_set_bool (group_spec (w, 1), "suspend", true);
}

static void
test_deletions_say_why (void **state)
{
  static const struct
  {
    void (*change) (struct world *w);
    const char *why;
  } cases[] = {
    { no_group, "it has no label ray.io/group, so no worker group counts it" },
    { second_head, "another head Pod is there already, and a cluster has one" },
    { twin_pods, "another Pod has the same replica index" },
    { fewer, "scale down" },
    { suspended, "its worker group is suspended" },
  };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (cases); i++)
    {
      struct world w;
      size_t deleted = 0;

      world_init (&w, two_groups);
      world_settle (&w);
      cases[i].change (&w);
      world_plan (&w);
      for (size_t k = 0; k < w.plan.nops; k++)
        if (w.plan.ops[k].kind == RAY_OP_DELETE_POD)
          {
            assert_string_equal (w.plan.ops[k].why, cases[i].why);
            deleted++;
          }
      assert_in_range (deleted, 1, 2);
      world_free (&w);
    }
}

static void
test_absurd_replicas_make_a_bounded_plan (void **state)
{
  struct world w;

  (void) state;
  world_init (&w, two_groups);
  scale (&w, 0, 2000000000);
  scale (&w, 1, 2000000000);
  world_plan (&w);
  assert_true (w.plan.nops > 100 && w.plan.nops < 2000);
  assert_int_equal (w.plan.requeue_ms, 1);
  world_free (&w);
}

static void
test_clusters_that_are_not_ours_to_touch_get_no_plan (void **state)
{
  struct world w;

  (void) state;
  world_init (&w, two_groups);
  json_set_str (json_obj (w.object, "spec"), "managedBy", "kueue.x-k8s.io/multikueue");
  world_plan (&w);
  assert_int_equal (w.plan.nops, 0);
  json_drop (json_obj (w.object, "spec"), "managedBy");
  json_set_str (json_obj (w.object, "metadata"), "deletionTimestamp", "2026-01-01T00:00:00Z");
  world_plan (&w);
  assert_int_equal (w.plan.nops, 0);
  world_free (&w);
}

/* What was cut off is missing in the next plan's eyes, too, which must not write the same text for that. */
static void
test_a_ledger_that_is_full_is_not_written_for_ever (void **state)
{
  static const char *const groups[] = { "headgroup", "tpu", "cpu" };
  struct world w;
  struct buf full = { 0 };
  cleanup_free char *text = NULL;

  (void) state;
  world_init (&w, two_groups);
  scale (&w, 1, 100);
  world_settle (&w);
  for (size_t i = 0; i < w.npods; i++)
    if (strcmp (w.pods[i]->group, "cpu") == 0)
      w.pods[i]->replica_index = 90000 + 10 * w.pods[i]->replica_index;
  for (size_t g = 0; g < ARRAY_LEN (groups); g++)
    {
      buf_printf (&full, "%s%s=0c", g ? ";" : "", groups[g]);
      for (int i = 0; i < RAY_LEDGER_MAX / 24; i++)
        buf_printf (&full, ",%dc", 1000000000 + i);
    }
  text = buf_take (&full);
  json_set_str (json_obj (json_obj (w.object, "metadata"), "annotations"), RAY_ANNOTATION_SLICES, text);
  world_settle (&w);
  assert_true (strlen (world_ledger (&w)) <= RAY_LEDGER_MAX);
  world_free (&w);
}

/* The annotation is anybody's to write who may edit the cluster. */
static void
test_a_ledger_of_nonsense_is_dropped_and_told_once (void **state)
{
  static const char *const texts[] = { "nonsense", "cpu=5:1,3:2", "cpu=1;cpu=2", "cpu=1*999999999" };
  struct world w;

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (texts); i++)
    {
      world_init (&w, two_groups);
      json_set_str (json_obj (json_obj (w.object, "metadata"), "annotations"), RAY_ANNOTATION_SLICES, texts[i]);
      world_plan (&w);
      assert_true (w.plan.ledger_unsound);
      assert_int_equal (world_ops (&w, RAY_OP_WRITE_LEDGER), 1);
      world_apply (&w, NULL, NULL);
      world_plan (&w);
      assert_false (w.plan.ledger_unsound);
      world_settle (&w);
      world_free (&w);
    }
}

/* Nothing that a spec says makes a plan longer than this; what is begun is completed plan by plan. */
#define PLAN_MAX 1024

static void
test_a_slice_larger_than_a_plan_comes_in_parts (void **state)
{
  struct world w;

  (void) state;
  world_init (&w, two_groups);
  json_set_int (group_spec (&w, 0), "numOfHosts", 100000); /* no validation would pass it */
  world_plan (&w);
  assert_int_equal (world_ops (&w, RAY_OP_CREATE_POD), PLAN_MAX);
  assert_int_equal (w.plan.requeue_ms, 1);
  world_apply (&w, NULL, NULL);
  world_plan (&w); /* the slice is forming now */
  assert_int_equal (world_ops (&w, RAY_OP_CREATE_POD), PLAN_MAX);
  assert_int_equal (w.plan.requeue_ms, 1);
  json_set_int (group_spec (&w, 0), "numOfHosts", 2500);
  world_settle (&w);
  assert_int_equal (world_count (&w, "tpu"), 2500);
  assert_int_equal (world_count (&w, "cpu"), 2);
  assert_string_equal (world_ledger (&w), "headgroup=0c;tpu=0c;cpu=0c,0c");
  world_free (&w);
}

static void
test_many_forming_slices_do_not_make_a_plan_longer (void **state)
{
  struct world w;

  (void) state;
  world_init (&w, two_groups);
  json_set_int (group_spec (&w, 0), "numOfHosts", 600);
  scale (&w, 0, 5);
  for (int round = 0; round < 5; round++)
    {
      world_plan (&w);
      assert_true (world_ops (&w, RAY_OP_CREATE_POD) <= PLAN_MAX);
      world_apply (&w, NULL, NULL);
      for (size_t i = w.npods; i-- > 0;)
        if (i % 3 == 0 && strcmp (w.pods[i]->group, "tpu") == 0)
          world_vanish (&w, i); /* before its slice was complete */
    }
  world_settle (&w);
  assert_int_equal (world_count (&w, "tpu"), 3000);
  world_free (&w);
}

/* Names of incarnations to come can be worked out and listed by the hundred. */
static void
test_a_list_of_future_names_only_delays (void **state)
{
  struct world w;
  cJSON *list;

  (void) state;
  world_init (&w, two_groups);
  scale (&w, 0, 0);
  scale (&w, 1, 1);
  list = json_arr (json_obj (group_spec (&w, 1), "scaleStrategy"), "workersToDelete");
  for (int i = 0; i < 50000; i++)
    json_push_str (list, "nobody");
  for (int incarnation = 0; incarnation < 64; incarnation++)
    {
      world_plan (&w);
      for (size_t i = 0; i < w.plan.nops; i++)
        if (w.plan.ops[i].kind == RAY_OP_CREATE_POD && !w.plan.ops[i].group->is_head)
          json_push_str (list, w.plan.ops[i].identity.name);
    }
  world_plan (&w);
  assert_int_equal (world_ops (&w, RAY_OP_CREATE_POD), 1); /* the head */
  assert_int_equal (w.plan.requeue_ms, 1);
  world_settle (&w);
  assert_int_equal (world_count (&w, "cpu"), 1);
  assert_string_equal (world_ledger (&w), "cpu=64c;headgroup=0c");
  world_free (&w);
}

/* ---- random histories ---- */

static uint32_t
next_random (uint64_t *seed)
{
  *seed = *seed * 6364136223846793005ULL + 1442695040888963407ULL;
  return (uint32_t) (*seed >> 33);
}

static bool
fails_sometimes (void *data, const struct ray_op *op)
{
  (void) op;
  return next_random (data) % 5 == 0;
}

static void
disturb (struct world *w, uint64_t *seed)
{
  size_t victim = w->npods ? next_random (seed) % w->npods : 0;

  switch (next_random (seed) % 8)
    {
    case 0:
      scale (w, 0, (int) (next_random (seed) % 4));
      break;
    case 1:
      if (w->npods)
        world_delete (w, victim);
      break;
    case 2:
      if (w->npods)
        world_vanish (w, victim);
      break;
    case 3:
      world_reap (w);
      break;
    case 4:
      if (w->npods)
        w->pods[victim]->dead = true;
      break;
    case 5:
      w->now_ms += next_random (seed) % 90000;
      break;
    default:
      break;
    }
}

static void
test_random_histories_keep_the_invariants_and_come_to_rest (void **state)
{
  (void) state;
  for (uint64_t history = 1; history <= 500; history++)
    {
      uint64_t seed = history;
      struct world w;

      world_init (&w, two_groups);
      for (int step = 0; step < 40; step++)
        {
          disturb (&w, &seed);
          world_plan (&w);
          world_apply (&w, fails_sometimes, &seed);
          world_check (&w);
        }
      world_settle (&w);
      assert_int_equal (world_count (&w, "tpu"), w.cluster.groups[0].replicas * 4);
      assert_int_equal (world_count (&w, "cpu"), 2);
      assert_int_equal (world_count (&w, RAY_HEAD_GROUP), 1);
      for (int64_t replica = 0; replica < w.cluster.groups[0].replicas; replica++)
        for (int64_t host = 0; host < 4; host++)
          if (world_find (&w, "tpu", replica, host) == NULL && world_find (&w, "tpu", -1, host) == NULL)
            fail_msg ("history %llu: host %lld is missing", (unsigned long long) history, (long long) host);
      world_free (&w);
    }
}

/* The head's name is {cluster}-head, for a successor too, but no pod that cannot go holds up the next by it. */
static void
test_fixed_head_name (void **state)
{
  struct world w;

  (void) state;
  world_init (&w, two_groups);
  w.options.fixed_head_name = true;
  world_settle (&w);
  assert_string_equal (world_find (&w, "headgroup", -1, -1)->name, "c-head");
  for (size_t i = 0; i < w.npods; i++)
    if (text_eq (w.pods[i]->name, "c-head"))
      world_delete (&w, i);
  world_plan (&w);
  assert_int_equal (world_ops (&w, RAY_OP_CREATE_POD), 0);
  world_reap (&w);
  world_settle (&w);
  assert_string_equal (world_find (&w, "headgroup", -1, -1)->name, "c-head");

  for (size_t i = 0; i < w.npods; i++)
    if (text_eq (w.pods[i]->name, "c-head"))
      world_delete (&w, i);
  w.now_ms += 30000 + w.options.terminating_timeout_ms;
  world_plan (&w);
  assert_int_equal (world_ops (&w, RAY_OP_CREATE_POD), 1);
  world_apply (&w, NULL, NULL);
  assert_true (text_starts_with (world_find (&w, "headgroup", -1, -1)->name, "c-head-"));
  world_free (&w);
}

static void
test_fixed_head_name_is_cut_as_upstream_does (void **state)
{
  struct ray_cluster cluster
      = { .name = "ray-cluster-0000000000000000000000011111111122222233333333333333", .head = { .is_head = true } };
  char name[RAY_NAME_SIZE];

  (void) state;
  ray_fixed_head_name (name, &cluster);
  assert_string_equal (name, "ray-cluster-00000000000000000000000111111111222222-head");
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_new_cluster_gets_everything_in_order),
    cmocka_unit_test (test_names_are_the_same_every_time_and_differ_between_clusters),
    cmocka_unit_test (test_forming_slice_is_completed_not_torn_down),
    cmocka_unit_test (test_lost_host_replaces_the_whole_slice_under_new_names),
    cmocka_unit_test (test_host_that_vanished_unseen_breaks_a_complete_slice_after_a_restart),
    cmocka_unit_test (test_slice_on_its_way_out_is_not_completed_after_a_restart),
    cmocka_unit_test (test_pods_stuck_terminating_give_up_their_index_after_the_timeout),
    cmocka_unit_test (test_scaling_keeps_indices_dense_and_takes_the_highest_first),
    cmocka_unit_test (test_victims_are_those_that_are_least_ready),
    cmocka_unit_test (test_one_named_worker_takes_its_slice_and_its_name_does_not_return),
    cmocka_unit_test (test_with_autoscaling_only_named_workers_go),
    cmocka_unit_test (test_foreign_pods_are_left_alone_and_not_counted),
    cmocka_unit_test (test_pods_of_a_predecessor_hold_their_index),
    cmocka_unit_test (test_orphans_hold_their_index_and_are_told),
    cmocka_unit_test (test_many_pods_of_a_predecessor_are_waited_for_without_haste),
    cmocka_unit_test (test_group_that_left_the_spec_is_drained),
    cmocka_unit_test (test_a_group_that_comes_back_knows_what_was_complete),
    cmocka_unit_test (test_changed_number_of_hosts_replaces_the_slice),
    cmocka_unit_test (test_single_pods_are_replaced_when_their_group_gets_hosts),
    cmocka_unit_test (test_unlabelled_pods_of_old_kuberay_count_as_slices),
    cmocka_unit_test (test_unlabelled_pods_stay_while_others_go_one_by_one),
    cmocka_unit_test (test_recreate_replaces_all_pods_the_head_last),
    cmocka_unit_test (test_old_workers_are_recreated_although_the_head_was_lost),
    cmocka_unit_test (test_what_does_not_recreate),
    cmocka_unit_test (test_a_foreign_hash_is_replaced_not_compared),
    cmocka_unit_test (test_held_creations),
    cmocka_unit_test (test_dead_pods_are_replaced),
    cmocka_unit_test (test_pods_that_vanished_unseen_come_back_under_other_names),
    cmocka_unit_test (test_pods_that_came_and_went_between_two_plans_do_not_come_back),
    cmocka_unit_test (test_a_fixed_head_name_may_come_back_at_once),
    cmocka_unit_test (test_a_pod_is_known_by_every_name_it_may_have),
    cmocka_unit_test (test_the_head_goes_first),
    cmocka_unit_test (test_head_stuck_terminating_is_replaced_after_the_timeout),
    cmocka_unit_test (test_fixed_head_name),
    cmocka_unit_test (test_fixed_head_name_is_cut_as_upstream_does),
    cmocka_unit_test (test_suspension_deletes_all_and_makes_none),
    cmocka_unit_test (test_a_head_that_must_not_come_back_does_not),
    cmocka_unit_test (test_twins_are_reduced_to_the_better_one_without_end),
    cmocka_unit_test (test_deletions_say_why),
    cmocka_unit_test (test_absurd_replicas_make_a_bounded_plan),
    cmocka_unit_test (test_clusters_that_are_not_ours_to_touch_get_no_plan),
    cmocka_unit_test (test_a_ledger_that_is_full_is_not_written_for_ever),
    cmocka_unit_test (test_a_ledger_of_nonsense_is_dropped_and_told_once),
    cmocka_unit_test (test_a_slice_larger_than_a_plan_comes_in_parts),
    cmocka_unit_test (test_many_forming_slices_do_not_make_a_plan_longer),
    cmocka_unit_test (test_a_list_of_future_names_only_delays),
    cmocka_unit_test (test_random_histories_keep_the_invariants_and_come_to_rest),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
