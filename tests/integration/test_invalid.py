"""RayClusters that cannot work: a clear answer at kubectl apply, and, when nobody answers there, on the object. Neither
harms another RayCluster, and mending the manifest is all it takes."""

import copy

import pytest
import yaml

from cluster import wait_until
from harness import namespaces, operators
from ray_cluster import TOPOLOGY, RayCluster, assert_whole_slices, raycluster, tpu_group, uids


def group(manifest, index=0):
    return manifest["spec"]["workerGroupSpecs"][index]


def bad_topology(manifest):
    group(manifest)["template"]["spec"]["nodeSelector"][TOPOLOGY] = "4x"


def too_few_hosts(manifest):
    group(manifest)["numOfHosts"] = 2


def complaint_718_duplicate_names(manifest):
    manifest["spec"]["workerGroupSpecs"].append(copy.deepcopy(group(manifest)))


def too_long_group_name(manifest):
    group(manifest)["groupName"] = "g" * 60


def negative_replicas(manifest):
    group(manifest)["replicas"] = -1


def no_containers(manifest):
    del group(manifest)["template"]["spec"]["containers"]


def no_container_at_all(manifest):
    group(manifest)["template"]["spec"]["containers"] = []


def name_is_no_label(manifest):
    group(manifest)["groupName"] = "TPU_Group"


def no_head(manifest):
    del manifest["spec"]["headGroupSpec"]


def topology_of_another_generation(manifest):
    group(manifest)["template"]["spec"]["nodeSelector"][TOPOLOGY] = "2x2x2"


def worker(manifest):
    return group(manifest)["template"]["spec"]["containers"][0]


def bad_label_value(manifest):
    group(manifest)["template"].setdefault("metadata", {}).setdefault("labels", {})["team"] = "a b"


def empty_image(manifest):
    worker(manifest)["image"] = ""


def restart_sometimes(manifest):
    group(manifest)["template"]["spec"]["restartPolicy"] = "Sometimes"


def same_container_twice(manifest):
    group(manifest)["template"]["spec"]["containers"].append({"name": worker(manifest)["name"], "image": "i"})


def bad_quantity(manifest):
    worker(manifest)["resources"]["limits"]["memory"] = "16 GB"


def mount_without_volume(manifest):
    worker(manifest)["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]


def bad_toleration(manifest):
    group(manifest)["template"]["spec"]["tolerations"] = [{"key": "a", "operator": "Like"}]


# What is wrong, and the field, the value and the remedy that the answer has to name.
OURS = [
    (bad_topology, ["spec.workerGroupSpecs[0].template.spec.nodeSelector", '"4x"']),
    (topology_of_another_generation, ["spec.workerGroupSpecs[0].template.spec", "2x2x2"]),
    (
        too_few_hosts,
        [
            "spec.workerGroupSpecs[0].numOfHosts",
            "numOfHosts is 2, but a 4x4 v6e topology with 4 chips per host has 4 hosts",
            "set numOfHosts to 4",
        ],
    ),
    (complaint_718_duplicate_names, ["spec.workerGroupSpecs[1].groupName", '"v6e" is also the name', "give every group its own"]),
    (too_long_group_name, ["spec.workerGroupSpecs[0].groupName", "60 characters", "shorten it"]),
    (bad_label_value, ['spec.workerGroupSpecs[0].template.metadata.labels["team"]', '"a b" is no label value']),
    (empty_image, ["spec.workerGroupSpecs[0].template.spec.containers[0].image", "is empty: name the image"]),
    (restart_sometimes, ["spec.workerGroupSpecs[0].template.spec.restartPolicy", '"Sometimes"', "one of Always"]),
    (bad_quantity, ["containers[0].resources.limits.memory", 'not "16 GB"', "a quantity of 0 or more such as 4"]),
    (mount_without_volume, ["containers[0].volumeMounts[0].name", 'no volume "data"', "remove the mount"]),
    (no_container_at_all, ["spec.workerGroupSpecs[0].template.spec.containers", "is empty", "needs at least one"]),
]
# The same for what the schema of the CRD refuses, so that it is never stored.
SCHEMA = [
    (negative_replicas, ["spec.workerGroupSpecs[0].replicas", "-1", "greater than or equal to 0"]),
    (no_containers, ["spec.workerGroupSpecs[0].template.spec.containers: Required value"]),
    (name_is_no_label, ["spec.workerGroupSpecs[0].groupName", "TPU_Group", "use lower case letters, digits and '-'"]),
    (no_head, ["spec.headGroupSpec: Required value"]),
    (same_container_twice, ["spec.workerGroupSpecs[0].template.spec.containers[1]: Duplicate value"]),
]


def spoilt(spoil, name="bad"):
    manifest = raycluster(name, tpu_group())
    spoil(manifest)
    return manifest


def by_name(cases):
    return pytest.mark.parametrize("spoil,words", cases, ids=[spoil.__name__ for spoil, _ in cases])


@pytest.fixture(scope="module")
def shared(cluster, request, tmp_path_factory):
    """A namespace with a RayCluster that is fine, and the uids of its workers; nothing in it ever changes."""
    with namespaces(cluster, request) as make, operators(request, tmp_path_factory.mktemp("operators")) as start:
        ns = make()
        start(cluster, watch_namespaces=[ns])
        ray = RayCluster.create(cluster, ns, raycluster("good", tpu_group()))
        yield ns, ray, uids(ray.wait_pods(workers=4))


def apply(cluster, ns, manifest):
    """kubectl apply, as it ended."""
    return cluster.kubectl("apply", "-n", ns, "-f", "-", input=yaml.safe_dump(manifest), check=False)


@by_name(OURS + SCHEMA)
def test_kubectl_apply_is_told(cluster, shared, spoil, words):
    ns, ray, before = shared
    done = apply(cluster, ns, spoilt(spoil))
    assert done.returncode == 1
    for word in words:
        assert word in done.stderr
    assert not cluster.exists("raycluster", "bad", ns)
    assert uids(ray.workers()) == before, "the other RayCluster does not notice"


def test_a_name_too_long_for_what_is_made_of_it_is_told(cluster, shared):
    ns, _, _ = shared
    name = "n" * 54
    done = apply(cluster, ns, raycluster(name, tpu_group()))
    assert done.returncode == 1
    assert "54 characters" in done.stderr and "53" in done.stderr
    assert not cluster.exists("raycluster", name, ns)


def test_all_problems_are_told_at_once(cluster, shared):
    ns, _, _ = shared
    manifest = raycluster("bad", tpu_group(), tpu_group("other"))
    too_few_hosts(manifest)
    group(manifest, 1)["numOfHosts"] = 3
    done = apply(cluster, ns, manifest)
    assert "spec.workerGroupSpecs[0].numOfHosts: numOfHosts is 2" in done.stderr
    assert "spec.workerGroupSpecs[1].numOfHosts: numOfHosts is 3" in done.stderr


def test_an_update_for_the_worse_is_refused_and_the_cluster_stays_as_it_was(cluster, shared):
    ns, ray, before = shared
    done = apply(cluster, ns, spoilt(too_few_hosts, ray.name))
    assert done.returncode == 1 and "numOfHosts is 2" in done.stderr
    assert ray.get()["spec"]["workerGroupSpecs"][0]["numOfHosts"] == 4
    assert uids(ray.workers()) == before


@by_name(OURS)
def test_without_a_webhook_the_object_tells(cluster, namespace, start_operator, spoil, words):
    operator = start_operator(cluster, webhook=False, watch_namespaces=[namespace])
    bad = RayCluster.create(cluster, namespace, spoilt(spoil))

    condition = bad.wait_condition("InvalidSpec", status="True", reason="InvalidRayClusterSpec")
    kind, _, note = bad.wait_event("InvalidRayClusterSpec")
    assert kind == "Warning"
    for word in words:
        assert word in condition["message"]
        assert word in note
    assert bad.status()["observedGeneration"] == bad.get()["metadata"]["generation"]

    # Another one beside it is made and scaled.
    good = RayCluster.create(cluster, namespace, raycluster("good", tpu_group()))
    assert_whole_slices(good.wait_pods(workers=4), {("v6e", 0): 4})
    good.scale(2)
    good.wait_pods(workers=8)
    assert good.condition("InvalidSpec") == {}

    assert not bad.pods(live=False) and not bad.services(), "nothing is made of it"
    invalid = operator.metric("ray_tpu_operator_reconcile_total", result="invalid")
    assert 1 <= invalid < 20, "it is not looked at again and again"

    assert apply(cluster, namespace, raycluster("bad", tpu_group())).returncode == 0
    assert_whole_slices(bad.wait_pods(workers=4), {("v6e", 0): 4})
    bad.wait_condition("InvalidSpec")


def test_without_a_webhook_an_object_with_too_long_a_name_tells(cluster, namespace, start_operator):
    start_operator(cluster, webhook=False, watch_namespaces=[namespace])
    bad = RayCluster.create(cluster, namespace, raycluster("n" * 54, tpu_group()))
    condition = bad.wait_condition("InvalidSpec", status="True", reason="InvalidRayClusterMetadata")
    kind, _, note = bad.wait_event("InvalidRayClusterMetadata", "metadata.name", "54 characters", "shorten it")
    assert (kind, note) == ("Warning", condition["message"])
    assert not bad.pods(live=False) and not bad.services()


def test_a_running_cluster_that_is_made_invalid_keeps_its_pods(cluster, namespace, start_operator):
    start_operator(cluster, webhook=False, watch_namespaces=[namespace])
    ray = RayCluster.create(cluster, namespace, raycluster("ray", tpu_group()))
    before = uids(ray.wait_pods(workers=4))
    ray.run()

    assert apply(cluster, namespace, spoilt(too_few_hosts, "ray")).returncode == 0
    ray.wait_condition("InvalidSpec", status="True")
    assert uids(ray.workers()) == before

    assert apply(cluster, namespace, raycluster("ray", tpu_group())).returncode == 0
    ray.wait_condition("InvalidSpec")
    wait_until(lambda: ray.status().get("state") == "ready", "ready again")
    assert uids(ray.workers()) == before


def test_what_only_the_api_server_refuses_is_told_in_its_words(cluster, namespace, start_operator):
    start_operator(cluster, watch_namespaces=[namespace])
    ray = RayCluster.create(cluster, namespace, spoilt(bad_toleration))
    words = ["a Pod of group v6e is refused, mend spec.workerGroupSpecs[0].template: Pod ", "is invalid"]
    words += ["spec.tolerations[0].operator", '"Like"']
    condition = ray.wait_condition("ReplicaFailure", status="True", reason="FailedCreateWorkerPod")
    kind, _, note = ray.wait_event("FailedToCreateWorkerPod")
    assert kind == "Warning"
    for word in words:
        assert word in condition["message"] and word in note


def test_what_its_pods_are_warned_of_is_told_of_the_cluster(cluster, namespace, start_operator):
    start_operator(cluster, watch_namespaces=[namespace])
    manifest = raycluster("warned", tpu_group())
    worker(manifest)["env"] = [{"name": "TPU_PROCESS_PORT", "value": "http"}]
    done = apply(cluster, namespace, manifest)
    warning = 'TPU_PROCESS_PORT of container ray-worker is "http", no port from 1 to 65535'
    assert done.returncode == 0
    assert f"Warning: spec.workerGroupSpecs[0].template: {warning}" in done.stderr
    assert RayCluster(cluster, namespace, "warned").wait_event("TPUWarning", warning)[0] == "Warning"
