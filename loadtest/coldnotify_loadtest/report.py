"""The report of all results that are there: tables and plots as one HTML file, PNGs, and tables as CSV."""

import html
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from coldnotify_loadtest.captions import origin, parameters, versions
from coldnotify_loadtest.experiments import EXPERIMENTS
from coldnotify_loadtest.tables import Table, tables

Result = Mapping[str, Any]
_STYLE = (
    "body{font:15px/1.5 sans-serif;max-width:72em;margin:2em auto;padding:0 1em;color:#222}"
    "table{border-collapse:collapse;margin:1em 0}td,th{border-bottom:1px solid #ddd;padding:.2em .7em;text-align:right}"
    "td:first-child,th:first-child{text-align:left}.origin{color:#666;font-size:90%}img{max-width:100%}"
)


def read(results: Path) -> list[dict[str, Any]]:
    """Reads all results of a directory, by experiment. Raises ValueError naming an invalid file."""
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
    """Writes report.html and PNGs beside the results; tables as CSV, and plots, into `docs`, too. The HTML's path."""
    from coldnotify_loadtest.plots import draw  # matplotlib takes a second, and most commands draw nothing

    parts = []
    for result in read(results):
        name = result["experiment"]
        plots = draw(result, results)
        parts.append(f"<h2>{html.escape(name)}: {html.escape(result['title'])}</h2>")
        said = (origin(result), parameters(result), versions(result))
        parts.append(f'<p class="origin">{"<br>".join(map(html.escape, said))}</p>')
        parts += [_html(table) for table in tables_of(result)]
        parts += [f'<img src="{path.name}" alt="{html.escape(label)}">' for path, label in plots]
        if docs is not None:
            keep(docs, result, [path for path, _ in plots])
    page = results / "report.html"
    results.mkdir(parents=True, exist_ok=True)
    page.write_text(
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>ColdNotify under load</title>'
        f"<style>{_STYLE}</style><h1>ColdNotify under load</h1>{''.join(parts)}</html>\n"
    )
    return page


def keep(docs: Path, result: Result, plots: Sequence[Path]) -> None:
    """Writes each table that has rows to a CSV file of `docs`, and copies the plots there.

    A table without rows is of a part that was not run: its file stays as it was.
    """
    docs.mkdir(parents=True, exist_ok=True)
    said = (origin(result), parameters(result), versions(result))
    for number, table in enumerate(tables_of(result), 1):
        if table.rows:
            (docs / f"{result['experiment']}-{number}.csv").write_text(table.csv(said), encoding="utf-8")
    for path in plots:
        shutil.copy(path, docs)


def tables_of(result: Result) -> list[Table]:
    """Returns the tables that its experiment defines."""
    experiment = EXPERIMENTS[result["experiment"]]
    return tables(result["rows"], experiment.tables, experiment.note)


def _html(table: Table) -> str:
    head = "".join(f"<th>{html.escape(one)}</th>" for one in table.columns)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(one)}</td>" for one in row) + "</tr>" for row in table.rows)
    note = f"<p>{html.escape(table.note)}</p>" if table.note else ""
    return f"<h3>{html.escape(table.title)}</h3><table><tr>{head}</tr>{body}</table>{note}"
