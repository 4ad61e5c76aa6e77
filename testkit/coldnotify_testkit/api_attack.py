"""Schemathesis against one port: what it asks comes from the port's own OpenAPI document, and so does what it expects.

As a module it is what Schemathesis loads (SCHEMATHESIS_HOOKS): names that it draws are replaced by names that the test
has made, so that it meets more than 404, and so that it writes to one domain.
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import schemathesis

DOMAIN, GROUP = "attacked", "group-1"
KNOWN = {"object": "lamps%2F1", "client": "unit-1", "channel": "tasks", "tenant": "attacked"}
"""What a test makes there before, as it stands in a path."""
_EXAMPLES = 20
"""Drawn for each operation, always the same; what is at the bounds of its schemas comes on top."""
_REQUEST_S = 60
"""Long: a slow machine is no error."""
_WAIT_S_MAX = 60
_OF_QUERIES = ("domain", "group")
"""Names that are parameters of a query where no path has them."""
_RUN_S = 1200
_CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
)
"""Not those of methods that are not described: a POST to `.../lacking` publishes an object of such a name, as its "/"
may stand as it is (docs/protocol.md)."""
_CONFIG = """
[checks.not_a_server_error]
# 503 is documented where it is: status_code_conformance looks at that.
expected-statuses = ["2xx", "3xx", "4xx", "503"]
"""


def attack(url: str, directory: Path, *, without: Sequence[str] = (), only: Sequence[str] = ()) -> str:
    """What Schemathesis found at the port with this URL; nothing: "". `without`: paths that are left out.

    `only`: all other paths are left out, where it is not empty.
    Its answers may not have fields that the document does not have, though clients are told to expect some.
    """
    document = directory / "openapi.json"
    with urlopen(f"{url}/v1/openapi.json", timeout=_REQUEST_S) as answer:
        document.write_text(json.dumps(closed(json.loads(answer.read()))))
    (directory / "schemathesis.toml").write_text(_CONFIG)
    argv = [sys.executable, "-m", "schemathesis.cli", "run", str(document), f"--url={url}"]
    argv += [f"--checks={','.join(_CHECKS)}", "--phases=examples,coverage,fuzzing", "--mode=all", "--workers=1"]
    argv += [f"--max-examples={_EXAMPLES}", "--generation-deterministic", "--continue-on-failure"]
    argv += [f"--request-timeout={_REQUEST_S}", "--suppress-health-check=all", "--warnings=off", "--no-color"]
    argv += [f"--exclude-path={path}" for path in without]
    argv += [f"--include-path={path}" for path in only]
    environ = {**os.environ, "SCHEMATHESIS_HOOKS": __name__}
    done = subprocess.run(argv, cwd=directory, env=environ, capture_output=True, text=True, timeout=_RUN_S)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def closed(schema: Any) -> Any:
    """A schema, or a document, in which objects have no fields but those that are described."""
    if isinstance(schema, list):
        return [closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    made = {name: closed(one) for name, one in schema.items()}
    if isinstance(made.get("properties"), dict) and made.get("type") == "object":
        made.setdefault("additionalProperties", False)
    return made


@schemathesis.hook
def before_call(_context: Any, case: Any, _kwargs: Any) -> None:
    """Known names in place of half of those that are drawn, the domain and the group always; nothing is waited for."""
    if isinstance(case.path_parameters, dict):
        case.path_parameters = {name: _known(name, value) for name, value in case.path_parameters.items()}
    if isinstance(case.query, dict):
        case.query.update({name: _known(name, case.query[name]) for name in _OF_QUERIES if name in case.query})
    for said in (case.query, case.body):
        if isinstance(said, dict) and _is_wait(said.get("wait_s")):
            said["wait_s"] = 0


def _is_wait(value: Any) -> bool:
    """Whether a service would take this for a time to wait."""
    try:
        return not isinstance(value, bool) and 0 <= float(value) <= _WAIT_S_MAX
    except (TypeError, ValueError):
        return False


def _known(name: str, value: Any) -> Any:
    if not isinstance(value, str) or not value:
        return value
    valid = value.isascii() and value.replace("-", "").replace("_", "").isalnum()
    if name in ("domain", "group"):
        return (DOMAIN if name == "domain" else GROUP) if valid else value
    return KNOWN[name] if name in KNOWN and valid and len(value) % 2 else value
