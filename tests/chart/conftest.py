"""Fixtures of the chart and CRD tests: the helm binary, rendered manifests, and a real API server for those that ask.

Offline tests need only helm: HELM names one, else the one that tests/tools/build.sh builds is used.
"""

import os
import pathlib
import subprocess

import pytest

from chart_tools import CRD_FILE, TOOLS, Chart, Cluster, succeed


@pytest.fixture(scope="session")
def bin_folder():
    # Building takes minutes, but only the first time on a machine.
    result = subprocess.run([TOOLS / "build.sh"], stdout=subprocess.PIPE, text=True, timeout=3600, check=True)
    return pathlib.Path(result.stdout.splitlines()[-1])


@pytest.fixture(scope="session")
def helm(request):
    return os.environ.get("HELM") or request.getfixturevalue("bin_folder") / "helm"


@pytest.fixture(scope="session")
def chart(helm):
    return Chart(helm)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory, bin_folder, helm):
    folder = tmp_path_factory.mktemp("control-plane")
    script = TOOLS / "controlplane.sh"
    try:
        succeed(script, "start", folder, "--owner", os.getpid(), timeout=300)
        yield Cluster(folder, bin_folder, helm)
    finally:
        succeed(script, "stop", folder)


@pytest.fixture(scope="session")
def crd(cluster):
    """Puts the CRD on the API server, as most people do: by a client-side apply, with its 256 KiB limit."""
    cluster.kubectl("apply", "-f", CRD_FILE)
    cluster.wait_for_crd("rayclusters.ray.io")
