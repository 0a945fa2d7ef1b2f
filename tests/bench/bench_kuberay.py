"""Nearly the same work done by KubeRay's operator, as it comes: what users compare us with. Its RayClusters are plain, for
it does not know all that ours have switched on."""

import time

from workload_controllers import Controller, apply_crds, build_workloads

NAMESPACE = "bench-kuberay"
STARTS = 3
ROUNDS = 2


class KubeRay(Controller):
    """With its default flags, for one namespace."""

    def __init__(self, cluster, tools, directory):
        super().__init__(cluster, "kuberay", tools / "kuberay", [], directory)
        self.command += [f"--health-probe-bind-address=127.0.0.1:{self.health_port}", "--metrics-addr=0"]
        self.command += [f"--watch-namespace={NAMESPACE}", "--leader-election-namespace=default"]

    def start(self):
        begin = time.monotonic()
        super().start()
        self.ready_seconds = time.monotonic() - begin
        return self


class Figures:
    """What the table compares; milliseconds and MiB."""

    def __init__(self, start, creation, after, many, many_ms):
        self.start, self.creation, self.after, self.many, self.many_ms = start, creation, after, many, many_ms


def measure(bench, say, tell, resident, ray_cluster, pods, clusters, rest_s):
    """Creates what the operator was given, in the same way."""
    say(f"\nKubeRay's operator, {ROUNDS} rounds of the same RayCluster, then {clusters} of them at once")
    tools = build_workloads()
    crds = "ray.io_rayjobs", "ray.io_rayservices", "ray.io_raycronjobs"
    apply_crds(bench.cluster, tools, "kuberay/crd/bases", *crds)
    bench.cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    kuberay = KubeRay(bench.cluster, tools, bench.directory / "kuberay")
    starts, creations = [], []
    try:
        for _ in range(STARTS):
            kuberay.start()
            starts.append(kuberay.ready_seconds * 1000)
            kuberay.stop()
        start = tell("from fork to the first good answer of /readyz", starts)
        kuberay.start()
        for round_ in range(ROUNDS):
            creations.append(bench.create([ray_cluster(f"bench-{round_}", everything=False)], NAMESPACE, pods))
            bench.empty(NAMESPACE)
        creation = tell("create to the last Pod stored", creations)
        time.sleep(rest_s)
        after = resident(kuberay, "after that")
        many = [ray_cluster(f"bench-{i}", everything=False) for i in range(clusters)]
        ms = bench.create(many, NAMESPACE, clusters * pods, "--parallel=4")
        say(f"  {clusters * pods} Pods in {ms / 1000:.1f} s: {clusters * pods / ms * 1000:.0f} Pods/s")
        time.sleep(rest_s)
        full = resident(kuberay, f"after creating {clusters * pods} Pods")
    finally:
        kuberay.stop()
    return Figures(start, creation, after, full, ms)
