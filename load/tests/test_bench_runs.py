"""bench-sub and bench-pub at a running system: all transports, all ways to publish, losses that are planted.

Stands for: bench_sub, bench_pub, mark_senders
"""

import json
import os
import re
import shlex
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from coldnotify_checker.histories import HistoryWriter
from coldnotify_load.marks import Mark, boot_id, payload_of
from coldnotify_testkit.command import RunningCommand, coldnotify
from coldnotify_testkit.stack import Stacks, Up
from coldnotify_testkit.waiting import WAIT_S
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader

pytestmark = [pytest.mark.kafka]
CONNECTIONS = 12
TOPICS = ("--topics", "6", "--groups", "2")
FAN_OUT = 2
RATE, SECONDS = 30, 1
PLACES = {"tcp": "gateway", "ws": "web", "mqtt": "mqtt"}
TLS_PLACES = {"wss": "web"}
"""By transport, the gateway's address in the ready file."""


@pytest.fixture(scope="module")
def up(stacks: Stacks, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with stacks.running(tmp_path_factory.mktemp("up"), "--gateways=2") as running:
        yield running


class Subscribers(RunningCommand):
    """A bench-sub that measures until it is told to end; its clients are complete."""

    def __init__(self, up: Up, directory: Path, transport: str, *options: str) -> None:
        self.history = directory / "published.jsonl"
        super().__init__(
            directory / "sub.txt",
            *(
                "bench-sub",
                "--json",
                "--transport",
                transport,
                "--gateway",
                str(up.report[(PLACES | TLS_PLACES)[transport]]),
            ),
            *("--connections", str(CONNECTIONS), "--processes", "2", "--seconds", "3000", *TOPICS),
            *("--published", str(self.history), *(options or ("--settle-s", str(WAIT_S)))),
        )
        self.wait_for(lambda: "measuring for" in self.output, "all clients are complete")

    def publish(self, up: Up, *options: str) -> dict[str, Any]:
        """Returns bench-pub's report."""
        done = coldnotify(
            *("bench-pub", "--json", "--rate", str(RATE), "--seconds", str(SECONDS), *TOPICS),
            *("--history", str(self.history), *options),
            topics_prefix=up.topics.prefix,
        )
        assert done.returncode == 0, done.stderr
        report: dict[str, Any] = json.loads(done.stdout)
        return report

    def ends(self, number: int = signal.SIGTERM) -> tuple[int, dict[str, Any]]:
        """Returns its exit code, and its report so far."""
        self.send(number)
        code = self.process.wait(2 * WAIT_S)
        (line,) = [line for line in self.output.splitlines() if line.startswith("{")]
        return code, json.loads(line)

    def client_pids(self) -> list[int]:
        """Returns the processes that its clients are in."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        lines = {int(pid): Path(f"/proc/{pid}/cmdline").read_bytes() for pid in children}
        return [pid for pid, line in lines.items() if b"spawn_main" in line]


@pytest.mark.parametrize("topics", ["objects", "channels"])
@pytest.mark.parametrize("transport", PLACES)
def test_all_that_is_published_comes_over_each_transport(up: Up, tmp_path: Path, transport: str, topics: str) -> None:
    of = ("--channels", "--domain", "channels") if topics == "channels" else ()
    options = ("--histogram", str(tmp_path / "latency.hlog"), "--series", str(tmp_path / "series.jsonl"))
    with Subscribers(up, tmp_path, transport, *of, *options, "--settle-s", str(WAIT_S)) as subscribers:
        published = subscribers.publish(up, *of, "--kafka", up.kafka)
        code, report = subscribers.ends(signal.SIGINT)
    assert code == 0, subscribers.output
    sent = published["sent"]
    assert published["acknowledged"] == report["acknowledged"] == report["sent"] == sent > 0
    assert report["expected"] == sent * FAN_OUT
    assert (report["lost"], report["received"] + report["outdone"]) == (0, report["expected"])
    assert report["latency"]["count"] == report["received"]
    assert 0 < report["latency"]["p50_ms"] <= report["latency"]["p99_ms"] <= report["latency"]["max_ms"]
    assert published["acknowledged_after"]["count"] == sent
    assert (report["complete"], report["connections"], report["connections_lost"]) == (CONNECTIONS, CONNECTIONS, 0)
    assert sum(report["connections_at"]["addresses"].values()) == CONNECTIONS
    assert sum(report["connections_at"]["gateways"].values()) == CONNECTIONS
    assert {"gateway", "bench-sub"} <= set(report["cpu_s"])
    with closing(HistogramLogReader(str(tmp_path / "latency.hlog"), HdrHistogram(1, 600_000_000, 3))) as read:
        assert read.get_next_interval_histogram().get_total_count() == report["received"]
    rows = [json.loads(line) for line in (tmp_path / "series.jsonl").read_text().splitlines()]
    assert rows
    assert rows[-1]["complete"] == CONNECTIONS


@pytest.mark.parametrize(
    ("way", "options"),
    [
        ("http", ("--publishers", "2")),
        ("http", ("--channels", "--domain", "channels", "--even")),
        ("gateway", ("--even", "--payload-bytes", "1000")),
        ("gateway", ("--channels", "--domain", "channels")),
        ("kafka", ("--publishers", "3", "--poisson")),
    ],
)
def test_all_comes_whoever_takes_the_publishes(up: Up, tmp_path: Path, way: str, options: tuple[str, ...]) -> None:
    of = ("--channels", "--domain", "channels") if "--channels" in options else ()
    with Subscribers(up, tmp_path, "tcp", *of, "--settle-s", str(WAIT_S)) as subscribers:
        published = subscribers.publish(up, f"--{way}", str(up.report[way]), *options)
        code, report = subscribers.ends()
    assert code == 0, subscribers.output
    assert published["acknowledged"] == published["sent"] > 0
    assert report["expected"] == published["sent"] * FAN_OUT


def test_all_comes_in_tls_by_a_token_for_all_clients(stacks: Stacks, tmp_path: Path) -> None:
    certs, token = tmp_path / "certs", tmp_path / "bench.jwt"
    assert coldnotify("certs", str(certs)).returncode == 0
    signed = coldnotify("token", str(certs / "token.key"), "--client", "bench/*/*", "--publisher", "bench")
    token.write_text(signed.stdout)
    proof = ("--ca-cert", str(certs / "ca.pem"), "--token-file", str(token))
    with (
        stacks.running(tmp_path, f"--tls={certs}", auth="any") as up,
        Subscribers(up, tmp_path, "wss", *proof, "--settle-s", str(WAIT_S)) as subscribers,
    ):
        refused = coldnotify(
            "bench-pub", "--seconds", "0.1", "--rate", "50", "--http", str(up.report["http"]), *proof[:2]
        )
        assert refused.returncode == 1
        assert "not acknowledged: a client certificate or a token is needed" in refused.stderr
        published = subscribers.publish(up, "--http", str(up.report["http"]), *proof)
        code, report = subscribers.ends()
    assert code == 0, subscribers.output
    assert report["expected"] == published["acknowledged"] * FAN_OUT > 0
    assert report["lost"] == 0


def test_the_commands_of_the_documentation_do_what_it_says(up: Up, tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "operating.md").read_text(encoding="utf-8")
    sub, pub = (shlex.split(line)[1:] for line in re.findall(r"^coldnotify bench-.*$", page, re.MULTILINE))
    here = {"bench.jsonl": str(tmp_path / "bench.jsonl"), "bench.hlog": str(tmp_path / "bench.hlog")}
    there = {"gateway": str(up.report["gateway"]), "kafka": up.kafka, "topics_prefix": up.topics.prefix}
    sub, pub = ([here.get(word, word) for word in words] for words in (sub, pub))
    sub[sub.index("--seconds") + 1] = "3000"
    with RunningCommand(tmp_path / "sub.txt", *sub, "--settle-s", str(WAIT_S), **there) as subscribers:
        subscribers.wait_for(lambda: "measuring" in subscribers.output, "all clients are complete")
        done = coldnotify(*pub, **there)
        assert done.returncode == 0, done.stderr
        assert re.search(r"([1-9]\d*) sent in .*, \1 acknowledged", done.stdout)
        subscribers.send(signal.SIGTERM)
        assert subscribers.process.wait(2 * WAIT_S) == 0, subscribers.output
    assert "0 lost" in subscribers.output
    assert all(Path(path).stat().st_size for path in here.values())


def test_a_process_of_clients_that_is_killed_is_a_loss(up: Up, tmp_path: Path) -> None:
    with Subscribers(up, tmp_path, "tcp", "--settle-s", "0") as subscribers:
        pids = subscribers.client_pids()
        assert len(pids) == 2
        os.kill(pids[0], signal.SIGKILL)
        subscribers.publish(up, "--kafka", up.kafka)
        code, report = subscribers.ends()
    assert code == 1
    assert report["processes_gone"] == 1
    assert report["lost"] >= CONNECTIONS / 2
    assert "Error: 1 processes of clients have ended" in subscribers.output
    assert "did not come" in subscribers.output


def test_a_publish_that_was_acknowledged_and_did_not_come_is_a_loss(up: Up, tmp_path: Path) -> None:
    with Subscribers(up, tmp_path, "ws", "--settle-s", "0") as subscribers:
        subscribers.publish(up, "--kafka", up.kafka)
        with HistoryWriter(subscribers.history) as history:
            last = [json.loads(line) for line in subscribers.history.read_text().splitlines()][-1]
            newest = last["t"] // 1000 + 1
            about = {"t": last["t"], "publisher": "nobody", "id": "dropped"}
            mark = json.loads(payload_of(Mark(boot_id(), "0" * 8, 3, 1, newest, 1), 120))
            history.write({"event": "publish", **about, "object": "bench/group-2/topic-3", "payload": mark})
            history.write({"event": "published", **about, "outcome": "acknowledged"})
        code, report = subscribers.ends()
    assert code == 1
    assert report["lost"] >= FAN_OUT
    assert "did not come" in subscribers.output


def test_a_publisher_that_is_told_to_end_says_what_it_has_sent(up: Up, tmp_path: Path) -> None:
    history = tmp_path / "published.jsonl"
    with RunningCommand(
        tmp_path / "pub.txt",
        *("bench-pub", "--json", "--rate", "50", "--seconds", "3000", *TOPICS, "--kafka", up.kafka),
        *("--history", str(history)),
        topics_prefix=up.topics.prefix,
    ) as publisher:
        publisher.wait_for(lambda: history.exists() and history.stat().st_size, "something is published")
        publisher.send(signal.SIGTERM)
        assert publisher.process.wait(2 * WAIT_S) == 0, publisher.output
    (line,) = [line for line in publisher.output.splitlines() if line.startswith("{")]
    report = json.loads(line)
    assert report["acknowledged"] == report["sent"] > 0
    assert coldnotify("check", str(history)).returncode == 0
