"""The caller of webhooks as a process: its HTTP port, the partitions that it claims, a client for each hook."""

import asyncio
import json
import secrets
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import structlog
from coldnotify.aio import Connection
from coldnotify.errors import ColdNotifyError, StateError
from coldnotify.publisher import Publisher
from coldnotify_common.errors import ServiceError
from coldnotify_common.hooks.hook_records import STATUS, Hook
from coldnotify_common.http.admin import AdminServer
from coldnotify_common.kafka.kafka_options import read_options
from coldnotify_common.log import configure
from coldnotify_common.paced import Paced
from coldnotify_common.security.inside import Inside
from coldnotify_common.settings import invalid
from coldnotify_common.stop import stop_event

from coldnotify_hooks.caller import Caller
from coldnotify_hooks.hook_client import HookClient
from coldnotify_hooks.metrics import FAILING, SERVED, SUSPENDED
from coldnotify_hooks.partition_claims import ClaimedPartition, PartitionClaims, PartitionEvents
from coldnotify_hooks.settings import CallerSettings

log = structlog.get_logger()
_paced = Paced(log)

_PORT_SETTING = "COLDNOTIFY_HOOKS_PORT / --hooks-port"
_TEST_AGE_S = 60.0
"""A test that was asked for so long ago waits for nobody."""
_COUNT_S = 1.0
_KEEPALIVE_S = 15
"""A gateway that died is noticed soon: no receiver pays for it by its battery."""
_DEAD_S = 10.0


def run(settings: CallerSettings) -> int:
    """Serves until SIGTERM or SIGINT. Exit code 0: stopped in order; 1: it could not serve. Raises SettingError."""
    configure(settings.log_format, settings.log_level, "hooks")
    service = HooksService(settings)
    try:
        asyncio.run(service.serve())
    except ServiceError as error:
        log.error(str(error))
        return 1
    log.info("stopped")
    return 0


class ServedPartition:
    """A claimed partition as its hooks' clients see it. Its methods may be called from any thread."""

    def __init__(
        self, claimed: ClaimedPartition, claims: PartitionClaims, settings: CallerSettings, dead: Publisher
    ) -> None:
        self._claimed = claimed
        self._claims = claims
        self._topics = settings.topics
        self._dead = dead
        self.generation = claimed.generation
        self.clients: dict[str, HookClient] = {}

    def may_call(self) -> bool:
        """Returns true if a call may begin now."""
        return self._claimed.ownership.may_call(time.monotonic())

    def store(self, key: str, value: bytes | None) -> None:
        """Writes a record of the state. Raises StateError, also once the partition is another process's."""
        if self._claimed.ownership.lost:
            raise StateError(f"{key}: another process has claimed it")
        self._claims.store(self._topics.hooks_state, self._claimed.number, key, value)

    def say(self, hook: Hook, status: dict[str, Any]) -> None:
        """Writes a hook's status. Raises StateError."""
        value = json.dumps(status).encode()
        self._claims.store(self._topics.hooks, self._claimed.number, f"{hook.key}/{STATUS}", value)

    def send_dead(self, hook: Hook, payload: dict[str, Any], message_id: str) -> None:
        """Sends what was given up. Raises PublishError."""
        self._dead.send(hook.domain, hook.group, hook.dead_channel, payload, id=message_id[:64])


class HooksService:
    """The process between its start and its stop."""

    def __init__(self, settings: CallerSettings) -> None:
        """Raises SettingError."""
        self._settings = settings
        self._key = settings.hooks_key()
        self._urls = settings.hook_urls()
        self._inside = Inside(settings)
        self._connection = _connection(settings)
        self._partitions: dict[int, ServedPartition] = {}
        self._turns: dict[int, asyncio.Lock] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._claims: PartitionClaims | None = None
        self._caller: Caller | None = None
        self._dead: Publisher | None = None

    def readiness(self) -> str | None:
        """None when ready, else why not. Without a key there is nothing to do, and nothing to wait for."""
        if self._key is None:
            return None
        return "starting" if self._claims is None else self._claims.not_ready

    async def serve(self) -> None:
        """Until SIGTERM or SIGINT. Raises ServiceError."""
        settings = self._settings
        self._inside.announce(_PORT_SETTING, settings.hooks_host)
        admin = AdminServer(
            settings.hooks_host,
            settings.hooks_port,
            readiness=self.readiness,
            setting=_PORT_SETTING,
            inside=self._inside,
            what="a caller of webhooks; this port is for looking in",
        )
        with stop_event() as stop:
            await admin.start()
            log.info("caller of webhooks started", http_port=admin.port, kafka=settings.kafka)
            try:
                if self._key is None:
                    log.warning("calls nobody: there is no key (--hooks-key-file)")
                    await stop.wait()
                else:
                    await self._serve(stop)
            finally:
                await admin.stop()

    async def _serve(self, stop: asyncio.Event) -> None:
        settings, loop = self._settings, asyncio.get_running_loop()
        self._caller = Caller(self._urls)
        self._dead = Publisher(
            settings.kafka,
            timeout_s=_DEAD_S,
            kafka_config={"log_level": 2, **read_options(settings.kafka_config)},
            channel_retentions=settings.channel_retentions,
            topics_prefix=settings.topics_prefix,
        )

        def later(number: int, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
            loop.call_soon_threadsafe(self._begin, number, work)

        events = PartitionEvents(
            on_claimed=lambda one, hooks, state: later(one.number, lambda: self._claimed(one, hooks, state)),
            on_lost=lambda number: later(number, lambda: self._lost(number)),
            on_hook=lambda number, key, hook: later(number, lambda: self._changed(number, key, hook)),
            on_test=lambda number, key, test, at_s: later(number, lambda: self._test(number, key, test, at_s)),
        )
        self._claims = PartitionClaims(settings, secrets.token_hex(8), events)
        self._claims.start()
        counting = asyncio.create_task(self._count())
        try:
            await stop.wait()
        finally:
            counting.cancel()
            # Hooks end while their state can still be written.
            await asyncio.gather(*(self._lost(number) for number in list(self._partitions)))
            await asyncio.to_thread(self._claims.stop)
            await self._caller.close()
            await self._dead.aclose()

    def _begin(self, number: int, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Begins work for a partition, behind all that came before for it."""
        task = asyncio.create_task(self._in_turn(number, work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _in_turn(self, number: int, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        async with self._turns.setdefault(number, asyncio.Lock()):
            try:
                await work()
            except Exception:
                log.exception("work for the hooks of a partition failed", partition=number)

    async def _claimed(self, one: ClaimedPartition, hooks: dict[str, Hook], state: dict[str, dict[str, Any]]) -> None:
        assert self._claims is not None
        assert self._dead is not None
        served = ServedPartition(one, self._claims, self._settings, self._dead)
        self._partitions[one.number] = served
        for key, hook in hooks.items():
            await self._start(served, hook, state.pop(key, {}))
        for key, stored in state.items():
            # A hook that was removed while nobody called: its client is ended as it would have been.
            await self._forget(served, key, stored)

    async def _lost(self, number: int) -> None:
        served = self._partitions.pop(number, None)
        if served is not None:
            await asyncio.gather(*(client.stop() for client in served.clients.values()), return_exceptions=True)

    async def _changed(self, number: int, key: str, hook: Hook | None) -> None:
        served = self._partitions.get(number)
        if served is None:
            return
        before = served.clients.get(key)
        if before is not None and hook is not None and before.replace(hook):
            return
        served.clients.pop(key, None)
        if before is not None and hook is None:
            await before.remove()
            return
        if before is not None:
            await before.stop()
        if hook is not None:
            await self._start(served, hook, {} if before is None else before.stored())

    async def _test(self, number: int, key: str, test_id: str, at_s: float) -> None:
        served = self._partitions.get(number)
        client = served.clients.get(key) if served is not None else None
        if client is not None and abs(time.time() - at_s) < _TEST_AGE_S:
            client.begin_test(test_id)

    async def _start(self, served: ServedPartition, hook: Hook, stored: dict[str, Any]) -> None:
        client = self._client(served, hook, stored)
        served.clients[hook.key] = client
        try:
            await client.start()
        except (ColdNotifyError, ValueError) as error:
            _paced.log("a webhook does not start", level="error", hook=hook.key, error=str(error))

    async def _forget(self, served: ServedPartition, key: str, stored: dict[str, Any]) -> None:
        domain, group, name = key.split("/")
        hook = Hook(domain=domain, group=group, name=name, url="", revision=0, rotation=0)
        client = self._client(served, hook, stored)
        try:
            await client.start()
            await client.remove()
        except (ColdNotifyError, ValueError) as error:
            _paced.log("a webhook that was removed is not forgotten yet", level="warning", hook=key, error=str(error))

    def _client(self, served: ServedPartition, hook: Hook, stored: dict[str, Any]) -> HookClient:
        assert self._caller is not None
        assert self._key is not None
        return HookClient(hook, stored, self._connection, served, self._caller, self._key)

    async def _count(self) -> None:
        while True:
            clients = [client for one in self._partitions.values() for client in one.clients.values()]
            SERVED.set(len(clients))
            SUSPENDED.set(sum(client.rules.suspended for client in clients))
            FAILING.set(sum(client.rules.failing for client in clients))
            await asyncio.sleep(_COUNT_S)


def _connection(settings: CallerSettings) -> Connection:
    """Returns the way to the gateways. Raises SettingError."""
    token_file = settings.hooks_gateway_token_file
    try:
        return Connection(
            [one.strip() for one in settings.hooks_gateway.split(",") if one.strip()],
            ca_cert=settings.hooks_gateway_ca or None,
            cert=settings.hooks_gateway_certificate or None,
            token=(lambda: Path(token_file).read_text().strip()) if token_file else None,
            keepalive_s=_KEEPALIVE_S,
        )
    except ValueError as error:
        raise invalid("hooks_gateway", str(error)) from None
