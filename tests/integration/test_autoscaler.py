"""Ray's autoscaler as it works in a head Pod: under the service account we make for it, by one JSON patch per decision that
addresses worker groups by their index, waiting for the Pods it named to be gone (facts/kuberay.md §2.9)."""

import json

import pytest

from cluster import wait_until
from harness import shared_controller
from ray_cluster import (
    CLUSTER,
    RayCluster,
    cpu_group,
    labels_of,
    place,
    raycluster,
    uids,
    watch_pods,
)


@pytest.fixture(scope="module")
def namespace(cluster, request, tmp_path_factory):
    with shared_controller(cluster, request, tmp_path_factory.mktemp("operator")) as namespace:
        yield namespace


def groups_of(hosts, replicas=1):
    return cpu_group("g", hosts, replicas, minReplicas=0, maxReplicas=8)


class Autoscaler:
    """May do what the account of the head Pod may do, and does nothing in another way."""

    def __init__(self, ray):
        self.ray = ray
        (head,) = ray.heads()
        self.account = head["spec"]["serviceAccountName"]

    def kubectl(self, *args, **options):
        user = f"--as=system:serviceaccount:{self.ray.ns}:{self.account}"
        return self.ray.cluster.kubectl(*args, "-n", self.ray.ns, user, **options)

    def may(self, verb, what, *more):
        return self.kubectl("auth", "can-i", verb, what, *more, check=False).stdout.strip() == "yes"

    def pods(self):
        """Names of the Pods it sees, those on their way out included."""
        listed = json.loads(self.kubectl("get", "pods", "-l", f"{CLUSTER}={self.ray.name}", "-o", "json"))
        return {p["metadata"]["name"] for p in listed["items"]}

    def decide(self, *decisions):
        """decisions: (group index, replicas, names to delete); a None leaves that part out. All in one patch."""
        patch = []
        for group, replicas, names in decisions:
            path = f"/spec/workerGroupSpecs/{group}"
            if replicas is not None:
                patch.append({"op": "replace", "path": f"{path}/replicas", "value": replicas})
            if names is not None:
                patch.append({"op": "replace", "path": f"{path}/scaleStrategy", "value": {"workersToDelete": names}})
        self.kubectl("patch", "raycluster", self.ray.name, "--type=json", "-p", json.dumps(patch))

    def wait_gone(self, names):
        wait_until(lambda: not self.pods() & set(names), f"the named Pods {names} are gone")

    def list_of(self, group=0):
        """What stands in the group's workersToDelete."""
        strategy = self.ray.get()["spec"]["workerGroupSpecs"][group].get("scaleStrategy", {})
        return strategy.get("workersToDelete", [])


def start(cluster, ns, name, *groups, **spec):
    """A running RayCluster and its autoscaler."""
    ray = RayCluster.create(cluster, ns, raycluster(name, *groups, enableInTreeAutoscaling=True, **spec))
    ray.wait_pods(workers=sum(g["replicas"] * g["numOfHosts"] for g in groups))
    ray.run()
    return ray, Autoscaler(ray)


def name_of(pod):
    return pod["metadata"]["name"]


def replica(workers, index):
    """Names of the Pods of one replica."""
    return [name_of(p) for p in workers if place(p)[1] == index]


def test_its_account_may_do_its_work_and_nothing_else(cluster, namespace):
    ray, autoscaler = start(cluster, namespace, "account")
    assert autoscaler.account == "account"
    for verb, what in [
        ("get", "pods"),
        ("list", "pods"),
        ("watch", "pods"),
        ("patch", "pods"),
        ("get", "rayclusters.ray.io"),
        ("patch", "rayclusters.ray.io"),
    ]:
        assert autoscaler.may(verb, what), f"{verb} {what}"
    assert autoscaler.may("patch", "pods", "--subresource=resize")
    for verb, what in [
        ("create", "pods"),
        ("delete", "pods"),
        ("get", "secrets"),
        ("delete", "rayclusters.ray.io"),
        ("create", "rayclusters.ray.io"),
    ]:
        assert not autoscaler.may(verb, what), f"{verb} {what}"
    elsewhere = ["auth", "can-i", "get", "pods", "-n", "default"]
    user = f"--as=system:serviceaccount:{namespace}:{autoscaler.account}"
    assert cluster.kubectl(*elsewhere, user, check=False).stdout.strip() == "no"
    ray.delete()


@pytest.mark.complaint("ray#53938", 3738)
@pytest.mark.parametrize("hosts", [1, 4], ids=["single-host", "multi-host"])
def test_ray_54063_it_scales_up_and_down_and_up_again(cluster, namespace, hosts):
    with watch_pods(cluster, namespace) as history:
        ray, autoscaler = start(cluster, namespace, f"updown-{hosts}", groups_of(hosts))
        first = uids(ray.workers())

        # Its first patch says nothing of victims; the list is empty then.
        autoscaler.decide((0, 3, []))
        before = ray.wait_pods(workers=3 * hosts)
        assert set(first) <= set(uids(before))
        assert sorted({place(p)[1] for p in before}) == [0, 1, 2]
        ray.run()

        # The idle replica is not the newest. One host stands for its slice.
        victims = replica(before, 1)
        autoscaler.decide((0, 2, victims[:1]))
        autoscaler.wait_gone(victims)
        after = ray.wait_pods(workers=2 * hosts)
        assert uids(after) == [u for p, u in zip(before, uids(before)) if name_of(p) not in victims]
        ray.wait_seen()
        assert autoscaler.list_of() == victims[:1], "the autoscaler takes the names back itself"

        # It asks for more while the old names still stand there.
        autoscaler.decide((0, 4, None))
        more = ray.wait_pods(workers=4 * hosts)
        assert set(uids(after)) <= set(uids(more))
        assert not {name_of(p) for p in more} & set(victims), "a name does not come back"
        ray.run()
        assert autoscaler.list_of() == victims[:1]

        autoscaler.decide((0, 0, [replica(more, i)[-1] for i in range(4)]))
        autoscaler.wait_gone([name_of(p) for p in more])
        ray.wait_pods(workers=0)
        ray.wait_status("only the head", state="ready", desiredWorkerReplicas=0)

        autoscaler.decide((0, 1, []))
        ray.wait_pods(workers=hosts)
        history.catch_up()
        ours = [p for pods in history.moments() for p in pods.values() if labels_of(p).get(CLUSTER) == ray.name]
        owners = {}
        for pod in ours:
            uid = owners.setdefault(name_of(pod), pod["metadata"]["uid"])
            assert uid == pod["metadata"]["uid"], f"{name_of(pod)} was the name of two Pods"
        assert len(owners) == 1 + 6 * hosts, "the head and six replicas"
        ray.delete()


@pytest.mark.complaint(1253)
@pytest.mark.parametrize("hosts", [1, 2], ids=["single-host", "multi-host"])
def test_1192_nobody_else_picks_a_victim(cluster, namespace, hosts):
    """Fewer replicas than Pods and no name, or fewer names than there are too many: only the named go."""
    with watch_pods(cluster, namespace) as history:
        ray, autoscaler = start(cluster, namespace, f"victims-{hosts}", groups_of(hosts, replicas=4))
        before = ray.workers()
        autoscaler.decide((0, 1, None))
        ray.wait_status("fewer wanted", desiredWorkerReplicas=hosts)
        ray.wait_seen()
        assert uids(ray.workers()) == uids(before)

        named = replica(before, 2)
        autoscaler.decide((0, 1, named))
        ray.wait_pods(workers=3 * hosts)
        ray.wait_seen()
        ours = {name_of(p) for p in before}
        history.catch_up()
        assert set(history.deleted()) & ours == set(named)
        ray.delete()


def test_groups_are_addressed_by_their_place_in_the_list(cluster, namespace):
    with watch_pods(cluster, namespace):
        a, b = cpu_group("a", 1, 2, maxReplicas=5), cpu_group("b", 2, 2, maxReplicas=5)
        ray, autoscaler = start(cluster, namespace, "groups", a, b)
        before = ray.workers()
        single = [name_of(p) for p in before if place(p) == ("a", 0, 0)]
        multi = [name_of(p) for p in before if place(p)[:2] == ("b", 1)]
        autoscaler.decide((0, 3, single), (1, 1, multi))
        autoscaler.wait_gone(single + multi)
        workers = ray.wait_pods(workers=5)
        assert [place(p)[0] for p in workers] == ["a"] * 3 + ["b"] * 2
        stay = {u for p, u in zip(before, uids(before)) if name_of(p) not in single + multi}
        assert stay <= set(uids(workers))
        assert (autoscaler.list_of(0), autoscaler.list_of(1)) == (single, multi)
        ray.delete()


def test_a_named_pod_on_a_node_is_waited_for(cluster, namespace):
    """The autoscaler sees it until it is really gone; nothing takes its place meanwhile."""
    with watch_pods(cluster, namespace):
        ray, autoscaler = start(cluster, namespace, "wait", groups_of(2, replicas=2))
        before = ray.workers()
        for pod in before:
            cluster.bind_pod(namespace, name_of(pod))
        named = replica(before, 0)
        autoscaler.decide((0, 1, named[1:]))
        wait_until(lambda: len(ray.workers()) == 2, "the slice is told to go")
        ray.wait_seen()
        assert set(named) <= autoscaler.pods()
        assert uids(ray.workers()) == uids(before)[2:]
        cluster.finish_deletions(namespace)
        autoscaler.wait_gone(named)
        assert uids(ray.wait_pods(workers=2)) == uids(before)[2:]
        ray.delete()


@pytest.mark.parametrize("hosts", [1, 2], ids=["single-host", "multi-host"])
def test_733_a_list_that_still_stands_after_a_restart_deletes_nothing_more(
    cluster, make_namespace, start_operator, hosts
):
    ns = make_namespace()
    operator = start_operator(cluster, webhook=False, watch_namespaces=[ns])
    with watch_pods(cluster, ns):
        ray, autoscaler = start(cluster, ns, "restart", groups_of(hosts, replicas=2))
        named = replica(ray.workers(), 0)
        # The load is back before the Pods are gone: as many as before, but not these.
        autoscaler.decide((0, 2, named))
        autoscaler.wait_gone(named)
        workers = ray.wait_pods(workers=2 * hosts)
        assert not {name_of(p) for p in workers} & set(named)
        ray.run()
        operator.restart()
        autoscaler.decide((0, 3, None))
        after = ray.wait_pods(workers=3 * hosts)
        assert set(uids(workers)) <= set(uids(after))
        assert not {name_of(p) for p in after} & set(named)
        assert autoscaler.list_of() == named


def test_2820_what_it_reads_is_what_the_user_wrote(cluster, namespace):
    """numOfHosts, minReplicas and maxReplicas are its bounds; the spec is never ours to write."""
    groups = [groups_of(2, replicas=1), cpu_group("h", 1, 2, minReplicas=1, maxReplicas=3)]
    ray, autoscaler = start(cluster, namespace, "spec", *groups)
    autoscaler.decide((0, 2, []), (1, 3, []))
    ray.wait_pods(workers=7)
    ray.run()
    stored = ray.get()
    for group, wanted, replicas in zip(stored["spec"]["workerGroupSpecs"], groups, (2, 3)):
        expected = wanted | {"replicas": replicas, "scaleStrategy": {"workersToDelete": []}}
        assert {k: group[k] for k in expected if k != "template"} == {k: v for k, v in expected.items() if k != "template"}
    writers = {m["manager"] for m in stored["metadata"]["managedFields"] if "f:spec" in m["fieldsV1"]}
    assert not any(w.startswith("ray-tpu-operator") for w in writers), writers
    ray.delete()
