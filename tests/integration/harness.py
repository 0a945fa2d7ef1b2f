"""The pytest fixtures of tests that need a control plane; a conftest.py imports those it wants.

    cluster          one real control plane for the whole session, with our CRD on it (a Cluster); the environment variable
                     RAY_TPU_OPERATOR_CONTROL_PLANE names the folder of one that runs already, to be used and left alone
    namespace        a fresh namespace per test; make_namespace() makes more of them
    start_operator   starts operators, and asserts that each one still running at the end stops cleanly on SIGTERM
    operator         an operator with controller and webhook, restricted to the test's namespace

and namespaces() and operators(), the same for fixtures of a wider scope.
"""

import contextlib
import os
import pathlib
import re
import uuid

import pytest

from cluster import Cluster, ControlPlane, build_tools
from operator_process import BINARY, TOP, Operator

CRD = TOP / "deploy" / "crds" / "ray.io_rayclusters.yaml"


@pytest.fixture(scope="session")
def cluster(request, tmp_path_factory):
    capture = request.config.pluginmanager.getplugin("capturemanager")
    try:
        # The first build takes minutes and says so; pytest must not swallow that.
        with capture.global_and_fixture_disabled():
            bin_dir = build_tools()
        running = os.environ.get("RAY_TPU_OPERATOR_CONTROL_PLANE")
        folder = running or tmp_path_factory.mktemp("control-plane")
        control_plane = ControlPlane(folder, crds=[CRD] if CRD.exists() else [])
        if not running:
            control_plane.start()
    except RuntimeError as e:
        # One clear error instead of one per test.
        pytest.exit(str(e), returncode=1)
    try:
        yield Cluster(control_plane, bin_dir)
    finally:
        if not running:
            control_plane.stop()


@contextlib.contextmanager
def namespaces(cluster, request):
    """make(): a new namespace whose name says which test it belongs to. Deleted at the end, without waiting."""
    slug = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower())[:40].strip("-")
    made = []

    def make():
        made.append(cluster.create_namespace(f"{slug}-{uuid.uuid4().hex[:6]}"))
        return made[-1]

    yield make
    for name in made:
        cluster.delete("namespaces", name)


@pytest.fixture
def namespace(cluster, request):
    with namespaces(cluster, request) as make:
        yield make()


@pytest.fixture
def make_namespace(cluster, request):
    with namespaces(cluster, request) as make:
        yield make


@contextlib.contextmanager
def operators(request, directory):
    """start(cluster, *flags, wait_ready=True, wait_webhook=True, **options): see Operator for the options."""
    started = request.node.operators = []

    def start(cluster, *flags, wait_ready=True, wait_webhook=True, **options):
        if not pathlib.Path(BINARY).exists():
            pytest.fail(f"no {BINARY}: 'make' builds it (RAY_TPU_OPERATOR_BIN names another)", pytrace=False)
        operator = Operator(cluster, *flags, directory=directory, **options)
        started.append(operator)
        operator.start(wait_ready=wait_ready)
        if operator.has_webhook and cluster and wait_ready and wait_webhook:
            operator.wait_webhook()
        return operator

    yield start

    failures = []
    for operator in started:
        try:
            if operator.running():
                operator.terminate()
        except AssertionError as e:
            failures.append(str(e))
        finally:
            operator.kill9()
            operator.remove_webhooks()
    assert not failures, "\n".join(failures)


@pytest.fixture
def start_operator(request, tmp_path):
    with operators(request, tmp_path) as start:
        yield start


@pytest.fixture
def operator(cluster, namespace, start_operator):
    return start_operator(cluster, watch_namespaces=[namespace])


@contextlib.contextmanager
def shared_controller(cluster, request, directory, *flags, **options):
    """Yields a namespace with an operator without webhook, for a fixture that many quick tests use together."""
    with namespaces(cluster, request) as make, operators(request, directory) as start:
        namespace = make()
        start(cluster, *flags, webhook=False, watch_namespaces=[namespace], **options)
        yield namespace


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """Shows the ends of the logs of operators and other controllers with a failed test."""
    report = (yield).get_result()
    if report.failed:
        for operator in [o for node in item.listchain() for o in getattr(node, "operators", [])]:
            report.sections.append(("operator log", operator.log_tail()))
        for controller in [c for node in item.listchain() for c in getattr(node, "controllers", [])]:
            report.sections.append((f"{controller.name} log", controller.log_tail()))
