"""Pods that come and go: scaling, losses, deletion. Slices are made, replaced and removed whole, and at no moment are
two live Pods the same host of the same slice: watch_pods records and checks every moment."""

import pytest

from cluster import wait_until
from ray_cluster import (
    REPLICA_NAME,
    RayCluster,
    assert_whole_slices,
    is_live,
    labels_of,
    place,
    raycluster,
    slices,
    tpu_group,
    uids,
    watch_pods,
)

SLICE = "v6e"


@pytest.fixture
def controller(cluster, namespace, start_operator):
    """The webhook has no part in this; without it there is less to start."""
    return start_operator(cluster, webhook=False, watch_namespaces=[namespace])


def create(cluster, ns, *groups):
    ray = RayCluster.create(cluster, ns, raycluster("ray", *(groups or [tpu_group(SLICE)])))
    ray.wait_pods(workers=sum(g["replicas"] * g["numOfHosts"] for g in groups) if groups else 4)
    return ray


def replica_names(workers):
    return {key: name for key, (name, _) in slices(workers).items()}


def host(workers, replica, index):
    """The name of one host's Pod."""
    return next(p["metadata"]["name"] for p in workers if place(p)[1:] == (replica, index))


def test_scaling_up_adds_whole_slices_and_scaling_down_takes_whole_ones(cluster, namespace, controller):
    with watch_pods(cluster, namespace) as history:
        ray = create(cluster, namespace)
        ray.run()
        first = uids(ray.workers())

        ray.scale(3)
        workers = ray.wait_pods(workers=12)
        assert_whole_slices(workers, {(SLICE, i): 4 for i in range(3)})
        assert uids(workers)[:4] == first, "the slice that is there stays"
        assert not history.deleted()
        ray.run()

        ray.scale(1)
        workers = ray.wait_pods(workers=4)
        assert uids(workers) == first, "the newest go first"
        ray.wait_status("one slice", state="ready", desiredWorkerReplicas=4, readyWorkerReplicas=4)

        ray.scale(0)
        ray.wait_pods(workers=0)
        ray.wait_status("only the head", state="ready", desiredWorkerReplicas=0)


def test_scaling_down_takes_first_what_is_least_use(cluster, namespace, controller):
    """Slices that are not ready go before ready ones, whatever their index."""
    with watch_pods(cluster, namespace):
        ray = create(cluster, namespace, tpu_group(SLICE, replicas=3))
        ray.run()
        cluster.set_pod_status(namespace, host(ray.workers(), 0, 2), ready=False)
        ray.wait_status("one host is not ready", readyWorkerReplicas=11)
        ray.scale(2)
        assert_whole_slices(ray.wait_pods(workers=8), {(SLICE, 1): 4, (SLICE, 2): 4})


@pytest.mark.parametrize("lost", [0, 3], ids=["first-host", "last-host"])
def test_3552_a_slice_that_loses_a_host_is_replaced_whole(cluster, namespace, controller, lost):
    with watch_pods(cluster, namespace):
        ray = create(cluster, namespace, tpu_group(SLICE, replicas=2))
        ray.run()
        before, heads = ray.workers(), uids(ray.heads())
        cluster.delete("pods", host(before, 0, lost), namespace)

        wait_until(lambda: not set(uids(before)[:4]) & set(uids(ray.workers())), "the old slice goes")
        after = ray.wait_pods(workers=8)
        assert_whole_slices(after, {(SLICE, 0): 4, (SLICE, 1): 4})
        assert uids(after)[4:] == uids(before)[4:], "the other slice is not touched"
        assert uids(ray.heads()) == heads
        assert replica_names(after)[SLICE, 0] != replica_names(before)[SLICE, 0]
        ray.run()


def test_a_slice_that_loses_several_hosts_at_once_is_replaced_once(cluster, namespace, controller):
    with watch_pods(cluster, namespace) as history:
        ray = create(cluster, namespace)
        ray.run()
        before = ray.workers()
        for index in (0, 1, 3):
            cluster.delete("pods", host(before, 0, index), namespace)
        wait_until(lambda: not set(uids(before)) & set(uids(ray.workers())), "the old slice goes")
        after = ray.wait_pods(workers=4)
        ray.run()
        assert uids(ray.workers()) == uids(after)
        history.catch_up()
        names = {labels_of(p).get(REPLICA_NAME) for pods in history.moments() for p in pods.values()} - {None}
        assert names == {*replica_names(before).values(), *replica_names(after).values()}


def test_a_slice_is_not_begun_anew_while_its_old_hosts_stop(cluster, namespace, controller):
    """On a node Pods take their time to go; their host names stay theirs until then."""
    with watch_pods(cluster, namespace):
        ray = create(cluster, namespace)
        before = ray.workers()
        for pod in before:
            cluster.bind_pod(namespace, pod["metadata"]["name"])
        ray.run()
        cluster.delete("pods", host(before, 0, 1), namespace)
        wait_until(lambda: not ray.workers(), "the rest of the slice is told to go")
        stopping = [p for p in ray.workers(live=False) if not is_live(p)]
        assert sorted(uids(stopping)) == sorted(uids(before)), "nothing took their place"
        ray.wait_status("no worker", state=None, availableWorkerReplicas=0, readyWorkerReplicas=0)

        cluster.finish_deletions(namespace)
        after = ray.wait_pods(workers=4)
        assert_whole_slices(after, {(SLICE, 0): 4})
        assert replica_names(after) != replica_names(before)


def test_a_lost_head_is_replaced_and_the_workers_stay(cluster, namespace, controller):
    with watch_pods(cluster, namespace):
        ray = create(cluster, namespace)
        ray.run()
        (old,), workers = ray.heads(), uids(ray.workers())
        cluster.delete("pods", old["metadata"]["name"], namespace)
        wait_until(lambda: ray.heads() and uids(ray.heads()) != uids([old]), "another head")
        assert uids(ray.wait_pods(workers=4)) == workers
        (new,) = ray.heads()
        status = ray.run()
        assert status["head"]["podName"] == new["metadata"]["name"]


def test_single_host_workers_are_replaced_one_by_one(cluster, namespace, controller):
    with watch_pods(cluster, namespace):
        ray = create(cluster, namespace, tpu_group("single", topology="2x2", hosts=1, replicas=3))
        ray.run()
        before = ray.workers()
        assert [place(p) for p in before] == [("single", i, 0) for i in range(3)]
        cluster.delete("pods", before[1]["metadata"]["name"], namespace)
        wait_until(lambda: len(ray.workers()) == 3 and uids(ray.workers()) != uids(before), "another worker")
        after = ray.wait_pods(workers=3)
        assert [place(p) for p in after] == [place(p) for p in before]
        assert (uids(after)[0], uids(after)[2]) == (uids(before)[0], uids(before)[2])


def test_workers_the_autoscaler_names_go_with_their_slice(cluster, namespace, controller):
    with watch_pods(cluster, namespace):
        ray = create(cluster, namespace, tpu_group(SLICE, replicas=3))
        ray.run()
        before = ray.workers()
        # What the Ray autoscaler sends: both in one patch.
        path = cluster.api.resource("rayclusters.ray.io").path(namespace, ray.name)
        group = "/spec/workerGroupSpecs/0"
        patch = [
            {"op": "replace", "path": f"{group}/replicas", "value": 2},
            {"op": "add", "path": f"{group}/scaleStrategy", "value": {"workersToDelete": [host(before, 1, 2)]}},
        ]
        cluster.api.patch(path, patch, "application/json-patch+json")
        after = ray.wait_pods(workers=8)
        assert uids(after) == uids(before)[:4] + uids(before)[8:]
        stored = ray.get()["spec"]["workerGroupSpecs"][0]["scaleStrategy"]["workersToDelete"]
        assert stored == [host(before, 1, 2)], "the autoscaler takes the names back itself"


def test_groups_do_not_mind_each_other(cluster, namespace, controller):
    with watch_pods(cluster, namespace):
        ray = create(cluster, namespace, tpu_group("a"), tpu_group("b", topology="4x8", hosts=8))
        ray.run()
        b = [p for p in ray.workers() if place(p)[0] == "b"]
        ray.scale(2, group=0)
        assert_whole_slices(ray.wait_pods(workers=16), {("a", 0): 4, ("a", 1): 4, ("b", 0): 8})
        ray.scale(0, group=0)
        workers = ray.wait_pods(workers=8)
        assert uids(workers) == uids(b)
        assert_whole_slices(workers, {("b", 0): 8})


@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
def test_a_deleted_raycluster_takes_everything_with_it(cluster, namespace, controller, propagation):
    with watch_pods(cluster, namespace):
        ray = create(cluster, namespace)
        ray.run()
        other = RayCluster.create(cluster, namespace, raycluster("other", tpu_group()))
        kept = uids(other.wait_pods(workers=4))

        ray.delete(propagation=propagation)
        wait_until(lambda: not ray.pods(live=False) and not ray.services(), "no orphan is left", timeout=60)
        wait_until(lambda: not cluster.exists("raycluster", ray.name, namespace), "the RayCluster is gone")
        assert uids(other.wait_pods(workers=4)) == kept

        again = RayCluster.create(cluster, namespace, raycluster("ray", tpu_group(SLICE)))
        assert_whole_slices(again.wait_pods(workers=4), {(SLICE, 0): 4})
        again.run()


def test_pods_left_without_an_owner_are_not_doubled(cluster, namespace, controller):
    with watch_pods(cluster, namespace):
        ray = create(cluster, namespace)
        ray.run()
        left, services = uids(ray.pods()), ray.services()
        ray.delete(propagation="Orphan")
        wait_until(lambda: not cluster.exists("raycluster", ray.name, namespace), "the RayCluster is gone")
        for service in services:
            cluster.delete("services", service, namespace)

        again = RayCluster.create(cluster, namespace, raycluster("ray", tpu_group(SLICE)))
        again.wait_event("OrphanedPodInTheWay", "no controller owner", "kubectl delete pod")
        again.wait_condition("ReplicaFailure", status="True", reason="FailedCreateHeadPod")
        assert uids(again.pods(live=False)) == left, "nothing is made beside them, and they are left alone"

        for pod in again.pods():
            cluster.delete("pods", pod["metadata"]["name"], namespace, grace=0)
        assert_whole_slices(again.wait_pods(workers=4), {(SLICE, 0): 4})
        again.wait_condition("ReplicaFailure")


def test_the_check_of_every_moment_notices_two_pods_in_one_place(cluster, namespace):
    """No operator: this is about watch_pods, on which this file stands."""
    labels = {
        "ray.io/cluster": "ray",
        "ray.io/node-type": "worker",
        "ray.io/group": "g",
        "ray.io/worker-group-replica-index": "0",
        "ray.io/replica-host-index": "1",
    }
    spec = {"containers": [{"name": "c", "image": "c"}]}
    with pytest.raises(AssertionError, match=r"one and two are both ray \('g', 0, 1\)"):
        with watch_pods(cluster, namespace):
            for name in ("one", "two"):
                pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": spec}
                cluster.create(pod, namespace)
            cluster.delete("pods", "one", namespace)
