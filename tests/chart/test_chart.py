"""The Helm chart and the kustomize manifests made from it: offline, and on a real API server."""

import base64
import json
import pathlib
import re
import subprocess
import tarfile

import pytest
import yaml

from chart_tools import CRD_FILE, ROOT, by_key, run, succeed

NAME = "ray-tpu-operator"
SYSTEM = "ray-tpu-system"
OPERATOR = ROOT / "build" / "ray-tpu-operator"

DEPLOYMENT = ("Deployment", SYSTEM, NAME)
MUTATING = ("MutatingWebhookConfiguration", "", NAME)
VALIDATING = ("ValidatingWebhookConfiguration", "", NAME)


def container(objects):
    return objects[DEPLOYMENT]["spec"]["template"]["spec"]["containers"][0]


def flags(objects):
    """The operator's command line as {flag: value}."""
    return dict(argument.split("=", 1) for argument in container(objects)["args"])


# --- offline --------------------------------------------------------------------------------------------------------


def test_lint(chart):
    result = run(chart.helm, "lint", "--strict", chart.path)
    assert result.returncode == 0, result.stdout + result.stderr


def test_default_install_has_these_objects(chart):
    assert set(chart.objects()) == {
        ("ServiceAccount", SYSTEM, NAME),
        ("ClusterRole", "", NAME),
        ("ClusterRoleBinding", "", NAME),
        ("Role", SYSTEM, NAME),
        ("RoleBinding", SYSTEM, NAME),
        ("Service", SYSTEM, NAME + "-webhook"),
        ("Service", SYSTEM, NAME + "-metrics"),
        DEPLOYMENT,
        MUTATING,
        VALIDATING,
    }


def test_names_follow_the_release(chart):
    objects = chart.objects(release="tpus", namespace="here")
    assert ("Deployment", "here", "tpus-ray-tpu-operator") in objects
    webhook = objects[("MutatingWebhookConfiguration", "", "tpus-ray-tpu-operator")]["webhooks"][0]
    service = webhook["clientConfig"]["service"]
    assert ("Service", service["namespace"], service["name"]) in objects
    assert "here" in webhook["namespaceSelector"]["matchExpressions"][0]["values"]


# (values, flag, value; None when the flag must be absent)
FLAGS = [
    ([], "--enable-controller", "true"),
    ([], "--enable-webhook", "true"),
    ([], "--webhook-bind-address", "0.0.0.0:9443"),
    ([], "--webhook-service-name", NAME + "-webhook"),
    ([], "--webhook-config-name", NAME),
    ([], "--cert-secret", NAME + "-cert"),
    ([], "--metrics-bind-address", ":8080"),
    ([], "--health-bind-address", ":8082"),
    ([], "--watch-namespaces", None),
    ([], "--workers", "4"),
    ([], "--leader-elect", "true"),
    ([], "--log-level", "info"),
    ([], "--log-format", "json"),
    (["controller.enabled=false"], "--enable-controller", "false"),
    (["webhook.enabled=false"], "--enable-webhook", "false"),
    (["webhook.enabled=false"], "--cert-secret", None),
    ([], "--tpu-accelerator-label", None),
    ([], "--tpu-topology-label", None),
    (["webhook.acceleratorLabels={x.io/tpu,tpu}"], "--tpu-accelerator-label", "x.io/tpu,tpu"),
    (["webhook.topologyLabels={x.io/topology}"], "--tpu-topology-label", "x.io/topology"),
    (["metrics.enabled=false"], "--metrics-bind-address", "127.0.0.1:8080"),
    (["watchNamespaces={a,b}"], "--watch-namespaces", "a,b"),
    ([], "--enable-kuberay-metrics", "true"),
    (["metrics.kuberay=false"], "--enable-kuberay-metrics", "false"),
    ([], "--watch-selector", None),
    (["watchSelector=!team"], "--watch-selector", "!team"),
    (["watchSelector=team in (a\\,b)"], "--watch-selector", "team in (a,b)"),
    ([], "--cluster-domain", None),
    (["clusterDomain=corp.example"], "--cluster-domain", "corp.example"),
    ([], "--resync-period", None),
    (["resyncPeriod=1m30s"], "--resync-period", "1m30s"),
    ([], "--inject-init-container", None),
    (["features.initContainer=true"], "--inject-init-container", "true"),
    (["features.initContainer=false"], "--inject-init-container", "false"),
    ([], "--inject-probes", None),
    (["features.probes=true"], "--inject-probes", "true"),
    (["features.probes=false"], "--inject-probes", "false"),
    ([], "--login-shell", None),
    (["features.loginShell=true"], "--login-shell", "true"),
    (["features.loginShell=false"], "--login-shell", "false"),
    ([], "--head-cluster-ip-service", None),
    (["features.headClusterIPService=true"], "--head-cluster-ip-service", "true"),
    (["features.headClusterIPService=false"], "--head-cluster-ip-service", "false"),
    ([], "--deterministic-head-pod-name", None),
    (["features.deterministicHeadPodName=true"], "--deterministic-head-pod-name", "true"),
    (["features.deterministicHeadPodName=false"], "--deterministic-head-pod-name", "false"),
    ([], "--random-pod-delete", None),
    (["features.randomPodDelete=true"], "--random-pod-delete", "true"),
    (["features.randomPodDelete=false"], "--random-pod-delete", "false"),
    ([], "--redis-cleanup", None),
    (["features.redisCleanup=true"], "--redis-cleanup", "true"),
    (["features.redisCleanup=false"], "--redis-cleanup", "false"),
    (["leaderElect=false"], "--leader-elect", "false"),
    (["workers=8"], "--workers", "8"),
    (["extraArgs={--workers=9}"], "--workers", "9"),
    ([], "--config", None),
    (["configuration.enabled=true"], "--config", "/etc/ray-tpu-operator/config.yaml"),
]


def set_values(values):
    return [word for value in values for word in ("--set", value)]


@pytest.mark.parametrize("values, flag, expected", FLAGS)
def test_flag(chart, values, flag, expected):
    assert flags(chart.objects(*set_values(values))).get(flag) == expected


def test_operator_knows_every_flag(chart):
    if not OPERATOR.exists():
        pytest.skip(f"{OPERATOR} is not built")
    # Not only named in --help: parsed. --version ends the program before it starts anything.
    values = ["watchNamespaces={a,b}", "webhook.kuberayLegacyServiceNames=true"]
    features = yaml.safe_load((chart.path / "values.yaml").read_text())["features"]
    values += [f"features.{name}=true" for name in features] + ["clusterDomain=a.b", "resyncPeriod=10m", "watchSelector=team=a"]
    values += ["webhook.acceleratorLabels={x.io/tpu,tpu}", "webhook.topologyLabels={x.io/topology}"]
    result = run(OPERATOR, *container(chart.objects(*set_values(values)))["args"], "--version")
    assert result.returncode == 0, result.stderr
    assert run(OPERATOR, "--no-such-flag", "--version").returncode == 2


def test_webhook_calls(chart):
    objects = chart.objects()
    webhook = objects[MUTATING]["webhooks"][0]
    assert webhook["name"] == "pods.ray-tpu-operator.webhook"
    assert webhook["rules"] == [
        {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"], "scope": "Namespaced"}
    ]
    assert webhook["clientConfig"]["service"] == {
        "name": NAME + "-webhook", "namespace": SYSTEM, "path": "/mutate-v1-pod", "port": 443,
    }  # fmt: skip
    assert {field: webhook[field] for field in ("failurePolicy", "sideEffects", "timeoutSeconds", "reinvocationPolicy", "matchPolicy")} == {
        "failurePolicy": "Fail",
        "sideEffects": "NoneOnDryRun",
        "timeoutSeconds": 10,
        "reinvocationPolicy": "IfNeeded",
        "matchPolicy": "Equivalent",
    }

    ray = {
        "/mutate-ray-io-v1-raycluster": objects[MUTATING]["webhooks"][1],
        "/validate-ray-io-v1-raycluster": objects[VALIDATING]["webhooks"][0],
    }
    for path, webhook in ray.items():
        assert webhook["rules"] == [
            {
                "apiGroups": ["ray.io"],
                "apiVersions": ["v1"],
                "resources": ["rayclusters", "rayjobs", "rayservices"],
                "operations": ["CREATE", "UPDATE"],
                "scope": "Namespaced",
            }
        ]
        assert webhook["clientConfig"]["service"]["path"] == path
        assert (webhook["failurePolicy"], webhook["sideEffects"], webhook["matchPolicy"]) == ("Ignore", "None", "Equivalent")
        assert webhook["timeoutSeconds"] == 10
    assert ray["/mutate-ray-io-v1-raycluster"]["reinvocationPolicy"] == "IfNeeded"

    service = objects[("Service", SYSTEM, NAME + "-webhook")]["spec"]
    assert [(port["port"], port["targetPort"]) for port in service["ports"]] == [(443, "webhook")]
    assert {"name": "webhook", "containerPort": 9443} in container(objects)["ports"]
    labels = objects[DEPLOYMENT]["spec"]["template"]["metadata"]["labels"]
    assert service["selector"].items() <= labels.items()


@pytest.mark.parametrize("kind", [MUTATING, VALIDATING], ids=["mutating", "validating"])
def test_system_namespaces_and_our_own_never_wait_for_us(chart, kind):
    """Report 13 of facts/tpu_injection.md §7: after a reinstall no Pod of the cluster could start. Report 8: the rest of
    the cluster was not looked at. Which calls fail closed: test_webhook_calls."""

    def selectors(*values):
        webhooks = chart.objects(*values)[kind]["webhooks"]
        assert all(w["namespaceSelector"] == webhooks[0]["namespaceSelector"] for w in webhooks)
        return webhooks[0]["namespaceSelector"]["matchExpressions"]

    name = "kubernetes.io/metadata.name"
    excluded = {"key": name, "operator": "NotIn", "values": ["kube-system", "kube-node-lease", "kube-public", SYSTEM]}
    assert selectors() == [excluded]
    assert selectors("--set", "watchNamespaces={a,b}") == [excluded, {"key": name, "operator": "In", "values": ["a", "b"]}]


def test_webhook_can_be_left_out(chart):
    objects = chart.objects("--set", "webhook.enabled=false")
    assert not [key for key in objects if "Webhook" in key[0] or key[2].endswith("-webhook")]
    rules = [rule for (kind, _, _), item in objects.items() if kind.endswith("Role") for rule in item["rules"]]
    assert not [rule for rule in rules if "admissionregistration.k8s.io" in rule["apiGroups"] or "-cert" in str(rule.get("resourceNames"))]


def grants(role):
    """What a role allows, as a set of (group, resource, name or "", verb)."""
    return {
        (group, resource, name, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for name in rule.get("resourceNames", [""])
        for verb in rule["verbs"]
    }


@pytest.mark.complaint("kuberay-helm#26")
def test_440_permissions_are_the_same_in_all_namespaces_and_in_some(chart):
    everywhere = grants(chart.objects()[("ClusterRole", "", NAME)])
    objects = chart.objects("--set", "watchNamespaces={a,b}")
    in_some = [grants(objects[("Role", namespace, NAME + "-controller")]) for namespace in ("a", "b")]
    assert in_some[0] == in_some[1]
    assert in_some[0] | grants(objects[("ClusterRole", "", NAME)]) == everywhere
    assert not [grant for grant in grants(objects[("ClusterRole", "", NAME)]) if grant[0] in ("", "ray.io", "events.k8s.io")]
    for namespace in ("a", "b"):
        binding = objects[("RoleBinding", namespace, NAME + "-controller")]
        assert binding["subjects"] == [{"kind": "ServiceAccount", "name": NAME, "namespace": SYSTEM}]


def test_least_privilege(chart):
    objects = chart.objects()
    cluster, own = grants(objects[("ClusterRole", "", NAME)]), grants(objects[("Role", SYSTEM, NAME)])
    assert not [grant for grant in cluster | own if "*" in grant]
    assert not [grant for grant in cluster if grant[1] == "configmaps"], "only in our own namespace"
    # To see KubeRay's controller. A list by that name needs no more than the name.
    assert {grant for grant in cluster if grant[1] == "leases"} == {
        ("coordination.k8s.io", "leases", "ray-operator-leader", verb) for verb in ("get", "list")
    }
    # Tokens of RayClusters are looked at by name; nobody's Secrets can be listed or deleted.
    assert {grant[3] for grant in cluster if grant[1] == "secrets"} == {"get", "create", "patch"}
    # The Role of the autoscaler can be made only by who holds what it grants.
    for resource, verbs in (("pods", ("get", "list", "watch", "patch")), ("pods/resize", ("patch",))):
        assert all(("", resource, "", verb) in cluster for verb in verbs)
    assert {grant for grant in own if grant[1] == "secrets"} == {("", "secrets", "", "create")} | {
        ("", "secrets", NAME + "-cert", verb) for verb in ("get", "list", "watch", "update", "patch")
    }
    written = {grant for grant in cluster if grant[0] == "admissionregistration.k8s.io" and grant[3] not in ("list", "watch")}
    assert {grant[2] for grant in written} == {NAME} and {grant[3] for grant in written} == {"get", "update", "patch"}
    assert ("", "pods", "", "deletecollection") in cluster and ("ray.io", "rayclusters", "", "delete") not in cluster
    assert not [grant for grant in cluster if grant[1].startswith("rayclusters") and grant[3] in ("create", "delete")]


def test_pod_is_hardened_and_probed(chart):
    pod = chart.objects()[DEPLOYMENT]["spec"]["template"]["spec"]
    only = pod["containers"][0]
    assert pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert only["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert only["resources"] == {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "256Mi"}}
    ports = {port["name"]: port["containerPort"] for port in only["ports"]}
    assert ports == {"webhook": 9443, "health": 8082, "metrics": 8080}
    assert only["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "health"}
    assert only["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "health"}
    assert [entry["name"] for entry in only["env"]] == ["POD_NAME", "POD_NAMESPACE"]


def test_budget_only_with_several_replicas(chart):
    budget = ("PodDisruptionBudget", SYSTEM, NAME)
    assert budget not in chart.objects()
    assert chart.objects("--set", "replicas=2")[budget]["spec"]["minAvailable"] == 1


def test_two_controllers_never_overlap_without_a_leader(chart):
    assert chart.objects("--set", "leaderElect=false")[DEPLOYMENT]["spec"]["strategy"] == {"type": "Recreate"}


def test_values_reach_the_pod(chart):
    values = {
        "image": {"repository": "example/operator", "tag": "t1", "pullPolicy": "Always"},
        "imagePullSecrets": [{"name": "pull"}],
        "extraEnv": [{"name": "A", "value": "b"}],
        "nodeSelector": {"pool": "system"},
        "tolerations": [{"operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "priorityClassName": "high",
        "podLabels": {"team": "ml"},
        "podAnnotations": {"note": "x"},
        "resources": {"limits": {"memory": "1Gi"}},
        "serviceAccount": {"create": False, "name": "mine"},
    }
    objects = chart.objects("--set-json", *[",".join(f"{key}={json.dumps(value)}" for key, value in values.items())])
    template = objects[DEPLOYMENT]["spec"]["template"]
    pod, only = template["spec"], container(objects)
    assert only["image"] == "example/operator:t1" and only["imagePullPolicy"] == "Always"
    assert only["env"][-1] == {"name": "A", "value": "b"} and only["resources"]["limits"] == {"memory": "1Gi"}
    for field in ("imagePullSecrets", "nodeSelector", "tolerations", "affinity", "priorityClassName"):
        assert pod[field] == values[field]
    assert template["metadata"]["labels"]["team"] == "ml" and template["metadata"]["annotations"] == {"note": "x"}
    assert pod["serviceAccountName"] == "mine" and not [key for key in objects if key[0] == "ServiceAccount"]
    assert objects[("RoleBinding", SYSTEM, NAME)]["subjects"][0]["name"] == "mine"


def test_a_pod_that_is_to_stop_answers_until_nobody_asks_it_any_more(chart):
    assert container(chart.objects())["lifecycle"] == {"preStop": {"sleep": {"seconds": 5}}}
    for values in (["stopDelaySeconds=0"], ["webhook.enabled=false"]):
        assert "lifecycle" not in container(chart.objects(*set_values(values)))


def test_configuration_is_a_file_of_the_operator(chart):
    values = ["configuration.enabled=true", "configuration.defaultPodLabels.team=ml"]
    objects = chart.objects(*set_values(values))
    pod, only = objects[DEPLOYMENT]["spec"]["template"]["spec"], container(objects)
    assert pod["volumes"] == [{"name": "config", "configMap": {"name": NAME + "-config"}}]
    assert only["volumeMounts"][0]["mountPath"] == "/etc/ray-tpu-operator"
    text = objects[("ConfigMap", SYSTEM, NAME + "-config")]["data"]["config.yaml"]
    assert yaml.safe_load(text)["defaultPodLabels"] == {"team": "ml"}
    annotations = objects[DEPLOYMENT]["spec"]["template"]["metadata"]["annotations"]
    other = chart.objects(*set_values(values[:1]))[DEPLOYMENT]["spec"]["template"]["metadata"]["annotations"]
    assert annotations != other, "a changed configuration restarts the operator"


# (values, words of the message)
NONSENSE = [
    (["configuration.defaultPodLabel.a=b"], ["/configuration", "not allowed"]),
    (["replica=2"], ["replica", "not allowed"]),
    (["image.name=x"], ["/image", "name"]),
    (["logLevel=verbose"], ["/logLevel", "'debug', 'info', 'warn', 'error'"]),
    (["logFormat=xml"], ["/logFormat", "'json', 'text'"]),
    (["workers=0"], ["/workers", "minimum"]),
    (["workers=many"], ["/workers", "want integer"]),
    (["webhook.failurePolicy=Maybe"], ["/webhook/failurePolicy", "'Fail', 'Ignore'"]),
    (["webhook.timeoutSeconds=60"], ["/webhook/timeoutSeconds", "maximum"]),
    (["webhook.topologyLabels={a/b/c}"], ["/webhook/topologyLabels/0", "pattern"]),
    (["webhook.acceleratorLabels={a,b,c,d,e}"], ["/webhook/acceleratorLabels", "maxItems"]),
    (["watchNamespaces=a"], ["/watchNamespaces", "want array"]),
    (["watchNamespaces={Upper}"], ["/watchNamespaces/0", "pattern"]),
    (["features.probes=maybe"], ["/features/probes", "boolean"]),
    (["resyncPeriod=soon"], ["/resyncPeriod", "pattern"]),
    (["clusterDomain=a_b"], ["/clusterDomain", "pattern"]),
    (["extraArgs={workers=1}"], ["/extraArgs/0", "pattern"]),
    (["controller.enabled=false", "webhook.enabled=false"], ["enable at least one"]),
    (["replicas=2", "leaderElect=false"], ["set leaderElect to true or replicas to 1"]),
]


@pytest.mark.parametrize("values, words", NONSENSE, ids=[",".join(values) for values, _ in NONSENSE])
def test_nonsense_is_refused(chart, values, words):
    result = chart.template(*set_values(values))
    assert result.returncode != 0
    assert all(word in result.stderr for word in words), result.stderr


def test_schema_and_values_have_the_same_keys(chart):
    def keys(node, schema, prefix=""):
        if "properties" not in schema:
            return
        assert schema["additionalProperties"] is False, f"{prefix or 'the schema'} accepts anything"
        assert set(schema["properties"]) - {"global"} == set(node), prefix
        for name, value in node.items():
            keys(value, schema["properties"][name], f"{prefix}{name}.")

    values = yaml.safe_load((chart.path / "values.yaml").read_text(encoding="utf-8"))
    keys(values, json.loads((chart.path / "values.schema.json").read_text(encoding="utf-8")))


def test_package_holds_the_crd(chart, tmp_path):
    succeed(chart.helm, "package", chart.path, "-d", tmp_path)
    with tarfile.open(next(tmp_path.glob("*.tgz"))) as archive:
        packed = archive.extractfile("ray-tpu-operator/crds/ray.io_rayclusters.yaml").read()
    assert packed == CRD_FILE.read_bytes()


def test_generated_manifest_is_up_to_date(helm):
    result = subprocess.run(
        [ROOT / "scripts" / "gen-manifests.sh", "--check"], env={"PATH": "/usr/bin:/bin", "HELM": str(helm)},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr


def test_image_has_the_libraries_that_the_binaries_need():
    if not OPERATOR.exists():
        pytest.skip(f"{OPERATOR} is not built")
    runtime = (ROOT / "Dockerfile").read_text(encoding="utf-8").rsplit("\nFROM ", 1)[1]
    installed = set(re.findall(r"^ {8}([a-z0-9.+-]+) \\$", runtime, re.MULTILINE))
    assert "ca-certificates" in installed
    # What the base image and the dependencies of the listed packages bring along.
    implied = {"libc6", "libgcc-s1", "zlib1g", "libgnutls30"}
    for binary in (OPERATOR, OPERATOR.with_name("raytpu")):
        needed = re.findall(r"\(NEEDED\).*\[(.*)\]", succeed("readelf", "-d", binary))
        files = dict(re.findall(r"(\S+) => (\S+)", succeed("ldd", binary)))
        assert needed
        # Debian's package lists name a file under /usr/lib or, from before the merge of the two folders, under /lib.
        owners = {succeed("dpkg-query", "-S", "*" + files[name].removeprefix("/usr")).split(":")[0] for name in needed}
        assert owners - implied <= installed, f"{binary.name}: the Dockerfile lacks a library's package"


# --- on an API server -----------------------------------------------------------------------------------------------


def missing(cluster, objects):
    """Those of the objects that the API server does not have."""
    def there(kind, namespace, name):
        return cluster.try_kubectl("get", kind, name, *(["-n", namespace] if namespace else [])).returncode == 0

    return [key for key in objects if not there(*key)]


def helm_release(cluster, chart, namespace, *arguments):
    cluster.helm("install", NAME, chart.path, "-n", namespace, "--create-namespace", *arguments)
    try:
        yield namespace
    finally:
        cluster.helm("uninstall", NAME, "-n", namespace)


@pytest.fixture
def release(cluster, chart):
    yield from helm_release(cluster, chart, "helm-system")


def test_helm_install_creates_every_object(cluster, chart, release):
    expected = set(chart.objects(namespace=release)) | {("CustomResourceDefinition", "", "rayclusters.ray.io")}
    assert missing(cluster, expected) == []


def ca_bundle(cluster, kind):
    return cluster.get(kind, NAME)["webhooks"][0]["clientConfig"].get("caBundle")


def test_upgrade_and_rollback_keep_the_ca_that_the_operator_wrote(cluster, chart, release, tmp_path):
    succeed("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=test",
            "-keyout", tmp_path / "key", "-out", tmp_path / "ca")  # fmt: skip
    ca = base64.b64encode((tmp_path / "ca").read_bytes()).decode()
    kinds = [MUTATING[0], VALIDATING[0]]
    patch = [{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": ca}]
    for kind in kinds:
        assert ca_bundle(cluster, kind) is None
        cluster.kubectl("patch", kind, NAME, "--type=json", "-p", json.dumps(patch))

    cluster.helm("upgrade", NAME, chart.path, "-n", release, "--set", "webhook.timeoutSeconds=7")
    assert [ca_bundle(cluster, kind) for kind in kinds] == [ca, ca]
    assert cluster.get(MUTATING[0], NAME)["webhooks"][0]["timeoutSeconds"] == 7
    cluster.helm("rollback", NAME, "1", "-n", release)
    assert [ca_bundle(cluster, kind) for kind in kinds] == [ca, ca]
    assert cluster.get(MUTATING[0], NAME)["webhooks"][0]["timeoutSeconds"] == 10


def may(cluster, release, *question):
    """Whether the operator's ServiceAccount may do something."""
    user = f"system:serviceaccount:{release}:{NAME}"
    return cluster.try_kubectl("auth", "can-i", *question, "--as", user).returncode == 0


def test_permissions_on_a_real_api_server(cluster, release):
    assert may(cluster, release, "create", "pods", "-n", "default")
    assert may(cluster, release, "patch", "rayclusters.ray.io", "--subresource=status", "-n", "default")
    assert may(cluster, release, "update", f"{MUTATING[0]}/{NAME}".lower())
    assert may(cluster, release, "get", f"secrets/{NAME}-cert", "-n", release)
    assert may(cluster, release, "update", "leases.coordination.k8s.io", "-n", release)
    assert not may(cluster, release, "update", f"{MUTATING[0]}/other".lower())
    user = ["--as", f"system:serviceaccount:{release}:{NAME}"]
    cluster.kubectl("get", "leases", "-A", "--field-selector=metadata.name=ray-operator-leader", *user)
    assert cluster.try_kubectl("get", "leases", "-A", *user).returncode != 0
    assert may(cluster, release, "create", "networkpolicies.networking.k8s.io", "-n", "default")
    assert may(cluster, release, "create", "jobs.batch", "-n", "default")
    assert not may(cluster, release, "list", "secrets", "-n", "default")
    assert not may(cluster, release, "delete", "secrets", "-n", release)


def test_namespaced_install_has_no_rights_elsewhere(cluster, chart):
    for namespace in ("team-a", "team-b"):
        cluster.kubectl("create", "namespace", namespace)
    for release in helm_release(cluster, chart, "some-system", "--set", "watchNamespaces={team-a}"):
        assert may(cluster, release, "list", "pods", "-n", "team-a")
        assert may(cluster, release, "watch", "rayclusters.ray.io", "-n", "team-a")
        assert not may(cluster, release, "list", "pods", "-n", "team-b")


TPU = {"limits": {"google.com/tpu": "4"}}


def pod(namespace="default", annotations=None, init=None, resources=None):
    spec = {"containers": [{"name": "a", "image": "a"}, {"name": "b", "image": "b", "resources": resources or {}}]}
    if init:
        spec["initContainers"] = [{"name": "i", "image": "i", "resources": init}]
    metadata = {"name": "p", "namespace": namespace, "annotations": annotations or {}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


# Nobody answers at the webhook's Service, so a Pod that is sent to the webhook is refused and any other is accepted.
CALLS = {
    "TPU container": (pod(resources=TPU), True),
    "TPU init container": (pod(init=TPU), True),
    "no TPU": (pod(), False),
    "another resource": (pod(resources={"limits": {"cpu": "1"}}), False),
    "opted out": (pod(resources=TPU, annotations={"ray-tpu-operator/inject": "false"}), False),
    "annotation with another value": (pod(resources=TPU, annotations={"ray-tpu-operator/inject": "true"}), True),
    "system namespace": (pod(resources=TPU, namespace="kube-system"), False),
    "our own namespace": (pod(resources=TPU, namespace="helm-system"), False),
}


def test_webhook_is_called_for_tpu_pods_only(cluster, release):
    failures = {}
    for name, (item, called) in CALLS.items():
        result = cluster.try_create(item)
        if called != (result.returncode != 0 and "pods.ray-tpu-operator.webhook" in result.stderr) or (
            not called and result.returncode != 0
        ):
            failures[name] = result.stderr or "was not sent to the webhook"
    assert failures == {}


def test_kustomize_creates_every_object(cluster, chart):
    folder = ROOT / "deploy"
    expected = by_key(yaml.safe_load_all(cluster.kubectl("kustomize", folder)))
    rendered = set(chart.objects())
    assert set(expected) == rendered | {("CustomResourceDefinition", "", "rayclusters.ray.io"), ("Namespace", "", SYSTEM)}
    labels = [item["metadata"].get("labels", {}) for item in expected.values()]
    assert not [entry for entry in labels if "helm.sh/chart" in entry or "app.kubernetes.io/managed-by" in entry]

    cluster.kubectl("apply", "--server-side", "-k", folder)
    try:
        assert missing(cluster, expected) == []
        # Again: nothing conflicts with what the API server made of it.
        cluster.kubectl("apply", "--server-side", "-k", folder)
        # The Pod fits the restricted Pod security standard that the namespace enforces.
        template = expected[DEPLOYMENT]["spec"]["template"]
        operator = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": SYSTEM}, "spec": template["spec"]}
        result = cluster.try_create(operator)
        assert result.returncode == 0, result.stderr
    finally:
        # The CRD stays for the other tests; the namespace cannot go without a controller manager.
        for kind, namespace, name in expected:
            if kind not in ("CustomResourceDefinition", "Namespace"):
                cluster.kubectl("delete", kind, name, *(["-n", namespace] if namespace else []))


@pytest.mark.parametrize("path", sorted((ROOT / "deploy" / "samples").glob("*.yaml")), ids=lambda path: pathlib.Path(path).name)
def test_samples_are_accepted(cluster, crd, path):
    cluster.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", path)
