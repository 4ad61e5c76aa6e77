"""The documentation's site, opened from disk in a browser: its search works, and the right pages answer questions."""

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from coldnotify_testkit.browser import MISSING, Browser

ROOT = Path(__file__).parents[2]
BROWSER = ROOT / "clients" / "browser"
LIMIT_S = 600
HITS = 3
QUESTIONS = {
    "rotate certificates": "operating.html#certificates",
    "gateways for 200,000 devices": "faq.html#gateways-for-200000-devices",
    "a wrong clock": "faq.html#a-wrong-clock",
    "delete a device (GDPR)": "data.html#delete-a-device-gdpr",
    "my own Kafka": "faq.html#my-own-kafka",
    "back up and restore": "operating.html#backing-up",
    "test without Kafka": "testing.html",
    "cost on a metered link": "performance.html#cost-on-the-wire",
    "move from MQTT": "comparison.html#from-mqtt",
    "a client in C": "faq.html#python-versions-a-client-in-c",
    "Python versions": "faq.html#python-versions-a-client-in-c",
    "what an upgrade promises": "versions.html",
}
"""What somebody asks, and the place that answers it."""
_UNBUILT = (
    MISSING
    or (None if find_spec("material") else "mkdocs is not installed (make site)")
    or (None if (BROWSER / "node_modules" / "iframe-worker").is_dir() else "npm ci was not run (make site)")
    or (None if (BROWSER / "dist" / "index.d.ts").is_file() else "the browser client is not built (make site)")
)
pytestmark = [pytest.mark.skipif(_UNBUILT is not None, reason=_UNBUILT or ""), pytest.mark.timeout(LIMIT_S)]
_HITS = (
    "[...document.querySelectorAll('.md-search-result__item')]"
    ".map(hit => [...hit.querySelectorAll('a')].map(link => link.href))"
)
_LOADS = re.compile(r"<(?:script|img|iframe|source|link)\b[^>]*\s(?:src|href)=[\"']?(?:https?:|//)[^>]*>")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("site")
    argv = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(made)]
    subprocess.run(argv, cwd=ROOT, check=True, capture_output=True, timeout=LIMIT_S)
    return made


def hits(window: Browser, site: Path, question: str) -> list[list[str]]:
    """Asks the search on the first page. Returns the links of each hit, to the page and to its sections, best first."""
    window.open((site / "index.html").as_uri())
    window.run(
        "const box = document.querySelector('.md-search__input'); box.focus(); box.value = arguments[0];"
        "box.dispatchEvent(new Event('keyup', {bubbles: true}))",
        question,
    )
    window.wait_for(f"{_HITS}.length", f"the search finds something about {question!r}")
    start = site.as_uri() + "/"
    return [
        [re.sub(r"\?h=[^#]*", "", link).removeprefix(start) for link in links]
        for links in window.run(f"return {_HITS}")
    ]


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    found = {page.name: _LOADS.findall(page.read_text(encoding="utf-8")) for page in site.rglob("*.html")}
    assert {name: loads for name, loads in found.items() if loads} == {}


def test_the_first_three_hits_answer(site: Path, window: Browser) -> None:
    window.be_online(False)
    found = {question: hits(window, site, question) for question in QUESTIONS}
    wrong = {
        question: found[question]
        for question, answer in QUESTIONS.items()
        if answer not in (link for links in found[question][:HITS] for link in links)
    }
    assert wrong == {}
    for question, links in found.items():
        records = [page.startswith("adr/") for page, *_ in links]
        assert records == sorted(records), f"{question}: a decision record stands before a page in {links}"
