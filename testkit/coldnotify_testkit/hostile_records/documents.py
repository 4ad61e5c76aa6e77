"""Hostile JSON: a document that is bent in some fields, then perhaps in its bytes."""

from collections.abc import Mapping
from random import Random

from coldnotify_testkit.hostile_records.values import HUGE_BYTES, HUGE_SHARE, NUMBERS, TEXTS, Values

_NESTED = 10_000
_RAW = (
    "1" + "0" * 400, "-1" + "0" * 400, "1e400", "-1e400", "1e3", "1.5", "0.0", "-0", "NaN", "Infinity", "-Infinity",
    "01", "0x10", "null", "true", "false", "[]", "{}", "[null]", "[[1]]", '{"a":1,"a":2}', '["a","a"]', '"\\u0000"',
    '"\\ud800"', '"\\udc00\\ud800"', '"\\x"', '"', "", "'a'", "\x00", "1,", "/**/1",
)  # fmt: skip
"""Texts of values, valid and invalid JSON."""


class Documents:
    """Draws hostile documents. Some of them are not valid JSON."""

    def __init__(self, random: Random, values: Values) -> None:
        self._random = random
        self._values = values

    def bent(self, fields: Mapping[str, str]) -> bytes | None:
        """The document, bent in some fields, then perhaps in its bytes."""
        draw = self._random
        if draw.random() < 0.05:
            return None
        pairs = [(f'"{name}"', value) for name, value in fields.items()]
        for _ in range(draw.choice((0, 0, 1, 1, 1, 2, 3))):
            at = draw.randrange(len(pairs)) if pairs else 0
            match draw.randrange(6):
                case 0 | 1 | 2 if pairs:
                    pairs[at] = pairs[at][0], self._value()
                case 3 if pairs:
                    del pairs[at]
                case 4 if pairs:
                    pairs.insert(draw.randint(0, len(pairs)), (pairs[at][0], self._value()))
                case _:
                    pairs.append((draw.choice(('"more"', '""', '"\\ud800"', "7", "null", '"format"')), self._value()))
        text = "{" + ",".join(f"{name}:{value}" for name, value in pairs) + "}"
        return self._values.bent(text.encode(errors="replace"))

    def bent_text(self, text: str) -> bytes | None:
        """Returns a document that does not consist of fields, perhaps with bent bytes."""
        return self._values.bent(text.encode(errors="replace"))

    def _value(self) -> str:
        draw = self._random
        if draw.random() < HUGE_SHARE:
            return f'"{"x" * HUGE_BYTES}"'
        if draw.random() < 0.01:
            return draw.choice(("[" * _NESTED + "]" * _NESTED, '{"a":' * _NESTED + "1" + "}" * _NESTED, "[" * _NESTED))
        text = draw.choice(TEXTS).encode(errors="backslashreplace").decode()
        return draw.choice((str(draw.choice(NUMBERS)), f'"{text}"', draw.choice(_RAW)))
