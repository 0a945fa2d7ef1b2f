"""What the user is told of a RayCluster: status, printer columns, conditions, events."""

import re

import pytest

from cluster import wait_until
from ray_cluster import RayCluster, raycluster, tpu_group, tutorial, uids

NAME = "ray-torchtpu-cluster"
NOT_PROVISIONED = {"status": "False", "reason": "RayClusterPodsProvisioning"}
PROVISIONED = {"status": "True", "reason": "AllPodRunningAndReadyFirstTime"}


@pytest.fixture
def operator(cluster, namespace, start_operator):
    """The webhook has no part in this; without it there is less to start."""
    return start_operator(cluster, webhook=False, watch_namespaces=[namespace])


@pytest.fixture
def ray(cluster, namespace, operator):
    ray = RayCluster.create(cluster, namespace, tutorial("tutorial_a_v6e_4x4"))
    ray.wait_pods(workers=4)
    return ray


def test_status_of_pods_that_wait_for_a_node(ray):
    (head,) = ray.heads()
    status = ray.wait_status("4 workers wanted", state=None, desiredWorkerReplicas=4, availableWorkerReplicas=0)
    expected = {
        "minWorkerReplicas": 0,
        "maxWorkerReplicas": 2147483647,
        "readyWorkerReplicas": 0,
        "desiredCPU": "260",
        "desiredMemory": "816Gi",
        "desiredGPU": "0",
        "desiredTPU": "16",
        "observedGeneration": ray.get()["metadata"]["generation"],
        "endpoints": {"client": "10001", "dashboard": "8265", "gcs": "6379", "metrics": "8080"},
        "head": {"podName": head["metadata"]["name"], "serviceName": f"{NAME}-head-svc"},
    }
    assert {k: status[k] for k in expected} == expected
    ray.wait_condition("RayClusterProvisioned", **NOT_PROVISIONED)
    ray.wait_condition("RayClusterSuspending", status="False")
    ray.wait_condition("RayClusterSuspended", status="False")
    ray.wait_condition("ReplicaFailure")
    assert ray.condition("HeadPodReady")["status"] != "True"


@pytest.mark.complaint(991)
def test_3274_status_follows_the_pods_one_by_one(cluster, ray):
    (head,), workers = ray.heads(), ray.workers()

    cluster.set_pod_status(ray.ns, head["metadata"]["name"], phase="Pending")
    ray.wait_condition("HeadPodReady", status="False")
    cluster.set_pod_status(ray.ns, head["metadata"]["name"], ip="10.11.12.13")
    ray.wait_condition("HeadPodReady", status="True", reason="HeadPodRunningAndReady")
    status = ray.wait_status("the head has an address", state=None, availableWorkerReplicas=0)
    assert status["head"] == {
        "podIP": "10.11.12.13",
        "podName": head["metadata"]["name"],
        "serviceIP": "10.11.12.13",
        "serviceName": f"{NAME}-head-svc",
    }

    cluster.set_pod_status(ray.ns, workers[0]["metadata"]["name"], ready=False)
    ray.wait_status("one runs", state=None, availableWorkerReplicas=1, readyWorkerReplicas=0)
    for pod in workers[:3]:
        cluster.set_pod_status(ray.ns, pod["metadata"]["name"])
    ray.wait_status("three are ready", state=None, availableWorkerReplicas=3, readyWorkerReplicas=3)
    ray.wait_condition("RayClusterProvisioned", **NOT_PROVISIONED)
    cluster.set_pod_status(ray.ns, workers[3]["metadata"]["name"])
    status = ray.wait_status("all are ready", state="ready", availableWorkerReplicas=4, readyWorkerReplicas=4)
    ray.wait_condition("RayClusterProvisioned", **PROVISIONED)
    assert list(status["stateTransitionTimes"]) == ["ready"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", status["stateTransitionTimes"]["ready"])


@pytest.mark.parametrize(
    "what,change,counts",
    [
        ("is not ready any more", {"ready": False}, {"availableWorkerReplicas": 4, "readyWorkerReplicas": 3}),
        ("died", {"phase": "Failed"}, {"availableWorkerReplicas": 0, "readyWorkerReplicas": 0}),
    ],
    ids=["not-ready", "dead"],
)
def test_2188_a_cluster_is_not_ready_while_a_worker(cluster, ray, what, change, counts):
    ray.run()
    before = uids(ray.workers())
    cluster.set_pod_status(ray.ns, ray.workers()[2]["metadata"]["name"], **change)
    ray.wait_status(f"a worker {what}", state=None, **counts)
    # It was provisioned once; that stays true.
    ray.wait_condition("RayClusterProvisioned", **PROVISIONED)

    if change.get("phase") == "Failed":
        wait_until(lambda: len(set(uids(ray.workers())) - set(before)) == 4, "the slice is replaced whole")
        ray.wait_pods(workers=4)
        ray.run()
    else:
        assert uids(ray.workers()) == before, "a probe that fails is no reason to replace anything"
        cluster.set_pod_status(ray.ns, ray.workers()[2]["metadata"]["name"])
        ray.wait_status("ready again", state="ready")


def test_status_tells_why_the_head_is_not_ready(cluster, ray):
    (head,) = ray.heads()
    path = cluster.api.resource("pods").path(ray.ns, head["metadata"]["name"], "status")
    waiting = {"reason": "ImagePullBackOff", "message": "no such image"}
    container = {"name": "ray-head", "image": "i", "imageID": "", "ready": False, "restartCount": 0}
    reason = {"reason": "ContainersNotReady", "message": "containers: ray-head"}
    not_ready = {"type": "Ready", "status": "False"} | reason
    containers = [container | {"state": {"waiting": waiting}}]
    cluster.api.patch(path, {"status": {"conditions": [not_ready], "containerStatuses": containers}})
    condition = ray.wait_condition("HeadPodReady", status="False", reason="ImagePullBackOff")
    assert condition["message"] == "containers: ray-head; ray-head: no such image"


def test_printer_columns(cluster, ray):
    ray.run()
    table = cluster.kubectl("get", "raycluster", NAME, "-n", ray.ns).splitlines()
    assert re.split(r"  +", table[0].strip()) == [
        "NAME",
        "DESIRED WORKERS",
        "AVAILABLE WORKERS",
        "CPUS",
        "MEMORY",
        "GPUS",
        "STATUS",
        "AGE",
    ]
    assert table[1].split()[:-1] == [NAME, "4", "4", "260", "816Gi", "0", "ready"]

    wide = cluster.kubectl("get", "raycluster", NAME, "-n", ray.ns, "-o", "wide").splitlines()
    ip = ray.status()["head"]["podIP"]
    row = dict(zip(re.split(r"  +", wide[0].strip()), wide[1].split()))
    assert (row["TPUS"], row["HEAD POD IP"], row["HEAD SERVICE IP"]) == ("16", ip, ip)


def test_kubectl_waits_for_the_condition(cluster, ray):
    wait = ["wait", f"raycluster/{NAME}", "-n", ray.ns, "--for=condition=RayClusterProvisioned"]
    assert cluster.kubectl(*wait, "--timeout=0s", check=False).returncode != 0
    cluster.run_pods(ray.ns)
    assert "condition met" in cluster.kubectl(*wait, "--timeout=60s")
    assert "condition met" in cluster.kubectl(*wait[:-1], "--for=jsonpath={.status.state}=ready", "--timeout=60s")


def test_events_tell_what_was_made_and_unmade(cluster, ray):
    (head,), workers = ray.heads(), ray.workers()
    some_worker = f"{ray.ns}/{NAME}-v6e-16-worker-"
    ray.wait_event("CreatedService", f"Created service {ray.ns}/{NAME}-head")
    ray.wait_event("CreatedHeadPod", f"Created head Pod {ray.ns}/{head['metadata']['name']}")
    ray.wait_event("CreatedWorkerPod", f"Created worker Pods {some_worker}", "and 3 more")

    ray.run()
    cluster.delete("pods", workers[1]["metadata"]["name"], ray.ns)
    ray.wait_event("DeletedWorkerPod", f"Deleted worker Pods {some_worker}", "and 2 more", "a host of the slice is ")
    ray.wait_pods(workers=4)
    assert {kind for kind, _, _ in ray.events()} == {"Normal"}, ray.events()

    (event, *_) = [
        e for e in cluster.get_json("events.events.k8s.io", ns=ray.ns) if e["reason"] == "CreatedHeadPod"
    ]
    assert event["action"] == "Create"
    assert event["regarding"]["uid"] == ray.get()["metadata"]["uid"]
    described = cluster.kubectl("describe", "raycluster", NAME, "-n", ray.ns)
    assert "Created head Pod" in described, "kubectl shows them with the object"


def test_minreplicas_and_maxreplicas_bind_what_is_made_and_counted(cluster, namespace, operator):
    group = tpu_group(replicas=3, minReplicas=1, maxReplicas=2)
    ray = RayCluster.create(cluster, namespace, raycluster("clamped", group))
    ray.wait_pods(workers=8)
    ray.wait_status("two slices of four", desiredWorkerReplicas=8, minWorkerReplicas=4, maxWorkerReplicas=8)


def test_a_status_that_is_true_is_not_written_again(cluster, ray, operator):
    ray.run()
    passes, writes = "ray_tpu_operator_reconcile_total", "ray_tpu_operator_status_writes_total"
    passes_before, writes_before = operator.metric(passes), operator.metric(writes)
    # A change that calls for a pass, but changes nothing that the status tells.
    stored = cluster.patch("raycluster", NAME, {"metadata": {"annotations": {"note": "for nobody"}}}, ray.ns)
    wait_until(lambda: operator.metric(passes) > passes_before, "another pass")
    assert operator.metric(writes) == writes_before
    assert ray.get()["metadata"]["resourceVersion"] == stored["metadata"]["resourceVersion"]
