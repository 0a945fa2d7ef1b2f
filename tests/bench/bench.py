"""The measurements that need a control plane, and the one table at the end.

    bench.py DIRECTORY BUILD ADMISSION

DIRECTORY is that of a running control plane (tests/tools/controlplane.sh) with nothing on it but our CRD, BUILD where the
binaries were built, ADMISSION the file with what bench_admission printed. Ours and the reference are measured in turns, in
one run, on one machine: the ratios can be compared between runs and machines, the figures cannot.
"""

import contextlib
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import time

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tests" / "integration"))

import yaml  # noqa: E402

import bench_kuberay  # noqa: E402
from cluster import Cluster, ControlPlane, build_tools, wait_until  # noqa: E402
from operator_process import Operator  # noqa: E402

STARTS = 9
ROUNDS = 5
SLICES, HOSTS = 4, 64  # replicas of a measured cluster, and hosts of a 16x16 v6e slice
PODS = SLICES * HOSTS + 1
MANY = 20  # clusters of that size, for 5,000 Pods and some
UPDATES = 2000  # of these Pods
REST_S = 4  # until memory is looked at: a burst's memory goes back to the system a second or two after its end
OURS, PLAIN = "bench-operator", "bench-plain"  # namespaces

# Ways of a plain client to post the same Pods; the fastest is the reference.
CLIENTS = {
    "64 HTTP/1.1 connections": ["--http=1", "--parallel=64"],
    "1 HTTP/2 connection, 64 streams": ["--http=2", "--parallel=64", "--connections=1"],
    "4 HTTP/2 connections, 64 streams": ["--http=2", "--parallel=64", "--connections=4"],
}


def say(text):
    print(text, flush=True)


def cpu_ms(*pids):
    """What these processes have used so far."""
    ticks = 0
    for pid in pids:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks * 1000 / os.sysconf("SC_CLK_TCK")


def tell(what, values):
    """One line with every value seen; returns the median."""
    middle = statistics.median(values)
    say(f"  {what}: median {middle:.0f} ms; seen {' '.join(f'{v:.0f}' for v in sorted(values))}")
    return middle


class Bench:
    def __init__(self, directory, build):
        self.directory, self.build = pathlib.Path(directory), pathlib.Path(build)
        self.cluster = Cluster(ControlPlane(directory), build_tools())
        self.api = self.cluster.api
        started = dict(line.split()[:2] for line in (self.directory / "pids").read_text().splitlines())
        self.servers = [int(started[name]) for name in ("etcd", "kube-apiserver")]
        for name in (OURS, PLAIN):
            self.cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})

    @contextlib.contextmanager
    def operator(self):
        """One with both its jobs, as installed; not started yet."""
        operator = Operator(
            self.cluster, directory=self.directory, log_level="info", leader_elect=True, watch_namespaces=[OURS]
        )
        try:
            yield operator
            if operator.running():
                operator.terminate()
        finally:
            operator.kill9()

    def path(self, kind, ns, name=None, subresource=None):
        group = "ray.io" if kind == "RayCluster" else ""
        return self.api.resource(f"{kind}.{group}").path(ns, name, subresource)

    def send(self, requests, *flags):
        """Sends [(method, path, content type, object)] by bench_api; returns (ms to last answer, ms to last stored)."""
        command = [str(self.build / "bench" / "bench_api"), f"--server=https://{self.api.host}:{self.api.port}", *flags]
        command.append(f"--pki={self.directory / 'pki'}")
        lines = "".join(f"{m} {p} {t} {json.dumps(o, separators=(',', ':'))}\n" for m, p, t, o in requests)
        done = subprocess.run(command, input=lines, stdout=subprocess.PIPE, text=True, timeout=300)
        if done.returncode != 0:
            raise RuntimeError(f"bench_api: exit {done.returncode}, its reason is above")
        figures = dict(re.findall(r"(\w+)=([0-9.]+)", done.stdout))
        return float(figures["answered_ms"]), float(figures["stored_ms"])

    def create(self, objects, ns, pods, *flags):
        """POSTs them; returns the ms until so many Pods were seen to be stored in ns."""
        requests = [("POST", self.path(o["kind"], ns), "application/json", o) for o in objects]
        watch = [f"--watch={self.path('Pod', ns)}?watch=true", f"--stored={pods}"]
        return self.send(requests, *watch, *flags)[1]

    def empty(self, ns):
        """There is no garbage collector: it would share the machine with what is measured."""
        self.api.delete(self.path("RayCluster", ns))

        def gone():
            # Again and again: the operator may have been about to make some more.
            self.api.delete(self.path("Pod", ns))
            time.sleep(0.2)
            return not self.api.get(self.path("Pod", ns))["items"]

        wait_until(gone, f"no Pods in {ns}", 60)
        for kind in CHILDREN:
            self.api.delete(self.api.resource(kind).path(ns))
        for claim in self.cluster.get_json("persistentvolumeclaims", ns=ns):  # whose finalizer nobody serves either
            self.cluster.patch("persistentvolumeclaims", claim["metadata"]["name"], {"metadata": {"finalizers": None}}, ns)
        for service in self.cluster.get_json("services", ns=ns):
            self.cluster.delete("services", service["metadata"]["name"], ns)
        self.api.delete(self.api.resource("events.events.k8s.io").path(ns))


# What a RayCluster may switch on that gives it more objects, longer Pods or more to watch.
EVERYTHING = {
    "rayVersion": "2.53.0",
    "enableInTreeAutoscaling": True,
    "autoscalerOptions": {"version": "v2", "idleTimeoutSeconds": 60},
    "authOptions": {"mode": "token"},
    "networkPolicy": {},
    "gcsFaultToleranceOptions": {"backend": "rocksdb"},
    "upgradeStrategy": {"type": "Recreate"},
}
# The objects this comes to, beside Pods and Services.
CHILDREN = (
    "serviceaccounts", "roles.rbac.authorization.k8s.io", "rolebindings.rbac.authorization.k8s.io", "secrets",
    "networkpolicies.networking.k8s.io", "ingresses.networking.k8s.io", "persistentvolumeclaims",
)


def ray_cluster(name, everything=True):
    """The tutorial's cluster, of larger slices and with everything switched on."""
    text = (TOP / "tests" / "fixtures" / "tutorial_a_v6e_4x4.yaml").read_text()
    cluster = yaml.safe_load(text.replace("${IMAGE_URI}", "example.com/ray:latest"))
    cluster["metadata"]["name"] = name
    if everything:
        cluster["spec"] |= EVERYTHING
        cluster["spec"]["headGroupSpec"]["enableIngress"] = True
    group = cluster["spec"]["workerGroupSpecs"][0]
    group |= {"groupName": "slices", "replicas": SLICES, "minReplicas": 0, "maxReplicas": SLICES, "numOfHosts": HOSTS}
    group["template"]["spec"]["nodeSelector"]["cloud.google.com/gke-tpu-topology"] = "16x16"
    return cluster


def rendered_pods(bench, cluster):
    """The Pods of that cluster, as the controller would create them."""
    command = [str(bench.build / "raytpu"), "render", "-f", "-", "-n", PLAIN, "-o", "json"]
    done = subprocess.run(command, input=json.dumps(cluster), stdout=subprocess.PIPE, text=True, check=True, timeout=60)
    pods = [o for o in json.loads(done.stdout)["items"] if o["kind"] == "Pod"]
    assert len(pods) == PODS, f"{len(pods)} Pods rendered instead of {PODS}"
    # Offline no RayCluster has a uid; any will do where no garbage collector looks for its owner.
    owner = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "name": cluster["metadata"]["name"]}
    owner |= {"uid": "705ab4f5-6393-11e8-b7cc-42010a800002", "controller": True, "blockOwnerDeletion": True}
    for pod in pods:
        pod["metadata"]["ownerReferences"] = [owner]
    return pods


def resident(operator, when):
    """Resident MiB, with a line that says what they are made of."""
    proc = pathlib.Path(f"/proc/{operator.process.pid}")
    text = (proc / "smaps_rollup").read_text() + (proc / "status").read_text()
    mib = {name: int(kib) / 1024 for name, kib in re.findall(r"^(\w+):\s+(\d+) kB", text, re.M)}
    private = mib["Private_Clean"] + mib["Private_Dirty"]
    say(
        f"  {when}: resident {mib['Rss']:.1f} MiB; proportional {mib['Pss']:.1f}, private {private:.1f};"
        f" peak so far {mib['VmHWM']:.1f}"
    )
    return mib["Rss"]


# --- the measurements


def measure_start(bench):
    say(f"\nStart to ready on an empty cluster, {STARTS} starts")
    seen = []
    with bench.operator() as operator:
        for _ in range(STARTS):
            operator.start()
            seen.append(operator.ready_seconds * 1000)
            operator.terminate()
        own = [float(ms) for ms in re.findall(r" ready ms=(\d+)", operator.log())]
    tell("by its own clock, from main() on", own)
    return tell("from fork to the first good answer of /readyz", seen)


def measure_creation(bench, operator):
    say(f"\nRayCluster of {SLICES} x {HOSTS} hosts, create to the last of {PODS} Pods stored, {ROUNDS} rounds in turns")
    cluster = ray_cluster("bench")
    pods = rendered_pods(bench, cluster)
    ours, plain, used = [], {name: [] for name in CLIENTS}, {}

    def measure(name, seen, pids, *create):
        before = cpu_ms(*pids)
        seen.append(bench.create(*create))
        used.setdefault(name, []).append(cpu_ms(*pids) - before)

    for _ in range(ROUNDS + 1):  # the first round warms everything up
        own = cpu_ms(operator.process.pid)
        measure("ray-tpu-operator", ours, [*bench.servers, operator.process.pid], [cluster], OURS, PODS)
        used.setdefault("of which the operator", []).append(cpu_ms(operator.process.pid) - own)
        bench.empty(OURS)
        for name, flags in CLIENTS.items():
            measure(f"plain client, {name}", plain[name], bench.servers, pods, PLAIN, PODS, *flags)
            bench.empty(PLAIN)
    reference = min(tell(f"plain client, {name}", values[1:]) for name, values in plain.items())
    result = tell("ray-tpu-operator", ours[1:]), reference
    say("  processor time of API server, etcd and operator until then")
    for name, values in used.items():
        tell(f"  {name}", values[1:])
    return result


def running(number):
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": now}
    ip = f"10.64.{number >> 8}.{number & 255}"
    return {"status": {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}], "conditions": [ready]}}


def measure_many(bench, operator):
    """Resident MiB with all those Pods: created, updated, and listed by a fresh start; the largest counts."""
    count = MANY * PODS
    ms = bench.create([ray_cluster(f"bench-{i}") for i in range(MANY)], OURS, count, "--parallel=4")
    say(f"  {MANY} RayClusters, {count} Pods in {ms / 1000:.1f} s: {count / ms * 1000:.0f} Pods/s")
    time.sleep(REST_S)
    seen = [resident(operator, f"after creating {count} Pods")]
    names = [p["metadata"]["name"] for p in bench.api.get(bench.path("Pod", OURS))["items"]]
    patch = "application/merge-patch+json"
    updates = [("PATCH", bench.path("Pod", OURS, n, "status"), patch, running(i)) for i, n in enumerate(names[:UPDATES])]
    bench.send(updates)
    time.sleep(REST_S)
    seen.append(resident(operator, f"after a change of {UPDATES} of them"))
    operator.terminate()
    operator.start()
    seen.append(resident(operator, f"fresh, ready after {operator.ready_seconds * 1000:.0f} ms"))
    return max(seen), ms


# --- the table


class Table:
    def __init__(self):
        self.rows = []

    def add(self, what, ours, reference, limit, value=None, at_least=False):
        """value: the ratio; else ours is what is compared with the limit."""
        shown, value = (f"{value:.2f}", value) if value is not None else ("", float(ours))
        met = value >= limit if at_least else value <= limit
        target = f"{'>=' if at_least else '<='} {limit:g}"
        self.rows.append((what, ours, reference, shown, target, "met" if met else "MISSED"))

    def compare(self, what, ours, theirs, digits=0):
        """Beside KubeRay: nothing to meet."""
        self.rows.append((what, f"{ours:.{digits}f}", f"{theirs:.{digits}f}", f"{ours / theirs:.2f}", "", ""))

    def print(self):
        rows = [("", "ours", "reference", "ratio", "target", ""), *self.rows]
        widths = [max(len(row[i]) for row in rows) for i in range(6)]
        say("")
        for row in rows:
            cells = [row[0].ljust(widths[0]), *(row[i].rjust(widths[i]) for i in range(1, 5)), row[5]]
            say("  ".join(cells).rstrip())


def add_admission(table, text):
    rows = {}
    for name in ("bare server", "ray-tpu-operator", "ratio"):
        found = re.search(rf"^{name}.*?\s([0-9.]+)\s+([0-9.]+)\s+([0-9.]+)(?:\s+[0-9.]+)?$", text, re.M)
        if not found:
            raise RuntimeError(f"bench_admission printed no line '{name}': {text}")
        rows[name] = [float(v) for v in found.groups()]
    bare, ours, ratio = (rows[n] for n in ("bare server", "ray-tpu-operator", "ratio"))
    table.add("admission, requests/s", f"{ours[0]:.0f}", f"{bare[0]:.0f}", 0.5, ratio[0], at_least=True)
    table.add("admission, p99 ms", f"{ours[2]:.2f}", f"{bare[2]:.2f}", 3, ratio[2])


def main(directory, build, admission):
    table = Table()
    add_admission(table, pathlib.Path(admission).read_text())
    bench = Bench(directory, build)
    start = measure_start(bench)
    with bench.operator() as operator:
        operator.start().wait_webhook()
        say("\nMemory")
        resident(operator, "after the start")
        ours, reference = measure_creation(bench, operator)
        say("\nMemory")
        time.sleep(REST_S)
        after = resident(operator, "after that")
        many, many_ms = measure_many(bench, operator)
    table.add(f"{SLICES} x {HOSTS} hosts, ms to the last Pod", f"{ours:.0f}", f"{reference:.0f}", 1.5, ours / reference)
    table.add("resident MiB afterwards", f"{after:.1f}", "", 16)
    table.add(f"resident MiB with {MANY * PODS} Pods", f"{many:.1f}", "", 24)
    table.add("start to ready, ms", f"{start:.0f}", "", 100)
    kuberay = bench_kuberay.measure(bench, say, tell, resident, ray_cluster, PODS, MANY, REST_S)
    count = MANY * PODS
    table.compare("beside KubeRay: 4 x 64 hosts, ms", ours, kuberay.creation)
    table.compare(f"beside KubeRay: {count} Pods, s", many_ms / 1000, kuberay.many_ms / 1000, 1)
    table.compare("beside KubeRay: MiB after 4 x 64 hosts", after, kuberay.after, 1)
    table.compare(f"beside KubeRay: MiB with {count} Pods", many, kuberay.many, 1)
    table.compare("beside KubeRay: start to ready, ms", start, kuberay.start)
    say(f"\n{os.cpu_count()} processors, load average now {os.getloadavg()[0]:.1f}: what others do falls on both sides")
    table.print()


if __name__ == "__main__":
    main(*sys.argv[1:])
