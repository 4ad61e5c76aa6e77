"""Versions of objects that are messages of the channel of their name, too: `--gateway-mqtt-retained=both`.

The message is written first. Its id is the same whenever the version is tried again, so that it is told once. The
version's record names it (`message_places`), and PUBACK is sent behind both.
"""

from dataclasses import dataclass

from coldnotify_schemas.message_places import MessagePlace, message_header
from coldnotify_schemas.mqtt.kept_properties import RETAINED_HEADER, Header
from coldnotify_schemas.wire_pb2 import Publish


@dataclass(slots=True)
class DoubledVersion:
    """One of them."""

    id: str
    """The message's."""
    place: MessagePlace | None = None
    """The message's; None: it is not known to be in Kafka."""

    def written(self, place: MessagePlace) -> None:
        """Notes that the message is in Kafka."""
        self.place = place

    def message_of(self, publish: Publish) -> Publish | None:
        """Returns the message that is to be written before a version; None: it is in Kafka."""
        if self.place is not None:
            return None
        return Publish(
            request=publish.request,
            channel=publish.object,
            payload=publish.payload,
            expires_at=publish.expires_at,
            id=self.id,
        )

    def headers(self) -> tuple[Header, ...]:
        """Returns the header of the record that is next: of the message, or of the version."""
        return (RETAINED_HEADER,) if self.place is None else message_header(self.place)
