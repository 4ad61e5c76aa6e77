"""What a run of the gateway does each quarter of a second.

Stands for: service
"""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from coldnotify_common.memory import Ebb
from coldnotify_common.security.authentication import Authenticator
from coldnotify_common.security.tls import ServerTls
from coldnotify_gateway.service import GatewayService
from coldnotify_gateway.settings import GatewaySettings
from coldnotify_testkit.waiting import until


async def test_floods_that_come_and_go_between_two_ticks_are_known_by_their_peaks(monkeypatch: pytest.MonkeyPatch):
    seen: list[tuple[int, int]] = []

    class Seen(Ebb):
        def tick(self, connections: int, now_s: float, peak: int) -> bool:
            seen.append((connections, peak))
            return super().tick(connections, now_s, peak)

    def crowd(now: int, peak: int) -> Any:
        ticked = {"tick": lambda: None, "take_connection_peak": lambda: peak}
        return SimpleNamespace(connections=now, connection_count=now, **ticked)

    monkeypatch.setattr("coldnotify_gateway.service.Ebb", Seen)
    settings = GatewaySettings(kafka="127.0.0.1:1")
    service = GatewayService(settings, {}, Authenticator(settings), ServerTls(settings))
    service._serving += [crowd(2, 600), crowd(0, 0)]
    shell: Any = SimpleNamespace(tick=lambda: None, gateway=crowd(3, 700))
    ticks = asyncio.create_task(service._tick(shell))
    await until(lambda: bool(seen), "a tick")
    ticks.cancel()
    assert seen[0] == (5, 1300)
