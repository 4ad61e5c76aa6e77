"""The client's two cores, in Python and TypeScript, have the same files, and in them the same classes and functions."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / "clients" / "python" / "coldnotify" / "_core"
TYPESCRIPT = ROOT / "clients" / "browser" / "src" / "core"
FOLDERS = {"session", "streams", "interests", "delivery", "document", "publishing", "shares"}

PYTHON_FILES = {
    "driver": "several shells share its order of steps; a page has one, run.ts",
    "publishing/outboxLog": "a page has no outbox on a disk",
    "publishing/outboxQueue": "a page has no outbox on a disk",
}
"""Modules that the browser's core lacks, and why."""

_AN_INTEREST_IS_A_TEXT = "Maps of JavaScript compare texts alone: an interest is a text with a mark, not an object"
_A_PROPERTY = "a property or method in Python; in TypeScript an interface, which has none"
_PYTHON_HAS_IT = "Python's language or library has it"
EXCEPTIONS = {
    "interests/interests": {
        **dict.fromkeys(("QueryInterest", "ChannelInterest"), _AN_INTEREST_IS_A_TEXT),
        **dict.fromkeys(("channelFrom", "channelBy", "channelsBy"), _AN_INTEREST_IS_A_TEXT),
        **dict.fromkeys(("shareBy", "shareFrom", "byShare", "shareOf", "shareText", "isShare"), _AN_INTEREST_IS_A_TEXT),
        **dict.fromkeys(("queriesOf", "channelsOf", "isName", "isQuery", "isChannel"), _AN_INTEREST_IS_A_TEXT),
        **dict.fromkeys(("byQuery", "byChannel", "channelOf", "channelText", "bytesOf"), _AN_INTEREST_IS_A_TEXT),
        **dict.fromkeys(("spareBytes", "Spare"), "Python's queries count down the room themselves"),
    },
    "interests/since": dict.fromkeys(("sinceNumber", "sinceFields", "positionText"), _A_PROPERTY),
    "publishing/outgoing": {
        "outdoes": _A_PROPERTY,
        "versionsOf": "publish_many is a back-end's",
        "checkPayloadBytesMax": "a page's service says its limit",
        **dict.fromkeys(("compactJson", "payloadFields", "saidPayload"), "a page does not publish over HTTP"),
    },
    "settings": {
        "MoveTimes": "only simulations, in Python, have other times",
        **dict.fromkeys(("silenceS", "staleAfterS"), _A_PROPERTY),
        "settingsOf": "Python's dataclass has defaults",
    },
    "streams/payloads": dict.fromkeys(("base64Of", "bytesOfBase64"), _PYTHON_HAS_IT),
    "delivery/slot": {"floorOf": _A_PROPERTY},
    "delivery/floors": dict.fromkeys(("compareFloors", "highestFloor"), _PYTHON_HAS_IT),
    "streams/feed": {
        **dict.fromkeys(("isMissed", "highest", "reasonOf"), _PYTHON_HAS_IT),
    },
    "document/document": {"emptyDocument": "Python's dataclass has defaults"},
    "document/storedFields": {"pairs": _PYTHON_HAS_IT},
}
"""Classes and functions that only one of the two has, by file, and why."""


def camel(name: str) -> str:
    """The name as TypeScript writes it."""
    first, *others = name.split("_")
    return first + "".join(map(str.title, others))


def python_names(path: Path) -> tuple[set[str], set[str]]:
    """Returns the public classes and functions of a module, but its interfaces; and all its public names."""
    compared, every = set(), set()
    for one in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(one, ast.ClassDef | ast.FunctionDef) and not one.name.startswith("_"):
            every.add(camel(one.name))
            if isinstance(one, ast.FunctionDef) or "Protocol" not in map(ast.unparse, one.bases):
                compared.add(camel(one.name))
        elif isinstance(one, ast.Assign):
            every |= {target.id for target in one.targets if isinstance(target, ast.Name)}
    return compared, every


def typescript_names(path: Path) -> tuple[set[str], set[str]]:
    """Returns the exported classes and functions of a module, and all its exported names."""
    found = re.findall(r"^export (class|function|interface|type|const) (\w+)", path.read_text(encoding="utf-8"), re.M)
    return {name for kind, name in found if kind in ("class", "function")}, {name for _, name in found}


def files(core: Path, suffix: str) -> dict[str, Path]:
    """Returns a core's modules by place, as TypeScript writes it."""
    paths = [path for path in core.rglob(f"*{suffix}") if path.name != "__init__.py"]
    return {(path.parent / camel(path.stem)).relative_to(core).as_posix(): path for path in paths}


def test_both_cores_have_the_seven_folders() -> None:
    assert {path.parent.name for path in PYTHON.rglob("*.py")} - {"_core"} == FOLDERS
    assert {path.parent.name for path in TYPESCRIPT.rglob("*.ts")} - {"core"} == FOLDERS


def test_both_cores_have_the_same_files() -> None:
    assert set(files(PYTHON, ".py")) ^ set(files(TYPESCRIPT, ".ts")) == set(PYTHON_FILES)


def test_both_cores_have_the_same_classes_and_functions() -> None:
    python, typescript = files(PYTHON, ".py"), files(TYPESCRIPT, ".ts")
    alone: dict[str, set[str]] = {}
    for place in set(python) & set(typescript):
        ours, our_names = python_names(python[place])
        theirs, their_names = typescript_names(typescript[place])
        if found := (ours - their_names) | (theirs - our_names):
            alone[place] = found
    assert alone == {place: set(names) for place, names in EXCEPTIONS.items()}, "name them alike, or say why not"
