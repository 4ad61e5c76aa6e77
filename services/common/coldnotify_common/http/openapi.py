"""Serves a port's HTTP API as OpenAPI 3.1 at /v1/openapi.json, built from the descriptions in `api/` for its routes.

The descriptions are YAML in a short form, because the long one is hard to read. Paths are written as in OpenAPI; in
them

- a parameter given as a text is one of `parameters`; those of the path are added automatically;
- an answer given as a text is one of `responses`, or a schema that is answered as JSON; one with `events` is a stream
  of server-sent events, and the data of each event is JSON of that schema;
- `open` marks operations without authorization: the others may answer 401, 403 and 421, too;
- each operation below /v1/ may answer 400: a query parameter that it does not have is refused (`known_parameters`).

A field of an answer that may be above 2^53, as `version` may, is repeated as a text if it is: `version_text`.

A schema's `fields` are `name: TYPE - words`; `name?` may be absent. A TYPE is one of `_TYPES`, a schema's name, or
words in brackets, `(one|another)`; after it, `[]` makes it a list, `[9]` a list of at most nine, `{}` a map from texts
to it, and `?` allows null. A schema that is `closed` has no other fields.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from typing import Any

from aiohttp import web
from coldnotify_schemas.names import OBJECT_BYTES_MAX
from coldnotify_schemas.protocol import (
    MESSAGE_ID_BYTES_MAX,
    MESSAGE_KEY_BYTES_MAX,
    NAME_LENGTH_MAX,
    QUERY_BYTES_MAX,
    SYNC_WAIT_S_MAX,
)
from coldnotify_schemas.records import VERSION_MAX

from coldnotify_common.http.json_answers import EXACT_MAX, text_of

PATH = "/v1/openapi.json"
_SERVICE = ("probes", "about")
_INSIDE = (*_SERVICE, "process")
PORTS: Mapping[str, tuple[str, ...]] = {
    "http": (*_SERVICE, "publishing", "group", "looking", "devices", "http"),
    "devices": ("about", "devices"),
    "matcher": (*_INSIDE, "group", "looking", "matcher"),
    "gateway": (*_INSIDE, "gateway"),
    "service": _INSIDE,
}
"""The files of `api/` that describe each kind of port. An operation of a later file replaces that of an earlier one.

http: the HTTP service's port. devices: a gateway's port for WebSocket and HTTP. The others are for inspection.
"""

_Json = dict[str, Any]

_METHODS = ("get", "put", "post", "delete", "options", "patch")
_NUMBER_MAX = 10**12
_TYPES: Mapping[str, _Json] = {
    "any": {},
    "text": {"type": "string"},
    "bool": {"type": "boolean"},
    "number": {"type": "number"},
    "int": {"type": "integer", "format": "int64", "maximum": EXACT_MAX},
    "long": {"type": "integer", "format": "int64"},
    "ms": {"type": "integer", "format": "int64"},
    "whole": {"type": "integer", "minimum": 0, "maximum": VERSION_MAX},
    "name": {"type": "string", "pattern": rf"^[A-Za-z0-9._-]{{1,{NAME_LENGTH_MAX}}}$"},
    "object": {"type": "string", "minLength": 1, "maxLength": OBJECT_BYTES_MAX},
    "query": {"type": "string", "minLength": 1, "maxLength": QUERY_BYTES_MAX},
    "id": {"type": "string", "maxLength": MESSAGE_ID_BYTES_MAX},
    "key": {"type": "string", "maxLength": MESSAGE_KEY_BYTES_MAX},
    "base64": {"type": "string", "format": "byte"},
    "since": {"type": ["string", "integer"]},
    "wait": {"type": "number", "minimum": 0, "maximum": SYNC_WAIT_S_MAX},
    "rate": {"type": "number", "exclusiveMinimum": 0, "maximum": _NUMBER_MAX},
    "burst": {"type": "number", "minimum": 0.1, "maximum": 600, "default": 2.0},
    "share": {"type": "number", "minimum": 0, "maximum": 1, "default": 0.1},
    "most": {"type": "integer", "minimum": 1, "maximum": _NUMBER_MAX},
}
"""The schemas of simple types, by name. `ms`: Unix time. Numbers other than `int` may be above 2^53; an answer repeats
them as a text then."""
_FIELD = re.compile(r"(?P<type>\w+|\([^)]*\))(?P<more>(?:\[\d*\]|\{\}|\?)*) - (?P<words>.*)", re.DOTALL)
_MORE = re.compile(r"\[\d*\]|\{\}|\?")
_REF = "#/components/"
_TEXT: _Json = {"type": "string", "pattern": "^-?[0-9]{16,19}$"}
_RETRY_AFTER = {"description": "Seconds after which to come back.", "schema": {"type": "integer", "minimum": 1}}
_SECURITY = {
    "token": {"type": "http", "scheme": "bearer", "description": "A signed token, where the service takes them."},
    "certificate": {"type": "mutualTLS", "description": "A client certificate, where the service takes them."},
}
_FOR_KNOWN = ("NotAuthenticated", "NotAllowed", "OtherHost")
_WORDS = (
    "What this port answers. Wherever a GET is, a HEAD is, too. Every answer has `X-Request-Id`: the request's own, or "
    "a new one. Which of the securities are taken, if any, is the operator's choice. Answers may get more fields. A "
    "whole number of an answer that is above 2^53, as a version may be, has a text of it beside it: `version_text`."
)


def route(what: str, kind: str, routes: Iterable[web.AbstractRouteDef]) -> web.RouteDef:
    """Returns the route GET /v1/openapi.json for a port of this kind, one of PORTS, with these routes, this one, and /.

    `what`: the port's name in the answer to /.
    """
    asked = {(one.method, one.path) for one in routes if isinstance(one, web.RouteDef)} | {("GET", PATH), ("GET", "/")}

    async def openapi(_request: web.Request) -> web.Response:
        return web.json_response(document(what, kind, frozenset(asked)))  # noqa: TID251  it is a schema

    return web.get(PATH, openapi)


@cache
def document(what: str, kind: str, asked: frozenset[tuple[str, str]] | None = None) -> _Json:
    """Returns the OpenAPI document of a port of this kind; with `asked`, only these methods and paths (as routes)."""
    said = _read(("common", *PORTS[kind]))
    wanted = None if asked is None else {(method.lower(), _template(path)) for method, path in asked}
    paths: _Json = {}
    for path, operations in said["paths"].items():
        found = {
            method: _operation(method, path, operation, said["responses"])
            for method, operation in operations.items()
            if wanted is None or (method, path) in wanted
        }
        if found:
            paths[path] = found
    components: _Json = {
        "parameters": {name: _parameter(one.get("name", name), one) for name, one in said["parameters"].items()},
        "responses": {name: _answer(one) for name, one in said["responses"].items()},
        "schemas": {name: _schema(one) for name, one in said["schemas"].items()},
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": f"ColdNotify: {what}",
            "version": version("coldnotify-server"),
            "description": _WORDS,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "security": [{}, *({name: []} for name in _SECURITY)],
        "tags": [{"name": name} for name in dict.fromkeys(t for o in _operations(paths) for t in o["tags"])],
        "paths": paths,
        "components": {**_used(paths, components), "securitySchemes": _SECURITY},
    }


def _operations(paths: _Json) -> list[_Json]:
    return [operation for operations in paths.values() for operation in operations.values()]


def _read(pieces: Iterable[str]) -> _Json:
    """Merges all pieces. Raises ValueError if two of them define a name differently."""
    from coldnotify_kafka.yaml_text import read_yaml  # imported on request, because a service has to be ready soon

    whole: _Json = {"paths": {}, "parameters": {}, "responses": {}, "schemas": {}}
    for piece in pieces:
        said = read_yaml(files("coldnotify_common").joinpath("api", f"{piece}.yaml").read_text(encoding="utf-8"))
        for path, operations in said.pop("paths", {}).items():
            if unknown := operations.keys() - set(_METHODS):
                raise ValueError(f"{piece}.yaml: {path}: {unknown} is not a method")
            whole["paths"].setdefault(path, {}).update(operations)
        for kind, named in said.items():
            if twice := whole[kind].keys() & named.keys():
                raise ValueError(f"{piece}.yaml: {kind}: {twice} is there already")
            whole[kind].update(named)
    return whole


def _template(path: str) -> str:
    """Returns a route's path in OpenAPI's form."""
    return re.sub(r"\{(\w+):[^}]*\}", r"{\1}", path)


def _operation(method: str, path: str, said: _Json, known: Collection[str]) -> _Json:
    """Returns an operation in its full form. `known`: names of answers."""
    parameters = [*re.findall(r"\{(\w+)\}", path), *said.get("parameters", [])]
    answers = dict(said["responses"])
    if path.startswith("/v1/"):
        answers.setdefault(400, "BadRequest")
    if not said.get("open"):
        answers |= {str(status): name for status, name in zip((401, 403, 421), _FOR_KNOWN, strict=True)}
    made: _Json = {
        "operationId": said.get("id") or _operation_id(method, path),
        "tags": said["tags"],
        "summary": said["summary"],
        **({"description": said["description"]} if "description" in said else {}),
        "parameters": [
            {"$ref": f"{_REF}parameters/{one}"} if isinstance(one, str) else _parameter(one["name"], one)
            for one in parameters
        ],
        "responses": {
            str(status): {"$ref": f"{_REF}responses/{one}"}
            if isinstance(one, str) and one in known
            else _answer({"is": "Done.", "schema": one} if isinstance(one, str) else one)
            for status, one in sorted(answers.items(), key=lambda item: int(item[0]))
        },
    }
    if said.get("open"):
        made["security"] = []
    if body := said.get("body"):
        content = {"application/json": {"schema": {"$ref": f"{_REF}schemas/{body['schema']}"}}}
        made["requestBody"] = {"required": not body.get("optional", False), "content": content}
    return made


def _operation_id(method: str, path: str) -> str:
    parts = re.sub(r"\w+/\{(\w+)\}", r"\1", path.removeprefix("/v1").strip("/"))
    return "_".join([method, *re.findall(r"\w+", parts.removeprefix("domain/group/"))])


def _parameter(name: str, said: _Json) -> _Json:
    if "schema" in said:
        schema, words = said["schema"], said["is"]
    else:
        schema = _field(said["is"])
        words = schema.pop("description")
    required = said["in"] == "path" or said.get("required", False)
    return {"name": name, "in": said["in"], "required": required, "description": words, "schema": schema}


def _answer(said: _Json) -> _Json:
    made: _Json = {"description": said["is"]}
    if after := said.get("retry_after"):
        made["headers"] = {"Retry-After": {**_RETRY_AFTER, "required": after is True}}
    content: _Json = {}
    if "schema" in said:
        content["application/json"] = {"schema": {"$ref": f"{_REF}schemas/{said['schema']}"}}
    if "text" in said:
        content[said["text"]] = {"schema": {"type": "string"}}
    if "events" in said:
        content["text/event-stream"] = {"schema": _event(said["events"])}
    return {**made, "content": content} if content else made


def _event(schema: str) -> _Json:
    """Returns one event of a stream, in the form used by tools that know streams: OpenAPI 3.1 itself defines none."""
    data = {"contentMediaType": "application/json", "contentSchema": {"$ref": f"{_REF}schemas/{schema}"}}
    fields: _Json = {"data": {"type": "string", **data}, "event": {"type": "string"}, "id": {"type": "string"}}
    fields |= {"retry": {"type": "integer", "maximum": EXACT_MAX}}
    return {"type": "object", "properties": fields, "required": ["data"]}


def _schema(said: _Json) -> _Json:
    """Returns a schema in its full form."""
    made: _Json = {"description": said["is"]}
    if "schema" in said:
        return {**made, **said["schema"]}
    if "one_of" in said:
        return made | {"anyOf": [_typed(one) for one in said["one_of"]]}
    if "map" in said:
        made |= {"type": "object", "additionalProperties": {"$ref": f"{_REF}schemas/{said['map']}"}}
        return made | {"propertyNames": {"pattern": said["keys"]}, "maxProperties": said["most"]}
    fields = said["fields"]
    properties = {name.removesuffix("?"): _field(words) for name, words in fields.items()}
    made |= {
        "type": "object",
        "properties": properties,
        "required": [name for name in fields if not name.endswith("?")],
    }
    if said.get("closed"):
        made["additionalProperties"] = False
    else:
        made["properties"] = properties | {
            text_of(name): _TEXT | {"description": f"`{name}` as a text, where it is above 2^53."}
            for name, schema in properties.items()
            if may_be_long(schema)
        }
    if names := said.get("one_field_of"):
        made["oneOf"] = [{"required": [name]} for name in names]
    return made


def may_be_long(schema: _Json) -> bool:
    """Returns true if a field holds whole numbers that may be above 2^53."""
    kinds = schema.get("type", ())
    return (
        "integer" in ([kinds] if isinstance(kinds, str) else kinds) and schema.get("maximum", VERSION_MAX) > EXACT_MAX
    )


def _field(text: str) -> _Json:
    """Parses `TYPE - words` into a schema with its description. Raises ValueError."""
    match = _FIELD.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not TYPE - words")
    words = match["words"] + (" Unix time in ms." if match["type"] == "ms" else "")
    return {**_typed(match["type"] + match["more"]), "description": words}


def _typed(text: str) -> _Json:
    begin, *_ = _MORE.split(text, maxsplit=1)
    made: _Json
    if begin.startswith("("):
        made = {"type": "string", "enum": begin[1:-1].split("|")}
    elif begin in _TYPES:
        made = dict(_TYPES[begin])
    elif begin[:1].isupper():
        made = {"$ref": f"{_REF}schemas/{begin}"}
    else:
        raise ValueError(f"{text!r}: {begin!r} is not a type")
    for more in _MORE.findall(text):
        if more == "?":
            made = _or_null(made)
        elif more == "{}":
            made = {"type": "object", "additionalProperties": made}
        else:
            most = more[1:-1]
            made = {"type": "array", "items": made, **({"maxItems": int(most)} if most else {})}
    return made


def _or_null(schema: _Json) -> _Json:
    if "$ref" in schema:
        return {"anyOf": [schema, {"type": "null"}]}
    if "enum" in schema:
        schema = schema | {"enum": [*schema["enum"], None]}
    return schema | {"type": [schema["type"], "null"]}


def _used(paths: _Json, components: _Json) -> _Json:
    """Returns the components that the paths refer to, directly or through others. Raises ValueError if one is
    missing."""
    found: _Json = {kind: {} for kind in components}
    open_ = list(_references(paths))
    while open_:
        kind, name = open_.pop().removeprefix(_REF).split("/")
        if name in found[kind]:
            continue
        if name not in components[kind]:
            raise ValueError(f"{kind}: {name} is not defined")
        found[kind][name] = components[kind][name]
        open_ += _references(found[kind][name])
    return {kind: dict(sorted(named.items())) for kind, named in found.items()}


def _references(schema: Any) -> Iterable[str]:
    if isinstance(schema, dict):
        for name, value in schema.items():
            if name == "$ref":
                yield value
            else:
                yield from _references(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from _references(value)
