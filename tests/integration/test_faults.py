"""What goes wrong around the operator: quota, foreign objects, Pods that do not go, an API server that is not there."""

import datetime

import pytest

from cluster import wait_until
from kube_api import ApiError
from proxy import ProxiedCluster
from ray_cluster import (
    REPLICA_INDEX,
    RayCluster,
    assert_whole_slices,
    labels_of,
    raycluster,
    slices,
    tpu_group,
    uids,
    watch_pods,
)

RETRIES = "ray_tpu_operator_workqueue_retries_total"


@pytest.fixture
def controller(cluster, namespace, start_operator):
    return start_operator(cluster, webhook=False, watch_namespaces=[namespace])


def set_quota(cluster, ns, pods):
    """At most that many Pods; waits until the API server enforces it."""
    spec = {"hard": {"pods": str(pods)}}
    cluster.apply({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": spec}, ns)

    def enforced():
        return cluster.get_json("resourcequotas", "q", ns).get("status", {}).get("hard") == spec["hard"]

    wait_until(enforced, f"a quota of {pods} pods", timeout=60)


def half_a_slice(cluster, ns):
    """A RayCluster of one head and two of the four workers it should have: quota lets no more in."""
    ray = RayCluster.create(cluster, ns, raycluster("ray", tpu_group(replicas=0)))
    ray.wait_pods(workers=0)
    set_quota(cluster, ns, 3)
    ray.scale(1)
    ray.wait_pods(workers=2)
    return ray


@pytest.mark.complaint(639)
def test_4540_a_slice_that_quota_does_not_let_in_waits_and_is_not_torn_down(cluster, namespace, controller):
    with watch_pods(cluster, namespace) as history:
        ray = half_a_slice(cluster, namespace)
        condition = ray.wait_condition("ReplicaFailure", status="True", reason="FailedCreateWorkerPod")
        assert "a Pod of group v6e was not created: HTTP 403 Forbidden: pods" in condition["message"]
        assert "exceeded quota" in condition["message"]
        kind, _, note = ray.wait_event("FailedToCreateWorkerPod")
        assert (kind, "exceeded quota" in note) == ("Warning", True)

        partial = uids(ray.workers())
        retries = controller.metric(RETRIES)
        wait_until(lambda: controller.metric(RETRIES) >= retries + 3, "several retries", timeout=60)
        assert uids(ray.workers()) == partial
        assert controller.metric("ray_tpu_operator_pods_deleted_total") == 0

        set_quota(cluster, namespace, 10)
        workers = ray.wait_pods(workers=4, timeout=90)
        assert_whole_slices(workers, {("v6e", 0): 4})
        assert set(partial) <= set(uids(workers))
        assert not history.deleted()
        ray.wait_condition("ReplicaFailure")
        ray.run()


def test_a_slice_that_quota_keeps_out_does_not_hold_up_others(cluster, namespace, make_namespace, start_operator):
    other_namespace = make_namespace()
    # One worker, so that a RayCluster that hogged it would be noticed.
    start_operator(cluster, webhook=False, watch_namespaces=[namespace, other_namespace], workers=1)
    set_quota(cluster, namespace, 1)
    stuck = RayCluster.create(cluster, namespace, raycluster("stuck", tpu_group()))
    stuck.wait_condition("ReplicaFailure", status="True")
    ray = RayCluster.create(cluster, other_namespace, raycluster("ray", tpu_group()))
    ray.wait_pods(workers=4)
    ray.run()


def test_a_restart_does_not_make_a_waiting_slice_a_broken_one(cluster, namespace, controller):
    with watch_pods(cluster, namespace) as history:
        ray = half_a_slice(cluster, namespace)
        ray.wait_condition("ReplicaFailure", status="True")
        for kill in (controller.kill9, controller.terminate):
            kill()
            controller.start()
            wait_until(lambda: controller.metric(RETRIES) >= 2, "it has tried again", timeout=60)
        set_quota(cluster, namespace, 10)
        assert_whole_slices(ray.wait_pods(workers=4, timeout=90), {("v6e", 0): 4})
        assert not history.deleted()


def warned_at(operator, reason):
    """When the log told of it."""
    lines = (line.split(" ", 2) for line in operator.log().splitlines() if f"reason={reason}" in line)
    return [datetime.datetime.fromisoformat(at.rstrip("Z")) for at, *_ in lines]


def assert_patient(operator, reason):
    """What nobody but a user can mend is not complained of many times a second."""
    wait_until(lambda: len(warned_at(operator, reason)) >= 3, f"{reason} three times", timeout=60)
    told = warned_at(operator, reason)
    gaps = [(b - a).total_seconds() for a, b in zip(told, told[1:])]
    assert min(gaps) >= 1.9, gaps


def large_pod(name, size=1_450_000):
    """What etcd still takes; each of its < comes back as six bytes."""
    container = {"name": "c", "image": "i", "env": [{"name": "LARGE", "value": "<" * size}]}
    metadata = {"name": name, "labels": {"ray.io/cluster": "somebody-elses"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}


def test_one_pod_that_is_too_large_to_read_blinds_nobody_else(cluster, namespace, make_namespace, start_operator):
    other_namespace = make_namespace()
    operator = start_operator(cluster, webhook=False, watch_namespaces=[namespace, other_namespace])
    ray = RayCluster.create(cluster, namespace, raycluster("ray", tpu_group()))
    ray.wait_pods(workers=4)
    pods = f"/api/v1/namespaces/{other_namespace}/pods"
    cluster.api.post(pods, large_pod("large"))
    assert len(cluster.api.raw("GET", f"{pods}/large")[1]) > 8 << 20
    wait_until(lambda: "too large to be read" in operator.log(), "the Pod is told of")
    assert f"namespace={other_namespace} name=large" in operator.log()
    beside = RayCluster.create(cluster, other_namespace, raycluster("ray", tpu_group()))
    beside.wait_pods(workers=4)
    beside.run()

    operator.terminate()
    operator.start()  # now it is in the first list
    ray.scale(2)
    beside.scale(2)
    ray.wait_pods(workers=8)
    beside.wait_pods(workers=8)
    assert operator.metric("ray_tpu_operator_cache_stale_seconds") == 0


@pytest.mark.parametrize("service", ["ray-headless", "ray-head-svc"])
def test_a_foreign_service_of_our_name_is_told_and_left_alone(cluster, namespace, controller, service):
    spec = {"selector": {"app": "somebody-elses"}, "ports": [{"port": 80}]}
    foreign = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": service}, "spec": spec}
    before = cluster.create(foreign, namespace)

    ray = RayCluster.create(cluster, namespace, raycluster("ray", tpu_group()))
    condition = ray.wait_condition("ReplicaFailure", status="True", reason="FailedCreateService")
    kind, _, note = ray.wait_event("FailedToCreateService")
    assert kind == "Warning"
    for word in (f"{namespace}/{service}", "does not belong to this RayCluster", "delete or rename it"):
        assert word in condition["message"]
        assert word in note
    assert_patient(controller, "FailedToCreateService")
    other = RayCluster.create(cluster, namespace, raycluster("other", tpu_group()))
    other.wait_pods(workers=4)
    other.wait_condition("ReplicaFailure")
    after = cluster.get_json("services", service, namespace)
    assert (after["spec"], after["metadata"].get("ownerReferences")) == (before["spec"], None)
    assert not ray.pods(live=False), "workers whose names nobody can look up would be of no use"

    cluster.delete("services", service, namespace)
    ray.wait_pods(workers=4, timeout=90)
    assert sorted(ray.services()) == ["ray-head-svc", "ray-headless"]
    ray.wait_condition("ReplicaFailure")


def test_a_service_that_somebody_deletes_comes_back(cluster, namespace, controller):
    ray = RayCluster.create(cluster, namespace, raycluster("ray", tpu_group()))
    ray.wait_pods(workers=4)
    before = {name: s["metadata"]["uid"] for name, s in ray.services().items()}
    for name in before:
        cluster.delete("services", name, namespace)

    def back():
        after = {name: s["metadata"]["uid"] for name, s in ray.services().items()}
        return after.keys() == before.keys() and not set(after.values()) & set(before.values())

    wait_until(back, "both Services again")


def test_a_pod_that_does_not_go_holds_its_place_only_for_a_bounded_time(cluster, namespace, start_operator):
    start_operator(cluster, "--terminating-timeout=1s", webhook=False, watch_namespaces=[namespace])
    with watch_pods(cluster, namespace):
        ray = RayCluster.create(cluster, namespace, raycluster("ray", tpu_group()))
        before = ray.wait_pods(workers=4)
        ray.run()
        stuck = before[2]["metadata"]["name"]
        cluster.patch("pods", stuck, {"metadata": {"finalizers": ["example.org/stuck"]}}, namespace)
        cluster.delete("pods", stuck, namespace)

        def replaced():
            live = ray.workers()
            return len(live) == 4 and not set(uids(live)) & set(uids(before))

        wait_until(replaced, "another slice although one of its Pods is still there", timeout=60)
        after = ray.workers()
        assert_whole_slices(after, {("v6e", 1): 4})
        (rest,) = [p for p in ray.workers(live=False) if p["metadata"]["uid"] in uids(before)]
        assert (rest["metadata"]["name"], labels_of(rest)[REPLICA_INDEX]) == (stuck, "0")
        ray.run()

        cluster.patch("pods", stuck, {"metadata": {"finalizers": None}}, namespace)
        assert uids(ray.wait_pods(workers=4)) == uids(after), "the slice that runs stays"


@pytest.mark.complaint(139)
def test_1141_a_head_that_does_not_go_is_replaced_after_a_bounded_time(cluster, namespace, start_operator):
    start_operator(cluster, "--terminating-timeout=1s", webhook=False, watch_namespaces=[namespace])
    with watch_pods(cluster, namespace):
        ray = RayCluster.create(cluster, namespace, raycluster("ray", tpu_group()))
        workers = uids(ray.wait_pods(workers=4))
        (head,) = ray.heads()
        stuck = head["metadata"]["name"]
        cluster.patch("pods", stuck, {"metadata": {"finalizers": ["example.org/stuck"]}}, namespace)
        cluster.delete("pods", stuck, namespace)
        wait_until(lambda: ray.heads(), "another head although the old one is still there", timeout=60)
        assert uids(ray.workers()) == workers
        cluster.patch("pods", stuck, {"metadata": {"finalizers": None}}, namespace)
        ray.wait_pods(workers=4)
        ray.run()


def test_what_happens_while_the_api_server_is_away_is_caught_up(cluster, namespace, start_operator, tmp_path):
    proxied = ProxiedCluster(cluster, tmp_path)
    proxied.proxy.open()
    operator = start_operator(proxied, webhook=False, watch_namespaces=[namespace])
    with watch_pods(cluster, namespace):
        ray = RayCluster.create(cluster, namespace, raycluster("ray", tpu_group(replicas=2)))
        ray.wait_pods(workers=8)
        ray.run()
        before = ray.workers()

        proxied.proxy.close()
        ray.scale(4)
        cluster.delete("pods", before[1]["metadata"]["name"], namespace)
        wait_until(lambda: operator.metric("ray_tpu_operator_watch_errors_total") >= 1, "its watches broke")
        assert operator.running() and operator.healthy()
        assert uids(ray.workers()) == uids(before)[:1] + uids(before)[2:]

        proxied.proxy.open()
        wait_until(lambda: not set(uids(before)[:4]) & set(uids(ray.workers())), "the broken slice goes", timeout=90)
        after = ray.wait_pods(workers=16, timeout=90)
        assert_whole_slices(after, {("v6e", i): 4 for i in range(4)})
        assert uids(after)[4:8] == uids(before)[4:]
        wait_until(operator.ready, "ready again")
        ray.run()


def test_a_restart_of_the_api_server_loses_nothing(cluster, namespace, start_operator):
    operator = start_operator(
        cluster, "--kube-api-qps=80", "--kube-api-burst=4", webhook=False, watch_namespaces=[namespace]
    )
    ray = RayCluster.create(cluster, namespace, raycluster("ray", tpu_group("v6e", "16x16", 64)))
    wait_until(lambda: len(ray.workers()) >= 10, "some workers")
    cluster.control_plane.restart_apiserver()
    left = uids(ray.workers())
    workers = ray.wait_pods(workers=64, timeout=120)
    assert_whole_slices(workers, {("v6e", 0): 64})
    assert set(left) <= set(uids(workers))
    assert operator.metric("ray_tpu_operator_pods_deleted_total") == 0

    # Its watches work again.
    ray.scale(0)
    ray.wait_pods(workers=0, timeout=120)


def test_connections_that_break_while_pods_are_made_leave_no_twin(cluster, namespace, start_operator, tmp_path):
    """A create whose answer is lost may have happened or not."""
    proxied = ProxiedCluster(cluster, tmp_path)
    proxied.proxy.open()
    start_operator(proxied, "--kube-api-qps=80", "--kube-api-burst=4", webhook=False, watch_namespaces=[namespace])
    with watch_pods(cluster, namespace) as history, cluster.watch("pods", namespace) as watch:
        ray = RayCluster.create(cluster, namespace, raycluster("ray", tpu_group("v6e", "16x16", 64)))
        for count in (3, 20, 40):
            wait_until(lambda: len(watch.history()) >= count, f"{count} Pods", timeout=60, interval=0.002)
            proxied.proxy.close()
            proxied.proxy.open()
        workers = ray.wait_pods(workers=64, timeout=120)
        assert_whole_slices(workers, {("v6e", 0): 64})
        assert len(slices(workers)) == 1
        assert not history.deleted()


def test_a_cluster_is_made_whole_while_no_webhook_answers(cluster, namespace, operator):
    """The registered webhook points nowhere and fails closed; the controller's Pods need no answer."""
    path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
    dead = cluster.api.get(f"{path}/{operator.webhook_config}")
    dead["metadata"] = {"name": f"{namespace}-dead"}
    dead["webhooks"] = [w for w in dead["webhooks"] if w["name"].startswith("pods.")]
    for webhook in dead["webhooks"]:
        webhook["clientConfig"]["url"] = "https://127.0.0.1:1/mutate-v1-pod"
        webhook["namespaceSelector"] = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    cluster.api.post(path, dead)
    try:
        wait_until(lambda: refused(cluster, namespace), "a TPU Pod of somebody else to be refused", timeout=30)
        ray = RayCluster.create(cluster, namespace, raycluster("ray", tpu_group()))
        ray.wait_pods(workers=4)
        assert_whole_slices(ray.workers(), {("v6e", 0): 4})
    finally:
        cluster.api.delete(f"{path}/{namespace}-dead")


def refused(cluster, ns):
    try:
        cluster.probe_tpu_pod(ns)
    except ApiError:
        return True
    return False
