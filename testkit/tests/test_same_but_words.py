"""`same_but_words` passes changes of words, and finds every other one."""

import pytest
from coldnotify_testkit.same_but_words import differences

BEFORE = '''"""What it is."""

LIMIT = 3
"""Of frames."""


def send(frame: str) -> None:
    """Who sends."""
    # Sparse.
    if not frame:
        raise ValueError(f"frame: {frame!r} is none")
    log.info("told %s", frame)
    write("word", frame)
'''


def is_same(before: str, after: str, *, path: str = "module.py", strings: bool = False) -> bool:
    return differences(path, before, after, strings=strings)[0]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("What it is.", "Sends frames."),
        ("Of frames.", "Number of frames."),
        ("Who sends.", "Sends a frame.\n\n    Raises ValueError if it is empty.\n    "),
        ("    # Sparse.\n", ""),
        ("{frame!r} is none", "unknown value {frame!r}"),
        ("told %s", "sent %s"),
    ],
)
def test_words_may_differ(before: str, after: str) -> None:
    assert before in BEFORE
    assert is_same(BEFORE, BEFORE.replace(before, after))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("LIMIT = 3", "LIMIT = 4"),
        ("def send", "def tell"),
        ("{frame!r}", "{frame}"),
        ("told %s", "told %d"),
        ("log.info", "log.debug"),
        ('"word"', '"other"'),
        ("    # Sparse.\n", "    # noqa: E501\n"),
    ],
)
def test_nothing_else_may_differ(before: str, after: str) -> None:
    assert before in BEFORE
    assert not is_same(BEFORE, BEFORE.replace(before, after))


def test_other_strings_may_differ_when_asked_to() -> None:
    after = BEFORE.replace('"word"', '"other"')
    assert is_same(BEFORE, after, strings=True)
    assert differences("module.py", BEFORE, after, strings=True)[1] == ["'word' -> 'other'"]


def test_strings_of_errors_and_log_calls_are_listed() -> None:
    assert differences("module.py", BEFORE, BEFORE.replace("told", "sent"), strings=False)[1] == [
        "'told %s' -> 'sent %s'"
    ]


def test_tests_may_be_renamed_and_other_functions_may_not() -> None:
    before = "def test_one() -> None: ...\ndef helper() -> None: ...\n"
    assert is_same(before, before.replace("test_one", "test_two"), path="test_module.py")
    assert not is_same(before, before.replace("test_one", "test_two"))
    assert not is_same(before, before.replace("helper", "other"), path="test_module.py")


@pytest.mark.parametrize("path", ["module.ts", "module.proto"])
def test_comments_between_braces_may_differ(path: str) -> None:
    before = 'send("http://a"); // Who sends.\n/** Of frames. */\nconst limit = 3;\n'
    assert is_same(before, before.replace("// Who sends.", "").replace("Of frames.", "Frames."), path=path)
    assert not is_same(before, before.replace("//a", "//b"), path=path)
    assert not is_same(before, before.replace("3", "4"), path=path)


def test_a_regular_expression_of_typescript_contains_no_comment() -> None:
    before = r"const scheme = text.replace(/\/\/.*/, '') + a / b; // Who." + "\n"
    assert is_same(before, before.replace(" // Who.", ""), path="module.ts")
    assert not is_same(before, before.replace("b;", "c;"), path="module.ts")
