"""`coldnotify matcher|gateway|http|usage|job NAME`: each service in the foreground.

Clients wait for a service that is started again: it imports what it needs itself, and no more.
"""

import importlib
import os
import sys
from collections.abc import Callable
from typing import Any

import click
from coldnotify_common.settings import (
    PREFIX,
    ServiceSettings,
    Settings,
    describe,
    settings_options,
)
from coldnotify_streams.jobs.registry import JOBS
from coldnotify_streams.jobs.row import Row

from coldnotify_cli.settings_doc import SECTIONS, warnings_of


def _service(name: str, help_text: str) -> click.Command:
    """The command that runs coldnotify_NAME.app.run(settings)."""

    def run(settings: ServiceSettings) -> int:
        from coldnotify_common.threads import end_with_any_thread

        _warn(settings, name)
        end_with_any_thread()
        app: Any = importlib.import_module(f"coldnotify_{name}.app")
        code = app.run(settings)
        assert isinstance(code, int)
        return code

    decorate: Callable[[Callable[..., int]], Callable[..., int]] = settings_options(_settings_class(name))
    return click.command(name, help=help_text)(decorate(run))


def _jobs() -> click.Group:
    """A command for each job that is a folder of its own."""
    group = click.Group("job", help="Run a job that is a folder of its own, see docs/extending.md. None ships.")
    for row in JOBS:

        def run(settings: ServiceSettings, row: Row = row) -> int:
            from coldnotify_common.threads import end_with_any_thread

            _warn(settings, row.name)
            end_with_any_thread()
            return row.run(settings)

        decorate: Callable[[Callable[..., int]], Callable[..., int]] = settings_options(row.settings)
        group.add_command(click.command(row.name, help=f"{row.help}\n\n{_STOP}")(decorate(run)))
    return group


def _settings_class(name: str) -> type[Settings]:
    return next(section.load() for section in SECTIONS if section.title == f"coldnotify {name}")


def _warn(settings: ServiceSettings, name: str) -> None:
    """Says, in the log, which variables of the environment are no settings: misspelt ones, mostly."""
    import structlog
    from coldnotify_common.log import configure

    configure(settings.log_format, settings.log_level, name)
    if {one for one in os.environ if one.startswith(PREFIX)} <= {info.variable for info in describe(type(settings))}:
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


_STOP = "Runs until SIGTERM or Ctrl-C."


def __getattr__(attribute: str) -> click.Command:
    """Makes a command when it is asked for: its settings class comes with its service's code."""
    texts = {
        "matcher": "Run a matcher, which matches publishes with registrations. Several matchers share the partitions.",
        "gateway": "Run a gateway, which holds the devices' connections. Several gateways may share one port.",
        "http": "Run the HTTP service, to which publishers POST.",
        "usage": "Run a worker of the usage job, which measures what tenants use. Several workers share the "
        "partitions. Needs coldnotify-server[usage].",
    }
    name = attribute.removeprefix("command_")
    if name == "job":
        _import_structlog()
        return _jobs()
    if name == attribute or name not in texts:
        raise AttributeError(attribute)
    _import_structlog()
    return _service(name, f"{texts[name]}\n\n{_STOP}")
