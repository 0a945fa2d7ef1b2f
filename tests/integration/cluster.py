"""The real control plane of the tests, and what tests do with it.

    ControlPlane   starts and stops tests/tools/controlplane.sh
    Cluster        what tests use: kubectl, apply, get_json, Pod status as a kubelet would write it, a recording watch
    wait_until     bounded polling that says what it was waiting for

Standard library and PyYAML only.
"""

import copy
import os
import pathlib
import re
import shlex
import subprocess
import threading
import time

import yaml

from kube_api import Api, ApiError, Watch

TOOLS = pathlib.Path(__file__).resolve().parent.parent / "tools"
FIELD_MANAGER = "integration-tests"
TPU = "google.com/tpu"

# Under a wrapper such as valgrind everything takes longer; timeouts are only there to end a test that hangs.
WRAPPER = shlex.split(os.environ.get("RAY_TPU_OPERATOR_WRAPPER", ""))
TIMEOUT_SCALE = float(os.environ.get("RAY_TPU_OPERATOR_TIMEOUT_SCALE", "10" if WRAPPER else "1"))


def wait_until(fn, what, timeout=20.0, interval=0.05):
    """Calls fn until it returns something truthy and returns that.

    An ApiError or AssertionError of fn means "not yet". After timeout seconds raises AssertionError with the last one.
    """
    timeout *= TIMEOUT_SCALE
    deadline = time.monotonic() + timeout
    while True:
        try:
            last = fn()
            if last:
                return last
        except (ApiError, AssertionError) as e:
            last = e
        if time.monotonic() >= deadline:
            raise AssertionError(f"{what}: not within {timeout:g} s; last: {_shorten(last)}")
        time.sleep(interval)


def _shorten(value, limit=2000):
    text = str(value) if isinstance(value, Exception) else repr(value)
    return text if len(text) <= limit else f"{text[:limit]}... ({len(text)} characters)"


class ControlPlane:
    """A control plane in a folder of its own. stop() may be repeated; if this process dies, it stops by itself."""

    def __init__(self, directory, crds=()):
        self.directory = pathlib.Path(directory)
        self.kubeconfig = self.directory / "kubeconfig"
        self.crds = [str(c) for c in crds]

    def start(self):
        """Returns the line that controlplane.sh prints; raises RuntimeError with the reason when it does not start."""
        command = [str(TOOLS / "controlplane.sh"), "start", str(self.directory), "--controller-manager"]
        command += ["--owner", str(os.getpid())]
        for crd in self.crds:
            command += ["--crd", crd]
        # In a session of its own, so that an interrupt from the terminal reaches only us and stop() comes in order.
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=300)
        except BaseException:
            # SIGTERM, not SIGKILL: the script then ends what it has started.
            process.terminate()
            process.communicate(timeout=60)
            self.stop()
            raise
        if process.returncode != 0:
            self.stop()
            raise RuntimeError(f"the control plane did not start:\n{output.strip()}")
        return output.strip()

    def restart_apiserver(self):
        """Returns when it answers again. Watches of tests break with it."""
        self._again("restart-apiserver")

    def save_state(self, folder):
        """Keeps what the control plane has, as a backup of etcd does. It is away meanwhile."""
        self._again("save-state", str(folder))

    def restore_state(self, folder):
        """The control plane has what it had then, and counts on from there."""
        self._again("restore-state", str(folder))

    def _again(self, command, *more):
        command = [str(TOOLS / "controlplane.sh"), command, str(self.directory), *more]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        if done.returncode != 0:
            raise RuntimeError(f"the control plane did not come back:\n{done.stdout}{done.stderr}")

    def stop(self):
        subprocess.run([str(TOOLS / "controlplane.sh"), "stop", str(self.directory)], timeout=120, check=False)


def build_tools():
    """The folder of the binaries, built now if need be; its progress (minutes, the first time) goes to stderr."""
    built = subprocess.run([str(TOOLS / "build.sh")], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    if built.returncode != 0:
        raise RuntimeError("the control plane's binaries could not be built; tests/tools/build.sh says why above")
    return pathlib.Path(built.stdout.splitlines()[-1])


class Cluster:
    """A running control plane, as tests see it."""

    def __init__(self, control_plane, bin_dir):
        self.control_plane = control_plane
        self.directory = control_plane.directory
        self.kubeconfig = control_plane.kubeconfig
        self.bin = pathlib.Path(bin_dir)
        self.api = Api(self.kubeconfig)
        self._pod_ips = 0
        self._lock = threading.Lock()

    def environment(self):
        """For child processes that use kubectl or helm on this cluster."""
        return os.environ | {
            "KUBECONFIG": str(self.kubeconfig),
            "KUBECACHEDIR": str(self.directory / "kubectl-cache"),
            "KUBERC": "off",
            "PATH": f"{self.bin}:{os.environ['PATH']}",
        }

    def kubectl(self, *args, input=None, check=True):
        """Runs kubectl and returns its stdout; when it fails raises AssertionError with its stderr.

        With check=False returns the subprocess.CompletedProcess.
        """
        done = subprocess.run(
            [str(self.bin / "kubectl"), *map(str, args)],
            input=input if input is not None else "",
            capture_output=True,
            text=True,
            env=self.environment(),
            timeout=120 * TIMEOUT_SCALE,
        )
        if not check:
            return done
        if done.returncode != 0:
            command = shlex.join(["kubectl", *map(str, args)])
            raise AssertionError(f"{command}: exit {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def apply(self, manifests, ns="default"):
        """Server-side apply of YAML text or of objects; returns them as stored. ns is for those that name none."""
        if isinstance(manifests, str):
            manifests = [d for d in yaml.safe_load_all(manifests) if d]
        elif isinstance(manifests, dict):
            manifests = [manifests]
        return [self._apply_one(m, ns) for m in manifests]

    def _apply_one(self, manifest, ns):
        group = manifest["apiVersion"].rpartition("/")[0]
        resource = copy.copy(self.api.resource(f"{manifest['kind']}.{group}"))
        resource.version = manifest["apiVersion"].rpartition("/")[2]
        meta = manifest["metadata"]
        return self.api.patch(
            resource.path(meta.get("namespace", ns), meta["name"]),
            manifest,
            "application/apply-patch+yaml",
            fieldManager=FIELD_MANAGER,
            force="true",
        )

    def create(self, manifest, ns="default"):
        """POSTs one object (a dict, or the YAML of one) and returns it as stored."""
        if isinstance(manifest, str):
            manifest = yaml.safe_load(manifest)
        resource = self.api.resource(f"{manifest['kind']}.{manifest['apiVersion'].rpartition('/')[0]}")
        return self.api.post(resource.path(manifest["metadata"].get("namespace", ns)), manifest)

    def get_json(self, kind, name=None, ns=None, selector=None):
        """One object by name, or the list of objects (of all namespaces when ns is None)."""
        path = self.api.resource(kind).path(ns, name)
        if name:
            return self.api.get(path)
        return self.api.get(path, **({"labelSelector": selector} if selector else {}))["items"]

    def exists(self, kind, name, ns=None):
        try:
            self.get_json(kind, name, ns)
        except ApiError as e:
            if e.status == 404:
                return False
            raise
        return True

    def patch(self, kind, name, patch, ns=None, subresource=None):
        """A JSON merge patch."""
        return self.api.patch(self.api.resource(kind).path(ns, name, subresource), patch)

    def delete(self, kind, name, ns=None, grace=None, propagation="Background", missing_ok=True):
        options = {"propagationPolicy": propagation} | ({} if grace is None else {"gracePeriodSeconds": grace})
        try:
            self.api.delete(self.api.resource(kind).path(ns, name), options)
        except ApiError as e:
            if e.status != 404 or not missing_ok:
                raise

    def watch(self, kind, ns=None, selector=None):
        """A Watch that records every change from now on: use with "with"."""
        return Watch(self.api, self.api.resource(kind).path(ns), selector)

    def set_pod_status(self, ns, name, phase="Running", ready=None, ip=None, restarts=0):
        """Writes what a kubelet would. ready defaults to True in phase Running; ip to one not given out before."""
        return self._patch_pod_status(self.get_json("pods", name, ns), phase, ready, ip, restarts)

    def _patch_pod_status(self, pod, phase="Running", ready=None, ip=None, restarts=0):
        path = self.api.resource("pods").path(pod["metadata"]["namespace"], pod["metadata"]["name"], "status")
        return self.api.patch(path, {"status": self._pod_status(pod["spec"], phase, ready, ip, restarts)})

    def run_pods(self, ns, selector=None):
        """Makes every Pod that is still Pending Running and ready; returns the names."""
        pods = self.get_json("pods", ns=ns, selector=selector)
        pods = [p for p in pods if p["status"]["phase"] == "Pending" and "deletionTimestamp" not in p["metadata"]]
        for pod in pods:
            self._patch_pod_status(pod)
        return [p["metadata"]["name"] for p in pods]

    def bind_pod(self, ns, name, node="node-1"):
        """Assigns it to a node, as the scheduler would. From now on its deletion takes a kubelet: finish_deletions."""
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": {"name": node}}
        self.api.post(self.api.resource("pods").path(ns, name, "binding"), binding)

    def finish_deletions(self, ns):
        """Ends the Pods that are being deleted, as a kubelet does when their containers have stopped."""
        for pod in self.get_json("pods", ns=ns):
            if "deletionTimestamp" in pod["metadata"]:
                self.delete("pods", pod["metadata"]["name"], ns, grace=0)

    def _pod_status(self, spec, phase, ready, ip, restarts):
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        ready = phase == "Running" if ready is None else ready
        exit_code = {"Succeeded": 0, "Failed": 1}.get(phase)
        if exit_code is not None:
            state = {"terminated": {"exitCode": exit_code, "startedAt": now, "finishedAt": now}}
        elif phase == "Running":
            state = {"running": {"startedAt": now}}
        else:
            state = {"waiting": {"reason": "ContainerCreating"}}

        def condition(kind, true):
            return {"type": kind, "status": "True" if true else "False", "lastTransitionTime": now}

        def container(c, state, ready):
            return {
                "name": c["name"],
                "image": c["image"],
                "imageID": "",
                "ready": ready,
                "restartCount": restarts,
                "state": state,
            }

        done = {"terminated": {"exitCode": 0, "startedAt": now, "finishedAt": now}}
        status = {
            "phase": phase,
            "startTime": now,
            "conditions": [
                condition("PodScheduled", True),
                condition("Initialized", phase != "Pending"),
                condition("ContainersReady", ready),
                condition("Ready", ready),
            ],
            "containerStatuses": [container(c, state, ready) for c in spec["containers"]],
        }
        if phase != "Pending":
            ip = ip or self._next_pod_ip()
            status["podIP"] = ip
            status["podIPs"] = [{"ip": ip}]
            status["initContainerStatuses"] = [container(c, done, True) for c in spec.get("initContainers", [])]
        return status

    def _next_pod_ip(self):
        with self._lock:
            self._pod_ips += 1
            return f"10.{64 + (self._pod_ips >> 16)}.{self._pod_ips >> 8 & 255}.{self._pod_ips & 255}"

    def create_namespace(self, name):
        """Creates it and waits for its service account, without which no Pod is admitted."""
        self.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        wait_until(lambda: self.exists("serviceaccounts", "default", name), f"service account of namespace {name}")
        return name

    def webhook_calls(self, webhook):
        """How often the API server has called the admission webhook of that name (its own counter)."""
        _, metrics = self.api.raw("GET", "/metrics")
        label = f'name="{webhook}"'
        lines = re.findall(r"^apiserver_admission_webhook_request_total\{(.*)\} (\S+)$", metrics, re.M)
        return sum(int(float(value)) for labels, value in lines if label in labels)

    def probe_tpu_pod(self, ns="default"):
        """Creates, as a dry run, a Pod on a single TPU host; returns it as admitted or raises ApiError."""
        resources = {"limits": {TPU: "4"}, "requests": {TPU: "4"}}
        spec = {"containers": [{"name": "probe", "image": "probe", "resources": resources}]}
        # A topology, without which a strict webhook admits nothing.
        spec["nodeSelector"] = {
            "cloud.google.com/gke-tpu-accelerator": "tpu-v6e-slice",
            "cloud.google.com/gke-tpu-topology": "2x2",
        }
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "webhook-probe"}, "spec": spec}
        return self.api.post(self.api.resource("pods").path(ns), pod, dryRun="All")
