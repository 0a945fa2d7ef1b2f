"""The webhook as a server: certificates, the configurations that point to it, admission without an API server."""

import http.client
import json
import ssl
import subprocess

import pytest

from cluster import TIMEOUT_SCALE, wait_until
from ray_cluster import tpu_group

ADDED = "TPU_WORKER_ID"


# --- talking to it as an API server does


def make_certificate(directory, name):
    """A self-signed certificate for 127.0.0.1 in directory: NAME.crt and NAME.key."""
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    command += ["-days", "2", "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1"]
    command += ["-keyout", directory / f"{name}.key", "-out", directory / f"{name}.crt"]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    return (directory / f"{name}.crt").read_text(), (directory / f"{name}.key").read_text()


class Files:
    """The two files an operator reads its certificate from."""

    def __init__(self, directory):
        self.directory, self.cert, self.key = directory, directory / "tls.crt", directory / "tls.key"
        self.flags = [f"--webhook-cert-file={self.cert}", f"--webhook-key-file={self.key}"]

    def fill(self, name):
        cert, key = make_certificate(self.directory, name)
        for path, text in ((self.cert, cert), (self.key, key)):
            new = path.with_suffix(".new")
            new.write_text(text)
            new.rename(path)
        return cert


def connect(operator, cert):
    context = ssl.create_default_context(cadata=cert)
    return http.client.HTTPSConnection("127.0.0.1", operator.webhook_port, timeout=10 * TIMEOUT_SCALE, context=context)


def review(pod, uid="a-uid"):
    kind = {"group": "", "version": "v1", "kind": "Pod"}
    request = {"uid": uid, "kind": kind, "operation": "CREATE", "namespace": "ns", "object": pod}
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def ask(connection, body, path="/mutate-v1-pod"):
    """POSTs a body (a dict as JSON) and returns status and text."""
    body = json.dumps(body) if isinstance(body, dict) else body
    connection.request("POST", path, body, {"Content-Type": "application/json"})
    response = connection.getresponse()
    return response.status, response.read().decode()


def worker_pod():
    """A worker of a slice as KubeRay makes it."""
    labels = {
        "ray.io/cluster": "ray",
        "ray.io/group": "v6e",
        "ray.io/node-type": "worker",
        "ray.io/worker-group-replica-index": "0",
        "ray.io/worker-group-replica-name": "v6e-abcde",
        "ray.io/replica-host-index": "2",
    }
    owner = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "name": "ray", "uid": "u", "controller": True}
    meta = {"generateName": "w-", "labels": labels, "ownerReferences": [owner]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta} | tpu_group()["template"]


@pytest.fixture
def offline(start_operator, tmp_path):
    """An operator without an API server, and its certificate."""
    files = Files(tmp_path)
    cert = files.fill("first")
    return start_operator(None, *files.flags), files, cert


def test_admission_needs_no_api_server(offline):
    operator, _, cert = offline
    assert operator.ready()
    status, text = ask(connect(operator, cert), review(worker_pod(), "one"))
    answer = json.loads(text)["response"]
    assert (status, answer["uid"], answer["allowed"], answer["patchType"]) == (200, "one", True, "JSONPatch")
    assert operator.metric("ray_tpu_operator_admission_reviews_total", webhook="pods", verdict="allowed") == 1


def test_every_answer_carries_its_own_uid(offline):
    operator, _, cert = offline
    connection = connect(operator, cert)
    for uid in ("one", "two", "three"):
        assert json.loads(ask(connection, review(worker_pod(), uid))[1])["response"]["uid"] == uid


@pytest.mark.parametrize("body", ["", "{", "[]", '"text"', '{"kind": "AdmissionReview"}'], ids=repr)
def test_what_is_no_review_is_refused_and_does_no_harm(offline, body):
    operator, _, cert = offline
    assert ask(connect(operator, cert), body)[0] == 400
    assert ask(connect(operator, cert), review(worker_pod()))[0] == 200


def test_a_new_certificate_is_served_without_dropping_a_connection(cluster, namespace, start_operator, tmp_path):
    files = Files(tmp_path)
    first = files.fill("first")
    operator = start_operator(cluster, *files.flags, controller=False, watch_namespaces=[namespace])
    kept, bundle = connect(operator, first), bundles(cluster, operator)
    assert ask(kept, review(worker_pod()))[0] == 200
    second = files.fill("second")

    def served():
        try:
            return ask(connect(operator, second), review(worker_pod()))[0] == 200
        except ssl.SSLError:
            return False

    wait_until(served, "the new certificate is served", timeout=40)
    with pytest.raises(ssl.SSLError):
        ask(connect(operator, first), review(worker_pod()))
    socket = kept.sock
    assert ask(kept, review(worker_pod()))[0] == 200
    assert kept.sock is socket, "it is the same connection"

    assert not bundle & bundles(cluster, operator), "the API server was told"
    wait_until(lambda: injected(cluster, namespace), "the API server reaches the webhook")


# --- the configurations


def configuration(cluster, operator, kind="mutatingwebhookconfigurations"):
    return cluster.get_json(kind, operator.webhook_config)


def bundles(cluster, operator):
    kinds = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
    return {w["clientConfig"].get("caBundle") for k in kinds for w in configuration(cluster, operator, k)["webhooks"]}


def injected(cluster, ns):
    """Creates a worker as a dry run; whether it was told its place."""
    pod = cluster.api.post(cluster.api.resource("pods").path(ns), worker_pod(), dryRun="All")
    return ADDED in [e["name"] for e in pod["spec"]["containers"][0].get("env", [])]


def wipe_bundle(webhook):
    webhook["clientConfig"]["caBundle"] = ""


def point_elsewhere(webhook):
    webhook["clientConfig"]["url"] = "https://127.0.0.1:1/nobody"


def ignore_failures(webhook):
    webhook["failurePolicy"] = "Ignore"


@pytest.mark.parametrize("spoil", [wipe_bundle, point_elsewhere, ignore_failures], ids=lambda f: f.__name__)
def test_a_configuration_that_somebody_spoils_is_mended(cluster, namespace, start_operator, spoil):
    operator = start_operator(cluster, controller=False, watch_namespaces=[namespace])
    before = configuration(cluster, operator)
    assert injected(cluster, namespace)
    spoilt = configuration(cluster, operator)
    spoil(spoilt["webhooks"][0])
    path = cluster.api.resource("mutatingwebhookconfigurations").path(name=operator.webhook_config)
    cluster.api.put(path, spoilt)
    wait_until(lambda: configuration(cluster, operator)["webhooks"] == before["webhooks"], "it is as it was")
    wait_until(lambda: injected(cluster, namespace), "the API server uses it again")


def test_a_configuration_that_somebody_deletes_comes_back(cluster, namespace, start_operator):
    operator = start_operator(cluster, controller=False, watch_namespaces=[namespace])
    kinds = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
    for kind in kinds:
        cluster.delete(kind, operator.webhook_config)
    for kind in kinds:
        wait_until(lambda: cluster.exists(kind, operator.webhook_config), f"{kind} again")
    wait_until(lambda: injected(cluster, namespace), "the API server uses it again")


def test_two_operators_share_one_certificate(cluster, namespace, start_operator):
    """They are replicas behind one Service: what one serves, the caBundle that the other wrote has to accept."""
    first = start_operator(cluster, controller=False, watch_namespaces=[namespace])
    second = start_operator(cluster, controller=False, watch_namespaces=[namespace])
    (bundle,) = bundles(cluster, first)
    assert bundles(cluster, second) == {bundle}
