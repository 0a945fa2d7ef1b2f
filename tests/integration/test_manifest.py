"""What a manifest says and what becomes of it: fields that are the operator's, fields that are the user's. Together with test_status,
test_scaling, test_autoscaler, test_kueue, test_children and test_complaints this is what KubeRay's envtest suite looks at (facts/kuberay.md
§7.2)."""

import pytest
import yaml

from cluster import wait_until
from harness import shared_controller
from ray_cluster import (
    CLUSTER,
    GROUP,
    HOST_INDEX,
    IMAGE,
    NODE_TYPE,
    REPLICA_INDEX,
    REPLICA_NAME,
    RayCluster,
    cpu_group,
    labels_of,
    place,
    raycluster,
    tpu_group,
    uids,
    watch_pods,
)


@pytest.fixture(scope="module")
def namespace(cluster, request, tmp_path_factory):
    with shared_controller(cluster, request, tmp_path_factory.mktemp("operator")) as ns:
        yield ns


@pytest.fixture
def create(cluster, namespace):
    """create(manifest): a RayCluster that is deleted at the end of the test."""
    made = []

    def make(manifest):
        made.append(RayCluster.create(cluster, namespace, manifest))
        return made[-1]

    yield make
    for ray in made:
        ray.delete()


def templates(manifest):
    """Of the head and of every worker group."""
    spec = manifest["spec"]
    return [spec["headGroupSpec"]["template"]] + [g["template"] for g in spec["workerGroupSpecs"]]


def test_labels_by_which_pods_are_found_are_not_the_users_to_set(cluster, namespace, create):
    """Neither in a template nor in the labels of a group, copied from a Pod perhaps: nothing is taken for something else."""
    mine = {CLUSTER: "other", NODE_TYPE: "redis-cleanup", GROUP: "other", REPLICA_INDEX: "7", REPLICA_NAME: "r", HOST_INDEX: "3"}
    manifest = raycluster("labels", cpu_group("one", replicas=2), cpu_group("two", hosts=2))
    for template in templates(manifest):
        template["metadata"] = {"labels": mine | {"team": "a"}}
    manifest["spec"]["headGroupSpec"]["labels"] = mine
    with watch_pods(cluster, namespace) as history:
        ray = create(manifest)
        workers = ray.wait_pods(workers=4)
        assert [place(p) for p in workers] == [("one", 0, 0), ("one", 1, 0), ("two", 0, 0), ("two", 0, 1)]
        (head,) = ray.heads()
        assert (labels_of(head)[GROUP], labels_of(head)["team"]) == ("headgroup", "a")
        assert [labels_of(p).get(REPLICA_NAME) for p in workers[:2]] == [None, None]
        ray.run()
        ray.wait_seen()
        assert not history.deleted()
    assert not cluster.get_json("pods", ns=namespace, selector=f"{CLUSTER}=other")


def test_the_namespace_and_name_of_a_template_do_not_count(create):
    manifest = raycluster("elsewhere", cpu_group())
    for template in templates(manifest):
        template["metadata"] = {"namespace": "kube-system", "name": "mine"}
    ray = create(manifest)
    ray.wait_pods(workers=1)
    assert all(p["metadata"]["name"].startswith("elsewhere-") for p in ray.pods())


def test_without_resources_nothing_is_asked_for(create):
    manifest = raycluster("nothing", cpu_group(replicas=2))
    for template in templates(manifest):
        del template["spec"]["containers"][0]["resources"]
    ray = create(manifest)
    ray.wait_pods(workers=2)
    ray.wait_status("zeros", desiredCPU="0", desiredMemory="0", desiredGPU="0", desiredTPU="0", desiredWorkerReplicas=2)


def test_probes_and_ports_of_the_user_stay(create):
    """A probe of his own as it is; the operator's own ask the ports he moved."""
    mine = {"tcpSocket": {"port": 6379}, "periodSeconds": 7}
    params = {"dashboard-port": "8266", "dashboard-agent-listen-port": "52366"}
    manifest = raycluster("probes", cpu_group(rayStartParams={"dashboard-agent-listen-port": "52367"}))
    manifest["spec"]["headGroupSpec"]["rayStartParams"] = params
    templates(manifest)[0]["spec"]["containers"][0]["livenessProbe"] = mine
    templates(manifest)[1]["spec"]["containers"][0]["readinessProbe"] = mine
    ray = create(manifest)
    (worker,) = ray.wait_pods(workers=1)
    (head,) = ray.heads()
    head, worker = head["spec"]["containers"][0], worker["spec"]["containers"][0]
    for probe in (head["livenessProbe"], worker["readinessProbe"]):
        assert probe.items() >= mine.items() and "exec" not in probe
    (asked,) = head["readinessProbe"]["exec"]["command"][2:]
    assert "localhost:52366/api/local_raylet_healthz" in asked and "localhost:8266/api/gcs_healthz" in asked
    (asked,) = worker["livenessProbe"]["exec"]["command"][2:]
    assert "localhost:52367/api/local_raylet_healthz" in asked and "gcs_healthz" not in asked


def test_a_suspended_group_has_no_pods_and_does_not_count(cluster, namespace, create):
    """The others run on; let go, it comes back. What RayJob's deletion rule DeleteWorkers sets."""
    ray = create(raycluster("group", cpu_group("stays"), tpu_group("goes", minReplicas=1, maxReplicas=2)))
    with watch_pods(cluster, namespace):
        workers = ray.wait_pods(workers=5)
        ray.run()
        kept = uids([p for p in workers if place(p)[0] == "stays"]) + uids(ray.heads())

        suspend(ray, 1, True)
        ray.wait_pods(workers=1)
        counts = dict(desiredWorkerReplicas=1, minWorkerReplicas=0, readyWorkerReplicas=1, desiredTPU="0", desiredCPU="2")
        ray.wait_status("without it", state="ready", **counts)
        ray.wait_condition("RayClusterSuspended", status="False")
        assert sorted(uids(ray.pods())) == sorted(kept)

        suspend(ray, 1, None)
        again = ray.wait_pods(workers=5)
        assert not set(uids(again)) & (set(uids(workers)) - set(kept))
        ray.run()
        ray.wait_status("with it", desiredWorkerReplicas=5, minWorkerReplicas=4, desiredTPU="16")
        assert set(kept) <= set(uids(ray.pods()))


def suspend(ray, group, value):
    path = f"/spec/workerGroupSpecs/{group}/suspend"
    patch = [{"op": "remove", "path": path}] if value is None else [{"op": "add", "path": path, "value": value}]
    ray.cluster.api.patch(ray.cluster.api.resource("rayclusters.ray.io").path(ray.ns, ray.name), patch, "application/json-patch+json")


def test_a_suspended_group_and_an_autoscaler_do_not_go_together(create):
    ray = create(raycluster("both", cpu_group(suspend=True), enableInTreeAutoscaling=True))
    condition = ray.wait_condition("InvalidSpec", status="True", reason="InvalidRayClusterSpec")
    assert "spec.workerGroupSpecs[0].suspend" in condition["message"]
    assert not ray.pods(live=False)


def test_every_pod_gets_what_the_configuration_file_says(cluster, make_namespace, start_operator, tmp_path):
    config = {
        "apiVersion": "config.ray.io/v1alpha1",
        "kind": "Configuration",
        "headSidecarContainers": [{"name": "on-head", "image": IMAGE}],
        "workerSidecarContainers": [{"name": "on-worker", "image": IMAGE}],
        "defaultContainerEnvs": [{"name": "SITE", "value": "x"}],
        "defaultPodLabels": {"site": "x", CLUSTER: "no"},
    }
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(config))
    ns = make_namespace()
    start_operator(cluster, f"--config={path}", webhook=False, watch_namespaces=[ns])
    ray = RayCluster.create(cluster, ns, raycluster("config", cpu_group()))
    workers = ray.wait_pods(workers=1)
    for pod, sidecar in ((ray.heads()[0], "on-head"), (workers[0], "on-worker")):
        assert [c["name"] for c in pod["spec"]["containers"]][1:] == [sidecar]
        assert {"name": "SITE", "value": "x"} in pod["spec"]["containers"][0]["env"]
        assert (labels_of(pod)["site"], labels_of(pod)[CLUSTER]) == ("x", "config")
    ray.run()


def test_only_pods_of_rayclusters_are_remembered(cluster, make_namespace, start_operator):
    """A namespace may hold any number of other Pods."""
    ns = make_namespace()
    operator = start_operator(cluster, webhook=False, watch_namespaces=[ns])
    spec = {"containers": [{"name": "c", "image": "c"}]}
    for i in range(20):
        cluster.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"other-{i}"}, "spec": spec}, ns)
    ray = RayCluster.create(cluster, ns, raycluster("mine", cpu_group()))
    ray.wait_pods(workers=1)
    ray.run()
    wait_until(lambda: operator.metric("ray_tpu_operator_cache_objects", kind="pod") == 2, "two Pods are known")
