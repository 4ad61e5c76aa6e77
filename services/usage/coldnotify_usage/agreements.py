"""The tenants' agreements, as the tenants topic has them: `Agreements` keeps what `TenancyReader` reads of it."""

import structlog
from coldnotify_common.paced import Paced
from coldnotify_common.settings import ServiceSettings
from coldnotify_common.tenancy.reader import TenancyReader
from coldnotify_schemas.tenants import LIMITS, Agreement, InvalidTenant, parse_tenant, parse_tenant_key

from coldnotify_usage import metrics

_paced = Paced(structlog.get_logger())


class Agreements:
    """The agreements of all tenants; a Keeper. Any thread may ask."""

    def __init__(self, settings: ServiceSettings) -> None:
        """Nothing is read yet."""
        self._limited: dict[str, Agreement] = {}
        self._seen: set[str] | None = None
        """Tenants with a record, while the topic is read from its beginning."""
        self._reader = TenancyReader(settings, self, verdicts=False)
        self.loaded = False
        """True once the topic has been read to its end."""

    def of(self, tenant: str) -> Agreement | None:
        """Returns the tenant's agreement; None if it has no limits."""
        return self._limited.get(tenant)

    def start(self) -> None:
        """Begins to read."""
        self._reader.start()

    def stop(self) -> None:
        """Ends reading."""
        self._reader.stop()

    def on_load(self) -> None:
        """The topic is read from its beginning."""
        self._seen = set()

    def on_tenant(self, key: bytes | None, value: bytes | None) -> None:
        """A record of the topic. A damaged one changes nothing."""
        try:
            name = parse_tenant_key(key)
            if self._seen is not None:
                self._seen.add(name)
            agreement = None if value is None else parse_tenant(key, value).agreement
        except InvalidTenant as error:
            metrics.SET_ASIDE.labels("agreement").inc()
            _paced.log("agreement set aside", level="warning", reason=str(error))
            return
        if agreement is not None and any(getattr(agreement, limit) is not None for limit in LIMITS):
            self._limited[name] = agreement
        else:
            self._limited.pop(name, None)

    def on_loaded(self, *, missing: bool) -> None:
        """It was read up to its end: whoever has no record in it is not limited."""
        seen, self._seen = self._seen, None
        if seen is not None and not missing:
            for name in self._limited.keys() - seen:
                del self._limited[name]
        self.loaded = True

    def on_unreadable(self, topic: str, offset: int, reason: str) -> None:
        """A record that nobody can read, whosever it was."""
        metrics.SET_ASIDE.labels("agreement").inc()
        _paced.log("agreement set aside", level="warning", offset=offset, reason=reason)

    def on_verdict(self, key: bytes | None, value: bytes | None) -> None:
        """Verdicts are this job's own: it does not read them."""
