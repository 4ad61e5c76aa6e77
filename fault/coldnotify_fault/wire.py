"""The wire of a client, as a proxy sees it: who the client is, and the notifications that go to it."""

from collections.abc import Callable, Iterable

from coldnotify_schemas.digest import object_crc
from coldnotify_schemas.frames import FrameBuffer, parse_client_frame, parse_gateway_frame
from coldnotify_schemas.protocol import CLIENT_FRAME_BYTES_MAX, GATEWAY_FRAME_BYTES_MAX

Seen = Callable[[str, str, int | None, int], object]
"""Called with client, object, version and incarnation of each Notification that goes to a client."""


class ConnectionTraffic:
    """The traffic of one client's connection: identifies the client, and notes its notifications."""

    def __init__(self, objects: Iterable[str], seen: Seen) -> None:
        self._names = {object_crc(name): name for name in objects}
        self._seen = seen
        self._from_client = FrameBuffer(CLIENT_FRAME_BYTES_MAX)
        self._to_client = FrameBuffer(GATEWAY_FRAME_BYTES_MAX)
        self._client: str | None = None
        self._domain_group = ""

    def from_client(self, data: bytes) -> None:
        """Bytes on their way to the gateway."""
        for body in self._from_client.feed(data):
            frame = parse_client_frame(body)
            if frame.WhichOneof("frame") == "hello":
                self._domain_group = f"{frame.hello.domain}/{frame.hello.group}"
                self._client = f"{self._domain_group}/{frame.hello.client}"

    def to_client(self, data: bytes) -> None:
        """Bytes on their way to the client."""
        for body in self._to_client.feed(data):
            frame = parse_gateway_frame(body)
            if frame.WhichOneof("frame") != "notification" or self._client is None:
                continue
            told = frame.notification
            name = told.name or self._names.get(told.crc, f"crc-{told.crc:08x}")
            version = told.version if told.HasField("version") else None
            self._seen(self._client, f"{self._domain_group}/{name}", version, told.incarnation)
