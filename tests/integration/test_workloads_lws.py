"""LeaderWorkerSets, made by their controller. Its webhook tells TPU Pods most of what ours does, before us or after us."""

import pytest

from tpu_slice import assert_slice, assert_untouched, env_entries, env_values, tpu_template, wait_for_pods

LWS = "leaderworkerset.sigs.k8s.io"

# API servers call mutating webhooks by the names of their configurations; ours begins with "ray-tpu-operator".
ORDERS = {"before us": "a-lws", "after us": "z-lws"}


@pytest.fixture(params=ORDERS.values(), ids=ORDERS.keys())
def operator(request, cluster, namespace, start_operator, lws):
    lws.register(request.param)
    yield start_operator(cluster, controller=False, watch_namespaces=[namespace])
    lws.unregister()


def leader_worker_set(name, size, leader=None, **group):
    template = {"size": size, "workerTemplate": tpu_template()} | group
    if leader:
        template["leaderTemplate"] = leader
    spec = {"replicas": 1, "leaderWorkerTemplate": template}
    return {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "metadata": {"name": name}, "spec": spec}


def index_of(pod):
    return int(pod["metadata"]["labels"][f"{LWS}/worker-index"])


def pods_of(cluster, ns, name, count):
    return sorted(wait_for_pods(cluster, ns, count, f"{LWS}/name={name}"), key=index_of)


def hosts_of(name, indices, subdomain=None):
    return [f"{name}-0{f'-{i}' if i else ''}.{subdomain or name}" for i in indices]


def assert_agrees_with_lws(pods, hosts):
    """What only its webhook is known for, and what it says of the group."""
    for pod in pods:
        values = env_values(pod)
        assert values["TPU_PROCESS_ADDRESSES"] == ",".join(f"{host}:8476" for host in hosts)
        assert values["TPU_PROCESS_PORT"] == "8476"
        # Later entries may refer to these.
        assert list(env_entries(pod))[0] == "LWS_LEADER_ADDRESS"


def test_a_group_is_a_slice(cluster, namespace, operator):
    cluster.create(leader_worker_set("serve", 4), namespace)
    pods = pods_of(cluster, namespace, "serve", 4)
    hosts = hosts_of("serve", range(4))
    assert_slice(pods, hosts, "serve-0")
    assert_agrees_with_lws(pods, hosts)


def test_two_groups_are_two_slices(cluster, namespace, operator):
    manifest = leader_worker_set("pair", 4)
    manifest["spec"]["replicas"] = 2
    cluster.create(manifest, namespace)
    pods = wait_for_pods(cluster, namespace, 8, f"{LWS}/name=pair")
    for group in range(2):
        own = sorted((p for p in pods if p["metadata"]["labels"][f"{LWS}/group-index"] == str(group)), key=index_of)
        assert_slice(own, [f"pair-{group}{f'-{i}' if i else ''}.pair" for i in range(4)], f"pair-{group}")
        assert not [n for pod in own for n in env_entries(pod) if "MEGASCALE" in n]


def test_a_leader_without_tpus_is_no_host(cluster, namespace, operator):
    cluster.create(leader_worker_set("lead", 5, leader=tpu_template(chips=None)), namespace)
    leader, *workers = pods_of(cluster, namespace, "lead", 5)
    assert_untouched(leader)
    hosts = hosts_of("lead", range(1, 5))
    assert_slice(workers, hosts, "lead-0")
    assert_agrees_with_lws(workers, hosts)


def test_subgroups_are_slices(cluster, namespace, operator):
    cluster.create(leader_worker_set("sub", 8, subGroupPolicy={"subGroupSize": 4}), namespace)
    pods = pods_of(cluster, namespace, "sub", 8)
    if env_values(pods[0])["TPU_WORKER_ID"] == "-1":
        pytest.xfail("LeaderWorkerSet 0.9 itself tells the leader of subgroups that it is host -1; what is there stays")
    for part in (range(4), range(4, 8)):
        own, hosts = [pods[i] for i in part], hosts_of("sub", part)
        assert_slice(own, hosts, "sub-0")
        assert_agrees_with_lws(own, hosts)


def test_subgroups_behind_a_leader_without_tpus(cluster, namespace, operator):
    manifest = leader_worker_set("sub", 9, leader=tpu_template(chips=None), subGroupPolicy={"subGroupSize": 4})
    cluster.create(manifest, namespace)
    leader, *pods = pods_of(cluster, namespace, "sub", 9)
    assert_untouched(leader)
    for part in (range(1, 5), range(5, 9)):
        own = [pods[i - 1] for i in part]
        assert_slice(own, hosts_of("sub", part), "sub-0")


def test_a_subdomain_for_each_group(cluster, namespace, operator):
    manifest = leader_worker_set("own", 4)
    manifest["spec"]["networkConfig"] = {"subdomainPolicy": "UniquePerReplica"}
    cluster.create(manifest, namespace)
    pods = pods_of(cluster, namespace, "own", 4)
    assert_slice(pods, hosts_of("own", range(4), subdomain="own-0"), "own-0")


def test_the_users_list_of_hosts_stays(cluster, namespace, operator):
    manifest = leader_worker_set("mine", 4)
    own = [{"name": "TPU_WORKER_HOSTNAMES", "value": "a,b,c,d"}, {"name": "TPU_WORKER_ID", "value": "1"}]
    manifest["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["containers"][0]["env"] = own
    cluster.create(manifest, namespace)
    for pod in pods_of(cluster, namespace, "mine", 4):
        values = env_values(pod)
        assert (values["TPU_WORKER_HOSTNAMES"], values["TPU_WORKER_ID"]) == ("a,b,c,d", "1")
