"""`coldnotify matcher|gateway|http|usage`, and every other part: each in the foreground.

Clients wait while a service restarts: so it imports only what it needs.
"""

import os
import sys
from collections.abc import Callable
from typing import Any

import click
from coldnotify_common.imported import imported, settings_classes
from coldnotify_common.settings import (
    PREFIX,
    ServiceSettings,
    Settings,
    describe,
    settings_options,
)
from coldnotify_parts.registry import PARTS
from coldnotify_parts.row import PartRow

from coldnotify_cli.every_setting import warnings_of


def _service(row: PartRow) -> click.Command:
    """The command that runs the part's `run(settings)`."""

    def run(settings: ServiceSettings, others: tuple[Settings, ...] = ()) -> int:
        from coldnotify_common.stop import surviving_hangups
        from coldnotify_common.threads import end_with_any_thread

        _warn(settings, others, row.name)
        end_with_any_thread()
        with surviving_hangups():
            app: Any = imported(row.app)
            code = app.run(settings, others) if others else app.run(settings)
        assert isinstance(code, int)
        return code

    decorate: Callable[[Callable[..., int]], Callable[..., int]] = settings_options(*settings_classes(row.settings))
    return click.command(row.name, help=f"{row.help}\n\nRuns until SIGTERM or Ctrl-C.")(decorate(run))


def _warn(settings: ServiceSettings, others: tuple[Settings, ...], name: str) -> None:
    """Logs the variables of the environment that are not settings: most are misspelt."""
    import structlog
    from coldnotify_common.log import configure

    configure(settings.log_format, settings.log_level, name)
    own = {info.variable for one in (settings, *others) for info in describe(type(one))}
    if {one for one in os.environ if one.startswith(PREFIX)} <= own:
        return  # they are all its own: the other services' code need not be imported for their settings
    for warning in warnings_of(os.environ):
        structlog.get_logger().warning(warning)


def _import_structlog() -> None:
    """Without rich, which it would import for tracebacks that our logs do not have: a tenth of a service's start."""
    if "structlog" in sys.modules or "rich" in sys.modules:
        return
    sys.modules["rich"] = None  # type: ignore[assignment]  # the import system's word for: there is none
    try:
        import structlog  # noqa: F401
    finally:
        del sys.modules["rich"]


def __getattr__(attribute: str) -> click.Command:
    """Makes a command when it is asked for: its settings class comes with its service's code."""
    row = next((one for one in PARTS if f"command_{one.name.replace('-', '_')}" == attribute), None)
    if row is None:
        raise AttributeError(attribute)
    _import_structlog()
    return _service(row)
