"""`coldnotify rebalance --plan`: which partition is too much for which matcher, and what would help."""

import json
import time
from itertools import islice
from typing import Any

import click
from coldnotify_common.settings import settings_options

from coldnotify_cli.http_node import HttpNode
from coldnotify_cli.printing import echo
from coldnotify_cli.rebalance_plan import GroupLoad, PartitionLoad, plan
from coldnotify_cli.settings import HttpNodeSettings

_GROUPS_MAX = 1_000
_COUNTED = ("position", "requests", "messages")


@click.command("rebalance")
@click.option(
    "--plan",
    "only_plan",
    is_flag=True,
    required=True,
    help="Print the plan; nothing is moved.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(1, 600),
    default=10.0,
    show_default=True,
    help="Time for which records are counted.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@settings_options(HttpNodeSettings)
def command_rebalance(only_plan: bool, seconds: float, as_json: bool, settings: HttpNodeSettings) -> int:
    """Say which partition is too much for which matcher, and what more matchers or partitions would do."""
    del only_plan
    node = HttpNode(settings)
    before = _served(node)
    time.sleep(seconds)
    loads = [
        PartitionLoad(matcher, number, max(0, sum(now[name] - then.get(name, now[name]) for name in _COUNTED)))
        for (matcher, number), now in _served(node).items()
        if (then := before.get((matcher, number))) is not None
    ]
    if not loads:
        raise click.ClickException("no matcher serves a partition, or all were taken over meanwhile: try again")
    listed = islice(node.items("groups", limit=_GROUPS_MAX), _GROUPS_MAX)
    groups = [GroupLoad(one["domain"], one["group"], one["publishes"] or 0) for one in listed]
    cores = {one["address"]: one.get("cpu") for one in node.items("matchers", limit=_GROUPS_MAX)}
    lines = plan(loads, groups, cores, seconds)
    if as_json:
        echo(json.dumps({"seconds": seconds, "partitions": [one._asdict() for one in loads], "plan": lines}))
        return 0
    echo(*lines)
    return 0


def _served(node: HttpNode) -> dict[tuple[str, int], dict[str, Any]]:
    """The rows of served partitions, by matcher and number."""
    shown = node.of_matchers("partitions")
    return {(one["matcher"], one["partition"]): one for one in shown["items"] if one["phase"] == "owned"}
