"""One record of the objects topic, as the shell has read it: the engine takes it whole."""

from typing import Protocol


class ObjectRecord(Protocol):
    """What the engine needs of a record. The shell's own value has it, so none is copied."""

    @property
    def key(self) -> bytes | None:
        """domain/group/object, if it is one of ours."""

    @property
    def value(self) -> bytes | None:
        """The public record, as JSON."""

    @property
    def offset(self) -> int:
        """Its place in the partition."""

    @property
    def timestamp_ms(self) -> int:
        """Unix time; below 0: none."""

    @property
    def moved(self) -> bool:
        """A matcher of ours moved it here from a wrong partition, its headers say."""

    @property
    def traceparent(self) -> str:
        """The trace that it belongs to, its headers say; "": none."""

    @property
    def since(self) -> bytes:
        """Where its version was first, as a matcher of ours wrote it down again, its headers say; b"": nowhere."""

    @property
    def removes(self) -> bytes:
        """Which version it removes, as a matcher of ours wrote the null, its headers say; b"": none."""

    @property
    def urgent(self) -> bool:
        """It is of high priority, its headers say."""
