"""Ownership: the right of one process to call the hooks of a partition. Pure.

A claim is a record with a generation. The owner often asks where the log ends, and reads up to there: if there is
no higher claim, no successor had one when it asked. A call begins only behind an answer that is younger than
PROOF_S, and a successor's first call begins WAIT_S behind its claim, which is longer.
"""

PROOF_S = 1.0
"""A call begins at most so long behind the question whose answer showed no other claim."""
WAIT_S = 3.0
"""A successor waits so long behind its claim: PROOF_S, and what the predecessor needs to begin its call."""
CALL_S = 8.0
"""A call takes at most so long."""


class Ownership:
    """One partition, from its assignment on. Times are monotonic, in seconds."""

    def __init__(self, owner: str) -> None:
        self._owner = owner
        """Random: names this process, from its start to its end."""
        self._highest = 0
        self._claimed: int | None = None
        """The generation that was written last."""
        self._held_since_s: float | None = None
        self._proven_s = float("-inf")
        self._asked: tuple[float, int] | None = None
        self._position = 0
        self.lost = False
        """True once another process has claimed the partition: it is never held again without a new claim."""

    @property
    def generation(self) -> int:
        """The generation of the claim; 0: none."""
        return self._claimed or 0

    def next_claim(self) -> int:
        """Returns the generation to claim, above all that were read. The caller writes it, and reads on."""
        self._claimed = self._highest + 1
        return self._claimed

    def on_claim(self, generation: int, owner: str, now_s: float) -> bool:
        """A claim was read. Returns true if this process has to claim again: another was first with this generation."""
        is_ours = owner == self._owner and generation == self._claimed
        again = False
        if self._held_since_s is not None:
            self.lost = self.lost or generation > self._highest
        elif self._claimed is not None and generation >= self._claimed:
            if is_ours and generation > self._highest:
                self._held_since_s = now_s
            else:
                again = True
        self._highest = max(self._highest, generation)
        return again

    def lose(self) -> None:
        """The group has assigned the partition elsewhere."""
        self.lost = True

    def on_read(self, position: int) -> None:
        """All records below this offset were read."""
        self._position = max(self._position, position)
        self._prove()

    def on_end(self, asked_s: float, end: int) -> None:
        """The log ended at `end` when it was asked at `asked_s`."""
        self._asked = (asked_s, end)
        self._prove()

    @property
    def is_held(self) -> bool:
        """True once the claim was read back."""
        return not self.lost and self._held_since_s is not None

    def serves(self, now_s: float) -> bool:
        """Returns true once the hooks may be called, but for the proof: the wait behind the claim is over."""
        return self.is_held and now_s - (self._held_since_s or 0.0) >= WAIT_S

    def may_call(self, now_s: float) -> bool:
        """Returns true if a call may begin now."""
        return self.serves(now_s) and now_s - self._proven_s <= PROOF_S

    def _prove(self) -> None:
        if self._asked is not None and self._position >= self._asked[1]:
            self._proven_s = max(self._proven_s, self._asked[0])
