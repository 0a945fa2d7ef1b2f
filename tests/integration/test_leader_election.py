"""Several operators, one of which reconciles: the one that holds the Lease. All answer admission requests."""

import pytest

from cluster import wait_until
from proxy import ProxiedCluster
from ray_cluster import RayCluster, raycluster, tpu_group, watch_pods

LEASE = "the-lease"
LEADER = "ray_tpu_operator_leader"


@pytest.fixture
def start(cluster, namespace, start_operator):
    """Starts an operator with a Lease in the test's namespace that others may take after two seconds.

    start(through) reaches the API server through that ProxiedCluster.
    """
    flags = [
        f"--leader-elect-resource-name={LEASE}",
        f"--leader-elect-resource-namespace={namespace}",
        "--leader-elect-lease-duration=2s",
        "--leader-elect-renew-deadline=1500ms",
        "--leader-elect-retry-period=200ms",
    ]

    def go(through=cluster, **options):
        return start_operator(through, *flags, leader_elect=True, watch_namespaces=[namespace], **options)

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
