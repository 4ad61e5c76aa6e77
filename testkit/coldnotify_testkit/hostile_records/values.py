"""Hostile names, numbers, texts, keys, headers; and bytes that are bent."""

from random import Random

from coldnotify_schemas.arrival_versions import ARRIVAL_HEADER
from coldnotify_schemas.channels import EXPIRES_HEADER, ID_HEADER, SOURCE_HEADER, TIME_HEADER, TO_HEADER
from coldnotify_schemas.matcher_state import ENDED_BY_HEADER
from coldnotify_schemas.priority import PRIORITY_HEADER
from coldnotify_schemas.records import (
    BASE64_VALUE,
    MOVED_HEADER,
    PAYLOAD_HEADER,
    PLACE_HEADER,
    REASON_HEADER,
    SINCE_HEADER,
)
from coldnotify_schemas.removals import REMOVES_HEADER

from coldnotify_testkit.record_batches import Header

Body = tuple[int, bytes | None, bytes | None]
"""Partition, key, value."""

HUGE_BYTES = 900_000
HUGE_SHARE = 0.0003
"""Share of huge values. A few are enough, because each takes a megabyte in Kafka."""
MADE_UP = 200
"""The number of made-up clients, gateways and objects. Small, because fuzzing records does not test memory."""

NUMBERS = (
    -1, 0, 1, 2, 63, 64, 65, 10_001, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, 1 << 53, (1 << 53) + 1,
    1 << 62, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, 1 << 64,
)  # fmt: skip
TEXTS = (
    "", " ", "\0", "a/b", "a/b/c/d", "@generation", "..", "%s%n", "\ud800", "\udfff\ud800", "\ufeff", "x" * 64,
    "x" * 65, "x" * 255, "x" * 256, "ü", "\U0001f9ca" * 64, "0", "null", "look." + "0" * 24, "coldnotify.objects",
)  # fmt: skip
_IN_BASE64_SHARE = 0.2
"""Share of records with headers that also say how their payload is written."""
_HEADER_NAMES = (
    MOVED_HEADER, SINCE_HEADER, ARRIVAL_HEADER, REASON_HEADER, PLACE_HEADER, REMOVES_HEADER, ENDED_BY_HEADER,
    "traceparent", "tracestate", ID_HEADER, EXPIRES_HEADER, TO_HEADER, SOURCE_HEADER, TIME_HEADER, PRIORITY_HEADER,
    PAYLOAD_HEADER,
)  # fmt: skip


class Values:
    """Draws hostile values, with a generator's random numbers."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def made_up(self, what: str) -> str:
        """Returns the name of a client, gateway or object that does not exist."""
        return f"hostile-{what}-{self._random.randrange(MADE_UP)}"

    def number(self, bits: int) -> int:
        """Not negative, of at most so many bits."""
        return self._random.choice([number for number in NUMBERS if 0 <= number < 1 << bits])

    def text(self) -> str:
        """For a field that is to be text."""
        draw = self._random
        if draw.random() < HUGE_SHARE:
            return "x" * HUGE_BYTES
        return draw.choice([draw.choice(TEXTS), self.made_up("object")])

    def timestamp_ms(self, now_ms: int) -> int:
        """Returns a record's timestamp: a long time ago, or in the far future."""
        day_ms = 86_400_000
        times = 1, now_ms - 400 * day_ms, now_ms + 1_000, now_ms + 4_000 * day_ms, 1 << 53, 1 << 62, (1 << 63) - 1
        return self._random.choice(times)

    def key(self, key: str) -> bytes | None:
        """Returns a record's key: this one, or one that differs from it slightly."""
        draw = self._random
        if draw.random() > 0.1:
            return key.encode()
        domain, _, rest = key.partition("/")
        bent = (
            None, b"", b"/", b"//", b"///", b"\xff\xfe", b"@generation", b"@generation/0", b"@/@/@generation",
            b"a/b/c/d", key.encode()[:-1], b"/" + key.encode(), key.encode() + b"/", key.encode() + b"\0",
            key.upper().encode(), key.encode().replace(b"/", b"\xc0\xaf"), f"{domain}//{rest}".encode(),
            key.encode() * 1000, key.encode("utf-16"),
        )  # fmt: skip
        return draw.choice(bent)

    def headers(self) -> list[Header]:
        """A record's: none, mostly."""
        draw = self._random
        if draw.random() < 0.6:
            return []
        names = (*_HEADER_NAMES, "", "\0", "ü")
        values: tuple[bytes | None, ...] = (
            None, b"", b"\xff\xfe", b"0/0", b"00000000/18446744073709551616", b"7@9", b"-1@-1", b"@",
            b"x" * 5000, b"1" * 400,
            b"high", b"17", b"a,b,a", "²".encode(), b"9" * 19,
            b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", b"00-zz-zz-zz",
            b"00-" + b"0" * 32 + b"-" + b"0" * 16 + b"-01",
        )  # fmt: skip
        found: list[Header] = [(draw.choice(names).encode(), draw.choice(values)) for _ in range(draw.randint(1, 3))]
        if draw.random() < _IN_BASE64_SHARE:
            found.append((PAYLOAD_HEADER.encode(), draw.choice((BASE64_VALUE, BASE64_VALUE, b"", b"BASE64", None))))
        return found

    def bent(self, value: bytes) -> bytes | None:
        """A record's value: these bytes, mostly; or cut, torn, doubled, gone."""
        draw = self._random
        if draw.random() > 0.15:
            return value
        at = draw.randint(0, len(value))
        match draw.randrange(9):
            case 0:
                return None
            case 1:
                return value[:at]
            case 2:
                return draw.randbytes(draw.choice((0, 1, 2, 16, 200)))
            case 3:
                return value[:at] + draw.randbytes(draw.randint(1, 4)) + value[at:]
            case 4:
                return value[:at] + draw.randbytes(1) + value[at + 1 :]
            case 5:
                return value + value
            case 6:
                return b"\xef\xbb\xbf" + value
            case 7:
                return b"[" + value + b"]"
            case _:
                return value + b"\0"
