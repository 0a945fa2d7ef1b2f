"""What the chart and CRD tests share: commands, the rendered chart, an API server's clients."""

import json
import os
import pathlib
import subprocess
import time

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOLS = ROOT / "tests" / "tools"
CRD_FILE = ROOT / "deploy" / "crds" / "ray.io_rayclusters.yaml"
TIMEOUT = 120  # seconds for one command


def run(*command, stdin=None, env=None, timeout=TIMEOUT):
    """Runs a command to its end; the caller looks at returncode, stdout and stderr."""
    return subprocess.run(
        [str(word) for word in command], input=stdin, env=env, capture_output=True, text=True, timeout=timeout, check=False
    )


def succeed(*command, **options):
    """stdout of a command that must succeed."""
    result = run(*command, **options)
    assert result.returncode == 0, f"{' '.join(str(word) for word in command)}: {result.stderr or result.stdout}"
    return result.stdout


class Chart:
    """The chart, rendered without a cluster."""

    path = ROOT / "charts" / "ray-tpu-operator"

    def __init__(self, binary):
        self.helm = binary

    def template(self, *arguments, release="ray-tpu-operator", namespace="ray-tpu-system"):
        return run(self.helm, "template", release, self.path, "-n", namespace, "--kube-version", "1.30.0", *arguments)

    def objects(self, *arguments, **options):
        """Rendered objects by (kind, namespace, name)."""
        result = self.template(*arguments, **options)
        assert result.returncode == 0, result.stderr
        return by_key(yaml.safe_load_all(result.stdout))


def by_key(documents):
    found = {}
    for item in filter(None, documents):
        key = (item["kind"], item["metadata"].get("namespace", ""), item["metadata"]["name"])
        assert key not in found, f"{key} is there twice"
        found[key] = item
    return found


class Cluster:
    """A control plane and its kubectl and helm."""

    def __init__(self, folder, binaries, helm):
        self.kubectl_binary = binaries / "kubectl"
        self.helm_binary = helm
        self.env = dict(
            os.environ,
            KUBECONFIG=str(folder / "kubeconfig"),
            KUBECACHEDIR=str(folder / "kubectl-cache"),
            HELM_CACHE_HOME=str(folder / "helm"),
            HELM_CONFIG_HOME=str(folder / "helm"),
            HELM_DATA_HOME=str(folder / "helm"),
        )

    def try_kubectl(self, *arguments, stdin=None):
        return run(self.kubectl_binary, *arguments, stdin=stdin, env=self.env)

    def kubectl(self, *arguments, stdin=None):
        return succeed(self.kubectl_binary, *arguments, stdin=stdin, env=self.env)

    def helm(self, *arguments):
        return succeed(self.helm_binary, *arguments, env=self.env)

    def get(self, *arguments):
        return json.loads(self.kubectl("get", *arguments, "-o", "json"))

    def wait_for_crd(self, name):
        """Until the CRD's objects can be created. `kubectl wait` fails when it asks before there is any condition."""
        for _ in range(100):
            conditions = self.get("crd", name).get("status", {}).get("conditions", [])
            if any(entry["type"] == "Established" and entry["status"] == "True" for entry in conditions):
                return
            time.sleep(0.1)
        raise AssertionError(f"CRD {name} is not established after 100 looks: {conditions}")

    def try_create(self, item, *arguments):
        """Sends one object; nothing is stored."""
        return self.try_kubectl("create", "--dry-run=server", "--validate=strict", *arguments, "-f", "-", stdin=json.dumps(item))
