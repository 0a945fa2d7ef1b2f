"""The operator under test, as a process on loopback ports."""

import contextlib
import ctypes
import http.client
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import time

from cluster import TIMEOUT_SCALE, WRAPPER, wait_until
from kube_api import ApiError

TOP = pathlib.Path(__file__).resolve().parents[2]
BINARY = os.environ.get("RAY_TPU_OPERATOR_BIN", str(TOP / "build" / "ray-tpu-operator"))

# What sanitizers and valgrind write; some of it does not change the exit code.
SANITIZER_REPORT = re.compile(
    r"(ERROR|WARNING): (Address|Leak|Thread)Sanitizer|: runtime error: |definitely lost: [1-9]"
)

_libc = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1


def _die_with_parent():
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


_given_ports = set()


def free_port():
    """A port of 127.0.0.1 nobody uses, below the range that the kernel takes for outgoing connections. Never one that was
    given before: its user may not have bound it yet."""
    for _ in range(1000):
        port = random.randrange(20000, 32000)
        if port in _given_ports:
            continue
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", port))
            except OSError:
                continue
        _given_ports.add(port)
        return port
    raise RuntimeError("no free port between 20000 and 32000 in 1000 tries")


class Operator:
    """One operator. The constructor decides on flags and ports, which a restart keeps; start() waits until it is ready.

    cluster             a Cluster, or None for admission without an API server (--kubeconfig none)
    flags               more flags, as given
    controller, webhook which of its two jobs it does
    inject              False: its controller leaves the injection to the webhook (--test-disable-controller-injection)
    watch_namespaces    only these
    directory           for its log
    """

    def __init__(
        self,
        cluster,
        *flags,
        directory,
        controller=True,
        webhook=True,
        inject=True,
        watch_namespaces=(),
        workers=None,
        leader_elect=False,
        log_level="debug",
        environment=None,
    ):
        self.cluster = cluster
        self.directory = pathlib.Path(directory)
        self.health_port, self.metrics_port, self.webhook_port = free_port(), free_port(), free_port()
        self.webhook_url = f"https://127.0.0.1:{self.webhook_port}"
        # A name of its own, so that several operators on one cluster do not take each other's webhooks away.
        self.webhook_config = f"ray-tpu-operator-{self.webhook_port}"
        self.log_path = self.directory / f"operator-{self.webhook_port}.log"
        self.probe_namespace = watch_namespaces[0] if watch_namespaces else "default"
        self.has_webhook = webhook
        self.ready_seconds = None
        self.process = None

        self.command = [*WRAPPER, BINARY]
        self.command += [f"--kubeconfig={cluster.kubeconfig if cluster else 'none'}"]
        self.command += [f"--enable-controller={_bool(controller)}", f"--enable-webhook={_bool(webhook)}"]
        self.command += [f"--metrics-bind-address=127.0.0.1:{self.metrics_port}"]
        self.command += [f"--health-bind-address=127.0.0.1:{self.health_port}"]
        self.command += [f"--leader-elect={_bool(leader_elect)}", f"--log-level={log_level}"]
        if webhook:
            self.command += [f"--webhook-bind-address=127.0.0.1:{self.webhook_port}"]
            if cluster:
                self.command += [f"--webhook-url={self.webhook_url}", f"--webhook-config-name={self.webhook_config}"]
        if watch_namespaces:
            self.command += [f"--watch-namespaces={','.join(watch_namespaces)}"]
        if workers is not None:
            self.command += [f"--workers={workers}"]
        if not inject:
            self.command += ["--test-disable-controller-injection"]
        self.command += map(str, flags)
        # Where its Lease and Secret go: a namespace in which no webhook is wanted anyway.
        self.environment = {"POD_NAME": f"operator-{self.webhook_port}", "POD_NAMESPACE": "kube-system"}
        self.environment |= environment or {}

    def start(self, timeout=20.0, wait_ready=True):
        """Starts it and, with wait_ready, waits until /readyz says so. From a thread that outlives the operator."""
        assert not self.running(), "the operator runs already"
        begin = time.monotonic()
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=os.environ | self.environment,
                start_new_session=True,
                preexec_fn=_die_with_parent,
            )
        if not wait_ready:
            return self
        try:
            wait_until(self._ready_or_dead, f"operator ready (log {self.log_path})", timeout, interval=0.005)
            if self.process.poll() is not None:
                raise AssertionError(f"the operator ended with {self.process.returncode} instead of becoming ready")
        except BaseException as e:
            self.kill9()
            if isinstance(e, AssertionError):
                raise AssertionError(f"{e}\n{self.log_tail()}") from None
            raise
        self.ready_seconds = time.monotonic() - begin
        return self

    def _ready_or_dead(self):
        return self.process.poll() is not None or self.ready()

    def ready(self):
        return self.http(self.health_port, "/readyz")[0] == 200

    def healthy(self):
        return self.http(self.health_port, "/healthz")[0] == 200

    def http(self, port, path):
        """(status, text) of a plain GET; (0, reason) when nothing answers."""
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5 * TIMEOUT_SCALE)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read().decode()
        except (OSError, http.client.HTTPException) as e:
            return 0, str(e)
        finally:
            connection.close()

    def wait_webhook(self, timeout=20.0):
        """Waits until the API server sends it Pods that request TPUs, which is a moment after the webhook is stored."""
        api = self.cluster.api

        def pod_webhooks():
            path = api.resource("mutatingwebhookconfigurations").path(name=self.webhook_config)
            return [
                w["name"]
                for w in api.get(path).get("webhooks", [])
                if w["clientConfig"].get("caBundle") and any("pods" in r["resources"] for r in w["rules"])
            ]

        names = wait_until(pod_webhooks, f"webhook for pods with a caBundle in {self.webhook_config}", timeout)
        before = sum(map(self.cluster.webhook_calls, names))

        def called():
            self.cluster.probe_tpu_pod(self.probe_namespace)
            return sum(map(self.cluster.webhook_calls, names)) > before

        wait_until(called, f"the API server calls the webhook {names[0]}", timeout)
        return self

    def running(self):
        return self.process is not None and self.process.poll() is None

    def terminate(self, timeout=20.0):
        """SIGTERM; asserts a clean end (exit code 0, no sanitizer report) and returns the log."""
        assert self.running(), f"the operator has ended already\n{self.log_tail()}"
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(timeout * TIMEOUT_SCALE)
        except subprocess.TimeoutExpired:
            self.kill9()
            raise AssertionError(f"the operator ignores SIGTERM for {timeout:g} s\n{self.log_tail()}") from None
        assert code == 0, f"the operator ended with {code} after SIGTERM\n{self.log_tail()}"
        report = SANITIZER_REPORT.search(self.log())
        assert not report, f"the operator's log has a sanitizer report: {report[0]}\n{self.log_tail(200)}"
        return self.log()

    def kill9(self):
        """As a node failure would: no farewell. May be repeated."""
        if self.process is not None:
            if self.process.poll() is None:
                # The whole session: a wrapper may have the operator as its child.
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    @contextlib.contextmanager
    def frozen(self):
        """Meanwhile every thread of it stands still; its connections stay."""
        os.killpg(self.process.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.killpg(self.process.pid, signal.SIGCONT)

    def restart(self, timeout=20.0):
        """Ends it by SIGTERM if it runs, and starts it again on the same ports with the same log."""
        if self.running():
            self.terminate()
        return self.start(timeout)

    def log(self):
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def log_tail(self, lines=40):
        return "\n".join([f"--- end of {self.log_path}", *self.log().splitlines()[-lines:]])

    def metrics(self):
        """Its Prometheus metrics as {'name{labels}': value}."""
        status, text = self.http(self.metrics_port, "/metrics")
        assert status == 200, f"/metrics answers {status}: {text}"
        samples = (line.rsplit(" ", 1) for line in text.splitlines() if line and not line.startswith("#"))
        return {name: float(value) for name, value in samples}

    def metric(self, name, /, **labels):
        """The sum of a metric's samples that carry these labels; 0 when there are none."""
        wanted = [f'{k}="{v}"' for k, v in labels.items()]
        samples = self.metrics().items()
        return sum(v for n, v in samples if n.partition("{")[0] == name and all(w in n for w in wanted))

    def memory(self):
        """Resident bytes."""
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"^VmRSS:\s+(\d+) kB", status, re.M)[1]) * 1024

    def remove_webhooks(self):
        """Takes its webhook configurations off the cluster and waits until the API server calls it no more."""
        if not (self.cluster and self.has_webhook):
            return
        for kind in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"):
            self.cluster.delete(kind, self.webhook_config)

        def admitted():
            try:
                return self.cluster.probe_tpu_pod()
            except ApiError as e:
                # Refused by somebody else: not ours to wait for.
                return str(self.webhook_port) not in e.message

        wait_until(admitted, f"the API server forgets the webhook {self.webhook_config}")


def _bool(value):
    return "true" if value else "false"
