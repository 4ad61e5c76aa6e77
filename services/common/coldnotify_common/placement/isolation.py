"""Decides if a gateway alone is cut off from Kafka, or if Kafka is silent for all gateways.

Only answers of Kafka count, whatever TCP says. After a silence the gateway asks others if Kafka answers them. If it
does, clients are better off there. If it answers nobody, they stay: moving would not help them, and costs everybody.
"""

ASK_EVERY_S = 5.0
"""Interval of the questions to other gateways, while Kafka is silent."""
HEARD_S = 5.0
"""A gateway to which Kafka has not answered for so long is not ready. So among gateways that Kafka has left at once,
nobody takes another for a better one."""
ISOLATED_AFTER_S_MIN = HEARD_S + 3.0
"""Shortest silence after which others are asked. Statistics show an answer up to a second late, and gateways lose Kafka
within a second or two of each other."""
_TICK_S_MAX = 1.0
"""Longest silence that one tick adds: a gateway that stood still itself has listened to nobody."""


class Isolation:
    """The isolation of one gateway. Times are seconds of one steady clock."""

    def __init__(self, after_s: float) -> None:
        """`after_s`: the silence after which others are asked; 0: never."""
        self._after_s = after_s
        self._ticked_s: float | None = None
        self._heard_s = float("-inf")
        self._ask_s = float("-inf")
        self.silence_s = 0.0
        """Time for which the gateway has listened and Kafka has answered nothing."""
        self.alone = False
        """True if Kafka answers another gateway, and not this one."""

    @property
    def silent(self) -> bool:
        """Returns true if Kafka has been silent for so long that sessions cannot begin here."""
        return 0 < self._after_s <= self.silence_s

    def tick(self, now_s: float, heard_s: float) -> bool:
        """Counts the silence since the last tick. Returns true if the others are to be asked now.

        `heard_s`: when Kafka answered last.
        """
        last_s, self._ticked_s = self._ticked_s, now_s
        if heard_s > self._heard_s:
            self._heard_s, self.silence_s, self.alone = heard_s, 0.0, False
            self._ask_s = float("-inf")
        elif last_s is not None:
            self.silence_s += min(_TICK_S_MAX, max(0.0, now_s - last_s))
        if not self.silent or now_s < self._ask_s:
            return False
        self._ask_s = now_s + ASK_EVERY_S
        return True

    def answered(self, *, ready: bool) -> None:
        """Takes the answers of the others. `ready`: Kafka answers at least one of them."""
        self.alone = ready and self.silent
