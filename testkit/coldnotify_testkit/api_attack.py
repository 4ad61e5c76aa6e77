"""Runs Schemathesis against one port. The port's own OpenAPI document determines both the requests and the expected
answers.

`api_attack_hooks`, which the Schemathesis process loads, changes the drawn requests.
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
"""Resources that a test creates at the service beforehand, as they are written in a path."""
_EXAMPLES = 20
"""Examples drawn for each operation, always the same ones. Examples at the bounds of its schemas are added."""
_REQUEST_S = 60
"""Long, because a slow machine is not an error."""
_RUN_S = 1200
_CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
)
"""Excludes checks of methods that are not described: a POST to `.../lacking` publishes an object of that name, because
its "/" may be written as it is (docs/protocol.md).
"""
_CONFIG = """
[checks.not_a_server_error]
# 503 is documented where it is: status_code_conformance looks at that.
expected-statuses = ["2xx", "3xx", "4xx", "503"]
"""


def attack(url: str, directory: Path, *, without: Sequence[str] = (), only: Sequence[str] = ()) -> str:
    """Returns what Schemathesis found at the port with this URL; "" if it found nothing.

    `without`: paths to leave out. `only`: if it is not empty, all other paths are left out. Answers may not have fields
    that the document lacks, although clients are told to expect some.
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
