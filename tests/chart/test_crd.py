"""The RayCluster CRD: what it says, and what a real API server makes of it."""

import copy
import json
import sys

import pytest
import yaml

from chart_tools import CRD_FILE, ROOT, run

TEMPLATE = "io.k8s.api.core.v1.PodTemplateSpec"


def crd_file():
    return yaml.safe_load(CRD_FILE.read_text(encoding="utf-8"))


# --- offline --------------------------------------------------------------------------------------------------------


def test_size_leaves_room_for_a_client_side_apply():
    text = json.dumps(crd_file(), separators=(",", ":"))
    assert len(text) + 5 * sum(text.count(sign) for sign in "<>&") < 250_000


def test_versions():
    versions = {version["name"]: version for version in crd_file()["spec"]["versions"]}
    assert list(versions) == ["v1", "v1alpha1"]
    assert [versions[name]["storage"] for name in versions] == [True, False]
    assert all(version["served"] and version["subresources"] == {"status": {}} for version in versions.values())
    assert versions["v1alpha1"]["deprecated"] and "ray.io/v1" in versions["v1alpha1"]["deprecationWarning"]


def paths(schema, prefix=""):
    """(path, schema) of every field, lists marked by []."""
    for name, child in schema.get("properties", {}).items():
        path = prefix + name
        yield path, child
        yield from paths(child, path + ".")
        yield from paths(child.get("items", {}), path + "[].")
        if "items" in child:
            yield path + "[]", child["items"]


def test_v1alpha1_has_every_field_of_v1():
    new, old = (dict(paths(version["schema"]["openAPIV3Schema"])) for version in crd_file()["spec"]["versions"])
    open_ended = tuple(path + "." for path, schema in old.items() if schema.get("x-kubernetes-preserve-unknown-fields"))
    missing = [path for path in new if path not in old and not path.startswith(open_ended)]
    assert missing == []
    assert len(new) > 1000 and "spec.workerGroupSpecs[].numOfHosts" in old


# --- on an API server -----------------------------------------------------------------------------------------------


def raycluster(name="a"):
    template = {"spec": {"containers": [{"name": "ray", "image": "ray"}]}}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "headGroupSpec": {"template": template},
            "workerGroupSpecs": [{"groupName": "workers", "template": copy.deepcopy(template)}],
        },
    }


def group(item):
    return item["spec"]["workerGroupSpecs"][0]


def explained(cluster, path):
    return cluster.kubectl("explain", "raycluster" + path)


def test_explain_describes_our_fields_and_those_of_a_container(cluster, crd):
    assert "hosts of a TPU slice" in explained(cluster, ".spec.workerGroupSpecs")
    containers = explained(cluster, ".spec.workerGroupSpecs.template.spec.containers")
    assert "imagePullPolicy" in containers and "Container image name." in containers
    assert "Source for the environment variable's value." in explained(
        cluster, ".spec.headGroupSpec.template.spec.containers.env"
    )


def test_defaults(cluster, crd):
    result = cluster.try_create(raycluster(), "-o", "json")
    assert result.returncode == 0, result.stderr
    stored = group(json.loads(result.stdout))
    assert {name: stored[name] for name in ("replicas", "minReplicas", "maxReplicas", "numOfHosts")} == {
        "replicas": 0,
        "minReplicas": 0,
        "maxReplicas": 2147483647,
        "numOfHosts": 1,
    }


ACCEPTED = {
    "numOfHosts 0 means 1": lambda item: group(item).update(numOfHosts=0),
    "group names may be equal: the operator says so, not the schema": lambda item: item["spec"].update(
        workerGroupSpecs=[group(item), group(item)]
    ),
    "group name of 63 characters": lambda item: group(item).update(groupName="g" * 63),
    "group name that begins with a digit": lambda item: group(item).update(groupName="4x4"),
    "managed by KubeRay's name": lambda item: item["spec"].update(managedBy="ray.io/kuberay-operator"),
    "no workers": lambda item: item["spec"].pop("workerGroupSpecs"),
    "integer quantities": lambda item: group(item)["template"]["spec"]["containers"][0].update(
        resources={"limits": {"cpu": 4, "google.com/tpu": 4}}
    ),
}


@pytest.mark.parametrize("change", ACCEPTED.values(), ids=ACCEPTED.keys())
def test_accepted(cluster, crd, change):
    item = raycluster()
    change(item)
    result = cluster.try_create(item)
    assert result.returncode == 0, result.stderr


# What is wrong, and words of the answer that tell a person where and what.
REFUSED = {
    "negative replicas": (
        lambda item: group(item).update(replicas=-1),
        ["spec.workerGroupSpecs[0].replicas", "greater than or equal to 0"],
    ),
    "negative minReplicas": (
        lambda item: group(item).update(minReplicas=-1),
        ["spec.workerGroupSpecs[0].minReplicas", "greater than or equal to 0"],
    ),
    "worker without containers": (
        lambda item: group(item)["template"]["spec"].pop("containers"),
        ["spec.workerGroupSpecs[0].template.spec.containers", "Required value"],
    ),
    "head without containers": (
        lambda item: item["spec"]["headGroupSpec"]["template"]["spec"].pop("containers"),
        ["spec.headGroupSpec.template.spec.containers", "Required value"],
    ),
    "no head": (lambda item: item["spec"].pop("headGroupSpec"), ["spec.headGroupSpec", "Required value"]),
    "no spec": (lambda item: item.pop("spec"), ["spec", "Required value"]),
    "group name that is no DNS label": (
        lambda item: group(item).update(groupName="TPU_Group"),
        ["spec.workerGroupSpecs[0].groupName", "groupName 'TPU_Group' is not a DNS label", "use lower case letters"],
    ),
    "group name that ends with a dash": (
        lambda item: group(item).update(groupName="tpu-"),
        ["groupName 'tpu-' is not a DNS label", "begin and end with a letter or digit"],
    ),
    "group name that is too long": (
        lambda item: group(item).update(groupName="g" * 64),
        ["spec.workerGroupSpecs[0].groupName", "Too long", "63"],
    ),
    "unknown manager": (
        lambda item: item["spec"].update(managedBy="me"),
        ["spec.managedBy", "must be ray.io/kuberay-operator or kueue.x-k8s.io/multikueue"],
    ),
    "misspelled field": (lambda item: group(item).update(replica=1), ["unknown field", "replica"]),
    "replicas that are no number": (lambda item: group(item).update(replicas="two"), ["replicas", "must be of type integer"]),
    "unknown autoscaler version": (
        lambda item: item["spec"].update(autoscalerOptions={"version": "v3"}),
        ["spec.autoscalerOptions.version", '"v1", "v2"'],
    ),
}


@pytest.mark.parametrize("change, words", REFUSED.values(), ids=REFUSED.keys())
def test_refused_with_a_readable_message(cluster, crd, change, words):
    item = raycluster()
    change(item)
    result = cluster.try_create(item)
    assert result.returncode != 0
    assert all(word in result.stderr for word in words), result.stderr


@pytest.fixture
def stored(cluster, crd):
    cluster.kubectl("create", "-f", "-", stdin=json.dumps(raycluster("stored")))
    yield "stored"
    cluster.kubectl("delete", "raycluster", "stored")


def test_managed_by_cannot_be_changed_once_set(cluster, stored):
    patch = lambda value: cluster.try_kubectl(
        "patch", "raycluster", stored, "--type=merge", "-p", json.dumps({"spec": {"managedBy": value}})
    )
    assert patch("ray.io/kuberay-operator").returncode == 0
    refused = patch("kueue.x-k8s.io/multikueue")
    assert refused.returncode != 0 and "managedBy cannot be changed" in refused.stderr
    assert patch(None).returncode == 0


STATUS = {
    "state": "ready",
    "reason": "because",
    "desiredWorkerReplicas": 4,
    "minWorkerReplicas": 0,
    "maxWorkerReplicas": 2147483647,
    "availableWorkerReplicas": 4,
    "readyWorkerReplicas": 4,
    "desiredCPU": "260",
    "desiredMemory": "816Gi",
    "desiredGPU": "0",
    "desiredTPU": "16",
    "endpoints": {"client": "10001", "dashboard": "8265"},
    "head": {"podName": "a-head", "podIP": "10.0.0.1", "serviceName": "a-head-svc", "serviceIP": "10.0.0.2"},
    "conditions": [
        {
            "type": "HeadPodReady",
            "status": "True",
            "reason": "HeadPodRunningAndReady",
            "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
            "observedGeneration": 1,
        }
    ],
    "lastUpdateTime": "2026-01-01T00:00:00Z",
    "stateTransitionTimes": {"ready": "2026-01-01T00:00:00Z"},
    "observedGeneration": 1,
}


def test_status_keeps_every_field_and_shows_in_columns(cluster, stored):
    before = cluster.get("raycluster", stored)
    cluster.kubectl(
        "patch", "raycluster", stored, "--subresource=status", "--type=merge", "-p", json.dumps({"status": STATUS})
    )
    after = cluster.get("raycluster", stored)
    assert after["status"] == STATUS
    assert after["metadata"]["generation"] == before["metadata"]["generation"]

    header, row = cluster.kubectl("get", "raycluster", stored, "-o", "wide").splitlines()
    assert " ".join(header.split()) == (
        "NAME DESIRED WORKERS AVAILABLE WORKERS CPUS MEMORY GPUS TPUS STATUS AGE HEAD POD IP HEAD SERVICE IP"
    )
    columns = row.split()
    assert columns[:8] == [stored, "4", "4", "260", "816Gi", "0", "16", "ready"] and columns[9:] == ["10.0.0.1", "10.0.0.2"]
    assert stored in cluster.kubectl("get", "all")


def sample(schemas, node):
    """A value in which every published field of a type is set: lists have one entry."""
    node = node.get("allOf", [node])[0]
    if "$ref" in node:
        name = node["$ref"].rsplit("/", 1)[1]
        if name.endswith(".ObjectMeta"):
            labels = {"key": "value"}
            return {"annotations": labels, "finalizers": ["a/b"], "labels": labels, "name": "n", "namespace": "default"}
        return "1" if name.endswith((".Quantity", ".IntOrString")) else sample(schemas, schemas[name])
    if "properties" in node:
        return {name: sample(schemas, child) for name, child in node["properties"].items()}
    if "additionalProperties" in node:
        return {"key": sample(schemas, node["additionalProperties"])}
    if node["type"] == "array":
        return [sample(schemas, node["items"])]
    if node.get("format") == "date-time":
        return "2026-01-01T00:00:00Z"
    return {"string": "x", "integer": 1, "boolean": True, "number": 1}[node["type"]]


def test_nothing_of_a_pod_template_or_service_is_pruned(cluster, crd):
    """The API server itself says which fields a Pod template and a Service have; all of them come back."""
    schemas = json.loads(cluster.kubectl("get", "--raw", "/openapi/v3/api/v1"))["components"]["schemas"]
    item = raycluster()
    item["spec"]["headGroupSpec"]["template"] = sample(schemas, schemas[TEMPLATE])
    item["spec"]["headGroupSpec"]["headService"] = sample(schemas, schemas["io.k8s.api.core.v1.Service"])
    group(item)["template"] = sample(schemas, schemas[TEMPLATE])
    assert len(json.dumps(group(item)["template"])) > 10_000, "the sample is not as full as it should be"

    result = cluster.try_create(item, "-o", "json")
    assert result.returncode == 0, result.stderr
    answer = json.loads(result.stdout)
    assert group(answer)["template"] == group(item)["template"]
    assert answer["spec"]["headGroupSpec"] == item["spec"]["headGroupSpec"]


def test_writing_through_v1alpha1_loses_nothing(cluster, stored):
    cluster.kubectl(
        "patch", "raycluster", stored, "--type=merge", "-p",
        json.dumps({"spec": {"workerGroupSpecs": [dict(group(raycluster()), numOfHosts=4, resources={"TPU": "4"})]}}),
    )  # fmt: skip
    new = cluster.get("rayclusters.v1.ray.io", stored)
    old = cluster.try_kubectl("get", "rayclusters.v1alpha1.ray.io", stored, "-o", "json")
    assert "deprecated; use ray.io/v1" in old.stderr
    item = json.loads(old.stdout)
    item["metadata"].setdefault("labels", {})["touched"] = "yes"
    cluster.kubectl("replace", "-f", "-", stdin=json.dumps(item))
    again = cluster.get("rayclusters.v1.ray.io", stored)
    assert again["metadata"]["labels"] == {"touched": "yes"}
    assert again["spec"] == new["spec"] and group(again)["numOfHosts"] == 4


@pytest.mark.parametrize("path", sorted((ROOT / "deploy" / "samples").glob("raycluster-*.yaml")), ids=lambda path: path.name)
def test_samples_are_accepted(cluster, crd, path):
    cluster.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", path)


def test_generated_file_is_up_to_date(bin_folder):
    result = run(sys.executable, ROOT / "scripts" / "gen-crd.py", "--check", timeout=300)
    assert result.returncode == 0, result.stderr
