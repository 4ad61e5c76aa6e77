"""Records what `publish`, `send` and `watch` do in a history, for `coldnotify check`."""

import base64
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

from coldnotify_checker.histories import (
    CaughtUp,
    Connecting,
    Event,
    HistoryWriter,
    MessageTold,
    MissedTold,
    Publish,
    Published,
    Register,
    Send,
    Started,
    Stopped,
    Subscribe,
    Told,
    Unregister,
    Unsubscribe,
    now_us,
    read_lines,
)
from coldnotify_schemas.whole_numbers import whole_number

if TYPE_CHECKING:
    from coldnotify import Message, Missed, Notification
    from coldnotify.publisher import PublishError

_numbers = count()
_OF_MEMBERS = ("deleted", "source", "expires_at", "if_absent", "if_changed")
_SINCE_WORDS = ("oldest", "newest")


def noted(
    path: Path | None, domain: str, group: str, object_id: str, version: int | None, payload: Any, **fields: Any
) -> AbstractContextManager[Callable[[int], None]]:
    """Records the publish in its body; the body passes the acknowledged version. `path` None: nothing is recorded."""
    object_ = f"{domain}/{group}/{object_id}"
    said = message_payload(payload) if isinstance(payload, bytes) else payload
    return _noted(path, "version", partial(Publish, object=object_, version=version, payload=said, **fields))


def noted_send(
    path: Path | None, channel: str, message: str, said: object, **fields: Any
) -> AbstractContextManager[Callable[[int], None]]:
    """Records in its body that the message with this id is sent to domain/group/channel; the body passes its offset."""
    payload = message_payload(said) if isinstance(said, bytes) else said
    return _noted(path, "offset", partial(Send, channel=channel, message=message, payload=payload, **fields))


@contextmanager
def _noted(path: Path | None, says: str, event: Callable[..., Event]) -> Iterator[Callable[[int], None]]:
    """`says`: the name in the history of the value that the body passes."""
    if path is None:
        yield lambda _said: None
        return
    from coldnotify.publisher import PublishError

    with HistoryWriter(path) as writer:
        begun_us = now_us()
        # Several of a set may begin within a microsecond.
        name: dict[str, Any] = {"publisher": f"cli-{os.getpid()}", "id": f"{begun_us}-{next(_numbers)}"}
        writer.write(event(t=begun_us, **name))

        def answer(outcome: Literal["acknowledged", "failed", "unknown"], **said: Any) -> None:
            writer.write(Published(t=now_us(), outcome=outcome, **name, **said))

        try:
            yield lambda said: answer("acknowledged", **{says: said})
        except PublishError as error:
            answer("unknown" if error.indeterminate else "failed", **_refusal(error))
            raise
        except ValueError:
            # Bad input: nothing was sent.
            answer("failed")
            raise


def _refusal(error: "PublishError") -> dict[str, Any]:
    """Returns what a history says of a publish whose condition did not hold."""
    from coldnotify.http_publisher import SetConflict, VersionConflict

    if isinstance(error, VersionConflict):
        return {"lost": True, "newest": None if error.newest is None else error.newest.version}
    return {"lost": True} if isinstance(error, SetConflict) else {}


@contextmanager
def noted_set(
    path: Path | None, domain: str, group: str, named: Iterable[tuple[str, Mapping[str, Any]]]
) -> Iterator[Callable[[Sequence[int]], None]]:
    """Records in its body that these versions are published as one; the body passes those in force, in order."""
    if path is None:
        yield lambda _versions: None
        return
    with ExitStack() as stack:
        atomic = f"{os.getpid()}-{now_us()}"
        answers = []
        for name, fields in named:
            said = {field: fields[field] for field in _OF_MEMBERS if fields.get(field)}
            said |= {"if_version": fields.get("if_version"), "atomic": atomic}
            payload = fields.get("payload")
            if "payload_base64" in fields:
                payload = {"base64": fields["payload_base64"]}
            noting = noted(path, domain, group, name, fields.get("version"), payload, **said)
            answers.append(stack.enter_context(noting))

        def done(versions: Sequence[int]) -> None:
            for answer, version in zip(answers, versions, strict=True):
                answer(version)

        yield done


def message_payload(data: bytes) -> Any:
    """Returns a payload as a history has it: its JSON, else {"base64": ...}."""
    try:
        return said_as_json(data.decode())
    except (ValueError, RecursionError):
        return {"base64": base64.b64encode(data).decode()}


def said_as_json(text: str) -> Any:
    """Parses JSON that a history can write again. Raises ValueError, RecursionError."""
    said = json.loads(text, parse_constant=_no_json)
    if "\\u" in text:
        # Half a character by its number is JSON to Python, and cannot be written.
        json.dumps(said, ensure_ascii=False).encode()
    return said


def _no_json(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


class Notes:
    """The history of one `watch`."""

    def __init__(
        self, path: Path | None, domain: str, group: str, client: str, objects: Sequence[str], *, keeps_state: bool
    ) -> None:
        self._scope = f"{domain}/{group}"
        self._client = f"{self._scope}/{client}"
        self._connecting_us = 0
        life, wanted, self._channels = (
            _life(path, self._client, keeps_state) if path is not None else (0, set[str](), dict[str, Subscribe]())
        )
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

    def channels(self, names: Iterable[str], attributes: Iterable[str], since: str) -> list[str]:
        """Notes that exactly these channels are wanted from here on. Returns those that were, by the file, and are not
        any more.

        `since`: the value of --since. A time is recorded as now: a history does not know its meaning.
        """
        wanted = {f"{self._scope}/{name}" for name in names}
        said = sorted(set(attributes))
        dropped = []
        at = since.partition(".")[2]
        offset = whole_number(at)
        begins: Any = since if since in _SINCE_WORDS else "now" if offset is None else offset
        for name, before in sorted(self._channels.items()):
            if name not in wanted:
                dropped.append(name.removeprefix(f"{self._scope}/"))
            if name not in wanted or before.attributes != said:
                self._write(Unsubscribe(t=now_us(), client=self._client, channel=name))
        for name in sorted(wanted):
            kept = self._channels.get(name)
            if kept is None or kept.attributes != said:
                # With other attributes the channel goes on where it is, which the history does not know either.
                event = Subscribe(
                    t=now_us(),
                    client=self._client,
                    channel=name,
                    attributes=said,
                    since=begins if kept is None else "now",
                )
                self._write(event)
        return dropped

    def message(self, message: "Message") -> None:
        """The callback of a channel is entered."""
        self._write(
            MessageTold(
                t=now_us(),
                client=self._client,
                channel=f"{self._scope}/{message.channel}",
                offset=message.offset,
                previous=message.previous,
                message=message.id,
                payload=message_payload(message.data),
            )
        )

    def missed(self, missed: "Missed") -> None:
        """The callback for missed messages is entered."""
        self._write(
            MissedTold(
                t=now_us(),
                client=self._client,
                channel=f"{self._scope}/{missed.channel}",
                after=missed.after,
                before=missed.before,
                reason=missed.reason.lower(),
            )
        )

    def connecting(self) -> None:
        """connect() is about to be called."""
        self._connecting_us = now_us()
        self._write(Connecting(t=self._connecting_us, client=self._client))

    def caught_up(self) -> None:
        """The library reports that it is complete."""
        self._write(CaughtUp(t=now_us(), client=self._client, since=self._connecting_us))

    def told(self, notification: "Notification") -> None:
        """The callback is entered."""
        self._write(
            Told(
                t=now_us(),
                client=self._client,
                object=f"{self._scope}/{notification.object_id}",
                version=notification.version,
                payload=message_payload(notification.data) if notification.data else None,
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


def _life(path: Path, client: str, keeps_state: bool) -> tuple[int, set[str], dict[str, Subscribe]]:
    """The client's life, and which objects and channels it wants by the file: without a state file each start is a new
    life."""
    life, wanted, channels = 0, set[str](), dict[str, Subscribe]()
    for event in read_lines(path) if path.exists() else ():
        if isinstance(event, Started) and event.client == client:
            if event.life != life:
                wanted, channels = set(), {}
            life = event.life
        elif isinstance(event, Register) and event.client == client:
            wanted.add(event.object)
        elif isinstance(event, Unregister) and event.client == client:
            wanted.discard(event.object)
        elif isinstance(event, Subscribe) and event.client == client:
            channels[event.channel] = event
        elif isinstance(event, Unsubscribe) and event.client == client:
            channels.pop(event.channel, None)
    return (life, wanted, channels) if keeps_state and life else (life + 1, set(), {})
