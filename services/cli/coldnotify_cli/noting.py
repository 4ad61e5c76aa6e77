"""What `publish` and `watch` note of themselves in a history, for `coldnotify check`."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

from coldnotify_checker.histories import (
    CaughtUp,
    Connecting,
    Event,
    HistoryWriter,
    Publish,
    Published,
    Register,
    Started,
    Stopped,
    Told,
    Unregister,
    now_us,
    read_lines,
)

if TYPE_CHECKING:
    from coldnotify import Notification


@contextmanager
def noted(
    path: Path | None, domain: str, group: str, object_id: str, version: int | None, payload: Any, **fields: Any
) -> Iterator[Callable[[int], None]]:
    """Notes the publish in its body; the body says the acknowledged version. `path` None: nothing is noted."""
    if path is None:
        yield lambda _version: None
        return
    from coldnotify.publisher import PublishError

    with HistoryWriter(path) as writer:
        begun_us = now_us()
        name: dict[str, Any] = {"publisher": f"cli-{os.getpid()}", "id": begun_us}
        object_ = f"{domain}/{group}/{object_id}"
        writer.write(Publish(t=begun_us, object=object_, version=version, payload=payload, **name, **fields))

        def answer(outcome: Literal["acknowledged", "failed", "unknown"], acknowledged: int | None = None) -> None:
            writer.write(Published(t=now_us(), outcome=outcome, version=acknowledged, **name))

        try:
            yield lambda acknowledged: answer("acknowledged", acknowledged)
        except PublishError as error:
            answer("unknown" if error.indeterminate else "failed")
            raise
        except ValueError:
            # Bad input: nothing was sent.
            answer("failed")
            raise


class Notes:
    """The history of one `watch`."""

    def __init__(
        self, path: Path | None, domain: str, group: str, client: str, objects: Sequence[str], *, keeps_state: bool
    ) -> None:
        self._scope = f"{domain}/{group}"
        self._client = f"{self._scope}/{client}"
        self._connecting_us = 0
        life, wanted = _life(path, self._client, keeps_state) if path is not None else (0, set())
        self._writer = None if path is None else HistoryWriter(path)
        self._write(Started(t=now_us(), client=self._client, life=life))
        names = {f"{self._scope}/{name}" for name in objects}
        for name in sorted(wanted - names):
            self._write(Unregister(t=now_us(), client=self._client, object=name))
        for name in sorted(names - wanted):
            self._write(Register(t=now_us(), client=self._client, object=name))

    def _write(self, event: Event) -> None:
        if self._writer is not None:
            self._writer.write(event)

    def connecting(self) -> None:
        """connect() is about to be called."""
        self._connecting_us = now_us()
        self._write(Connecting(t=self._connecting_us, client=self._client))

    def caught_up(self) -> None:
        """The library says that it is complete."""
        self._write(CaughtUp(t=now_us(), client=self._client, since=self._connecting_us))

    def told(self, notification: "Notification") -> None:
        """The callback is entered."""
        self._write(
            Told(
                t=now_us(),
                client=self._client,
                object=f"{self._scope}/{notification.object_id}",
                version=notification.version,
                payload=notification.payload,
                deleted=notification.deleted,
            )
        )

    def stopped(self) -> None:
        """disconnect() has returned."""
        self._write(Stopped(t=now_us(), client=self._client))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._writer is not None:
            self._writer.close()


def _life(path: Path, client: str, keeps_state: bool) -> tuple[int, set[str]]:
    """The client's life, and what it wants by the file: without a state file each start is a new life."""
    life, wanted = 0, set[str]()
    for event in read_lines(path) if path.exists() else ():
        if isinstance(event, Started) and event.client == client:
            wanted = wanted if event.life == life else set()
            life = event.life
        elif isinstance(event, Register) and event.client == client:
            wanted.add(event.object)
        elif isinstance(event, Unregister) and event.client == client:
            wanted.discard(event.object)
    return (life, wanted) if keeps_state and life else (life + 1, set())
