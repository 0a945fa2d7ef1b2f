"""KubeRay's own operator beside our webhook: with its index labels (the default since 1.6), and without them."""

import collections
import concurrent.futures
import copy
import json
import time

import pytest
import yaml

from cluster import wait_until
from kube_api import ApiError
from load_balancer import LoadBalancer
from operator_process import free_port
from ray_cluster import CLUSTER, GROUP, HOST_INDEX, NODE_TYPE, REPLICA_INDEX, RayCluster, labels_of, raycluster, tpu_group, tutorial
from tpu_slice import assert_slice, assert_untouched, env_values, expected_environment, tpu_template
from workload_controllers import make_certificate

REPLICA = "ray-tpu-operator/replica-index"
HOST = "ray-tpu-operator/host-index"
GATE_OFF = {"RayMultiHostIndexing": False}


@pytest.fixture
def operator(cluster, namespace, start_operator):
    return start_operator(cluster, controller=False, watch_namespaces=[namespace])


def workers_of(cluster, ns, name, count, timeout=90.0):
    """Its workers, none of them on its way out."""

    def there():
        pods = cluster.get_json("pods", ns=ns, selector=f"{CLUSTER}={name},{NODE_TYPE}=worker")
        live = [p for p in pods if "deletionTimestamp" not in p["metadata"]]
        assert len(live) == len(pods) == count, f"{len(live)} live of {len(pods)} workers, {count} wanted"
        return pods

    return wait_until(there, f"{count} workers of {name}", timeout)


def place_of(pod):
    """(replica, host), whoever has written it."""
    labels, annotations = labels_of(pod), pod["metadata"].get("annotations", {})
    replica, host = labels.get(REPLICA_INDEX, annotations.get(REPLICA)), labels.get(HOST_INDEX, annotations.get(HOST))
    return int(replica), int(host)


def assert_ray_slices(pods, name, group, replicas, **expected):
    """Every host of slices 0..replicas-1 is there once, told its own slice and who else is in it."""
    by_replica = collections.defaultdict(dict)
    for pod in pods:
        replica, host = place_of(pod)
        assert host not in by_replica[replica], f"two Pods are host {host} of slice {replica}"
        by_replica[replica][host] = pod
    assert sorted(by_replica) == list(range(replicas))
    for replica, hosts in by_replica.items():
        assert sorted(hosts) == list(range(len(hosts)))
        names = [f"{group}-{replica}-{i}.{name}-headless" for i in sorted(hosts)]
        assert_slice([hosts[i] for i in sorted(hosts)], names, f"{group}-{replica}", **expected)


TUTORIALS = {
    "tutorial_a_v6e_4x4": (4, {"topology": "4,4,1", "chips": 4}),
    "tutorial_a_tpu7x_2x2x2": (2, {"topology": "2,2,2,2", "chips": 8}),
}


def create_tutorial(cluster, ns, fixture):
    manifest = yaml.safe_load(tutorial(fixture))
    manifest["metadata"].pop("namespace", None)
    RayCluster.create(cluster, ns, manifest)
    return manifest["metadata"]["name"], manifest["spec"]["workerGroupSpecs"][0]["groupName"]


@pytest.mark.parametrize("fixture", TUTORIALS)
def test_the_tutorial_with_index_labels(cluster, namespace, operator, start_kuberay, fixture):
    start_kuberay(namespace)
    hosts, expected = TUTORIALS[fixture]
    name, group = create_tutorial(cluster, namespace, fixture)
    pods = workers_of(cluster, namespace, name, hosts)
    assert all(REPLICA_INDEX in labels_of(p) and REPLICA not in p["metadata"].get("annotations", {}) for p in pods)
    assert_ray_slices(pods, name, group, 1, **expected)
    (head,) = cluster.get_json("pods", ns=namespace, selector=f"{CLUSTER}={name},{NODE_TYPE}=head")
    assert_untouched(head)
    assert cluster.exists("services", f"{name}-headless", namespace), "the Service that the names are in"


@pytest.mark.parametrize("fixture", TUTORIALS)
def test_the_tutorial_without_index_labels(cluster, namespace, operator, start_kuberay, fixture):
    start_kuberay(namespace, **GATE_OFF)
    hosts, expected = TUTORIALS[fixture]
    name, group = create_tutorial(cluster, namespace, fixture)
    pods = workers_of(cluster, namespace, name, hosts)
    assert not any(REPLICA_INDEX in labels_of(p) for p in pods)
    assert_ray_slices(pods, name, group, 1, **expected)


def test_without_labels_hosts_are_replaced_and_slices_added(cluster, namespace, operator, start_kuberay):
    start_kuberay(namespace, **GATE_OFF)
    ray = RayCluster.create(cluster, namespace, raycluster("ray", tpu_group(replicas=2)))
    pods = workers_of(cluster, namespace, "ray", 8)
    assert_ray_slices(pods, "ray", "v6e", 2)

    victims = [p for p in pods if place_of(p) in ((0, 2), (1, 1))]
    for victim in victims:
        cluster.delete("pods", victim["metadata"]["name"], namespace, grace=0)
    gone = {p["metadata"]["uid"] for p in victims}

    def replaced():
        now = workers_of(cluster, namespace, "ray", 8, timeout=0)
        return now if not gone & {p["metadata"]["uid"] for p in now} else None

    assert_ray_slices(wait_until(replaced, "two other Pods", timeout=60), "ray", "v6e", 2)

    ray.scale(3)
    assert_ray_slices(workers_of(cluster, namespace, "ray", 12), "ray", "v6e", 3)

    patch = json.dumps([{"op": "replace", "path": "/spec/workerGroupSpecs/0/replicas", "value": 2}])
    done = cluster.kubectl("patch", "raycluster", "ray", "-n", namespace, "--type=json", "-p", patch, check=False)
    assert "may leave slices without some of their hosts" in done.stderr
    workers_of(cluster, namespace, "ray", 8)


def reserved(cluster, ns):
    """What the Leases of the operators hold for this namespace."""
    leases = cluster.get_json("leases", ns="kube-system", selector="ray-tpu-operator/places")
    own = [lease["metadata"] for lease in leases if f".{ns}." in lease["metadata"]["name"]]
    return [metadata["annotations"]["ray-tpu-operator/reserved-places"] for metadata in own]


def test_without_labels_a_failed_host_gives_its_place_to_the_next(cluster, namespace, operator, start_kuberay):
    start_kuberay(namespace, **GATE_OFF)
    RayCluster.create(cluster, namespace, raycluster("ray", tpu_group()))
    pods = workers_of(cluster, namespace, "ray", 4)
    victim = next(p for p in pods if place_of(p) == (0, 3))["metadata"]
    # No kubelet is faster than that; and a Pod that fails is deleted at once, with what it could tell.
    wait_until(lambda: reserved(cluster, namespace) == ["{}"], "the reservations are confirmed")
    cluster.set_pod_status(namespace, victim["name"], phase="Failed")

    def replaced():
        pods = cluster.get_json("pods", ns=namespace, selector=f"{CLUSTER}=ray,{NODE_TYPE}=worker")
        live = [p for p in pods if "deletionTimestamp" not in p["metadata"] and p["metadata"]["uid"] != victim["uid"]]
        return live if len(live) == 4 else None

    assert_ray_slices(wait_until(replaced, "another host 3", timeout=60), "ray", "v6e", 1)


# --- many Pods at the same time, two replicas of the webhook


@pytest.fixture
def two_replicas(cluster, namespace, start_operator, tmp_path):
    """Two operators that answer for one webhook configuration, with the same certificate, in turn."""
    certificate, key = make_certificate(tmp_path / "webhook-cert")
    shared = [f"--webhook-cert-file={certificate}", f"--webhook-key-file={key}", "--webhook-config-name=two-replicas"]
    options = {"controller": False, "watch_namespaces": [namespace], "wait_webhook": False, "log_level": "info"}
    ports = [free_port(), free_port()]
    with LoadBalancer(ports) as balancer:
        shared.append(f"--webhook-url=https://127.0.0.1:{balancer.port}")
        operators = []
        for port in ports:
            operator = start_operator(cluster, *shared, f"--webhook-bind-address=127.0.0.1:{port}", **options)
            operator.webhook_config = "two-replicas"
            operators.append(operator)
        operators[0].wait_webhook()
        yield balancer, operators
        for operator in operators:
            operator.remove_webhooks()


def worker(ray):
    """As KubeRay without its gate posts it."""
    name, uid = ray.name, ray.get()["metadata"]["uid"]
    labels = {CLUSTER: name, GROUP: "v6e", NODE_TYPE: "worker", "app.kubernetes.io/name": "kuberay"}
    template = tpu_template(labels=labels)
    template["metadata"]["generateName"] = f"{name}-v6e-worker-"
    owner = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "name": name, "uid": uid, "controller": True}
    template["metadata"]["ownerReferences"] = [{**owner, "blockOwnerDeletion": True}]
    return {"apiVersion": "v1", "kind": "Pod", **template}


def create_patiently(cluster, ns, manifest, deadline):
    """As a controller does: what is refused for now is created again."""
    refusals = 0
    while True:
        try:
            return cluster.create(manifest, ns), refusals
        except ApiError as e:
            if e.status not in (409, 429, 500, 503) or time.monotonic() > deadline:
                raise
            refusals += 1
            time.sleep(0.2)


@pytest.mark.complaint("ai-on-gke#859", "ai-on-gke#891")
@pytest.mark.parametrize("count", [64, 256])
def test_ai_on_gke_858_simultaneous_pods_fill_every_place_once(cluster, namespace, two_replicas, count):
    balancer, operators = two_replicas
    deadline = time.monotonic() + 240
    # KubeRay is not there; the RayCluster only says how many slices there are to be.
    many = worker(RayCluster.create(cluster, namespace, raycluster("many", tpu_group(replicas=count // 4))))
    with concurrent.futures.ThreadPoolExecutor(64) as pool:
        jobs = [pool.submit(create_patiently, cluster, namespace, many, deadline) for _ in range(count)]
        created = [job.result() for job in jobs]
    pods = cluster.get_json("pods", ns=namespace, selector=f"{CLUSTER}=many")
    assert len(pods) == count
    assert_ray_slices(pods, "many", "v6e", count // 4)
    assert all(n > 0 for n in balancer.connections.values()), "both replicas were asked"
    answered = [o.metric("ray_tpu_operator_admission_reviews_total") for o in operators]
    assert all(n > 0 for n in answered), answered
    print(f"{count} Pods, refused for the moment: {sum(refusals for _, refusals in created)}, answered: {answered}")

    # One more than there are places is not given one twice.
    extra = cluster.create(many, namespace)
    assert "TPU_WORKER_ID" not in env_values(extra)


def test_a_place_whose_pod_was_refused_is_given_out_again(cluster, namespace, start_operator):
    """A quota refuses Pods after their admission: their reservations expire, and no hole stays."""
    operator = start_operator(cluster, "--place-reservation=2s", controller=False, watch_namespaces=[namespace])
    pod = worker(RayCluster.create(cluster, namespace, raycluster("ray", tpu_group(replicas=2))))
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"}, "spec": {"hard": {"pods": "3"}}}
    cluster.create(quota, namespace)
    wait_until(lambda: cluster.get_json("resourcequotas", "none", namespace).get("status", {}).get("hard"), "the quota")
    for _ in range(3):
        cluster.create(pod, namespace)
    for _ in range(3):
        with pytest.raises(ApiError) as refused:
            cluster.create(pod, namespace)
        assert refused.value.status in (403, 503)
    cluster.delete("resourcequotas", "none", namespace)
    deadline = time.monotonic() + 120
    for _ in range(5):
        create_patiently(cluster, namespace, pod, deadline)
    assert_ray_slices(cluster.get_json("pods", ns=namespace, selector=f"{CLUSTER}=ray"), "ray", "v6e", 2)
    assert operator.running()


def test_a_dry_run_reserves_nothing(cluster, namespace, operator):
    manifest = worker(RayCluster.create(cluster, namespace, raycluster("ray", tpu_group())))
    pods = cluster.api.resource("pods").path(namespace)
    for _ in range(6):
        pod = cluster.api.post(pods, manifest, dryRun="All")
        wanted = expected_environment([f"v6e-0-{i}.ray-headless" for i in range(4)], 0, "v6e-0")
        assert {k: env_values(pod)[k] for k in wanted} == wanted
    assert reserved(cluster, namespace) == []


def test_labels_alone_make_no_pod_of_a_raycluster(cluster, namespace, operator):
    """No place, no Lease, and the warning says why."""
    manifest = worker(RayCluster.create(cluster, namespace, raycluster("ray", tpu_group())))
    orphan, stranger = copy.deepcopy(manifest), copy.deepcopy(manifest)
    del orphan["metadata"]["ownerReferences"]
    stranger["metadata"]["labels"][GROUP] = "other"
    for pod, words in (
        (orphan, "the Pod has no owner reference to RayCluster ray"),
        (stranger, "RayCluster ray has no worker group other"),
    ):
        done = cluster.kubectl("create", "-n", namespace, "-f", "-", input=yaml.safe_dump(pod), check=False)
        assert done.returncode == 0
        assert f"Warning: {words}" in done.stderr
    pods = cluster.get_json("pods", ns=namespace, selector=f"{CLUSTER}=ray")
    assert len(pods) == 2 and not any("TPU_WORKER_ID" in env_values(p) for p in pods)
    assert reserved(cluster, namespace) == []
