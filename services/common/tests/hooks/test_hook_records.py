import json

import pytest
from coldnotify_common.hooks.hook_records import (
    NAMES_MAX,
    InvalidHook,
    check_hook_name,
    decode_hook,
    encode_hook,
    hook_of,
    parse_key,
    shown_status,
)
from coldnotify_common.hooks.hook_urls import HookUrls
from coldnotify_schemas.names import InvalidName

URL = "https://example.org/hook"
DAY_MS = 24 * 3600 * 1000


def hook(now_ms=1000, before=None, **fields):
    return hook_of("d", "g", "n", {"url": URL, "objects": ["a", "ä/b"], **fields}, HookUrls(), now_ms, before)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"objects": None, "query": 'NAME STARTS WITH "a"'},
        {"objects": None, "channels": ["c"], "format": "cloudevents"},
    ],
)
def test_a_record_says_the_hook(fields):
    one = hook(**fields).rotated(2000)
    assert decode_hook(one.key.encode(), encode_hook(one)) == one


def test_setting_it_again_keeps_the_secret_and_ends_a_suspension():
    before = hook()
    after = hook(1000, before)
    assert after.rotation == before.rotation
    assert after.revision > before.revision
    status = {"revision": before.revision, "suspended_ms": 5}
    assert shown_status(before, status) == {"suspended_ms": 5}
    assert shown_status(after, status) == {"suspended_ms": None}
    assert shown_status(before, {"revision": before.revision, "suspended_ms": "x"}) == {"suspended_ms": None}


def test_a_rotation_signs_with_both_for_a_day():
    before = hook()
    after = before.rotated(5000)
    assert after.rotated(0).rotation > after.rotation
    assert len(before.secrets(32 * b"k", 5000)) == 1
    assert after.secrets(32 * b"k", 5000 + DAY_MS - 1) == [
        *after.secrets(32 * b"k", 5000 + DAY_MS),
        *before.secrets(32 * b"k", 0),
    ]


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"url": None}, "url"),
        ({"url": 3}, "url"),
        ({"objects": []}, "objects"),
        ({"objects": None}, "objects"),
        ({"objects": "a"}, "objects"),
        ({"objects": [""]}, "objects"),
        ({"objects": [256 * "x"]}, "objects"),
        ({"objects": [f"{number}" for number in range(NAMES_MAX + 1)]}, "objects"),
        ({"query": "x"}, "query"),
        ({"objects": None, "query": " "}, "query"),
        ({"objects": None, "query": 5000 * "x"}, "query"),
        ({"objects": None, "channels": [1]}, "channels"),
        ({"format": "xml"}, "format"),
        ({"format": []}, "format"),
        ({"more": 1}, "more"),
    ],
)
def test_a_wrong_field_is_named(fields, word):
    with pytest.raises(ValueError, match=f"^{word}: "):
        hook(**fields)


def test_a_name_leaves_room_for_its_clients_and_its_channels():
    longest = 54 * "n"
    assert check_hook_name(longest) == longest
    with pytest.raises(InvalidName, match=r"^hook: "):
        check_hook_name(longest + "n")
    with pytest.raises(InvalidName):
        check_hook_name("a/b")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"d/g/n", b"{"),
        (b"d/g/n", b"[]"),
        (b"d/g/n", json.dumps({"url": URL, "objects": ["a"]}).encode()),
        (b"d/g/n", json.dumps({"url": URL, "objects": ["a"], "revision": 1, "rotation": "x"}).encode()),
        (b"d/g", b"{}"),
        (b"\xff/g/n", b"{}"),
    ],
)
def test_a_damaged_record_is_refused(key, value):
    with pytest.raises(ValueError):
        decode_hook(key, value)


def test_keys_say_what_they_are_about():
    assert parse_key(b"d/g/n") == ("d", "g", "n", "")
    assert parse_key(b"d/g/n/status") == ("d", "g", "n", "status")
    for key in (None, b"d/g/n/other", b"d/g/n/status/x", b"x"):
        with pytest.raises(InvalidHook):
            parse_key(key)
