"""Several operators, one of which reconciles: the one that holds the Lease. All answer admission requests."""

import contextlib

import pytest

from cluster import wait_until
from proxy import ProxiedCluster
from ray_cluster import RayCluster, raycluster, tpu_group, watch_pods

LEASE = "the-lease"
LEADER = "ray_tpu_operator_leader"
IN_FLIGHT = "ray_tpu_operator_api_in_flight"


@pytest.fixture
def start(cluster, namespace, start_operator):
    """Starts an operator with a Lease in the test's namespace that others may take after two seconds.

    start(through, *flags) reaches the API server through that ProxiedCluster.
    """
    flags = [
        f"--leader-elect-resource-name={LEASE}",
        f"--leader-elect-resource-namespace={namespace}",
        "--leader-elect-lease-duration=2s",
        "--leader-elect-renew-deadline=1500ms",
        "--leader-elect-retry-period=200ms",
    ]

    def go(through=cluster, *more, **options):
        return start_operator(through, *flags, *more, leader_elect=True, watch_namespaces=[namespace], **options)

    return go


def holder(cluster, ns):
    return cluster.get_json("leases", LEASE, ns)["spec"].get("holderIdentity", "")


def leads(operator):
    return operator.metric(LEADER) == 1


def test_the_second_takes_over_when_the_first_is_killed(cluster, namespace, start):
    first = start(webhook=False)
    wait_until(lambda: leads(first), "the first leads")
    second = start(webhook=False)
    assert first.environment["POD_NAME"] in holder(cluster, namespace)

    with watch_pods(cluster, namespace):
        ray = RayCluster.create(cluster, namespace, raycluster("ray", tpu_group()))
        ray.wait_pods(workers=4)
        assert second.ready() and not leads(second)
        assert second.metric("ray_tpu_operator_pods_created_total") == 0
        assert second.metric("ray_tpu_operator_cache_objects", kind="pod") == 5, "it is ready to go on"

        first.kill9()
        ray.scale(2)
        ray.wait_pods(workers=8)
        assert leads(second)
        assert second.environment["POD_NAME"] in holder(cluster, namespace)
        assert cluster.get_json("leases", LEASE, namespace)["spec"]["leaseTransitions"] >= 1

        # The one that comes back is the second now.
        first.start()
        ray.scale(3)
        ray.wait_pods(workers=12)
        assert leads(second) and not leads(first)


def test_the_lease_is_given_back_at_the_end(cluster, namespace, start):
    operator = start(webhook=False)
    wait_until(lambda: leads(operator), "it leads")
    log = operator.terminate()
    assert holder(cluster, namespace) == ""
    assert "lease" in log


def test_a_leader_that_is_asked_to_stop_is_followed_at_once(cluster, namespace, start):
    first = start(webhook=False)
    wait_until(lambda: leads(first), "the first leads")
    second = start(webhook=False)
    first.terminate()
    wait_until(lambda: leads(second), "the second leads")


def test_who_does_not_lead_answers_admission_requests(cluster, namespace, start):
    first = start(webhook=False)
    wait_until(lambda: leads(first), "the first leads")
    second = start()
    before = second.metric("ray_tpu_operator_admission_reviews_total", webhook="pods")
    cluster.probe_tpu_pod(namespace)
    assert second.metric("ray_tpu_operator_admission_reviews_total", webhook="pods") == before + 1
    assert not leads(second)


def test_a_leader_that_loses_the_api_server_stops_reconciling(cluster, namespace, start, tmp_path):
    proxied = ProxiedCluster(cluster, tmp_path)
    proxied.proxy.open()
    first = start(proxied, webhook=False)
    wait_until(lambda: leads(first), "the first leads")
    second = start(webhook=False)
    proxied.proxy.close()
    wait_until(lambda: not leads(first), "the first steps down by itself")
    wait_until(lambda: leads(second), "the second leads")
    with watch_pods(cluster, namespace):
        ray = RayCluster.create(cluster, namespace, raycluster("ray", tpu_group()))
        proxied.proxy.open()
        ray.wait_pods(workers=4)
        wait_until(first.ready, "the first is back, as the second", timeout=60)
        assert not leads(first) and leads(second)
    wait_until(lambda: "the lease can be read and written again" in first.log(), "it says so")
    # It tried every 200 ms.
    warnings = [line for line in first.log().splitlines() if " warn " in line and "the lease lease=" in line]
    assert 1 <= len(warnings) <= 3, warnings


def test_a_leader_frozen_past_its_lease_writes_nothing_when_it_goes_on(cluster, namespace, start):
    # Slowly, so that it is interrupted while it has Pods to make.
    first = start(cluster, "--kube-api-qps=5", "--kube-api-burst=4", webhook=False)
    wait_until(lambda: leads(first), "the first leads")
    second = start(webhook=False)
    ray = RayCluster.create(cluster, namespace, raycluster("ray", tpu_group("v6e", "8x8", 16)))
    wait_until(lambda: len(ray.workers()) >= 3, "some workers")
    with contextlib.ExitStack() as watching:
        with first.frozen():
            ray.wait_pods(workers=16)
            assert leads(second)
            ray.scale(0)
            ray.wait_pods(workers=0)
            watch = watching.enter_context(cluster.watch("pods", namespace))
        wait_until(lambda: "no longer the leader" in first.log(), "the first notices")
        # What the first had sent by now would be there before what the second makes next.
        RayCluster.create(cluster, namespace, raycluster("other", tpu_group())).wait_pods(workers=4)
        added = [p["metadata"]["name"] for kind, p in watch.history() if kind == "ADDED"]
    assert [name for name in added if not name.startswith("other-")] == []
    assert first.metric("ray_tpu_operator_api_requests_total", verb="create", code="4xx") == 0
    assert leads(second) and not leads(first)


def test_what_hangs_when_the_lease_is_lost_is_cut(cluster, namespace, start, tmp_path):
    proxied = ProxiedCluster(cluster, tmp_path)
    proxied.proxy.open()
    first = start(proxied, "--kube-api-qps=20", "--kube-api-burst=4", webhook=False)
    wait_until(lambda: leads(first), "the first leads")
    second = start(webhook=False)
    ray = RayCluster.create(cluster, namespace, raycluster("ray", tpu_group("v6e", "16x16", 64)))
    wait_until(lambda: len(ray.workers()) >= 8, "some workers")
    proxied.proxy.stall()
    wait_until(lambda: first.metric(IN_FLIGHT) >= 5, "creations hang", interval=0.01)
    wait_until(lambda: not leads(first), "the first steps down by itself")
    # The lease and the events may still try, one request each.
    wait_until(lambda: first.metric(IN_FLIGHT) <= 2, "creations are cut, although nothing has moved")
    ray.wait_pods(workers=64)
    assert leads(second) and not leads(first)
    proxied.proxy.close()
