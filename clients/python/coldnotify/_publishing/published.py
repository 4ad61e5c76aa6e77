"""The result of a publish: Published, or one of these errors."""

from typing import NamedTuple

WAIT_S = 10.0


class Published(NamedTuple):
    """An acknowledged version: durable in Kafka."""

    version: int
    """The version passed; if none was, the record's Kafka timestamp in ms."""
    partition: int
    offset: int
    """-1: unknown, because Kafka's first acknowledgement was lost in transit."""

    @property
    def written(self) -> bool:
        """False: the publisher's last publish of the object was the very same, and it was not written again."""
        return True

    @property
    def published(self) -> bool:
        """True: Kafka has it. With an outbox: once it has."""
        return True

    def wait(self, timeout_s: float = WAIT_S) -> "Published":
        """Returns itself at once: Kafka has it. With an outbox: once it has."""
        check_wait(timeout_s)
        return self

    async def wait_async(self, timeout_s: float = WAIT_S) -> "Published":
        """wait() for asyncio."""
        return self.wait(timeout_s)


class Repeat(Published):
    """The earlier acknowledgement, for a publish that was not written again."""

    @property
    def written(self) -> bool:
        """It was not."""
        return False


class Sent(NamedTuple):
    """An acknowledged message of a channel: durable in Kafka, for the domain's retention."""

    partition: int
    offset: int
    """-1: unknown, because Kafka's first acknowledgement was lost in transit."""
    id: str
    """The id by which its repeats are recognised."""

    @property
    def published(self) -> bool:
        """True: Kafka has it. With an outbox: once it has."""
        return True

    def wait(self, timeout_s: float = WAIT_S) -> "Sent":
        """Returns itself at once: Kafka has it. With an outbox: once it has."""
        check_wait(timeout_s)
        return self

    async def wait_async(self, timeout_s: float = WAIT_S) -> "Sent":
        """wait() for asyncio."""
        return self.wait(timeout_s)


class PublishError(Exception):
    """Kafka did not take a record."""

    def __init__(self, message: str, *, indeterminate: bool) -> None:
        super().__init__(message)
        self.indeterminate = indeterminate
        """True: the record may be in Kafka all the same. Publishing the same version again is always safe."""


class PublishTimeout(PublishError):
    """Kafka did not acknowledge a record in time."""


class PublishRejected(PublishError):
    """A record is refused, and would be refused again: it is too large, or may not be published there."""

    def __init__(self, message: str) -> None:
        super().__init__(message, indeterminate=False)


class PublishManyError(PublishError):
    """Some records of publish_many were not taken."""

    def __init__(self, outcomes: "list[Published | PublishError]") -> None:
        failed = [outcome for outcome in outcomes if isinstance(outcome, PublishError)]
        super().__init__(
            f"{len(failed)} of {len(outcomes)} records were not acknowledged, the first: {failed[0]}",
            indeterminate=any(error.indeterminate for error in failed),
        )
        self.outcomes = outcomes
        """One for each record, in the order given."""


def check_wait(timeout_s: float) -> None:
    """Raises ValueError for a wait that is negative, or not a number."""
    if not timeout_s >= 0:
        raise ValueError(f"timeout_s: {timeout_s!r} is not 0 or more")
