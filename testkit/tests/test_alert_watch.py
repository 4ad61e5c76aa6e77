"""What watches over a drill goes on looking where Prometheus does not answer once."""

from http.client import RemoteDisconnected
from io import BytesIO
from typing import cast
from urllib.error import HTTPError

import pytest
from coldnotify_testkit.drills import alert_watch
from coldnotify_testkit.drills.alert_watch import Looking
from coldnotify_testkit.drills.injection import repeated
from coldnotify_testkit.prometheus import Prometheus
from coldnotify_testkit.waiting import wait_for


class Hiccups:
    """Of a Prometheus: three in three ways, then an alert."""

    def __init__(self) -> None:
        self.errors = [
            ConnectionResetError(),
            RemoteDisconnected(""),
            HTTPError("http://127.0.0.1", 503, "busy", None, BytesIO()),  # type: ignore[arg-type]
        ]

    def firing(self) -> set[str]:
        if self.errors:
            raise self.errors.pop()
        return {"ProcessDown"}


def test_a_prometheus_that_does_not_answer_once_does_not_end_the_looking(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alert_watch, "LOOK_S", 0.0)
    looking = Looking(cast(Prometheus, Hiccups()))
    with repeated(looking.look):
        wait_for(lambda: "ProcessDown" in looking.first_s, "it is seen")
