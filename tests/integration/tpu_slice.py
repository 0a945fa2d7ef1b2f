"""What the Pods of a TPU slice must have been told, worked out here from the names of its hosts."""

from cluster import wait_until
from ray_cluster import ACCELERATOR, TOPOLOGY, resources

IMAGE = "registry.example/train:1"


def tpu_template(labels=None, chips="4", topology="4x4", accelerator="tpu-v6e-slice", annotations=None, **spec):
    """A Pod template with one container, on hosts of a v6e slice; chips None: no TPUs."""
    container = {"name": "main", "image": IMAGE}
    if chips:
        container["resources"] = resources(tpu=chips)
        spec["nodeSelector"] = {ACCELERATOR: accelerator, TOPOLOGY: topology} | spec.get("nodeSelector", {})
    return {"metadata": {"labels": labels or {}, "annotations": annotations or {}}, "spec": spec | {"containers": [container]}}


def env_entries(pod, container=0):
    """Name -> entry; a name that comes twice is an error."""
    entries = pod["spec"]["containers"][container].get("env", [])
    names = [e["name"] for e in entries]
    assert len(names) == len(set(names)), f"entries are doubled: {sorted(names)}"
    return {e["name"]: e for e in entries}


def env_values(pod, container=0):
    """Name -> value of the literal entries."""
    return {name: e["value"] for name, e in env_entries(pod, container).items() if "value" in e}


def expected_environment(hosts, index, name, topology="4,4,1", chips=4):
    addresses = ",".join(f"{host}:{8471 + chip}" for host in hosts for chip in range(chips))
    return {
        "TPU_WORKER_ID": str(index),
        "TPU_WORKER_HOSTNAMES": ",".join(hosts),
        "TPU_NAME": name,
        "TORCH_TPU_TOPOLOGY": topology,
        "TORCH_TPU_SLICEBUILDER_ADDRESSES": addresses,
    }


def assert_slice(pods, hosts, name, **expected):
    """The Pods, in host order, are told these hosts, and each has the name under which the others are told of it."""
    assert len(pods) == len(hosts)
    for index, pod in enumerate(pods):
        values = env_values(pod)
        for variable, value in expected_environment(hosts, index, name, **expected).items():
            assert values.get(variable) == value, f"{variable}={values.get(variable)} of {pod['metadata']['name']}"
        assert f"{pod['spec']['hostname']}.{pod['spec']['subdomain']}" == hosts[index]


def assert_untouched(pod):
    """Nothing of ours is in it."""
    containers = pod["spec"]["containers"] + pod["spec"].get("initContainers", [])
    names = {e["name"] for c in containers for e in c.get("env", [])}
    ours = {"TPU_WORKER_ID", "TPU_WORKER_HOSTNAMES", "TPU_NAME", "TORCH_TPU_TOPOLOGY", "TORCH_TPU_SLICEBUILDER_ADDRESSES"}
    assert not names & ours, pod["metadata"]["name"]


def wait_for_pods(cluster, ns, count, selector=None, timeout=60.0):
    """Waits until so many Pods are there, none of them on its way out; by name."""
    def there():
        pods = cluster.get_json("pods", ns=ns, selector=selector)
        live = [p for p in pods if "deletionTimestamp" not in p["metadata"]]
        assert len(live) == len(pods) == count, f"{len(live)} live Pods of {len(pods)}, {count} wanted"
        return sorted(pods, key=lambda p: p["metadata"]["name"])

    return wait_until(there, f"{count} Pods in {ns}", timeout)
