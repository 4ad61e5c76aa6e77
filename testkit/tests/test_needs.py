"""Tests are marked with what they need: by what they call, and a pure one that starts more than it says fails."""

import pytest

pytest_plugins = ["pytester"]

FILE = """
import subprocess, sys
import pytest
from coldnotify_kafka.broker import EmbeddedBroker
from coldnotify_testkit import kafka as helpers
from coldnotify_testkit.command import coldnotify
from coldnotify_testkit.stack import running

def a_node(path):
    return [EmbeddedBroker(path / name) for name in "a"]

@pytest.fixture
def everything(tmp_path):
    with running(tmp_path) as up:
        yield up

@pytest.fixture
def by_way_of(everything):
    return everything

def test_adds(): assert 1 + 1 == 2
def test_broker():
    with helpers.broker(): pass
def test_node(tmp_path): a_node(tmp_path)
def test_stack(by_way_of): pass
def test_command(): coldnotify("--help")
@getattr(pytest.mark, "alone")
def test_alone(): pass
class TestInside:
    def test_lambda(self, tmp_path): (lambda: a_node(tmp_path))()
"""


MARKS = ("pure", "kafka", "stack", "alone", "drill")
SHOW = f"""
def pytest_collection_finish(session):
    for item in session.items:
        marks = {{one.name for one in item.iter_markers()}}
        print("marks:", item.name, *(name for name in {MARKS} if name in marks))
"""


@pytest.fixture(autouse=True)
def _no_installed_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    # What they import within this process would be there twice when other tests import it again.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


def collected(pytester: pytest.Pytester, *arguments: str) -> dict[str, list[str]]:
    """The marks of each test of FILE that is selected."""
    pytester.makeini("[pytest]\nmarkers =\n" + "".join(f"  {name}: x\n" for name in MARKS))
    pytester.makeconftest(SHOW)
    pytester.makepyfile(test_all=FILE)
    plugins = ("-p", "coldnotify_testkit.order", "-p", "coldnotify_testkit.needs")
    result = pytester.runpytest_inprocess("--collect-only", "-q", *plugins, *arguments)
    found = [line.split() for line in result.outlines if line.startswith("marks: ")]
    return {name: marks for _, name, *marks in found}


def test_marks_follow_from_what_is_called(pytester: pytest.Pytester) -> None:
    assert collected(pytester) == {
        "test_adds": ["pure"],
        "test_broker": ["kafka"],
        "test_node": ["kafka"],
        "test_stack": ["stack"],
        "test_command": [],
        "test_alone": ["alone"],
        "test_lambda": ["kafka"],
    }


def test_tests_marked_alone_run_apart(pytester: pytest.Pytester) -> None:
    assert set(collected(pytester, "--alone=only")) == {"test_alone"}
    others = {"test_adds", "test_broker", "test_node", "test_stack", "test_command", "test_lambda"}
    assert set(collected(pytester, "--alone=without")) == others


def test_pure_tests_can_be_selected(pytester: pytest.Pytester) -> None:
    assert set(collected(pytester, "-m", "pure")) == {"test_adds"}


OWN = """
import pytest
from coldnotify_testkit import kafka as helpers

def never(): helpers.broker()

@pytest.fixture
def kafka(): return never  # as that of the worker

def test_shares(kafka): pass
def test_says_nothing(tmp_path): (lambda: None if tmp_path else never())()
@pytest.mark.own_broker("stops Kafka")
def test_says_why(tmp_path): (lambda: None if tmp_path else never())()
"""


def test_a_test_with_a_kafka_of_its_own_says_why(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nmarkers =\n" + "".join(f"  {name}: x\n" for name in (*MARKS, "own_broker")))
    pytester.makepyfile(test_own=OWN)
    plugins = ("-p", "coldnotify_testkit.order", "-p", "coldnotify_testkit.needs")
    result = pytester.runpytest_inprocess("-p", "no:randomly", *plugins)
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["*test_says_nothing*", "it starts a Kafka of its own: use `kafka` or `stacks`, or *"])


def test_a_pure_test_that_starts_java_fails(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nmarkers = pure: x\n")
    java = pytester.mkdir("bin") / "java"
    java.write_text("#!/bin/sh\n")
    java.chmod(0o700)
    code = "import os\ndef test_hidden(): getattr(__import__('subprocess'), 'ru' + 'n')([{!r}, 'Main'])"
    pytester.makepyfile(test_one=code.format(str(java)))
    result = pytester.runpytest_subprocess("-p", "coldnotify_testkit.order", "-p", "coldnotify_testkit.needs")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*it started *bin/java Main*: mark it*"])
