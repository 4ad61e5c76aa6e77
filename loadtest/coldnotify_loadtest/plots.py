"""Draws rows of a result as PNG plots: lines over rates, bars beside each other; medians over repeats."""

import math
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, StrMethodFormatter

from coldnotify_loadtest.captions import parameters, versions
from coldnotify_loadtest.tables import at, figure, medians

Result = Mapping[str, Any]
_LINE_CHARACTERS = 150
_PLAIN = StrMethodFormatter("{x:g}")


@dataclass(frozen=True)
class Lines:
    """A line for each server: y over x."""

    name: str
    x: str
    y: str
    label: str
    logarithmic: bool = True

    def draw(self, axes: Axes, result: Result) -> bool:
        """Returns true if there was anything to draw."""
        rows = [row for row in result["rows"] if at(row, self.y) is not None and at(row, self.x) is not None]
        lines: dict[str, list[tuple[float, float]]] = {}
        for server, durability, at_x, value in medians(rows, ("server", "durability", self.x), (self.y,)):
            lines.setdefault(f"{server} ({durability})", []).append((at_x, value))
        for name, points in lines.items():
            axes.plot(*zip(*sorted(points), strict=True), marker="o", label=name)
        if self.logarithmic and all(value > 0 for points in lines.values() for _, value in points):
            axes.set_yscale("log")
            axes.set_xscale("log")
            axes.set_xticks(sorted({at(row, self.x) for row in rows}), minor=False)
            axes.set_xticks([], minor=True)
            lowest, highest = axes.get_ylim()
            # Numbers instead of powers; where all lies within a decade, only the ticks between have some.
            axes.xaxis.set_major_formatter(_PLAIN)
            axes.yaxis.set_major_formatter(_PLAIN)
            axes.yaxis.set_minor_formatter(NullFormatter() if highest > 10 * lowest else _PLAIN)
        axes.set_xlabel({"per_s": "publishes a second", "fan_out": "fan-out"}.get(self.x, self.x))
        axes.set_ylabel(self.label)
        if lines:
            axes.legend(fontsize=8)
        return bool(lines)


@dataclass(frozen=True)
class Bars:
    """A bar for each server and case: y."""

    name: str
    y: str
    label: str
    cases: tuple[str, ...] = ()
    """Only these (all)."""

    def draw(self, axes: Axes, result: Result) -> bool:
        """Returns true if there was anything to draw."""
        rows = [row for row in result["rows"] if at(row, self.y) is not None]
        rows = [row for row in rows if not self.cases or row["case"] in self.cases]
        found = medians(rows, ("server", "durability", "case"), (self.y,))
        found.sort(key=lambda line: str(line[2]))
        names = [f"{case}: {server} ({durability})" for server, durability, case, _ in found]
        bars = axes.barh(names, [value for *_, value in found])
        axes.bar_label(bars, fmt=figure, padding=3, fontsize=8)
        axes.margins(x=0.15)
        axes.invert_yaxis()
        axes.tick_params(axis="y", labelsize=8)
        axes.set_xlabel(self.label)
        return bool(found)


@dataclass(frozen=True)
class Series:
    """A line for each case of a part: the p95 of what came, over time. Rows of a case follow each other."""

    name: str
    part: str
    case: str
    """The field with the rows' case."""
    label: str

    def draw(self, axes: Axes, result: Result) -> bool:
        """Returns true if there was anything to draw. If nothing came, a line has a gap."""
        rows = [row for row in result["rows"] if row.get("part") == self.part and row.get("series")]
        for case in dict.fromkeys(row[self.case] for row in rows):
            points = [tuple(point) for row in rows if row[self.case] == case for point in row["series"]]
            step_s = min((after - before for (before, *_), (after, *_) in pairwise(points)), default=0.0)
            drawn: list[tuple[float, float]] = []
            for at_s, p95_ms, _ in points:
                if drawn and at_s - drawn[-1][0] > 2 * step_s:
                    drawn.append((at_s, math.nan))
                drawn.append((at_s, p95_ms))
            axes.plot(*zip(*drawn, strict=True), label=f"{self.case.replace('_', ' ')}: {case}", linewidth=1)
        axes.set_yscale("log")
        axes.set_xlabel("seconds")
        axes.set_ylabel(self.label)
        if axes.get_lines():
            axes.legend(fontsize=7)
        axes.yaxis.set_major_formatter(_PLAIN)
        return bool(rows)


@dataclass(frozen=True)
class Percents:
    """A line for each field of a case's rows, over time: shares of 1, as percent."""

    name: str
    case: str
    fields: Mapping[str, str]
    """By their names in the legend."""
    label: str

    def draw(self, axes: Axes, result: Result) -> bool:
        """Returns true if there was anything to draw. The cut and the heal are vertical lines."""
        rows = [row for row in result["rows"] if row["case"] == self.case and "at_s" in row]
        for name, key in self.fields.items():
            points = [row["at_s"] for row in rows], [100 * row[key] for row in rows]
            # Publishes of a second are counted now in one look, now in the next one.
            style = "." if key.startswith("acknowledged") else "-"
            axes.plot(*points, style, label=name, linewidth=1.2, markersize=3)
        for moment in ("cut_s", "heal_s"):
            axes.axvline(result["parameters"][moment], color="grey", linestyle=":")
        axes.set_xlabel("seconds; dotted: the cut, and the heal")
        axes.set_ylabel(self.label)
        axes.legend(fontsize=7)
        return bool(rows)


@dataclass(frozen=True)
class Returns:
    """A step line for each case: the share of what was lost that has returned, over time."""

    name: str
    label: str

    def draw(self, axes: Axes, result: Result) -> bool:
        """Returns true if there was anything to draw."""
        rows = [row for row in result["rows"] if row.get("series")]
        for row in rows:
            label = f"{row['case']}: {row['clients']:,} clients"
            axes.step(*zip(*row["series"], strict=True), where="post", label=label, linewidth=1)
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(_PLAIN)
        axes.set_xlabel("seconds")
        axes.set_ylabel(self.label)
        if rows:
            axes.legend(fontsize=7)
        return bool(rows)


Plot = Lines | Bars | Series | Percents | Returns
_WHOLE = {
    "sessions live": "live",
    "know the newest": "knows",
    "say that they are current": "says",
    "partitions with one owner": "one_owner",
}
_MINORITY = {
    "know the newest": "knows_minority",
    "say that they are current": "says_minority",
    "acknowledged by the majority": "acknowledged_share_majority",
    "acknowledged by the minority": "acknowledged_share_minority",
}
PLOTS: dict[str, tuple[Plot, ...]] = {
    "E1": (
        Lines("latency", "per_s", "p50_ms", "median latency, ms"),
        Lines("p99", "per_s", "p99_ms", "99th percentile, ms"),
        Lines("cpu", "per_s", "cpu_us_per_delivery.*", "CPU a delivery, us"),
    ),
    "E3": (Bars("recovery", "all_back_s", "all complete, s after the gateway's start"),),
    "E4": (Bars("recovery", "all_reached_since_kill_s", "a publish is at all, s after the matcher was killed"),),
    "horizontal": (Returns("returns", "of its clients current elsewhere, %"),),
    "wire": (Bars("wake", "bytes", "bytes, both ways", ("unchanged wake", "1 of 50 changed")),),
    "matcher": (
        Lines("cpu", "per_s", "cpu_us_per_publish.matcher", "matcher's CPU a publish, us", logarithmic=False),
        Lines("latency", "per_s", "p99_ms", "99th percentile, ms"),
    ),
    "queries": (Series("changes", "changes", "condition", "from change to device: p95, ms"),),
    "split_merge": (
        Percents("all", "split, back-off up to 15 s", _WHOLE, "% of all clients or partitions"),
        Percents("minority", "split, back-off up to 15 s", _MINORITY, "% of the minority's clients, of the publishes"),
        Percents("default", "split, back-off up to 300 s", _WHOLE, "% of all clients or partitions"),
    ),
    "peers": (Lines("latency", "fan_out", "p50_ms", "median latency, ms"),),
}


def draw(result: Result, directory: Path) -> list[tuple[Path, str]]:
    """Those of one experiment's result, as files in `directory`: (path, label) of each."""
    drawn = []
    for plot in PLOTS.get(result["experiment"], ()):
        sheet = Figure(figsize=(8, 4.5), layout="constrained")
        axes = sheet.subplots()
        if not plot.draw(axes, result):
            continue
        machine = result["machine"]
        title = f"{result['title']} - commit {result['commit']}, {machine['processor']}, {machine['cores']} cores"
        axes.set_title(title, fontsize=9)
        sheet.supxlabel(textwrap.fill(f"{parameters(result)} {versions(result)}", _LINE_CHARACTERS), fontsize=6)
        axes.grid(visible=True, alpha=0.3)
        path = directory / f"{result['experiment']}-{plot.name}.png"
        sheet.savefig(path, dpi=120)
        drawn.append((path, plot.label))
    return drawn
