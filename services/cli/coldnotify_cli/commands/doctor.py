"""`coldnotify doctor`: finds what is wrong here, and names remedies."""

import json

import click
from coldnotify_common.plurals import number_of
from coldnotify_common.settings import settings_options

from coldnotify_cli.printing import echo
from coldnotify_cli.settings import DoctorSettings

_COLOURS = {"ok": "green", "warning": "yellow", "BAD": "red"}


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per finding.")
@settings_options(DoctorSettings)
def command_doctor(as_json: bool, settings: DoctorSettings) -> int:
    """Check Kafka, its topics, the clock, certificates, limits and the services; say what to do.

    Exit code 1 if something is wrong; a warning alone does not count. To compare clocks, the command creates a topic
    and removes it. Give it the settings of the services, as flags or environment variables, or a --context. Without
    --matcher and --gateway-http it checks those that the HTTP service asks, if you are an operator.
    """
    from coldnotify_cli.checkup import all_checks
    from coldnotify_cli.findings import BAD, WARNING

    bad = warnings = 0
    for finding in all_checks(settings):
        bad += finding.state == BAD
        warnings += finding.state == WARNING
        if as_json:
            echo(json.dumps(finding._asdict()))
            continue
        echo(f"{finding.state:<7}", nl=False, fg=_COLOURS[finding.state], bold=True)
        echo(f"  {finding.what:<12}  {finding.words}")
        if finding.todo:
            echo(f"{'':<23}-> {finding.todo}")
    if not as_json:
        also = f", {number_of(warnings, 'warning')}" if warnings else ""
        echo((f"{bad} wrong" if bad else "nothing is wrong") + also)
    return 1 if bad else 0
