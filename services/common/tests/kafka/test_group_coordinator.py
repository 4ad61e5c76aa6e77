"""Static members of a real group: seen, and removed at once; over TLS and SASL, too.

Stands for: kafka_node
"""

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import pytest
from coldnotify_common.kafka import kafka_node
from coldnotify_common.kafka.group_coordinator import CoordinatorUnavailable, GroupCoordinator
from coldnotify_common.kafka.kafka_login import Login, login_of
from coldnotify_common.security.certificates import Authority
from coldnotify_kafka.broker import EmbeddedBroker, free_port
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.users_kafka import ConfigWithUsers
from coldnotify_testkit.waiting import wait_for
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

TOPICS = TopicNames()
T = TypeVar("T")


def ask(
    bootstrap: str, do: Callable[[GroupCoordinator], Awaitable[T]], group: str = "removed", login: Login | None = None
) -> T:
    """Returns the answer of one question."""

    async def asked() -> T:
        coordinator = GroupCoordinator(bootstrap, login or Login(), group)
        try:
            return await do(coordinator)
        finally:
            coordinator.close()

    return asyncio.run(asked())


class Member:
    """A static member in a thread."""

    def __init__(self, bootstrap: str, instance: str) -> None:
        self.partitions: set[int] = set()
        self._polled = True
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "removed",
                "group.instance.id": instance,
                "session.timeout.ms": 60_000,
                "heartbeat.interval.ms": 300,
                "partition.assignment.strategy": "cooperative-sticky",
                "log_level": 0,
            }
        )
        self._consumer.subscribe([TOPICS.requests])
        self._thread = threading.Thread(target=self._poll)
        self._thread.start()

    def _poll(self) -> None:
        while self._polled:
            self._consumer.poll(0.05)
            self.partitions = {one.partition for one in self._consumer.assignment()}
        self._consumer.close()

    def leave_without_a_word(self) -> None:
        """Closes it: as a static member it tells Kafka nothing."""
        self._polled = False
        self._thread.join(60)


@contextmanager
def two_members(bootstrap: str) -> Iterator[tuple[Member, Member]]:
    members = Member(bootstrap, "a"), Member(bootstrap, "b")
    try:
        wait_for(lambda: all(len(one.partitions) == 4 for one in members), "half of the partitions at each")
        yield members
    finally:
        for one in members:
            one.leave_without_a_word()


@pytest.mark.kafka
def test_a_member_that_is_gone_is_removed_and_the_other_has_its_partitions(fresh_kafka: EmbeddedBroker) -> None:
    kafka = fresh_kafka.bootstrap
    with two_members(kafka) as (gone, stays):
        members = ask(kafka, lambda one: one.members())
        assert set(members) == {"a", "b"}
        assert {one.host for one in members.values()} == {"127.0.0.1"}
        gone.leave_without_a_word()
        assert not ask(kafka, lambda one: one.remove("a", "another-id")), "a process that joined since has another id"
        assert not ask(kafka, lambda one: one.remove("nobody", "no-id"))
        assert set(ask(kafka, lambda one: one.members())) == {"a", "b"}
        assert ask(kafka, lambda one: one.remove("a", members["a"].id))
        wait_for(lambda: len(stays.partitions) == 8, "all partitions, long before the session's end")
        assert not ask(kafka, lambda one: one.remove("a", members["a"].id)), "it is gone already"


@pytest.mark.kafka
def test_the_first_bootstrap_server_may_be_away(kafka: EmbeddedBroker) -> None:
    assert ask(f"127.0.0.1:{free_port()},{kafka.bootstrap}", lambda one: one.members(), group="nobody") == {}


def test_without_kafka_the_reason_is_told() -> None:
    with pytest.raises(CoordinatorUnavailable, match=r"group removed: .*refused|Connect call failed"):
        ask(f"127.0.0.1:{free_port()}", lambda one: one.members())


@pytest.mark.parametrize("answer", [b"\0\0\0\0", b"\x7f\xff\xff\xff", b"\0\0\0\4\0\0\0\x63", b"\0\0\0\4\0\0\0\1"])
def test_an_answer_that_is_none_ends_the_connection(answer: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_node, "ANSWER_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(answer)
                connection.recv(1000)

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(CoordinatorUnavailable):
            ask(f"127.0.0.1:{server.getsockname()[1]}", lambda one: one.members())
        thread.join(60)


@pytest.mark.kafka
@pytest.mark.own_broker("configures logins and rights in Kafka")
def test_it_logs_in_as_the_services_do(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "certs")
    certificate, key = authority.server("kafka", ["127.0.0.1"])
    keystore = tmp_path / "kafka.pem"
    keystore.write_bytes(key.read_bytes() + certificate.read_bytes())
    port = free_port()
    config = ConfigWithUsers(
        tmp_path / "data", free_port(), free_port(), users_port=port, users={"anna": "secret"}, keystore=keystore
    )
    with EmbeddedBroker.of(config) as kafka:
        upsert = UserScramCredentialUpsertion(
            "anna", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), b"other,secret"
        )
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        for future in admin.alter_user_scram_credentials([upsert]).values():
            future.result(60)

        def login(mechanism: str, password: str) -> Login:
            path = tmp_path / "options"
            path = path.with_suffix(f".{mechanism}.{len(password)}")
            path.write_text(
                f"security.protocol=SASL_SSL\nsasl.mechanism={mechanism}\nsasl.username=anna\nsasl.password={password}\n"
                f"ssl.ca.location={authority.directory / 'ca.pem'}\n"
            )
            return login_of(str(path))

        for mechanism, password in (("PLAIN", "secret"), ("SCRAM-SHA-512", "other,secret")):
            there = f"127.0.0.1:{port}"
            found = ask(there, lambda one: one.members(), group="nobody", login=login(mechanism, password))
            assert found == {}
            with pytest.raises(CoordinatorUnavailable, match=r"(?i)not logged in: .*(invalid|fail)"):
                ask(there, lambda one: one.members(), group="nobody", login=login(mechanism, "wrong"))
        with pytest.raises(CoordinatorUnavailable, match=r"it accepts .*PLAIN.*, not SCRAM-SHA-256"):
            ask(there, lambda one: one.members(), group="nobody", login=login("SCRAM-SHA-256", "secret"))
