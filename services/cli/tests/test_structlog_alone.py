import subprocess
import sys

_PROGRAM = """
import sys
import coldnotify_cli.commands.services
from coldnotify_cli.structlog_alone import import_structlog
assert "structlog" not in sys.modules, "the command imports it before"
import_structlog()
assert "structlog" in sys.modules
assert "rich" not in sys.modules
import rich.live
import_structlog()
assert sys.modules["rich"] is rich
"""


def test_structlog_comes_without_rich_and_rich_can_be_had_later() -> None:
    subprocess.run([sys.executable, "-c", _PROGRAM], check=True, timeout=60)
