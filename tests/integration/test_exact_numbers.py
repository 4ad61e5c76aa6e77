"""Two versions that differ by one read as one number in a page's JSON.parse: each answer says them as texts, too.

Which answers may hold such a number, the OpenAPI documents say: all of them are asked.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, urlencode
from urllib.request import Request, urlopen

import pytest
from coldnotify_common.http.json_answers import EXACT_MAX
from coldnotify_common.http.known_parameters import of_operations
from coldnotify_common.http.openapi import PORTS, document, may_be_long
from coldnotify_testkit.server_sent_events import events_of
from coldnotify_testkit.stack import Stacks, Up
from coldnotify_testkit.waiting import wait_for

pytestmark = pytest.mark.kafka

LIMIT_S = 60
DOMAIN, GROUP, CLIENT, OBJECT, CHANNEL = "animal.observer", "exact", "one", "site/camera", "tasks"
FIRST = 2**60 + 1
"""And the next one is another number, that a double is not."""
BASE = f"/v1/domains/{DOMAIN}/groups/{GROUP}"


def ask(url: str, body: object = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    try:
        with urlopen(Request(url, data, {"Content-Type": "application/json"}), timeout=LIMIT_S) as answer:
            return json.load(answer)
    except HTTPError as error:
        with error:
            return {"status": error.code, **json.load(error)}


def numbers(said: Any) -> Iterator[int]:
    """The large numbers of an answer. Raises AssertionError where one has no text beside it."""
    if isinstance(said, dict):
        for name, value in said.items():
            if isinstance(value, int) and abs(value) > EXACT_MAX:
                assert said.get(f"{name}_text") == str(value), said
                yield value
            else:
                yield from numbers(value)
    elif isinstance(said, list):
        for one in said:
            yield from numbers(one)


def schemas(said: Any, components: dict[str, Any], seen: set[str]) -> Iterator[dict[str, Any]]:
    """All schemas that a part of a document leads to."""
    if isinstance(said, dict):
        if (name := said.get("$ref")) is not None:
            if name not in seen:
                seen.add(name)
                _, _, kind, named = name.split("/")
                yield from schemas(components[kind][named], components, seen)
            return
        if "properties" in said:
            yield said
        for value in said.values():
            yield from schemas(value, components, seen)
    elif isinstance(said, list):
        for one in said:
            yield from schemas(one, components, seen)


def may_say_a_version(kind: str) -> set[tuple[str, str]]:
    """Methods and paths of a kind of port whose answers may have an object's version."""
    said = document(kind, kind)
    return {
        (method, path)
        for path, operations in said["paths"].items()
        for method, operation in operations.items()
        for schema in schemas(operation["responses"], said["components"], set())
        for name, field in schema["properties"].items()
        if name in ("version", "wanted_version") and may_be_long(field)
    }


@pytest.mark.parametrize("kind", PORTS)
def test_each_field_of_an_answer_that_may_be_so_large_has_a_text(kind: str) -> None:
    said = document(kind, kind)
    found = list(
        schemas([o["responses"] for p in said["paths"].values() for o in p.values()], said["components"], set())
    )
    for schema in found:
        for name, field in schema["properties"].items():
            if may_be_long(field) and schema.get("additionalProperties") is not False:
                assert schema["properties"][f"{name}_text"]["type"] == "string", (kind, schema["description"], name)
                assert f"{name}_text" not in schema["required"]


@pytest.fixture
def alone(stacks: Stacks, tmp_path: Path) -> Iterator[Up]:
    """A stack of its own: an overview names only those who have lacked something for the longest time."""
    with stacks.running(tmp_path) as one:
        yield one


def test_each_answer_with_a_version_says_it_as_a_text_too(alone: Up) -> None:
    at = f"{alone.http_url}{BASE}"
    name = quote(OBJECT, safe="")
    asked: dict[tuple[str, str], list[Any]] = {}

    def note(method: str, path: str, answer: Any) -> Any:
        asked.setdefault((method, path), []).append(answer)
        return answer

    group = "/v1/domains/{domain}/groups/{group}"
    synced = {"domain": DOMAIN, "group": GROUP, "client": CLIENT, "registrations": [OBJECT]}
    note("post", "/v1/sync", ask(f"{alone.http_url}/v1/sync", synced))
    published = note("post", f"{group}/objects/{{object}}", ask(f"{at}/objects/{name}", {"version": FIRST + 1}))
    assert published["outcome"] == "published"
    stale = note("post", f"{group}/objects/{{object}}", ask(f"{at}/objects/{name}", {"version": FIRST}))
    assert stale["newest"]["version_text"] == str(FIRST + 1)
    many = note("post", f"{group}/objects", ask(f"{at}/objects?outcome=yes", {"objects": {OBJECT: {"version": FIRST}}}))
    assert many["results"][0]["version_text"] == str(FIRST)
    other = {"object": OBJECT, "newest": {"version": FIRST}, "version": FIRST}
    refused = note("post", f"{group}/resets", ask(f"{at}/resets", other))
    assert (refused["status"], refused["newest"]["version_text"]) == (409, str(FIRST + 1))
    member = {"object": OBJECT, "if_changed": True, "version": FIRST + 1}
    one = {"domain": DOMAIN, "group": GROUP, "set": [member]}
    atomic = note("post", "/v1/atomic", ask(f"{alone.http_url}/v1/atomic", one))
    assert atomic["members"] == [{"object": OBJECT, "version": FIRST + 1, "version_text": str(FIRST + 1)}]
    answer = note("post", "/v1/sync", ask(f"{alone.http_url}/v1/sync", synced))
    assert answer["notifications"] == [{"object": OBJECT, "version": FIRST + 1, "version_text": str(FIRST + 1)}]
    query = urlencode({"domain": DOMAIN, "group": GROUP, "object": OBJECT})
    with urlopen(f"{alone.http_url}/v1/events?{query}", timeout=LIMIT_S) as stream:
        note("get", "/v1/events", next(events_of(stream)).data)

    values = {"domain": DOMAIN, "group": GROUP, "client": CLIENT, "object": name, "channel": CHANNEL}
    queries = {
        "outcomes": {"partition": stale["partition"], "offsets": stale["offset"], "wait_s": 10},
        "explanation": {"object": OBJECT},
        "overview": {"overdue_s": 0},
        "objects": {"query": 'NAME STARTS WITH "site"'},
    }
    up_at = {"http": alone.http_url, "matcher": alone.matcher_url}
    # What somebody lacks shows in the overview, which is looked at every two seconds.
    ask(f"{at}/objects/{name}", {"version": FIRST + 2})
    for kind, url in up_at.items():
        for method, path in sorted(may_say_a_version(kind)):
            if method != "get" or path.endswith("/events"):
                continue
            end = path.rpartition("/")[2]
            for more in ({}, queries.get(end)) if end in ("objects", "overview") else (queries.get(end, {}),):
                known = of_operations(kind)[method, path]
                taken = {parameter: said for parameter, said in (more or {}).items() if parameter in known}
                question = f"{url}{path.format(**values)}?{urlencode(taken)}"

                def answered(question: str = question, method: str = method, path: str = path) -> bool:
                    found = ask(question)
                    return bool(list(numbers(note(method, path, found)))) or path.endswith("/description")

                wait_for(answered, f"a large number of {question}")
    with urlopen(f"{alone.http_url}/v1/console/events", timeout=LIMIT_S) as stream:
        note("get", "/v1/console/events", next(events_of(stream)).data)

    wanted = may_say_a_version("http") | may_say_a_version("matcher") | may_say_a_version("devices")
    said = {at for at, answers in asked.items() if list(numbers(answers))}
    # A description's version is Kafka's time in ms.
    assert {at for at in wanted - said if not at[1].endswith("/description")} == set()
