"""Schemathesis against one port: what it asks comes from the port's own OpenAPI document, and so does what it expects.

What it draws is changed by `api_attack_hooks`, which its own process loads.
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.request import urlopen

DOMAIN, GROUP = "attacked", "group-1"
KNOWN = {"object": "lamps%2F1", "client": "unit-1", "channel": "tasks", "tenant": "attacked"}
"""What a test makes there before, as it stands in a path."""
_EXAMPLES = 20
"""Drawn for each operation, always the same; what is at the bounds of its schemas comes on top."""
_REQUEST_S = 60
"""Long: a slow machine is no error."""
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
    environ = {**os.environ, "SCHEMATHESIS_HOOKS": f"{__name__}_hooks"}
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
