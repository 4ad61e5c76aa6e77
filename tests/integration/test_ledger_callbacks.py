"""The ledger says that a client has applied a version when its callbacks have returned: client, explain, who-lacks and
applied_by agree with what the callbacks did, whatever is killed or away meanwhile."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from coldnotify import Connection, Notification, Notify, State
from coldnotify_testkit.looks import Looks
from coldnotify_testkit.stack import Up
from coldnotify_testkit.waiting import WAIT_S, wait_for

pytestmark = pytest.mark.kafka

DOMAIN = "ledger.test"


@contextmanager
def unit(
    up: Up, group: str, name: str, path: Path, object_: str, hear: Callable[[Notification], None], **more: Any
) -> Iterator[Notify]:
    connection = Connection(*up.gateway, backoff_max_s=1)
    notify = Notify(DOMAIN, group, name, State(path / name), connection, retry_min_s=0.05, retry_max_s=0.1, **more)
    notify.register(object_).subscribe(hear)
    notify.connect()
    try:
        yield notify
    finally:
        notify.disconnect()


def raises(_: Notification) -> None:
    raise ValueError("no such lens\nand more")


def test_a_new_client_has_not_applied_what_its_callback_is_busy_with(up: Up, tmp_path: Path) -> None:
    looks, goes_on, told = Looks(up, DOMAIN, "busy", "camera"), threading.Event(), []

    def hear(said: Notification) -> None:
        told.append(said.version)
        assert goes_on.wait(WAIT_S)

    with up.publisher(http=up.report["http"]) as publisher:
        publisher.publish(DOMAIN, "busy", "camera", version=1)
        with unit(up, "busy", "slow", tmp_path, "camera", hear):
            wait_for(lambda: told == [1], "the callback has begun")
            second = publisher.publish(DOMAIN, "busy", "camera", version=2)
            wait_for(lambda: looks.lackers().get("slow") is not None, "the ledger knows that it is pending")
            assert second.applied_by(0, timeout_s=WAIT_S).applied == 0
            assert looks.lackers()["slow"]["state"] == "pending"  # type: ignore[index]
            assert looks.verdict("slow") in ("pending", "sent", "on_its_way", "catching_up")
            goes_on.set()
            assert second.applied_by(1, timeout_s=WAIT_S) == (1, 0)
            assert (told, looks.lackers(), looks.verdict("slow")) == ([1, 2], {}, "applied")


def test_who_raises_lacks_it_online_offline_and_after_a_takeover(up: Up, tmp_path: Path) -> None:
    looks = Looks(up, DOMAIN, "raising", "camera")
    with up.publisher(http=up.report["http"]) as publisher:
        published = publisher.publish(DOMAIN, "raising", "camera", version=1)
        with unit(up, "raising", "broken", tmp_path, "camera", raises, tries_max=3) as notify:
            wait_for(lambda: notify.status.parked == ("camera",), "it is parked")
            wait_for(lambda: (looks.lackers().get("broken") or {}).get("state") == "parked", "the ledger knows it")
            said = looks.lackers()["broken"]
            assert said is not None
            assert (said["failures"], said["error"]) == (3, "ValueError: no such lens")
            assert looks.verdict("broken") == "parked"
            assert "1 with callbacks that raise" in looks.words()
        assert published.applied_by(0, timeout_s=WAIT_S) == (0, 1)

        def parked() -> bool:
            said = looks.lackers()["broken"]
            return said is not None and (said["state"], said["error"]) == ("parked", "ValueError: no such lens")

        assert parked(), "asleep"
        pids = up.kill("matcher")
        up.wait_ready(other_than=pids)
        assert parked(), "after a takeover"
        told: list[int | None] = []
        with unit(up, "raising", "broken", tmp_path, "camera", lambda said: told.append(said.version)):
            assert published.applied_by(1, timeout_s=WAIT_S) == (1, 0)
        assert (told, looks.lackers()) == ([1], {})
        wait_for(lambda: looks.verdict("broken") == "applied", "it is settled")


def test_who_raises_on_what_was_never_published_lacks_it(up: Up, tmp_path: Path) -> None:
    looks = Looks(up, DOMAIN, "unknown", "camera")
    with unit(up, "unknown", "picky", tmp_path, "camera", raises, tries_max=2, say_errors=False) as notify:
        wait_for(lambda: notify.status.parked == ("camera",), "it is parked")
        wait_for(lambda: (looks.lackers().get("picky") or {}).get("state") == "parked", "the ledger knows it")
        assert (looks.lackers()["picky"] or {})["error"] is None, "it keeps what was raised to itself"


def test_a_share_of_nobody_is_no_success(up: Up) -> None:
    with up.publisher(http=up.report["http"]) as publisher:
        published = publisher.publish(DOMAIN, "nobody", "camera", version=1)
        with pytest.raises(TimeoutError, match="0 of 0 registered clients"):
            published.applied_by(0.9, timeout_s=2)
        assert published.applied_by(0, timeout_s=WAIT_S) == (0, 0)
