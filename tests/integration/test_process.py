"""The process: flags, health, metrics, its end, and where it keeps out."""

import json
import signal
import subprocess

import pytest

from cluster import TIMEOUT_SCALE, WRAPPER, wait_until
from operator_process import BINARY
from proxy import ProxiedCluster
from ray_cluster import RayCluster, raycluster, tpu_group


def run(*flags):
    return subprocess.run(
        [*WRAPPER, BINARY, *flags], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30 * TIMEOUT_SCALE
    )


# --- flags


def test_help_lists_the_flags():
    done = run("--help")
    assert (done.returncode, done.stderr) == (0, "")
    for flag in (
        "--kubeconfig",
        "--enable-controller",
        "--enable-webhook",
        "--webhook-bind-address",
        "--webhook-cert-file",
        "--webhook-key-file",
        "--webhook-url",
        "--metrics-bind-address",
        "--health-bind-address",
        "--watch-namespaces",
        "--workers",
        "--leader-elect",
        "--log-level",
        "--log-format",
        "--version",
    ):
        assert flag in done.stdout


def test_version():
    done = run("--version")
    assert (done.returncode, done.stderr) == (0, "")
    name, version = done.stdout.split()
    assert name == "ray-tpu-operator" and version[0].isdigit()


@pytest.mark.parametrize(
    "flags,words",
    [
        (["--no-such-flag"], ["--no-such-flag", "--help"]),
        (["--workers=many"], ["--workers", '"many"', "from 1 to 64"]),
        (["--workers=0"], ["--workers", '"0"', "from 1 to 64"]),
        (["--workers"], ["--workers needs a value"]),
        (["--log-level=loud"], ["--log-level", '"loud"', "debug"]),
        (["--leader-elect=perhaps"], ["--leader-elect", '"perhaps"', "true"]),
        (["--webhook-url=http://plain"], ["--webhook-url", "https"]),
        (["--metrics-bind-address=nowhere:http"], ["--metrics-bind-address", '"nowhere:http"']),
        (["--webhook-cert-file=/tls.crt"], ["--webhook-cert-file", "--webhook-key-file", "give both"]),
        (["--enable-controller=false", "--enable-webhook=false"], ["--enable-controller", "--enable-webhook"]),
        (["--leader-elect-lease-duration=2s", "--leader-elect-renew-deadline=3s"], ["--leader-elect-renew-deadline"]),
        (["run"], ['"run"', "--help"]),
    ],
    ids=lambda v: " ".join(v) if isinstance(v, list) and v[0].startswith("--") else "",
)
def test_a_wrong_flag_is_named_and_ends_the_process_with_2(flags, words):
    done = run(*flags)
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1, "one sentence"
    for word in words:
        assert word in done.stderr


@pytest.mark.parametrize("missing", ["/no/such/kubeconfig", "/dev/null"])
def test_a_kubeconfig_that_cannot_be_used_ends_the_process(missing):
    nothing_served = ["--metrics-bind-address=0", "--health-bind-address=0", "--enable-webhook=false"]
    done = run(f"--kubeconfig={missing}", *nothing_served)
    assert done.returncode == 1
    assert missing in done.stderr


def test_an_address_in_use_ends_the_process(cluster, start_operator):
    operator = start_operator(cluster, webhook=False, watch_namespaces=["default"])
    done = run(
        f"--kubeconfig={cluster.kubeconfig}",
        "--enable-webhook=false",
        "--metrics-bind-address=0",
        f"--health-bind-address=127.0.0.1:{operator.health_port}",
    )
    assert done.returncode == 1
    assert f"127.0.0.1:{operator.health_port}" in done.stderr


# --- health


def test_ready_means_that_the_api_server_has_been_read(cluster, start_operator, namespace, tmp_path):
    proxied = ProxiedCluster(cluster, tmp_path)
    operator = start_operator(proxied, wait_ready=False, webhook=False, watch_namespaces=[namespace])
    wait_until(operator.healthy, "it is alive")

    def says_why():
        status, text = operator.http(operator.health_port, "/readyz")
        assert status == 503
        return "caches: the list of" in text

    wait_until(says_why, "not ready, and why")
    ray = RayCluster.create(cluster, namespace, raycluster("ray", tpu_group()))

    proxied.proxy.open()
    wait_until(operator.ready, "ready", timeout=60)
    assert all(line.endswith(": ok") for line in operator.http(operator.health_port, "/readyz")[1].splitlines())
    ray.wait_pods(workers=4)


def test_the_webhook_is_part_of_being_ready(cluster, start_operator, namespace):
    operator = start_operator(cluster, watch_namespaces=[namespace])
    status, text = operator.http(operator.health_port, "/readyz")
    assert (status, [line.partition(":")[0] for line in text.splitlines()]) == (
        200,
        ["process", "caches", "webhook", "listener"],
    )


def test_other_paths_are_not_found(cluster, start_operator, namespace):
    operator = start_operator(cluster, webhook=False, watch_namespaces=[namespace])
    assert operator.http(operator.health_port, "/nothing")[0] == 404
    assert operator.http(operator.health_port, "/metrics")[0] == 404
    assert operator.http(operator.metrics_port, "/readyz")[0] == 404


# --- metrics

FAMILIES = {
    "build_info": "gauge",
    "reconcile_total": "counter",
    "reconcile_duration_seconds": "histogram",
    "workqueue_depth": "gauge",
    "workqueue_retries_total": "counter",
    "pods_created_total": "counter",
    "pods_deleted_total": "counter",
    "status_writes_total": "counter",
    "cache_objects": "gauge",
    "leader": "gauge",
    "admission_reviews_total": "counter",
    "admission_duration_seconds": "histogram",
    "api_requests_total": "counter",
    "api_retries_total": "counter",
    "watch_starts_total": "counter",
    "webhook_certificate_expiry_timestamp_seconds": "gauge",
}


def test_metrics_tell_what_was_done(cluster, namespace, operator):
    ray = RayCluster.create(cluster, namespace, raycluster("ray", tpu_group()))
    ray.wait_pods(workers=4)
    _, text = operator.http(operator.metrics_port, "/metrics")
    kinds = {line.split()[2]: line.split()[3] for line in text.splitlines() if line.startswith("# TYPE ")}
    assert {name: kinds.get(f"ray_tpu_operator_{name}") for name in FAMILIES} == FAMILIES
    assert kinds["process_resident_memory_bytes"] == "gauge"

    wait_until(lambda: operator.metric("ray_tpu_operator_reconcile_total", result="success") >= 1, "a pass is over")
    assert operator.metric("ray_tpu_operator_pods_created_total") == 5
    assert operator.metric("ray_tpu_operator_cache_objects", kind="pod") == 5
    assert operator.metric("ray_tpu_operator_cache_objects", kind="raycluster") == 1
    # The probe of the harness; Pods of our own controller are complete, and so not asked about.
    assert operator.metric("ray_tpu_operator_admission_reviews_total", webhook="pods", verdict="allowed") == 1
    passes = operator.metric("ray_tpu_operator_reconcile_total", result="success")
    assert operator.metric("ray_tpu_operator_reconcile_duration_seconds_count") >= passes
    assert operator.metric("ray_tpu_operator_leader") == 1


# --- its end


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_cleanly(cluster, namespace, start_operator, number):
    operator = start_operator(cluster, watch_namespaces=[namespace])
    RayCluster.create(cluster, namespace, raycluster("ray", tpu_group())).wait_pods(workers=4)
    operator.process.send_signal(number)
    assert operator.process.wait(20 * TIMEOUT_SCALE) == 0
    assert operator.log().splitlines()[-1].split()[2] == "stopped"
    # It pointed the API server to a URL where nobody answers now.
    assert not cluster.exists("mutatingwebhookconfigurations", operator.webhook_config)
    assert not cluster.exists("validatingwebhookconfigurations", operator.webhook_config)


def test_a_signal_ends_it_while_the_api_server_is_away(cluster, namespace, start_operator, tmp_path):
    proxied = ProxiedCluster(cluster, tmp_path)
    proxied.proxy.open()
    operator = start_operator(proxied, webhook=False, leader_elect=True, watch_namespaces=[namespace])
    proxied.proxy.close()
    operator.terminate()


def test_the_log_as_json_has_an_object_a_line(cluster, namespace, start_operator):
    operator = start_operator(cluster, "--log-format=json", webhook=False, watch_namespaces=[namespace])
    RayCluster.create(cluster, namespace, raycluster("ray", tpu_group())).wait_pods(workers=4)
    lines = [json.loads(line) for line in operator.terminate().splitlines()]
    assert all({"level", "msg"} <= set(line) for line in lines), lines[0]
    assert any(line.get("namespace") == namespace for line in lines)


# --- where it keeps out


def test_only_watched_namespaces_are_acted_upon(cluster, namespace, make_namespace, start_operator):
    elsewhere = make_namespace()
    operator = start_operator(cluster, webhook=False, watch_namespaces=[namespace])
    other = RayCluster.create(cluster, elsewhere, raycluster("ray", tpu_group()))
    ray = RayCluster.create(cluster, namespace, raycluster("ray", tpu_group()))
    ray.wait_pods(workers=4)
    ray.run()
    assert not other.pods(live=False) and not other.services() and not other.status() and not other.events()
    assert operator.metric("ray_tpu_operator_cache_objects", kind="raycluster") == 1

    start_operator(cluster, webhook=False, watch_namespaces=[namespace, elsewhere])
    other.wait_pods(workers=4)


def test_rayclusters_that_others_manage_are_left_alone(cluster, namespace, start_operator):
    start_operator(cluster, webhook=False, watch_namespaces=[namespace])
    manifest = raycluster("theirs", tpu_group(), managedBy="kueue.x-k8s.io/multikueue")
    theirs = RayCluster.create(cluster, namespace, manifest)
    ours = RayCluster.create(cluster, namespace, raycluster("ours", tpu_group(), managedBy="ray.io/kuberay-operator"))
    ours.wait_pods(workers=4)
    ours.run()
    assert not theirs.pods(live=False) and not theirs.services() and not theirs.status()
