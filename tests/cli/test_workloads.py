"""raytpu inject on workloads, raytpu validate, raytpu topology: what a user types, and what comes out."""

import copy
import json
import re

import pytest
import yaml

from test_raytpu import FIXTURES, cluster, documents, fixture, inject, job_pods, raytpu, render, tpu_pod

V6E = {"cloud.google.com/gke-tpu-accelerator": "tpu-v6e-slice", "cloud.google.com/gke-tpu-topology": "2x4"}


def template(selector=None, chips="4", **spec):
    container = {"name": "main", "image": "i"}
    if chips:
        container["resources"] = {"limits": {"google.com/tpu": chips}}
    return {"spec": {"nodeSelector": dict(V6E) if selector is None else selector, "containers": [container], **spec}}


def workload(api_version, kind, spec):
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "w", "namespace": "ns"}, "spec": spec}


def job(**changes):
    spec = {"completionMode": "Indexed", "parallelism": 2, "completions": 2, "template": template(subdomain="svc")}
    return workload("batch/v1", "Job", {**spec, **changes})


def cronjob(**changes):
    return workload("batch/v1", "CronJob", {"schedule": "0 * * * *", "jobTemplate": {"spec": job(**changes)["spec"]}})


def jobset(replicas=2, **changes):
    head = {"name": "head", "template": {"spec": {"template": template(chips=None)}}}
    worker = {
        "name": "tpu",
        "replicas": replicas,
        "template": {"spec": {"parallelism": 2, "completions": 2, "template": template()}},
    }
    worker["template"]["spec"].update(changes)
    return workload("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": [head, worker]})


def lws(**changes):
    spec = {"size": 2, "workerTemplate": template()}
    return workload("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", {"leaderWorkerTemplate": {**spec, **changes}})


def statefulset(**changes):
    return workload("apps/v1", "StatefulSet", {"replicas": 2, "serviceName": "svc", "template": template(), **changes})


def deployment(**changes):
    return workload("apps/v1", "Deployment", {"replicas": 2, "template": template(chips="8"), **changes})


def owner_of(kind, member, raycluster):
    result = copy.deepcopy(raycluster)
    result["kind"] = kind
    result["spec"] = {member: raycluster["spec"]}
    return result


def env(pod, container=0):
    entries = pod["spec"]["containers"][container].get("env", [])
    return {e["name"]: e.get("value") for e in entries}


def name(pod):
    return pod["metadata"].get("name") or pod["metadata"]["generateName"]


# ---- inject ----

HOSTS = {
    "Job": (job(), {"w-0-": ("0", "w-0.svc,w-1.svc"), "w-1-": ("1", "w-0.svc,w-1.svc")}),
    "CronJob": (
        cronjob(),
        {
            "w-00000000-0-": ("0", "w-00000000-0.svc,w-00000000-1.svc"),
            "w-00000000-1-": ("1", "w-00000000-0.svc,w-00000000-1.svc"),
        },
    ),
    "JobSet": (
        jobset(),
        {
            "w-head-0-0-": (None, None),
            "w-tpu-0-0-": ("0", "w-tpu-0-0.w,w-tpu-0-1.w"),
            "w-tpu-0-1-": ("1", "w-tpu-0-0.w,w-tpu-0-1.w"),
            "w-tpu-1-0-": ("0", "w-tpu-1-0.w,w-tpu-1-1.w"),
            "w-tpu-1-1-": ("1", "w-tpu-1-0.w,w-tpu-1-1.w"),
        },
    ),
    "LeaderWorkerSet": (lws(), {"w-0": ("0", "w-0.w,w-0-1.w"), "w-0-1": ("1", "w-0.w,w-0-1.w")}),
    "LeaderWorkerSet, leader without TPUs": (
        lws(size=3, leaderTemplate=template(chips=None)),
        {"w-0": (None, None), "w-0-1": ("0", "w-0-1.w,w-0-2.w"), "w-0-2": ("1", "w-0-1.w,w-0-2.w")},
    ),
    "StatefulSet": (statefulset(), {"w-0": ("0", "w-0.svc,w-1.svc"), "w-1": ("1", "w-0.svc,w-1.svc")}),
    "Deployment": (deployment(replicas=1), {"w-": ("0", "localhost")}),
}


@pytest.mark.parametrize("kind", HOSTS)
def test_pods_of_a_workload(kind):
    obj, hosts = HOSTS[kind]
    result = inject(obj)
    assert (result.code, result.err) == (0, "")
    found = {name(p): (env(p).get("TPU_WORKER_ID"), env(p).get("TPU_WORKER_HOSTNAMES")) for p in result.items}
    assert found == hosts
    assert all(p["metadata"]["namespace"] == "ns" for p in result.items)


def test_slices_of_a_jobset():
    pods = {name(p): env(p) for p in inject(jobset()).items}
    for slice_id in ("0", "1"):
        variables = pods[f"w-tpu-{slice_id}-1-"]
        assert variables["MEGASCALE_NUM_SLICES"] == "2"
        assert variables["MEGASCALE_SLICE_ID"] == slice_id
        assert variables["MEGASCALE_COORDINATOR_ADDRESS"] == "w-tpu-0-0.w"
    assert "MEGASCALE_NUM_SLICES" not in env(inject(jobset(replicas=1)).items[1])


def test_pathways():
    obj = fixture("jobset_pathways_v6e_4x8.yaml")
    head, *workers = inject(obj).items
    template_of_head = obj["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    for container, before in zip(head["spec"]["containers"], template_of_head["containers"]):
        assert [e for e in container["env"] if e["name"] != "JOB_COMPLETION_INDEX"] == before["env"]
    assert [env(w)["TPU_WORKER_ID"] for w in workers] == [str(i) for i in range(8)]
    for worker in workers:
        entries = {e["name"]: e for e in worker["spec"]["containers"][0]["env"]}
        for variable in ("NUM_SLICES", "SLICE_ID", "COORDINATOR_ADDRESS"):
            assert "valueFrom" in entries[f"MEGASCALE_{variable}"]


def test_a_job_makes_the_pods_that_its_controller_makes():
    """The fixture's Job expanded by hand, but for uids, is what the command expands."""
    ours = inject(*yaml.safe_load_all((FIXTURES / "indexed_job_v6e_4x4.yaml").read_text()))
    theirs = inject(*job_pods())
    assert ours.err.startswith("note: ") and "Service" in ours.err
    assert [env(p)["TPU_WORKER_ID"] for p in ours.items] == [env(p)["TPU_WORKER_ID"] for p in theirs.items]
    for mine, other in zip(ours.items, theirs.items):
        assert mine["spec"]["hostname"] == other["spec"]["hostname"]
        assert env(mine)["TPU_WORKER_HOSTNAMES"] == env(other)["TPU_WORKER_HOSTNAMES"]
        assert "JOB_COMPLETION_INDEX" in env(mine)


@pytest.mark.parametrize("file", ["tutorial_a_v6e_4x4.yaml", "tutorial_a_tpu7x_2x2x2.yaml"])
def test_pods_of_a_cluster_are_those_that_are_rendered(file):
    rendered = [o for o in render(fixture(file)).items if o["kind"] == "Pod"]
    assert inject(fixture(file)).items == rendered


@pytest.mark.parametrize("kind, member", [("RayJob", "rayClusterSpec"), ("RayService", "rayClusterConfig")])
def test_pods_of_a_cluster_inside(kind, member):
    raycluster = fixture("tutorial_a_v6e_4x4.yaml")
    result = inject(owner_of(kind, member, raycluster))
    assert (result.code, result.err) == (0, "")
    workers = [p for p in result.items if p["metadata"]["labels"]["ray.io/node-type"] == "worker"]
    assert [env(w)["TPU_WORKER_ID"] for w in workers] == ["0", "1", "2", "3"]
    assert workers[0]["spec"]["subdomain"] == raycluster["metadata"]["name"] + "-xxxxx-headless"


def test_what_all_pods_say_is_said_once():
    obj = jobset()
    obj["spec"]["replicatedJobs"][1]["template"]["spec"]["template"]["spec"]["hostNetwork"] = True
    result = inject(obj)
    assert len(result.messages) == 1 and "ClusterFirstWithHostNet" in result.err


def test_strict():
    result = inject(deployment(template=template()), output="json", options=["--strict"])
    assert (result.code, result.items) == (1, [])
    assert "ReplicaSet has no host index" in result.err


@pytest.mark.parametrize(
    "obj, words",
    [
        (job(parallelism=-1), "spec.parallelism: must be a whole number"),
        (job(completions=20000), "more than 10000 Pods"),
        (jobset(replicas=2**31 - 1, completions=0), "more than 10000 Jobs"),
        (workload("jobset.x-k8s.io/v1alpha2", "JobSet", {}), "spec.replicatedJobs must be a list"),
        (lws(size="2"), "size: must be a whole number"),
        ({**job(), "metadata": {}}, "metadata.name is missing"),
        ({**job(), "apiVersion": "batch/v2"}, "write batch/v1"),
        (workload("ray.io/v1", "RayJob", {}), "spec.rayClusterSpec is missing"),
    ],
)
def test_workloads_that_make_no_pods(obj, words):
    result = inject(obj, tpu_pod(name="after"))
    assert result.code == 1 and words in result.err
    assert [name(p) for p in result.items] == ["after"]


# ---- validate ----


def validate(*objects, text=None):
    result = raytpu("validate", "-f", "-", stdin=text if text is not None else documents(objects))
    pattern = re.compile(r"standard input(?::(\d+))?: (error|warning): (\S+ \S+): ([^:]+): (.+)")
    return result, [pattern.fullmatch(line).groups() for line in result.out.splitlines()]


def unindexed_cluster():
    result = fixture("tutorial_a_v6e_4x4.yaml")
    result["spec"]["workerGroupSpecs"][0]["numOfHosts"] = 2
    return result


TOPOLOGY = "cloud.google.com/gke-tpu-topology"
NODE = f'nodeSelector["{TOPOLOGY}"]'
JOBSET_PATH = "spec.replicatedJobs[1].template.spec."
RAY_HOSTS = "workerGroupSpecs[0].numOfHosts"
SPEC = "spec.template.spec"
PROBLEMS = {
    "NonIndexed Job": (job(completionMode="NonIndexed"), ["spec.completionMode"], "Indexed"),
    "CronJob": (
        cronjob(completionMode="NonIndexed", parallelism=3),
        ["spec.jobTemplate.spec.completionMode", "spec.jobTemplate.spec.parallelism"],
        "Indexed",
    ),
    "too few hosts": (job(completions=1, parallelism=1), ["spec.parallelism", "spec.completions"], "set it to 2"),
    "Job without Service": (job(template=template()), ["spec.template.spec.subdomain"], "headless Service"),
    "topology": (job(template=template({**V6E, TOPOLOGY: "2x"})), [f"spec.template.spec.{NODE}"], '"2x"'),
    "chips": (job(template=template(chips="0.5")), ["spec.template.spec.containers"], "0.5"),
    "JobSet": (
        jobset(parallelism=3, completions=3),
        [JOBSET_PATH + "parallelism", JOBSET_PATH + "completions"],
        "set it to 2",
    ),
    "LeaderWorkerSet": (lws(size=3), ["spec.leaderWorkerTemplate.size"], "set it to 2"),
    "leader without TPUs": (lws(leaderTemplate=template(chips=None)), ["spec.leaderWorkerTemplate.size"], "set it to 3"),
    "subgroups": (
        lws(size=6, subGroupPolicy={"subGroupSize": 3}),
        ["spec.leaderWorkerTemplate.subGroupPolicy.subGroupSize"],
        "set it to 2",
    ),
    "replicas": (statefulset(replicas=4), ["spec.replicas"], "set it to 2"),
    "StatefulSet without Service": (statefulset(serviceName=""), ["spec.serviceName"], "headless Service"),
    "ordinals": (statefulset(ordinals={"start": 1}), ["spec.ordinals.start"], "first-ordinal"),
    "Deployment": (deployment(template=template()), ["spec.template.spec"], "no index"),
    "bare Pod": (tpu_pod("4x4"), ["spec"], "Pod without a controller"),
    "long names": ({**job(), "metadata": {"name": "j" * 62}}, ["spec.template"], "no DNS label"),
    "subgroups that do not divide": (
        lws(size=6, subGroupPolicy={"subGroupSize": 4}),
        ["spec.leaderWorkerTemplate.subGroupPolicy.subGroupSize"],
        "is 4, which divides neither size 6 nor the 5 Pods beside the leader",
    ),
    "subgroups of nothing": (
        lws(subGroupPolicy={"subGroupSize": 0}),
        ["spec.leaderWorkerTemplate.subGroupPolicy.subGroupSize"],
        "is 0: a subgroup has at least 1 Pod",
    ),
    "ordinals as text": (statefulset(ordinals="5"), ["spec.ordinals"], 'must be an object, not "5"'),
    "first ordinal as text": (
        statefulset(ordinals={"start": "5"}),
        ["spec.ordinals.start"],
        'must be a whole number of 0 or more, within 32 bits, not "5"',
    ),
    "negative count": (job(parallelism=-1), ["spec.parallelism"], "0 or more, within 32 bits, not -1"),
    "mode": (job(completionMode="indexed"), ["spec.completionMode"], "use one of NonIndexed, Indexed"),
    "image": (job(template=template(subdomain="svc", containers=[{"name": "a"}])), [f"{SPEC}.containers[0].image"], "name"),
    "node selector as number": (job(template=template(5, subdomain="svc")), [f"{SPEC}.nodeSelector"], "must be an object"),
    "labels as list": (
        {**job(), "metadata": {"name": "w", "labels": ["a"]}},
        ["metadata.labels"],
        "must be an object of strings, not array",
    ),
    "namespace as object": (
        {**job(), "metadata": {"name": "w", "namespace": {"name": "ns"}}},
        ["metadata.namespace"],
        "must be a string, not object",
    ),
    "RayCluster with a namespace that is an object": (
        {**cluster(), "metadata": {"name": "w", "namespace": {"name": "ns"}}},
        ["metadata.namespace"],
        "must be a string, not object",
    ),
    "spec as text": (workload("batch/v1", "Job", "x"), ["spec"], 'must be an object, not "x"'),
    "no template": (workload("apps/v1", "StatefulSet", {}), ["spec.template.spec.containers"], "is empty"),
    "replicatedJobs as object": (
        workload("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": {}}),
        ["spec.replicatedJobs"],
        "a list of objects",
    ),
    "replicatedJob without name": (
        workload("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": [{"replicas": "2"}]}),
        ["spec.replicatedJobs[0].replicas", "spec.replicatedJobs[0].name"],
        'not "2"',
    ),
    "RayCluster": (unindexed_cluster(), ["spec." + RAY_HOSTS], "set numOfHosts to 4"),
    "RayJob": (
        owner_of("RayJob", "rayClusterSpec", unindexed_cluster()),
        ["spec.rayClusterSpec." + RAY_HOSTS],
        "set numOfHosts to 4",
    ),
    "RayService": (
        owner_of("RayService", "rayClusterConfig", unindexed_cluster()),
        ["spec.rayClusterConfig." + RAY_HOSTS],
        "set numOfHosts to 4",
    ),
    "RayJob with a name that is too long for what is made from it": (
        {**owner_of("RayJob", "rayClusterSpec", unindexed_cluster()), "metadata": {"name": "j" * 48}},
        ["metadata.name", "spec.rayClusterSpec." + RAY_HOSTS],
        "at most 47",
    ),
    "RayJob without cluster": (workload("ray.io/v1", "RayJob", {}), ["spec"], "spec.rayClusterSpec"),
}


def test_a_statefulset_that_is_not_to_run_now_has_no_problem():
    result, problems = validate(statefulset(replicas=0))
    assert (result.code, problems) == (0, [])


def test_a_topology_that_is_not_there_is_a_warning():
    result, problems = validate(job(template=template({**V6E, TOPOLOGY: "4x2"}, subdomain="svc")))
    assert result.code == 0
    assert [(p[1], p[3]) for p in problems] == [("warning", "spec.template")]
    assert "topology 4x2: did you mean 2x4?" in problems[0][4]


@pytest.mark.parametrize("what", PROBLEMS)
def test_problems_name_field_and_remedy(what):
    obj, fields, words = PROBLEMS[what]
    result, problems = validate(obj)
    assert result.code == 1
    assert [p[3] for p in problems] == fields
    assert all(p[1] == "error" for p in problems) and words in problems[0][4]
    assert problems[0][2] == f"{obj['kind']} {obj['metadata']['name']}"


def places_in(value, path=()):
    yield path, value
    if isinstance(value, dict):
        for key, member in value.items():
            yield from places_in(member, (*path, key))
    elif isinstance(value, list):
        for index, member in enumerate(value):
            yield from places_in(member, (*path, index))


def with_types_changed(base):
    """(path, value, object) for every place and every odd value of another type than what is there."""
    odd = [5, -1, 1.5, "x", "", [], {}, [5], {"a": 5}, True, [None], [{}], {"a": None}]
    for path, there in places_in(base):
        # Without these there is nothing to speak of; and a quantity is a number as well as a text.
        if not path or path[0] in ("apiVersion", "kind") or path in (("metadata",), ("metadata", "name")):
            continue
        for value in odd:
            quantity = ("limits" in path or "requests" in path or path[-1] == "sizeLimit") and value in (5, 1.5)
            if type(value) is type(there) or quantity:
                continue
            changed = copy.deepcopy(base)
            parent = changed
            for key in path[:-1]:
                parent = parent[key]
            parent[path[-1]] = value
            yield path, value, changed


@pytest.mark.parametrize("kind", ["Job", "CronJob", "JobSet", "LeaderWorkerSet", "StatefulSet", "Deployment", "RayCluster", "RayJob"])
def test_no_wrong_type_passes_in_silence(kind):
    bases = [job(), cronjob(), jobset(), lws(subGroupPolicy={"subGroupSize": 2}), statefulset(ordinals={"start": 1}), deployment()]
    bases += [cluster(), owner_of("RayJob", "rayClusterSpec", cluster())]
    changes = list(with_types_changed(next(b for b in bases if b["kind"] == kind)))
    for number, (_, _, changed) in enumerate(changes):
        changed["metadata"]["name"] = f"n{number}"
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": [c[2] for c in changes]})
    result = raytpu("validate", "-f", "-", stdin=text)
    told = {int(n) for n in re.findall(rf" error: {kind} n(\d+): ", result.out)}
    silent = [f"{path}: {value}" for number, (path, value, _) in enumerate(changes) if number not in told]
    assert len(changes) > 100 and not silent, silent
    assert raytpu("inject", "-f", "-", stdin=text).code == 1


def test_lines_are_those_of_the_field():
    """Each problem's line, in block style, holds the last word of its field."""
    for what, (obj, fields, _) in PROBLEMS.items():
        for text in (yaml.safe_dump(obj), yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": [obj]})):
            _, problems = validate(text="kind: Service\napiVersion: v1\nmetadata: {name: s}\n---\n" + text)
            lines = [""] * 4 + text.splitlines()
            for (line, *_), field in zip(problems, fields):
                word = re.split(r"[.\[\]\"/]+", field.strip('"]'))[-1]
                shown = lines[int(line) - 1]
                # What is missing is shown at what is closest above it.
                missing = word in ("subdomain", "image", "name", "containers") or what == "RayJob without cluster"
                assert word in shown or missing, (what, shown)


def test_lines_of_json_and_aliases():
    spaces = json.dumps(job(completions=1, parallelism=1), indent=2)
    _, problems = validate(text=spaces)
    assert [spaces.splitlines()[int(p[0]) - 1].strip() for p in problems] == ['"parallelism": 1,', '"completions": 1,']
    tabs = json.dumps(job(completions=1, parallelism=1), indent="\t")
    result, problems = validate(text=tabs)
    assert result.code == 1 and len(problems) == 2
    shared = f"""apiVersion: apps/v1
kind: StatefulSet
metadata: {{name: w}}
spec:
  serviceName: svc
  replicas: &n 4
  revisionHistoryLimit: *n
  template: {json.dumps(template())}
"""
    _, problems = validate(text=shared)
    assert [(p[0], p[3]) for p in problems] == [("6", "spec.replicas")]


@pytest.mark.parametrize(
    "file",
    [
        "tutorial_a_v6e_4x4.yaml",
        "tutorial_a_tpu7x_2x2x2.yaml",
        "jobset_pathways_v6e_4x8.yaml",
        "indexed_job_v6e_4x4.yaml",
    ],
)
def test_fixtures_have_no_problem(file):
    result = raytpu("validate", "-f", FIXTURES / file)
    assert (result.code, result.out) == (0, "")


@pytest.mark.parametrize("kind", HOSTS)
def test_good_workloads_have_no_problem(kind):
    result, problems = validate(HOSTS[kind][0])
    assert (result.code, problems, result.err) == (0, [], "")


@pytest.mark.parametrize("what", ["ordinals as text", "first ordinal as text", "negative count", "spec as text"])
def test_inject_does_not_guess_what_a_wrong_type_means(what):
    obj, (field,), words = PROBLEMS[what]
    result = inject(obj)
    assert result.code == 1 and len(result.messages) == 1
    assert f"{obj['kind']} w: {field}: " in result.messages[0] and words in result.messages[0]


def test_a_warning_is_no_failure():
    unknown = {**V6E, "cloud.google.com/gke-tpu-accelerator": "tpu9"}
    result, problems = validate(job(template=template(unknown, subdomain="svc")))
    assert result.code == 0
    assert [p[1] for p in problems] == ["warning"] and '"tpu9" is not known' in problems[0][4]


def test_what_pods_are_warned_of_is_told_by_validate_and_inject():
    """One row a way to a warning: what the webhook would say of the Pods is said of the object."""
    annotated = template(subdomain="svc")
    annotated["metadata"] = {"annotations": {"ray-tpu-operator/inject": "off"}}
    cluster = fixture("tutorial_a_v6e_4x4.yaml")
    worker = cluster["spec"]["workerGroupSpecs"][0]["template"]
    worker["metadata"] = annotated["metadata"]
    for manifest in (job(template=annotated), cluster, owner_of("RayJob", "rayClusterSpec", cluster)):
        result, problems = validate(manifest)
        assert (result.code, [p[1] for p in problems]) == (0, ["warning"])
        assert 'ray-tpu-operator/inject is "off"' in problems[0][4]
        injected = inject(manifest)
        assert len([m for m in injected.messages if 'ray-tpu-operator/inject is "off"' in m]) == 1


# ---- topology ----


def topology(*args):
    result = raytpu("topology", *args, "-o", "json")
    assert (result.code, result.err) == (0, "")
    return json.loads(result.out)


def test_all_topologies():
    rows = topology()
    assert {r["generation"] for r in rows} == {"v3", "v4lite", "v4", "v5e", "v5p", "v6e", "tpu7x"}
    for row in rows:
        assert row["hosts"] * row["chipsPerHost"] == row["chips"]
        assert row["hosts"] == 1 or row["chipsPerHost"] == 4
        assert "env" not in row


@pytest.mark.parametrize(
    "accelerator, shape, chips, hosts, machine, type_name",
    [
        ("tpu-v6e-slice", "4x4", 16, 4, "ct6e-standard-4t", "v6e-16"),
        ("tpu-v5-lite-podslice", "2x2", 4, 1, "ct5lp-hightpu-4t", "v5litepod-4"),
        ("tpu-v4-podslice", "2x2x2", 8, 2, "ct4p-hightpu-4t", "v4-16"),
        ("tpu-v5p-slice", "2x4x4", 32, 8, "ct5p-hightpu-4t", "v5p-64"),
        ("tpu7x", "2x2x2", 8, 2, "tpu7x-standard-4t", "tpu7x-16"),
        ("tpu7x", "4x12x16", 768, 192, "tpu7x-standard-4t", "tpu7x-1536"),
        ("tpu-v3-slice", "4x4", 16, 4, "ct3p-hightpu-4t", "v3-32"),
    ],
)
def test_one_topology(accelerator, shape, chips, hosts, machine, type_name):
    (row,) = topology(accelerator, shape)
    found = row["chips"], row["hosts"], row["machineType"], row["acceleratorType"]
    assert found == (chips, hosts, machine, type_name)
    variables = {e["name"]: e["value"] for e in row["env"]}
    assert len(variables["TPU_WORKER_HOSTNAMES"].split(",")) == hosts
    text = raytpu("topology", accelerator, shape).out
    assert f"\nTPU_WORKER_HOSTNAMES={variables['TPU_WORKER_HOSTNAMES']}\n" in text
    assert re.search(rf"^{accelerator} +{shape} +{chips} +{hosts} +{machine} +{type_name}$", text, re.M)


def test_two_machines_make_the_same_topology():
    assert [(r["machineType"], r["hosts"]) for r in topology("tpu-v6e-slice", "2x4")] == [
        ("ct6e-standard-4t", 2),
        ("ct6e-standard-8t", 1),
    ]


@pytest.mark.parametrize(
    "args, words",
    [
        (["v6e"], "accelerator v6e is not known: use one of tpu-v3-device"),
        (["tpu-v6e-slice", "4x"], '"4x" is not valid'),
        (["tpu-v6e-slice", "3x3"], "there is no tpu-v6e-slice slice of topology 3x3"),
        (["tpu-v6e-slice", "8x4"], "topology 8x4: did you mean 4x8?"),
        (["tpu7x", "2x4x2"], "topology 2x4x2: did you mean 2x2x4?"),
        (["tpu-v6e-slice", "3x3"], "Its slices have 2 dimensions: 1x1, 2x2, 2x4, 4x4,"),
        (["tpu-v6e-slice", "2x2x2"], "have 2 dimensions"),
        (["tpu7x", "4x4"], "8x16x16, 12x24x24, and larger ones of multiples of 4"),
    ],
)
def test_slices_that_are_not(args, words):
    result = raytpu("topology", *args)
    assert result.code == 1 and words in result.err


def test_usage_of_topology():
    result = raytpu("topology", "--help")
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith("Usage: raytpu topology [ACCELERATOR [TOPOLOGY]]")
    assert raytpu("topology", "a", "b", "c").err.startswith("raytpu topology: unexpected argument c")
    assert raytpu("topology", "-f", "x").code == 2
