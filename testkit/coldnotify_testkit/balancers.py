"""For tests: a real nginx or HAProxy, with the configuration that docs/proxies.md gives, before ports of the test's."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from socket import create_connection

from coldnotify_kafka.broker.free_ports import free_port

from coldnotify_testkit.waiting import WAIT_S, wait_for

NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
HAPROXY = shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin")
MISSING = {
    name: None if program else f"there is no {name} here (make tools)"
    for name, program in (("nginx", NGINX), ("haproxy", HAPROXY))
}
"""The reason to skip a test, by the program's name; None: the program can run."""
_DOCUMENT = Path(__file__).parents[2] / "docs" / "proxies.md"
_NGINX_OF_TEST = "daemon off; error_log stderr; pid {directory}/nginx.pid;"
_NGINX_OF_ROOT = " user root;"
"""Root's nginx would work as somebody who may not read a test's directory."""
_NGINX_FILES = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")


def documented(name: str) -> str:
    """The configuration of nginx or haproxy, as operators are to write it."""
    (found,) = re.findall(rf"^```{name}\n(.*?)^```$", _DOCUMENT.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    return str(found)


@contextmanager
def balancer(name: str, configuration: str, ports: Mapping[int, int], directory: Path) -> Iterator[dict[int, int]]:
    """Runs nginx or haproxy. `ports` maps the servers' ports in the configuration to their real ones.

    Yields the ports that it listens on, by their ports in the configuration.
    """
    text = configuration
    for was, now in ports.items():
        text = text.replace(f"127.0.0.1:{was}", f"127.0.0.1:{now}")
    listening: dict[int, int] = {}

    def listens(match: re.Match[str]) -> str:
        port = listening.setdefault(int(match[2]), free_port())
        return f"{match[1]}127.0.0.1:{port}"

    text = re.sub(r"((?:listen |bind :)\s*)(\d+)", listens, text).replace("bind :127", "bind 127")
    file = directory / f"{name}.conf"
    if name == "nginx":
        # Where nobody but root may write, it has its files here.
        files = "".join(f"{kind}_temp_path {directory}/{kind};" for kind in _NGINX_FILES)
        text = text.replace("http {", f"http {{ access_log off; {files}")
        more = _NGINX_OF_TEST.format(directory=directory) + (_NGINX_OF_ROOT if os.geteuid() == 0 else "")
        argv = [str(NGINX), "-p", str(directory), "-c", str(file), "-g", more]
    else:
        argv = [str(HAPROXY), "-db", "-f", str(file)]
    file.write_text(text, encoding="utf-8")
    log = directory / f"{name}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(argv, stdout=output, stderr=output)

    def up() -> bool:
        assert process.poll() is None, log.read_text(errors="replace")
        try:
            for port in listening.values():
                create_connection(("127.0.0.1", port), WAIT_S).close()
        except OSError:
            return False
        return True

    try:
        wait_for(up, f"{name} listens")
        yield listening
    finally:
        process.terminate()
        try:
            process.wait(WAIT_S)
        finally:
            process.kill()
