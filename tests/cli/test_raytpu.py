"""raytpu, the offline command line: what a user types, and what comes out. No cluster, no network.

RAYTPU_BIN names the binary (default build/raytpu); a sanitizer build works too: its findings have an exit code of
their own, which no test accepts.
"""

import copy
import json
import os
import pathlib
import random
import re
import subprocess

import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
FIXTURES = ROOT / "tests" / "fixtures"
BINARY = pathlib.Path(os.environ.get("RAYTPU_BIN", ROOT / "build" / "raytpu")).absolute()

FIVE = [
    "TPU_WORKER_HOSTNAMES",
    "TORCH_TPU_TOPOLOGY",
    "TORCH_TPU_SLICEBUILDER_ADDRESSES",
    "TPU_WORKER_ID",
    "TPU_NAME",
]
MESSAGE = re.compile(r"(error|warning|note): [^\x00-\x1f\x7f]+")
PROBLEM = re.compile(r"standard input(:[0-9]+)?: (error|warning): [^\x00-\x1f\x7f]+")
SANITIZER_EXIT = 99


class Result:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    @property
    def items(self):
        """What -o json printed: a v1 List."""
        document = json.loads(self.out)
        assert (document["apiVersion"], document["kind"]) == ("v1", "List")
        return document["items"]

    @property
    def messages(self):
        return self.err.splitlines()


def environment():
    env = dict(os.environ)
    env["ASAN_OPTIONS"] = f"exitcode={SANITIZER_EXIT}:{env.get('ASAN_OPTIONS', '')}"
    env["UBSAN_OPTIONS"] = f"halt_on_error=1:exitcode={SANITIZER_EXIT}:{env.get('UBSAN_OPTIONS', '')}"
    return env


def raytpu(*args, stdin=b"", binary=BINARY, stdout=subprocess.PIPE):
    if isinstance(stdin, str):
        stdin = stdin.encode()
    result = subprocess.run(
        [str(binary), *map(str, args)],
        input=stdin,
        stdout=stdout,
        stderr=subprocess.PIPE,
        timeout=120,
        env=environment(),
        check=False,
    )
    out = "" if result.stdout is None else result.stdout.decode()
    err = result.stderr.decode(errors="replace")
    assert result.returncode in (0, 1, 2), err
    return Result(result.returncode, out, err)


def render(*objects, options=()):
    return raytpu("render", "-f", "-", "-o", "json", *options, stdin=documents(objects))


def inject(*objects, output="json", options=()):
    return raytpu("inject", "-f", "-", "-o", output, *options, stdin=documents(objects))


def documents(objects):
    return "---\n".join(json.dumps(o) + "\n" for o in objects)


def fixture(name):
    return yaml.safe_load((FIXTURES / name).read_text())


def env_lines(name):
    return (FIXTURES / name).read_text().splitlines()


def cluster(**changes):
    """The v6e tutorial, with members of its worker group changed (None removes one)."""
    result = fixture("tutorial_a_v6e_4x4.yaml")
    group = result["spec"]["workerGroupSpecs"][0]
    for key, value in changes.items():
        if value is None:
            del group[key]
        else:
            group[key] = value
    return result


def named(obj, name):
    obj["metadata"]["name"] = name
    return obj


def with_topology(topology):
    result = cluster()
    pod = result["spec"]["workerGroupSpecs"][0]["template"]["spec"]
    pod["nodeSelector"]["cloud.google.com/gke-tpu-topology"] = topology
    return result


def without_containers():
    result = cluster()
    del result["spec"]["workerGroupSpecs"][0]["template"]["spec"]["containers"]
    return result


def cpu_group(name, replicas, hosts=1):
    return {
        "groupName": name,
        "replicas": replicas,
        "numOfHosts": hosts,
        "template": {"spec": {"containers": [{"name": "ray-worker", "image": "rayproject/ray"}]}},
    }


def env_of(pod, container=0):
    return {e["name"]: e.get("value") for e in pod["spec"]["containers"][container].get("env", [])}


def workers(items):
    return [o for o in items if o["metadata"]["labels"].get("ray.io/node-type") == "worker" and o["kind"] == "Pod"]


def kinds_and_names(items):
    return [(o["kind"], o["metadata"]["name"]) for o in items]


def plain_pod(**spec):
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "plain"},
        "spec": {"containers": [{"name": "main", "image": "busybox"}], **spec},
    }


def tpu_pod(topology="2x2", name="one"):
    pod = plain_pod(
        nodeSelector={
            "cloud.google.com/gke-tpu-accelerator": "tpu-v6e-slice",
            "cloud.google.com/gke-tpu-topology": topology,
        }
    )
    pod["metadata"]["name"] = name
    pod["spec"]["containers"][0]["resources"] = {"limits": {"google.com/tpu": "4"}}
    return pod


def job_pods():
    """The Pods that the Job controller makes of the fixture's Indexed Job (facts/tpu_injection.md section 2.1)."""
    text = (FIXTURES / "indexed_job_v6e_4x4.yaml").read_text()
    job = next(d for d in yaml.safe_load_all(text) if d["kind"] == "Job")
    key = "batch.kubernetes.io/job-completion-index"
    name = job["metadata"]["name"]
    uid = "5b1c5c3e-7d4e-4d53-8c3f-0d7f6a2b9e10"
    pods = []
    for index in range(job["spec"]["completions"]):
        pod = copy.deepcopy(job["spec"]["template"])
        pod.update(apiVersion="v1", kind="Pod")
        pod["metadata"].update(
            generateName=f"{name}-{index}-",
            namespace=job["metadata"]["namespace"],
            annotations={key: str(index)},
            ownerReferences=[
                {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": uid, "controller": True}
            ],
        )
        pod["metadata"]["labels"].update(
            {key: str(index), "batch.kubernetes.io/job-name": name, "job-name": name, "controller-uid": uid}
        )
        pod["spec"]["hostname"] = f"{name}-{index}"
        for container in pod["spec"]["containers"]:
            field = {"fieldRef": {"fieldPath": f"metadata.labels['{key}']"}}
            container.setdefault("env", []).append({"name": "JOB_COMPLETION_INDEX", "valueFrom": field})
        pods.append(pod)
    return pods


# ---- render ----

TUTORIALS = [
    # manifest, group, worker of the .env fixture, hosts
    ("tutorial_a_v6e_4x4", "v6e-16", 3, 4),
    ("tutorial_a_tpu7x_2x2x2", "tpu7x-16", 1, 2),
]


@pytest.mark.parametrize("name, group, worker, hosts", TUTORIALS)
class TestTutorial:
    def rendered(self, name, *options):
        result = raytpu("render", "-f", FIXTURES / f"{name}.yaml", "-o", "json", *options)
        assert (result.code, result.err) == (0, "")
        return result.items

    def test_objects_come_in_the_order_of_creation(self, name, group, worker, hosts):
        found = kinds_and_names(self.rendered(name))
        prefix = f"ray-torchtpu-cluster-{group}-worker-"
        assert found[:2] == [
            ("Service", "ray-torchtpu-cluster-head-svc"),
            ("Service", "ray-torchtpu-cluster-headless"),
        ]
        assert found[2][0] == "Pod" and re.fullmatch("ray-torchtpu-cluster-head-[a-z0-9]{5}", found[2][1])
        assert len(found) == 3 + hosts
        for kind, pod in found[3:]:
            assert kind == "Pod" and re.fullmatch(re.escape(prefix) + "[a-z0-9]{5}", pod)
        assert len(set(found)) == len(found)

    def test_every_worker_knows_its_place(self, name, group, worker, hosts):
        pods = workers(self.rendered(name))
        assert [env_of(p)["TPU_WORKER_ID"] for p in pods] == [str(i) for i in range(hosts)]
        assert [p["spec"]["hostname"] for p in pods] == [f"{group}-0-{i}" for i in range(hosts)]
        assert {p["spec"]["subdomain"] for p in pods} == {"ray-torchtpu-cluster-headless"}

    def test_environment_is_byte_equal_to_the_fixture(self, name, group, worker, hosts):
        expected = env_lines(f"{name}.worker{worker}.env")
        for i, pod in enumerate(workers(self.rendered(name))):
            found = [f"{k}={v}" for k, v in env_of(pod).items() if k in FIVE]
            assert found == [f"TPU_WORKER_ID={i}" if e.startswith("TPU_WORKER_ID=") else e for e in expected]

    def test_services(self, name, group, worker, hosts):
        head, headless = self.rendered(name)[:2]
        assert head["spec"]["selector"]["ray.io/node-type"] == "head"
        assert headless["spec"]["clusterIP"] == "None"
        assert headless["spec"]["publishNotReadyAddresses"] is True
        assert headless["spec"]["selector"]["ray.io/cluster"] == "ray-torchtpu-cluster"

    def test_yaml_is_the_default_and_says_the_same(self, name, group, worker, hosts):
        result = raytpu("render", "-f", FIXTURES / f"{name}.yaml")
        assert list(yaml.safe_load_all(result.out)) == self.rendered(name)
        assert result.out.endswith("\n")
        assert result.out.count("\n---\n") == 3 + hosts - 1

    def test_namespace(self, name, group, worker, hosts):
        assert {o["metadata"]["namespace"] for o in self.rendered(name)} == {"default"}
        assert {o["metadata"]["namespace"] for o in self.rendered(name, "-n", "ml")} == {"ml"}

    def test_output_is_stable(self, name, group, worker, hosts):
        assert self.rendered(name) == self.rendered(name)

    def test_pods_are_born_complete(self, name, group, worker, hosts):
        pods = [o for o in self.rendered(name) if o["kind"] == "Pod"]
        result = inject(*pods)
        assert (result.code, result.err) == (0, "")
        assert result.items == pods


def test_the_objects_own_namespace_wins():
    own = cluster()
    own["metadata"]["namespace"] = "own"
    result = render(own, named(cluster(), "second"), options=["-n", "ml"])
    assert [o["metadata"]["namespace"] for o in result.items] == ["own"] * 7 + ["ml"] * 7


def test_a_uid_makes_owners_and_names_of_its_own():
    stored = cluster()
    stored["metadata"]["uid"] = "0b9fb5d2-8c5b-4f0f-9f1c-3ad1c2f5a9f0"
    items, unowned = render(stored).items, render(cluster()).items
    assert {o["metadata"]["ownerReferences"][0]["uid"] for o in items} == {stored["metadata"]["uid"]}
    assert not any("ownerReferences" in o["metadata"] for o in unowned)
    assert not {o["metadata"]["name"] for o in workers(items)} & {o["metadata"]["name"] for o in workers(unowned)}


def test_workers_come_by_group_replica_and_host():
    manifest = cluster()
    manifest["spec"]["workerGroupSpecs"] = [cpu_group("zeta", 2, 3), cpu_group("alpha", 3), cpu_group("none", 0)]
    labels = [o["metadata"]["labels"] for o in workers(render(manifest).items)]
    found = [
        (
            one["ray.io/group"],
            int(one["ray.io/worker-group-replica-index"]),
            int(one.get("ray.io/replica-host-index", 0)),
        )
        for one in labels
    ]
    assert found == [("zeta", r, h) for r in range(2) for h in range(3)] + [("alpha", r, 0) for r in range(3)]
    slices = [one["ray.io/worker-group-replica-name"] for one in labels[:6]]
    assert slices[0:3] == slices[:1] * 3 and slices[3:6] == slices[3:4] * 3 and slices[0] != slices[3]


def test_more_pods_than_the_controller_creates_in_one_pass():
    manifest = cluster()
    manifest["spec"]["workerGroupSpecs"] = [cpu_group("wide", 700, 3), cpu_group("small", 2)]
    items = render(manifest).items
    labels = [o["metadata"]["labels"] for o in workers(items)]
    hosts = [
        (int(one["ray.io/worker-group-replica-index"]), int(one["ray.io/replica-host-index"]))
        for one in labels
        if one["ray.io/group"] == "wide"
    ]
    assert hosts == [(r, h) for r in range(700) for h in range(3)]
    assert len(labels) == 2102
    assert len(set(kinds_and_names(items))) == len(items) == 2 + 1 + 2102


def test_a_suspended_cluster_gets_a_note():
    manifest = cluster()
    manifest["spec"]["suspend"] = True
    result = render(manifest)
    assert result.code == 0
    assert {o["kind"] for o in result.items} == {"Service"}
    assert "spec.suspend" in result.err and result.err.startswith("note: ")


def test_another_controllers_cluster_is_skipped():
    manifest = cluster()
    manifest["spec"]["managedBy"] = "kueue.x-k8s.io/multikueue"
    result = render(manifest)
    assert (result.code, result.items) == (0, [])
    assert "spec.managedBy" in result.err and result.err.startswith("note: ")


def test_other_kinds_are_skipped_with_a_note():
    text = (FIXTURES / "indexed_job_v6e_4x4.yaml").read_text() + "\n---\n" + json.dumps(cluster())
    result = raytpu("render", "-f", "-", "-o", "json", stdin=text)
    assert result.code == 0
    assert len(result.items) == 7
    assert len(result.messages) == 2
    assert "document 1: Service train-v6e16-svc: skipped" in result.messages[0]
    assert "document 2: Job train-v6e16: skipped" in result.messages[1]
    assert all("RayCluster (ray.io/v1)" in m for m in result.messages)


def test_nothing_to_render_is_an_empty_list():
    result = raytpu("render", "-o", "json", "-f", FIXTURES / "indexed_job_v6e_4x4.yaml")
    assert (result.code, result.items) == (0, [])


def test_lists_may_hold_lists():
    inner = {"apiVersion": "v1", "kind": "List", "items": [cluster(), named(cluster(replicas=-1), "bad")]}
    result = render({"apiVersion": "v1", "kind": "List", "items": [inner]})
    assert (result.code, len(result.items)) == (1, 7)
    assert "document 1, item 2: RayCluster bad: spec.workerGroupSpecs[0].replicas" in result.err


def test_what_tpu_pods_warn_about_is_said_once_per_group():
    manifest = cluster(replicas=2)
    pod = manifest["spec"]["workerGroupSpecs"][0]["template"]["spec"]
    pod["nodeSelector"]["cloud.google.com/gke-tpu-accelerator"] = "tpu-from-the-future"
    result = render(manifest)
    assert result.code == 0
    assert len([m for m in result.messages if "tpu-from-the-future" in m]) == 1
    assert result.messages[0].startswith("warning: standard input: document 1: RayCluster ray-torchtpu-cluster: ")
    assert "spec.workerGroupSpecs[0].template: " in result.messages[0]


@pytest.mark.parametrize("text", ['{"kind": "Pod", "apiVersion": "v1\\u0000x"}', 'kind: Pod\napiVersion: "v1\\0x"\n'])
@pytest.mark.parametrize("command", ["inject", "validate", "render"])
def test_half_a_text_is_not_taken_for_the_whole(command, text):
    result = raytpu(command, "-f", "-", stdin=text)
    assert result.code == 1 and result.out.count("v1") == 0
    line = 1 if text.startswith("{") else 2
    assert f"line {line}, column" in result.err and "the character NUL" in result.err


BAD_CLUSTERS = [
    # what is wrong, the manifest, what the message must name: field, value, remedy
    ("topology", with_topology("4x"), ["gke-tpu-topology", '"4x"', "4x4 or 2x2x2"]),
    ("hosts", cluster(numOfHosts=2), ["spec.workerGroupSpecs[0].numOfHosts", "is 2", "set numOfHosts to 4"]),
    ("replicas", cluster(replicas=-1), ["spec.workerGroupSpecs[0].replicas", "-1", "0 or more"]),
    ("containers", without_containers(), ["spec.workerGroupSpecs[0].template.spec.containers", "container"]),
    ("group name", cluster(groupName="V6E_16"), ["spec.workerGroupSpecs[0].groupName", "V6E_16", "lower-case"]),
    ("name", named(cluster(), ""), ["metadata.name", "missing", "name"]),
    ("version", {**cluster(), "apiVersion": "ray.io/v1alpha1"}, ["apiVersion", "ray.io/v1alpha1", "write ray.io/v1"]),
]


@pytest.mark.parametrize("what, bad, words", BAD_CLUSTERS, ids=[b[0] for b in BAD_CLUSTERS])
def test_a_bad_cluster_is_explained_and_harms_no_other(what, bad, words):
    if what != "name":
        bad = named(copy.deepcopy(bad), "bad")
    result = render(named(cluster(), "before"), bad, named(cluster(), "after"))
    assert result.code == 1
    names = [o["metadata"]["name"] for o in result.items]
    assert len(names) == 14
    assert all(n.startswith("before-") for n in names[:7]) and all(n.startswith("after-") for n in names[7:])
    where = "error: standard input: document 2: RayCluster " + ("(no name)" if what == "name" else "bad")
    assert result.messages and all(m.startswith(where + ": ") for m in result.messages)
    assert any(all(word in m for word in words) for m in result.messages), result.err


def test_every_problem_of_a_cluster_has_its_line():
    result = render(cluster(replicas=-1, numOfHosts=2, groupName="V6E_16"))
    assert (result.code, result.items) == (1, [])
    for field in ("replicas", "numOfHosts", "groupName"):
        assert len([m for m in result.messages if f"spec.workerGroupSpecs[0].{field}: " in m]) == 1


# ---- inject ----


def test_pods_of_an_indexed_job():
    pods = job_pods()
    hosts = [f"train-v6e16-{i}.train-v6e16-svc" for i in range(4)]
    addresses = [f"{h}:{port}" for h in hosts for port in range(8471, 8475)]
    result = inject(*pods)
    assert (result.code, result.err) == (0, "")
    for i, (before, after) in enumerate(zip(pods, result.items, strict=True)):
        added = [
            ("TPU_WORKER_HOSTNAMES", ",".join(hosts)),
            ("TORCH_TPU_TOPOLOGY", "4,4,1"),
            ("TORCH_TPU_SLICEBUILDER_ADDRESSES", ",".join(addresses)),
            ("TPU_WORKER_ID", str(i)),
            ("TPU_NAME", "train-v6e16"),
        ]
        expected = copy.deepcopy(before)
        expected["spec"]["containers"][0]["env"] += [{"name": n, "value": v} for n, v in added]
        assert after == expected


def test_env_of_several_pods_has_a_comment_line_each():
    result = inject(*job_pods(), output="env")
    lines = result.out.splitlines()
    assert result.code == 0
    assert lines[::6] == [f"# pod/train-v6e16-{i}- container/trainer" for i in range(4)]
    assert [line for line in lines if line.startswith("TPU_WORKER_ID=")] == [f"TPU_WORKER_ID={i}" for i in range(4)]
    assert len(lines) == 4 * 6


def test_env_of_one_of_several_pods_has_it_too():
    result = inject(plain_pod(), tpu_pod(), output="env")
    assert result.out.splitlines()[0] == "# pod/one container/main"


def test_env_of_several_containers_has_a_comment_line_each():
    pod = tpu_pod()
    pod["spec"]["containers"] = [
        {"name": name, "image": "busybox", "resources": {"limits": {"google.com/tpu": "2"}}} for name in ("a", "b")
    ]
    lines = inject(pod, output="env").out.splitlines()
    assert [line for line in lines if line.startswith("#")] == ["# pod/one container/a", "# pod/one container/b"]


@pytest.mark.parametrize("name, group, worker, hosts", TUTORIALS)
def test_env_of_one_pod_is_the_fixture(name, group, worker, hosts):
    """What the tutorial does not list is the user's own here, so that nothing but its five variables is added."""
    pod = workers(raytpu("render", "-f", FIXTURES / f"{name}.yaml", "-o", "json").items)[worker]
    env = pod["spec"]["containers"][0]["env"]
    env[:] = [e for e in env if not e["name"].startswith(("TPU_", "TORCH_TPU_"))]
    env += [{"name": n, "value": ""} for n in ("TPU_DEVICE_PLUGIN_ADDR", "TPU_PROCESS_ADDRESSES")]
    result = inject(pod, output="env")
    assert (result.code, result.err) == (0, "")
    assert result.out == (FIXTURES / f"{name}.worker{worker}.env").read_text()


def test_env_of_a_field_reference_has_no_value():
    pod = workers(render(cluster()).items)[0]
    env = pod["spec"]["containers"][0]["env"]
    env[:] = [e for e in env if not e["name"].startswith(("TPU_", "TORCH_TPU_"))]
    assert "TPU_DEVICE_PLUGIN_HOST_IP=" in inject(pod, output="env").out.splitlines()


@pytest.mark.parametrize("output", ["json", "yaml", "env"])
def test_a_pod_without_tpus_passes_unchanged(output):
    pod = plain_pod()
    result = inject(pod, output=output)
    assert (result.code, result.err) == (0, "")
    assert list(yaml.safe_load_all(result.out)) == {
        "json": [{"apiVersion": "v1", "kind": "List", "items": [pod]}],
        "yaml": [pod],
        "env": [],
    }[output]


@pytest.mark.parametrize("kind", ["List", "PodList"])
def test_lists_of_pods(kind):
    pods = job_pods()
    if kind == "PodList":  # as the API server answers: without kind and apiVersion in the items
        pods = [{k: v for k, v in p.items() if k in ("metadata", "spec")} for p in pods]
    result = inject({"apiVersion": "v1", "kind": kind, "items": pods})
    assert result.code == 0
    assert [env_of(p)["TPU_WORKER_ID"] for p in result.items] == ["0", "1", "2", "3"]
    assert all(p["kind"] == "Pod" and p["apiVersion"] == "v1" for p in result.items)


def test_json_values_one_after_the_other():
    text = "".join(json.dumps(p, indent="\t") for p in job_pods())
    result = raytpu("inject", "-f", "-", "-o", "json", stdin=text)
    assert (result.code, len(result.items)) == (0, 4)


def test_text_survives():
    pod = plain_pod()
    pod["metadata"]["annotations"] = {
        "emoji": "\U0001f600 naïve",
        "lines": "one\n  two\n\nthree\n",
        "looks": "yes",
        "number": "0123",
        "controls": "a\tb\x07c",
        "empty": "",
        "colon": "a: b # c",
    }
    assert inject(pod).items == [pod]
    assert inject(pod, pod).items == [pod, pod]
    assert yaml.safe_load(inject(pod, output="yaml").out) == pod


def lonely_host():
    return tpu_pod("4x4", "lonely")


def test_a_pod_without_a_place_is_a_warning():
    result = inject(lonely_host())
    assert (result.code, result.items) == (0, [lonely_host()])
    assert len(result.messages) == 1 and result.err.startswith("warning: pod lonely: ")


def test_strict_makes_it_an_error():
    result = inject(lonely_host(), tpu_pod(), options=["--strict"])
    assert result.code == 1
    assert result.messages[0].startswith("error: standard input: document 1: Pod lonely: ")
    assert [o["metadata"]["name"] for o in result.items] == ["one"]


BAD_PODS = [
    # what is wrong, the object, what the message must name
    (
        "no template",
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}},
        ["Job j: ", "template", "no spec"],
    ),
    ("version", {**tpu_pod(), "apiVersion": "v2"}, ["apiVersion", '"v2"', "write v1"]),
    ("topology", tpu_pod("4x"), ["gke-tpu-topology", '"4x"', "4x4"]),
    ("no spec", {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}, ["spec.containers", "at least one"]),
    ("no containers", plain_pod(containers=[]), ["spec.containers", "empty", "at least one"]),
    ("a text for a container", plain_pod(containers=["main"]), ["spec.containers[0]", "object", "string"]),
    ("no kind", {"metadata": {"name": "x"}}, ["kind", "missing"]),
    ("no object", ["a", "b"], ["object", "array"]),
    ("items", {"apiVersion": "v1", "kind": "List", "items": {}}, ["items", "list", "object"]),
]


@pytest.mark.parametrize("what, bad, words", BAD_PODS, ids=[b[0] for b in BAD_PODS])
def test_a_bad_object_is_explained_and_harms_no_other(what, bad, words):
    result = inject(tpu_pod(name="before"), bad, tpu_pod(name="after"))
    assert result.code == 1
    assert [o["metadata"]["name"] for o in result.items] == ["before", "after"]
    assert len(result.messages) == 1
    assert result.err.startswith("error: standard input: document 2")
    assert all(word in result.err for word in words), result.err


# ---- files, output, usage ----


@pytest.mark.parametrize("command", ["render", "inject", "validate"])
class TestFiles:
    @pytest.mark.parametrize("text", ["", "\n\n", "# a comment\n", "---\n---\n", "null\n"])
    def test_empty_input_is_an_error(self, command, text):
        result = raytpu(command, "-f", "-", stdin=text)
        assert (result.code, result.out) == (1, "")
        assert result.err.startswith("error: standard input is empty")

    def test_a_yaml_error_names_file_and_line(self, command, tmp_path):
        path = tmp_path / "broken.yaml"
        path.write_text("apiVersion: v1\nkind: Pod\nmetadata: [\n")
        result = raytpu(command, "-f", path)
        assert (result.code, result.out) == (1, "")
        assert re.match(f"error: {re.escape(str(path))}: line [34], column [0-9]+: ", result.err)

    def test_a_key_that_is_there_twice_names_the_line(self, command):
        result = raytpu(command, "-f", "-", stdin="kind: Pod\nkind: Pod\n")
        assert result.code == 1 and "line 2" in result.err and '"kind"' in result.err

    def test_files_that_cannot_be_read(self, command, tmp_path):
        for path, words in ((tmp_path / "absent", "No such file"), (tmp_path, "directory")):
            result = raytpu(command, "-f", path)
            assert (result.code, result.out) == (1, "")
            assert str(path) in result.err and words in result.err

    def test_a_file_without_end_is_refused(self, command):
        result = raytpu(command, "-f", "/dev/zero")
        assert result.code == 1 and "larger than" in result.err

    def test_a_full_disk_is_an_error(self, command):
        with open("/dev/full", "wb") as full:
            result = raytpu(command, "-f", "-", stdin=documents([cluster(), tpu_pod(), tpu_pod("4x")]), stdout=full)
            assert result.code == 1 and "cannot write the output: No space left" in result.err

    def test_a_closed_pipe_is_an_error(self, command):
        reader, writer = os.pipe()
        os.close(reader)
        try:
            result = raytpu(command, "-f", "-", stdin=documents([cluster(), tpu_pod(), tpu_pod("4x")]), stdout=writer)
        finally:
            os.close(writer)
        assert result.code == 1 and "cannot write the output: Broken pipe" in result.err

    def test_a_closed_output_is_an_error(self, command):
        script = f'exec "$0" {command} -f - >&-'
        result = raytpu("-c", script, BINARY, stdin=documents([cluster(), tpu_pod()]), binary="/bin/sh")
        assert result.code == 1 and "cannot write the output: Bad file descriptor" in result.err

    def test_help(self, command):
        for flag in ("--help", "-h"):
            result = raytpu(command, flag)
            assert (result.code, result.err) == (0, "")
            assert result.out.startswith(f"Usage: raytpu {command} -f FILE")
            assert max(map(len, result.out.splitlines())) <= 100
            for option in ("-f, --filename", "-o, --output", "Exit code:"):
                assert option in result.out

    @pytest.mark.parametrize(
        "args, words",
        [
            ([], "-f FILE is missing"),
            (["-f"], "-f needs a value"),
            (["--filename"], "--filename needs a value"),
            (["-f", ""], "-f needs the name of a file"),
            (["-f", "a", "-f", "b"], "-f is given twice"),
            (["-f", "-", "-o", "xml"], "-o xml is no output format: use one of "),
            (["-f", "-", "-x"], "there is no option -x"),
            (["-f", "-", "--bogus"], "there is no option --bogus"),
            (["-f", "-", "--help=me"], "--help takes no value"),
            (["manifest.yaml"], "unexpected argument manifest.yaml"),
        ],
    )
    def test_wrong_usage(self, command, args, words):
        result = raytpu(command, *args)
        assert (result.code, result.out) == (2, "")
        assert result.messages == [
            next(m for m in result.messages if m.startswith(f"raytpu {command}: {words}")),
            f"See 'raytpu {command} --help'.",
        ]


@pytest.mark.parametrize(
    "args, words",
    [
        (["render", "-f", "-", "-o", "env"], "-o env is no output format: use one of yaml, json"),
        (["render", "-f", "-", "--strict"], "there is no option --strict"),
        (["render", "-f", "-", "-n", "Not_OK"], "-n Not_OK is no namespace"),
        (["inject", "-f", "-", "-n", "x"], "there is no option -n"),
        (["inject", "-f", "-", "--strict=no"], "--strict takes no value"),
        (["bogus"], "there is no command bogus"),
        (["--bogus"], "there is no option --bogus"),
        ([], "Usage: raytpu COMMAND"),
    ],
)
def test_wrong_usage_of_one_command(args, words):
    result = raytpu(*args)
    assert (result.code, result.out) == (2, "")
    assert words in result.err


def test_help_and_version():
    result = raytpu("--help")
    assert (result.code, result.err) == (0, "")
    assert all(word in result.out for word in ("render", "inject", "validate", "topology", "--version"))
    result = raytpu("--version")
    assert (result.code, result.err) == (0, "")
    version = re.fullmatch(r"raytpu (\d+\.\d+\.\S+)\n", result.out).group(1)
    annotations = [o["metadata"].get("annotations", {}) for o in render(cluster()).items]
    assert {a["ray.io/kuberay-version"] for a in annotations if "ray.io/kuberay-version" in a} == {version}


def test_as_a_kubectl_plugin(tmp_path):
    plugin = tmp_path / "kubectl-raytpu"
    plugin.symlink_to(BINARY)
    assert raytpu("--help", binary=plugin).out.startswith("Usage: kubectl raytpu COMMAND")
    assert raytpu("inject", binary=plugin).err.startswith("kubectl raytpu inject: -f FILE is missing")


# ---- hostile input: an answer, never a crash; one line a message, whatever the manifest says ----


def answers(command, data):
    output = "text" if command == "validate" else "json"
    result = raytpu(command, "-f", "-", "-o", output, stdin=data)
    assert result.code in (0, 1)
    for message in result.err.split("\n")[:-1]:
        assert MESSAGE.fullmatch(message), message
    if command == "validate":
        assert all(PROBLEM.fullmatch(line) for line in result.out.splitlines()), result.out
        assert result.code == 1 or ": error: " not in result.out
    elif result.out:
        assert isinstance(result.items, list)
    else:
        assert result.code == 1 and result.err
    return result


BOMB = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{chr(98 + i)}: &{chr(98 + i)} [{','.join(['*' + chr(97 + i)] * 10)}]\n" for i in range(12)
)
HOSTILE = {
    "deep flow lists": "[" * 100000,
    "deep flow maps": '{"a":' * 100000,
    "deep JSON": '{"a":' * 900 + "1" + "}" * 900,
    "deep lists of lists": '{"kind":"List","items":[' * 300 + "]}" * 300,
    "deep block maps": "".join(" " * i + "a:\n" for i in range(2000)),
    "YAML bomb": BOMB,
    "alias to itself": "a: &a [*a]\n",
    "merge of nonsense": "<<: [1, 2, {kind: Pod}]\napiVersion: v1\n",
    "NUL bytes": "kind: Pod\0\napiVersion: v1\n",
    "NUL in JSON": '{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a\\u0000b"}}',
    "no UTF-8": b'{"kind":"Pod","apiVersion":"v1","metadata":{"name":"\xff\xc0\x80"}}',
    "cut UTF-8": b'{"kind":"Pod"}\xe2\x82',
    "lone surrogate": '{"kind":"Pod","apiVersion":"v1","metadata":{"name":"\\ud800"}}',
    "UTF-16": "kind: Pod\napiVersion: v1\n".encode("utf-16"),
    "huge exponent": '{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","generation":1e999}}',
    "binary tag": "!!binary aGVsbG8=\n",
    "directives": "%YAML 1.1\n%TAG ! tag:x,2000:\n---\n!x {kind: Pod}\n",
    "terminal control": json.dumps({"kind": "P\u001b[2J\nerror: x", "metadata": {"name": "a\r\nwarning: \u0007"}}),
    "long names": json.dumps({"kind": "K" * 100000, "apiVersion": "v" * 100000, "metadata": {"name": "n" * 100000}}),
}


@pytest.mark.parametrize("command", ["render", "inject", "validate"])
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text(command, name):
    answers(command, HOSTILE[name])


@pytest.mark.parametrize("command", ["render", "inject", "validate"])
def test_random_bytes(command):
    for seed in range(40):
        rng = random.Random(seed)
        answers(command, rng.randbytes(rng.randrange(1, 4000)))
        answers(command, "".join(rng.choices("{}[]:,-\n '\"&*!|>%@`ab01#?~<\t", k=rng.randrange(1, 400))))


@pytest.mark.parametrize("command", ["render", "inject", "validate"])
def test_damaged_manifests(command):
    for name in (
        "tutorial_a_v6e_4x4.yaml",
        "tutorial_a_tpu7x_2x2x2.yaml",
        "indexed_job_v6e_4x4.yaml",
        "jobset_pathways_v6e_4x8.yaml",
    ):
        whole = (FIXTURES / name).read_bytes()
        for seed in range(20):
            rng = random.Random(seed)
            data = bytearray(whole)
            for _ in range(rng.randrange(1, 6)):
                at = rng.randrange(len(data))
                data[at : at + rng.randrange(4)] = rng.randbytes(rng.randrange(3))
            answers(command, bytes(data))


ODD = [None, True, -1, 0, 0.5, 1e300, 2**53 + 1, -(2**63), "", "x" * 5000, "4x4x4x4", "\n\u001b"]
ODD += [[], {}, [None], {"": None}]


def places(value, path=()):
    yield path
    if isinstance(value, dict):
        for key in value:
            yield from places(value[key], path + (key,))
    elif isinstance(value, list):
        for i, item in enumerate(value):
            yield from places(item, path + (i,))


def mutant(original, rng):
    result = copy.deepcopy(original)
    for _ in range(rng.randrange(1, 4)):
        path = rng.choice(list(places(result)))
        if not path:
            continue
        parent = result
        for key in path[:-1]:
            parent = parent[key]
        if rng.random() < 0.2:
            del parent[path[-1]]
        else:
            parent[path[-1]] = copy.deepcopy(rng.choice(ODD))
    return result


@pytest.mark.parametrize("seed", range(8))
def test_objects_with_odd_values(seed):
    rng = random.Random(seed)
    clusters = [fixture("tutorial_a_v6e_4x4.yaml"), fixture("tutorial_a_tpu7x_2x2x2.yaml")]
    pods = [o for c in clusters for o in render(c).items if o["kind"] == "Pod"] + job_pods()
    for command, originals in (("render", clusters), ("inject", pods)):
        items = [mutant(rng.choice(originals), rng) for _ in range(100)]
        answers(command, json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))


def tutorial_manifest(edit=lambda cluster: None):
    cluster = yaml.safe_load((FIXTURES / "tutorial_a_v6e_4x4.yaml").read_text())
    edit(cluster)
    return yaml.safe_dump(cluster)


def test_a_live_cluster_is_rendered_with_the_names_its_pods_have():
    """The annotation of a live object says that slices were complete once: not that they are lost."""

    def names(slices):
        def live(cluster):
            cluster["metadata"]["uid"] = "u-1"
            cluster["metadata"]["annotations"] = {"ray-tpu-operator/slices": slices} if slices else {}

        done = raytpu("render", "-f", "-", "-o", "json", stdin=tutorial_manifest(live))
        return [item["metadata"]["name"] for item in done.items if item["kind"] == "Pod"]

    fresh = names("")
    assert names("headgroup=0c;v6e-16=0c") == fresh
    replaced = names("headgroup=0c;v6e-16=1c")
    assert (replaced[0], len(set(replaced) & set(fresh))) == (fresh[0], 1)


@pytest.mark.parametrize("field", ["hostname", "subdomain", "TPU_WORKER_ID"])
def test_what_a_template_cannot_say_for_every_host_is_warned_of(field):
    def edit(cluster):
        spec = cluster["spec"]["workerGroupSpecs"][0]["template"]["spec"]
        if field.islower():
            spec[field] = "same-for-all"
        else:
            spec["containers"][0]["env"].append({"name": field, "value": "0"})

    for command in ("render", "validate"):
        done = raytpu(command, "-f", "-", stdin=tutorial_manifest(edit))
        assert [m for m in done.messages + done.out.splitlines() if "warning" in m and field in m], command
