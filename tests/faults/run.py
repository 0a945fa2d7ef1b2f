#!/usr/bin/python3
"""run.py [WORD...]: puts each fault of faults.yaml back, in a copy of the sources, and demands that its test fails.

Each named test must pass first, on the sources as they are. Then, fault by fault: edit, build, run the one test, undo. It has to fail by
what it asserts: a fault that does not build or that breaks a fixture shows nothing. Ends with a count and 1 if any was not noticed.

    WORD          only faults of this complaint, or with this word in the name of the test or the file
    --list        only say what there is
    --no-before   do not run the tests on the sources as they are first
    --keep        keep the copy, and say where it is
    --why         say what each test said
"""

import argparse
import contextlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree

from table import TOP, load

COPIED = ["Makefile", "pytest.ini", "charts", "cmd", "deploy", "docs", "pkg", "scripts", "tests"]
ASSERTIONS = re.compile(r"(AssertionError|assert |Failed: )")


class Workshop:
    """A copy of the sources with what is built of them, so that only what an edit touches is built anew."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.edited = set()
        self.folder.mkdir()
        for name in COPIED:
            copy = shutil.copytree if (TOP / name).is_dir() else shutil.copy2
            copy(TOP / name, self.folder / name)
        if (TOP / "build" / "obj").is_dir():
            shutil.copytree(TOP / "build" / "obj", self.folder / "build" / "obj")

    def make(self):
        """Builds; raises RuntimeError with the compiler's words. What was edited is named, whatever the clock says of its age."""
        edited = [word for path in sorted(self.edited) for word in ("-W", path)]
        done = self.run(["make", "-s", f"-j{os.cpu_count()}", *edited, "all"])
        if done.returncode != 0:
            raise RuntimeError(f"it does not build:\n{done.stdout}")
        self.edited.clear()

    def run(self, command, **environment):
        return subprocess.run(
            command,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=1200,
            env=os.environ | environment,
        )

    @contextlib.contextmanager
    def with_fault(self, fault):
        self.edited.update(fault.files)
        before = fault.apply(self.folder)
        try:
            yield
        finally:
            self.edited.update(fault.files)
            for path, text in before.items():
                path.write_text(text)


def run_pytest(workshop, tests, environment):
    """(all passed, words of the assertion that failed, output)"""
    workshop.make()
    report = workshop.folder / "report.xml"
    report.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", *tests]
    done = workshop.run(command, **environment)
    cases = list(xml.etree.ElementTree.parse(report).getroot().iter("testcase")) if report.exists() else []
    failures = [f.get("message") for case in cases for f in case.iter("failure")]
    words = next((m for m in failures if ASSERTIONS.match(m)), "")
    return bool(cases) and done.returncode == 0, words, done.stdout


def check(workshop, fault, environment):
    """(whether the fault is noticed, in what words, or why not)"""
    # What a CRD says is known to a control plane from its start.
    environment = {} if any(f.startswith("deploy/crds/") for f in fault.files) else environment
    try:
        with workshop.with_fault(fault):
            passed, words, output = run_pytest(workshop, [fault.test], environment)
    except (ValueError, RuntimeError) as e:
        return False, str(e)
    if passed:
        return False, "the test passes with the fault in place"
    return (True, words) if words else (False, f"the test fails, but not by what it asserts:\n{output}")


@contextlib.contextmanager
def running_control_plane(folder):
    tools = TOP / "tests" / "tools" / "controlplane.sh"
    crd = TOP / "deploy" / "crds" / "ray.io_rayclusters.yaml"
    command = [tools, "start", folder, "--controller-manager", "--crd", crd, "--owner", str(os.getpid())]
    try:
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        yield folder
    finally:
        subprocess.run([tools, "stop", folder], check=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("words", nargs="*", metavar="WORD")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--no-before", action="store_true")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--why", action="store_true")
    options = parser.parse_args()

    def wanted(fault):
        return any(w in fault.complaints or any(w in text for text in (fault.test, *fault.files)) for w in options.words)

    faults = [f for f in load() if not options.words or wanted(f)]
    if options.list:
        print("\n".join(f"{f}\n    {f.test}\n    {' '.join(f.files)}" for f in faults))
        return 0
    if not faults:
        sys.exit("no fault of the table is meant by these words")
    folder = tempfile.mkdtemp(prefix="faults-")
    missed = 0
    try:
        with running_control_plane(f"{folder}/control-plane") as control_plane:
            environment = {"RAY_TPU_OPERATOR_CONTROL_PLANE": control_plane}
            workshop = Workshop(f"{folder}/sources")
            if not options.no_before:
                passed, _, output = run_pytest(workshop, dict.fromkeys(f.test for f in faults), environment)
                if not passed:
                    sys.exit(f"a test does not pass without any fault:\n{output}")
            for fault in faults:
                start = time.monotonic()
                noticed, words = check(workshop, fault, environment)
                missed += not noticed
                seconds = time.monotonic() - start
                print(f"{'noticed' if noticed else 'NOT NOTICED':11} {fault} ({seconds:.0f} s)", flush=True)
                if options.why or not noticed:
                    print(f"{fault.test}\n{words}", flush=True)
    finally:
        if options.keep:
            print(f"the copy is in {folder}/sources")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    print(f"{len(faults) - missed} faults noticed, {missed} not")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
