"""The operator dies or is stopped while it makes 64 hosts, or runs twice without knowing: the slice ends complete,
every host once, and nothing that was made already is thrown away."""

import pytest

from cluster import wait_until
from ray_cluster import RayCluster, assert_whole_slices, raycluster, slices, tpu_group, uids, watch_pods

HOSTS = 64
SLICE = "v6e-256"
# Slow enough for a kill to come in the middle: 64 Pods take most of a second.
SLOWLY = ("--kube-api-qps=80", "--kube-api-burst=4")


def apply(cluster, ns, name="big", replicas=1):
    """The manifest, without waiting for anything."""
    return RayCluster.create(cluster, ns, raycluster(name, tpu_group(SLICE, "16x16", HOSTS, replicas=replicas)))


def seen(watch, kind):
    return sum(1 for event, _ in watch.history() if event == kind)


def wait_seen(watch, kind, count, meanwhile=lambda: None):
    """Until that many Pods have been seen ADDED or DELETED, looking closely: the kill is to come right then.

    The API server deletes in two steps, and when a client dies between the two a Pod stays that is being deleted. A
    control plane's pod garbage collector, which is off here, ends it; meanwhile() plays it.
    """

    def reached():
        meanwhile()
        return seen(watch, kind) >= count

    wait_until(reached, f"{count} Pods {kind}", timeout=60, interval=0.002)


@pytest.mark.parametrize("kill_at", [0, 1, 30, 60])
def test_a_restart_completes_what_a_kill_left(cluster, namespace, start_operator, kill_at):
    operator = start_operator(cluster, *SLOWLY, webhook=False, watch_namespaces=[namespace])
    with watch_pods(cluster, namespace) as history, cluster.watch("pods", namespace) as watch:
        ray = apply(cluster, namespace)
        wait_seen(watch, "ADDED", kill_at)
        operator.kill9()
        left = uids(ray.workers())

        operator.start()
        workers = ray.wait_pods(workers=HOSTS)
        assert_whole_slices(workers, {(SLICE, 0): HOSTS})
        assert set(left) <= set(uids(workers))
        assert not history.deleted()


@pytest.mark.parametrize("stop_at", [1, 30])
def test_a_clean_stop_in_the_middle_of_a_pass_is_one(cluster, namespace, start_operator, stop_at):
    operator = start_operator(cluster, *SLOWLY, webhook=False, watch_namespaces=[namespace])
    with watch_pods(cluster, namespace) as history, cluster.watch("pods", namespace) as watch:
        ray = apply(cluster, namespace)
        wait_seen(watch, "ADDED", stop_at)
        # Asserts its exit code and, with a sanitizer, what that has to say.
        operator.terminate()
        operator.start()
        assert_whole_slices(ray.wait_pods(workers=HOSTS), {(SLICE, 0): HOSTS})
        assert not history.deleted()


def test_any_number_of_kills_does_no_harm(cluster, namespace, start_operator):
    operator = start_operator(cluster, *SLOWLY, webhook=False, watch_namespaces=[namespace])
    with watch_pods(cluster, namespace) as history, cluster.watch("pods", namespace) as watch:
        ray = apply(cluster, namespace)
        for count in range(5, HOSTS, 12):
            wait_seen(watch, "ADDED", count)
            operator.kill9()
            operator.start()
        assert_whole_slices(ray.wait_pods(workers=HOSTS), {(SLICE, 0): HOSTS})
        assert not history.deleted()


def test_kills_while_a_slice_is_replaced_do_no_harm(cluster, namespace, start_operator):
    operator = start_operator(cluster, *SLOWLY, webhook=False, watch_namespaces=[namespace])
    with watch_pods(cluster, namespace), cluster.watch("pods", namespace) as watch:
        ray = apply(cluster, namespace)
        before = ray.wait_pods(workers=HOSTS)
        ray.run()
        cluster.delete("pods", before[7]["metadata"]["name"], namespace)
        for kind, count in (("DELETED", 10), ("DELETED", 40), ("ADDED", 1 + HOSTS + 20)):
            wait_seen(watch, kind, count, meanwhile=lambda: cluster.finish_deletions(namespace))
            operator.kill9()
            operator.start()

        after = ray.wait_pods(workers=HOSTS)
        assert_whole_slices(after, {(SLICE, 0): HOSTS})
        assert not set(uids(before)) & set(uids(after))
        assert slices(after)[SLICE, 0][0] != slices(before)[SLICE, 0][0]
        # One replacement, not two: every Pod ever made is one of the first or one of the last.
        assert seen(watch, "ADDED") == 1 + 2 * HOSTS


@pytest.mark.complaint(704)
def test_715_two_operators_at_once_make_each_pod_once(cluster, namespace, start_operator):
    """Neither knows of the other, as when both believe to be the leader for a while."""
    for _ in range(2):
        start_operator(cluster, webhook=False, watch_namespaces=[namespace], leader_elect=False)
    with watch_pods(cluster, namespace) as history:
        ray = apply(cluster, namespace)
        workers = ray.wait_pods(workers=HOSTS)
        assert_whole_slices(workers, {(SLICE, 0): HOSTS})
        assert not history.deleted()
        ray.run()

        cluster.delete("pods", workers[20]["metadata"]["name"], namespace)
        wait_until(lambda: not set(uids(workers)) & set(uids(ray.workers())), "the old slice goes", timeout=60)
        assert_whole_slices(ray.wait_pods(workers=HOSTS), {(SLICE, 0): HOSTS})
