"""What domains' tenants have agreed, asked when a client publishes on its session.

It is read from the first publish on: at most gateways nobody publishes. Until it is read, nothing is refused.
"""

from math import ceil

from coldnotify_common.tenancy.gate import GateRefused
from coldnotify_common.tenancy.tenancy import Tenancy

from coldnotify_gateway.core import AboveAgreement
from coldnotify_gateway.settings import GatewaySettings


class PublishAgreements:
    """Those of this process, for all its runs."""

    def __init__(self, settings: GatewaySettings) -> None:
        self.tenancy = Tenancy(settings, "gateway")
        self._started = False

    def ask(self, domain: str, size_bytes: int) -> AboveAgreement | None:
        """Whether one more publish is too much. Returns at once."""
        self._start()
        answer = self.tenancy.admit(domain, 1, size_bytes)
        if not isinstance(answer, GateRefused):
            return None
        words = f"tenant {answer.tenant} is above its agreement: {answer.limit} is {answer.allowed:g}"
        return AboveAgreement(words, _ms(answer.retry_after_s))

    def full(self, domain: str, object_: str) -> AboveAgreement | None:
        """Whether this object would be one too many if it is not there. Returns at once."""
        self._start()
        full = self.tenancy.full_of_objects(domain)
        return None if full is None else AboveAgreement(full.for_object(object_), _ms(full.retry_after_s))

    def refuse_object(self, domain: str, object_: str) -> AboveAgreement | None:
        """As `full`, of an object that is not there: what is too much is counted."""
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
        """The last counts are written. Takes some seconds at most."""
        if self._started:
            self.tenancy.stop()


def _ms(seconds: float) -> int:
    return max(1, ceil(seconds * 1000))
