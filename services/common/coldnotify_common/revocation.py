"""Certificates and tokens that count no longer although they have not expired: a file's list, read when it changes.

A line is `serial HEX` (a certificate's serial number, as `openssl x509 -noout -serial` says it) or `jti TEXT` (a
token's claim). Empty lines and what follows a # are nothing.
"""

import re
import time
from pathlib import Path

import structlog

log = structlog.get_logger()

LOOK_S = 1.0
"""The file is looked at no more often than this: a look is one stat()."""
FILE_BYTES_MAX = 2 * 1024 * 1024
"""Some 50,000 lines, which take some 50 ms to read. More are for certificates that hold for short."""
_SERIAL = re.compile(r"(0x)?([0-9A-Fa-f]{2}:)*[0-9A-Fa-f]+")


class BadList(ValueError):
    """A file that cannot be used; the message says what is wrong with it."""


class Revoked:
    """What the file bars. Safe to be used from several threads: what is known is replaced as a whole."""

    def __init__(self, path: str) -> None:
        """`path` empty: nothing is barred, ever. Raises BadList."""
        self._path = Path(path) if path else None
        self._proofs: frozenset[str] = frozenset()
        self._read_of: tuple[int, int, int] | None = None
        self._looked_s = 0.0
        if self._path is not None:
            self._look()

    @property
    def on(self) -> bool:
        """Whether there is a list."""
        return self._path is not None

    def bars(self, proof: str) -> bool:
        """Whether this proof, as `serial` or `jti` makes one, counts no longer.

        A file that has become unusable is said in the log, and what was known before stays.
        """
        if self._path is None:
            return False
        now_s = time.monotonic()
        if now_s - self._looked_s >= LOOK_S:
            try:
                self._look()
            except BadList as error:
                log.error("list of what is revoked not read again; what was known stays", error=str(error))
        return proof in self._proofs

    def _look(self) -> None:
        """Reads the file if it is another than before. Raises BadList."""
        assert self._path is not None
        self._looked_s = time.monotonic()
        try:
            found = self._path.stat()
            stamp = found.st_ino, found.st_size, found.st_mtime_ns
            if stamp == self._read_of:
                return
            # Remembered also where it cannot be used: that is said once, not each second.
            self._read_of = stamp
            if found.st_size > FILE_BYTES_MAX:
                raise BadList(f"{self._path}: has {found.st_size} bytes, {FILE_BYTES_MAX} are read at most")
            text = self._path.read_text(encoding="utf-8")
        except OSError as error:
            raise BadList(f"{self._path}: cannot be read: {error.strerror}") from None
        except UnicodeDecodeError:
            raise BadList(f"{self._path}: is no text") from None
        proofs = frozenset(
            _proof(self._path, number, words)
            for number, line in enumerate(text.splitlines(), 1)
            if (words := line.partition("#")[0].split())
        )
        if self._proofs != proofs:
            log.info("list of what is revoked read", path=str(self._path), entries=len(proofs))
        self._proofs = proofs


def serial(hex_text: str) -> str:
    """The proof of a certificate: its serial number, however it is written."""
    return f"serial {int(hex_text.replace(':', ''), 16):x}"


def jti(claim: str) -> str:
    """The proof of a token: its claim `jti`."""
    return f"jti {claim}"


def _proof(path: Path, number: int, words: list[str]) -> str:
    kind, *rest = words
    if len(rest) == 1 and kind == "jti":
        return jti(rest[0])
    if len(rest) == 1 and kind == "serial" and _SERIAL.fullmatch(rest[0]):
        return serial(rest[0])
    raise BadList(f"{path}, line {number}: {' '.join(words)[:80]!r} is neither 'serial HEX' nor 'jti TEXT'")
