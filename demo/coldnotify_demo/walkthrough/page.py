"""The page of the walkthrough in a real browser: checks its requirements, builds it, and returns the command to open
it.
"""

import os
import shlex
import shutil
import subprocess
from pathlib import Path

from coldnotify_common.security.certificates import public_key_hash

CLIENT = Path(__file__).parents[3] / "clients" / "browser"
"""The browser's client, in a checkout."""
_NPM_S = 240


def chromium() -> str | None:
    """The name of the browser that is here."""
    return next((name for name in ("chromium", "chromium-browser", "google-chrome") if shutil.which(name)), None)


def build(directory: Path) -> str | None:
    """Compiles the client into `directory`; why not, if it cannot be."""
    if chromium() is None:
        return "there is no chromium here (make tools)"
    npm = shutil.which("npm")
    if npm is None or not CLIENT.is_dir():
        return "the browser's client cannot be compiled here: there is no npm, or this is no checkout"
    lock, done = CLIENT / "package-lock.json", CLIENT / "node_modules" / ".package-lock.json"
    commands = [["run", "build", "--", "--outDir", str(directory)]]
    if not done.exists() or done.stat().st_mtime < lock.stat().st_mtime:
        commands.insert(0, ["ci", "--prefer-offline"])
    for command in commands:
        try:
            ended = subprocess.run(
                [npm, *command], cwd=CLIENT, capture_output=True, text=True, timeout=_NPM_S, check=False
            )
        except subprocess.TimeoutExpired:
            return f"npm {command[0]}: not within {_NPM_S} s (it needs a registry)"
        if ended.returncode:
            return f"npm {command[0]} failed (it needs a registry): {(ended.stdout + ended.stderr)[-500:]}"
    return None


def command(url: str, certificate: Path, profile: Path) -> str:
    """Opens the page, in a browser that trusts this certificate of a service.

    People import ca.pem into their browser instead.
    """
    trusted = public_key_hash(certificate)
    flags = ["--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
    if os.geteuid() == 0:
        flags.append("--no-sandbox")  # Chromium refuses to run as root otherwise
    flags += [f"--user-data-dir={profile.name}", f"--ignore-certificate-errors-spki-list={trusted}"]
    return " ".join([chromium() or "chromium", *map(shlex.quote, flags), shlex.quote(url), "2> chromium.err"])
