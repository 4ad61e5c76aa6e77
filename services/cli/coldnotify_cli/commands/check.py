"""`coldnotify check`: judges histories against the promises."""

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from coldnotify_common.plurals import number_of
from coldnotify_common.settings import TopicsPrefixSettings, settings_options

from coldnotify_cli.printing import echo

if TYPE_CHECKING:
    from coldnotify_checker import JudgeVerdict
    from coldnotify_checker.verdict import Promise


@click.command("check")
@click.argument("histories", metavar="HISTORY...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--clock-skew-s",
    type=click.FloatRange(min=0),
    default=0,
    show_default=True,
    help="Maximum difference between the clocks of the machines that wrote the histories, in seconds.",
)
@click.option(
    "--at-rest",
    is_flag=True,
    help="Nothing had been published for a while when the dump began: connected clients must be registered for all "
    "they want, and know it.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@settings_options(TopicsPrefixSettings)
def command_check(
    histories: tuple[Path, ...], clock_skew_s: float, at_rest: bool, as_json: bool, settings: TopicsPrefixSettings
) -> int:
    """Judge the HISTORY files together against the promises P1 to P6 and P8 to P13 (docs/histories.md).

    Where they have MQTT devices, it judges M1 to M5, M8 and P7 as well.

    Topics of another installation than that of --topics-prefix are passed over.

    Prints one line per promise, then each violation with the lines that show it. Exit code 1 if there is a violation.
    """
    from coldnotify_checker import judge, read_histories

    try:
        events = read_histories(histories)
    except OSError as error:
        raise click.UsageError(f"HISTORY: {error.filename}: {error.strerror}") from None
    verdict = judge(events, clock_skew_s=clock_skew_s, at_rest=at_rest, topics_prefix=settings.topics_prefix)
    if as_json:
        echo(json.dumps(_as_json(verdict)))
    else:
        for line in table(verdict):
            echo(line)
        for violation in verdict.violations:
            echo("", *str(violation).split("\n"))
    return 0 if verdict.clean else 1


def _judgement(verdict: "JudgeVerdict", promise: "Promise") -> str:
    if count := verdict.counts[promise]:
        return f"violated {number_of(count, 'time')}"
    return "not judged" if promise in verdict.not_judged else "kept"


def table(verdict: "JudgeVerdict") -> list[str]:
    """The verdict in short, a line for each promise; then what the history holds."""
    judged = {promise: _judgement(verdict, promise) for promise in verdict.promises}
    width = max(map(len, judged.values()))
    notes = {**verdict.not_judged, **verdict.judged_in_part}
    lines = [
        f"{promise}  {judged[promise]:<{width}}  {words}{f' ({notes[promise]})' if promise in notes else ''}"
        for promise, words in verdict.promises.items()
    ]
    found = verdict.statistics
    publishes = number_of(found.publishes, "publish", "publishes")
    lines.append(
        f"{publishes} ({found.acknowledged} acknowledged, {found.failed} failed, "
        f"{found.indeterminate} without a known outcome), {number_of(found.clients, 'client')}, "
        f"{number_of(found.told, 'notification')}, {number_of(found.wakes, 'wake')}"
    )
    if found.sent or found.messages:
        missed = sum(found.missed.values())
        messages, times = number_of(found.sent, "message"), number_of(missed, "time")
        lines.append(f"{messages} acknowledged, {found.messages} delivered, {times} some were missed")
    if found.faults:
        lines.append(
            f"{number_of(found.faults, 'fault')}, the longest catch-up {found.catch_up_s_max:.1f} s "
            f"({found.catch_ups_unfinished} unfinished)"
        )
    if found.wire:
        frames, duplicates = number_of(found.wire, "notification frame"), number_of(found.wire_duplicates, "duplicate")
        lines.append(f"{frames}, of these {duplicates}")
    return lines


def _as_json(verdict: "JudgeVerdict") -> dict[str, Any]:
    notes = {**verdict.not_judged, **verdict.judged_in_part}
    return {
        "clean": verdict.clean,
        "promises": {
            promise: {
                "promise": words,
                "judged": promise not in verdict.not_judged,
                "violations": verdict.counts[promise],
                "note": notes.get(promise),
            }
            for promise, words in verdict.promises.items()
        },
        "violations": [dataclasses.asdict(violation) for violation in verdict.violations],
        "statistics": dataclasses.asdict(verdict.statistics),
    }
