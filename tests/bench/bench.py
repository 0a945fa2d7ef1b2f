"""The measurements that need a control plane, and the one table at the end.

    bench.py DIR BIN ADMISSION

DIR: a running control plane (tests/tools/controlplane.sh), nothing on it but our CRD. BIN: where bench_api, raytpu and
ray-tpu-operator were built. ADMISSION: what bench_admission printed. Everything is compared within this one run, on this
one machine; figures of two runs are not comparable, their ratios are.
"""

import copy
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

from cluster import Cluster, ControlPlane, wait_until  # noqa: E402
from operator_process import Operator  # noqa: E402

MIB = 1 << 20
STARTS = 9
ROUNDS = 5
SLICES, HOSTS = 4, 64  # replicas of the measured cluster, and hosts of a 16x16 v6e slice
MANY_PODS = 5000
UPDATES = 5000
POD_COUNT = SLICES * HOSTS + 1
OURS, PLAIN = "bench-operator", "bench-plain"  # namespaces

# Ways to post the same Pods; the fastest is the reference.
CLIENTS = {
    "64 HTTP/1.1 connections": ["--http=1", "--parallel=64"],
    "1 HTTP/2 connection, 64 streams": ["--http=2", "--parallel=64", "--connections=1"],
    "4 HTTP/2 connections, 32 streams": ["--http=2", "--parallel=32", "--connections=4"],
    "8 HTTP/2 connections, 64 streams": ["--http=2", "--parallel=64", "--connections=8"],
}


def say(text):
    print(text, flush=True)


def tell(what, values, unit="ms"):
    """One line with every value seen, and returns the median."""
    middle = statistics.median(values)
    say(f"  {what}: median {middle:.0f} {unit}, seen {' '.join(f'{v:.0f}' for v in sorted(values))}")
    return middle


class Bench:
    def __init__(self, directory, build):
        control_plane = ControlPlane(directory)
        self.build = pathlib.Path(build)
        self.cluster = Cluster(control_plane, self.build)
        self.api = self.cluster.api
        self.directory = pathlib.Path(directory)
        self.server = f"https://{self.api.host}:{self.api.port}"
        for ns in (OURS, PLAIN):
          if not self.cluster.exists("Namespace", ns):
            self.cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": ns}})

    def operator(self, **options):
        return Operator(
            self.cluster, directory=self.directory, log_level="info", leader_elect=True, watch_namespaces=[OURS], **options
        )

    def send(self, requests, *flags, watch=None, stored=1):
        """Sends [(method, path, content type, object)] by bench_api; returns (ms to last answer, ms to last stored)."""
        command = [str(self.build / "bench" / "bench_api"), f"--server={self.server}", *flags]
        command += [f"--pki={self.directory / 'pki'}"]
        if watch:
            command += [f"--watch={watch}?watch=true", f"--stored={stored}"]
        lines = "".join(f"{m} {p} {t} {json.dumps(o, separators=(',', ':'))}\n" for m, p, t, o in requests)
        done = subprocess.run(command, input=lines, stdout=subprocess.PIPE, text=True, timeout=180)
        figures = dict(re.findall(r"(\w+)=([0-9.]+)", done.stdout))
        if done.returncode != 0:
            raise RuntimeError(f"bench_api failed: {done.stdout.strip()}")
        return float(figures["answered_ms"]), float(figures["stored_ms"])

    def create(self, objects, *flags, ns, **options):
        return self.send([("POST", self.path(o["kind"], ns), "application/json", o) for o in objects], *flags, **options)

    def path(self, kind, ns):
        group = "ray.io" if kind == "RayCluster" else ""
        return self.api.resource(f"{kind}.{group}").path(ns)

    def pods(self, ns):
        return self.api.get(self.path("Pod", ns), limit=1, resourceVersion="0")["items"]

    def empty(self, ns):
        """No garbage collector runs here: it would share the machine with what is measured."""
        self.api.delete(self.path("RayCluster", ns))

        def gone():
            # Again and again: a pass of the operator that was under way may have made some more.
            self.api.delete(self.path("Pod", ns))
            time.sleep(0.2)
            return not self.api.get(self.path("Pod", ns))["items"]

        wait_until(gone, f"no Pods in {ns}", 60)
        for service in self.cluster.get_json("services", ns=ns):
            self.cluster.delete("services", service["metadata"]["name"], ns)
        self.api.delete(self.api.resource("events.events.k8s.io").path(ns))


def ray_cluster(name, replicas, topology="16x16", hosts=HOSTS):
    """The tutorial's cluster on larger slices."""
    text = (TOP / "tests" / "fixtures" / "tutorial_a_v6e_4x4.yaml").read_text()
    cluster = yaml.safe_load(text.replace("${IMAGE_URI}", "example.com/ray:latest"))
    cluster["metadata"]["name"] = name
    group = cluster["spec"]["workerGroupSpecs"][0]
    group |= {"groupName": "slices", "replicas": replicas, "maxReplicas": replicas, "numOfHosts": hosts}
    group["template"]["spec"]["nodeSelector"]["cloud.google.com/gke-tpu-topology"] = topology
    return cluster


def rendered_pods(bench, cluster):
    """The Pods of that cluster as the controller creates them, in the namespace where it is not."""
    command = [str(bench.build / "raytpu"), "render", "-f", "-", "-n", PLAIN, "-o", "json"]
    done = subprocess.run(command, input=json.dumps(cluster), stdout=subprocess.PIPE, text=True, check=True)
    pods = [o for o in json.loads(done.stdout)["items"] if o["kind"] == "Pod"]
    owner = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "name": cluster["metadata"]["name"]}
    owner |= {"uid": "705ab4f5-6393-11e8-b7cc-42010a800002", "controller": True, "blockOwnerDeletion": True}
    for pod in pods:
        pod["metadata"]["ownerReferences"] = [owner]
    return pods


# ---- memory ----


def memory(operator):
    """(resident, proportional, private, peak) MiB."""
    proc = pathlib.Path(f"/proc/{operator.process.pid}")
    smaps, status = (proc / "smaps_rollup").read_text(), (proc / "status").read_text()
    kib = {k: int(v) for k, v in re.findall(r"^(\w+):\s+(\d+) kB", smaps + status, re.M)}
    return kib["Rss"] / 1024, kib["Pss"] / 1024, (kib["Private_Clean"] + kib["Private_Dirty"]) / 1024, kib["VmHWM"] / 1024


def tell_memory(when, operator):
    rss, pss, private, peak = memory(operator)
    say(f"  {when}: resident {rss:.1f} MiB (proportional {pss:.1f}, private {private:.1f}; peak so far {peak:.1f})")
    return rss


# ---- the measurements ----


def measure_start(bench):
    say(f"\nStart to ready on an empty cluster, {STARTS} starts")
    operator = bench.operator()
    seconds = []
    for _ in range(STARTS):
        operator.start()
        seconds.append(operator.ready_seconds * 1000)
        operator.terminate()
    said = [float(ms) for ms in re.findall(r" ready ms=(\d+)", operator.log())]
    tell("by the operator's own clock, from main()", said)
    return tell("from fork to the first 200 of /readyz", seconds)


def measure_creation(bench, operator):
    say(f"\nRayCluster of {SLICES} x {HOSTS} hosts: from create to the last of {POD_COUNT} Pods stored, {ROUNDS} rounds")
    cluster = ray_cluster("bench", SLICES)
    pods = rendered_pods(bench, cluster)
    assert len(pods) == POD_COUNT, f"{len(pods)} Pods rendered instead of {POD_COUNT}"
    ours, plain = [], {name: [] for name in CLIENTS}
    for turn in range(-1, ROUNDS):  # the first is to warm up
        _, ms = bench.create([cluster], ns=OURS, watch=bench.path("Pod", OURS), stored=POD_COUNT)
        ours.append(ms)
        bench.empty(OURS)
        for name, flags in CLIENTS.items():
            _, ms = bench.create(pods, *flags, ns=PLAIN, watch=bench.path("Pod", PLAIN), stored=POD_COUNT)
            plain[name].append(ms)
            bench.empty(PLAIN)
    medians = {name: tell(f"plain client, {name}", values[1:]) for name, values in plain.items()}
    return tell("ray-tpu-operator", ours[1:]), min(medians.values())


def main(directory, build, admission):
    bench = Bench(directory, build)
    measure_start(bench)
    op = bench.operator(**json.loads(os.environ.get("X", "{}")))
    op.start()
    tell_memory("fresh", op)
    try:
      print(measure_creation(bench, op))
      tell_memory("after", op)
      print(open(f"/proc/{op.process.pid}/smaps").read(), file=open("/tmp/nb/smaps","w"))
    finally:
      op.terminate()

if __name__ == "__main__":
    main(*sys.argv[1:4])
