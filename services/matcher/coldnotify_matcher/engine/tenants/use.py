"""Use by domains since the last step: publishes and deliveries, and their bytes. Agreements of tenants need it."""


class Use:
    """The use by one domain. A publish counts when it is read from the log, however it came there. A delivery
    counts when it is sent to a gateway for a session: of an object as it is published, of a channel's message also
    by a page."""

    __slots__ = ("bytes", "deliveries", "high", "out_bytes", "publishes", "thinned")

    def __init__(self) -> None:
        self.publishes = 0
        self.bytes = 0
        """Bytes of keys and values."""
        self.high = 0
        """Number of publishes that ask for high priority."""
        self.deliveries = 0
        self.out_bytes = 0
        """Bytes of names and payloads, once for each session."""
        self.thinned = 0
        """Deliveries that were not made because a newer version came while the object waited for its tenant's turn."""

    @property
    def counts(self) -> tuple[int, int, int, int, int]:
        """Publishes, their bytes, deliveries, their bytes, deliveries that thinning has spared."""
        return self.publishes, self.bytes, self.deliveries, self.out_bytes, self.thinned

    def publish(self, size_bytes: int, *, high: bool = False) -> None:
        """Count one publish that was read."""
        self.publishes += 1
        self.high += high
        self.bytes += size_bytes

    def deliver(self, deliveries: int, out_bytes: int) -> None:
        """Count deliveries, and their total bytes."""
        self.deliveries += deliveries
        self.out_bytes += out_bytes

    def thin(self, deliveries: int) -> None:
        """Count deliveries that were spared."""
        self.thinned += deliveries
