"""The command: which seeds, for how long, where to; what came of each. Exit codes: 0 clean, 1 not, 2 wrong use."""

import argparse
import tempfile
import threading
import traceback
from collections.abc import Sequence
from pathlib import Path

from coldnotify_schemas.topics import DEFAULT_PREFIX

from coldnotify_fault import campaign, moving, report, side_by_side
from coldnotify_fault.mqtt_steps import MQTT_DEVICES, MQTT_DEVICES_MAX
from coldnotify_fault.schedule import BROKERS, DEVICES, RAW_DEVICES, CampaignSchedule, FaultKind, schedule

_VIOLATIONS_SHOWN = 20


def seeds_of(text: str) -> list[int]:
    """ "3", "1-20", "1,4,7-9" as numbers. Raises ValueError."""
    seeds: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        seeds += range(int(first), int(last or first) + 1)
    if not seeds:
        raise ValueError("no seed")
    return seeds


def kinds_of(text: str) -> list[FaultKind]:
    """ "matcher_killed,gateway_paused" as kinds of fault. Raises ArgumentTypeError."""
    try:
        return [FaultKind(part) for part in text.split(",")]
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{error}; the kinds are {', '.join(FaultKind)}") from None


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the campaigns; returns the exit code."""
    parser = argparse.ArgumentParser(prog="make fault", description="Real processes, random faults, a checker.")
    parser.add_argument("--seeds", type=seeds_of, default=[1, 2, 3], help='such as "1-20" or "4,7" (1-3)')
    parser.add_argument("--brokers", type=int, choices=BROKERS, default=1, help="Kafka nodes, killed one by one (1)")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long faults and publishes go on (60)")
    parser.add_argument("--fault-every", type=float, default=3.0, help="seconds between two faults, on average (3)")
    parser.add_argument(
        "--only", type=kinds_of, default=list(FaultKind), help="kinds of fault to draw from, separated by commas (all)"
    )
    parser.add_argument("--publishes", type=float, default=12.0, help="publishes a second, on average (12)")
    parser.add_argument(
        "--raw-devices",
        type=int,
        choices=range(DEVICES + 1),
        default=RAW_DEVICES,
        help=f"of {DEVICES} devices, so many have raw clients, which know docs/protocol.md alone ({RAW_DEVICES})",
    )
    parser.add_argument(
        "--mqtt-devices",
        type=int,
        choices=range(MQTT_DEVICES_MAX + 1),
        default=MQTT_DEVICES,
        metavar=f"0..{MQTT_DEVICES_MAX}",
        help=f"so many MQTT devices beside them ({MQTT_DEVICES})",
    )
    parser.add_argument(
        "--installations",
        type=int,
        choices=(1, 2),
        default=1,
        help="2: another one beside it in the same Kafka, under its own prefix and schedule (1)",
    )
    parser.add_argument(
        "--move", action="store_true", help="in the middle all moves to more partitions: coldnotify topics copy"
    )
    parser.add_argument("--directory", type=Path, help="where logs and histories go (a temporary one)")
    parser.add_argument("--keep", action="store_true", help="keep them also when all is well")
    parser.add_argument("--report", type=Path, help="write the table into this .md file, and as JSON beside it")
    parser.add_argument("--list", action="store_true", help="only show each seed's steps")
    chosen = parser.parse_args(arguments)
    if chosen.seconds <= 0 or chosen.fault_every <= 0 or chosen.publishes <= 0:
        parser.error("--seconds, --fault-every, --publishes: must be above 0")
    if chosen.move and (chosen.brokers, chosen.installations, chosen.only) != (1, 1, list(FaultKind)):
        parser.error("--move: has one installation, one Kafka node, and kinds of fault of its own")
    directory = chosen.directory or Path(tempfile.mkdtemp(prefix="coldnotify-fault-"))
    rows = []
    clean = True
    try:
        for seed in chosen.seeds:
            plans = [_plan(seed, chosen.only, chosen)]
            if chosen.installations > 1:
                plans.append(_plan(seed + side_by_side.SEED_BESIDE, side_by_side.kinds_beside(chosen.only), chosen))
            if chosen.list:
                for plan in plans:
                    _show(plan)
                continue
            outcomes = _run(plans, directory / f"seed-{seed}", keep=chosen.keep, moves=chosen.move)
            clean = clean and bool(outcomes) and all(outcome.clean for outcome in outcomes)
            rows += [report.row_of(outcome) for outcome in outcomes]
            if chosen.report:
                report.write(chosen.report, rows)
    except KeyboardInterrupt:
        print("Stopped.")
        return 1
    finally:
        if rows:
            print("\n" + report.markdown(rows))
        if not any(directory.iterdir()):
            directory.rmdir()
    return 0 if clean else 1


def _plan(seed: int, kinds: list[FaultKind], chosen: argparse.Namespace) -> CampaignSchedule:
    if chosen.move:
        rates = {"fault_every_s": chosen.fault_every, "publishes_per_s": chosen.publishes}
        return moving.plan(seed, chosen.seconds, raw_devices=chosen.raw_devices, **rates)
    return schedule(
        seed,
        chosen.seconds,
        brokers=chosen.brokers,
        fault_every_s=chosen.fault_every,
        publishes_per_s=chosen.publishes,
        kinds=kinds,
        raw_devices=chosen.raw_devices,
        mqtt_devices=chosen.mqtt_devices,
    )


def _run(plans: list[CampaignSchedule], directory: Path, *, keep: bool, moves: bool) -> list[campaign.SeedOutcome]:
    """Runs one installation, or two; returns no outcome if that could not be done."""
    plan = plans[0]
    faults = sum(sum(one.faults().values()) for one in plans)
    print(f"seed {plan.seed}: {plan.seconds:g} s, {faults} faults ...", flush=True)
    try:
        stop = threading.Event()
        if moves:
            outcome, pause_s = moving.run(plan, directory, stop)
            print(f"seed {plan.seed}: publishers waited {pause_s:.1f} s at most", flush=True)
            outcomes = [outcome]
        elif len(plans) == 1:
            outcomes = [campaign.run(plan, directory, stop)]
        else:
            outcomes = side_by_side.run(plan, plans[1], directory, stop)
    except Exception:
        traceback.print_exc()
        print(f"seed {plan.seed}: could not be run; its files are in {directory}", flush=True)
        return []
    for outcome in outcomes:
        print(said(outcome), flush=True)
    if all(outcome.clean for outcome in outcomes) and not keep:
        campaign.remove(directory)
    else:
        print(f"  histories and logs are in {directory}", flush=True)
    for plan, outcome in zip(plans, outcomes, strict=True):
        if not outcome.clean:
            print("  its faults:\n" + "\n".join(f"    {line}" for line in faults_of(plan)), flush=True)
    return outcomes


def said(outcome: campaign.SeedOutcome) -> str:
    """Describes a seed's result: what is wrong, or the figures."""
    counted = outcome.verdict.statistics
    beside = "" if outcome.prefix == DEFAULT_PREFIX else f" under {outcome.prefix}"
    lines = [
        f"seed {outcome.seed}{beside}: {'clean' if outcome.clean else 'NOT CLEAN'}; {counted.acknowledged} of "
        f"{counted.publishes} publishes acknowledged, told {counted.told}, {counted.wire_duplicates} duplicates on the "
        f"wire, longest catch-up {counted.catch_up_s_max:.1f} s",
        f"  of channels: {counted.sent} messages acknowledged, told {counted.messages}, missed "
        + ", ".join(f"{counted.missed.get(reason, 0)} {reason}" for reason in ("retention", "expired", "lost"))
        + "; "
        + f"{outcome.counts['served_by_blocks']} served by blocks, {outcome.counts['messages_paged']} messages paged",
    ]
    if counted.mqtt_told or counted.mqtt_acknowledged:
        lines.append(
            f"  of MQTT devices: {counted.mqtt_acknowledged} publishes acknowledged, told {counted.mqtt_told}, "
            f"{counted.mqtt_wakes} wakes judged"
        )
    if counted.shared_begun:
        lines.append(
            f"  of shares: {counted.shared_begun} callbacks begun, {counted.shared_settled} settlements answered, "
            f"{counted.dead_letters} dead letters"
        )
    if outcome.hostile:
        lines.append(f"  {outcome.hostile}")
    if outcome.calm_s is None:
        lines.append("  never came to rest, still missing:")
        lines += [f"    {line}" for line in outcome.missing[:_VIOLATIONS_SHOWN]]
    lines += [f"  {line}" for line in outcome.trouble]
    lines += [f"  {violation}" for violation in outcome.verdict.violations[:_VIOLATIONS_SHOWN]]
    return "\n".join(lines)


def faults_of(plan: CampaignSchedule) -> list[str]:
    """Returns the faults and their times, a line each: what is needed, with the seed, to analyse it."""
    return [
        f"{step.at_s:7.2f} s {step.what:5} {step.arguments['kind']} {step.target}"
        for step in plan.steps
        if step.what in ("fault", "heal")
    ]


def _show(plan: CampaignSchedule) -> None:
    for step in plan.steps:
        print(f"{plan.seed:4} {step.at_s:8.3f} {step.what:10} {step.target:30} {step.arguments}")
