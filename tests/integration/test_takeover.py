"""RayClusters that run under KubeRay when our operator comes: their Pods and Services are adopted as they are, nothing is
restarted, and from then on everything works on them as on our own."""

import copy

import pytest

from cluster import wait_until
from ray_cluster import (
    CLUSTER,
    GROUP,
    HOST_INDEX,
    IMAGE,
    NODE_TYPE,
    REPLICA_INDEX,
    REPLICA_NAME,
    PodHistory,
    RayCluster,
    cpu_group,
    place,
    raycluster,
    slices,
    uids,
)

SUFFIXES = "bcdfghjklmnpqrstvwxz2456789"


class KubeRay:
    """Makes what KubeRay makes of a RayCluster (facts/kuberay.md §2.3, §2.5, §3.1), without any mark of ours.

    index_labels: as 1.6 and later label workers; without, as all before.
    """

    def __init__(self, cluster, ns, manifest, index_labels=True, headless="{}-headless"):
        self.ray = RayCluster.create(cluster, ns, manifest)
        self.cluster, self.ns, self.index_labels = cluster, ns, index_labels
        self.object = self.ray.get()
        self.made = 0
        self.make_services(headless.format(self.ray.name))
        self.make_pod("head", "headgroup", self.object["spec"]["headGroupSpec"]["template"], {})
        for group in self.object["spec"]["workerGroupSpecs"]:
            for index in range(group["replicas"]):
                self.make_replica(group, index)
        cluster.run_pods(ns, f"{CLUSTER}={self.ray.name}")

    def suffix(self):
        self.made += 1
        return "".join(SUFFIXES[(self.made * k) % len(SUFFIXES)] for k in (1, 5, 7, 11, 13))

    def owner(self):
        return {
            "apiVersion": "ray.io/v1",
            "kind": "RayCluster",
            "name": self.ray.name,
            "uid": self.object["metadata"]["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }

    def make_replica(self, group, index):
        hosts = group["numOfHosts"]
        labels = {REPLICA_INDEX: str(index)} if self.index_labels else {}
        if hosts > 1 and self.index_labels:
            labels[REPLICA_NAME] = f"{group['groupName']}-{self.suffix()}"
        for host in range(hosts):
            more = {HOST_INDEX: str(host)} if hosts > 1 and self.index_labels else {}
            self.make_pod("worker", group["groupName"], group["template"], labels | more)

    def make_pod(self, node_type, group, template, labels):
        name = self.ray.name
        common = {
            "ray.io/is-ray-node": "yes",
            CLUSTER: name,
            NODE_TYPE: node_type,
            GROUP: group,
            "ray.io/identifier": f"{name}-{node_type}",
            "app.kubernetes.io/name": "kuberay",
            "app.kubernetes.io/created-by": "kuberay-operator",
        }
        head_only = {
            "ray.io/ft-enabled": "false",
            "ray.io/upgrade-strategy-recreate-hash": "7G2PEQM6N9FT3E1OVRK0B8AD4C5HJLSU",
            "ray.io/kuberay-version": "v1.6.2",
        }
        prefix = f"{name}-{node_type}" if node_type == "head" else f"{name}-{group}-{node_type}"
        spec = copy.deepcopy(template["spec"])
        spec["containers"][0] |= {"command": ["/bin/bash", "-c", "--"], "args": ["ulimit -n 65536; ray start --block"]}
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "generateName": f"{prefix}-",
                "labels": common | labels,
                "annotations": head_only if node_type == "head" else {},
                "ownerReferences": [self.owner()],
            },
            "spec": spec,
        }
        self.cluster.create(pod, self.ns)

    def make_services(self, headless):
        name = self.ray.name
        labels = {
            CLUSTER: name,
            NODE_TYPE: "head",
            "ray.io/identifier": f"{name}-head",
            "app.kubernetes.io/name": "kuberay",
            "app.kubernetes.io/created-by": "kuberay-operator",
        }
        ports = {"client": 10001, "dashboard": 8265, "gcs-server": 6379, "metrics": 8080, "serve": 8000}
        head = {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": labels,
            "ports": [{"name": n, "port": p, "targetPort": p, "appProtocol": "tcp"} for n, p in ports.items()],
        }
        self.make_service(f"{name}-head-svc", labels, head)
        if any(g["numOfHosts"] > 1 for g in self.object["spec"]["workerGroupSpecs"]):
            selector = {CLUSTER: name, NODE_TYPE: "worker"}
            spec = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": selector}
            self.make_service(headless, {"ray.io/headless-worker-svc": name}, spec)

    def make_service(self, name, labels, spec):
        meta = {"name": name, "labels": labels, "ownerReferences": [self.owner()]}
        self.cluster.create({"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec}, self.ns)


def take_over(cluster, ns, start_operator, ray):
    """Starts our operator and waits until it calls the RayCluster ready; returns (operator, status)."""
    operator = start_operator(cluster, webhook=False, watch_namespaces=[ns])
    status = ray.wait_status("ready under our operator", state="ready")
    ray.wait_seen()
    return operator, status


def workers_of(*groups):
    return sum(g["replicas"] * g["numOfHosts"] for g in groups)


# How KubeRay left its workers: (groups, index labels)
MADE = {
    "single-host": ([cpu_group("s", 1, 3)], True),
    "multi-host": ([cpu_group("m", 2, 2)], True),
    "single-host-unlabelled": ([cpu_group("s", 1, 3)], False),
    "multi-host-unlabelled": ([cpu_group("m", 2, 2)], False),
    "both": ([cpu_group("m", 2, 1), cpu_group("s", 1, 2)], True),
}


@pytest.mark.parametrize("strategy", [{}, {"upgradeStrategy": {"type": "Recreate"}}], ids=["none", "recreate"])
@pytest.mark.parametrize("made", MADE)
def test_nothing_is_restarted(cluster, namespace, start_operator, made, strategy):
    groups, index_labels = MADE[made]
    ray = KubeRay(cluster, namespace, raycluster("taken", *groups, **strategy), index_labels).ray
    before, services = uids(ray.pods()), {n: s["metadata"]["uid"] for n, s in ray.services().items()}
    with cluster.watch("pods", namespace) as watch:
        operator, status = take_over(cluster, namespace, start_operator, ray)
        counts = dict.fromkeys(("desiredWorkerReplicas", "availableWorkerReplicas", "readyWorkerReplicas"))
        assert {k: status[k] for k in counts} == dict.fromkeys(counts, workers_of(*groups))
        (head,) = ray.heads()
        assert status["head"]["podName"] == head["metadata"]["name"]
        assert status["head"]["serviceName"] == "taken-head-svc"
        assert status["endpoints"]["gcs-server"] == "6379"
        ray.wait_condition("RayClusterProvisioned", status="True")
        ray.wait_condition("PodTemplateOutOfDate")

        # A second life looks at them again.
        operator.restart()
        cluster.patch("rayclusters.ray.io", ray.name, {"spec": {"suspend": False}}, namespace)
        ray.wait_seen()
        assert uids(ray.pods(live=False)) == before
        assert {n: s["metadata"]["uid"] for n, s in ray.services().items()} == services
        assert not PodHistory(cluster, namespace, watch).deleted()
        assert not [o for kind, o in watch.history() if kind == "ADDED"]
        assert operator.metric("ray_tpu_operator_pods_deleted_total") == 0


@pytest.mark.parametrize("made", [m for m in MADE if m != "both"])
def test_scaling_and_healing_work_on_what_was_there(cluster, namespace, start_operator, made):
    (group,), index_labels = MADE[made]
    hosts, replicas = group["numOfHosts"], group["replicas"]
    ray = KubeRay(cluster, namespace, raycluster("taken", group), index_labels).ray
    take_over(cluster, namespace, start_operator, ray)
    before = ray.workers()

    ray.scale(replicas + 1)
    after = ray.wait_pods(workers=hosts * (replicas + 1))
    assert set(uids(before)) <= set(uids(after)), "what ran goes on"
    new = [p for p in after if p["metadata"]["uid"] not in uids(before)]
    free = replicas if index_labels else 0
    assert [place(p) for p in new] == [(group["groupName"], free, host) for host in range(hosts)]
    ray.run()

    # One Pod of the old ones dies: only its replica is replaced.
    lost = before[-1]
    cluster.set_pod_status(namespace, lost["metadata"]["name"], phase="Failed")
    wait_until(lambda: lost["metadata"]["uid"] not in uids(ray.workers()), "the failed Pod goes")
    healed = ray.wait_pods(workers=hosts * (replicas + 1))
    assert len(set(uids(after)) - set(uids(healed))) == hosts
    ray.run()

    ray.scale(1)
    ray.wait_pods(workers=hosts)
    ray.scale(replicas)
    final = ray.wait_pods(workers=hosts * replicas)
    if hosts > 1 and index_labels:
        assert all(found == list(range(hosts)) for _, found in slices(final).values())
    ray.run()


@pytest.mark.parametrize("made", ["single-host", "multi-host", "single-host-unlabelled", "multi-host-unlabelled"])
def test_the_autoscaler_goes_on_with_the_names_it_knows(cluster, namespace, start_operator, made):
    (group,), index_labels = MADE[made]
    hosts, replicas = group["numOfHosts"], group["replicas"]
    ray = KubeRay(cluster, namespace, raycluster("taken", group, enableInTreeAutoscaling=True), index_labels).ray
    take_over(cluster, namespace, start_operator, ray)
    before = ray.workers()
    named = before[0]["metadata"]["name"]
    patch = [
        {"op": "replace", "path": "/spec/workerGroupSpecs/0/replicas", "value": replicas - 1},
        {"op": "replace", "path": "/spec/workerGroupSpecs/0/scaleStrategy", "value": {"workersToDelete": [named]}},
    ]
    path = cluster.api.resource("rayclusters.ray.io").path(namespace, ray.name)
    cluster.api.patch(path, patch, "application/json-patch+json")
    after = ray.wait_pods(workers=hosts * (replicas - 1))
    assert set(uids(after)) < set(uids(before))
    assert named not in [p["metadata"]["name"] for p in after]


def test_recreate_counts_from_the_takeover_on(cluster, namespace, start_operator):
    """What KubeRay's hash stands for nobody else can tell; a change that comes later is one."""
    manifest = raycluster("taken", cpu_group("s", 1, 2), upgradeStrategy={"type": "Recreate"})
    ray = KubeRay(cluster, namespace, manifest).ray
    take_over(cluster, namespace, start_operator, ray)
    before = uids(ray.pods())
    wait_until(
        lambda: ray.heads()[0]["metadata"]["annotations"]["ray.io/upgrade-strategy-recreate-hash"].startswith("rto1-"),
        "the head carries our hash",
    )
    assert uids(ray.pods()) == before
    manifest["spec"]["workerGroupSpecs"][0]["template"]["spec"]["containers"][0]["image"] = f"{IMAGE}-new"
    RayCluster.create(cluster, namespace, manifest)
    wait_until(lambda: len(ray.pods()) == 3 and not set(uids(ray.pods())) & set(before), "three new Pods")
    assert all(p["spec"]["containers"][0]["image"] == f"{IMAGE}-new" for p in ray.wait_pods(workers=2))


def test_a_headless_service_of_kuberay_before_1_4_stays(cluster, namespace, start_operator):
    """Running Pods were told its name; it goes with the RayCluster."""
    manifest = raycluster("taken", cpu_group("m", 2, 1))
    ray = KubeRay(cluster, namespace, manifest, index_labels=False, headless="{}-headless-worker-svc").ray
    before = uids(ray.pods())
    take_over(cluster, namespace, start_operator, ray)
    wait_until(lambda: "taken-headless" in ray.services(), "the name that new Pods are told")
    assert "taken-headless-worker-svc" in ray.services()
    assert uids(ray.pods()) == before


@pytest.mark.complaint(1105)
def test_2088_a_head_service_with_a_cluster_ip_keeps_it(cluster, namespace, start_operator):
    """clusterIP cannot be changed; whoever tries makes no progress at all. Selector and ports are still repaired."""
    ray = KubeRay(cluster, namespace, raycluster("taken", cpu_group("s", 1, 1))).ray
    old = ray.services()["taken-head-svc"]
    cluster.delete("services", "taken-head-svc", namespace)
    spec = {"selector": {"x": "y"}, "ports": [{"name": "gcs-server", "port": 6379}]}
    meta = {k: old["metadata"][k] for k in ("name", "labels", "ownerReferences")}
    cluster.create({"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec}, namespace)
    before = ray.services()["taken-head-svc"]
    assert before["spec"]["clusterIP"] not in ("", "None")

    _, status = take_over(cluster, namespace, start_operator, ray)
    after = wait_until(
        lambda: (s := ray.services()["taken-head-svc"])["spec"]["selector"].get(NODE_TYPE) == "head" and s,
        "the selector is right again",
    )
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["spec"]["clusterIP"] == before["spec"]["clusterIP"]
    assert len(after["spec"]["ports"]) == 5
    assert status["head"]["serviceIP"] == before["spec"]["clusterIP"]
    ray.wait_condition("ReplicaFailure")
