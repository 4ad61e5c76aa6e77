"""The command `coldnotify`: finds the subcommand, runs it, turns every error into one line and an exit code.

Exit codes: 0 done, 1 failed, 2 wrong use. COLDNOTIFY_LOG_LEVEL=debug shows where an error came from.
"""

import importlib
import os
import sys
import traceback
from collections import ChainMap
from collections.abc import Sequence
from typing import NamedTuple

import click
from click.shell_completion import CompletionItem
from coldnotify_common.settings import environment, put_environment
from coldnotify_parts.registry import PARTS
from coldnotify_schemas.visible import visible_lines

from coldnotify_cli.completion import complete_names, context_names
from coldnotify_cli.contexts import variables_of
from coldnotify_cli.examples import show_examples
from coldnotify_cli.printing import echo
from coldnotify_cli.suggesting_group import SuggestingGroup

DONE, FAILED, WRONG_USE = 0, 1, 2


class _Entry(NamedTuple):
    module: str
    help: str


COMMANDS: dict[str, _Entry] = {
    "up": _Entry("up", "Run everything: Kafka, topics, all services."),
    "broker": _Entry("broker", "Run the embedded Kafka broker."),
    "topics": _Entry("topics", "Compare, create, change, dump or copy Kafka's topics; ACLs."),
    **{row.name: _Entry("services", row.summary) for row in PARTS},
    "auto": _Entry("auto", "Publish what changes in databases, folders, at web addresses."),
    "certs": _Entry("certs", "Make certificates for development: authority, services, clients."),
    "token": _Entry("token", "Make a signed token for development."),
    "publish": _Entry("publish", "Publish a version of an object."),
    "send": _Entry("send", "Send a message to a channel."),
    "describe": _Entry("describe", "Set or show an object's description, which queries match."),
    "find": _Entry("find", "Find the objects that fit a query now."),
    "watch": _Entry("watch", "Connect as a client and print its notifications."),
    "link": _Entry("linking", "Share one connection to a gateway among a unit's programs."),
    "check": _Entry("check", "Judge histories against the promises of docs/promises.md."),
    "state": _Entry("state", "Show the matchers' state: groups, clients, objects, partitions."),
    "search": _Entry("search", "Find groups, clients, objects and channels by name."),
    "who-lacks": _Entry("who_lacks", "Show which clients have not applied a version."),
    "explain": _Entry("explain", "Explain why a client has, or has not, applied an object."),
    "top": _Entry("top", "Show the busiest groups and the oldest undelivered versions."),
    "doctor": _Entry("doctor", "Check Kafka, topics, clock, certificates ...; say what to do."),
    "rebalance": _Entry("rebalance", "Say what more matchers or partitions would do (--plan)."),
    "tenant": _Entry("tenant", "Set, list, show or remove tenants; show what they use."),
    "hook": _Entry("hook", "Set, list, remove, test or rotate webhooks."),
    "object": _Entry("object", "Start an object's versions over."),
    "client": _Entry("one_client", "Disconnect or forget a client."),
    "bench-sub": _Entry("bench", "Connect many light clients; say what they were told, how late."),
    "bench-pub": _Entry("bench", "Publish at a rate, to measure with bench-sub."),
    "context": _Entry("context", "Save an installation's addresses and identity, for --context."),
    "kafka-tool": _Entry("kafka_tool", "Run one of Kafka's own console tools."),
}
"""Name -> module of coldnotify_cli.commands that has it (as `command_NAME`), and its help in the list of commands."""
_SERVICES = {name for name, entry in COMMANDS.items() if entry.module == "services"}
"""Services warn about the environment in their own logs."""
_WITHOUT_CONTEXT = {*_SERVICES, "auto", "up", "broker", "context"}
"""Commands that ask no running installation: a context must not send their data to one."""


class _LazyGroup(SuggestingGroup):
    """Imports a subcommand's module when it is called: `publish` must not wait for what `gateway` needs."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        module = importlib.import_module(f"coldnotify_cli.commands.{entry.module}")
        command = getattr(module, "command_" + cmd_name.replace("-", "_"))
        assert isinstance(command, click.Command)
        complete_names(command)
        show_examples(command, cmd_name)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Does the same as click's, without the import of every command for its help."""
        found = [CompletionItem(name, help=one.help) for name, one in COMMANDS.items() if name.startswith(incomplete)]
        return found + click.Command.shell_complete(self, ctx, incomplete)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        found = super().resolve_command(ctx, args)
        if args[0] not in _SERVICES:
            _warn_of_variables()
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in COMMANDS.items()])


@click.group(
    cls=_LazyGroup,
    flags_hidden=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)
@click.version_option(package_name="coldnotify-server", prog_name="coldnotify")
@click.option(
    "--context",
    "name",
    metavar="NAME",
    shell_complete=context_names,
    help="Use the addresses and identity saved by `coldnotify context add NAME`.  [COLDNOTIFY_CONTEXT]",
)
@click.pass_context
def cli(ctx: click.Context, name: str | None) -> None:
    """Tell devices that are rarely reachable the newest version of each object that they registered for.

    `coldnotify up` runs everything on this machine; then try `coldnotify watch` and `coldnotify publish`, each with
    --help.

    Every setting is a flag or an environment variable of the same name, COLDNOTIFY_...; the flag takes precedence. The
    flags below may stand before a command or behind it.
    """
    if ctx.invoked_subcommand in _WITHOUT_CONTEXT:
        if name is not None:
            raise click.UsageError(
                f"--context: `coldnotify {ctx.invoked_subcommand}` asks no installation, so it takes no context"
            )
    elif name := name or environment().get("COLDNOTIFY_CONTEXT"):
        put_environment(ctx, ChainMap(dict(environment()), variables_of(name)))


def _warn_of_variables() -> None:
    """Warns of variables that look like settings and are not: most are misspelt."""
    if not any(name.startswith("COLDNOTIFY_") for name in os.environ):
        return
    from coldnotify_cli.every_setting import warnings_of

    for warning in warnings_of(os.environ):
        echo(f"Warning: {warning}", err=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns the exit code."""
    try:
        result = cli.main(None if arguments is None else list(arguments), prog_name="coldnotify", standalone_mode=False)
        return result if isinstance(result, int) else DONE
    except click.ClickException as error:
        error.message = visible_lines(str(error.message))
        error.show()
        return WRONG_USE if isinstance(error, click.UsageError) else FAILED
    except (click.Abort, KeyboardInterrupt):
        echo("Aborted.", err=True)
        return FAILED
    except BrokenPipeError:
        # Whoever read our output has had enough; the interpreter must not complain about it at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except Exception as error:
        if os.environ.get("COLDNOTIFY_LOG_LEVEL") == "debug":
            traceback.print_exc()
        echo("Error: ", err=True, nl=False, fg="red", bold=True)
        echo(*_words(error).split("\n"), err=True)
        return _exit_code(error)


def _exit_code(error: Exception) -> int:
    """A ValueError that names a setting or field means wrong use: SettingError, InvalidName, InvalidRecord."""
    return WRONG_USE if isinstance(error, ValueError) else FAILED


def _words(error: Exception) -> str:
    """Returns the error's message; with its class unless it is one of ours, because the message
    alone may be too short.
    """
    ours = isinstance(error, ValueError) or type(error).__module__.startswith("coldnotify")
    return str(error) if ours and str(error) else f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    sys.exit(main())
