"""Agreements of domains' tenants, which are checked when a client publishes on its session.

They are read from the first publish on, because most gateways have no publishes. Until then nothing is refused.
"""

from math import ceil

from coldnotify_common.tenancy.gate import GateRefused
from coldnotify_common.tenancy.tenancy import Tenancy

from coldnotify_gateway.core import AboveAgreement
from coldnotify_gateway.settings import GatewaySettings


class PublishAgreements:
    """The agreements, as this process has read them, for all its runs."""

    def __init__(self, settings: GatewaySettings) -> None:
        self.tenancy = Tenancy(settings, "gateway")
        self._started = False

    def ask(self, domain: str, size_bytes: int) -> AboveAgreement | None:
        """Returns a reason if one more publish is too much, else None. Returns at once."""
        self._start()
        answer = self.tenancy.admit(domain, 1, size_bytes)
        if not isinstance(answer, GateRefused):
            return None
        words = f"tenant {answer.tenant} is above its agreement: {answer.limit} is {answer.allowed:g}"
        return AboveAgreement(words, _ms(answer.retry_after_s))

    def full(self, domain: str, object_: str) -> AboveAgreement | None:
        """Returns a reason if this object would be one too many if it is new, else None. Returns at once."""
        self._start()
        full = self.tenancy.full_of_objects(domain)
        return None if full is None else AboveAgreement(full.for_object(object_), _ms(full.retry_after_s))

    def refuse_object(self, domain: str, object_: str) -> AboveAgreement | None:
        """Returns the same as `full` for an object that is new, and counts a refusal."""
        full = self.tenancy.full_of_objects(domain)
        if full is None:
            return None
        self.tenancy.refuse_objects(full, 1)
        return AboveAgreement(full.for_object(object_), _ms(full.retry_after_s))

    def _start(self) -> None:
        if not self._started:
            self._started = True
            self.tenancy.start()

    def stop(self) -> None:
        """Writes the last counts. Takes a few seconds at most."""
        if self._started:
            self.tenancy.stop()


def _ms(seconds: float) -> int:
    return max(1, ceil(seconds * 1000))
