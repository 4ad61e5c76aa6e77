"""HookClient: one webhook as a client of the service. Its callbacks are calls; its state file is a record in Kafka.

What a device's library promises, it promises here by the same code: the document is durable before the cursor passes,
and a callback that raises is called again. A call that is not applied raises.
"""

import asyncio
import base64
import json
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

import structlog
from coldnotify.aio import Connection, Notify, State
from coldnotify.errors import ColdNotifyError, StateError
from coldnotify.message import Message, Missed
from coldnotify.notification import Notification
from coldnotify_common.hooks.hook_records import Hook
from coldnotify_common.paced import Paced

from coldnotify_hooks import bodies_of_calls
from coldnotify_hooks.caller import Call, Caller
from coldnotify_hooks.core.receiver_answers import Meaning
from coldnotify_hooks.core.retrying import May, Retrying
from coldnotify_hooks.metrics import GIVEN_UP

log = structlog.get_logger()
_paced = Paced(log)

DOCUMENT_BYTES_MAX = 512 * 1024
_RETRY_S = (1.0, 30.0)
"""The library asks so often whether an item may be called again; `Retrying` says."""
_TRIES_MAX = 1_000_000_000
_STOP_S = 3.0
_FAREWELL_S = 5.0


class HookKeeper(Protocol):
    """The partition of a hook, as far as its client needs it."""

    generation: int
    """The claim's."""

    def may_call(self) -> bool:
        """Returns true if a call may begin now."""

    def store(self, key: str, value: bytes | None) -> None:
        """Makes a record of the state durable; blocks. Raises StateError."""

    def say(self, hook: Hook, status: dict[str, Any]) -> None:
        """Writes the status of a hook; blocks. Raises StateError."""

    def send_dead(self, hook: Hook, payload: dict[str, Any], message_id: str) -> None:
        """Sends to the channel of messages that were given up; blocks. Raises PublishError."""


class CallNotApplied(Exception):
    """The receiver has not applied an item; it is called again."""


class KeptState(State):
    """A state file that is a record: `write` returns once it is durable."""

    def __init__(self, document: bytes | None, write: Callable[[bytes], None]) -> None:
        super().__init__(None)
        self._write = write
        if document is not None:
            super().write(document)

    def write(self, data: bytes) -> None:
        """Makes the document durable. Raises StateError."""
        if len(data) > DOCUMENT_BYTES_MAX:
            raise StateError(f"the hook's state has {len(data)} bytes (at most {DOCUMENT_BYTES_MAX} are allowed)")
        self._write(data)
        super().write(data)


class HookClient:
    """One hook of a partition that this process has claimed."""

    def __init__(
        self, hook: Hook, stored: dict[str, Any], connection: Connection, keeper: HookKeeper, caller: Caller, key: bytes
    ) -> None:
        """`stored`: the fields of the record that the caller before has written, {} without one. `key`: the key of the
        secrets."""
        self.hook = hook
        self._keeper = keeper
        self._caller = caller
        self._key = key
        document = _document_of(stored)
        self._document = document
        wants = stored.get("wants")
        self._wanted_before: dict[str, Any] = wants if isinstance(wants, dict) else {}
        self.rules = Retrying(stored.get("marks") if stored.get("revision") == hook.revision else None)
        self._notify = Notify(
            hook.domain,
            hook.group,
            hook.client,
            KeptState(document, self._save),
            connection,
            on_error=self._on_error,
            tries_max=_TRIES_MAX,
            retry_min_s=_RETRY_S[0],
            retry_max_s=_RETRY_S[1],
            newest_bytes_max=0,
        )
        self._writing = threading.Lock()
        """Held from the making of a record to its end, so that records are in the order of the documents."""
        self._status: dict[str, Any] = {"suspended_ms": hook.revision} if self.rules.suspended else {}
        self._background: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Connects, unless the hook is suspended. Raises StateError."""
        self._want()
        if not self.rules.suspended:
            await self._notify.connect()

    def stored(self) -> dict[str, Any]:
        """Returns the fields of its record, for a client that goes on from it."""
        said: dict[str, Any] = json.loads(self._record())
        return said

    def replace(self, hook: Hook) -> bool:
        """Takes a hook over that has another secret only. Returns false if it differs in more."""
        if hook.key != self.hook.key or hook.revision != self.hook.revision:
            return False
        self.hook = hook
        return True

    async def stop(self) -> None:
        """Ends its calls."""
        await self._notify.disconnect(_STOP_S)
        for task in self._background:
            task.cancel()

    async def remove(self) -> None:
        """Ends it for good: the service is told that nothing is wanted any more, if it can be reached."""
        self._unregister(self._wants())
        await self._notify.wait_caught_up(_FAREWELL_S)
        await self.stop()
        await asyncio.to_thread(self._keeper.store, self.hook.key, None)

    def begin_test(self, test_id: str) -> None:
        """Calls the receiver once, and says what it answered."""
        self._later(self._test(test_id))

    async def _test(self, test_id: str) -> None:
        message_id = f"{bodies_of_calls.TEST}_{test_id}"
        reply = await self._caller.post(self._call(bodies_of_calls.TEST, message_id, {}, ""), self._keeper.may_call)
        said = {"id": test_id, "applied": reply.meaning is Meaning.APPLIED, "words": reply.words}
        await self._say(test=said)

    # What is wanted

    def _wants(self) -> dict[str, Any]:
        hook = self.hook
        return {"objects": list(hook.objects), "query": hook.query, "channels": list(hook.channels)}

    def _want(self) -> None:
        """Registers, and unregisters what the hook wanted when it was set otherwise."""
        hook, before = self.hook, self._wanted_before
        gone = {
            "query": before.get("query") if before.get("query") != hook.query else "",
            "channels": [one for one in before.get("channels", ()) if one not in hook.channels],
        }
        self._unregister(gone)
        for registration in self._notify.register_only(hook.objects):
            registration.subscribe(self._on_object)
        if hook.query:
            self._notify.register_query(hook.query).subscribe(self._on_object)
        for name in hook.channels:
            self._notify.channel(name).subscribe(self._on_message, on_missed=self._on_missed)

    def _unregister(self, wants: dict[str, Any]) -> None:
        if wants.get("objects"):
            self._notify.register_only([])
        if wants.get("query"):
            self._notify.unregister_query(str(wants["query"]))
        for name in wants.get("channels") or ():
            self._notify.unregister_channel(str(name))

    # The callbacks

    async def _on_object(self, notification: Notification) -> None:
        if notification.version is None:
            return  # nothing was published yet
        message_id, fields = bodies_of_calls.of_object(self.hook, notification)
        item, version = f"object:{notification.object_id}", str(notification.version)
        await self._deliver(bodies_of_calls.OBJECT, item, version, message_id, fields)

    async def _on_message(self, message: Message) -> None:
        message_id, fields = bodies_of_calls.of_message(self.hook, message)
        item = f"channel:{message.channel}"
        await self._deliver(bodies_of_calls.MESSAGE, item, message.position, message_id, fields)

    async def _on_missed(self, missed: Missed) -> None:
        message_id, fields = bodies_of_calls.of_missed(self.hook, missed)
        item = f"missed:{missed.channel}"
        await self._deliver(bodies_of_calls.MISSED, item, str(missed.before), message_id, fields)

    async def _deliver(self, kind: str, item: str, what: str, message_id: str, fields: dict[str, Any]) -> None:
        may = self.rules.may(item, what, time.time())
        if may is May.GIVE_UP:
            await self._give_up(kind, item, message_id, fields)
            return
        if may is May.WAIT:
            raise CallNotApplied(self.rules.last_words or "waits for another try")
        reply = await self._caller.post(self._call(kind, message_id, fields, what), self._keeper.may_call)
        if self.rules.on_reply(item, what, reply, time.time()):
            await self._save_marks()
        if self.rules.suspended:
            await self._suspend()
        if reply.meaning is not Meaning.APPLIED:
            raise CallNotApplied(reply.words)

    async def _give_up(self, kind: str, item: str, message_id: str, fields: dict[str, Any]) -> None:
        log.warning("a webhook's receiver has not taken it in a day", hook=self.hook.key, item=item, kind=kind)
        if kind == bodies_of_calls.MESSAGE:
            await asyncio.to_thread(self._keeper.send_dead, self.hook, fields, message_id)
        GIVEN_UP.inc()
        self.rules.given_up(item)
        await self._save_marks()

    async def _suspend(self) -> None:
        log.error("a webhook's receiver is gone: the hook is suspended until it is set again", hook=self.hook.key)
        await self._say(suspended_ms=time.time_ns() // 1_000_000)
        # Not from within a callback of it, which would wait for itself.
        self._later(self._notify.disconnect(_STOP_S))

    def _call(self, kind: str, message_id: str, fields: dict[str, Any], position: str) -> Call:
        body, content_type = bodies_of_calls.encoded(self.hook, kind, message_id, fields)
        return Call(
            url=self.hook.url,
            message_id=message_id,
            body=body,
            content_type=content_type,
            secrets=tuple(self.hook.secrets(self._key, time.time_ns() // 1_000_000)),
            claim=self._keeper.generation,
            position=position,
        )

    # The record

    def _save(self, document: bytes) -> None:
        """Blocks; the library calls it in a thread."""
        self._document = document
        self._store()

    def _record(self) -> bytes:
        document = None if self._document is None else base64.b64encode(self._document).decode()
        said = {
            "generation": self._keeper.generation,
            "revision": self.hook.revision,
            "wants": self._wants(),
            "marks": self.rules.marks(),
            "document": document,
        }
        return json.dumps(said).encode()

    async def _save_marks(self) -> None:
        await asyncio.to_thread(self._store)

    def _store(self) -> None:
        with self._writing:
            self._keeper.store(self.hook.key, self._record())

    async def _say(self, **status: Any) -> None:
        self._status |= {"revision": self.hook.revision, **status}
        said = dict(self._status)
        try:
            await asyncio.to_thread(self._keeper.say, self.hook, said)
        except StateError as error:
            _paced.log("a webhook's status is not written", level="warning", hook=self.hook.key, error=str(error))

    def _later(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    def _on_error(self, error: Exception) -> None:
        if isinstance(error, ColdNotifyError) and not isinstance(error.__cause__, CallNotApplied):
            _paced.log("a webhook's client", level="warning", hook=self.hook.key, error=str(error))


def _document_of(stored: dict[str, Any]) -> bytes | None:
    try:
        return base64.b64decode(stored["document"], validate=True)
    except (KeyError, TypeError, ValueError):
        return None
