"""What an observation unit installs: the client alone, into an environment of its own; a missing extra is named."""

import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[3]

PROGRAM = """
import importlib.util, sys
for absent in ("confluent_kafka", "msgspec", "reactivex", "aiohttp"):
    assert importlib.util.find_spec(absent) is None, absent
import coldnotify, coldnotify.aio
for unneeded in ("coldnotify.testing", "coldnotify.http_publisher", "coldnotify.http_client", "http.server"):
    assert unneeded not in sys.modules, unneeded
import coldnotify.http_client, coldnotify.http_publisher, coldnotify.testing
with coldnotify.testing.FakeService() as service:
    told = []
    connection = coldnotify.Connection("127.0.0.1", service.port)
    notify = coldnotify.Notify("d", "g", "c", coldnotify.State(sys.argv[1]), connection)
    notify.register("a").subscribe(told.append)
    service.publish("d", "g", "a", {"fps": 5}, version=1)
    assert notify.connect(timeout_s=60)
    assert told == [coldnotify.Notification("a", 1, {"fps": 5})], told
    receipt = coldnotify.http_publisher.HttpPublisher(service.http).publish("d", "g", "a", version=2)
    assert receipt.applied_by(1.0) == (1, 0)
    assert coldnotify.http_client.HttpClient(service.http).explain("d", "g", "c", "a").verdict == "applied"
    notify.disconnect()
try:
    import coldnotify.publisher
except ImportError as error:
    assert "pip install 'coldnotify[publisher]'" in str(error), error
else:
    raise AssertionError("imported without Kafka's client")
print("told")
"""


@pytest.mark.timeout(600)
def test_the_client_installs_and_works_without_kafka_and_services(tmp_path: Path):
    """Copies are installed, so that building leaves nothing in the repository. Needs a package index, like `make
    setup`."""
    environment = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", environment], check=True, timeout=300)
    python = str(environment / "bin" / "python")
    packages = [str(REPOSITORY / "schemas"), str(REPOSITORY / "clients" / "python")]
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages]
    subprocess.run(install, check=True, timeout=500, cwd=tmp_path)
    run = [python, "-I", "-W", "error", "-c", PROGRAM, str(tmp_path / "state.json")]
    done = subprocess.run(run, capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "told\n"), done.stderr
