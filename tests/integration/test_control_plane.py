"""The control plane itself: that what the other tests stand on is there."""

import os
import re
import subprocess

import pytest

from cluster import TOOLS, wait_until
from harness import CRD
from kube_api import ApiError, Watch

DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: c}]}
"""

POD = """
apiVersion: v1
kind: Pod
metadata: {name: p, labels: {app: p}}
spec:
  initContainers: [{name: i, image: i}]
  containers: [{name: c, image: c}]
"""


def test_version_is_the_pinned_one(cluster):
    version = cluster.api.get("/version")
    if os.environ.get("KUBEBUILDER_ASSETS"):
        assert int(version["minor"]) >= 30, "the oldest Kubernetes supported is 1.30"
    else:
        pinned = re.search(r"k8s.io/kubernetes (v\S+)", (TOOLS / "go.mod").read_text())[1]
        assert version["gitVersion"] == pinned
        assert version["minor"] == "36"


def test_default_namespace_and_service_account_are_there(cluster):
    assert cluster.get_json("namespace", "default")["status"]["phase"] == "Active"
    assert cluster.exists("sa", "default", "default")


def test_kubectl_talks_to_this_control_plane(cluster, namespace):
    cluster.kubectl("apply", "-n", namespace, "-f", "-", input=POD)
    assert cluster.kubectl("get", "pods", "-n", namespace, "-o", "name") == "pod/p\n"
    with pytest.raises(AssertionError, match="NotFound"):
        cluster.kubectl("get", "pod", "absent", "-n", namespace)
    assert cluster.kubectl("get", "pod", "absent", "-n", namespace, check=False).returncode == 1


def test_client_reports_what_the_server_says(cluster, namespace):
    with pytest.raises(ApiError) as refused:
        cluster.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {}}, namespace)
    assert (refused.value.status, refused.value.reason) == (422, "Invalid")
    assert "spec.containers: Required value" in refused.value.message


def test_pods_of_a_deleted_deployment_are_garbage_collected(cluster, namespace):
    cluster.apply(DEPLOYMENT, namespace)

    def owners():
        pods = cluster.get_json("pods", ns=namespace, selector="app=web")
        return [p["metadata"]["ownerReferences"][0]["kind"] for p in pods]

    wait_until(lambda: owners() == ["ReplicaSet", "ReplicaSet"], "two pods of the deployment")
    cluster.delete("deployments", "web", namespace)
    wait_until(lambda: not cluster.get_json("pods", ns=namespace), "the pods of the deleted deployment go")


def test_pod_status_is_written_as_a_kubelet_would(cluster, namespace):
    cluster.apply(POD, namespace)
    assert cluster.get_json("pods", "p", namespace)["status"]["phase"] == "Pending"

    assert cluster.run_pods(namespace) == ["p"]
    status = cluster.get_json("pods", "p", namespace)["status"]
    assert status["phase"] == "Running"
    assert {c["type"]: c["status"] for c in status["conditions"]}["Ready"] == "True"
    assert status["podIPs"] == [{"ip": status["podIP"]}]

    cluster.set_pod_status(namespace, "p", phase="Failed")
    status = cluster.get_json("pods", "p", namespace)["status"]
    assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 1


def test_watch_records_every_change(cluster, namespace):
    with cluster.watch("pods", namespace, selector="app=p") as watch:
        cluster.apply(POD, namespace)
        cluster.set_pod_status(namespace, "p")
        cluster.delete("pods", "p", namespace, grace=0)
        wait_until(lambda: "DELETED" in [kind for kind, _ in watch.history()], "the watch sees the deletion")
        phases = [o["status"]["phase"] for kind, o in watch.history() if kind != "DELETED"]
    assert list(dict.fromkeys(phases)) == ["Pending", "Running"]


def test_a_watch_that_the_api_server_ends_goes_on_where_it_was(cluster, namespace):
    path = cluster.api.resource("configmaps").path(namespace)
    with Watch(cluster.api, path, timeout=1) as watch:
        made = []

        def resumed():
            made.append(f"m{len(made)}")
            cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": made[-1]}}, namespace)
            return watch.resumed >= 3

        wait_until(resumed, "three times ended, three times resumed")
        wait_until(lambda: [o["metadata"]["name"] for _, o in watch.history() if o["metadata"]["name"] in made] == made, made)


def test_wait_until_names_the_last_value(cluster):
    with pytest.raises(AssertionError, match=r"a moon: not within .* s; last: \[\]"):
        wait_until(lambda: [], "a moon", timeout=0.01)


def test_our_crd_is_served(cluster):
    if not CRD.exists():
        pytest.skip(f"{CRD} is not there")
    resource = cluster.api.resource("rayclusters")
    assert (resource.group, resource.version, resource.kind) == ("ray.io", "v1", "RayCluster")
    assert resource.namespaced
    cluster.kubectl("apply", "--server-side", "-f", CRD)
    assert "spec" in cluster.kubectl("explain", "raycluster")


def test_a_second_start_in_the_same_folder_is_refused(cluster):
    again = subprocess.run(
        [TOOLS / "controlplane.sh", "start", cluster.directory], capture_output=True, text=True, timeout=60
    )
    assert again.returncode == 1
    assert "already has a control plane" in again.stderr
    assert cluster.api.raw("GET", "/readyz") == (200, "ok"), "the running one is unharmed"


def test_stop_of_what_never_started_is_no_error(tmp_path):
    subprocess.run([TOOLS / "controlplane.sh", "stop", tmp_path / "nothing"], check=True, timeout=60)
