"""JobSets, made by the JobSet controller: Pathways, several slices, exclusive placement."""

import copy

import pytest
import yaml

from cluster import wait_until
from ray_cluster import FIXTURES, NODE_POOL
from tpu_slice import assert_slice, assert_untouched, env_entries, env_values, tpu_template, wait_for_pods

JOBSET = "jobset.sigs.k8s.io"
EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"
INDEX = "batch.kubernetes.io/job-completion-index"


@pytest.fixture
def operator(cluster, namespace, start_operator, jobset):
    return start_operator(cluster, controller=False, watch_namespaces=[namespace])


@pytest.fixture
def nodes(cluster, request):
    """make(name, **labels): a Node, of which nothing but its labels is real."""
    made = []

    def make(name, labels):
        labels |= {"kubernetes.io/hostname": name}
        cluster.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}})
        made.append(name)

    yield make
    for name in made:
        cluster.delete("nodes", name)


def replicated(name, template, replicas=1, hosts=4, annotations=None):
    template["spec"]["restartPolicy"] = "Never"
    spec = {"parallelism": hosts, "completions": hosts, "backoffLimit": 50, "template": template}
    return {"name": name, "replicas": replicas, "template": {"metadata": {"annotations": annotations or {}}, "spec": spec}}


def job_set(name, *jobs):
    return {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": name}, "spec": {"replicatedJobs": list(jobs)}}


def index_of(pod):
    return int(pod["metadata"]["annotations"][INDEX])


def pods_of(cluster, ns, job, count, timeout=60.0):
    return sorted(wait_for_pods(cluster, ns, count, f"batch.kubernetes.io/job-name={job}", timeout), key=index_of)


def place(cluster, ns, pod, node):
    """As the scheduler and the kubelet do."""
    cluster.bind_pod(ns, pod["metadata"]["name"], node)
    cluster.set_pod_status(ns, pod["metadata"]["name"])


# --- Pathways


def pathways(ns):
    manifest = yaml.safe_load((FIXTURES / "jobset_pathways_v6e_4x8.yaml").read_text())
    manifest["metadata"]["namespace"] = ns
    return manifest


def template_of(manifest, name):
    job = next(j for j in manifest["spec"]["replicatedJobs"] if j["name"] == name)
    return job["template"]["spec"]["template"]["spec"]


def test_pathways(cluster, namespace, operator, nodes):
    """Head first, on a CPU node and none of our business; then the leader of the workers, then its followers."""
    manifest = pathways(namespace)
    nodes(f"{namespace}-cpu", {NODE_POOL: "cpu-np"})
    nodes(f"{namespace}-tpu", {NODE_POOL: f"{namespace}-pool"})
    cluster.create(manifest)

    (head,) = pods_of(cluster, namespace, "gemma4-training-pathways-head-0", 1)
    assert_untouched(head)
    for kind in ("containers", "initContainers"):
        given = {c["name"]: c["env"] for c in template_of(manifest, "pathways-head")[kind]}
        for container in head["spec"][kind]:
            entries = [e for e in container["env"] if e["name"] != "JOB_COMPLETION_INDEX"]
            assert [e["name"] for e in entries] == [e["name"] for e in given[container["name"]]]
    place(cluster, namespace, head, f"{namespace}-cpu")

    workers = "gemma4-training-worker-0"
    leader = pods_of(cluster, namespace, workers, 1)[0]
    assert index_of(leader) == 0
    place(cluster, namespace, leader, f"{namespace}-tpu")
    pods = pods_of(cluster, namespace, workers, 8, timeout=120)
    hosts = [f"{workers}-{i}.gemma4-training" for i in range(8)]
    assert_slice(pods, hosts, workers, topology="4,8,1")

    megascale = {e["name"]: e for e in template_of(manifest, "worker")["containers"][0]["env"] if "MEGASCALE" in e["name"]}
    for pod in pods:
        told = {n: e for n, e in env_entries(pod).items() if "MEGASCALE" in n}
        assert {n: field_of(e) for n, e in told.items()} == {n: field_of(e) for n, e in megascale.items()}


def field_of(entry):
    return entry.get("value") or entry["valueFrom"]["fieldRef"]["fieldPath"]


# --- several slices


def assert_slices(cluster, ns, name, group, slices, hosts=4):
    coordinator = f"{name}-{group}-0-0.{name}"
    for index in range(slices):
        job = f"{name}-{group}-{index}"
        pods = pods_of(cluster, ns, job, hosts)
        assert_slice(pods, [f"{job}-{i}.{name}" for i in range(hosts)], job)
        for pod in pods:
            values = env_values(pod)
            assert values["MEGASCALE_NUM_SLICES"] == str(slices)
            assert values["MEGASCALE_SLICE_ID"] == str(index)
            assert values["MEGASCALE_COORDINATOR_ADDRESS"].partition(":")[0] == coordinator


def test_two_slices_are_told_of_each_other(cluster, namespace, operator):
    """Behind a CPU job that is listed first, so that global indices are not those of the slices."""
    head = replicated("head", tpu_template(chips=None), hosts=1)
    cluster.create(job_set("multi", head, replicated("w", tpu_template(), replicas=2)), namespace)
    assert_slices(cluster, namespace, "multi", "w", 2)
    (pod,) = pods_of(cluster, namespace, "multi-head-0", 1)
    assert_untouched(pod)
    assert "MEGASCALE_NUM_SLICES" not in env_entries(pod)


def test_one_slice_is_told_of_no_others(cluster, namespace, operator):
    cluster.create(job_set("one", replicated("w", tpu_template())), namespace)
    pods = pods_of(cluster, namespace, "one-w-0", 4)
    assert_slice(pods, [f"one-w-0-{i}.one" for i in range(4)], "one-w-0")
    assert not [n for pod in pods for n in env_entries(pod) if "MEGASCALE" in n]


def test_independent_slices_say_so_by_an_empty_value(cluster, namespace, operator):
    template = tpu_template()
    template["spec"]["containers"][0]["env"] = [{"name": "MEGASCALE_NUM_SLICES", "value": ""}]
    cluster.create(job_set("free", replicated("w", template, replicas=2)), namespace)
    for index in range(2):
        for pod in pods_of(cluster, namespace, f"free-w-{index}", 4):
            assert [e for n, e in env_entries(pod).items() if "MEGASCALE" in n] == [{"name": "MEGASCALE_NUM_SLICES"}]


def test_a_restarted_jobset_is_told_the_same(cluster, namespace, operator):
    manifest = job_set("again", replicated("w", tpu_template(), replicas=2))
    manifest["spec"]["failurePolicy"] = {"maxRestarts": 3}
    manifest["spec"]["replicatedJobs"][0]["template"]["spec"]["backoffLimit"] = 0
    cluster.create(manifest, namespace)
    first = pods_of(cluster, namespace, "again-w-1", 4)
    cluster.set_pod_status(namespace, first[2]["metadata"]["name"], phase="Failed")

    def restarted():
        pods = cluster.get_json("pods", ns=namespace, selector=f"{JOBSET}/restart-attempt=1")
        return len(pods) == 8

    wait_until(restarted, "the Pods of the second attempt", timeout=90)
    assert_slices(cluster, namespace, "again", "w", 2)


# --- exclusive placement


def test_exclusive_placement_admits_pods_again_and_again(cluster, namespace, operator, nodes):
    """Followers are refused until their leader has a node, then sent after it. The Pods are as without all that."""
    pools = [f"{namespace}-{i}" for i in range(2)]
    for pool in pools:
        nodes(pool, {NODE_POOL: pool})
    exclusive = replicated("w", tpu_template(), replicas=2, annotations={EXCLUSIVE: NODE_POOL})
    plain = copy.deepcopy(exclusive)
    plain["template"]["metadata"]["annotations"] = {}
    cluster.create(job_set("plain", plain), namespace)
    assert_slices(cluster, namespace, "plain", "w", 2)

    webhook = "pods.ray-tpu-operator.webhook"
    before = cluster.webhook_calls(webhook)
    cluster.create(job_set("tight", exclusive), namespace)
    for index, pool in enumerate(pools):
        leader = pods_of(cluster, namespace, f"tight-w-{index}", 1)[0]
        assert index_of(leader) == 0
        refused = f"tight-w-{index}-"
        wait_until(lambda: refused_followers(cluster, namespace, refused), "followers are refused")
        place(cluster, namespace, leader, pool)
    for index, pool in enumerate(pools):
        pods = pods_of(cluster, namespace, f"tight-w-{index}", 4, timeout=120)
        assert [p["spec"].get("nodeSelector", {}).get(NODE_POOL) for p in pods[1:]] == [pool] * 3
    assert cluster.webhook_calls(webhook) - before > 8, "Pods were admitted more than once"
    assert_slices(cluster, namespace, "tight", "w", 2)

    for index in range(2):
        for bound, free in zip(*(pods_of(cluster, namespace, f"{name}-w-{index}", 4) for name in ("tight", "plain"))):
            own = {n: e.get("value", "").replace("plain", "tight") for n, e in env_entries(free).items()}
            assert {n: e.get("value", "") for n, e in env_entries(bound).items()} == own


def refused_followers(cluster, ns, prefix):
    events = cluster.get_json("events", ns=ns)
    return [e for e in events if e["reason"] == "FailedCreate" and e["involvedObject"]["name"] == prefix.rstrip("-")]
