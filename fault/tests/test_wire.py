"""A wire knows which notifications go to whom."""

from coldnotify_fault.wire import ConnectionTraffic
from coldnotify_schemas import wire_pb2 as wire
from coldnotify_schemas.digest import object_crc
from coldnotify_schemas.frames import encode


def test_notifications_are_attributed_to_their_client() -> None:
    seen: list[tuple[str, str, int | None, int]] = []
    one = ConnectionTraffic(["config"], lambda *what: seen.append(what))
    told = wire.Notification(crc=object_crc("config"), version=7, incarnation=2)
    one.to_client(encode(wire.GatewayFrame(notification=told)))
    assert seen == []
    one.from_client(encode(wire.ClientFrame(hello=wire.Hello(domain="d", group="g", client="c"))))
    frame = encode(wire.GatewayFrame(notification=told))
    one.to_client(frame[:3])
    one.to_client(frame[3:])
    one.to_client(encode(wire.GatewayFrame(notification=wire.Notification(name="new"))))
    assert seen == [("d/g/c", "d/g/config", 7, 2), ("d/g/c", "d/g/new", None, 0)]
