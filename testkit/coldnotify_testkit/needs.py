"""A pytest plugin that marks each test with what it needs: `stack`, `kafka`, or, if it starts nothing, `pure`.

It follows, by name, what a test and its fixtures call through the functions and classes of tests and testkit. A test
that starts a stack, a broker or a process in a way that cannot be detected so (a shell command, say) is marked by hand.
A `pure` test that starts one of these programs nevertheless fails, as does one that starts a Kafka of its own, rather
than use the worker's, and does not say why by `own_broker`.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType, ModuleType

import pytest
from coldnotify_kafka.broker import EmbeddedBroker, EmbeddedCluster, run
from coldnotify_kafka.broker.process import spawn

from coldnotify_testkit import stack

_STARTS: dict[object, str] = {
    stack.Up: "stack",
    EmbeddedBroker: "kafka",
    EmbeddedCluster: "kafka",
    run: "kafka",
    spawn: "processes",
    subprocess.run: "processes",
    subprocess.Popen: "processes",
    subprocess.check_output: "processes",
    subprocess.check_call: "processes",
}
"""Markers, by the callable that starts something. `processes` is not a marker, but such a test is not pure."""
_OWN_BROKER = {stack.running, EmbeddedBroker, EmbeddedCluster, run}
"""Callables that start a Kafka for one test."""
_WORKERS_OWN = {"kafka", "stacks"}
"""The fixtures that share one."""
_MARKERS = ("stack", "kafka", "pure")
_TEST_CODE = ("coldnotify_testkit", "coldnotify_simulation.slips")
"""Packages and modules that are followed as tests are."""
_NOT_PURE = {"java", "coldnotify", "node", "chromium", "prometheus", "promtool", "haproxy", "nginx"}
"""Programs that take long to start."""

_started: list[str] = []
"""Names of these that were started since the last test began."""
_looking: list[bool] = []


def pytest_addoption(parser: pytest.Parser) -> None:
    """--alone, for `suite`, which runs the two parts one behind the other."""
    parser.addoption("--alone", choices=("only", "without"), help="only tests that are marked so, or all but these")


def pytest_configure() -> None:
    """Installs a hook that sees each process that this one starts. Such a hook cannot be removed, so it is installed
    once.
    """
    if not _looking:
        sys.addaudithook(_look)
        _looking.append(True)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    """Fixtures count as the test that they are made for."""
    _started.clear()
    if isinstance(item, pytest.Function) and item.get_closest_marker("own_broker") is None and has_own_broker(item):
        pytest.fail("it starts a Kafka of its own: use `kafka` or `stacks`, or say why not (own_broker)", pytrace=False)
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Fails a test that is not as pure as it is marked."""
    result = yield
    if _started and item.get_closest_marker("pure") is not None:
        pytest.fail(f"it started {_started}: mark it (kafka, stack), or let it start nothing")
    return result


def _look(event: str, arguments: tuple[object, ...]) -> None:
    if event != "subprocess.Popen":
        return
    argv = arguments[1]
    if not isinstance(argv, list | tuple) or not argv:
        return
    words = [os.fsdecode(word) for word in argv]
    # NodeClient for a version is no start worth the name.
    if Path(words[0]).name in _NOT_PURE and not {"-version", "--version"} & set(words):
        _started.append(" ".join(words)[:200])


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Before anything is left out: `-m pure` looks at these marks."""
    for item in items:
        if isinstance(item, pytest.Function):
            for marker in markers(item):
                item.add_marker(marker)
    if config.option.alone is None:
        return
    wanted = config.option.alone == "only"
    left_out = [item for item in items if (item.get_closest_marker("alone") is not None) != wanted]
    items[:] = [item for item in items if (item.get_closest_marker("alone") is not None) == wanted]
    config.hook.pytest_deselected(items=left_out)


def markers(item: pytest.Function) -> list[str]:
    """Returns the markers that a test lacks: what it starts, or `pure`."""
    there = {marker.name for marker in item.iter_markers()}
    found: set[str] = set()
    for function in _functions(item):
        found |= _reaches(function)
    wanted = {"stack"} & found or {"kafka"} & found or found or {"pure"}
    # What says by hand that it needs something is not pure.
    if there & {"stack", "kafka", "alone", "drill"}:
        wanted -= {"pure"}
    return sorted(wanted & set(_MARKERS) - there)


def has_own_broker(item: pytest.Function) -> bool:
    """Returns true if a test starts a Kafka other than the one that its worker's tests share."""
    return any("own broker" in _reaches(function) for function in _functions(item, without=_WORKERS_OWN))


def _functions(item: pytest.Function, without: Collection[str] = ()) -> Iterator[Callable[..., object]]:
    """The test, and the fixtures that it uses, also by way of others; `without` those of these names."""
    yield item.function
    definitions = item._fixtureinfo.name2fixturedefs
    for name in item.fixturenames:
        if name not in without:
            for definition in definitions.get(name, ()):
                yield definition.func


@cache
def _reaches(function: object) -> frozenset[str]:
    """Returns what a function starts, directly or through what it calls."""
    found: set[str] = set()
    seen: set[int] = set()
    waiting = [function]
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        try:
            if one in _OWN_BROKER:
                found.add("own broker")
            if one in _STARTS:
                found.add(_STARTS[one])
                continue
        except TypeError:  # cannot be looked up, so it is none of them
            continue
        waiting += _called_by(one)
    return frozenset(found)


@cache
def _called_by(one: object) -> tuple[object, ...]:
    """Returns what a function or class of test code refers to; nothing for other code, because that is the code under
    test.
    """
    if isinstance(one, type):
        if not _is_test_code(one.__module__, one):
            return ()
        return (*vars(one).values(), *one.__bases__)
    if isinstance(one, property):
        return tuple(part for part in (one.fget, one.fset) if part is not None)
    if isinstance(one, staticmethod | classmethod):
        return (one.__func__,)
    function = getattr(one, "__wrapped__", one)
    if isinstance(function, ModuleType) or not isinstance(function, FunctionType):
        return ()
    if not _is_test_code(function.__module__, function):
        return ()
    found: list[object] = []
    for names in _names(function.__code__):
        thing: object = function.__globals__.get(names[0])
        if isinstance(thing, ModuleType):
            # module.function: the attributes stand beside it among the code's names.
            found += [vars(thing)[name] for name in names[1:] if name in vars(thing)]
        elif thing is not None:
            found.append(thing)
    found += [cell.cell_contents for cell in function.__closure__ or () if _is_filled(cell)]
    return tuple(found)


def _names(code: CodeType) -> Iterator[tuple[str, ...]]:
    """Yields each name that the code uses, followed by all others as possible attributes; then the names of nested
    functions.
    """
    for name in code.co_names:
        yield (name, *code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _is_filled(cell: object) -> bool:
    try:
        cell.cell_contents  # type: ignore[attr-defined]  # noqa: B018
    except ValueError:
        return False
    return True


def _is_test_code(module: str, one: object) -> bool:
    if module.startswith(_TEST_CODE) or module == "conftest":
        return True
    if module.rpartition(".")[2].startswith("test_"):
        return True
    code = getattr(one, "__code__", None)
    file = Path("" if code is None else code.co_filename)
    return "tests" in file.parts or file.name == "conftest.py" or file.name.startswith("test_")
