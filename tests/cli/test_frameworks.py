"""What Ray's and JAX's own code makes of the environment that Pods are told, with the device plugin's variables added.

Both are installed once, from PyPI, into a folder next to the other tools; where that cannot be done the tests are
skipped and say so. RAY_TPU_OPERATOR_FRAMEWORKS names a Python that has them already.
"""

import concurrent.futures
import fcntl
import hashlib
import json
import math
import os
import pathlib
import subprocess
import sys

import pytest

from test_raytpu import FIXTURES, raytpu

REQUIREMENTS = ["ray==2.60.0", "jax==0.10.2", "requests"]
PATIENCE = 400  # seconds for the whole installation
PROBE = pathlib.Path(__file__).with_name("framework_probe.py")
ACCELERATOR = "cloud.google.com/gke-tpu-accelerator"
TOPOLOGY = "cloud.google.com/gke-tpu-topology"

# Prefix of TPU_ACCELERATOR_TYPE and TensorCores per chip, by which the device plugin names slices.
GENERATIONS = {"tpu-v6e-slice": ("v6e", 1), "tpu7x": ("tpu7x", 2), "tpu-v4-podslice": ("v4", 2)}


# --- installation


def install(folder):
    """Makes a virtual environment there. Raises OSError or subprocess.SubprocessError with the reason."""
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True, capture_output=True, timeout=120)
    command = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-input"]
    command += ["--disable-pip-version-check", "--only-binary=:all:", "--retries=1", "--timeout=30", *REQUIREMENTS]
    subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE)
    (folder / "complete").touch()


@pytest.fixture(scope="module")
def python():
    if own := os.environ.get("RAY_TPU_OPERATOR_FRAMEWORKS"):
        return own
    cache = os.environ.get("RAY_TPU_OPERATOR_CACHE") or pathlib.Path.home() / ".cache" / "ray-tpu-operator"
    version = "{}.{}".format(*sys.version_info)
    key = hashlib.sha256(" ".join([version, *REQUIREMENTS]).encode()).hexdigest()[:12]
    folder = pathlib.Path(cache) / f"frameworks-{key}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(f"{folder}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            try:
                install(folder)
            except (OSError, subprocess.SubprocessError) as e:
                said = (getattr(e, "stderr", None) or b"").decode(errors="replace").strip()
                pytest.skip(f"Ray and JAX could not be installed: {e} {said[-300:]}")
    return str(folder / "bin" / "python")


# --- Pods


def lws():
    spec = {"replicas": 2, "leaderWorkerTemplate": {"size": 4, "workerTemplate": template("4x4")}}
    return workload("LeaderWorkerSet", "leaderworkerset.x-k8s.io/v1", "serve", spec)


def jobset():
    job = {"spec": {"parallelism": 8, "completions": 8, "template": template("4x8", restartPolicy="Never")}}
    spec = {"replicatedJobs": [{"name": "slice", "replicas": 2, "template": job}]}
    return workload("JobSet", "jobset.x-k8s.io/v1alpha2", "multi", spec)


def single():
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "single-v6e8"}} | template("2x4", chips=8)


def workload(kind, version, name, spec):
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}


def template(topology, chips=4, **spec):
    container = {"name": "main", "image": "i", "resources": {"limits": {"google.com/tpu": chips}}}
    selector = {ACCELERATOR: "tpu-v6e-slice", TOPOLOGY: topology}
    return {"spec": spec | {"containers": [container], "nodeSelector": selector}}


def fixture(name):
    return (FIXTURES / name).read_text().replace("${IMAGE_URI}", "i")


SOURCES = {
    "job": lambda: fixture("indexed_job_v6e_4x4.yaml"),
    "tutorial": lambda: fixture("tutorial_a_tpu7x_2x2x2.yaml"),
    "v4": lambda: fixture("raycluster_v4_multihost.yaml"),
    "lws": lambda: json.dumps(lws()),
    "jobset": lambda: json.dumps(jobset()),
    "single": lambda: json.dumps(single()),
}


def plugin(pod):
    """The device plugin's part of what a container sees."""
    selector = pod["spec"]["nodeSelector"]
    prefix, cores = GENERATIONS[selector[ACCELERATOR]]
    chips = math.prod(map(int, selector[TOPOLOGY].split("x")))
    return {"TPU_ACCELERATOR_TYPE": f"{prefix}-{chips * cores}", "TPU_TOPOLOGY": selector[TOPOLOGY]}


def tpu_pods(source):
    """The environment of every TPU container, in the order in which the controllers make the Pods."""
    result = raytpu("inject", "-f", "-", "-o", "json", stdin=SOURCES[source]())
    found = []
    for pod in result.items:
        for container in pod["spec"]["containers"]:
            if "google.com/tpu" in container.get("resources", {}).get("limits", {}):
                entries = container.get("env", [])
                found.append(plugin(pod) | {e["name"]: e["value"] for e in entries if "value" in e})
    return found


@pytest.fixture(scope="module")
def answers(python):
    """answers(source): (environment, what Ray and JAX say) of its Pods."""
    known = {}
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("TPU_", "MEGASCALE_", "TORCH_", "RAY_", "JAX_"))}

    def ask(env):
        # PATH and the like, and the variables of interest; JAX's platforms are of no concern here.
        wanted = {k: v for k, v in env.items() if k.startswith(("TPU_", "MEGASCALE_"))}
        command = [python, str(PROBE)]
        done = subprocess.run(command, env=clean | wanted, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr[-2000:]
        return env, json.loads(done.stdout.splitlines()[-1])

    def of(source):
        if source not in known:
            with concurrent.futures.ThreadPoolExecutor(2) as pool:
                known[source] = list(pool.map(ask, tpu_pods(source)))
        return known[source]

    return of


# --- Ray

# Which of the source's TPU Pods; name, id, pod type, topology.
RAY_CASES = [
    ("job", 0, "train-v6e16", 0, "v6e-16", "4x4"),
    ("job", 3, "train-v6e16", 3, "v6e-16", "4x4"),
    ("jobset", 8, "multi-slice-1", 0, "v6e-32", "4x8"),
    ("jobset", 13, "multi-slice-1", 5, "v6e-32", "4x8"),
    ("lws", 6, "serve-1", 2, "v6e-16", "4x4"),
    ("tutorial", 0, "tpu7x-16-0", 0, "v7x-16", "2x2x2"),
    ("tutorial", 1, "tpu7x-16-0", 1, "v7x-16", "2x2x2"),
    ("single", 0, "single-v6e8", 0, "v6e-8", "2x4"),
]


@pytest.mark.parametrize("source, index, name, worker, pod_type, topology", RAY_CASES)
def test_ray_knows_the_slice(answers, source, index, name, worker, pod_type, topology):
    _, answer = answers(source)[index]
    ray = answer["ray"]
    assert (ray["name"], ray["worker_id"], ray["pod_type"]) == (name, worker, pod_type)
    resources = {name: 1} | ({f"TPU-{pod_type}-head": 1} if worker == 0 else {})
    assert ray["resources"] == resources
    labels = {k: v for k, v in ray["labels"].items() if "subslice" not in k}
    assert labels == {
        "ray.io/tpu-slice-name": name,
        "ray.io/tpu-worker-id": str(worker),
        "ray.io/tpu-topology": topology,
        "ray.io/tpu-pod-type": pod_type,
    }


SLICES = {"job": 1, "jobset": 2, "lws": 2, "tutorial": 1, "v4": 1, "single": 1}


@pytest.mark.parametrize("source, slices", SLICES.items())
def test_ray_finds_whole_slices(answers, source, slices):
    """One head each, every worker once, and as many as Ray itself counts."""
    by_name = {}
    for _, answer in answers(source):
        by_name.setdefault(answer["ray"]["name"], []).append(answer["ray"])
    assert len(by_name) == slices
    for nodes in by_name.values():
        assert sorted(node["worker_id"] for node in nodes) == list(range(len(nodes)))
        assert {node["workers"] for node in nodes} == {len(nodes)}
        assert sum(any(r.endswith("-head") for r in node["resources"]) for node in nodes) == 1


# --- JAX


@pytest.mark.parametrize("source", ["job", "jobset", "tutorial", "single"])
def test_jax_numbers_the_processes_without_holes(answers, source):
    found = [answer["jax"] for _, answer in answers(source)]
    assert all(jax["present"] for jax in found)
    assert [jax["process_id"] for jax in found] == list(range(len(found)))
    assert {jax["process_count"] for jax in found} == {len(found)}


@pytest.mark.parametrize("source", ["job", "jobset", "tutorial"])
def test_jax_meets_at_process_0(answers, source):
    found = answers(source)
    first = found[0][0]["TPU_WORKER_HOSTNAMES"].split(",")[0]
    assert {answer["jax"]["coordinator"].partition(":")[0] for _, answer in found} == {first}


def test_jax_sees_each_group_of_a_leaderworkerset_by_itself(answers):
    found = [answer["jax"] for _, answer in answers("lws")]
    assert [jax["process_id"] for jax in found] == [*range(4), *range(4)]
    assert {jax["process_count"] for jax in found} == {4}
