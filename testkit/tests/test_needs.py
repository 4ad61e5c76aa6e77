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


def selected(pytester: pytest.Pytester, *arguments: str) -> set[str]:
    """Which tests of FILE are collected."""
    ini = "[pytest]\nmarkers =\n" + "".join(f"  {name}: x\n" for name in ("pure", "kafka", "stack", "alone", "drill"))
    pytester.makeini(ini + "asyncio_default_fixture_loop_scope = function\n")
    pytester.makepyfile(test_all=FILE)
    plugins = ("-p", "coldnotify_testkit.order", "-p", "coldnotify_testkit.needs")
    result = pytester.runpytest_inprocess("--collect-only", "-q", *plugins, *arguments)
    return {line.rpartition("::")[2] for line in result.outlines if "::" in line}


@pytest.mark.parametrize(
    ("mark", "tests"),
    [
        ("pure", {"test_adds"}),
        ("kafka", {"test_broker", "test_node", "test_lambda"}),
        ("stack", {"test_stack"}),
        ("not pure and not kafka and not stack", {"test_command", "test_alone"}),
    ],
)
def test_marks_follow_from_what_is_called(pytester: pytest.Pytester, mark: str, tests: set[str]) -> None:
    assert selected(pytester, "-m", mark) == tests


def test_what_must_be_alone_is_run_apart(pytester: pytest.Pytester) -> None:
    alone, others = selected(pytester, "--alone=only"), selected(pytester, "--alone=without")
    assert alone == {"test_alone"}
    assert others == selected(pytester) - alone


def test_a_pure_test_that_starts_java_fails(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nmarkers = pure: x\nasyncio_default_fixture_loop_scope = function\n")
    java = pytester.mkdir("bin") / "java"
    java.write_text("#!/bin/sh\n")
    java.chmod(0o700)
    code = "import os\ndef test_hidden(): getattr(__import__('subprocess'), 'ru' + 'n')([{!r}, 'Main'])"
    pytester.makepyfile(test_one=code.format(str(java)))
    result = pytester.runpytest_subprocess("-p", "coldnotify_testkit.order", "-p", "coldnotify_testkit.needs")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*it started *bin/java Main*: mark it*"])
