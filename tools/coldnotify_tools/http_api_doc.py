"""The site's reference of HTTP: every operation of every port, made from what the ports answer at /v1/openapi.json."""

from collections.abc import Iterator
from typing import Any

from coldnotify_common.http.json_answers import is_text
from coldnotify_common.http.openapi import PORTS, document

_Json = dict[str, Any]

_HEAD = """# HTTP reference

Every HTTP port answers `GET /v1/openapi.json` with its API as OpenAPI 3.1, for tools that make clients or tests of it;
this page is made from the same descriptions. [HTTP API](../http-api.md) says how to use them. Wherever a GET is, a HEAD
is, too. Every answer has
the header `X-Request-Id`: the request's own, or a new one. An error inside is a 500 with `error`, a method that a path
does not have is a 405. Answers may get more fields. Requests with fields that are not known are refused.

A page's `JSON.parse` reads whole numbers above 2^53 wrong, and versions, offsets and times may be that large. Where one
is, a text stands beside it: `"version":1700000000000000001,"version_text":"1700000000000000001"`. The tables below
leave these texts out. What publishers have written, payloads and descriptions, is as they wrote it.

Operations that say *known* may also answer 401 (no trusted certificate or token says who asks), 403 (who asks may not
do this, or is a page of another origin) and 421 (the port does not answer to this host name).
"""
_TITLES = {
    "http": ("The HTTP service", "Port 55002. It is the one that back-ends, operators and browsers ask."),
    "devices": ("A gateway's port for devices", "Port 55003, for WebSocket and HTTP."),
    "matcher": ("A matcher's port for looking in", "Port 51001. It answers for the partitions that it serves."),
    "gateway": ("A gateway's port for looking in", "Port 55001."),
    "service": ("The ports of other services and jobs", "Those of the usage job and of jobs of your own."),
}
_KNOWN = ("401", "403", "421")


def generate() -> str:
    """The reference as Markdown."""
    documents = {kind: document(kind, kind) for kind in PORTS}
    parts = [_HEAD]
    shown: dict[str, str] = {}
    for kind, (title, words) in _TITLES.items():
        parts.append(f"\n## {title}\n\n{words}\n")
        parts += _of_port(title, documents[kind], shown)
    schemas = {name: schema for one in documents.values() for name, schema in one["components"]["schemas"].items()}
    parts.append("\n## Schemas\n\nFields that may be absent have a `?` behind their names.\n")
    parts += [_schema(name, schemas[name]) for name in sorted(schemas)]
    return "".join(parts)


def _of_port(title: str, said: _Json, shown: dict[str, str]) -> Iterator[str]:
    """Its operations by tag; of those that are described already, only which. `shown`: by their text, at which port."""
    by_tag: dict[str, list[str]] = {}
    same = []
    for path, operations in said["paths"].items():
        for method, operation in operations.items():
            text = _operation(said, method, path, operation)
            if text in shown:
                same.append(f"- `{method.upper()} {path}`\n")
                continue
            shown[text] = title
            by_tag.setdefault(operation["tags"][0], []).append(text)
    for tag, texts in by_tag.items():
        if len(by_tag) > 1:
            yield f"\n### {tag}\n"
        yield from texts
    if same:
        yield f"\nAs described above:\n\n{''.join(same)}"


def _operation(said: _Json, method: str, path: str, operation: _Json) -> str:
    parts = [f"\n#### `{method.upper()} {path}`\n\n{operation['summary']}."]
    if "description" in operation:
        parts.append(f" {operation['description']}")
    known = "security" not in operation
    parts.append(" *Known.*\n" if known else "\n")
    parameters = [_resolved(said, one) for one in operation["parameters"]]
    if parameters:
        parts.append("\n| parameter | in | type | |\n|---|---|---|---|\n")
        parts += [
            f"| `{one['name']}`{'' if one['required'] else '?'} | {one['in']} | {_type(one['schema'])} | "
            f"{_cell(one['description'])} |\n"
            for one in parameters
        ]
    if "requestBody" in operation:
        ((kind, content),) = operation["requestBody"]["content"].items()
        parts.append(f"\nBody ({kind}): {_type(content['schema'])}\n")
    parts.append("\n| status | answer | |\n|---|---|---|\n")
    for status, one in operation["responses"].items():
        if known and status in _KNOWN:
            continue
        answer = _resolved(said, one)
        kinds = [_kind(kind, content["schema"]) for kind, content in answer.get("content", {}).items()]
        parts.append(f"| {status} | {', '.join(kinds)} | {_cell(answer['description'])} |\n")
    return "".join(parts)


def _kind(kind: str, schema: _Json) -> str:
    """Describes the content of an answer in a few words."""
    if kind == "application/json":
        return _type(schema)
    if kind == "text/event-stream":
        return f"{kind} of {_type(schema['properties']['data']['contentSchema'])}"
    return kind


def _resolved(said: _Json, one: _Json) -> _Json:
    if "$ref" not in one:
        return one
    _, _, kind, name = one["$ref"].split("/")
    found: _Json = said["components"][kind][name]
    return found


def _schema(name: str, schema: _Json) -> str:
    text = f"\n### {name}\n\n{schema['description']}\n"
    if "properties" not in schema:
        return f"{text}\n{_type(schema)}\n"
    rows = [
        f"| `{field}`{'' if field in schema['required'] else '?'} | {_type(one)} | {_cell(one['description'])} |\n"
        for field, one in schema["properties"].items()
        if not is_text(field, schema["properties"])
    ]
    return f"{text}\n| field | type | |\n|---|---|---|\n{''.join(rows)}"


def _type(schema: _Json) -> str:
    """A schema in few words, with links to those that have a name."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(map(_type, schema["anyOf"]))
    if "enum" in schema:
        words = ", ".join("null" if one is None else f"`{one}`" for one in schema["enum"])
        return f"{words}; default `{schema['default']}`" if "default" in schema else words
    kinds = schema.get("type", "any JSON")
    words = kinds if isinstance(kinds, str) else " or ".join(kinds)
    if "array" in words:
        words = words.replace("array", f"list of {_type(schema['items'])}")
        return f"{words}, at most {schema['maxItems']}" if "maxItems" in schema else words
    if "object" in words and "additionalProperties" in schema and schema["additionalProperties"] is not False:
        return words.replace("object", f"map of {_type(schema['additionalProperties'])}")
    return words + _bounds(schema)


def _bounds(schema: _Json) -> str:
    if "minimum" in schema and "maximum" in schema:
        words = f", {schema['minimum']} to {schema['maximum']}"
    elif "exclusiveMinimum" in schema:
        words = f", above {schema['exclusiveMinimum']}"
    elif "pattern" in schema:
        words = f", `{schema['pattern'].replace('|', chr(92) + '|')}`"
    elif "maxLength" in schema:
        words = f", at most {schema['maxLength']}"
    else:
        words = ""
    return words + (f", default {schema['default']}" if "default" in schema else "")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    print(generate(), end="")
