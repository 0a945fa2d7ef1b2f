"""The real controllers of JobSet, LeaderWorkerSet and KubeRay on the test control plane, as processes on loopback ports.

    workload_tools     the folder of their binaries and manifests (built once per machine: minutes)
    jobset, lws        the controllers of JobSet and LeaderWorkerSet with their webhooks, for the tests of one module
    start_kuberay      starts KubeRay's operator for one namespace

A conftest.py imports these fixtures. JobSet and LeaderWorkerSet have webhooks of their own; those call us by URL, and the
API server calls mutating webhooks in the order of their configurations' names.
"""

import base64
import copy
import http.client
import os
import pathlib
import signal
import subprocess

import pytest
import yaml

from cluster import TIMEOUT_SCALE, TOOLS, wait_until
from kube_api import ApiError
from operator_process import _die_with_parent, free_port


def build_workloads():
    built = subprocess.run([str(TOOLS / "build.sh"), "workloads"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    if built.returncode != 0:
        raise RuntimeError("the workload controllers could not be built; tests/tools/build.sh says why above")
    return pathlib.Path(built.stdout.splitlines()[-1])


def make_certificate(directory):
    """A self-signed serving certificate for 127.0.0.1, as tls.crt and tls.key; it is its own CA."""
    directory.mkdir(parents=True)
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    command += ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    command += ["-keyout", str(directory / "tls.key"), "-out", str(directory / "tls.crt")]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    return directory / "tls.crt", directory / "tls.key"


class Controller:
    """One process. Its log is shown with a failed test."""

    def __init__(self, cluster, name, binary, arguments, directory, environment=None):
        self.cluster, self.name = cluster, name
        self.command = [str(binary), *arguments]
        self.health_port = free_port()
        self.directory = pathlib.Path(directory)
        self.log_path = self.directory / f"{name}.log"
        self.environment = os.environ | {"KUBECONFIG": str(cluster.kubeconfig)} | (environment or {})
        self.process = None

    def start(self):
        self.directory.mkdir(parents=True, exist_ok=True)
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                self.command,
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self.environment,
                start_new_session=True,
                preexec_fn=_die_with_parent,
            )
        try:
            wait_until(self._ready_or_dead, f"{self.name} is ready", timeout=60)
            assert self.process.poll() is None, f"{self.name} ended with {self.process.returncode}"
        except BaseException as e:
            self.stop()
            raise AssertionError(f"{e}\n{self.log_tail()}") from None
        return self

    def _ready_or_dead(self):
        return self.process.poll() is not None or self._get("/readyz") == 200

    def _get(self, path):
        connection = http.client.HTTPConnection("127.0.0.1", self.health_port, timeout=5 * TIMEOUT_SCALE)
        try:
            connection.request("GET", path)
            return connection.getresponse().status
        except (OSError, http.client.HTTPException):
            return 0
        finally:
            connection.close()

    def stop(self):
        if self.process is None or self.process.poll() is not None:
            return
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(10 * TIMEOUT_SCALE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def log_tail(self, lines=60):
        log = self.log_path.read_text(errors="replace") if self.log_path.exists() else ""
        return "\n".join([f"--- end of {self.log_path}", *log.splitlines()[-lines:]])


class WebhookController(Controller):
    """A controller with webhooks of its own, from its manifests; a Configuration object says where they listen."""

    def __init__(self, cluster, name, tools, directory, api_version):
        self.webhook_port = free_port()
        self.manifests = tools / "manifests" / name
        self.certificate, _ = make_certificate(pathlib.Path(directory) / f"{name}-cert")
        config = pathlib.Path(directory) / f"{name}.yaml"
        super().__init__(cluster, name, tools / name, ["--config", str(config)], directory)
        settings = {
            "apiVersion": api_version,
            "kind": "Configuration",
            "health": {"healthProbeBindAddress": f"127.0.0.1:{self.health_port}"},
            "metrics": {"bindAddress": "0"},
            "webhook": {"host": "127.0.0.1", "port": self.webhook_port, "certDir": str(self.certificate.parent)},
            "leaderElection": {"leaderElect": False},
            "internalCertManagement": {"enable": False},
        }
        config.write_text(yaml.safe_dump(settings))
        self.names = {}

    def webhooks(self, kind):
        """Those of its manifests, with their patches applied: these narrow the ones for Pods to its own."""
        folder = self.manifests / "webhook"
        documents = yaml.safe_load_all((folder / "manifests.yaml").read_text())
        webhooks = next(d for d in documents if d["kind"] == kind)["webhooks"]
        for patch in sorted(folder.rglob("*patch*.yaml")):
            for operation in yaml.safe_load(patch.read_text()):
                if operation["op"] == "replace" and isinstance(operation.get("value"), dict):
                    by_name = operation["value"].get("name")
                    webhooks = [operation["value"] if w["name"] == by_name else w for w in webhooks]
        return copy.deepcopy(webhooks)

    def register(self, name):
        """Makes the API server call it, by configurations of that name, and waits until it does."""
        ca = base64.b64encode(self.certificate.read_bytes()).decode()
        for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
            webhooks = self.webhooks(kind)
            for webhook in webhooks:
                path = webhook["clientConfig"].pop("service")["path"]
                webhook["clientConfig"] = {"url": f"https://127.0.0.1:{self.webhook_port}{path}", "caBundle": ca}
                # Names tell the configurations apart in the API server's counters.
                webhook["name"] = webhook["name"].replace(".kb.io", f".{name}.kb.io")
            manifest = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind}
            self.cluster.create(manifest | {"metadata": {"name": name}, "webhooks": webhooks})
            self.names[kind] = name
        self._wait_called(name)

    def _wait_called(self, name):
        counter = f"mpod.{name}.kb.io"
        pod = next(w for w in self.webhooks("MutatingWebhookConfiguration") if w["name"] == "mpod.kb.io")
        label = pod["objectSelector"]["matchExpressions"][0]["key"]
        spec = {"containers": [{"name": "probe", "image": "probe"}]}
        probe = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "probe", "labels": {label: "probe"}}, "spec": spec}
        before = self.cluster.webhook_calls(counter)

        def called():
            try:
                self.cluster.api.post(self.cluster.api.resource("pods").path("default"), probe, dryRun="All")
            except ApiError:
                pass  # it need not like the probe
            return self.cluster.webhook_calls(counter) > before

        wait_until(called, f"the API server calls the webhook {counter}")

    def unregister(self):
        for kind, name in self.names.items():
            self.cluster.delete(kind, name)
        self.names = {}

    def stop(self):
        self.unregister()
        super().stop()


def apply_crds(cluster, tools, folder, *names):
    """Applies the CRDs of a folder of manifests (those of these names, else all) and waits until they are served."""
    files = [f for f in sorted((tools / "manifests" / folder).glob("*.yaml")) if not names or f.stem in names]
    assert files, f"no CRDs in {tools / 'manifests' / folder}"
    for file in files:
        cluster.kubectl("apply", "--server-side", "-f", file)
        crd = yaml.safe_load(file.read_text())["metadata"]["name"]
        wait_until(lambda: _is_established(cluster.get_json("customresourcedefinitions", crd)), f"CRD {crd} is served")


def _is_established(crd):
    conditions = crd.get("status", {}).get("conditions", [])
    return any((c["type"], c["status"]) == ("Established", "True") for c in conditions)


@pytest.fixture(scope="session")
def workload_tools(request):
    capture = request.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        return build_workloads()


def _run(request, controller):
    """Shows its log with failed tests of the node, as those of operators."""
    request.node.controllers = [*getattr(request.node, "controllers", []), controller]
    return controller.start()


@pytest.fixture(scope="module")
def jobset(request, cluster, workload_tools, tmp_path_factory):
    apply_crds(cluster, workload_tools, "jobset/crd/bases")
    directory = tmp_path_factory.mktemp("jobset")
    controller = WebhookController(cluster, "jobset", workload_tools, directory, "config.jobset.x-k8s.io/v1alpha1")
    try:
        _run(request, controller).register("jobset")
        yield controller
    finally:
        controller.stop()


@pytest.fixture(scope="module")
def lws(request, cluster, workload_tools, tmp_path_factory):
    """Not registered yet: in which order it comes is the tests' matter."""
    apply_crds(cluster, workload_tools, "lws/crd/bases")
    directory = tmp_path_factory.mktemp("lws")
    controller = WebhookController(cluster, "lws", workload_tools, directory, "config.lws.x-k8s.io/v1alpha1")
    try:
        yield _run(request, controller)
    finally:
        controller.stop()


@pytest.fixture
def start_kuberay(request, cluster, workload_tools, tmp_path):
    """start(namespace, **gates): KubeRay's operator with these feature gates. It works with our RayCluster CRD."""
    apply_crds(cluster, workload_tools, "kuberay/crd/bases", "ray.io_rayjobs", "ray.io_rayservices", "ray.io_raycronjobs")
    started = []

    def start(namespace, **gates):
        controller = Controller(cluster, "kuberay", workload_tools / "kuberay", [], tmp_path)
        controller.command += [f"--health-probe-bind-address=127.0.0.1:{controller.health_port}", "--metrics-addr=0"]
        controller.command += ["--enable-leader-election=false", f"--watch-namespace={namespace}"]
        controller.command += ["--qps=500", "--burst=1000"]
        if gates:
            values = (f"{gate}={str(on).lower()}" for gate, on in gates.items())
            controller.command.append(f"--feature-gates={','.join(values)}")
        started.append(controller)
        return _run(request, controller)

    yield start
    for controller in started:
        controller.stop()
