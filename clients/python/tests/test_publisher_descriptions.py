"""Descriptions that a publisher says of objects: records beside the object's own, before its version."""

import asyncio
import re
import time
from typing import Any

import pytest
from coldnotify.publisher import InvalidName, InvalidRecord, Published, Publisher
from coldnotify_testkit.object_records import written

DOMAIN, GROUP = "animal.observer", "region-1"


@pytest.mark.kafka
async def test_a_description_is_a_record_beside_the_object_and_comes_before_the_version(
    bootstrap: str, publisher: Publisher
) -> None:
    begun_ms = int(time.time() * 1000)
    described = publisher.describe(DOMAIN, GROUP, "lamp", {"on": True, "Room": 410.0, "Kind": "lamp"})
    publisher.publish(DOMAIN, GROUP, "lamp", version=7, description={"Room": 411})
    await publisher.publish_async(DOMAIN, GROUP, "lamp", version=8, description={})
    await publisher.describe_async(DOMAIN, GROUP, "lamp", None)
    publisher.describe(DOMAIN, GROUP, "lamp", None)
    key, said = "animal.observer/region-1/lamp", written(bootstrap)
    assert [(record["key"].removesuffix(key), record["value"]) for record in said] == [
        ("describe:", {"description": {"Kind": "lamp", "Room": 410, "on": True}}),
        ("describe:", {"description": {"Room": 411}}),
        ("", {"version": 7}),
        ("describe:", {"description": {}}),
        ("", {"version": 8}),
        ("describe:", {"description": None}),
        ("describe:", {"description": None}),
    ]
    assert len({record["partition"] for record in said}) == 1
    versions = [record["timestamp"] for record in said if record["key"] != key]
    assert versions == sorted(set(versions)), "each above the one before"
    assert described == Published(versions[0], said[0]["partition"], said[0]["offset"])
    assert begun_ms <= described.version


@pytest.mark.kafka
@pytest.mark.parametrize(
    ("description", "words"),
    [
        ({"9": 1}, "description: '9' is not a key"),
        ({"a": None}, "description: the value of 'a'"),
        ({"a": float("nan")}, "description: the value of 'a' is not a finite number"),
        ({1: 1}, "description: the key 1 is not text"),
        ([("a", 1)], "is not a mapping"),
    ],
)
def test_an_invalid_description_is_refused_before_anything_is_sent(
    bootstrap: str, publisher: Publisher, description: Any, words: str
) -> None:
    for say in (
        lambda: publisher.describe(DOMAIN, GROUP, "lamp", description),
        lambda: publisher.publish(DOMAIN, GROUP, "lamp", version=1, description=description),
    ):
        with pytest.raises(InvalidRecord, match=re.escape(words)):
            say()
    with pytest.raises(InvalidName, match="group"):
        publisher.describe(DOMAIN, "a b", "lamp", {})
    assert written(bootstrap) == []


@pytest.mark.kafka
async def test_publish_many_sends_descriptions_first(bootstrap: str, publisher: Publisher) -> None:
    many: dict[str, dict[str, Any]] = {"a": {"version": 1, "description": {"Room": 410}}, "b": {"version": 1}}
    publisher.publish_many(DOMAIN, GROUP, many)
    await publisher.publish_many_async(DOMAIN, GROUP, {"c": {"version": 1, "description": {"on": True}}})
    records = await asyncio.to_thread(written, bootstrap)
    assert [record["key"].rpartition("/")[2] for record in records] == ["a", "a", "b", "c", "c"]
    described = [record["value"] for record in records if record["key"].startswith("describe:")]
    assert described == [{"description": {"Room": 410}}, {"description": {"on": True}}]
    with pytest.raises(InvalidRecord, match=r"^b: description: "):
        publisher.publish_many(DOMAIN, GROUP, {"a": {"description": {"x": 1}}, "b": {"description": {"1": 1}}})
    assert len(await asyncio.to_thread(written, bootstrap)) == 5
