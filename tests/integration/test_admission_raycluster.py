"""RayClusters, RayJobs and RayServices at admission: numbers filled in, mistakes refused, stored objects never locked in."""

import copy
import json

import pytest
import yaml

from cluster import wait_until
from kube_api import ApiError
from ray_cluster import RayCluster, raycluster, refused, tpu_group, uids

NUMBERS = "a 4x4 v6e topology with 4 chips per host has 4 hosts"
WRONG = f"numOfHosts is 2, but {NUMBERS}: set numOfHosts to 4"


def without_hosts(name="v6e", **fields):
    group = tpu_group(name, **fields)
    del group["numOfHosts"]
    return group


def wrong(name):
    return raycluster(name, tpu_group(hosts=2))


def hosts(o, path=("spec",)):
    for key in path:
        o = o[key]
    return [g["numOfHosts"] for g in o["workerGroupSpecs"]]


def edit(ray, *operations):
    """A JSON patch of a RayCluster: unlike a PUT it cannot meet a status written meanwhile."""
    path = ray.cluster.api.resource("rayclusters.ray.io").path(ray.ns, ray.name)
    return ray.cluster.api.patch(path, list(operations), "application/json-patch+json")


def add_group(group):
    return {"op": "add", "path": "/spec/workerGroupSpecs/-", "value": group}


def wait_validating(cluster, ns):
    """Waits until the API server sends RayClusters to the validating webhook, which is a moment after it is stored."""
    path = cluster.api.resource("rayclusters.ray.io").path(ns)

    def refuses():
        try:
            cluster.api.post(path, wrong("probe"), dryRun="All")
        except ApiError as e:
            return WRONG in e.message
        return False

    wait_until(refuses, "the API server calls the validating webhook")


@pytest.fixture
def admission(cluster, namespace, operator):
    """The operator, once both kinds of its webhooks are called."""
    wait_validating(cluster, namespace)
    return operator


# --- filling in


def test_kubectl_shows_what_was_filled_in_and_the_slice_is_whole(cluster, namespace, admission):
    manifest = yaml.safe_dump(raycluster("it", without_hosts()))
    done = cluster.kubectl("apply", "-n", namespace, "-f", "-", input=manifest, check=False)
    assert done.returncode == 0, done.stderr
    assert f"Warning: spec.workerGroupSpecs[0].numOfHosts: set to 4, because {NUMBERS}" in done.stderr
    ray = RayCluster(cluster, namespace, "it")
    assert hosts(ray.get()) == [4]
    ray.wait_pods(workers=4)


@pytest.mark.parametrize("flags", [[], ["--server-side"]], ids=["client-side", "server-side"])
def test_the_same_manifest_may_be_applied_again(cluster, namespace, admission, flags):
    manifest = yaml.safe_dump(raycluster("it", without_hosts()))
    apply = ["apply", "-n", namespace, "-f", "-", *flags]
    cluster.kubectl(*apply, input=manifest)
    ray = RayCluster(cluster, namespace, "it")
    before = ray.wait_pods(workers=4)
    generation = ray.get()["metadata"]["generation"]
    cluster.kubectl(*apply, input=manifest)
    assert hosts(ray.get()) == [4]
    assert ray.get()["metadata"]["generation"] == generation, "nothing changed"
    assert uids(ray.workers()) == uids(before)


def test_only_a_new_group_of_a_stored_cluster_is_filled_in(cluster, namespace, admission):
    ray = RayCluster.create(cluster, namespace, raycluster("it", tpu_group("old")))
    assert hosts(edit(ray, add_group(without_hosts("new", topology="4x8", replicas=0)))) == [4, 8]
    moved = without_hosts("old", topology="4x8")
    replace = {"op": "replace", "path": "/spec/workerGroupSpecs/0", "value": moved}
    denied = refused(edit, ray, replace)
    assert denied.status == 422 and "numOfHosts is 1, but a 4x8 v6e topology" in denied.message
    assert "set numOfHosts to 8" in denied.message


def test_a_generated_name_is_no_obstacle(cluster, namespace, admission):
    manifest = raycluster("it", without_hosts(replicas=0))
    manifest["metadata"] = {"generateName": "it-"}
    made = cluster.create(manifest, namespace)
    assert made["metadata"]["name"].startswith("it-") and hosts(made) == [4]
    bad = wrong("it")
    bad["metadata"] = {"generateName": "it-"}
    assert WRONG in refused(cluster.create, bad, namespace).message


def test_a_dry_run_shows_it_and_leaves_nothing_behind(cluster, namespace, admission):
    manifest = json.dumps(raycluster("it", without_hosts()))
    shown = cluster.kubectl("create", "--dry-run=server", "-n", namespace, "-o", "json", "-f", "-", input=manifest)
    assert hosts(json.loads(shown)) == [4]
    done = cluster.kubectl(
        "create", "--dry-run=server", "-n", namespace, "-f", "-", input=json.dumps(wrong("it")), check=False
    )
    assert done.returncode != 0 and WRONG in done.stderr
    # A cluster made after it is reconciled: by then the other would have been as well.
    RayCluster.create(cluster, namespace, raycluster("other")).wait_pods()
    assert [c["metadata"]["name"] for c in cluster.get_json("rayclusters.ray.io", ns=namespace)] == ["other"]
    assert {p["metadata"]["labels"]["ray.io/cluster"] for p in cluster.get_json("pods", ns=namespace)} == {"other"}


# --- refusing


def test_kubectl_shows_every_mistake_with_numbers_and_remedy(cluster, namespace, admission):
    bad = raycluster("it", tpu_group("twice", hosts=2), tpu_group("twice", topology="4x"))
    done = cluster.kubectl("apply", "-n", namespace, "-f", "-", input=yaml.safe_dump(bad), check=False)
    assert done.returncode != 0
    for words in (
        f"spec.workerGroupSpecs[0].numOfHosts: {WRONG}",
        "spec.workerGroupSpecs[1].template.spec.nodeSelector",
        'topology "4x" is not valid',
        'spec.workerGroupSpecs[1].groupName: "twice" is also the name of workerGroupSpecs[0]',
    ):
        assert words in done.stderr
    assert not cluster.exists("rayclusters.ray.io", "it", namespace)


def test_v1alpha1_is_filled_in_and_judged_too(cluster, namespace, admission):
    path = f"/apis/ray.io/v1alpha1/namespaces/{namespace}/rayclusters"

    def old(manifest):
        manifest = copy.deepcopy(manifest) | {"apiVersion": "ray.io/v1alpha1"}
        for group in manifest["spec"]["workerGroupSpecs"]:
            group |= {"rayStartParams": {}, "minReplicas": 0, "maxReplicas": 9}
        return manifest

    denied = refused(cluster.api.post, path, old(wrong("it")))
    assert denied.status == 422 and WRONG in denied.message
    cluster.api.post(path, old(raycluster("it", without_hosts(replicas=0))))
    assert hosts(RayCluster(cluster, namespace, "it").get()) == [4]


def test_system_namespaces_do_not_ask_us(cluster, namespace, start_operator):
    start_operator(cluster, controller=False)
    wait_validating(cluster, namespace)
    path = cluster.api.resource("rayclusters.ray.io").path("kube-public")
    assert hosts(cluster.api.post(path, wrong("it"), dryRun="All")) == [2]


def test_nobody_is_locked_out_while_the_operator_is_down(cluster, namespace, admission):
    admission.kill9()
    assert hosts(cluster.create(wrong("it"), namespace)) == [2]


# --- what is stored already


@pytest.fixture
def stored(cluster, namespace, start_operator):
    """An invalid RayCluster that was stored before there was a webhook."""
    cluster.create(wrong("bad"), namespace)
    start_operator(cluster, watch_namespaces=[namespace])
    wait_validating(cluster, namespace)
    return RayCluster(cluster, namespace, "bad")


def test_metadata_and_status_of_a_stored_invalid_cluster_can_be_changed(cluster, namespace, stored):
    cluster.kubectl("label", "-n", namespace, "raycluster/bad", "team=ml")
    cluster.kubectl("annotate", "-n", namespace, "raycluster/bad", "note=kept")
    cluster.patch("rayclusters.ray.io", "bad", {"status": {"reason": "tested"}}, namespace, "status")
    stored.wait_condition("InvalidSpec", status="True")
    meta = stored.get()["metadata"]
    assert meta["labels"]["team"] == "ml" and meta["annotations"]["note"] == "kept"
    assert hosts(stored.get()) == [2]


def test_a_finalizer_of_a_stored_invalid_cluster_can_be_removed(cluster, namespace, stored):
    cluster.patch("rayclusters.ray.io", "bad", {"metadata": {"finalizers": ["example.com/wait"]}}, namespace)
    stored.delete()
    assert stored.get()["metadata"]["deletionTimestamp"]
    patch = '[{"op": "remove", "path": "/metadata/finalizers"}]'
    cluster.kubectl("patch", "-n", namespace, "raycluster/bad", "--type=json", "-p", patch)
    wait_until(lambda: not cluster.exists("rayclusters.ray.io", "bad", namespace), "the cluster is gone")


def test_a_stored_invalid_cluster_can_be_scaled_and_suspended_and_mended(cluster, namespace, stored):
    scale = '[{"op": "replace", "path": "/spec/workerGroupSpecs/0/replicas", "value": 3}]'
    kubectl = ["patch", "-n", namespace, "raycluster/bad"]
    done = cluster.kubectl(*kubectl, "--type=json", "-p", scale, check=False)
    assert done.returncode == 0 and f"Warning: spec.workerGroupSpecs[0].numOfHosts: {WRONG}" in done.stderr
    cluster.patch("rayclusters.ray.io", "bad", {"spec": {"suspend": True}}, namespace)
    assert hosts(stored.get()) == [2], "nobody changed it meanwhile"

    denied = refused(edit, stored, add_group(tpu_group("Bad_Name")))
    assert "Bad_Name" in denied.message and WRONG not in denied.message

    mend = '[{"op": "replace", "path": "/spec/workerGroupSpecs/0/numOfHosts", "value": 4}]'
    assert "Warning" not in cluster.kubectl(*kubectl, "--type=json", "-p", mend, check=False).stderr
    assert hosts(stored.get()) == [4]


def test_2044_a_stored_group_with_pods_is_never_given_other_hosts(cluster, namespace, start_operator):
    """numOfHosts 1 on a 4x4 topology, stored without us: any update leaves the number as it is, and says so."""
    cluster.create(raycluster("bad", without_hosts()), namespace)
    start_operator(cluster, watch_namespaces=[namespace])
    wait_validating(cluster, namespace)
    RayCluster(cluster, namespace, "bad").scale(2)
    assert hosts(RayCluster(cluster, namespace, "bad").get()) == [1]


# --- clusters inside other objects

HOLDERS = {"RayJob": ("rayjobs", "rayClusterSpec"), "RayService": ("rayservices", "rayClusterConfig")}


def crd(kind, plural):
    """One whose schema says nothing: KubeRay's says everything, but to us it only matters that the kind exists."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.ray.io"},
        "spec": {"group": "ray.io", "names": names, "scope": "Namespaced", "versions": [version]},
    }


@pytest.fixture(scope="module")
def holder_kinds(cluster):
    for kind, (plural, _) in HOLDERS.items():
        cluster.create(crd(kind, plural))
    for plural, _ in HOLDERS.values():
        wait_until(lambda p=plural: cluster.api.get(f"/apis/ray.io/v1/{p}")["items"] == [], f"{plural} are served")
    yield
    for plural, _ in HOLDERS.values():
        cluster.delete("customresourcedefinitions", f"{plural}.ray.io")


def held(kind, name, *groups):
    cluster_spec = raycluster(name, *groups)["spec"]
    return {"apiVersion": "ray.io/v1", "kind": kind, "metadata": {"name": name}, "spec": {HOLDERS[kind][1]: cluster_spec}}


@pytest.mark.parametrize("kind", HOLDERS)
def test_a_cluster_inside_another_object_is_filled_in_and_judged(cluster, namespace, holder_kinds, admission, kind):
    key = HOLDERS[kind][1]
    manifest = yaml.safe_dump(held(kind, "it", without_hosts()))
    done = cluster.kubectl("apply", "-n", namespace, "-f", "-", input=manifest, check=False)
    assert done.returncode == 0, done.stderr
    assert f"Warning: spec.{key}.workerGroupSpecs[0].numOfHosts: set to 4, because {NUMBERS}" in done.stderr
    assert hosts(cluster.get_json(kind, "it", namespace), ("spec", key)) == [4]

    denied = refused(cluster.create, held(kind, "bad", tpu_group(hosts=2)), namespace)
    assert denied.status == 422 and f"spec.{key}.workerGroupSpecs[0].numOfHosts: {WRONG}" in denied.message
    denied = refused(cluster.create, held(kind, "a" * 48, tpu_group()), namespace)
    assert "at most 47" in denied.message
    cluster.create(held(kind, "a" * 47, tpu_group()), namespace)


@pytest.mark.parametrize("kind", HOLDERS)
def test_a_stored_invalid_holder_can_be_changed_elsewhere(cluster, namespace, holder_kinds, start_operator, kind):
    cluster.create(held(kind, "bad", tpu_group(hosts=2)), namespace)
    start_operator(cluster, watch_namespaces=[namespace])
    wait_validating(cluster, namespace)
    cluster.kubectl("label", "-n", namespace, f"{kind}/bad", "team=ml")
    cluster.patch(kind, "bad", {"spec": {"entrypoint": "python x.py"}, "status": {"seen": True}}, namespace)
    cluster.patch(kind, "bad", {"metadata": {"finalizers": ["example.com/wait"]}}, namespace)
    cluster.delete(kind, "bad", namespace)
    cluster.patch(kind, "bad", {"metadata": {"finalizers": None}}, namespace)
    wait_until(lambda: not cluster.exists(kind, "bad", namespace), f"{kind} is gone")


def test_a_job_on_an_existing_cluster_is_none_of_our_business(cluster, namespace, holder_kinds, admission):
    job = held("RayJob", "a" * 60)
    job["spec"] = {"clusterSelector": {"ray.io/cluster": "it"}}
    cluster.create(job, namespace)
