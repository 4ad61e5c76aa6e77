"""A job as a process: a port that is taken, runs that fail and are begun anew, a stop in order."""

import socket
import urllib.request

from coldnotify_common.security.inside import Inside, InsideSettings
from coldnotify_common.stop import StopFlag
from coldnotify_kafka.broker.free_ports import free_port
from coldnotify_streams.errors import RunFailure
from coldnotify_streams.job_process import JobPort, serve


class Runs:
    """Workers in a row: the first run fails, the second looks at /readyz and ends the process."""

    was_ready = False

    def __init__(self, port: int) -> None:
        self.port = port
        self.begun = 0
        self.reloads = 0
        self.answer = b""
        self.stop: StopFlag | None = None

    def make(self, stop):
        self.stop = stop
        return self

    def readiness(self):
        return None

    def run(self):
        self.begun += 1
        if self.begun == 1:
            raise RunFailure("the first run fails")
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz", timeout=60) as response:
            self.answer = response.read()
        self.stop.set()

    def on_reload(self):
        self.reloads += 1


def served(runs):
    return serve(
        "job",
        "kafka:9092",
        JobPort(host="127.0.0.1", port=runs.port, setting="COLDNOTIFY_JOB_PORT / --job-port"),
        Inside(InsideSettings()),
        what="a job",
        make_worker=runs.make,
        routes=lambda current: [],
        on_reload=runs.on_reload,
    )


def test_a_run_that_fails_is_followed_by_another_and_the_port_is_served():
    runs = Runs(free_port())
    assert served(runs) == 0
    assert (runs.begun, runs.reloads, runs.answer) == (2, 1, b"ready\n")


def test_a_port_that_is_taken_ends_the_process_before_any_run():
    runs = Runs(free_port())
    with socket.create_server(("127.0.0.1", runs.port)):
        assert served(runs) == 1
    assert runs.begun == 0
