"""The state file of a client of several groups: each group's document, in one file that is written for all at once.

    {"format": 5, "groups": [DOCUMENT, DOCUMENT, ...]}

Where only one group has a document, the file is that document: as a client of this group alone writes it, and reads it.

Each group's client saves when it must. What the others have not saved yet is written with it, and what waits while
another one writes goes with the next write. So a write is for all, and nobody's document is older than one on disk.
"""

import json
import threading
from collections.abc import Callable, Sequence
from typing import Any

from coldnotify_schemas.protocol import STATE_FORMAT_WITH_GROUPS

from coldnotify._core.document.document import ClientIdentity, decode
from coldnotify._core.driver import Save
from coldnotify._run import NotifyRun
from coldnotify.errors import StateDamaged, StateError, StateMismatch
from coldnotify.state import State

Along = Callable[[], tuple[NotifyRun, Save] | None]
"""Returns what a group's client has not saved yet, and who is to be told that it was written."""


class GroupsState:
    """The file, for the clients of one program. Its methods may be called from any thread."""

    def __init__(self, state: State, domain: str, group_ids: Sequence[str], client_id: str) -> None:
        self.state = state
        self._identities = {group: ClientIdentity(domain, group, client_id) for group in group_ids}
        self.sections = {group: GroupSection(self, group) for group in group_ids}
        self._documents: dict[str, bytes] = {}
        """The content of the file."""
        self._damage: StateDamaged | None = None
        """The file's damage, until it is set aside."""
        self._opened: set[str] = set()
        self._opening = threading.Lock()
        """A client's own lock may be held when this one is taken, never the other way around."""
        self._writing = threading.Lock()
        """Nobody takes a client's lock while it holds this one."""

    def open(self, group: str) -> None:
        """Take the file, if no other group has. Raises StateInUse, StateError."""
        with self._opening:
            if not self._opened:
                self.state.open()
                try:
                    self._load()
                except BaseException:
                    self.state.close()
                    raise
            self._opened.add(group)

    def close(self, group: str) -> None:
        """Let it go, if no other group needs it."""
        with self._opening:
            if group in self._opened:
                self._opened.remove(group)
                if not self._opened:
                    self.state.close()

    def read(self, group: str) -> bytes | None:
        """Returns the group's document; None: it has none. Raises StateDamaged."""
        with self._opening:
            if self._damage is not None:
                raise self._damage
            return self._documents.get(group)

    def set_aside(self) -> str:
        """Moves a damaged file to another name, which is returned: all groups begin with nothing. Raises StateError."""
        with self._opening:
            self._damage, self._documents = None, {}
            return self.state.set_aside()

    def _load(self) -> None:
        self._damage, self._documents = None, {}
        data = self.state.read()
        try:
            self._documents = {} if data is None else _split(data, self._identities)
        except StateDamaged as damage:
            self._damage = damage
        except StateMismatch as error:
            raise StateMismatch(f"{self.state}: {error}") from None

    def write(self, section: "GroupSection", data: bytes) -> None:
        """Write a group's document, and what others have to save. Raises StateError: none of it is written."""
        section.waiting = data
        others = [(one, one.along()) for one in self.sections.values() if one is not section]
        along = [(one, *found) for one, found in others if found is not None]
        for one, _, save in along:
            one.waiting = save.data
        with self._writing:
            waiting = [one for one in self.sections.values() if one.waiting is not None]
            # Whoever wrote before may have taken all of these along.
            if any(one.waiting is not None for one in (section, *(one for one, *_ in along))):
                self._write(waiting)
        for one, run, save in along:
            run.saved_along(save, one.take_problem())
        problem = section.take_problem()
        if problem is not None:
            raise problem

    def _write(self, waiting: Sequence["GroupSection"]) -> None:
        documents = dict(self._documents)
        for one in waiting:
            if one.waiting is not None:
                documents[one.group], one.waiting = one.waiting, None
        try:
            self.state.write(_joined([documents[group] for group in self.sections if group in documents]))
        except StateError as problem:
            for one in waiting:
                one.problem = problem
        else:
            self._documents = documents


class GroupSection(State):
    """A group's part of the file."""

    shared = True

    def __init__(self, file: GroupsState, group: str) -> None:
        super().__init__(None)
        self._file = file
        self.group = group
        self.along: Along = _nothing
        self.waiting: bytes | None = None
        """Is to be written. It has one document at a time."""
        self.problem: StateError | None = None
        """The error of the write that was to have what waited."""

    def open(self) -> None:
        """Take it. Raises StateInUse, StateError."""
        super().open()
        try:
            self._file.open(self.group)
        except BaseException:
            super().close()
            raise

    def close(self) -> None:
        """Let it go."""
        super().close()
        self._file.close(self.group)

    def read(self) -> bytes | None:
        """Returns what was last written; None if nothing was. Raises StateDamaged."""
        return self._file.read(self.group)

    def write(self, data: bytes) -> None:
        """Make `data` the group's document: when this returns, it survives a power cut. Raises StateError."""
        self._file.write(self, data)

    def set_aside(self) -> str:
        """Moves the whole file to another name, which is returned. Raises StateError."""
        return self._file.set_aside()

    def take_problem(self) -> StateError | None:
        """Returns why what waited was not written; None: it was."""
        problem, self.problem = self.problem, None
        return problem

    def __str__(self) -> str:
        return str(self._file.state)


def _nothing() -> None:
    return None


def _joined(documents: Sequence[bytes]) -> bytes:
    """Returns the file's content."""
    if len(documents) == 1:
        return documents[0]
    inside = b",".join(document.rstrip(b"\n") for document in documents)
    return b'{"format":%d,"groups":[%b]}\n' % (STATE_FORMAT_WITH_GROUPS, inside)


def _split(data: bytes, identities: dict[str, ClientIdentity]) -> dict[str, bytes]:
    """Returns the groups' documents, which all can be decoded; those of groups that are no longer wanted are left
    out, if others are there. Raises StateDamaged, StateMismatch.
    """
    fields = _parsed(data)
    if not isinstance(fields, dict) or fields.get("format") != STATE_FORMAT_WITH_GROUPS:
        group = fields.get("group") if isinstance(fields, dict) else None
        identity = identities.get(group) if isinstance(group, str) else None
        known = next(iter(identities.values())) if identity is None else identity
        decode(data, known)
        return {known.group: data}
    groups = fields.get("groups")
    if not isinstance(groups, list):
        raise StateDamaged("groups: is not a list")
    any_of = next(iter(identities.values()))
    documents: dict[str, bytes] = {}
    for one in groups:
        group = one.get("group") if isinstance(one, dict) else None
        if not isinstance(group, str) or group in documents:
            raise StateDamaged("groups: has an entry without a group, or two of one group")
        document = json.dumps(one, ensure_ascii=False, separators=(",", ":")).encode(errors="replace") + b"\n"
        decode(document, ClientIdentity(any_of.domain, group, any_of.client))
        documents[group] = document
    return {group: document for group, document in documents.items() if group in identities}


def _parsed(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise StateDamaged(f"is not JSON: {error}") from None
