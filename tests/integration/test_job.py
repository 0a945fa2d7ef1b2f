"""A plain Indexed Job on a slice: the Job controller makes the Pods, the webhook tells them their place."""

import pytest
import yaml

from cluster import wait_until
from ray_cluster import FIXTURES, env_of, env_value

HOSTS = [f"train-v6e16-{i}.train-v6e16-svc" for i in range(4)]
REVIEWS = "ray_tpu_operator_admission_reviews_total"


@pytest.fixture
def operator(cluster, namespace, start_operator):
    return start_operator(cluster, controller=False, watch_namespaces=[namespace])


def documents(ns):
    """The fixture's Service and Job, moved to this namespace."""
    found = list(yaml.safe_load_all((FIXTURES / "indexed_job_v6e_4x4.yaml").read_text()))
    for document in found:
        document["metadata"]["namespace"] = ns
    return found


def run_job(cluster, ns):
    """Applies the Job with its Service and returns its Pods, by completion index."""
    cluster.kubectl("apply", "-f", "-", input=yaml.safe_dump_all(documents(ns)))
    return wait_until(lambda: pods_of_job(cluster, ns), "four Pods of the Job", timeout=60)


def index_of(pod):
    return int(pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"])


def pods_of_job(cluster, ns):
    pods = cluster.get_json("pods", ns=ns, selector="job-name=train-v6e16")
    assert len(pods) == 4
    return sorted(pods, key=index_of)


def test_pods_of_an_indexed_job_are_told_their_slice(cluster, namespace, operator):
    pods = run_job(cluster, namespace)
    assert [index_of(p) for p in pods] == list(range(4))
    addresses = ",".join(f"{host}:{port}" for host in HOSTS for port in range(8471, 8475))
    for index, pod in enumerate(pods):
        assert env_value(pod, "TPU_WORKER_ID") == str(index)
        assert env_value(pod, "TPU_WORKER_HOSTNAMES") == ",".join(HOSTS)
        assert env_value(pod, "TPU_NAME") == "train-v6e16"
        assert env_value(pod, "TORCH_TPU_TOPOLOGY") == "4,4,1"
        assert env_value(pod, "TORCH_TPU_SLICEBUILDER_ADDRESSES") == addresses
        assert env_value(pod, "JAX_PLATFORMS") == "tpu,cpu", "the user's own stays"
        # The name that is told is the name it has.
        assert f"{pod['spec']['hostname']}.{pod['spec']['subdomain']}" == HOSTS[index]


def test_containers_without_tpus_are_not_touched(cluster, namespace, operator):
    fixture = next(d for d in documents(namespace) if d["kind"] == "Job")
    own = fixture["spec"]["template"]["spec"]["containers"][1]
    for pod in run_job(cluster, namespace):
        container = pod["spec"]["containers"][1]
        assert container["name"] == own["name"] == "log-tailer"
        # The Job controller's own, in every container.
        assert list(env_of(pod, 1)) == ["JOB_COMPLETION_INDEX"]


def test_a_pod_that_is_replaced_gets_the_same_place(cluster, namespace, operator):
    manifest = next(d for d in documents(namespace) if d["kind"] == "Job")
    manifest["spec"]["backoffLimit"] = 6
    cluster.apply(manifest)
    lost = wait_until(lambda: pods_of_job(cluster, namespace), "four Pods of the Job", timeout=60)[2]
    cluster.set_pod_status(namespace, lost["metadata"]["name"], phase="Failed")

    def replaced():
        pods = cluster.get_json("pods", ns=namespace, selector="job-name=train-v6e16")
        others = [p for p in pods if index_of(p) == 2 and p["metadata"]["uid"] != lost["metadata"]["uid"]]
        return others[0] if others else None

    # The Job controller waits ten seconds and more before it tries again.
    pod = wait_until(replaced, "another Pod of index 2", timeout=60)
    for name in ("TPU_WORKER_ID", "TPU_WORKER_HOSTNAMES", "TPU_NAME"):
        assert env_value(pod, name) == env_value(lost, name)


def test_the_api_server_asks_only_about_pods_that_request_tpus(cluster, namespace, operator):
    def pod(name, resources=None, annotations=None):
        container = {"name": "c", "image": "c", "resources": resources or {}}
        meta = {"name": name, "annotations": annotations or {}}
        return cluster.create(
            {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [container]}}, namespace
        )

    before = operator.metric(REVIEWS, webhook="pods")
    pod("plain")
    pod("cpu", {"limits": {"cpu": "1"}})
    pod("opted-out", {"limits": {"google.com/tpu": "4"}}, {"ray-tpu-operator/inject": "false"})
    cluster.set_pod_status(namespace, "plain")
    assert operator.metric(REVIEWS, webhook="pods") == before
    pod("tpu", {"limits": {"google.com/tpu": "4"}})
    assert operator.metric(REVIEWS, webhook="pods") == before + 1


def test_pods_elsewhere_are_not_our_business(cluster, namespace, make_namespace, operator):
    elsewhere = make_namespace()
    before = operator.metric(REVIEWS, webhook="pods")
    cluster.probe_tpu_pod(elsewhere)
    assert operator.metric(REVIEWS, webhook="pods") == before
    cluster.probe_tpu_pod(namespace)
    assert operator.metric(REVIEWS, webhook="pods") == before + 1
