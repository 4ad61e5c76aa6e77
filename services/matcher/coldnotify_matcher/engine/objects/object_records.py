"""One record of the objects topic, as the shell has read it: the engine takes it whole."""

from typing import Protocol

from coldnotify_schemas.message_places import MessagePlace


class ObjectRecord(Protocol):
    """The fields of a record that the engine needs. The shell's own value has them, so none is copied."""

    @property
    def key(self) -> bytes | None:
        """domain/group/object, if it is valid."""

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
        """True if its headers say that a matcher of ours moved it here from a wrong partition."""

    @property
    def traceparent(self) -> str:
        """The trace in its headers; "": none."""

    @property
    def since(self) -> bytes:
        """The first offset of its version, in the headers of a record that a matcher of ours wrote again; b"": it has
        none."""

    @property
    def removes(self) -> bytes:
        """The version that it removes, in the headers of a null that a matcher of ours wrote; b"": none."""

    @property
    def urgent(self) -> bool:
        """True if its headers say that it is of high priority."""

    @property
    def arrival(self) -> bytes | None:
        """The value of its ARRIVAL_HEADER; None: it has none."""

    @property
    def raw(self) -> bool:
        """True if its headers say that its payload is in base64."""

    @property
    def properties(self) -> bytes:
        """The properties for MQTT devices in its headers, encoded; b"": none."""

    @property
    def passed_over(self) -> int:
        """Headers of such properties that say nothing."""

    @property
    def request(self) -> bytes:
        """The last request whose patch is in it, in the headers of a description; b"": none."""

    @property
    def message(self) -> MessagePlace | None:
        """The message of its object's channel that it is, too; None: it is none."""

    @property
    def decided(self) -> tuple[bytes, ...]:
        """The decisions about conditional records in its headers."""

    @property
    def decided_sets(self) -> tuple[bytes, ...]:
        """The decisions about sets in its headers."""
