"""The repository itself: what may stand in it, and that every module has a purpose and a test."""

import re
import subprocess
import tomllib
from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest
from coldnotify_testkit.file_map import docstring

ROOT = Path(__file__).parents[2]
MODULE_LINES_MAX = 800
"""Beyond it a module has more than one reason to exist."""

PACKAGES = sorted(
    path
    for pattern in ("clients/python/coldnotify", "*/coldnotify_*", "services/*/coldnotify_*")
    for path in ROOT.glob(pattern)
    if (path / "__init__.py").exists()
)

UNSHIPPED = {
    "coldnotify_fault",
    "coldnotify_loadtest",
    "coldnotify_simulation",
    "coldnotify_testkit",
    "coldnotify_tools",
}
"""Packages that run from a checkout only."""

NO_TWIN_NEEDED = {
    "*_pb2.py": "generated",
    "*/__init__.py": "says what the package is for",
    "*/__main__.py": "calls main",
    "testkit/*.py": "test code itself: the tests that use it are its tests",
    "clients/python/coldnotify/testing/se*.py": "a service for tests: the tests that use it are its tests",
    "*/errors.py": "exceptions without behaviour: tests of those who raise them name them",
    "*/settings.py": "tables: test_settings_doc goes through all settings, test_settings through how they are read",
    "*/metrics.py": "tables: test_metrics_doc goes through all metrics",
    "*/core/limits.py": "a table of numbers",
    "*/core/outputs.py": "a table of types",
    "*/core/counters.py": "a table of numbers",
    "schemas/coldnotify_schemas/topics.py": "names",
    "clients/python/coldnotify/notification.py": "a record without behaviour",
    "clients/python/coldnotify/_publishing/*.py": "the pieces of publisher.py: test_publisher and those that begin so",
    "demo/*.py": "played as a whole by test_main, its applications by test_units",
}
"""Modules without a test file of their own, by pattern, and why."""

SHARED_NAMES = {
    "app": "a service as a process",
    "channels": "sequences of messages: their records, those of a session, those of a client",
    "clients": "what is known of clients: by the matcher, by the checker",
    "encoding": "makes bytes of what is sent: of the gateway's frames, of MQTT's packets",
    "errors": "what a package raises",
    "freshness": "how old is what clients were told: at the gateway, as the checker judges it",
    "interests": "what a client registers for: on the wire, in the client",
    "listener": "what listeners are, and each of them",
    "memberships": "who is told of which members: by the matcher, and as the checker saw it",
    "metrics": "a service's metrics",
    "open_files": "how a service shares out the files that it may open",
    "outputs": "what a step of a core wants done",
    "panels": "panels of Grafana: what one is, and those of each part",
    "queries": "registrations by query: in the client, as the checker reads them",
    "registry": "the table of what is a folder of its own: listeners, parts",
    "requests": "those of docs/internal-protocol.md: a gateway makes them, a matcher handles them",
    "row": "a row of such a table",
    "run": "from start to end: of a client, of a stream job",
    "service": "ColdNotify or a part of it, from start to end: the gateway's, the demo's, the one for tests",
    "settings": "what a part can be told",
    "shell": "what executes what a core wants done",
    "state": "a client's durable state; commands are named after what is typed",
    "stream": "how far a session is told a log: by the gateway, by the matcher",
    "tls": "TLS contexts: a client's, the services'",
    "topics": "their names; how they should be; commands are named after what is typed",
    "topics_watch": "a thread that looks whether the topics are as they were",
    "tracing": "what goes into traces",
    "unsettled": "what an application has not taken: as the client says it, as the matcher keeps it",
    "worker": "what runs a stream job, and the matcher's",
}
"""Names of modules in several shipped packages, and the one thing that they mean."""

_STANDS_FOR = re.compile(r"^Stands for: (.*)$", re.MULTILINE)
"""A line in the docstring of a test file that tests several modules as one."""


def tracked_files() -> list[Path]:
    """What belongs to the repository."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout: what belongs to the repository is not known")
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def modules() -> Iterator[Path]:
    """All modules of all packages."""
    for package in PACKAGES:
        yield from sorted(package.rglob("*.py"))


def name_of(path: Path) -> str:
    """The path as a person would write it."""
    return path.relative_to(ROOT).as_posix()


def test_every_module_has_its_twin() -> None:
    missing = []
    for package in PACKAGES:
        tests = sorted((package.parent / "tests").rglob("test_*.py"))
        tested = {test.stem.removeprefix("test_") for test in tests}
        for test in tests:
            for line in _STANDS_FOR.findall(docstring(test)):
                tested |= {name.strip() for name in line.split(",")}
        missing += [
            name_of(module)
            for module in sorted(package.rglob("*.py"))
            if not any(fnmatch(name_of(module), pattern) for pattern in NO_TWIN_NEEDED)
            and module.stem.removeprefix("_") not in tested
        ]
    assert not missing, "modules without a tests/test_NAME.py:\n" + "\n".join(missing)


def test_every_reason_to_have_no_twin_is_needed() -> None:
    names = [name_of(module) for module in modules()]
    assert [pattern for pattern in NO_TWIN_NEEDED if not any(fnmatch(name, pattern) for name in names)] == []


def test_a_name_that_several_shipped_modules_have_means_one_thing() -> None:
    shipped = [package for package in PACKAGES if package.name not in UNSHIPPED]
    names = Counter(
        module.stem.removeprefix("_")
        for package in shipped
        for module in package.rglob("*.py")
        if module.stem not in ("__init__", "__main__")
    )
    assert {name for name, count in names.items() if count > 1} == set(SHARED_NAMES), "name it after the noun it holds"


def test_every_module_says_in_its_first_line_what_it_is_for() -> None:
    silent = [name_of(module) for module in modules() if not module.name.endswith("_pb2.py") and not docstring(module)]
    assert silent == []


def test_no_module_is_longer_than_one_can_know() -> None:
    lengths = {name_of(module): len(module.read_text(encoding="utf-8").splitlines()) for module in modules()}
    assert {name: lines for name, lines in lengths.items() if lines > MODULE_LINES_MAX} == {}


def test_every_package_is_under_the_rules_of_imports() -> None:
    rules = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    assert set(rules["root_packages"]) == {package.name for package in PACKAGES}
    (layers,) = (contract["layers"] for contract in rules["contracts"] if contract["type"] == "layers")
    assert {name for layer in layers for name in layer.split(" | ")} == set(rules["root_packages"])


def test_what_is_shipped_knows_nothing_of_what_is_not() -> None:
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    shipped = [ROOT / path for path in wheel["packages"]]
    shipped += [ROOT / "clients/python/coldnotify", ROOT / "schemas/coldnotify_schemas"]
    unshipped = {package.name for package in PACKAGES} - {package.name for package in shipped}
    assert unshipped == UNSHIPPED
    assert {name_of(package.parent) for package in shipped if package.name.startswith("coldnotify_")} - {"schemas"} | {
        name_of(package.parent) for package in PACKAGES if package.name in unshipped
    } == set(wheel["dev-mode-dirs"])
    found = [
        f"{name_of(module)}: {name}"
        for package in shipped
        for module in sorted(package.rglob("*.py"))
        for name in re.findall(r"^\s*(?:from|import) (\w+)", module.read_text(encoding="utf-8"), re.MULTILINE)
        if name in unshipped
    ]
    assert found == []
    assert [name_of(path) for package in shipped for path in package.rglob("testing_*.py")] == []


def test_every_package_is_type_checked() -> None:
    mypy_path = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mypy"]["mypy_path"].split(":")
    assert {name_of(package.parent) for package in PACKAGES} == set(mypy_path)
    assert [name_of(package) for package in PACKAGES if not (package / "py.typed").exists()] == []


def test_every_directory_of_tests_is_run() -> None:
    testpaths = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]["testpaths"]
    outside = [
        name_of(path)
        for path in tracked_files()
        if path.name.startswith("test_") and path.suffix == ".py"
        if not any(name_of(path).startswith(f"{testpath}/") for testpath in testpaths)
    ]
    assert outside == []


# Written so that they do not find themselves.
_OF_ONE_MACHINE = {
    "a machine's path": re.compile(r"(?<![\w.])/(?:root|work|home/\w+|Users/\w+)/\w"),
    "a registry's address": re.compile(
        r"pypi\.o[r]g|files\.pythonho[s]ted|repo1?\.ma[v]en|registry\.npmj[s]|--(extra-)?index-u[r]l"
    ),
}


@pytest.mark.parametrize("what", _OF_ONE_MACHINE)
def test_nothing_of_one_machine_is_in_the_tree(what: str) -> None:
    found = []
    for path in tracked_files():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        found += [
            f"{name_of(path)}:{number}: {line.strip()[:100]}"
            for number, line in enumerate(text.splitlines(), 1)
            if _OF_ONE_MACHINE[what].search(line)
        ]
    assert found == [], f"{what} stands in the tree"


def test_what_is_generated_is_not_tracked() -> None:
    generated = re.compile(r"(^|/)(__pycache__|\.venv|dist|build|\.data|\.[a-z]+_cache)/|\.(pyc|log|whl)$")
    assert [name_of(path) for path in tracked_files() if generated.search(name_of(path))] == []
