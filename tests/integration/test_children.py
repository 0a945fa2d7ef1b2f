"""What a RayCluster owns besides Pods: made, repaired, removed; and how a cluster with state in Redis ends."""

import base64
import contextlib
import time

import pytest
import yaml

from cluster import wait_until
from harness import TOP

CLUSTER = """
apiVersion: ray.io/v1
kind: RayCluster
metadata: {name: c, annotations: {ray.io/enable-serve-service: "true"}}
spec:
  rayVersion: 2.53.0
  enableInTreeAutoscaling: true
  authOptions: {mode: token}
  networkPolicy: {}
  gcsFaultToleranceOptions: {backend: rocksdb}
  headGroupSpec:
    enableIngress: true
    serviceType: NodePort
    template:
      spec: {containers: [{name: head, image: i, ports: [{name: serve, containerPort: 8000}]}]}
  workerGroupSpecs:
  - groupName: g
    replicas: 1
    minReplicas: 0
    maxReplicas: 2
    numOfHosts: 2
    template: {spec: {containers: [{name: w, image: i}]}}
"""

REDIS = """
apiVersion: ray.io/v1
kind: RayCluster
metadata: {name: c}
spec:
  gcsFaultToleranceOptions: {redisAddress: "redis:6379"}
  headGroupSpec: {template: {spec: {containers: [{name: head, image: i}]}}}
"""

FINALIZER = "ray.io/gcs-ft-redis-cleanup-finalizer"

CHILDREN = [
    ("service", "c-head-svc"),
    ("service", "c-headless"),
    ("service", "c-serve-svc"),
    ("serviceaccount", "c"),
    ("role", "c"),
    ("rolebinding", "c"),
    ("ingress", "c-head-ingress"),
    ("secret", "c"),
    ("persistentvolumeclaim", "c-gcs-pvc"),
    ("networkpolicy", "c-head"),
    ("networkpolicy", "c-workers-g"),
]


@pytest.fixture
def controller(cluster, namespace, start_operator):
    return start_operator(cluster, webhook=False, watch_namespaces=[namespace])


def made(cluster, namespace, pods=3):
    """Waits until everything exists."""
    for kind, name in CHILDREN:
        wait_until(lambda: cluster.exists(kind, name, namespace), f"{kind} {name}")
    wait_until(lambda: len(cluster.get_json("pods", ns=namespace)) == pods, f"{pods} pods")


def events(cluster, namespace, reason):
    return [e for e in cluster.get_json("events.events.k8s.io", ns=namespace) if e["reason"] == reason]


def condition(cluster, namespace, kind):
    conditions = cluster.get_json("raycluster", "c", namespace).get("status", {}).get("conditions", [])
    return next((c for c in conditions if c["type"] == kind), None)


def test_everything_is_made_and_then_left_alone(cluster, namespace, controller):
    cluster.apply(CLUSTER, namespace)
    made(cluster, namespace)
    uid = cluster.get_json("raycluster", "c", namespace)["metadata"]["uid"]
    versions = {}
    for kind, name in CHILDREN:
        meta = cluster.get_json(kind, name, namespace)["metadata"]
        assert [o["uid"] for o in meta["ownerReferences"] if o["controller"]] == [uid]
        versions[kind, name] = meta["resourceVersion"]
    token = cluster.get_json("secret", "c", namespace)["data"]["auth_token"]
    assert len(base64.b64decode(base64.b64decode(token))) == 32
    # A restart looks at each of them, does not ask for what it can see, and writes none.
    controller.restart()
    wait_until(lambda: controller.metric("ray_tpu_operator_reconcile_total", result="success") >= 1, "a pass")
    assert controller.metric("ray_tpu_operator_api_requests_total", verb="create", code="4xx") == 0
    cluster.patch("raycluster", "c", {"metadata": {"annotations": {"x": "y"}}}, namespace)
    wait_until(
        lambda: cluster.get_json("ingress", "c-head-ingress", namespace)["metadata"]["annotations"].get("x") == "y",
        "the Ingress follows the annotations of its cluster",
    )
    del versions["ingress", "c-head-ingress"]
    for (kind, name), version in versions.items():
        assert cluster.get_json(kind, name, namespace)["metadata"]["resourceVersion"] == version, f"{kind} {name}"


# (kind, name, what somebody does, what must be true again)
DRIFT = [
    ("service", "c-head-svc", {"spec": {"selector": {"x": "y"}}}, lambda o: "x" not in o["spec"]["selector"]),
    ("service", "c-headless", {"spec": {"publishNotReadyAddresses": False}}, lambda o: o["spec"].get("publishNotReadyAddresses")),
    ("role", "c", {"rules": []}, lambda o: len(o["rules"] or []) == 3),
    ("rolebinding", "c", {"subjects": []}, lambda o: [s["name"] for s in o.get("subjects", [])] == ["c"]),
    ("ingress", "c-head-ingress", {"spec": {"tls": [{"hosts": ["h"]}]}}, lambda o: "tls" not in o["spec"]),
    ("networkpolicy", "c-workers-g", {"spec": {"ingress": [{}]}}, lambda o: o["spec"]["ingress"] != [{}]),
    ("serviceaccount", "c", {"metadata": {"labels": {"ray.io/cluster": "c", "app.kubernetes.io/name": "x"}}},
     lambda o: o["metadata"]["labels"]["app.kubernetes.io/name"] == "kuberay"),
]  # fmt: skip


@pytest.mark.parametrize("kind, name, drift, right", DRIFT, ids=[f"{d[0]}-{d[1]}" for d in DRIFT])
def test_drift_is_repaired(cluster, namespace, controller, kind, name, drift, right):
    cluster.apply(CLUSTER, namespace)
    made(cluster, namespace)
    mine = {"metadata": {"annotations": {"mine": "1"}}}
    cluster.patch(kind, name, drift | {"metadata": mine["metadata"] | drift.get("metadata", {})}, namespace)
    live = wait_until(
        lambda: (o := cluster.get_json(kind, name, namespace)) and right(o) and o, f"{kind} {name} is repaired"
    )
    assert live["metadata"]["annotations"]["mine"] == "1", "what is not ours stays"


def test_2564_ports_are_repaired_and_node_ports_kept(cluster, namespace, controller):
    cluster.apply(CLUSTER, namespace)
    made(cluster, namespace)
    before = cluster.get_json("service", "c-head-svc", namespace)["spec"]
    broken = [dict(p, targetPort=1) for p in before["ports"]]
    cluster.patch("service", "c-head-svc", {"spec": {"ports": broken}}, namespace)
    wait_until(lambda: cluster.get_json("service", "c-head-svc", namespace)["spec"] == before, "the ports are as they were")


@pytest.mark.parametrize("kind, name", [c for c in CHILDREN if c[0] not in ("secret", "persistentvolumeclaim")])
def test_deleted_children_return(cluster, namespace, controller, kind, name):
    cluster.apply(CLUSTER, namespace)
    made(cluster, namespace)
    uid = cluster.get_json(kind, name, namespace)["metadata"]["uid"]
    cluster.delete(kind, name, namespace)
    wait_until(
        lambda: cluster.get_json(kind, name, namespace)["metadata"]["uid"] != uid, f"{kind} {name} is made anew"
    )


def test_who_deletes_a_child_again_and_again_is_not_answered_at_once_each_time(cluster, namespace, controller):
    """As the garbage collector does while the operator does not know yet that the RayCluster is gone."""
    cluster.apply(CLUSTER, namespace)
    made(cluster, namespace)
    with cluster.watch("services", namespace) as watch:

        def made_again():
            cluster.delete("service", "c-headless", namespace)
            return len([1 for kind, _ in watch.history() if kind == "ADDED"])

        begin = time.monotonic()
        wait_until(lambda: made_again() >= 3, "it is made anew nevertheless", timeout=60)
        assert time.monotonic() - begin >= 2, "once every two seconds, but for the first time"
    made(cluster, namespace)


def test_what_is_no_longer_asked_for_goes(cluster, namespace, controller):
    cluster.apply(CLUSTER, namespace)
    made(cluster, namespace)
    cluster.patch(
        "raycluster",
        "c",
        {
            "metadata": {"annotations": {"ray.io/enable-serve-service": None}},
            "spec": {"enableInTreeAutoscaling": False, "networkPolicy": None, "headGroupSpec": {"enableIngress": False}},
        },
        namespace,
    )
    gone = {("service", "c-serve-svc"), ("role", "c"), ("rolebinding", "c"), ("ingress", "c-head-ingress")}
    gone |= {("networkpolicy", "c-head"), ("networkpolicy", "c-workers-g")}
    for kind, name in gone:
        wait_until(lambda: not cluster.exists(kind, name, namespace), f"{kind} {name} is deleted")
    for kind, name in set(CHILDREN) - gone:
        assert cluster.exists(kind, name, namespace), f"{kind} {name} stays"


def test_somebody_elses_object_is_left_alone(cluster, namespace, controller):
    """Pods wait for a head Service; the condition and an event say what to do; nothing is written to the other's."""
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "c-head-svc"},
        "spec": {"ports": [{"port": 1}], "selector": {"app": "x"}},
    }
    before = cluster.create(service, namespace)
    cluster.apply(CLUSTER, namespace)
    failure = wait_until(lambda: condition(cluster, namespace, "ReplicaFailure"), "the condition")
    assert failure["reason"] == "FailedCreateService"
    assert "does not belong to this RayCluster: delete or rename it" in failure["message"]
    assert cluster.get_json("pods", ns=namespace) == []
    assert cluster.get_json("service", "c-head-svc", namespace)["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
    wait_until(lambda: events(cluster, namespace, "FailedToCreateService"), "the event")
    cluster.delete("service", "c-head-svc", namespace)
    made(cluster, namespace)
    wait_until(lambda: condition(cluster, namespace, "ReplicaFailure") is None, "the condition goes")


def test_an_ingress_that_fails_does_not_hold_pods_up(cluster, namespace, controller):
    ingress = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": {"name": "c-head-ingress"},
        "spec": {"defaultBackend": {"service": {"name": "x", "port": {"number": 1}}}},
    }
    cluster.create(ingress, namespace)
    cluster.apply(CLUSTER, namespace)
    made(cluster, namespace)
    wait_until(lambda: events(cluster, namespace, "FailedToCreateIngress"), "the event")
    assert condition(cluster, namespace, "ReplicaFailure") is None


def test_a_missing_service_account_holds_the_head_alone(cluster, namespace, controller):
    manifest = yaml.safe_load(CLUSTER)
    manifest["spec"]["headGroupSpec"]["template"]["spec"]["serviceAccountName"] = "mine"
    cluster.apply(manifest, namespace)
    wait_until(lambda: len(cluster.get_json("pods", ns=namespace)) == 2, "the workers")
    wait_until(lambda: events(cluster, namespace, "AutoscalerServiceAccountNotFound"), "the event")
    assert not [p for p in cluster.get_json("pods", ns=namespace) if p["metadata"]["labels"]["ray.io/node-type"] == "head"]
    cluster.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "mine"}}, namespace)
    wait_until(lambda: len(cluster.get_json("pods", ns=namespace)) == 3, "the head")


def test_what_the_head_waits_for_does_not_hide_that_workers_fail(cluster, namespace, controller):
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"pods": "0"}}}
    cluster.apply(quota, namespace)
    wait_until(lambda: cluster.get_json("resourcequotas", "q", namespace).get("status", {}).get("hard"), "the quota")
    manifest = yaml.safe_load(CLUSTER)
    manifest["spec"]["headGroupSpec"]["template"]["spec"]["serviceAccountName"] = "mine"
    cluster.apply(manifest, namespace)
    wait_until(lambda: events(cluster, namespace, "AutoscalerServiceAccountNotFound"), "the event of the account")
    wait_until(lambda: events(cluster, namespace, "FailedToCreateWorkerPod"), "the event of the workers")

    def both():
        failure = condition(cluster, namespace, "ReplicaFailure")
        assert failure["reason"] == "FailedCreateWorkerPod"
        return "exceeded quota" in failure["message"] and "does not exist" in failure["message"]

    wait_until(both, "both in the condition")


@pytest.mark.complaint(289, 234, 4051)
def test_2534_recreate_replaces_all_pods_after_a_change(cluster, namespace, controller):
    manifest = yaml.safe_load(CLUSTER)
    manifest["spec"]["upgradeStrategy"] = {"type": "Recreate"}
    cluster.apply(manifest, namespace)
    made(cluster, namespace)
    old = {p["metadata"]["uid"] for p in cluster.get_json("pods", ns=namespace)}
    manifest["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]["image"] = "newer"
    cluster.apply(manifest, namespace)

    def replaced():
        pods = cluster.get_json("pods", ns=namespace)
        return len(pods) == 3 and not old & {p["metadata"]["uid"] for p in pods}

    wait_until(replaced, "three new pods")
    head = cluster.get_json("pods", ns=namespace, selector="ray.io/node-type=head")[0]
    assert head["spec"]["containers"][0]["image"] == "newer"


# ---- Redis ----


def deleted(cluster, namespace):
    return not cluster.exists("raycluster", "c", namespace)


def test_1557_redis_state_is_removed_by_a_job(cluster, namespace, controller):
    cluster.apply(REDIS, namespace)
    wait_until(lambda: len(cluster.get_json("pods", ns=namespace)) == 1, "the head")
    assert cluster.get_json("raycluster", "c", namespace)["metadata"]["finalizers"] == [FINALIZER]
    cluster.delete("raycluster", "c", namespace)
    job = wait_until(lambda: cluster.get_json("job", "c-redis-cleanup", namespace), "the Job")
    assert job["spec"]["template"]["spec"]["containers"][0]["env"]
    assert not [p for p in cluster.get_json("pods", ns=namespace, selector="ray.io/node-type=head")]
    assert not deleted(cluster, namespace)
    # The Job controller sees its pod succeed.
    pod = wait_until(lambda: cluster.get_json("pods", ns=namespace, selector="ray.io/node-type=redis-cleanup"), "its pod")[0]
    cluster.set_pod_status(namespace, pod["metadata"]["name"], phase="Succeeded")
    wait_until(lambda: deleted(cluster, namespace), "the RayCluster is gone")


def test_4767_a_head_on_a_dead_node_does_not_hold_the_cluster(cluster, namespace, start_operator):
    start_operator(cluster, "--terminating-timeout=1s", webhook=False, watch_namespaces=[namespace])
    manifest = yaml.safe_load(REDIS)
    manifest["metadata"]["annotations"] = {"ray.io/gcs-ft-deletion-timeout": "5"}
    cluster.apply(manifest, namespace)
    pod = wait_until(lambda: cluster.get_json("pods", ns=namespace), "the head")[0]
    # Bound to a node that nobody runs, with a finalizer: it stays Terminating.
    cluster.patch("pod", pod["metadata"]["name"], {"metadata": {"finalizers": ["example.com/stuck"]}}, namespace)
    cluster.delete("raycluster", "c", namespace)
    wait_until(lambda: cluster.exists("job", "c-redis-cleanup", namespace), "the Job, although the head is still there")
    wait_until(lambda: deleted(cluster, namespace), "the RayCluster goes when its time is up")
    wait_until(lambda: events(cluster, namespace, "ForceDeletedStuckCluster"), "the event")
    cluster.patch("pod", pod["metadata"]["name"], {"metadata": {"finalizers": None}}, namespace)


def test_3388_the_namespace_is_deleted(cluster, start_operator):
    """No Job can be made in a namespace that ends: the finalizer goes at once."""
    namespace = cluster.create_namespace("test-3388")
    controller = start_operator(cluster, webhook=False, watch_namespaces=[namespace])
    cluster.apply(REDIS, namespace)
    wait_until(lambda: len(cluster.get_json("pods", ns=namespace)) == 1, "the head")
    cluster.delete("namespaces", namespace)
    wait_until(lambda: not cluster.exists("namespaces", namespace), "the namespace is gone", timeout=60)
    assert "ForceDeletedStuckCluster" in controller.log()


# ---- permissions ----


def chart_rules():
    """What the chart grants the controller."""
    documents = yaml.safe_load_all((TOP / "deploy" / "operator.yaml").read_text())
    return next(d["rules"] for d in documents if d and d["kind"] == "ClusterRole")


@contextlib.contextmanager
def service_account(cluster, namespace, rules, directory):
    """A kubeconfig of a service account that these rules are granted to."""
    account, name = "operator", f"operator-{namespace}"
    cluster.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account}}, namespace)
    cluster.apply(
        [
            {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules},
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": name},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
                "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
            },
        ]
    )
    try:
        token = cluster.kubectl("create", "token", account, "-n", namespace).strip()
        config = yaml.safe_load(cluster.kubeconfig.read_text())
        config["users"] = [{"name": config["users"][0]["name"], "user": {"token": token}}]
        path = directory / "kubeconfig"
        path.write_text(yaml.safe_dump(config))
        ask = ("auth", "can-i", "create", "events.events.k8s.io", f"--as=system:serviceaccount:{namespace}:{account}")
        wait_until(lambda: cluster.kubectl(*ask, check=False).stdout.strip() == "yes", "the API server knows of the rights")
        yield path
    finally:
        for kind in ("clusterrolebindings", "clusterroles"):
            cluster.delete(kind, name)


def test_1706_the_charts_permissions_are_enough(cluster, namespace, start_operator, tmp_path):
    """The operator as the service account that the chart makes, with nothing but the chart's rules."""
    with service_account(cluster, namespace, chart_rules(), tmp_path) as path:
        operator = start_operator(cluster, f"--kubeconfig={path}", webhook=False, watch_namespaces=[namespace])
        cluster.apply(CLUSTER, namespace)
        made(cluster, namespace)
        cluster.patch("role", "c", {"rules": []}, namespace)
        wait_until(lambda: len(cluster.get_json("role", "c", namespace)["rules"] or []) == 3, "the Role is repaired")
        cluster.delete("raycluster", "c", namespace)
        wait_until(lambda: deleted(cluster, namespace), "the cluster is gone")
        wait_until(lambda: cluster.get_json("pods", ns=namespace) == [], "its pods are gone", timeout=60)
        cluster.apply(REDIS, namespace)
        wait_until(lambda: len(cluster.get_json("pods", ns=namespace)) == 1, "the head")
        cluster.delete("raycluster", "c", namespace)
        wait_until(lambda: cluster.exists("job", "c-redis-cleanup", namespace), "the Job")
        cluster.delete("pods", cluster.get_json("pods", ns=namespace)[0]["metadata"]["name"], namespace, grace=0)
        wait_until(lambda: deleted(cluster, namespace), "the RayCluster is gone")
        assert "forbidden" not in operator.log()


def test_pods_do_not_wait_for_what_is_there_but_cannot_be_read(cluster, namespace, start_operator, tmp_path):
    rules = chart_rules()
    for rule in rules:
        if "networkpolicies" in rule["resources"]:
            rule["verbs"] = [verb for verb in rule["verbs"] if verb != "get"]
    with service_account(cluster, namespace, rules, tmp_path) as path:
        start_operator(cluster, f"--kubeconfig={path}", webhook=False, watch_namespaces=[namespace])
        cluster.apply(CLUSTER, namespace)
        made(cluster, namespace)
        # From now on it is to be looked at, in vain.
        cluster.patch("networkpolicy", "c-workers-g", {"metadata": {"annotations": {"x": "y"}}}, namespace)
        wait_until(lambda: events(cluster, namespace, "FailedToUpdateNetworkPolicy"), "the event")
        pod = cluster.get_json("pods", ns=namespace, selector="ray.io/node-type=worker")[0]["metadata"]

        def replaced():
            pods = cluster.get_json("pods", ns=namespace)
            return len(pods) == 3 and pod["uid"] not in [p["metadata"]["uid"] for p in pods]

        cluster.delete("pods", pod["name"], namespace, grace=0)
        wait_until(replaced, "another slice")
