"""What makes life beside KubeRay easy: its metrics, its controller in the same cluster, RayClusters split by labels, its switches."""

import datetime
import re

import pytest

from cluster import wait_until
from ray_cluster import RayCluster, raycluster, tpu_group

KUBERAY_LEASE = "ray-operator-leader"


def labelled(name, **labels):
    manifest = raycluster(name, tpu_group())
    manifest["metadata"]["labels"] = labels
    return manifest


def relabel(cluster, ray, **labels):
    cluster.patch("rayclusters.ray.io", ray.name, {"metadata": {"labels": labels}}, ns=ray.ns)


# --- metrics


def test_kuberays_metrics(cluster, namespace, start_operator):
    operator = start_operator(cluster, webhook=False, watch_namespaces=[namespace])
    ray = RayCluster.create(cluster, namespace, labelled("ray", **{"ray.io/originated-from-crd": "RayService"}))
    ray.wait_pods(workers=4)
    uid = ray.get()["metadata"]["uid"]
    about = {"name": "ray", "namespace": namespace, "uid": uid}
    assert operator.metric("kuberay_cluster_info", owner_kind="RayService", **about) == 1
    assert operator.metric("kuberay_cluster_condition_provisioned", condition="false", **about) == 1
    assert not [name for name in operator.metrics() if name.startswith("kuberay_cluster_provisioned_duration_seconds")]

    cluster.run_pods(namespace)
    provisioned = wait_until(lambda: (c := ray.condition("RayClusterProvisioned")).get("status") == "True" and c, "it is provisioned")
    wait_until(lambda: operator.metric("kuberay_cluster_condition_provisioned", condition="true", **about) == 1, "the metric says so")
    assert operator.metric("kuberay_cluster_condition_provisioned", condition="false", **about) == 0
    created = datetime.datetime.fromisoformat(ray.get()["metadata"]["creationTimestamp"].rstrip("Z"))
    since = datetime.datetime.fromisoformat(provisioned["lastTransitionTime"].rstrip("Z"))
    series = f'kuberay_cluster_provisioned_duration_seconds{{name="ray",namespace="{namespace}",uid="{uid}"}}'
    seconds = (since - created).total_seconds()
    assert operator.metrics()[series] == seconds

    operator.restart()
    wait_until(lambda: operator.metrics().get(series) == seconds, "a restart changes nothing")


def test_kuberays_metrics_can_be_turned_off(cluster, namespace, start_operator):
    operator = start_operator(cluster, "--enable-kuberay-metrics=false", webhook=False, watch_namespaces=[namespace])
    RayCluster.create(cluster, namespace, raycluster("ray", tpu_group())).wait_pods(workers=4)
    assert not [name for name in operator.metrics() if name.startswith("kuberay_")]


# --- another controller


@pytest.fixture
def hold_lease(cluster, namespace):
    """hold_lease(name): somebody holds that Lease of the test's namespace for the next hour."""
    names = []

    def hold(name):
        now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {"holderIdentity": "somebody_1", "leaseDurationSeconds": 3600, "renewTime": now, "acquireTime": now}
        names.append(name)
        cluster.create({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}, "spec": spec}, namespace)

    yield hold
    for name in names:
        cluster.delete("leases", name, namespace)


NOTE = "note: another RayCluster controller is active"
ACTIVE = "ray_tpu_operator_other_controller_active"


def readyz(operator):
    status, text = operator.http(operator.health_port, "/readyz")
    assert status == 200
    return text


def rival_lines(operator):
    return [line for line in operator.log().splitlines() if "another RayCluster controller is active" in line]


def test_kuberays_controller_is_noticed(cluster, namespace, start_operator, hold_lease):
    hold_lease(KUBERAY_LEASE)
    # It stands by, so that it leaves the RayClusters of other tests alone.
    hold_lease("taken")
    flags = ["--leader-elect-resource-name=taken", f"--leader-elect-resource-namespace={namespace}"]
    operator = start_operator(cluster, *flags, webhook=False, leader_elect=True)
    wait_until(lambda: operator.metric(ACTIVE) == 1, "the metric tells")
    assert f"{NOTE}: somebody_1 holds the Lease {namespace}/{KUBERAY_LEASE}" in readyz(operator)
    (line,) = wait_until(lambda: rival_lines(operator), "the log tells")
    assert re.search(r"\bwarn\b", line, re.I), line
    assert all(word in line for word in (namespace, "somebody_1", "--enable-controller=false", "--watch-namespaces", "--watch-selector"))


def test_where_the_work_is_split_there_is_no_warning(cluster, namespace, start_operator, hold_lease):
    hold_lease(KUBERAY_LEASE)
    operator = start_operator(cluster, webhook=False, watch_namespaces=[namespace])
    wait_until(lambda: operator.metric(ACTIVE) == 1, "the metric tells")
    assert NOTE in readyz(operator)
    (line,) = wait_until(lambda: rival_lines(operator), "the log tells")
    assert not re.search(r"\bwarn\b", line, re.I), line


def test_without_another_controller_nothing_is_said(cluster, namespace, start_operator):
    operator = start_operator(cluster, webhook=False, watch_namespaces=[namespace])
    wait_until(lambda: operator.metric("ray_tpu_operator_leader") == 1, "it leads")
    assert operator.metric(ACTIVE) == 0
    assert NOTE not in readyz(operator)


# --- labels


def test_two_operators_split_the_rayclusters_by_label(cluster, namespace, start_operator):
    def start(selector):
        return start_operator(cluster, f"--watch-selector={selector}", webhook=False, watch_namespaces=[namespace])

    first, second = start("team in (a, x)"), start("team notin (a,x)")
    a = RayCluster.create(cluster, namespace, labelled("one", team="a"))
    b = RayCluster.create(cluster, namespace, raycluster("two", tpu_group(replicas=2)))
    a.wait_pods(workers=4)
    b.wait_pods(workers=8)

    def have_created(*counts):
        metric = "ray_tpu_operator_pods_created_total"
        return wait_until(lambda: (first.metric(metric), second.metric(metric)) == counts, f"they count {counts}")

    have_created(5, 9)

    # One changes hands: nothing happens to its Pods, and from then on the other operator does the work.
    before = {p["metadata"]["uid"] for p in a.pods()}
    relabel(cluster, a, team="b")
    known = "ray_tpu_operator_cache_objects"
    wait_until(lambda: [o.metric(known, kind="raycluster") for o in (first, second)] == [0, 2], "it has changed hands")
    a.scale(2)
    a.wait_pods(workers=8)
    assert before < {p["metadata"]["uid"] for p in a.pods()}
    have_created(5, 13)
    assert first.metric("ray_tpu_operator_pods_deleted_total") + second.metric("ray_tpu_operator_pods_deleted_total") == 0


# --- switches


def test_3013_the_head_is_named_after_the_cluster(cluster, namespace, start_operator):
    environment = {"ENABLE_DETERMINISTIC_HEAD_POD_NAME": "true"}
    start_operator(cluster, webhook=False, watch_namespaces=[namespace], environment=environment)
    ray = RayCluster.create(cluster, namespace, raycluster("ray", tpu_group()))
    ray.wait_pods(workers=4)
    (head,) = ray.heads()
    assert head["metadata"]["name"] == "ray-head"
    cluster.delete("pods", "ray-head", namespace, grace=0)
    new = wait_until(lambda: [p for p in ray.heads() if p["metadata"]["uid"] != head["metadata"]["uid"]], "there is another head")
    assert [p["metadata"]["name"] for p in new] == ["ray-head"]
    assert len(ray.workers()) == 4
