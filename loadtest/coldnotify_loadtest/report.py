"""The report of all results that are there: tables and plots as one HTML file, PNGs, and tables for the docs."""

import html
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from coldnotify_loadtest.tables import Table, at, medians, origin, tables

Result = Mapping[str, Any]
_PLOTS: dict[str, tuple[tuple[str, str, str, str, bool], ...]] = {
    "E1": (
        ("latency", "per_s", "p50_ms", "median latency, ms", True),
        ("p99", "per_s", "p99_ms", "99th percentile, ms", True),
        ("cpu", "per_s", "cpu_us_per_delivery.*", "CPU a delivery, us", True),
    ),
    "matcher": (
        ("cpu", "per_s", "cpu_us_per_publish.matcher", "matcher's CPU a publish, us", False),
        ("latency", "per_s", "p99_ms", "99th percentile, ms", True),
    ),
    "peers": (("latency", "fan_out", "p50_ms", "median latency, ms", True),),
}
_STYLE = (
    "body{font:15px/1.5 sans-serif;max-width:72em;margin:2em auto;padding:0 1em;color:#222}"
    "table{border-collapse:collapse;margin:1em 0}td,th{border-bottom:1px solid #ddd;padding:.2em .7em;text-align:right}"
    "td:first-child,th:first-child{text-align:left}.origin{color:#666;font-size:90%}img{max-width:100%}"
)


def read(results: Path) -> list[dict[str, Any]]:
    """All results of a directory, by experiment. Raises ValueError naming a file that is none."""
    found = []
    for path in sorted(results.glob("*.json")):
        try:
            content = json.loads(path.read_text())
            content["rows"], content["experiment"]
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path}: no result of an experiment ({error})") from None
        found.append(content)
    return found


def write(results: Path, docs: Path | None = None) -> Path:
    """Writes report.html and PNGs beside the results; tables and plots into `docs`, too, if given. The HTML's path."""
    parts = []
    found = read(results)
    for result in found:
        name = result["experiment"]
        parts.append(f"<h2>{html.escape(name)}: {html.escape(result['title'])}</h2>")
        parts.append(f'<p class="origin">{html.escape(origin(result))}<br>{html.escape(_settings(result))}</p>')
        parts += [_html(table) for table in tables(result)]
        for what, x, y, label, logarithmic in _PLOTS.get(name, ()):
            path = results / f"{name}-{what}.png"
            if _plot(result, x, y, label, path, logarithmic=logarithmic):
                parts.append(f'<img src="{path.name}" alt="{html.escape(label)}">')
    page = results / "report.html"
    results.mkdir(parents=True, exist_ok=True)
    page.write_text(
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>ColdNotify under load</title>'
        f"<style>{_STYLE}</style><h1>ColdNotify under load</h1>{''.join(parts)}</html>\n"
    )
    if docs is not None:
        fill(docs, found, results)
    return page


def fill(docs: Path, results: Sequence[Result], results_directory: Path) -> None:
    """Puts each experiment's tables between `<!-- NAME -->` and `<!-- /NAME -->`. Raises ValueError without those.

    Plots are copied into a directory beside `docs` that has its name without the suffix.
    """
    text = docs.read_text(encoding="utf-8")
    for result in results:
        name = result["experiment"]
        begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
        before, found, rest = text.partition(begin)
        _, closed, after = rest.partition(end)
        if not found or not closed:
            raise ValueError(f"{docs}: has no {begin} ... {end}")
        plots = [results_directory / f"{name}-{what}.png" for what, *_ in _PLOTS.get(name, ())]
        images = [f"![{path.stem}]({_kept(path, docs).relative_to(docs.parent)})" for path in plots if path.exists()]
        body = "\n\n".join([origin(result), *(table.markdown() for table in tables(result)), *images])
        text = f"{before}{begin}\n{body}\n{end}{after}"
    docs.write_text(text, encoding="utf-8")


def _kept(plot: Path, docs: Path) -> Path:
    """Its copy, which stays with the docs wherever the results are."""
    directory = docs.with_suffix("")
    directory.mkdir(exist_ok=True)
    return Path(shutil.copy(plot, directory))


def _settings(result: Result) -> str:
    parameters = ", ".join(f"{name} {value}" for name, value in result["parameters"].items())
    versions = ", ".join(f"{name} {value}" for name, value in result["versions"].items())
    return f"Parameters: {parameters}. Versions: {versions}."


def _html(table: Table) -> str:
    head = "".join(f"<th>{html.escape(one)}</th>" for one in table.columns)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(one)}</td>" for one in row) + "</tr>" for row in table.rows)
    note = f"<p>{html.escape(table.note)}</p>" if table.note else ""
    return f"<h3>{html.escape(table.title)}</h3><table><tr>{head}</tr>{body}</table>{note}"


def _plot(result: Result, x: str, y: str, label: str, path: Path, *, logarithmic: bool) -> bool:
    """A line for each server; whether there was anything to draw."""
    rows = [row for row in result["rows"] if at(row, y) is not None and at(row, x) is not None]
    if not rows:
        return False
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    lines: dict[str, list[tuple[float, float]]] = {}
    for server, durability, at_x, value in medians(rows, ("server", "durability", x), (y,)):
        lines.setdefault(f"{server} ({durability})", []).append((at_x, value))
    for name, points in lines.items():
        axes.plot(*zip(*sorted(points), strict=True), marker="o", label=name)
    if logarithmic and all(value > 0 for points in lines.values() for _, value in points):
        axes.set_yscale("log")
    axes.set_xlabel({"per_s": "publishes a second", "fan_out": "fan-out"}.get(x, x))
    axes.set_ylabel(label)
    axes.set_title(f"{result['title']} - commit {result['commit']}, {result['machine']['processor']}", fontsize=8)
    axes.grid(visible=True, alpha=0.3)
    axes.legend(fontsize=8)
    figure.savefig(path, dpi=120)
    return True
