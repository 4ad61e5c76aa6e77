"""Revoked certificates and tokens that have not expired yet: a list in a file, read again when it changes.

A line is `serial HEX` or `serial=HEX` (a certificate's serial number, as `openssl x509 -noout -serial` prints it) or
`jti TEXT` (a token's claim). Empty lines are ignored, and so is text after a # at a line's start or after white space.
The last line must end with a line break: without it the file was truncated.
"""

import re
import time
from pathlib import Path
from weakref import WeakSet

import structlog

log = structlog.get_logger()

LOOK_S = 1.0
"""Minimum interval of checks of the file; a check is one stat()."""
FILE_BYTES_MAX = 2 * 1024 * 1024
"""Some 50,000 lines, which take about 50 ms to read. For more entries, certificates with a short validity are the
better choice."""
_SERIAL = re.compile(r"(0x)?([0-9A-Fa-f]{2}:)*[0-9A-Fa-f]+")
_COMMENT = re.compile(r"(^|\s)#.*")


class BadList(ValueError):
    """The file cannot be used; the message says why."""


class RevocationList:
    """The revoked proofs in a file. Safe to use from several threads, because the set is replaced as a whole."""

    def __init__(self, path: str) -> None:
        """`path`: empty if nothing is ever revoked. Raises BadList."""
        self._path = Path(path) if path else None
        self._proofs: frozenset[str] = frozenset()
        self._read_of: tuple[int, ...] | None = None
        """The stamp of the file read last."""
        self._wrong_in_it = ""
        self._said = ""
        """The reason why the file cannot be used; empty while it can."""
        self._looked_s = 0.0
        if self._path is not None:
            self._look()
            _LISTS.add(self)

    @property
    def on(self) -> bool:
        """True if there is a list."""
        return self._path is not None

    @property
    def usable(self) -> bool:
        """True if the file in its current state could be read."""
        self.now()
        return not self._said

    def now(self) -> frozenset[str]:
        """Returns all revoked proofs; a new object only if the file's contents have changed.

        A file that becomes unusable is logged once, and the former contents stay.
        """
        if self._path is not None and time.monotonic() - self._looked_s >= LOOK_S:
            try:
                self._look()
            except BadList as error:
                if str(error) != self._said:
                    log.error("list of what is revoked not read again; what was known stays", error=str(error))
                self._said = str(error)
            else:
                self._said = ""
        return self._proofs

    def bars(self, proof: str) -> bool:
        """Returns true if this proof, made by `serial` or `jti`, is revoked."""
        return proof in self.now()

    def _look(self) -> None:
        """Reads the file if it has changed. Raises BadList, also again for the same mistake in it."""
        assert self._path is not None
        self._looked_s = time.monotonic()
        try:
            found = self._path.stat()
            stamp = found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
            if stamp != self._read_of:
                if found.st_size > FILE_BYTES_MAX:
                    raise BadList(f"{self._path}: has {found.st_size} bytes, {FILE_BYTES_MAX} are read at most")
                text = self._path.read_text(encoding="utf-8")
                # Set only after reading, because an unreadable file has to be read again even if it does not change.
                self._wrong_in_it, self._read_of = self._take(text), stamp
        except OSError as error:
            raise BadList(f"{self._path}: cannot be read: {error.strerror}") from None
        except UnicodeDecodeError:
            raise BadList(f"{self._path}: not a text file") from None
        if self._wrong_in_it:
            raise BadList(self._wrong_in_it)

    def _take(self, text: str) -> str:
        """Takes the contents; returns the mistake in them, or ""."""
        try:
            proofs = _parse(f"{self._path}", text)
        except BadList as error:
            return str(error)
        if self._proofs and not proofs:
            log.warning(
                "list of what is revoked has become empty: all that was revoked counts again", path=str(self._path)
            )
        elif self._proofs != proofs:
            log.info("list of what is revoked read", path=str(self._path), entries=len(proofs))
        if self._proofs != proofs:
            self._proofs = proofs
        return ""


_LISTS: "WeakSet[RevocationList]" = WeakSet()
"""The lists of this process that have a file."""


def lists_usable() -> bool | None:
    """Returns true if all lists of this process can be read; None if it has none."""
    lists = list(_LISTS)
    return all(one.usable for one in lists) if lists else None


def serial(hex_text: str) -> str:
    """Returns the proof of a certificate: its serial number in a uniform notation."""
    return f"serial {int(hex_text.replace(':', ''), 16):x}"


def jti(claim: str) -> str:
    """Returns the proof of a token: its claim `jti`."""
    return f"jti {claim}"


def _parse(path: str, text: str) -> frozenset[str]:
    """Parses the list. Raises BadList."""
    if text and not text.endswith("\n"):
        raise BadList(f"{path}: its last line has no end, so it may have been cut short")
    return frozenset(
        _proof(path, number, words)
        for number, line in enumerate(text.splitlines(), 1)
        if (words := _COMMENT.sub("", line, count=1).split())
    )


def _proof(path: str, number: int, words: list[str]) -> str:
    said = " ".join(words)[:80]
    if words[0].startswith("serial=") and len(words) == 1:
        words = words[0].split("=", 1)
    match words:
        case ["serial", number_hex] if _SERIAL.fullmatch(number_hex):
            return serial(number_hex)
        case ["jti", claim]:
            return jti(claim)
    raise BadList(f"{path}, line {number}: {said!r} is neither 'serial HEX' nor 'jti TEXT'")
