"""The outcome of an acknowledged publish, as the matcher of its partition reports it. Pure."""

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

from coldnotify_schemas.wrong_clocks import time_words

PUBLISHED, REPEATED, ALTERED = "published", "repeated", "altered"
STALE, REJECTED, UNKNOWN = "stale", "rejected", "unknown"
_KNOWN = frozenset((PUBLISHED, REPEATED, ALTERED, STALE, REJECTED))
_OF_ITS_VERSION = frozenset((PUBLISHED, REPEATED, ALTERED))


class Newest(NamedTuple):
    """The newest version of an object."""

    version: int
    incarnation: int = 0
    published_ms: int | None = None
    """Unix time; None: not known."""

    @classmethod
    def of(cls, shown: Mapping[str, Any]) -> Self:
        """Parses the JSON form that services use."""
        return cls(shown["version"], shown.get("incarnation", 0), shown.get("published_ms"))

    def shown(self) -> dict[str, Any]:
        """Returns the JSON form that services use, with the incarnation if it is not 0."""
        incarnation = {"incarnation": self.incarnation} if self.incarnation else {}
        return {"version": self.version, **incarnation, "published_ms": self.published_ms}

    def __str__(self) -> str:
        words = str(self.version)
        if self.incarnation:
            words += f" of incarnation {self.incarnation}"
        if self.published_ms is not None:
            words += f", since {time_words(self.published_ms)}"
        return words


class Outcome(NamedTuple):
    """The effect of an acknowledged publish. `str()` describes it for a person."""

    outcome: str
    """published: the version is the newest, and clients are told it. repeated: it was the newest already, with the very
    same content. altered: it was the newest already, with other content; clients that have the version are not told.
    stale: a newer version existed, no client is ever told this one. rejected: it was invalid. unknown: the effect could
    not be determined.
    """
    newest: Newest | None = None
    """The object's newest version once the publish was taken in; None where it is not known."""
    reason: str = ""
    """Why it was rejected, or is not known."""

    @property
    def in_vain(self) -> bool:
        """True if clients will not be told what was published, as far as is known: stale, altered, rejected."""
        return self.outcome in (STALE, ALTERED, REJECTED)

    @classmethod
    def unknown(cls, reason: str) -> Self:
        """One that could not be found out."""
        return cls(UNKNOWN, None, reason)

    @classmethod
    def of(cls, shown: Mapping[str, Any], object_: str, version: int) -> Self:
        """Out of what a service shows of the record that this object and version were published with."""
        outcome = shown.get("outcome")
        if outcome not in _KNOWN:
            return cls.unknown(str(shown.get("reason", "the service does not say")))
        newest = Newest.of(shown["newest"]) if "newest" in shown else None
        # The topic may have been made anew: then something else is at that offset.
        of_another = shown.get("object", object_) != object_
        if of_another or (outcome in _OF_ITS_VERSION and newest is not None and newest.version != version):
            return cls.unknown("another record is where Kafka has put this one")
        return cls(outcome, newest, str(shown.get("reason", "")))

    @classmethod
    def of_repeat(cls, newest: Newest, version: int, incarnation: int | None) -> Self:
        """Returns the outcome of a publish that was not written because it repeats the publisher's last one, by the
        newest version.
        """
        same = newest.version == version and incarnation in (None, newest.incarnation)
        return cls(REPEATED if same else STALE, newest)

    def shown(self) -> dict[str, Any]:
        """Returns the JSON form that services use, with the newest version if another one is, or if it has other
        content.
        """
        shown: dict[str, Any] = {"outcome": self.outcome}
        if self.in_vain and self.newest is not None:
            shown["newest"] = self.newest.shown()
        if self.reason:
            shown["reason"] = self.reason
        return shown

    def __str__(self) -> str:
        if self.outcome == STALE:
            return (
                f"stale: the newest is version {self.newest}; no client is ever told of this one. "
                "Publish a higher one, or start the object's versions over: `coldnotify object reset`"
            )
        if self.outcome == ALTERED:
            return (
                f"altered: version {self.newest} was the newest already, with other content; clients that have the "
                "version are not told. Publish it under a higher version"
            )
        return f"{self.outcome}: {self.reason}" if self.reason else self.outcome
