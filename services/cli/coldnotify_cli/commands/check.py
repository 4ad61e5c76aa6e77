"""`coldnotify check`: judges histories against the promises."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from coldnotify_checker import Verdict


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
def command_check(histories: tuple[Path, ...], clock_skew_s: float, at_rest: bool) -> int:
    """Judge the HISTORY files together against the promises P1 to P6 (docs/histories.md).

    Prints one line per promise, then each violation with the lines that show it. Exit code 1 if there is a violation.
    """
    from coldnotify_checker import judge, read_histories

    try:
        events = read_histories(histories)
    except OSError as error:
        raise click.UsageError(f"HISTORY: {error.filename}: {error.strerror}") from None
    verdict = judge(events, clock_skew_s=clock_skew_s, at_rest=at_rest)
    for line in table(verdict):
        click.echo(line)
    for violation in verdict.violations:
        click.echo(f"\n{violation}")
    return 0 if verdict.clean else 1


def table(verdict: "Verdict") -> list[str]:
    """The verdict in short, a line for each promise; then what the history holds."""
    from coldnotify_checker.verdict import PROMISES

    lines = []
    for promise, words in PROMISES.items():
        count = verdict.counts[promise]
        said = f"{count} violations" if count else "kept"
        why = verdict.not_judged.get(promise)
        if why is not None and not count:
            said = "not judged" if promise != "P2" else "kept"
        lines.append(f"{promise}  {words:<62} {said}{f' ({why})' if why else ''}")
    found = verdict.statistics
    lines.append(
        f"{found.publishes} publishes ({found.acknowledged} acknowledged, {found.failed} failed, "
        f"{found.indeterminate} indeterminate), {found.clients} clients, told {found.told} times, {found.wakes} wakes"
    )
    if found.faults:
        lines.append(
            f"{found.faults} faults, the longest catch-up {found.catch_up_s_max:.1f} s "
            f"({found.catch_ups_unfinished} unfinished)"
        )
    if found.wire:
        lines.append(f"{found.wire} notification frames, of these {found.wire_duplicates} duplicates")
    return lines
