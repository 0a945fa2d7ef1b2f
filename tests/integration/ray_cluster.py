"""RayClusters as the tests make and see them.

    tutorial, raycluster, tpu_group, cpu_group   manifests
    RayCluster                        one RayCluster on the control plane: what it consists of, how it is doing
    watch_pods                        records what happens to its Pods, and asserts what must hold at every moment
"""

import contextlib
import copy
import pathlib

import yaml

from cluster import wait_until
from kube_api import ApiError

FIXTURES = pathlib.Path(__file__).resolve().parents[1] / "fixtures"
IMAGE = "registry.example/ray:2.58.0"
NODE_POOL = "cloud.google.com/gke-nodepool"
ACCELERATOR = "cloud.google.com/gke-tpu-accelerator"
TOPOLOGY = "cloud.google.com/gke-tpu-topology"
CLUSTER = "ray.io/cluster"
GROUP = "ray.io/group"
NODE_TYPE = "ray.io/node-type"
REPLICA_INDEX = "ray.io/worker-group-replica-index"
REPLICA_NAME = "ray.io/worker-group-replica-name"
HOST_INDEX = "ray.io/replica-host-index"


# --- manifests


def tutorial(name):
    """The YAML text of a tutorial's fixture, with its image filled in."""
    return (FIXTURES / f"{name}.yaml").read_text().replace("${IMAGE_URI}", IMAGE)


def raycluster(name, *groups, **spec):
    """A manifest with a small head and these worker groups."""
    container = {"name": "ray-head", "image": IMAGE, "resources": resources(cpu="1", memory="2Gi")}
    head = {"rayStartParams": {}, "template": {"spec": {"containers": [container]}}}
    spec = {"headGroupSpec": head, "workerGroupSpecs": list(groups)} | spec
    return {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": name}, "spec": spec}


def tpu_group(name="v6e", topology="4x4", hosts=4, replicas=1, **fields):
    """A worker group on v6e slices, with 4 chips a host."""
    container = {"name": "ray-worker", "image": IMAGE, "resources": resources(cpu="1", tpu="4")}
    selector = {ACCELERATOR: "tpu-v6e-slice", TOPOLOGY: topology}
    template = {"spec": {"containers": [container], "nodeSelector": selector}}
    return {"groupName": name, "replicas": replicas, "numOfHosts": hosts, "template": template} | fields


def cpu_group(name="cpu", hosts=1, replicas=1, **fields):
    """A worker group without accelerators."""
    container = {"name": "ray-worker", "image": IMAGE, "resources": resources(cpu="1")}
    template = {"spec": {"containers": [container]}}
    return {"groupName": name, "replicas": replicas, "numOfHosts": hosts, "template": template} | fields


def resources(tpu=None, **amounts):
    amounts |= {"google.com/tpu": tpu} if tpu else {}
    return {"limits": dict(amounts), "requests": dict(amounts)}


# --- one RayCluster


class RayCluster:
    """A RayCluster by name; it need not exist yet."""

    def __init__(self, cluster, ns, name):
        self.cluster, self.ns, self.name = cluster, ns, name

    @classmethod
    def create(cls, cluster, ns, manifest):
        """From a manifest (dict or YAML text), by kubectl apply."""
        manifest = yaml.safe_load(manifest) if isinstance(manifest, str) else copy.deepcopy(manifest)
        cluster.kubectl("apply", "-n", ns, "-f", "-", input=yaml.safe_dump(manifest))
        return cls(cluster, ns, manifest["metadata"]["name"])

    # What it consists of

    def get(self):
        return self.cluster.get_json("rayclusters.ray.io", self.name, self.ns)

    def pods(self, live=True, **labels):
        """Its Pods, by name; with live only those that are not being deleted."""
        selector = ",".join([f"{CLUSTER}={self.name}"] + [f"{k}={v}" for k, v in labels.items()])
        pods = self.cluster.get_json("pods", ns=self.ns, selector=selector)
        return sorted((p for p in pods if not live or is_live(p)), key=lambda p: p["metadata"]["name"])

    def heads(self, live=True):
        return self.pods(live, **{NODE_TYPE: "head"})

    def workers(self, live=True):
        """By group, replica index, host index."""
        return sorted(self.pods(live, **{NODE_TYPE: "worker"}), key=place)

    def services(self):
        """By name."""
        services = self.cluster.get_json("services", ns=self.ns)
        return {s["metadata"]["name"]: s for s in services if self.owns(s)}

    def owns(self, o):
        owners = o["metadata"].get("ownerReferences", [])
        return any(r["kind"] == "RayCluster" and r["name"] == self.name for r in owners)

    # How it is doing

    def status(self):
        return self.get().get("status", {})

    def condition(self, kind):
        """Of this type, or {}."""
        return next((c for c in self.status().get("conditions", []) if c["type"] == kind), {})

    def events(self):
        """(type, reason, note) of its events, by time."""
        events = self.cluster.get_json("events.events.k8s.io", ns=self.ns)
        ours = [e for e in events if e["regarding"]["kind"] == "RayCluster" and e["regarding"]["name"] == self.name]
        ours.sort(key=lambda e: e["eventTime"])
        return [(e["type"], e["reason"], e.get("note", "")) for e in ours]

    # Waiting

    def wait_pods(self, heads=1, workers=0, timeout=60.0):
        """Waits until that many are live and no other is left; returns the workers."""

        def arrived():
            pods = self.pods(live=False)
            kinds = [labels_of(p)[NODE_TYPE] for p in pods if is_live(p)]
            counts = kinds.count("head"), kinds.count("worker"), len(pods)
            assert counts == (heads, workers, heads + workers), f"live heads, live workers, all pods: {counts}"
            return pods

        pods = wait_until(arrived, f"{heads} heads and {workers} workers of {self.ns}/{self.name}", timeout)
        return sorted((p for p in pods if labels_of(p)[NODE_TYPE] == "worker"), key=place)

    def wait_status(self, what, timeout=30.0, **fields):
        """Waits until the status has these values; None for a field: it is not there."""

        def reached():
            status = self.status()
            got = {f: status.get(f) for f in fields}
            assert got == fields, f"{got}, conditions {status.get('conditions')}"
            return status

        return wait_until(reached, f"status of {self.ns}/{self.name}: {what}", timeout)

    def wait_condition(self, kind, timeout=30.0, **fields):
        """Waits until the condition has these values (none given: it is not there) and returns it."""

        def reached():
            condition = self.condition(kind)
            assert bool(condition) == bool(fields), condition
            assert all(condition[f] == v for f, v in fields.items()), condition
            return condition or True

        return wait_until(reached, f"condition {kind} of {self.ns}/{self.name}: {fields or 'gone'}", timeout)

    def wait_event(self, reason, *words, timeout=20.0):
        """Waits for an event with this reason whose note has all these words; returns (type, reason, note)."""

        def seen():
            events = self.events()
            found = [e for e in events if e[1] == reason and all(w in e[2] for w in words)]
            assert found, f"no {reason} with {words} in {events}"
            return found[0]

        return wait_until(seen, f"event {reason} of {self.ns}/{self.name}", timeout)

    def wait_seen(self, timeout=30.0):
        """Waits until the operator has acted on the spec as it is now; returns the status that says so."""
        generation = self.get()["metadata"]["generation"]
        return self.wait_status(f"of generation {generation}", timeout, observedGeneration=generation)

    def run(self):
        """Makes its Pods Running and ready, and waits until the status says ready of just these."""
        self.cluster.run_pods(self.ns, f"{CLUSTER}={self.name}")
        (head,), workers = self.heads(), self.workers()

        def ready():
            status = self.status()
            got = status.get("state"), status.get("head", {}).get("podName"), status.get("readyWorkerReplicas")
            assert got == ("ready", head["metadata"]["name"], len(workers)), status
            return status

        return wait_until(ready, f"{self.ns}/{self.name} ready", timeout=30)

    def scale(self, replicas, group=0):
        """Of one worker group, as the Ray autoscaler does: by a JSON patch."""
        patch = [{"op": "replace", "path": f"/spec/workerGroupSpecs/{group}/replicas", "value": replicas}]
        path = self.cluster.api.resource("rayclusters.ray.io").path(self.ns, self.name)
        return self.cluster.api.patch(path, patch, "application/json-patch+json")

    def delete(self, **options):
        self.cluster.delete("rayclusters.ray.io", self.name, self.ns, **options)


# --- Pods


def is_live(pod):
    return "deletionTimestamp" not in pod["metadata"]


def labels_of(pod):
    return pod["metadata"].get("labels", {})


def uids(pods):
    return [p["metadata"]["uid"] for p in pods]


def place(pod):
    """(group, replica index, host index): which host of which slice it is. Index -1: made by KubeRay before 1.6."""
    labels = labels_of(pod)
    return labels[GROUP], int(labels.get(REPLICA_INDEX, -1)), int(labels.get(HOST_INDEX, 0))


def env_of(pod, container=0):
    """Name -> entry of its environment."""
    return {e["name"]: e for e in pod["spec"]["containers"][container].get("env", [])}


def env_value(pod, name, container=0):
    return env_of(pod, container)[name]["value"]


def slices(workers):
    """{(group, replica index): (replica name, [host indices])}; a slice has one name."""
    found = {}
    for pod in sorted(workers, key=place):
        group, index, host = place(pod)
        name, hosts = found.setdefault((group, index), (labels_of(pod)[REPLICA_NAME], []))
        assert name == labels_of(pod)[REPLICA_NAME], f"slice {group} {index} has two names"
        hosts.append(host)
    return found


def assert_whole_slices(workers, expected):
    """expected: {(group, replica index): hosts}. Host indices and worker ids are 0..hosts-1, each once."""
    found = slices(workers)
    assert {key: hosts for key, (_, hosts) in found.items()} == {k: list(range(n)) for k, n in expected.items()}
    assert len({name for name, _ in found.values()}) == len(expected), "slices share a name"
    for pod in workers:
        group, index, host = place(pod)
        assert env_value(pod, "TPU_WORKER_ID") == str(host)
        assert env_value(pod, "TPU_NAME") == f"{group}-{index}"
        assert pod["spec"]["hostname"] == f"{group}-{index}-{host}"


# --- at every moment


class PodHistory:
    """What a watch saw of the Pods of a namespace; it may be behind what a list shows, unless it has caught up."""

    def __init__(self, cluster, ns, watch):
        self._cluster, self._ns, self._watch = cluster, ns, watch

    def catch_up(self):
        """Waits until what is stored by now is in the record."""
        spec = {"containers": [{"name": "c", "image": "c"}]}
        marker = {"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "marker-"}, "spec": spec}
        made = self._cluster.create(marker, self._ns)["metadata"]
        wait_until(lambda: any(o["metadata"]["uid"] == made["uid"] for _, o in self._watch.history()), "the watch sees everything")
        self._cluster.delete("pods", made["name"], self._ns)

    def moments(self):
        """The Pods that exist after each event, the first moment being the list before any."""
        now = {p["metadata"]["uid"]: p for p in self._watch.initial}
        yield now
        for kind, pod in self._watch.history():
            now = dict(now)
            if kind == "DELETED":
                now.pop(pod["metadata"]["uid"], None)
            elif kind in ("ADDED", "MODIFIED"):
                now[pod["metadata"]["uid"]] = pod
            yield now

    def deleted(self):
        """Names of the Pods that went away or were told to."""
        gone = [p for kind, p in self._watch.history() if kind == "DELETED" or not is_live(p)]
        return sorted({p["metadata"]["name"] for p in gone})

    def assert_places_are_unique(self):
        """No two live Pods were the same host, and no slice got the index of another that still had Pods."""
        count = 0
        for count, pods in enumerate(self.moments()):
            hosts, owners, heads = {}, {}, {}
            for pod in pods.values():
                cluster, name = labels_of(pod).get(CLUSTER), pod["metadata"]["name"]
                if labels_of(pod).get(NODE_TYPE) == "head" and is_live(pod):
                    assert heads.setdefault(cluster, name) == name, f"event {count}: {cluster} has two heads"
                if labels_of(pod).get(NODE_TYPE) != "worker":
                    continue
                if is_live(pod):
                    twin = hosts.setdefault((cluster, place(pod)), name)
                    assert twin == name, f"event {count}: {twin} and {name} are both {cluster} {place(pod)}"
                slice_name = labels_of(pod).get(REPLICA_NAME, name)
                owner = owners.setdefault((cluster, place(pod)[:2]), slice_name)
                assert owner == slice_name, f"event {count}: slices {owner} and {slice_name} share {place(pod)[:2]}"
        return count


@contextlib.contextmanager
def watch_pods(cluster, ns):
    """Yields a PodHistory; at the end, if nothing else failed, asserts that places were unique at every moment."""
    with cluster.watch("pods", ns) as watch:
        history = PodHistory(cluster, ns, watch)
        yield history
        history.catch_up()
        history.assert_places_are_unique()


def refused(call, *args):
    """The ApiError of a call that must be refused."""
    try:
        call(*args)
    except ApiError as e:
        return e
    raise AssertionError("it was not refused")
