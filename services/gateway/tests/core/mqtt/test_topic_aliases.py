"""Topic aliases: whose number stands for what, and for how many topics."""

import gc

import pytest
from coldnotify_gateway.core.mqtt.topic_aliases import (
    CLIENT_ALIASES_MAX,
    NO_ALIAS,
    TOLD_ALIASES_MAX,
    Alias,
    DeviceAliases,
    group_aliases,
)
from coldnotify_schemas.mqtt.errors import ProtocolViolation
from coldnotify_schemas.mqtt.packets import Publish
from coldnotify_schemas.mqtt.properties import Properties
from coldnotify_schemas.mqtt.reasons import ReasonCode


def a_publish(topic: str, alias: int) -> Publish:
    return Publish(topic, b"x", properties=Properties(topic_alias=alias))


def test_an_alias_of_a_client_stands_for_its_last_topic() -> None:
    aliases = DeviceAliases()
    assert aliases.resolved(a_publish("a/b", 1)).topic == "a/b"
    assert aliases.resolved(a_publish("", 1)).topic == "a/b"
    aliases.resolved(a_publish("c", 1))
    aliases.resolved(a_publish("d", CLIENT_ALIASES_MAX))
    assert [aliases.resolved(a_publish("", one)).topic for one in (1, CLIENT_ALIASES_MAX)] == ["c", "d"]


@pytest.mark.parametrize("packet", [a_publish("", 2), a_publish("a", CLIENT_ALIASES_MAX + 1), a_publish("", 3)])
def test_an_alias_that_is_wrong(packet: Publish) -> None:
    aliases = DeviceAliases()
    aliases.resolved(a_publish("a", 1))
    aliases.resolved(a_publish("a" * 256, 3))
    with pytest.raises(ProtocolViolation, match="topic alias: ") as found:
        aliases.resolved(packet)
    assert found.value.reason is ReasonCode.TOPIC_ALIAS_INVALID


def test_devices_of_a_group_have_one_numbering_and_each_its_bound() -> None:
    one, other = (DeviceAliases(told_max, group_aliases("d/g")) for told_max in (64, 1))
    far = DeviceAliases(64, group_aliases("d/other"))
    assert (one.of("first"), other.of("second"), other.of("first")) == (Alias(1), NO_ALIAS, Alias(1))
    assert far.of("second") == Alias(1)
    one.told(Alias(1))
    assert (one.of("first"), other.of("first"), one.of("second")) == (Alias(1, known=True), Alias(1), Alias(2))
    one.told(NO_ALIAS)
    assert one.of("second") == Alias(2)
    assert one.of("abc") is NO_ALIAS, "it is as short as the alias"


def test_a_group_has_so_many_numbers_as_long_as_it_has_devices() -> None:
    aliases = DeviceAliases(1000, group_aliases("d/many"))
    numbers = [aliases.of(f"topic-{number}").number for number in range(TOLD_ALIASES_MAX + 2)]
    assert numbers == [*range(1, TOLD_ALIASES_MAX + 1), 0, 0]
    del aliases
    gc.collect()
    assert DeviceAliases(9, group_aliases("d/many")).of("another") == Alias(1)
