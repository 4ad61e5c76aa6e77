"""What an operator can tell the engine."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rules:
    """The same for all partitions of a matcher."""

    forgotten_after_ms: int = 0
    """An offline client that was not seen for so long is unregistered and forgotten; 0: never."""
