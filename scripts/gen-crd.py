#!/usr/bin/env python3
"""Writes deploy/crds/ray.io_rayclusters.yaml.

    scripts/gen-crd.py [--openapi DIR] [--output FILE] [--check]

The schema has two sources: our own field table (crd_fields.py) and, for everything that belongs to Kubernetes (Pod
template, Service, NetworkPolicy rules), the OpenAPI documents that the k8s.io/kubernetes module ships in
api/openapi-spec/v3. DIR is that folder; by default it is looked up in the Go module cache, at the version that
tests/tools/go.mod pins. --check writes nothing and exits 1 when FILE differs from what would be written.

What is decided here:

- Size. `kubectl apply` without --server-side stores the whole object as an annotation, at most 256 KiB. So the CRD
  stays below SIZE_LIMIT bytes of compact JSON: our own fields are always described; the fields of a Pod template
  are described by the first sentence of Kubernetes' text, down to DESCRIBED_DEPTH levels, and one level more for
  the parts in DESCRIBED_DEEPER.
- v1alpha1 is served for old manifests and stored as v1. It has the same fields, so that nothing is lost when somebody
  still writes through it, but no descriptions, and of Kubernetes' types only the outline (a Pod template needs named
  containers, the rest is an object). What passes unchecked here is pruned when it is read as v1.
- Defaults. Those of Kubernetes types are left to the API server, which applies them to the Pods and Services we
  create. Kept is only what the API server asks for: an optional key of a list-map needs one (protocol of ports).
- A Quantity or port is "integer or string" without a pattern: a wrong one is explained better, with its name, by the
  operator's own validation than by a regular expression.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys

import yaml

import crd_fields as fields

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUTPUT = ROOT / "deploy" / "crds" / f"{fields.GROUP}_{fields.PLURAL}.yaml"

SIZE_LIMIT = 250_000
DESCRIBED_DEPTH = 3
DESCRIBED_DEEPER = {"containers"}
SENTENCE_LIMIT = 160

OPENAPI_FILES = ("api__v1_openapi.json", "apis__networking.k8s.io__v1_openapi.json")
POD_TEMPLATE = "io.k8s.api.core.v1.PodTemplateSpec"
OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
INT_OR_STRING = ("io.k8s.apimachinery.pkg.api.resource.Quantity", "io.k8s.apimachinery.pkg.util.intstr.IntOrString")

# Keywords of the published documents that a CRD schema may not or need not carry.
DROPPED = {
    "default",
    "description",
    "x-kubernetes-patch-strategy",
    "x-kubernetes-patch-merge-key",
    "x-kubernetes-unions",
    "x-kubernetes-group-version-kind",
}
KEPT = {
    "type",
    "format",
    "enum",
    "required",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
}

# metadata inside a template: the part that means something there (facts/kuberay.md section 0.1).
EMBEDDED_METADATA = {
    "type": "object",
    "properties": {
        "annotations": {"type": "object", "additionalProperties": {"type": "string"}},
        "finalizers": {"type": "array", "items": {"type": "string"}},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "name": {"type": "string"},
        "namespace": {"type": "string"},
    },
}

HEADER = "# Written by scripts/gen-crd.py; change scripts/crd_fields.py and run it again.\n"


class Error(Exception):
    """A sentence for the person who runs the script."""


def first_sentence(text):
    """The first sentence of a published description, on one line, cut at a word when it is long."""
    line = " ".join(text.split("\n\n")[0].split())
    end = line.find(". ")
    if end >= 0:
        line = line[: end + 1]
    if len(line) > SENTENCE_LIMIT:
        line = line[:SENTENCE_LIMIT].rsplit(" ", 1)[0].rstrip(",;:(") + " ..."
    return line


class Kubernetes:
    """The published types, rendered as structural schemas with every reference inlined."""

    def __init__(self, folder):
        self.types = {}
        for name in OPENAPI_FILES:
            path = pathlib.Path(folder) / name
            try:
                document = json.loads(path.read_text(encoding="utf-8"))
            except (OSError, ValueError) as failure:
                raise Error(f"cannot read {path}: {failure}; --openapi must name the folder api/openapi-spec/v3") from failure
            self.types.update(document["components"]["schemas"])

    def type(self, name, described):
        """Schema of the named type; its fields are described down to `described` levels."""
        if name in INT_OR_STRING:
            return {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}
        if name == OBJECT_META:
            return json.loads(json.dumps(EMBEDDED_METADATA))
        if name not in self.types:
            raise Error(f"the OpenAPI documents do not define {name}")
        return self.render(self.types[name], described)

    def render(self, node, described):
        reference = self.reference(node)
        if reference:
            return self.type(reference, described)
        schema = {}
        for key, value in node.items():
            if key == "properties":
                schema[key] = {name: self.field(name, child, described) for name, child in value.items()}
            elif key in ("items", "additionalProperties"):
                schema[key] = self.render(value, described)
            elif key in KEPT:
                schema[key] = value
            elif key not in DROPPED:
                raise Error(f"the OpenAPI documents use the keyword {key}, of which this script does not know what it means")
        keep_key_defaults(schema, lambda key: self.key_default(node["items"], key))
        return schema

    def field(self, name, node, described):
        schema = self.render(node, described - 1 + (name in DESCRIBED_DEEPER))
        if described > 0 and "description" in node:
            schema["description"] = first_sentence(node["description"])
        return schema

    def key_default(self, items, key):
        reference = self.reference(items)
        node = self.types[reference] if reference else items
        return node["properties"][key].get("default", "")

    @staticmethod
    def reference(node):
        """The type that a node stands for, or None. A described reference is published as allOf with one entry."""
        if "allOf" in node:
            if len(node["allOf"]) != 1:
                raise Error("the OpenAPI documents use allOf with several entries")
            node = node["allOf"][0]
        return node["$ref"].rsplit("/", 1)[1] if "$ref" in node else None


def keep_key_defaults(schema, default_of):
    """The API server wants every key of a list-map to be required or to have a default."""
    if schema.get("x-kubernetes-list-type") != "map":
        return
    items = schema["items"]
    for key in schema["x-kubernetes-list-map-keys"]:
        if key not in items.get("required", ()):
            items["properties"][key]["default"] = default_of(key)


def outline(name, kubernetes):
    """What v1alpha1 says about a Kubernetes type."""
    if name in INT_OR_STRING:
        return kubernetes.type(name, 0)
    if name != POD_TEMPLATE:
        return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    containers = {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "items": {
            "type": "object",
            "required": ["name"],
            "properties": {"name": {"type": "string"}},
            "x-kubernetes-preserve-unknown-fields": True,
        },
    }
    spec = {
        "type": "object",
        "required": ["containers"],
        "properties": {"containers": containers},
        "x-kubernetes-preserve-unknown-fields": True,
    }
    return {"type": "object", "properties": {"metadata": EMBEDDED_METADATA, "spec": spec}}


def expand(node, kubernetes, full):
    """Our table with the Kubernetes types filled in. `full` is v1; otherwise the slim schema of v1alpha1."""
    if "$kubernetes" in node:
        name = node["$kubernetes"]
        if full:
            schema = kubernetes.type(name, DESCRIBED_DEPTH if name == POD_TEMPLATE else 1)
        else:
            schema = outline(name, kubernetes)
    else:
        schema = {}
        for key, value in node.items():
            if key == "properties":
                schema[key] = {name: expand(child, kubernetes, full) for name, child in value.items()}
            elif key in ("items", "additionalProperties"):
                schema[key] = expand(value, kubernetes, full)
            elif key != "description":
                schema[key] = value
    if full and node.get("description"):
        schema["description"] = node["description"]
    return schema


def version(name, kubernetes, full):
    root = fields.obj(
        "A Ray cluster on Kubernetes: a head and groups of workers, each replica of a group being one Pod or one TPU slice.",
        {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": fields.SPEC,
            "status": fields.STATUS,
        },
        required=["spec"],
    )
    entry = {
        "name": name,
        "served": True,
        "storage": full,
        "schema": {"openAPIV3Schema": expand(root, kubernetes, full)},
        "subresources": {"status": {}},
        "additionalPrinterColumns": [printer_column(*column) for column in fields.PRINTER_COLUMNS],
    }
    if not full:
        entry["deprecated"] = True
        entry["deprecationWarning"] = f"{fields.GROUP}/{name} {fields.KIND} is deprecated; use {fields.GROUP}/v1"
    return entry


def printer_column(name, kind, path, priority):
    column = {"name": name, "type": kind, "jsonPath": path}
    # The API server drops a 0. Written here, it would be a difference for ever: a conflict at each server-side apply.
    if priority:
        column["priority"] = priority
    return column


def build(kubernetes):
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{fields.PLURAL}.{fields.GROUP}"},
        "spec": {
            "group": fields.GROUP,
            "scope": "Namespaced",
            "conversion": {"strategy": "None"},
            "names": {
                "kind": fields.KIND,
                "listKind": fields.KIND + "List",
                "plural": fields.PLURAL,
                "singular": fields.SINGULAR,
                "categories": ["all"],
            },
            "versions": [version("v1", kubernetes, full=True), version("v1alpha1", kubernetes, full=False)],
        },
    }


class Dumper(yaml.SafeDumper):
    """Plain YAML: no anchors, whatever parts of the schema are shared in memory."""

    def ignore_aliases(self, data):
        return True


def to_text(crd):
    return HEADER + yaml.dump(crd, Dumper=Dumper, width=1_000_000, allow_unicode=True, default_flow_style=False)


def size(crd):
    """Bytes of the annotation that a client-side `kubectl apply` writes, which escapes <, > and &."""
    text = json.dumps(crd, separators=(",", ":"))
    return len(text) + 5 * sum(text.count(sign) for sign in "<>&")


def module_folder():
    """The OpenAPI folder of the pinned k8s.io/kubernetes in the Go module cache."""
    tools = ROOT / "tests" / "tools"
    module = "k8s.io/kubernetes@" + pinned_version(tools / "go.mod")
    go = output_of([str(tools / "find-go.sh")], "there is no Go 1.21 or newer").strip()
    answer = output_of([go, "mod", "download", "-json", module], f"{module} could not be fetched", tools)
    return pathlib.Path(json.loads(answer)["Dir"]) / "api" / "openapi-spec" / "v3"


def output_of(command, problem, folder=None):
    # The user's own settings for other Go projects have no say here; the pinned toolchain is fetched when needed.
    environment = dict(os.environ, GOTOOLCHAIN="auto", GOFLAGS="", GOWORK="off")
    try:
        done = subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True, text=True, timeout=600)
    except (OSError, subprocess.SubprocessError) as failure:
        detail = (getattr(failure, "stdout", "") or "") + (getattr(failure, "stderr", "") or "")
        raise Error(f"{problem}: {detail.strip() or failure}; or name the OpenAPI folder with --openapi") from failure
    return done.stdout


def pinned_version(go_mod):
    for line in go_mod.read_text(encoding="utf-8").splitlines():
        words = line.replace("require", " ").split()
        if len(words) >= 2 and words[0] == "k8s.io/kubernetes" and words[1].startswith("v"):
            return words[1]
    raise Error(f"{go_mod} does not require k8s.io/kubernetes")


def main():
    parser = argparse.ArgumentParser(description="Generate the RayCluster CRD.")
    parser.add_argument("--openapi", metavar="DIR", help="folder api/openapi-spec/v3 of k8s.io/kubernetes")
    parser.add_argument("--output", metavar="FILE", type=pathlib.Path, default=OUTPUT)
    parser.add_argument("--check", action="store_true", help="exit 1 if FILE is not up to date, write nothing")
    options = parser.parse_args()

    crd = build(Kubernetes(options.openapi or module_folder()))
    if size(crd) >= SIZE_LIMIT:
        raise Error(f"the CRD is {size(crd)} bytes, at least SIZE_LIMIT ({SIZE_LIMIT}); describe fewer levels (DESCRIBED_DEPTH)")
    text = to_text(crd)
    if options.check:
        current = options.output.read_text(encoding="utf-8") if options.output.exists() else None
        if current != text:
            raise Error(f"{options.output} is not up to date: run scripts/gen-crd.py and commit the result")
        return
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(text, encoding="utf-8")
    print(f"{options.output}: {size(crd)} bytes as compact JSON, limit {SIZE_LIMIT}")


if __name__ == "__main__":
    try:
        main()
    except Error as failure:
        sys.exit(f"gen-crd.py: {failure}")
