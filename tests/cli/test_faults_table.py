"""That tests/faults still fits the sources: every complaint has its test and its fault, every edit still has its place. Whether the tests
notice the faults is for `make faults` to find out, which takes long."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

TOP = pathlib.Path(__file__).resolve().parents[2]
FAULTS = TOP / "tests" / "faults"
sys.path.insert(0, str(FAULTS))

from complaints import all_numbers  # noqa: E402
from table import load  # noqa: E402


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """{test: [complaints]} of all tests on a control plane and of the chart, as pytest collects them."""
    path = tmp_path_factory.mktemp("answers") / "answers.json"
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "-p", "collect_answers"]
    environment = os.environ | {"PYTHONPATH": str(FAULTS), "ANSWERS": str(path)}
    for folder in ("tests/integration", "tests/chart"):
        done = subprocess.run([*command, folder], cwd=TOP, env=environment, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(path.read_text())


def test_every_complaint_has_a_test(answers):
    answered = {number for numbers in answers.values() for number in numbers}
    assert set(all_numbers()) - answered == set(), "no test answers these"
    assert answered - set(all_numbers()) == set(), "tests answer these, which complaints.py does not list"


def test_every_complaint_has_a_fault():
    assert {number for fault in load() for number in fault.complaints} == set(all_numbers())


@pytest.mark.parametrize("fault", load(), ids=str)
def test_a_fault_fits(answers, fault):
    """Its edits have their places, and its test says that it answers these complaints."""
    fault.check()
    tests = [numbers for test, numbers in answers.items() if test == fault.test or test.startswith(f"{fault.test}[")]
    assert tests, f"there is no {fault.test}"
    for numbers in tests:
        assert set(fault.complaints) <= set(numbers)
