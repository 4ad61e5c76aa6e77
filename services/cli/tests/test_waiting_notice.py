"""What a command says while it waits."""

import pytest
from coldnotify_cli import waiting_notice as module
from coldnotify_cli.waiting_notice import waiting_notice
from coldnotify_testkit.command import coldnotify
from coldnotify_testkit.waiting import wait_for


def test_it_says_for_whom_it_waits_once_it_takes_long(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(module, "_AFTER_S", 0.01)
    said = ""

    def has_spoken() -> bool:
        nonlocal said
        said += capsys.readouterr().err
        return said.endswith("\n")

    with waiting_notice("Kafka (nowhere:1)", 60):
        wait_for(has_spoken, "the line")
    assert said == "waiting for Kafka (nowhere:1): no answer yet; giving up after 60 s\n"


def test_a_quick_wait_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with waiting_notice("Kafka (nowhere:1)", 60):
        pass
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    "command",
    [
        ["topics", "plan", "--topics-timeout-s", "4"],
        ["topics", "acls", "--topics-timeout-s", "4"],
        ["publish", "d", "g", "o", "--publish-timeout-s", "4"],
    ],
    ids=["plan", "acls", "publish"],
)
def test_commands_that_need_a_kafka_that_is_not_there_say_so(command: list[str]) -> None:
    done = coldnotify(*command, "--kafka", "127.0.0.1:1")
    assert done.returncode == 1
    assert "waiting for Kafka (127.0.0.1:1): no answer yet; giving up after 4 s" in done.stderr
