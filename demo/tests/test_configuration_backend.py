"""The back-end: serves before it publishes, and publishes until it is acknowledged."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, web
from coldnotify.publisher import PublishTimeout
from coldnotify_demo import configuration_backend
from coldnotify_demo.configuration_backend import ConfigurationBackend
from coldnotify_demo.hosting import serving

TIMEOUT_S = 30


class Publisher:
    """Fails the first times; remembers what it was given, and what the back-end served at that moment."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.published: list[tuple[str, str, int | None, bool]] = []
        self.url = ""
        self.served: list[tuple[int, bytes, str | None]] = []
        self.enough = asyncio.Event()

    async def publish_async(
        self, domain: str, group: str, object_id: str, *, version: int | None = None, deleted: bool = False
    ) -> None:
        async with ClientSession() as session, session.get(f"{self.url}/{group}/{object_id}") as answer:
            self.served.append((answer.status, await answer.read(), answer.headers.get("Configuration-Version")))
        if self.failures:
            self.failures -= 1
            raise PublishTimeout("too slow", indeterminate=True)
        assert domain == "animal.observer"
        self.published.append((group, object_id, version, deleted))
        self.enough.set()


async def watch(folder: Path, publisher: Any, after: "list[Any]") -> None:
    """Runs a back-end: waits for one publish, then does each of `after` and waits for the next one."""
    backend = ConfigurationBackend(folder, "animal.observer", publisher)
    async with serving([web.get("/{group}/{name}", backend.get)], 0) as publisher.url:
        watching = asyncio.create_task(backend.watch())
        for step in [*after, None]:
            await asyncio.wait_for(publisher.enough.wait(), TIMEOUT_S)
            publisher.enough.clear()
            if step is not None:
                step()
        watching.cancel()


async def test_a_unit_that_is_told_fetches_the_new_content(tmp_path: Path) -> None:
    file = tmp_path / "region-1" / "camera.yaml"
    file.parent.mkdir()
    file.write_text("fps: 1")
    publisher = Publisher()
    await watch(tmp_path, publisher, [lambda: file.write_text("fps: 2"), file.unlink])
    assert publisher.published == [
        ("region-1", "camera", 1, False),
        ("region-1", "camera", 2, False),
        ("region-1", "camera", 3, True),
    ]
    assert publisher.served[:2] == [(200, b"fps: 1", "1"), (200, b"fps: 2", "2")]
    assert publisher.served[2][0] == 404


async def test_a_publish_that_may_have_failed_is_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(configuration_backend, "RETRY_S", 0)
    file = tmp_path / "region-1" / "camera.yaml"
    file.parent.mkdir()
    file.write_text("fps: 1")
    publisher = Publisher(failures=3)
    await watch(tmp_path, publisher, [])
    assert publisher.published == [("region-1", "camera", 1, False)]
    assert len(publisher.served) == 4
