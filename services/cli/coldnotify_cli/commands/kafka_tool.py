"""`coldnotify kafka-tool`: runs Kafka's own console tools from the embedded Kafka's jars."""

import os
import sys

import click

from coldnotify_cli.printing import echo


@click.command("kafka-tool", context_settings={"ignore_unknown_options": True, "help_option_names": []})
@click.argument("name")
@click.argument("arguments", metavar="[ARGS]...", nargs=-1, type=click.UNPROCESSED)
def command_kafka_tool(name: str, arguments: tuple[str, ...]) -> None:
    """Run one of Kafka's own console tools. For example, `kafka-tool topics --list` runs `kafka-topics.sh --list`."""
    from coldnotify_kafka.broker import CONSOLE_TOOLS, console_tool
    from coldnotify_kafka.broker.java import environment

    tools = ", ".join(sorted(CONSOLE_TOOLS))
    if name in ("-h", "--help"):
        echo(*click.get_current_context().get_help().splitlines(), "", f"The tools are {tools}.")
        return
    if name not in CONSOLE_TOOLS:
        raise click.UsageError(f"NAME: there is no tool {name!r}; the tools are {tools}")
    command = console_tool(name, arguments)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(command[0], command, environment())
