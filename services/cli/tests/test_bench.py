"""`coldnotify bench-sub` and `bench-pub`: what they refuse, and say. Runs are in load/tests/test_bench_runs.py."""

import sys
from pathlib import Path

import pytest
from coldnotify_cli.main import main
from coldnotify_testkit.command import coldnotify

NOWHERE = "127.0.0.1:1"
SUB, PUB = "bench-sub", "bench-pub"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((SUB, "--groups", "2"), "--topics: 1 are fewer than the groups (2)"),
        ((SUB, "--per-client", "2"), "--per-client: 2 of a group's topics are asked for, and a group has 1"),
        ((SUB, "--connections", "2", "--assign", "own"), "--topics: with --assign own, 2 clients of 1 groups need 2"),
        ((SUB, "--domain", "a b"), "--domain: 'a b' is not a name"),
        ((SUB, "--gateway", "x:y"), "--gateway: 'x:y' has no port"),
        ((SUB, "--transport", "wss"), "--transport: wss needs --ca-cert"),
        ((SUB, "--ca-cert", "/nowhere.pem"), "--ca-cert, --cert, --key: cannot be used"),
        ((SUB, "--processes", "2"), "--processes: 2 for 1 connections"),
        ((SUB, "--sources", "300.1"), "--sources: '300.1'"),
        ((SUB, "--sources", "127.0.0.0/8"), "--sources: 127.0.0.0/8 has 16777215 addresses, expected 1 to 4096"),
        ((SUB, "--connections", "0"), "--connections"),
        ((SUB, "--seconds", "0"), "--seconds"),
        ((PUB, "--payload-bytes", "99"), "--payload-bytes"),
        ((PUB, "--topics", "2", "--groups", "3"), "--topics: 2 are fewer than the groups (3)"),
        ((PUB, "--publishers", "2"), "--publishers: 2 for 1 topics"),
        ((PUB, "--kafka", NOWHERE, "--http", NOWHERE), "--http: publishes go to one of --kafka, --http, --gateway"),
        ((PUB, "--gateway", "x"), "--gateway: 'x' is not host:port"),
        ((PUB, "--channel-retentions", "x"), "--channel-retentions"),
    ],
)
def test_an_option_that_cannot_be_is_named(
    arguments: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert words in said.err


def test_limits_that_are_too_low_are_said_before_it_begins(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([SUB, "--connections", "200000000", "--gateway", NOWHERE]) == 1
    said = capsys.readouterr().err
    assert "this machine cannot hold 200,000,000 connections" in said
    assert "source ports: 200,000,000 needed" in said
    assert "memory in MiB" in said


@pytest.mark.parametrize("way", ["http", "gateway"])
def test_nobody_there_is_said(way: str, tmp_path: Path) -> None:
    done = coldnotify(PUB, f"--{way}", NOWHERE, "--history", str(tmp_path / "history"))
    assert (done.returncode, done.stdout) == (1, "")
    assert NOWHERE in done.stderr


def test_clients_that_nobody_takes_are_said() -> None:
    done = coldnotify(SUB, "--gateway", NOWHERE, "--connections", "3")
    assert (done.returncode, done.stdout) == (1, "")
    assert "0 of 3 connections are complete" in done.stderr
    assert "Connection refused" in done.stderr


@pytest.mark.parametrize("name", [SUB, PUB])
def test_a_missing_package_is_named_with_its_extra(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "hdrh", None)
    monkeypatch.setitem(sys.modules, "hdrh.histogram", None)
    assert main([name]) == 1
    assert "pip install 'coldnotify-server[bench]'" in capsys.readouterr().err
