"""The programs of the README, of docs/ and of examples/: strict type checkers take them as they stand there."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BROWSER = ROOT / "clients" / "browser"
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), BROWSER / "README.md"]
LIMIT_S = 240
_BLOCK = re.compile(r"^( *)```(python|ts)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
GIVEN = {
    "python": {
        "notify": "from coldnotify import Notify\nnotify: Notify",
        "publisher": "from coldnotify.publisher import Publisher\npublisher: Publisher",
        "lamps": "from coldnotify import QueryRegistration\nlamps: QueryRegistration",
        "changed": "from coldnotify import Notification\ndef changed(told: Notification) -> None: ...",
        "certs": "",
    },
    "ts": {
        "notify": 'import { Notify as N } from "coldnotify-browser";\ndeclare const notify: N;',
        "show": "declare function show(told: unknown): void;",
        "live": "declare function live(): void;",
        "away": "declare function away(why: string): void;",
    },
}
"""What an earlier block has made: its name, and its declaration."""
_MADE = {
    "python": r"(^|\s){}(:| =)|\bas {}\b|def {}\(",
    "ts": r"(const|let|function) {}\b|import .*\b{}\b",
}


def snippets(language: str) -> Iterator[tuple[str, str]]:
    """The name of each block's module, and its text."""
    for document in DOCUMENTS:
        blocks = [found for found in _BLOCK.finditer(document.read_text(encoding="utf-8")) if found[2] == language]
        for number, found in enumerate(blocks):
            code = re.sub(f"^{found[1]}", "", found[3], flags=re.MULTILINE)
            given = [
                declared
                for name, declared in GIVEN[language].items()
                if re.search(rf"\b{name}\b", code)
                and not re.search(_MADE[language].replace("{}", name), code, re.MULTILINE)
            ]
            name = re.sub(r"\W", "_", f"{document.relative_to(ROOT).with_suffix('')}_{number}")
            yield name, "\n".join([*given, code])


def test_mypy_strict_takes_every_python_program(tmp_path: Path) -> None:
    files = sorted(str(path) for path in (ROOT / "examples").glob("*.py"))
    for name, code in snippets("python"):
        (tmp_path / f"{name}.py").write_text(code, encoding="utf-8")
        files.append(str(tmp_path / f"{name}.py"))
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", ROOT / ".mypy_cache" / "snippets", *files],
        cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def compiler() -> Path:
    """TypeScript's, of the version that package-lock.json names."""
    tsc = BROWSER / "node_modules" / ".bin" / "tsc"
    if not tsc.exists():
        npm = shutil.which("npm")
        if npm is None:
            pytest.skip("there is no npm here")
        done = subprocess.run([npm, "ci", "--prefer-offline"], cwd=BROWSER, capture_output=True, timeout=LIMIT_S)
        if done.returncode:
            pytest.skip("npm ci failed (it needs a registry)")
    return tsc


@pytest.mark.timeout(2 * LIMIT_S)
def test_tsc_strict_takes_every_program_for_browsers(compiler: Path, tmp_path: Path) -> None:
    for name, code in snippets("ts"):
        (tmp_path / f"{name}.ts").write_text(code, encoding="utf-8")
    (tmp_path / "vitest.d.ts").write_text(
        'declare module "vitest" {\n'
        "  export function test(name: string, body: () => Promise<void>): void;\n"
        "  export function afterAll(body: () => void): void;\n"
        "  export function expect(found: unknown): { toBe(wanted: unknown): void; toEqual(wanted: unknown): void };\n"
        "}\n"
    )
    options = {
        "strict": True, "noEmit": True, "target": "ES2022", "module": "ES2022", "moduleResolution": "Bundler",
        "moduleDetection": "force", "lib": ["ES2023", "DOM"],
        "types": ["node"], "typeRoots": [str(BROWSER / "node_modules" / "@types")],
        "paths": {"coldnotify-browser": [str(BROWSER / "src" / "index.ts")]},
    }  # fmt: skip
    settings = {"compilerOptions": options, "include": ["*.ts"]}
    (tmp_path / "tsconfig.json").write_text(json.dumps(settings))
    done = subprocess.run(
        [compiler, "--project", tmp_path, "--pretty", "false"], capture_output=True, text=True, timeout=LIMIT_S
    )
    assert done.returncode == 0, done.stdout + done.stderr
