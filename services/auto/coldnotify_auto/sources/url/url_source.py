"""An address as a source: what it answers is one object, published when it has changed."""

import time

import structlog
from coldnotify_schemas.names import ObjectKey

from coldnotify_auto.changes import KnownNewest, Put, digest, is_changed
from coldnotify_auto.row_rules import Naming, read_naming
from coldnotify_auto.source import Outlet, SourceRefused
from coldnotify_auto.sources.json_payloads import payload_from
from coldnotify_auto.sources.url.conditional_get import ConditionalGet, FetchFailed, check_url
from coldnotify_auto.yaml_sections import Section

_log = structlog.get_logger()


def read(name: str, section: Section) -> "UrlSource":
    """Makes a source of its section. Raises AutoFileError."""
    url = section.text("url", "a URL with http or https")
    try:
        check_url(url)
    except ValueError as error:
        raise section.fault("url", f"{url!r} {error}") from None
    every_s = section.number("every_s", "seconds between two requests", 60, minimum=1, maximum=86_400)
    timeout_s = section.number("timeout_s", "seconds that an answer may take", 10, minimum=0.1, maximum=300)
    naming = read_naming(section)
    for field, template in naming.fields:
        if template.columns:
            raise section.fault(field, f"expected a name without braces, as an address is one row: {template.text!r}")
    return UrlSource(name, url, naming, every_s=every_s, timeout_s=timeout_s)


class UrlSource:
    """Asks an address again and again."""

    def __init__(self, name: str, url: str, naming: Naming, *, every_s: float, timeout_s: float) -> None:
        self.name, self._url, self._every_s, self._timeout_s = name, url, every_s, timeout_s
        self._key = naming.key({})

    def run(self, outlet: Outlet) -> None:
        """Publishes answers that have changed, until the outlet raises RunStopped. Raises SourceFailed."""
        newest = outlet.newest((self._key.domain,)).get(self._key)
        get = ConditionalGet(self._url, timeout_s=self._timeout_s, bytes_max=outlet.payload_bytes_max)
        while True:
            try:
                fetched = get.fetch()
            except FetchFailed as error:
                # It is tried again as before: a server that is away is no reason to ask it more often.
                _log.warning("no answer", source=self.name, url=self._url, reason=str(error))
                outlet.ready(f"{self._url} {error}")
            else:
                outlet.ready(None)
                if fetched is not None:
                    newest = self._publish(outlet, newest, payload_from(fetched.body), deleted=fetched.gone)
            outlet.wait(self._every_s)

    def resync(self) -> str:
        """Raises SourceRefused: each start compares the answer."""
        raise SourceRefused("compares the answer whenever `coldnotify auto` starts: start it again")

    def _publish(
        self, outlet: Outlet, newest: KnownNewest | None, payload: bytes, *, deleted: bool
    ) -> KnownNewest | None:
        version = max(time.time_ns() // 1_000_000, newest.version + 1 if newest else 0)
        label = f"auto.{self.name}"
        put = Put(key=ObjectKey(*self._key), version=version, payload=payload, deleted=deleted, source=label)
        if not is_changed(newest, put):
            return newest
        outlet.put(put)
        return KnownNewest(newest.incarnation if newest else 0, version, digest(payload), deleted, label, b"")
