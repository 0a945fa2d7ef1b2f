"""Kueue's contract: it holds RayClusters back and takes them back by spec.suspend, tells Pods where to run by editing the
templates when it lets them go, gates and ungates Pods, and keeps whole RayClusters for another cluster by managedBy."""

import pytest

from cluster import wait_until
from harness import shared_controller
from ray_cluster import (
    ACCELERATOR,
    CLUSTER,
    RayCluster,
    assert_whole_slices,
    cpu_group,
    labels_of,
    raycluster,
    tpu_group,
    uids,
    watch_pods,
)

TOLERATION = {"key": "flavor.example.com", "operator": "Equal", "value": "spot", "effect": "NoSchedule"}
GATE = {"name": "kueue.x-k8s.io/topology"}
SELECTOR = {"flavor.example.com/pool": "spot"}
RECREATE = {"upgradeStrategy": {"type": "Recreate"}}


@pytest.fixture(scope="module")
def namespace(cluster, request, tmp_path_factory):
    with shared_controller(cluster, request, tmp_path_factory.mktemp("operator")) as namespace:
        yield namespace


def pod_templates(spec):
    return [spec["headGroupSpec"]["template"]] + [g["template"] for g in spec["workerGroupSpecs"]]


def update(ray, change):
    """Reads the object, changes its spec and writes it back whole, as Kueue does."""
    path = ray.cluster.api.resource("rayclusters.ray.io").path(ray.ns, ray.name)

    def write():
        stored = ray.get()
        change(stored["spec"])
        return ray.cluster.api.put(path, stored)

    return wait_until(write, f"{ray.name} is updated")


def admit(ray, gates=()):
    """Kueue found room: the Pods are told where, and may be made."""

    def change(spec):
        spec["suspend"] = False
        for template in pod_templates(spec):
            pod = template["spec"]
            pod["tolerations"] = pod.get("tolerations", []) + [TOLERATION]
            pod["nodeSelector"] = pod.get("nodeSelector", {}) | SELECTOR
            template.setdefault("metadata", {}).setdefault("labels", {})["kueue.x-k8s.io/podset"] = "p"
            template["metadata"].setdefault("annotations", {})["kueue.x-k8s.io/workload"] = "w"
            if gates:
                pod["schedulingGates"] = list(gates)

    update(ray, change)


def evict(ray):
    """Kueue wants the room back: suspended, and the templates as the user wrote them."""

    def change(spec):
        spec["suspend"] = True
        for template in pod_templates(spec):
            pod = template["spec"]
            pod["tolerations"] = [t for t in pod.get("tolerations", []) if t != TOLERATION]
            pod["nodeSelector"] = {k: v for k, v in pod.get("nodeSelector", {}).items() if k not in SELECTOR}
            pod.pop("schedulingGates", None)

    update(ray, change)


def assert_suspended(ray):
    ray.wait_condition("RayClusterSuspended", status="True", reason="RayClusterSuspended")
    ray.wait_condition("RayClusterSuspending", status="False")
    status = ray.wait_status("suspended", state="suspended", availableWorkerReplicas=0, readyWorkerReplicas=0)
    assert not ray.pods(live=False)
    return status


@pytest.mark.complaint(5062)
@pytest.mark.parametrize("spec", [{}, RECREATE], ids=["none", "recreate"])
def test_4876_held_back_admitted_evicted_and_admitted_again(cluster, namespace, spec):
    name = f"cycle-{'recreate' if spec else 'none'}"
    with watch_pods(cluster, namespace) as history:
        manifest = raycluster(name, tpu_group(), cpu_group(hosts=2), suspend=True, **spec)
        ray = RayCluster.create(cluster, namespace, manifest)
        status = assert_suspended(ray)
        assert ray.condition("RayClusterProvisioned").get("status") == "False"
        assert not any(labels_of(p).get(CLUSTER) == name for pods in history.moments() for p in pods.values())
        assert status["desiredTPU"] == "16", "what it asks for is known before it runs"

        admit(ray)
        workers = ray.wait_pods(workers=6)
        assert_whole_slices([p for p in workers if labels_of(p)["ray.io/group"] == "v6e"], {("v6e", 0): 4})
        for pod in ray.pods():
            assert TOLERATION in pod["spec"]["tolerations"]
            assert pod["spec"]["nodeSelector"].items() >= SELECTOR.items()
            assert labels_of(pod)["kueue.x-k8s.io/podset"] == "p"
            assert pod["metadata"]["annotations"]["kueue.x-k8s.io/workload"] == "w"
        assert ray.workers()[-1]["spec"]["nodeSelector"][ACCELERATOR] == "tpu-v6e-slice", "the user's stays"
        ray.run()
        ray.wait_condition("RayClusterSuspended", status="False")
        ray.wait_condition("RayClusterProvisioned", status="True")
        services = {n: s["metadata"]["uid"] for n, s in ray.services().items()}

        evict(ray)
        assert_suspended(ray)
        provisioned = ray.wait_condition("RayClusterProvisioned", status="False")
        assert provisioned["message"] == "RayCluster has been suspended"
        assert {n: s["metadata"]["uid"] for n, s in ray.services().items()} == services, "only Pods are given back"

        admit(ray)
        again = ray.wait_pods(workers=6)
        assert not set(uids(again)) & set(uids(workers))
        ray.run()
        ray.delete()


def test_a_suspension_that_began_goes_through(cluster, namespace):
    """Kueue counts on the room: whatever the spec says meanwhile, no new Pod before every old one is gone."""
    with watch_pods(cluster, namespace) as history:
        ray = RayCluster.create(cluster, namespace, raycluster("atomic", cpu_group(hosts=2)))
        ray.wait_pods(workers=2)
        ray.run()
        old = set(uids(ray.pods()))
        for pod in ray.pods():
            cluster.bind_pod(namespace, pod["metadata"]["name"])

        evict(ray)
        ray.wait_condition("RayClusterSuspending", status="True", reason="RayClusterSuspending")
        wait_until(lambda: not ray.pods(), "every Pod is told to go")
        # One is gone, two are still there when it is admitted again.
        first = ray.pods(live=False)[0]["metadata"]["name"]
        cluster.delete("pods", first, namespace, grace=0)
        admit(ray)
        ray.wait_seen()
        assert (len(ray.pods(live=False)), ray.pods()) == (2, [])
        assert ray.condition("RayClusterSuspending")["status"] == "True"

        cluster.finish_deletions(namespace)
        ray.wait_pods(workers=2)
        ray.run()
        for pods in history.moments():
            ours = {p["metadata"]["uid"] for p in pods.values() if labels_of(p).get(CLUSTER) == "atomic"}
            assert not (ours & old and ours - old), "old and new at the same time"
        ray.delete()


def test_a_removed_suspend_counts_as_false(cluster, namespace):
    """Who manages manifests without Kueue removes the line; upstream stays suspended for ever then (§2.6)."""
    ray = RayCluster.create(cluster, namespace, raycluster("removed", cpu_group(), suspend=True))
    assert_suspended(ray)
    update(ray, lambda spec: spec.pop("suspend"))
    ray.wait_pods(workers=1)
    ray.run()
    ray.delete()


@pytest.mark.parametrize("strategy", [{}, RECREATE], ids=["none", "recreate"])
def test_pods_that_wait_at_a_gate_are_let_through_one_by_one(cluster, namespace, strategy):
    """Kueue's topology ungater takes the gates off the Pods and puts a node selector on them; that replaces nothing."""
    with watch_pods(cluster, namespace) as history:
        name = f"gates-{'recreate' if strategy else 'none'}"
        ray = RayCluster.create(cluster, namespace, raycluster(name, cpu_group(hosts=2), suspend=True, **strategy))
        assert_suspended(ray)
        admit(ray, gates=[GATE])
        ray.wait_pods(workers=2)
        before = uids(ray.pods())
        assert all(p["spec"]["schedulingGates"] == [GATE] for p in ray.pods())
        ray.wait_condition("RayClusterProvisioned", status="False")
        for pod in ray.pods():
            selector = pod["spec"]["nodeSelector"] | {"cloud.example.com/rack": "r1"}
            patch = {"spec": {"schedulingGates": [], "nodeSelector": selector}}
            cluster.patch("pods", pod["metadata"]["name"], patch, namespace)
        ray.run()

        # Taking the gates off the templates of a running cluster, or adding a toleration, is no new version of it.
        def change(spec):
            for template in pod_templates(spec):
                template["spec"]["schedulingGates"] = []
                template["spec"]["tolerations"].append(TOLERATION | {"value": "more"})

        update(ray, change)
        ray.wait_seen()
        ray.wait_condition("PodTemplateOutOfDate")
        assert uids(ray.pods()) == before
        assert not [n for n in history.deleted() if n.startswith(name)]
        ray.delete()


# What would make the controller act at once if the cluster were its own.
WANTED = {
    "pods": {},
    "redis": {"gcsFaultToleranceOptions": {"redisAddress": "redis:6379"}},
    "autoscaler": {"enableInTreeAutoscaling": True, "authOptions": {"mode": "token"}, "rayVersion": "2.53.0"},
    "suspended": {"suspend": True},
    "invalid": {"rayVersion": "x", "authOptions": {"mode": "token"}},
}


def test_what_another_cluster_runs_is_left_alone_entirely(cluster, namespace):
    """Nothing is made and nothing is written, the status included: MultiKueue copies it from where the cluster runs."""
    theirs = []
    for name, spec in WANTED.items():
        manifest = raycluster(f"mk-{name}", tpu_group(), managedBy="kueue.x-k8s.io/multikueue", **spec)
        theirs.append(RayCluster.create(cluster, namespace, manifest))
    remote = {"state": "ready", "readyWorkerReplicas": 4, "head": {"podIP": "10.9.9.9"}}
    remote["conditions"] = [
        {
            "type": "RayClusterSuspending",
            "status": "True",
            "reason": "RayClusterSuspending",
            "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
    ]
    for ray in theirs:
        cluster.patch("rayclusters.ray.io", ray.name, {"status": remote}, namespace, subresource="status")
        cluster.patch("rayclusters.ray.io", ray.name, {"metadata": {"annotations": {"a": "b"}}}, namespace)
    before = {ray.name: ray.get() for ray in theirs}

    ours = RayCluster.create(cluster, namespace, raycluster("mk-ours", cpu_group(), managedBy="ray.io/kuberay-operator"))
    ours.wait_pods(workers=1)
    ours.run()
    for ray in theirs:
        assert ray.get() == before[ray.name]
        assert "finalizers" not in before[ray.name]["metadata"]
        assert not ray.pods(live=False) and not ray.services() and not ray.events()
        for kind in ("serviceaccounts", "roles", "rolebindings", "secrets"):
            assert not cluster.exists(kind, ray.name, namespace), f"{kind} {ray.name}"

    # Nor is their end ours: a finalizer waits for whoever set it.
    redis = theirs[1]
    finalizer = "ray.io/gcs-ft-redis-cleanup-finalizer"
    cluster.patch("rayclusters.ray.io", redis.name, {"metadata": {"finalizers": [finalizer]}}, namespace)
    redis.delete()
    cluster.patch("rayclusters.ray.io", ours.name, {"spec": {"suspend": True}}, namespace)
    assert_suspended(ours)
    assert redis.get()["metadata"]["finalizers"] == [finalizer]
    assert not cluster.exists("jobs", f"{redis.name}-redis-cleanup", namespace)
    cluster.patch("rayclusters.ray.io", redis.name, {"metadata": {"finalizers": None}}, namespace)


def test_a_cluster_that_comes_back_to_us_is_taken_up(cluster, namespace):
    manifest = raycluster("mk-back", cpu_group(), managedBy="kueue.x-k8s.io/multikueue")
    ray = RayCluster.create(cluster, namespace, manifest)
    cluster.patch("rayclusters.ray.io", ray.name, {"spec": {"managedBy": None}}, namespace)
    ray.wait_pods(workers=1)
    ray.run()
    ray.delete()
