"""The initial values and measurements of a limit, depending on where it is used."""

from typing import NamedTuple

from coldnotify.flow.bottleneck import GAIN_BATCHES, GAIN_SHARED, GAIN_SHARP


class Beginnings(NamedTuple):
    """The initial values of one limit."""

    first: int
    """M."""
    completions: int
    """N: after so many a window ends."""
    delta: int
    """Permits a step, for the controllers that move by steps."""
    gain: float
    """The gain of the controller Bottleneck."""
    lowest: int = 1
    """M does not get lower."""
    seconds: float = 1.0
    """After so long a window ends with fewer: whoever publishes 1,000 a second is not to wait a minute for the next."""


KAFKA = Beginnings(1_000, 50_000, 100, GAIN_BATCHES)
"""For publishes to Kafka, which processes together what waits."""
HTTP = Beginnings(200, 25_000, 20, GAIN_SHARED)
"""For requests to the HTTP service, or through it: its event loop, too, processes together what waits."""
STORE = Beginnings(200, 25_000, 20, GAIN_SHARP)
"""For a server with a fixed concurrency, such as a store in memory."""
