"""A file of several groups: what is in it, who writes it, what was there before."""

import json
import threading
from pathlib import Path

import pytest
from coldnotify import State, StateDamaged, StateError, StateInUse, StateMismatch
from coldnotify._core.document.document import ClientIdentity, Document, decode, encode
from coldnotify._groups_state import GroupSection, GroupsState

DOMAIN, CLIENT = "animal.observer", "unit"


def document(group: str, *wanted: str) -> bytes:
    return encode(Document(identity=ClientIdentity(DOMAIN, group, CLIENT), wanted=frozenset(wanted)))


def groups_state(path: Path, *groups: str) -> tuple[GroupsState, list[GroupSection]]:
    file = GroupsState(State(path), DOMAIN, groups, CLIENT)
    return file, list(file.sections.values())


def read(path: Path, *groups: str) -> list[bytes | None]:
    _, sections = groups_state(path, *groups)
    for section in sections:
        section.open()
    try:
        return [section.read() for section in sections]
    finally:
        for section in sections:
            section.close()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state.json"


def test_each_group_reads_what_it_wrote(path):
    _, (one, two) = groups_state(path, "a", "b")
    one.open()
    two.open()
    assert one.read() is None
    one.write(document("a", "x"))
    two.write(document("b", "é", "\u2028"))
    assert one.read() == document("a", "x")
    one.close()
    two.close()
    assert read(path, "a", "b") == [document("a", "x"), document("b", "é", "\u2028")]
    assert read(path, "b", "a", "c") == [document("b", "é", "\u2028"), document("a", "x"), None]


def test_a_file_of_one_group_is_as_its_client_writes_it(path):
    _, (one,) = groups_state(path, "a")
    one.open()
    one.write(document("a", "x"))
    one.close()
    assert path.read_bytes() == document("a", "x")
    assert read(path, "b", "a") == [None, document("a", "x")]


def test_a_group_that_is_no_longer_wanted_is_gone_with_the_next_write(path):
    _, (one, two) = groups_state(path, "a", "b")
    one.open()
    two.open()
    one.write(document("a"))
    two.write(document("b"))
    two.close()
    one.close()
    assert read(path, "b") == [document("b")]
    assert len(json.loads(path.read_bytes())["groups"]) == 2, "nothing is written yet"
    _, (two,) = groups_state(path, "b")
    two.open()
    two.write(document("b", "x"))
    two.close()
    assert path.read_bytes() == document("b", "x")


@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b'{"format":5}',
        b'{"format":5,"groups":[1]}',
        b'{"format":5,"groups":[' + document("a").strip() + b"," + document("a").strip() + b"]}",
        b'{"format":5,"groups":['
        + document("a").strip()
        + b","
        + document("b", "x").strip().replace(b"x", b"y")
        + b"]}",
        b"[" * 100_000,
    ],
)
def test_a_damaged_file_is_set_aside_as_a_whole(path, content):
    path.write_bytes(content)
    _, (one, two) = groups_state(path, "a", "b")
    one.open()
    two.open()
    with pytest.raises(StateDamaged):
        one.read()
    aside = one.set_aside()
    assert Path(aside).read_bytes() == content
    assert one.read() is None
    assert two.read() is None
    two.write(document("b"))
    two.close()
    one.close()
    assert read(path, "a", "b") == [None, document("b")]


def test_others_files_are_refused_and_stay(path):
    _, (one, _) = groups_state(path, "a", "b")
    path.write_bytes(document("c"))
    with pytest.raises(StateMismatch, match=r"belongs to animal\.observer/c/unit"):
        one.open()
    other = encode(Document(identity=ClientIdentity(DOMAIN, "a", "other")))
    content = b'{"format":5,"groups":[' + other.strip() + b"]}"
    path.write_bytes(content)
    with pytest.raises(StateMismatch, match=r"belongs to animal\.observer/a/other"):
        one.open()
    assert path.read_bytes() == content
    with pytest.raises(StateMismatch, match="several groups"):
        decode(content, ClientIdentity(DOMAIN, "a", "other"))
    path.unlink()
    one.open()  # the refusals have let it go


def test_the_file_is_locked_until_the_last_group_lets_it_go(path):
    _, (one, two) = groups_state(path, "a", "b")
    one.open()
    two.open()
    one.close()
    with pytest.raises(StateInUse):
        State(path).open()
    two.close()
    State(path).open()


class SlowState(State):
    """Its writes end when they may."""

    def __init__(self) -> None:
        super().__init__(None)
        self.begun, self.may_end = threading.Semaphore(0), threading.Semaphore(0)
        self.written: list[bytes] = []
        self.fails = False

    def write(self, data: bytes) -> None:
        self.begun.release()
        assert self.may_end.acquire(timeout=60)
        if self.fails:
            raise StateError("the disk is full")
        self.written.append(data)


def test_waiting_documents_share_one_write():
    state = SlowState()
    sections = list(GroupsState(state, DOMAIN, "abc", CLIENT).sections.values())
    threads = [threading.Thread(target=one.write, args=[document(one.group)]) for one in sections]
    threads[0].start()
    assert state.begun.acquire(timeout=60)
    for section, thread in zip(sections[1:], threads[1:], strict=True):
        thread.start()
        while section.waiting is None:
            pass
    state.may_end.release(2)
    for thread in threads:
        thread.join(60)
    first, second = state.written
    assert first == document("a")
    assert [one["group"] for one in json.loads(second)["groups"]] == ["a", "b", "c"]


def test_a_failed_write_is_told_to_all_in_it():
    state = SlowState()
    state.fails = True
    file = GroupsState(state, DOMAIN, "ab", CLIENT)
    one, two = file.sections.values()
    told = []

    class Run:
        def saved_along(self, save, error):
            told.append((save, error))

    class Save:
        data = document("b")

    two.along = lambda: (Run(), Save)  # type: ignore[assignment,return-value]
    one.open()
    two.open()
    state.may_end.release(2)
    with pytest.raises(StateError, match="full"):
        one.write(document("a"))
    ((save, error),) = told
    assert save is Save
    assert isinstance(error, StateError)
    assert one.read() is two.read() is None
    state.fails = False
    one.write(document("a"))
    assert told[1] == (Save, None)
    assert two.read() == document("b")
