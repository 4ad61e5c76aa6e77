"""The table at the end of a campaign, as Markdown and as JSON."""

import json
from pathlib import Path
from typing import Any

from coldnotify_checker.verdict import MQTT_PROMISES

from coldnotify_fault.campaign import SeedOutcome
from coldnotify_fault.schedule import FaultKind

_COLUMNS = (
    *("seed", "brokers", "faults", "publishes", "acknowledged", "told"),
    *("queries evaluated", "entered", "left", "sets asked for again", "duplicates on the wire"),
    *("messages sent", "told", "missed: retention", "expired", "served by blocks"),
    *("MQTT told", "acknowledged", "violations"),
    *("catch-up s", "all know all s", "violations"),
)

_OF_MQTT = ("mqtt_told", "mqtt_acknowledged", "mqtt_violations")
_OF_CHANNELS = ("sent", "messages", "missed_retention", "missed_expired", "served_by_blocks")


def row_of(outcome: SeedOutcome) -> dict[str, Any]:
    """Returns one seed's figures. `catch_up_s_max`: the longest time from a fault, or its end, until all awake clients
    had the newest versions of that moment; `calm_s`: from the last healing until everybody knew everything.
    """
    counted = outcome.verdict.statistics
    return {
        "seed": outcome.seed,
        "brokers": outcome.brokers,
        "faults": outcome.faults,
        "publishes": counted.publishes,
        "acknowledged": counted.acknowledged,
        "told": counted.told,
        "evaluated": outcome.counts["evaluated"],
        "asked_again": outcome.counts["asked_again"],
        "sets_digests": outcome.counts["sets_digests"],
        "entered": counted.entered,
        "left": counted.left,
        "sets_judged": counted.sets,
        "descriptions_judged": counted.descriptions,
        "sent": counted.sent,
        "messages": counted.messages,
        "missed_retention": counted.missed.get("retention", 0),
        "missed_expired": counted.missed.get("expired", 0),
        "missed_lost": counted.missed.get("lost", 0),
        "served_by_blocks": outcome.counts["served_by_blocks"],
        "messages_paged": outcome.counts["messages_paged"],
        "mqtt_told": counted.mqtt_told,
        "mqtt_acknowledged": counted.mqtt_acknowledged,
        "mqtt_wakes": counted.mqtt_wakes,
        "mqtt_violations": sum(outcome.verdict.counts[promise] for promise in MQTT_PROMISES),
        "wire": counted.wire,
        "wire_duplicates": counted.wire_duplicates,
        "catch_up_s_max": round(counted.catch_up_s_max, 1),
        "calm_s": None if outcome.calm_s is None else round(outcome.calm_s, 1),
        "violations": sum(outcome.verdict.counts.values()),
        "trouble": outcome.trouble,
    }


def totals_of(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """All seeds together."""
    sums = (
        "publishes",
        "acknowledged",
        "told",
        "evaluated",
        "asked_again",
        "sets_digests",
        "entered",
        "left",
        "sets_judged",
        "descriptions_judged",
        *_OF_CHANNELS,
        *_OF_MQTT,
        "mqtt_wakes",
        "missed_lost",
        "messages_paged",
        "wire",
        "wire_duplicates",
        "violations",
    )
    faults = {kind.value: sum(row["faults"].get(kind.value, 0) for row in rows) for kind in FaultKind}
    return {
        "seeds": len(rows),
        "brokers": max((row["brokers"] for row in rows), default=0),
        "faults": faults,
        **{name: sum(row[name] for row in rows) for name in sums},
        "catch_up_s_max": max((row["catch_up_s_max"] for row in rows), default=0.0),
        "calm_s": max((row["calm_s"] for row in rows if row["calm_s"] is not None), default=None),
        "not_caught_up": [row["seed"] for row in rows if row["calm_s"] is None],
    }


def markdown(rows: list[dict[str, Any]]) -> str:
    """The table: a line for each seed, totals, and the faults by kind."""
    lines = ["| " + " | ".join(_COLUMNS) + " |", "|" + "---:|" * len(_COLUMNS)]
    lines += [_line(str(row["seed"]), row) for row in rows]
    totals = totals_of(rows)
    lines.append(_line("all", totals))
    lines += ["", "| fault | injected |", "|---|---:|"]
    lines += [f"| {kind.replace('_', ' ')} | {count} |" for kind, count in totals["faults"].items()]
    return "\n".join(lines) + "\n"


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    """The table into `path` with the ending .md, and all figures beside it as .json. Raises OSError."""
    path.with_suffix(".md").write_text(markdown(rows), encoding="utf-8")
    figures = {"seeds": rows, "totals": totals_of(rows)}
    path.with_suffix(".json").write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


def _line(name: str, row: dict[str, Any]) -> str:
    figures = [row["brokers"], sum(row["faults"].values())]
    shown = ("publishes", "acknowledged", "told", "evaluated", "entered", "left", "asked_again", "wire_duplicates")
    figures += [row[key] for key in (*shown, *_OF_CHANNELS, *_OF_MQTT, "catch_up_s_max")]
    calm = "never" if row["calm_s"] is None else str(row["calm_s"])
    return "| " + " | ".join([name, *map(str, figures), calm, str(row["violations"])]) + " |"
