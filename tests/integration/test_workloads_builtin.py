"""StatefulSets and Jobs, as the controllers of Kubernetes itself make their Pods."""

import pytest

from cluster import wait_until
from kube_api import ApiError
from tpu_slice import assert_slice, assert_untouched, tpu_template, wait_for_pods


@pytest.fixture
def operator(cluster, namespace, start_operator):
    return start_operator(cluster, controller=False, watch_namespaces=[namespace])


def stateful_set(name, template, replicas=4, **spec):
    template["metadata"]["labels"] = {"app": name}
    selector = {"matchLabels": {"app": name}}
    spec |= {"replicas": replicas, "serviceName": f"{name}-svc", "selector": selector, "podManagementPolicy": "Parallel"}
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": name}, "spec": spec | {"template": template}}


def job(name, template, count=4, **spec):
    template["spec"]["restartPolicy"] = "Never"
    spec |= {"completions": count, "parallelism": count}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec | {"template": template}}


def test_a_statefulset_is_a_slice(cluster, namespace, operator):
    cluster.create(stateful_set("serve", tpu_template()), namespace)
    pods = wait_for_pods(cluster, namespace, 4)
    assert_slice(pods, [f"serve-{i}.serve-svc" for i in range(4)], "serve")


def test_a_host_of_a_statefulset_that_is_replaced_is_the_same_host(cluster, namespace, operator):
    cluster.create(stateful_set("serve", tpu_template()), namespace)
    before = wait_for_pods(cluster, namespace, 4)
    cluster.delete("pods", "serve-2", namespace, grace=0)
    uid = before[2]["metadata"]["uid"]

    def replaced():
        pods = wait_for_pods(cluster, namespace, 4, timeout=0)
        return pods if pods[2]["metadata"]["uid"] != uid else None

    after = wait_until(replaced, "another serve-2")
    assert_slice(after, [f"serve-{i}.serve-svc" for i in range(4)], "serve")


def test_ordinals_that_do_not_begin_at_0_are_told_by_annotation(cluster, namespace, operator):
    template = tpu_template(annotations={"ray-tpu-operator/first-ordinal": "3"})
    cluster.create(stateful_set("late", template, ordinals={"start": 3}), namespace)
    pods = wait_for_pods(cluster, namespace, 4)
    assert_slice(pods, [f"late-{i}.late-svc" for i in range(3, 7)], "late")


def test_a_job_without_indices_is_admitted_with_a_warning(cluster, namespace, operator):
    cluster.create(job("loose", tpu_template(subdomain="loose-svc")), namespace)
    for pod in wait_for_pods(cluster, namespace, 4):
        assert "TPU_WORKER_ID" not in str(pod["spec"]["containers"])
        assert "TPU_WORKER_HOSTNAMES" not in str(pod["spec"]["containers"])
    assert "completionMode: Indexed" in operator.log()


def test_strict_denies_a_job_without_indices(cluster, namespace, start_operator):
    start_operator(cluster, "--strict", controller=False, watch_namespaces=[namespace])
    cluster.create(job("loose", tpu_template(subdomain="loose-svc")), namespace)

    def told():
        events = cluster.get_json("events", ns=namespace)
        return [e for e in events if e["reason"] == "FailedCreate" and "completionMode: Indexed" in e["message"]]

    wait_until(told, "an event that says what to set")
    assert cluster.get_json("pods", ns=namespace) == []


def test_strict_lets_a_deployment_of_single_hosts_be(cluster, namespace, start_operator):
    start_operator(cluster, "--strict", controller=False, watch_namespaces=[namespace])
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one"}, **tpu_template(chips="8", topology="2x4")}
    pod["metadata"] = {"name": "one"}
    assert "localhost" in str(cluster.create(pod, namespace)["spec"])
    many = {"apiVersion": "v1", "kind": "Pod", **tpu_template(), "metadata": {"name": "many"}}
    with pytest.raises(ApiError) as refused:
        cluster.create(many, namespace)
    assert refused.value.status == 422


def test_a_pod_without_containers_is_refused_for_that(cluster, namespace, operator):
    with pytest.raises(ApiError) as refused:
        cluster.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "empty"}, "spec": {}}, namespace)
    assert refused.value.status == 422
    assert "spec.containers: Required value" in str(refused.value)


def test_pods_without_tpus_are_not_touched(cluster, namespace, operator):
    cluster.create(stateful_set("web", tpu_template(chips=None), replicas=2), namespace)
    for pod in wait_for_pods(cluster, namespace, 2):
        assert_untouched(pod)
