"""Adds to the site what is not in docs/: documents from elsewhere in the tree, and the API references.

A hook of mkdocs, named in mkdocs.yml. Documents keep their links, which lead through the tree. Here they lead through
the site: a document or picture of the tree becomes a page or file of the site; what the site lacks is shown as a name.
"""

import posixpath
import re
from pathlib import Path

from coldnotify_testkit import file_map
from coldnotify_tools import http_api_doc
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
ELSEWHERE = (
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "clients/browser/README.md",
    "schemas/transcripts/README.md",
)
"""Documents outside docs/, by their path in the tree, which is their path in the site, too."""
LATER = ("adr/", "runbooks/", "schemas/transcripts/", "api/", "CHANGELOG.md", "file-map.md", "internal-protocol.md")
"""Beginnings of the paths of pages that the search lists behind the others: records, references, single alerts."""
_LATER_BOOST = 1e-5
"""Less than the share of a word in a text by a word in a title, 1:1000."""
_SEARCHES_FROM_DISK = "assets/javascripts/iframe-worker.js"
"""Replaces a page's Worker where the site is opened from disk: Chromium starts no worker from there."""
_ASKS = "assets/javascripts/search.js"
PYTHON = {
    "Devices": ["coldnotify"],
    "Devices, with asyncio": ["coldnotify.aio"],
    "Back-ends": ["coldnotify.publisher", "coldnotify.http_publisher", "coldnotify.http_client"],
    "Errors": ["coldnotify.errors"],
    "A service to test against": ["coldnotify.testing"],
}
"""Contents of the Python reference: the modules under each heading."""
_LINK = re.compile(r"(\]\()([^)#\s:]+)(#[^)\s]*)?(\))")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Puts the documents of a folder in the place of its name in the navigation, its README first.

    Names the site's own copy of iframe-worker, because the plugin `offline` would fetch it from unpkg.com.
    """
    config.extra["polyfills"] = [_SEARCHES_FROM_DISK, _ASKS]
    for section in config.nav or []:
        for entry in next(iter(section.values())) if isinstance(section, dict) else []:
            if isinstance(entry, dict):
                for title, path in entry.items():
                    if str(path).endswith("/"):
                        entry[title] = _documents(str(path))
    return config


def _documents(folder: str) -> list[str]:
    names = sorted(path.name for path in (ROOT / "docs" / folder).glob("*.md"))
    return [folder + name for name in sorted(names, key=lambda name: name != "README.md")]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages that do not lie in docs/."""
    for path in ELSEWHERE:
        files.append(File.generated(config, path, content=(ROOT / path).read_text(encoding="utf-8")))
    reference = "# Python API\n" + "".join(
        f"\n## {heading}\n" + "".join(f"\n::: {module}\n" for module in modules) for heading, modules in PYTHON.items()
    )
    shim = ROOT / "clients" / "browser" / "node_modules" / "iframe-worker" / "shim" / "index.js"
    files.append(File.generated(config, _SEARCHES_FROM_DISK, content=shim.read_text(encoding="utf-8")))
    asks = (ROOT / "docs" / "site" / "search.js").read_text(encoding="utf-8")
    files.append(File.generated(config, _ASKS, content=asks))
    files.append(File.generated(config, "api/python.md", content=reference))
    files.append(File.generated(config, "api/browser.md", content=_browser()))
    files.append(File.generated(config, "api/http.md", content=http_api_doc.generate()))
    files.append(File.generated(config, "file-map.md", content=file_map.generate()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turns links through the tree into links through the site."""
    here = page.file.src_uri
    if here.startswith(LATER):
        page.meta["search"] = {"boost": _LATER_BOOST}
    in_tree = here if here in ELSEWHERE else f"docs/{here}"

    def lead(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(in_tree), match[2]))
        in_site = target.removeprefix("docs/") if target.startswith("docs/") else target
        if (ROOT / target).is_dir():
            in_site = posixpath.join(in_site, "README.md")
        if files.get_file_from_path(in_site) is None:
            return f"]({_NOT_HERE})"
        return f"{match[1]}{posixpath.relpath(in_site, posixpath.dirname(here) or '.')}{match[3] or ''}{match[4]}"

    # Two steps: what leads nowhere loses its brackets.
    led = _LINK.sub(lead, markdown)
    return re.sub(rf"\[([^\[\]]*)\]\({re.escape(_NOT_HERE)}\)", r"\1", led)


_NOT_HERE = "not-in-the-site"


def _browser() -> str:
    """The browser client's reference: what `index.ts` exports, as the compiler's declarations say it."""
    declared = ROOT / "clients" / "browser" / "dist"
    parts = ["# Browser API\n"]
    for module in ("notify", "notification", "state", "errors"):
        text = (declared / f"{module}.d.ts").read_text(encoding="utf-8")
        parts.append(f"\n## {module}\n\n```ts\n{text.strip()}\n```\n")
    return "".join(parts)
