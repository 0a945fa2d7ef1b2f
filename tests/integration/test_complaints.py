"""What users of KubeRay complain about, as tests named after the numbers of the issue threads at ray-project/kuberay.
tests/faults/complaints.py lists them all, tests/faults/faults.yaml says how each fault is put back, and `make faults` shows that
its test then fails. Many are answered by the tests of their subject, in the other files of this folder.
"""

import contextlib
import json
import pathlib
import re
import threading
import time

import pytest
import yaml

from cluster import WRAPPER, wait_until
from harness import CRD, shared_controller
from kube_api import ApiError
from operator_process import BINARY
from ray_cluster import (
    CLUSTER,
    IMAGE,
    REPLICA_INDEX,
    RayCluster,
    assert_whole_slices,
    cpu_group,
    labels_of,
    place,
    raycluster,
    tpu_group,
    uids,
    watch_pods,
)


@pytest.fixture(scope="module")
def namespace(cluster, request, tmp_path_factory):
    with shared_controller(cluster, request, tmp_path_factory.mktemp("operator"), "--terminating-timeout=1s") as ns:
        yield ns


@pytest.fixture
def create(cluster, namespace, request):
    """create(*groups, **spec): a RayCluster named after the test's number, deleted at its end."""
    made = []

    def make(*groups, name=None, **spec):
        number = re.match(r"test_(\d+)", request.node.name)[1]
        manifest = raycluster(name or f"c{number}", *groups, **spec)
        made.append(RayCluster.create(cluster, namespace, manifest))
        return made[-1]

    yield make
    for ray in made:
        ray.delete()


def name_of(pod):
    return pod["metadata"]["name"]


def pod_spec(manifest_or_object, group=None):
    """The Pod spec of a template: of the head, or of a worker group by index."""
    spec = manifest_or_object["spec"]
    return (spec["headGroupSpec"] if group is None else spec["workerGroupSpecs"][group])["template"]["spec"]


def edit(ray, change):
    """change(object) on the RayCluster as stored, written back whole."""
    path = ray.cluster.api.resource("rayclusters.ray.io").path(ray.ns, ray.name)

    def write():
        stored = ray.get()
        change(stored)
        return ray.cluster.api.put(path, stored)

    return wait_until(write, f"{ray.name} is updated")


# --- A: multi-host


@pytest.mark.complaint(2105)
def test_2084_a_dropped_number_of_hosts_deletes_no_fleet(cluster, namespace, create):
    """A CRD of 1.0 drops numOfHosts, other writers send 0: that is one Pod per replica, never none."""
    zero, absent = cpu_group("zero", 0, 2), cpu_group("absent", 1, 2)
    del absent["numOfHosts"]
    ray = create(zero, absent)
    workers = ray.wait_pods(workers=4)
    ray.wait_status("four wanted", desiredWorkerReplicas=4)
    before = uids(workers)

    def drop(stored):
        for group in stored["spec"]["workerGroupSpecs"]:
            group["numOfHosts"] = -1 if group["groupName"] == "zero" else 0

    edit(ray, drop)
    ray.wait_seen()
    assert uids(ray.workers()) == before


def test_2084_a_slice_without_its_number_of_hosts_runs_on(cluster, namespace, create):
    """For TPUs the topology says how many there are: the object is told wrong, the Pods stay."""
    ray = create(tpu_group(), name="c2084-tpu")
    before = uids(ray.wait_pods(workers=4))
    edit(ray, lambda stored: stored["spec"]["workerGroupSpecs"][0].pop("numOfHosts"))
    ray.wait_condition("InvalidSpec", status="True")
    assert uids(ray.workers()) == before


@pytest.mark.complaint(425, 2227, "ai-on-gke#963", "ai-on-gke#1003")
def test_2923_the_longest_name_is_cut_nowhere(cluster, namespace, create):
    """What workers are told of each other is what the Service is called; 53 characters are allowed."""
    name = "a-cluster-with-the-longest-name-that-may-be-given-to0"
    assert len(name) == 53
    ray = create(tpu_group(), name=name)
    workers = ray.wait_pods(workers=4)
    assert_whole_slices(workers, {("v6e", 0): 4})
    for pod in workers:
        assert pod["spec"]["subdomain"] == f"{name}-headless"
        hosts = next(e["value"] for e in pod["spec"]["containers"][0]["env"] if e["name"] == "TPU_WORKER_HOSTNAMES")
        assert hosts.split(",") == [f"v6e-0-{i}.{name}-headless" for i in range(4)]
        # The prefix stays readable (#425, #2227).
        assert name_of(pod).startswith(f"{name[:50]}-worker-")
    assert {f"{name}-headless", f"{name}-head-svc"} <= set(ray.services())


def test_2923_a_longer_name_is_refused(cluster, namespace, create):
    ray = create(cpu_group(), name="a" * 54)
    condition = ray.wait_condition("InvalidSpec", status="True")
    assert "53" in condition["message"]
    assert not ray.pods(live=False)


@pytest.mark.complaint(5108, 5191, 4402)
def test_5000_workers_of_multi_host_groups_have_names_in_dns(cluster, namespace, create):
    """With or without TPUs. EndpointSlices carry the host names from which the cluster's DNS answers."""
    ray = create(cpu_group("cpu", 2, 2))
    ray.wait_pods(workers=4)
    ray.run()
    selector = "kubernetes.io/service-name=c5000-headless"

    def names():
        slices = cluster.get_json("endpointslices", ns=namespace, selector=selector)
        return sorted(e.get("hostname", "") for s in slices for e in s.get("endpoints") or [])

    expected = [f"cpu-{replica}-{host}" for replica in (0, 1) for host in (0, 1)]
    wait_until(lambda: names() == expected, f"the host names {expected}")


# --- B: Pods


def stuck(cluster, namespace, pod):
    """On a node whose kubelet is gone: deleted, it stays Terminating."""
    cluster.bind_pod(namespace, name_of(pod), node="dead")
    options = {"gracePeriodSeconds": 1}
    cluster.api.delete(cluster.api.resource("pods").path(namespace, name_of(pod)), options)


def test_4078_pods_on_a_dead_node_are_replaced(cluster, namespace, create):
    """Head, single-host worker and slice; the Pods themselves wait for somebody to remove the node."""
    with watch_pods(cluster, namespace):
        ray = create(cpu_group("single", 1, 2), cpu_group("slice", 2, 1))
        ray.wait_pods(workers=4)
        for pod in ray.pods():
            cluster.set_pod_status(namespace, name_of(pod))
        (head,), workers = ray.heads(), ray.workers()
        lost = [head, workers[0], workers[2]]
        for pod in lost:
            stuck(cluster, namespace, pod)

        def replaced():
            live = ray.pods()
            return len(live) == 5 and not {name_of(p) for p in live} & {name_of(p) for p in lost}

        wait_until(replaced, "one head and four workers", timeout=60)
        assert workers[1]["metadata"]["uid"] in uids(ray.workers()), "its neighbour had nothing to do with it"
        assert set(uids(lost)) <= set(uids(ray.pods(live=False)))
        cluster.run_pods(namespace, f"{CLUSTER}={ray.name}")
        ray.wait_status("ready, for what is stuck does not count", state="ready", readyWorkerReplicas=4)
        cluster.finish_deletions(namespace)


def test_747_the_least_useful_and_newest_go_first(cluster, namespace, create):
    """Without an autoscaler: Pending, then not ready, then the highest index."""
    with watch_pods(cluster, namespace):
        ray = create(cpu_group(replicas=5))
        workers = ray.wait_pods(workers=5)
        for pod, ready in zip(workers, (True, False, True, None, True)):
            if ready is not None:
                cluster.set_pod_status(namespace, name_of(pod), ready=ready)
        ray.wait_status("three are ready", readyWorkerReplicas=3, availableWorkerReplicas=4)
        left = [0, 1, 2, 3, 4]
        for victims in ({1, 3}, {4}, {2}):
            left = [i for i in left if i not in victims]
            ray.scale(len(left))
            assert [place(p)[1] for p in ray.wait_pods(workers=len(left))] == left


@pytest.mark.complaint(3286)
def test_1936_scaling_down_in_quick_steps_deletes_no_more_than_asked(cluster, namespace, create):
    with watch_pods(cluster, namespace) as history:
        ray = create(cpu_group(replicas=8))
        before = ray.wait_pods(workers=8)
        ray.run()
        for replicas in range(7, 2, -1):
            ray.scale(replicas)
        after = ray.wait_pods(workers=3)
        ray.wait_seen()
        assert set(uids(after)) < set(uids(before)), "none was made anew"
        history.catch_up()
        assert len([n for n in history.deleted() if n in {name_of(p) for p in before}]) == 5
        seen = {p["metadata"]["uid"] for m in history.moments() for p in m.values() if labels_of(p).get(CLUSTER) == ray.name}
        assert len(seen) == 9, "the head and eight workers, and no other ever"


def test_3868_another_head_has_another_name(cluster, namespace, create):
    """The autoscaler takes the name for the identity of an instance, even of one that was there for milliseconds."""
    ray = create(cpu_group(replicas=0))
    ray.wait_pods(workers=0)
    names = set()
    for _ in range(6):
        (head,) = ray.heads()
        assert name_of(head) not in names
        names.add(name_of(head))
        cluster.delete("pods", name_of(head), namespace)
        wait_until(lambda: ray.heads() and uids(ray.heads()) != uids([head]), "another head")


def test_942_names_of_nobody_hold_nothing_up(cluster, namespace, create):
    """workersToDelete with Pods long gone, of another group, of another cluster, of nobody's: only the group's own go,
    the list stays as it was written, and the rest of the world is untouched."""
    other = create(cpu_group(), name="c942-other")
    theirs = other.wait_pods(workers=1) + other.heads()
    spec = {"containers": [{"name": "c", "image": "c"}]}
    bystander = cluster.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "c942-pod"}, "spec": spec}, namespace)
    ray = create(cpu_group("a", replicas=2), cpu_group("b"))
    a0, a1, b0 = ray.wait_pods(workers=3)
    names = ["long-gone", *map(name_of, theirs), "c942-pod", name_of(b0), name_of(ray.heads()[0]), name_of(a1)]
    kept = uids([a0, b0, *ray.heads()])

    def list_them(stored):
        stored["spec"]["workerGroupSpecs"][0] |= {"replicas": 1, "scaleStrategy": {"workersToDelete": names}}

    edit(ray, list_them)
    assert uids(ray.wait_pods(workers=2)) == uids([a0, b0])
    ray.wait_seen()
    assert sorted(uids(ray.pods())) == sorted(kept)
    assert uids(other.pods()) == uids(sorted(theirs, key=name_of))
    assert cluster.get_json("pods", "c942-pod", namespace)["metadata"]["uid"] == bystander["metadata"]["uid"]
    assert ray.get()["spec"]["workerGroupSpecs"][0]["scaleStrategy"]["workersToDelete"] == names
    ray.run()
    cluster.delete("pods", "c942-pod", namespace)


@pytest.mark.complaint(4001)
def test_3909_a_large_cluster_does_not_keep_a_small_one_waiting(cluster, make_namespace, start_operator):
    """The operator's user lets it do 40 requests a second; 150 Pods take their time, 3 must not wait for it."""
    ns = make_namespace()
    start_operator(cluster, "--kube-api-qps=40", "--kube-api-burst=2", webhook=False, watch_namespaces=[ns])
    with cluster.watch("pods", ns) as watch:
        start = time.monotonic()
        large = RayCluster.create(cluster, ns, raycluster("large", cpu_group(replicas=150)))
        wait_until(lambda: len(watch.history()) >= 5, "the large one has begun")
        small = RayCluster.create(cluster, ns, raycluster("small", cpu_group(replicas=2)))
        small.wait_pods(workers=2)
        large.wait_pods(workers=150, timeout=120)
        assert time.monotonic() - start > 3, "154 requests at 40 a second, all but two of them"
        order = [labels_of(o)[CLUSTER] for kind, o in watch.history() if kind == "ADDED"]
    last = max(i for i, name in enumerate(order) if name == "small")
    after = order[last:].count("large")
    assert after > 30, f"{after} of 151 Pods of the large one came after the small one was complete"


def test_1739_the_pods_of_a_removed_group_go(cluster, namespace, create):
    with watch_pods(cluster, namespace):
        ray = create(cpu_group("a"), cpu_group("slice", 2), cpu_group("b"))
        before = ray.wait_pods(workers=4)
        ray.run()
        edit(ray, lambda stored: stored["spec"]["workerGroupSpecs"].pop(1))
        after = ray.wait_pods(workers=2)
        assert uids(after) == [u for p, u in zip(before, uids(before)) if place(p)[0] != "slice"]
        ray.wait_event("DeletedWorkerPod", "no longer in the spec")
        ray.wait_status("ready without it", state="ready", desiredWorkerReplicas=2)


@pytest.mark.complaint(3905, 4140)
def test_787_an_edit_of_the_template_is_not_ignored_silently(cluster, namespace, create):
    """Running Pods stay, and the object says so until they have been made anew; what is made from now on is new."""
    ray = create(cpu_group(replicas=2))
    before = ray.wait_pods(workers=2)
    ray.run()

    def new_image(stored):
        pod_spec(stored, 0)["containers"][0]["image"] = f"{IMAGE}-new"

    edit(ray, new_image)
    condition = ray.wait_condition("PodTemplateOutOfDate", status="True")
    assert "2 Pods of group cpu" in condition["message"]
    assert uids(ray.workers()) == uids(before)
    cluster.delete("pods", name_of(before[0]), namespace)
    wait_until(lambda: "1 Pods of group cpu" in ray.condition("PodTemplateOutOfDate").get("message", ""), "one is left")
    cluster.delete("pods", name_of(before[1]), namespace)
    ray.wait_condition("PodTemplateOutOfDate")
    assert {p["spec"]["containers"][0]["image"] for p in ray.wait_pods(workers=2)} == {f"{IMAGE}-new"}


@pytest.mark.complaint(372)
@pytest.mark.parametrize("policy", ["Always", "Never"])
@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_2125_an_evicted_pod_is_replaced(cluster, namespace, policy, phase):
    """Whatever its restartPolicy: a Pod in phase Failed or Succeeded never runs again."""
    manifest = raycluster(f"c2125-{policy}-{phase}".lower(), cpu_group())
    for spec in (pod_spec(manifest), pod_spec(manifest, 0)):
        spec["restartPolicy"] = policy
    ray = RayCluster.create(cluster, namespace, manifest)
    ray.wait_pods(workers=1)
    ray.run()
    before = ray.pods()
    for pod in before:
        cluster.set_pod_status(namespace, name_of(pod), phase=phase)
    wait_until(lambda: not set(uids(ray.pods(live=False))) & set(uids(before)), "both are gone")
    ray.wait_pods(workers=1)
    ray.run()
    ray.delete()


@pytest.mark.complaint("ray#62340")
@pytest.mark.parametrize("policy", ["Never", "Always"])
def test_4720_a_ray_container_that_ended_for_good_is_replaced(cluster, namespace, policy):
    """Out of memory with restartPolicy Never beside an autoscaler that still runs: the phase stays Running. With Always
    the kubelet starts it again, which is no business of ours."""
    manifest = raycluster(f"c4720-{policy.lower()}", cpu_group(), enableInTreeAutoscaling=True)
    for spec in (pod_spec(manifest), pod_spec(manifest, 0)):
        spec["restartPolicy"] = policy
    ray = RayCluster.create(cluster, namespace, manifest)
    ray.wait_pods(workers=1)
    ray.run()
    before = ray.pods()
    for pod in before:
        statuses = pod["status"]["containerStatuses"]
        ended = {"exitCode": 137, "reason": "OOMKilled"}
        statuses[0] |= {"ready": False, "started": False, "state": {"terminated": ended}}
        path = cluster.api.resource("pods").path(namespace, name_of(pod), "status")
        conditions = [c if c["type"] != "Ready" else c | {"status": "False"} for c in pod["status"]["conditions"]]
        cluster.api.patch(path, {"status": {"containerStatuses": statuses, "conditions": conditions}})
    if policy == "Never":
        wait_until(lambda: not set(uids(ray.pods(live=False))) & set(uids(before)), "both are gone")
        ray.wait_pods(workers=1)
        ray.run()
    else:
        ray.wait_status("nobody is ready", state=None, readyWorkerReplicas=0)
        assert uids(ray.pods()) == uids(before)
    ray.delete()


# --- C: status


@pytest.mark.complaint(756)
def test_745_writers_of_the_spec_do_not_get_in_the_way(cluster, namespace, create):
    """The autoscaler and others patch while the status changes: no write of either is lost or refused."""
    ray = create(cpu_group(replicas=5))
    workers = ray.wait_pods(workers=5)
    ray.wait_seen()
    before, failures, stop = refused_status_writes(cluster), [], threading.Event()

    def annotate():
        try:
            for i in range(20000):
                last = stop.is_set()
                patch = {"metadata": {"annotations": {"i": str(i), "last": str(last)}}}
                cluster.patch("rayclusters.ray.io", ray.name, patch, namespace)
                if last:
                    return
        except Exception as e:  # noqa: BLE001 - whatever it is, the test has to see it
            failures.append(e)

    thread = threading.Thread(target=annotate)
    thread.start()
    try:
        for i, pod in enumerate(ray.heads() + workers):
            cluster.set_pod_status(namespace, name_of(pod))
            ray.wait_status("one more is ready", readyWorkerReplicas=i)
    finally:
        stop.set()
        thread.join(60)
    assert not thread.is_alive() and not failures
    ray.wait_status("all ready", state="ready", readyWorkerReplicas=5)
    assert ray.get()["metadata"]["annotations"]["last"] == "True"
    assert refused_status_writes(cluster) == before
    assert {kind for kind, _, _ in ray.events()} == {"Normal"}


def refused_status_writes(cluster):
    """How many writes of the status of a RayCluster the API server has answered 409 (its own counter)."""
    _, metrics = cluster.api.raw("GET", "/metrics")
    lines = re.findall(r"^apiserver_request_total\{(.*)\} (\S+)$", metrics, re.M)
    wanted = ('code="409"', 'resource="rayclusters"', 'subresource="status"')
    return sum(int(float(value)) for labels, value in lines if all(w in labels for w in wanted))


def test_5088_a_cluster_that_is_not_ready_is_looked_at_again(cluster, make_namespace, start_operator):
    """Even when nothing happens, in case it went unnoticed or could not be told: here nobody may write the status for a while."""
    ns = make_namespace()
    operator = start_operator(cluster, "--resync-period=1s", webhook=False, watch_namespaces=[ns])
    with status_is_refused(cluster, ns):
        ray = RayCluster.create(cluster, ns, raycluster("c5088", cpu_group()))
        ray.wait_pods(workers=1)
        cluster.run_pods(ns)
        wait_until(lambda: "cannot write status" in operator.log(), "it is refused")
    ray.wait_status("told in the end", state="ready", timeout=60)
    cluster.set_pod_status(ns, name_of(ray.heads()[0]), ready=False)
    ray.wait_status("not ready", state=None)
    ray.wait_seen()
    passes = operator.metric("ray_tpu_operator_reconcile_total")
    wait_until(lambda: operator.metric("ray_tpu_operator_reconcile_total") >= passes + 5, "five more looks")


@contextlib.contextmanager
def status_is_refused(cluster, ns):
    """By an admission policy, for RayClusters of this namespace."""
    rules = [{"apiGroups": ["ray.io"], "apiVersions": ["*"], "operations": ["UPDATE"], "resources": ["rayclusters/status"]}]
    only = {"matchLabels": {"kubernetes.io/metadata.name": ns}}
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": rules},
        "validations": [{"expression": "false", "message": "not now"}],
    }
    binding = {"policyName": ns, "validationActions": ["Deny"], "matchResources": {"namespaceSelector": only}}
    group = "admissionregistration.k8s.io/v1"
    made = [("ValidatingAdmissionPolicy", spec), ("ValidatingAdmissionPolicyBinding", binding)]
    cluster.apply([{"apiVersion": group, "kind": kind, "metadata": {"name": ns}, "spec": s} for kind, s in made])
    probe = RayCluster.create(cluster, ns, raycluster("probe", suspend=True, managedBy="kueue.x-k8s.io/multikueue"))

    def refused():
        try:
            cluster.patch("rayclusters.ray.io", probe.name, {"status": {"reason": "x"}}, ns, "status")
        except ApiError as e:
            return "not now" in e.message
        return False

    try:
        wait_until(refused, "writes of the status are refused")
        yield
    finally:
        for kind in ("validatingadmissionpolicybindings", "validatingadmissionpolicies"):
            cluster.delete(kind, ns)


# --- D: Services


@pytest.mark.complaint(571, 2151, 2224)
def test_2564_the_head_service_selects_the_head_whatever_its_labels(cluster, namespace):
    """app.kubernetes.io/name and the like are the user's to set (#571, #2151, #2224), and to change later."""
    manifest = raycluster("c2564", cpu_group(replicas=0))
    mine = {"app.kubernetes.io/name": "mine", "app.kubernetes.io/created-by": "me", "ray.io/identifier": "x"}
    manifest["spec"]["headGroupSpec"]["template"]["metadata"] = {"labels": mine}
    ray = RayCluster.create(cluster, namespace, manifest)
    ray.wait_pods(workers=0)
    ray.run()

    def selects():
        selector = ray.services()["c2564-head-svc"]["spec"]["selector"]
        return selector.items() <= labels_of(ray.heads()[0]).items()

    assert selects()
    assert labels_of(ray.heads()[0])["app.kubernetes.io/name"] == "mine"
    status = ray.status()
    assert status["head"]["serviceName"] == "c2564-head-svc"

    # The running head keeps its labels: the Service must go on selecting it, and the next one, too.
    def rename(stored):
        stored["spec"]["headGroupSpec"]["template"]["metadata"]["labels"]["app.kubernetes.io/name"] = "other"

    edit(ray, rename)
    ray.wait_seen()
    wait_until(selects, "the Service selects the running head")
    (old,) = ray.heads()
    cluster.delete("pods", name_of(old), namespace)
    wait_until(lambda: ray.heads() and uids(ray.heads()) != uids([old]), "another head")
    wait_until(selects, "the Service selects the new head")
    ray.delete()


def test_1040_the_head_service_is_the_users_to_shape(cluster, namespace):
    service = {
        "metadata": {"labels": {"team": "a", CLUSTER: "not-mine"}, "annotations": {"note": "kept", "both": "service"}},
        "spec": {
            "type": "LoadBalancer",
            "externalTrafficPolicy": "Local",
            "loadBalancerSourceRanges": ["10.0.0.0/8"],
            "ports": [{"name": "extra", "port": 1234}],
        },
    }
    manifest = raycluster("c1040", cpu_group(replicas=0), headServiceAnnotations={"both": "spec"})
    manifest["spec"]["headGroupSpec"]["headService"] = service
    ray = RayCluster.create(cluster, namespace, manifest)
    ray.wait_pods(workers=0)
    live = ray.services()["c1040-head-svc"]
    assert labels_of(live)["team"] == "a" and labels_of(live)[CLUSTER] == "c1040"
    assert live["metadata"]["annotations"].items() >= {"note": "kept", "both": "spec"}.items()
    assert live["spec"]["type"] == "LoadBalancer"
    assert live["spec"]["externalTrafficPolicy"] == "Local"
    assert live["spec"]["loadBalancerSourceRanges"] == ["10.0.0.0/8"]
    ports = {p["name"]: p["port"] for p in live["spec"]["ports"]}
    assert ports["extra"] == 1234 and ports["gcs-server"] == 6379 and ports["metrics"] == 8080
    # A load balancer's address stays through later passes.
    path = cluster.api.resource("services").path(namespace, "c1040-head-svc", "status")
    cluster.api.patch(path, {"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}})
    cluster.patch("rayclusters.ray.io", "c1040", {"spec": {"headServiceAnnotations": {"both": "again"}}}, namespace)
    live = wait_until(
        lambda: (s := ray.services()["c1040-head-svc"])["metadata"]["annotations"]["both"] == "again" and s, "the change"
    )
    assert live["status"]["loadBalancer"] == {"ingress": [{"ip": "192.0.2.1", "ipMode": "VIP"}]}
    ray.delete()


# --- E: templates


@pytest.mark.complaint(2063)
def test_3837_probes_need_no_wget(cluster, namespace, create):
    """From Ray 2.53 on its agent answers for everything, over HTTP; so it does on another port."""
    group = cpu_group(rayStartParams={"dashboard-agent-listen-port": "52366"})
    ray = create(group, rayVersion="2.53.0")
    workers = ray.wait_pods(workers=1)
    for pod, port in ((ray.heads()[0], 52365), (workers[0], 52366)):
        for probe in ("livenessProbe", "readinessProbe"):
            asked = pod["spec"]["containers"][0][probe]
            assert "exec" not in asked
            assert (asked["httpGet"]["path"], asked["httpGet"]["port"]) == ("/api/healthz", port)


@pytest.mark.complaint(988, 2275)
def test_2735_the_init_container_has_room_to_start_ray(cluster, namespace, create):
    """`ray health-check` needs more than 200m and 256Mi: what the Ray container may use, it may use as well."""
    ray = create(cpu_group())
    (worker,) = ray.wait_pods(workers=1)
    (init,) = worker["spec"]["initContainers"]
    assert init["name"] == "wait-gcs-ready"
    limits = init.get("resources", {}).get("limits", {})
    assert limits.get("memory") != "256Mi" and limits.get("cpu") != "200m"


@pytest.mark.complaint(744, 1166)
def test_2361_cpus_are_those_of_the_limit_else_of_the_request_rounded_up(cluster, namespace, create):
    groups = []
    for name, resources in [
        ("limit", {"limits": {"cpu": "3"}, "requests": {"cpu": "1"}}),
        ("request", {"requests": {"cpu": "2"}}),
        ("half", {"requests": {"cpu": "500m"}}),
        ("none", {}),
    ]:
        group = cpu_group(name)
        group["template"]["spec"]["containers"][0]["resources"] = resources
        groups.append(group)
    ray = create(*groups)
    got = {}
    for pod in ray.wait_pods(workers=4):
        found = re.search(r"--num-cpus=(\S+)", pod["spec"]["containers"][0]["args"][0])
        got[place(pod)[0]] = found and found[1]
    assert got == {"limit": "3", "request": "2", "half": "1", "none": None}


def test_2640_shared_memory_is_bounded_by_the_limit_else_the_request_and_the_users_wins(cluster, namespace, create):
    groups = []
    for name, resources in [
        ("limit", {"limits": {"memory": "8Gi"}, "requests": {"memory": "1Gi"}}),
        ("request", {"requests": {"memory": "2Gi"}}),
        ("none", {}),
        ("mine", {"limits": {"memory": "8Gi"}}),
    ]:
        group = cpu_group(name)
        group["template"]["spec"]["containers"][0]["resources"] = resources
        groups.append(group)
    pod = groups[3]["template"]["spec"]
    pod["volumes"] = [{"name": "mine", "emptyDir": {"medium": "Memory", "sizeLimit": "5Gi"}}]
    pod["containers"][0]["volumeMounts"] = [{"name": "mine", "mountPath": "/dev/shm"}]
    ray = create(*groups)
    got = {}
    for pod in ray.wait_pods(workers=4):
        (mount,) = [m for m in pod["spec"]["containers"][0]["volumeMounts"] if m["mountPath"] == "/dev/shm"]
        (volume,) = [v for v in pod["spec"]["volumes"] if v["name"] == mount["name"]]
        got[place(pod)[0]] = volume["emptyDir"].get("sizeLimit")
    assert got == {"limit": "8Gi", "request": "2Gi", "none": None, "mine": "5Gi"}


# --- F: operation


def test_2252_lease_timings_are_the_operators_users_to_choose(cluster, make_namespace, start_operator):
    ns = make_namespace()
    flags = ["--leader-elect-lease-duration=60s", "--leader-elect-renew-deadline=40s"]
    flags += ["--leader-elect-retry-period=5s", f"--leader-elect-resource-namespace={ns}"]
    start_operator(cluster, *flags, webhook=False, leader_elect=True, watch_namespaces=[ns])
    lease = wait_until(lambda: cluster.get_json("leases", "ray-tpu-operator", ns), "the Lease")
    assert lease["spec"]["leaseDurationSeconds"] == 60
    # Replicas: 1 needs none.
    start_operator(cluster, webhook=False, leader_elect=False, watch_namespaces=[ns])


def test_685_memory_is_bounded_by_the_number_of_pods_not_their_size(cluster, make_namespace, start_operator):
    """A Pod is remembered by the few things a decision needs; 300 Pods of 100 kB each are not kept."""
    if WRAPPER or b"__asan_init" in pathlib.Path(BINARY).read_bytes():
        pytest.skip("memory says nothing under valgrind and sanitizers")
    ns = make_namespace()
    operator = start_operator(cluster, webhook=False, watch_namespaces=[ns])
    group = cpu_group(replicas=1)
    group["template"]["metadata"] = {"annotations": {"note": "x" * 100_000}}
    ray = RayCluster.create(cluster, ns, raycluster("c685", group))
    ray.wait_pods(workers=1)
    ray.run()
    before = operator.memory()
    ray.scale(300)
    ray.wait_pods(workers=300)
    grown = operator.memory() - before
    print(f"grown by {grown / 1e6:.1f} MB")
    assert grown < 20e6


@pytest.mark.complaint(504)
def test_410_the_crd_can_be_applied_by_any_kubectl(cluster):
    """Client-side apply keeps a copy of it in an annotation, which may have 256 KiB."""
    stored = json.dumps(yaml.safe_load(CRD.read_text()), separators=(",", ":"))
    assert len(stored) < 256 * 1024
    done = cluster.kubectl("apply", "--dry-run=server", "-f", CRD, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.complaint(1120)
def test_4149_who_applies_without_replicas_does_not_revert_the_autoscaler(cluster, namespace, create):
    """GitOps leaves replicas out: applied again, the manifest changes nothing that the autoscaler decided."""
    group = cpu_group(minReplicas=1, maxReplicas=5)
    del group["replicas"]
    ray = create(group, enableInTreeAutoscaling=True)
    ray.wait_pods(workers=1)
    ray.run()
    path = cluster.api.resource("rayclusters.ray.io").path(namespace, ray.name)
    patch = [{"op": "replace", "path": "/spec/workerGroupSpecs/0/replicas", "value": 3}]
    cluster.api.patch(path, patch, "application/json-patch+json")
    before = uids(ray.wait_pods(workers=3))
    create(group, enableInTreeAutoscaling=True)
    ray.wait_seen()
    assert uids(ray.workers()) == before
