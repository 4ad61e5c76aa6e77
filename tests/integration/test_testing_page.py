"""The tests that docs/testing.md shows pass as they stand there; vitest's part is played by Node's own test runner."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BROWSER = ROOT / "clients" / "browser"
LIMIT_S = 240
VITEST = """
import assert from "node:assert/strict";
export { test, after as afterAll } from "node:test";
export const expect = (found) => ({
  toBe: (wanted) => assert.equal(found, wanted),
  toEqual: (wanted) => assert.deepEqual(found, wanted),
});
"""


def block(language: str) -> str:
    page = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
    (found,) = re.findall(rf"^```{language}\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    return str(found)


def test_the_tests_for_pytest_pass(tmp_path: Path) -> None:
    (tmp_path / "test_application.py").write_text(block("python"), encoding="utf-8")
    argv = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:asyncio",
        "-W",
        "error",
        "test_application.py",
    ]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout


def test_the_test_for_vitest_passes(tmp_path: Path) -> None:
    tsc, node = BROWSER / "node_modules" / ".bin" / "tsc", shutil.which("node")
    if node is None or not tsc.exists():
        pytest.skip("there is no node here, or `npm ci` has not run in clients/browser")
    modules = tmp_path / "node_modules"
    for name in ("coldnotify-browser", "vitest"):
        (modules / name).mkdir(parents=True)
    shutil.copy(BROWSER / "package.json", modules / "coldnotify-browser")
    (modules / "vitest" / "package.json").write_text('{"type": "module", "exports": "./index.js"}')
    (modules / "vitest" / "index.js").write_text(VITEST)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    (tmp_path / "page.test.ts").write_text(block("ts"), encoding="utf-8")
    dist = modules / "coldnotify-browser" / "dist"
    build: list[str | Path] = [tsc, "-p", BROWSER / "tsconfig.json", "--outDir", dist]
    subprocess.run(build, check=True, timeout=LIMIT_S)
    options = {"target": "ES2022", "module": "ES2022", "moduleResolution": "Bundler", "noCheck": True, "types": []}
    (tmp_path / "tsconfig.json").write_text(json.dumps({"compilerOptions": options, "include": ["*.ts"]}))
    subprocess.run([tsc, "-p", tmp_path], check=True, timeout=LIMIT_S)
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    argv = [node, "--experimental-websocket", "--test", "page.test.js"]
    done = subprocess.run(
        argv, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "# pass 1" in done.stdout
