"""Both manifests of the tutorial, as its reader applies them: what every worker is told, and all that is around it.

The TPU environment comes in three ways: from the controller, whose Pods are complete when they are created; from the
webhook; and, as installed, from both, where the webhook finds nothing to add.
"""

import json
import re

import pytest
import yaml

from cluster import wait_until
from harness import namespaces, operators
from ray_cluster import (
    ACCELERATOR,
    CLUSTER,
    FIXTURES,
    GROUP,
    HOST_INDEX,
    IMAGE,
    NODE_POOL,
    NODE_TYPE,
    REPLICA_INDEX,
    REPLICA_NAME,
    TOPOLOGY,
    RayCluster,
    env_of,
    labels_of,
    place,
    raycluster,
    tpu_group,
    tutorial,
)

# (fixture, whose worker's .env it is, group, hosts, memory of a worker in bytes, TPUs as Ray counts them)
TUTORIALS = [
    ("tutorial_a_v6e_4x4", 3, "v6e-16", 4, 200 << 30, 4),
    ("tutorial_a_tpu7x_2x2x2", 1, "tpu7x-16", 2, 250 << 30, 8),
]
WAYS = {
    "controller": {"webhook": False},
    "webhook": {"inject": False},
    "both": {},
}
VARIABLES = {
    "TPU_WORKER_HOSTNAMES",
    "TORCH_TPU_TOPOLOGY",
    "TORCH_TPU_SLICEBUILDER_ADDRESSES",
    "TPU_WORKER_ID",
    "TPU_NAME",
}
NAME = "ray-torchtpu-cluster"
# The command of the tutorial; %d is 0 there.
LISTING = '-o=jsonpath={range .items[%d].spec.containers[0].env[*]}{.name}={.value}{"\\n"}{end}'

names_of = pytest.mark.parametrize("name", [t[0] for t in TUTORIALS])
ways = pytest.mark.parametrize("way", WAYS)
tutorials = pytest.mark.parametrize("name,example,group,hosts,memory,tpus", TUTORIALS, ids=[t[0] for t in TUTORIALS])


class World:
    """One operator, and both tutorials, each in a namespace of its own."""

    def __init__(self, cluster, make_namespace, start, options):
        self.namespaces = {t[0]: make_namespace() for t in TUTORIALS}
        self.operator = start(cluster, watch_namespaces=list(self.namespaces.values()), **options)
        self.rays = {n: RayCluster.create(cluster, ns, tutorial(n)) for n, ns in self.namespaces.items()}
        for name, _, _, hosts, _, _ in TUTORIALS:
            self.rays[name].wait_pods(workers=hosts)


@pytest.fixture(scope="module")
def worlds(cluster, request, tmp_path_factory):
    with namespaces(cluster, request) as make:
        with operators(request, tmp_path_factory.mktemp("operators")) as start:
            yield {way: World(cluster, make, start, options) for way, options in WAYS.items()}


def listing(cluster, ns, item):
    """The five variables of one worker as the tutorial shows them, everything else left out."""
    out = cluster.kubectl("get", "pods", "-n", ns, "-l", f"{NODE_TYPE}=worker", LISTING % item)
    return "".join(line + "\n" for line in out.splitlines() if line.partition("=")[0] in VARIABLES)


# --- what a worker is told


@pytest.mark.complaint(1642)
@ways
@tutorials
def test_every_worker_is_told_its_place(cluster, worlds, way, name, example, group, hosts, memory, tpus):
    expected = (FIXTURES / f"{name}.worker{example}.env").read_text()
    shown = [listing(cluster, worlds[way].namespaces[name], item) for item in range(hosts)]
    ids = [int(re.search(r"^TPU_WORKER_ID=(\d+)$", text, re.M)[1]) for text in shown]
    assert sorted(ids) == list(range(hosts))
    for worker_id, text in zip(ids, shown):
        assert text == expected.replace(f"TPU_WORKER_ID={example}\n", f"TPU_WORKER_ID={worker_id}\n")
    assert shown[ids.index(example)] == expected


@ways
@names_of
def test_worker_id_host_index_and_hostname_agree(worlds, way, name):
    for pod in worlds[way].rays[name].workers():
        group, replica, host = place(pod)
        assert env_of(pod)["TPU_WORKER_ID"]["value"] == str(host)
        assert pod["spec"]["hostname"] == f"{group}-{replica}-{host}"
        assert pod["spec"]["subdomain"] == f"{NAME}-headless"


@ways
@names_of
def test_workers_find_the_device_plugin_of_their_node(worlds, way, name):
    for pod in worlds[way].rays[name].workers():
        env = env_of(pod)
        assert env["TPU_DEVICE_PLUGIN_HOST_IP"]["valueFrom"]["fieldRef"]["fieldPath"] == "status.hostIP"
        assert env["TPU_DEVICE_PLUGIN_ADDR"]["value"] == "$(TPU_DEVICE_PLUGIN_HOST_IP):2112"
        # $(NAME) is only replaced when NAME comes first.
        names = list(env)
        assert names.index("TPU_DEVICE_PLUGIN_HOST_IP") < names.index("TPU_DEVICE_PLUGIN_ADDR")


@ways
@names_of
def test_no_variable_is_there_twice_and_the_users_stay(worlds, way, name):
    for pod in worlds[way].rays[name].pods():
        entries = pod["spec"]["containers"][0]["env"]
        assert len({e["name"] for e in entries}) == len(entries)
        assert entries[0]["name"] == "HF_TOKEN"
        assert entries[0]["valueFrom"]["secretKeyRef"] == {"name": "hf-secret", "key": "hf_api_token"}


@names_of
def test_the_head_has_no_tpu_environment(worlds, name):
    (head,) = worlds["both"].rays[name].heads()
    assert not VARIABLES & set(env_of(head))
    assert "affinity" not in head["spec"]


@names_of
def test_all_ways_make_the_same_pods(worlds, name):
    rays = {way: world.rays[name] for way, world in worlds.items()}
    made = {way: [comparable(pod) for pod in ray.heads() + ray.workers()] for way, ray in rays.items()}
    assert made["webhook"] == made["controller"]
    assert made["both"] == made["controller"]


def comparable(pod):
    """What a Pod says, without what is random or the namespace's."""
    text = json.dumps({"metadata": {k: pod["metadata"].get(k) for k in ("labels", "annotations")}, "spec": pod["spec"]})
    text = text.replace(pod["metadata"]["namespace"], "NAMESPACE")
    text = re.sub(r"kube-api-access-\w{5}", "kube-api-access", text)
    replica = labels_of(pod).get(REPLICA_NAME)
    return json.loads(text.replace(replica, "REPLICA") if replica else text)


def test_the_webhook_changes_pods_only_when_the_controller_leaves_them_incomplete(worlds):
    workers = sum(t[3] for t in TUTORIALS)
    # The other review is the probe of the harness.
    for way, injected, reviews in (("webhook", workers, workers + 1), ("both", 0, 1)):
        operator = worlds[way].operator
        seen = operator.metric("ray_tpu_operator_admission_reviews_total", webhook="pods", verdict="allowed")
        told = [line for line in operator.log().splitlines() if "injected pod" in line and "webhook-probe" not in line]
        assert (seen, len(told)) == (reviews, injected)


# --- what is around it


@pytest.mark.complaint(4171)
@tutorials
def test_3902_pods_carry_the_labels_others_rely_on(worlds, name, example, group, hosts, memory, tpus):
    ray = worlds["both"].rays[name]
    common = {
        CLUSTER: NAME,
        "ray.io/is-ray-node": "yes",
        "app.kubernetes.io/name": "kuberay",
        "app.kubernetes.io/created-by": "kuberay-operator",
    }
    (head,) = ray.heads()
    assert labels_of(head) == common | {NODE_TYPE: "head", GROUP: "headgroup", "ray.io/identifier": f"{NAME}-head"}
    workers = ray.workers()
    replica = labels_of(workers[0])[REPLICA_NAME]
    assert re.fullmatch(rf"{group}-[a-z0-9]{{5}}", replica)
    for host, pod in enumerate(workers):
        assert labels_of(pod) == common | {
            NODE_TYPE: "worker",
            GROUP: group,
            "ray.io/identifier": f"{NAME}-worker",
            REPLICA_INDEX: "0",
            REPLICA_NAME: replica,
            HOST_INDEX: str(host),
        }


@tutorials
def test_names_are_of_the_familiar_shape(worlds, name, example, group, hosts, memory, tpus):
    ray = worlds["both"].rays[name]
    (head,) = ray.heads()
    assert re.fullmatch(rf"{NAME}-head-[a-z0-9]{{5}}", head["metadata"]["name"])
    for pod in ray.workers():
        assert re.fullmatch(rf"{NAME}-{group}-worker-[a-z0-9]{{5}}", pod["metadata"]["name"])


@names_of
def test_everything_is_owned_by_the_raycluster(worlds, name):
    ray = worlds["both"].rays[name]
    owned = ray.pods() + list(ray.services().values())
    for o in owned:
        assert o["metadata"]["ownerReferences"] == [
            {
                "apiVersion": "ray.io/v1",
                "kind": "RayCluster",
                "name": NAME,
                "uid": ray.get()["metadata"]["uid"],
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ]


@names_of
def test_the_services_are_headless_and_publish_pods_that_are_not_ready(worlds, name):
    services = worlds["both"].rays[name].services()
    assert sorted(services) == [f"{NAME}-head-svc", f"{NAME}-headless"]
    for service in services.values():
        assert service["spec"]["type"] == "ClusterIP"
        assert service["spec"]["clusterIP"] == "None"
        assert service["spec"]["publishNotReadyAddresses"] is True

    head = services[f"{NAME}-head-svc"]
    identity = {
        CLUSTER: NAME,
        NODE_TYPE: "head",
        "ray.io/identifier": f"{NAME}-head",
        "app.kubernetes.io/name": "kuberay",
        "app.kubernetes.io/created-by": "kuberay-operator",
    }
    assert head["metadata"]["labels"] == identity
    assert head["spec"]["selector"] == {CLUSTER: NAME, NODE_TYPE: "head"}
    assert [(p["name"], p["port"], p["targetPort"], p["appProtocol"]) for p in head["spec"]["ports"]] == [
        ("client", 10001, 10001, "tcp"),
        ("dashboard", 8265, 8265, "tcp"),
        ("gcs", 6379, 6379, "tcp"),
        ("metrics", 8080, 8080, "tcp"),
    ]

    headless = services[f"{NAME}-headless"]
    assert headless["metadata"]["labels"] == {"ray.io/headless-worker-svc": NAME}
    assert headless["spec"]["selector"] == {CLUSTER: NAME, NODE_TYPE: "worker"}
    assert "ports" not in headless["spec"]


@tutorials
def test_ray_is_started_with_what_the_manifest_says(worlds, name, example, group, hosts, memory, tpus):
    ray = worlds["both"].rays[name]
    address = f"{NAME}-head-svc.{ray.ns}.svc.cluster.local:6379"
    limit = "ulimit -n ${RAY_START_ULIMIT_OPEN_FILES:-65536}; "
    (head,) = ray.heads()
    commands = {
        head["metadata"]["name"]: "ray start --head  --block  --dashboard-agent-listen-port=52365 "
        f" --dashboard-host=0.0.0.0  --memory={16 << 30}  --metrics-export-port=8080  --num-cpus=0 "
    }
    for pod in ray.workers():
        # tpu7x writes its TPUs as the group's resources, v6e leaves them to the container's limits.
        commands[pod["metadata"]["name"]] = (
            f"ray start  --address={address}  --block  --dashboard-agent-listen-port=52365  --memory={memory} "
            f" --metrics-export-port=8080  --num-cpus=64  --resources='{{\"TPU\":{tpus}}}' "
        )
    for pod in ray.pods():
        container, command = pod["spec"]["containers"][0], commands[pod["metadata"]["name"]]
        assert container["image"] == IMAGE
        assert container["command"] == ["/bin/bash", "-c", "--"]
        assert container["args"] == [limit + command]
        assert env_of(pod)["KUBERAY_GEN_RAY_START_CMD"]["value"] == command


@names_of
def test_ray_is_told_who_and_where_it_is(worlds, name):
    ray = worlds["both"].rays[name]
    fqdn = f"{NAME}-head-svc.{ray.ns}.svc.cluster.local"
    fields = {
        "RAY_CLUSTER_NAME": f"metadata.labels['{CLUSTER}']",
        "RAY_CLUSTER_NAMESPACE": "metadata.namespace",
        "RAY_CLOUD_INSTANCE_ID": "metadata.name",
        "RAY_NODE_TYPE_NAME": f"metadata.labels['{GROUP}']",
    }
    for pod in ray.pods():
        env = env_of(pod)
        assert {k: env[k]["valueFrom"]["fieldRef"]["fieldPath"] for k in fields} == fields
        assert env["RAY_PORT"]["value"] == "6379"
        is_head = labels_of(pod)[NODE_TYPE] == "head"
        assert env["RAY_ADDRESS"]["value"] == ("127.0.0.1:6379" if is_head else f"{fqdn}:6379")
        if not is_head:
            assert (env["FQ_RAY_IP"]["value"], env["RAY_IP"]["value"]) == (fqdn, f"{NAME}-head-svc")


@names_of
def test_ports(worlds, name):
    ray = worlds["both"].rays[name]
    metrics = [("metrics", 8080)]
    expected = {"head": [("gcs", 6379), ("dashboard", 8265), ("client", 10001)] + metrics, "worker": metrics}
    for pod in ray.pods():
        ports = [(p["name"], p["containerPort"]) for p in pod["spec"]["containers"][0]["ports"]]
        assert ports == expected[labels_of(pod)[NODE_TYPE]]


@tutorials
def test_dev_shm_is_memory_once(worlds, name, example, group, hosts, memory, tpus):
    ray = worlds["both"].rays[name]
    (own,) = yaml.safe_load(tutorial(name))["spec"]["workerGroupSpecs"][0]["template"]["spec"]["volumes"]
    for pod in ray.pods():
        mounts = [m for m in pod["spec"]["containers"][0]["volumeMounts"] if m["mountPath"] == "/dev/shm"]
        volumes = {v["name"]: v for v in pod["spec"]["volumes"]}
        assert len(mounts) == 1
        volume = volumes[mounts[0]["name"]]
        if labels_of(pod)[NODE_TYPE] == "head":
            assert volume == {"name": "shared-mem", "emptyDir": {"medium": "Memory", "sizeLimit": "16Gi"}}
        else:
            assert volume == own, "the user's own"
            assert "shared-mem" not in volumes


@names_of
def test_probes_ask_raylet_and_gcs(worlds, name):
    raylet = "wget --tries 1 -T 2 -q -O- http://localhost:52365/api/local_raylet_healthz | grep success"
    gcs = "wget --tries 1 -T 10 -q -O- http://localhost:8265/api/gcs_healthz | grep success"
    for pod in worlds["both"].rays[name].pods():
        is_head = labels_of(pod)[NODE_TYPE] == "head"
        for kind, delay, failures in (("livenessProbe", 30, 120), ("readinessProbe", 10, 10)):
            assert pod["spec"]["containers"][0][kind] == {
                "exec": {"command": ["bash", "-c", f"{raylet} && {gcs}" if is_head else raylet]},
                "initialDelaySeconds": delay,
                "periodSeconds": 5,
                "timeoutSeconds": 5 if is_head else 2,
                "successThreshold": 1,
                "failureThreshold": failures,
            }


@names_of
def test_workers_wait_for_the_head_in_an_init_container(worlds, name):
    ray = worlds["both"].rays[name]
    address = f"{NAME}-head-svc.{ray.ns}.svc.cluster.local:6379"
    for pod in ray.workers():
        (init,) = pod["spec"]["initContainers"]
        assert (init["name"], init["image"]) == ("wait-gcs-ready", IMAGE)
        assert f"ray health-check --address {address}" in init["args"][0]
        assert "google.com/tpu" not in init["resources"].get("limits", {}), "it must not take the chips"
    (head,) = ray.heads()
    assert "initContainers" not in head["spec"]


@ways
@names_of
def test_hosts_of_a_slice_share_a_node_pool_and_no_other_slice_is_there(worlds, way, name):
    ray = worlds[way].rays[name]
    for pod in ray.workers():
        assert_slice_affinity(pod)
        assert {ACCELERATOR, TOPOLOGY} == set(pod["spec"]["nodeSelector"])


def assert_slice_affinity(pod):
    """Ours is among the required terms: together with its own slice, apart from all others."""
    replica = labels_of(pod)[REPLICA_NAME]
    same = [{"key": CLUSTER, "operator": "In", "values": [labels_of(pod)[CLUSTER]]}]
    own = {"key": REPLICA_NAME, "operator": "In", "values": [replica]}
    others = {"key": REPLICA_NAME, "operator": "NotIn", "values": [replica]}
    any_slice = {"key": REPLICA_NAME, "operator": "Exists"}
    foreign = [{"key": CLUSTER, "operator": "NotIn", "values": [labels_of(pod)[CLUSTER]]}]

    def terms(kind):
        required = pod["spec"]["affinity"][kind]["requiredDuringSchedulingIgnoredDuringExecution"]
        return [t["labelSelector"]["matchExpressions"] for t in required if t["topologyKey"] == NODE_POOL]

    assert same + [own] in terms("podAffinity")
    assert same + [any_slice, others] in terms("podAntiAffinity")
    assert foreign + [any_slice] in terms("podAntiAffinity")


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
USERS_TERM = {"labelSelector": {"matchLabels": {"app": "cache"}}, "topologyKey": "topology.kubernetes.io/zone"}
USERS_NODES = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "pool", "operator": "In", "values": ["tpu"]}]}]}
USERS_AFFINITY = {
    "podAffinity": {REQUIRED: [USERS_TERM], PREFERRED: [{"weight": 7, "podAffinityTerm": USERS_TERM}]},
    "podAntiAffinity": {PREFERRED: [{"weight": 9, "podAffinityTerm": USERS_TERM}]},
    "nodeAffinity": {REQUIRED: USERS_NODES},
}


@ways
def test_slice_affinity_is_merged_into_the_users(cluster, namespace, start_operator, way):
    start_operator(cluster, watch_namespaces=[namespace], **WAYS[way])
    group = tpu_group()
    group["template"]["spec"]["affinity"] = USERS_AFFINITY
    ray = RayCluster.create(cluster, namespace, raycluster("merged", group))
    for pod in ray.wait_pods(workers=4):
        affinity = pod["spec"]["affinity"]
        assert affinity["nodeAffinity"] == USERS_AFFINITY["nodeAffinity"]
        for kind in ("podAffinity", "podAntiAffinity"):
            assert affinity[kind][PREFERRED] == USERS_AFFINITY[kind][PREFERRED]
        assert len(affinity["podAffinity"][REQUIRED]) == 2
        assert affinity["podAffinity"][REQUIRED][0] == USERS_TERM
        assert len(affinity["podAntiAffinity"][REQUIRED]) == 2
        assert_slice_affinity(pod)


def test_1642_every_name_a_worker_is_told_is_in_the_dns_of_the_cluster(cluster, worlds):
    """CoreDNS serves HOSTNAME.SERVICE from the hostnames of the Service's EndpointSlices."""
    ray = worlds["both"].rays["tutorial_a_v6e_4x4"]
    workers = ray.workers()
    told = env_of(workers[0])["TPU_WORKER_HOSTNAMES"]["value"].split(",")
    for pod in workers:
        cluster.bind_pod(ray.ns, pod["metadata"]["name"])
        cluster.set_pod_status(ray.ns, pod["metadata"]["name"], ready=False)

    def served():
        selector = f"kubernetes.io/service-name={NAME}-headless"
        slices = cluster.get_json("endpointslices", ns=ray.ns, selector=selector)
        endpoints = [e for s in slices for e in s["endpoints"] or []]
        return sorted(f"{e['hostname']}.{NAME}-headless" for e in endpoints if "hostname" in e)

    wait_until(lambda: served() == told, f"endpoints for {told}")


# --- the worked example of facts about TPU v4


def test_the_v4_example_is_built_as_written_down(cluster, namespace, operator):
    manifest = yaml.safe_load((FIXTURES / "raycluster_v4_multihost.yaml").read_text())
    name = manifest["metadata"]["name"]
    manifest["metadata"] = {"name": name}
    ray = RayCluster.create(cluster, namespace, manifest)
    workers = ray.wait_pods(workers=2)

    ports = [(p["name"], p["port"]) for p in ray.services()[f"{name}-head-svc"]["spec"]["ports"]]
    assert ports == [
        ("client", 10001),
        ("dashboard", 8265),
        ("gcs", 6379),
        ("metrics", 8080),
        ("mxla", 8081),
        ("serve", 8000),
        ("slicebuilder", 8471),
    ]
    (head,) = ray.heads()
    assert head["metadata"]["annotations"]["ray.io/ft-enabled"] == "false"
    assert head["spec"]["containers"][0]["args"] == [
        "ulimit -n ${RAY_START_ULIMIT_OPEN_FILES:-65536}; ray start --head  --block "
        " --dashboard-agent-listen-port=52365  --dashboard-host=0.0.0.0  --memory=40000000000 "
        " --metrics-export-port=8080  --num-cpus=8 "
    ]
    assert {"name": "shared-mem", "emptyDir": {"medium": "Memory", "sizeLimit": "40G"}} in head["spec"]["volumes"]
    for pod in workers:
        assert pod["spec"]["containers"][0]["args"] == [
            f"ulimit -n ${{RAY_START_ULIMIT_OPEN_FILES:-65536}}; ray start  --address={name}-head-svc.{namespace}.svc."
            "cluster.local:6379  --block  --dashboard-agent-listen-port=52365  --memory=40000000000 "
            " --metrics-export-port=8080  --num-cpus=1  --resources='{\"TPU\":4}' "
        ]
        assert env_of(pod)["TORCH_TPU_TOPOLOGY"]["value"] == "2,2,2"
    status = ray.run()
    expected = {
        "desiredWorkerReplicas": 2,
        "minWorkerReplicas": 2,
        "maxWorkerReplicas": 2,
        "availableWorkerReplicas": 2,
        "readyWorkerReplicas": 2,
        "desiredCPU": "10",
        "desiredMemory": "120G",
        "desiredGPU": "0",
        "desiredTPU": "8",
        "endpoints": {
            "client": "10001",
            "dashboard": "8265",
            "gcs": "6379",
            "metrics": "8080",
            "mxla": "8081",
            "serve": "8000",
            "slicebuilder": "8471",
        },
    }
    assert {k: status[k] for k in expected} == expected
    assert status["head"]["serviceIP"] == status["head"]["podIP"]
