"""The report of all results that are there: tables and plots as one HTML file, PNGs, and tables for the docs."""

import html
import json
import re
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
    from coldnotify_loadtest.plots import draw  # matplotlib takes a second, and most commands draw nothing

    parts = []
    found = read(results)
    plots = {result["experiment"]: draw(result, results) for result in found}
    for result in found:
        name = result["experiment"]
        parts.append(f"<h2>{html.escape(name)}: {html.escape(result['title'])}</h2>")
        said = (origin(result), parameters(result), versions(result))
        parts.append(f'<p class="origin">{"<br>".join(map(html.escape, said))}</p>')
        parts += [_html(table) for table in tables_of(result)]
        parts += [f'<img src="{path.name}" alt="{html.escape(label)}">' for path, label in plots[name]]
    page = results / "report.html"
    results.mkdir(parents=True, exist_ok=True)
    page.write_text(
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>ColdNotify under load</title>'
        f"<style>{_STYLE}</style><h1>ColdNotify under load</h1>{''.join(parts)}</html>\n"
    )
    if docs is not None:
        fill(docs, found, plots)
    return page


def fill(docs: Path, results: Sequence[Result], plots: Mapping[str, Sequence[tuple[Path, str]]]) -> None:
    """Puts each experiment's tables between `<!-- NAME -->` and `<!-- /NAME -->`. Raises ValueError without those.

    `plots`: files and labels by experiment. Copies go into a directory beside `docs` that has its name without the
    suffix: they stay, wherever the results are.
    """
    text = docs.read_text(encoding="utf-8")
    for result in results:
        name = result["experiment"]
        begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
        before, found, rest = text.partition(begin)
        earlier, closed, after = rest.partition(end)
        if not found or not closed:
            raise ValueError(f"{docs}: has no {begin} ... {end}")
        kept = docs.with_suffix("")
        kept.mkdir(exist_ok=True)
        images = []
        for path, label in plots[name]:
            shutil.copy(path, kept)
            images.append(f"![{label}]({kept.name}/{path.name})")
        body = section(result, images, earlier.strip())
        text = f"{before}{begin}\n{body}\n{end}{after}"
    docs.write_text(text, encoding="utf-8")


def section(result: Result, images: Sequence[str], earlier: str) -> str:
    """What the docs say of an experiment: its origin, tables, images.

    `earlier`: what they said until now. Where the result is of some parts only, a table that has no rows of it stays as
    it was, and the origin with it; each new table then says its own.
    """
    said = f"{origin(result)} {parameters(result)} {versions(result)}"
    blocks = re.split(r"\n\n(?=\*\*|!\[)", earlier)
    stood = {block.split("\n", 1)[0]: block for block in blocks[1:]}
    found = {f"**{table.title}**": table for table in tables_of(result)}
    staying = [title for title, table in found.items() if not table.rows and "\n|---|" in stood.get(title, "")]
    if not staying:
        return "\n\n".join([said, *(table.markdown() for table in found.values()), *images])
    made = [
        stood[title] if title in staying else f"{table.markdown()}\n\nThis table: {said}"
        for title, table in found.items()
    ]
    images_stood = [block for block in blocks[1:] if block.startswith("![") and block not in images]
    return "\n\n".join([blocks[0], *made, *images_stood, *images])


def tables_of(result: Result) -> list[Table]:
    """As its experiment wants them."""
    experiment = EXPERIMENTS[result["experiment"]]
    return tables(result["rows"], experiment.tables, experiment.note)


def _html(table: Table) -> str:
    head = "".join(f"<th>{html.escape(one)}</th>" for one in table.columns)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(one)}</td>" for one in row) + "</tr>" for row in table.rows)
    note = f"<p>{html.escape(table.note)}</p>" if table.note else ""
    return f"<h3>{html.escape(table.title)}</h3><table><tr>{head}</tr>{body}</table>{note}"
