"""The whole core against a model of the service, with time, network, disk and callbacks in the test's hands.

Stands for: client, application
"""

from __future__ import annotations

from itertools import pairwise

import pytest
from coldnotify._core.document.document import decode
from coldnotify._core.interests.registrations import OperationKind
from coldnotify._core.settings import TRIES_APART_S, ClientSettings
from coldnotify.errors import ObjectParked, RegistrationRefused, ServiceRefused
from coldnotify.testing import Service
from coldnotify_schemas.close_codes import CloseCode
from coldnotify_schemas.frames import FrameBuffer, parse_client_frame
from coldnotify_schemas.protocol import CLIENT_FRAME_BYTES_MAX
from coldnotify_testkit.client_world import DOMAIN, GROUP, KEY, ME, ClientWorld, publish


def test_a_hello_waits_until_its_operations_are_durable():
    world = ClientWorld()
    world.client.application.register("a")
    world.network()
    world.network()
    assert world.session is not None
    assert world.session.received == []
    assert world.client.link_wanted
    world.begin_save()
    world.end_save()
    world.network()
    assert list(world.session.hello.register) == ["a"]


def test_nothing_is_acknowledged_that_is_not_on_disk():
    world = ClientWorld()
    for name in ("a", "b"):
        world.subscribe(name)
        world.register(name)
    world.run()
    publish(world, "a")
    world.network()
    world.begin_job()
    world.end_job()
    assert world.told["a"] == (0, 0)
    for _ in range(5):
        world.now += 10
        world.network()
    assert KEY not in world.service.acknowledged
    world.begin_save()
    world.network()
    assert KEY not in world.service.acknowledged
    world.end_save()
    world.now += world.settings.ack_delay_s
    world.network()
    assert world.service.acknowledged[KEY] == 1


def test_a_state_that_cannot_be_written_is_reported_and_tried_again():
    world = ClientWorld()
    world.subscribe("a")
    world.register("a")
    world.begin_save()
    world.end_save(error=True)
    assert [str(report) for report in world.client.take_reports()] == ["disk full"]
    world.begin_save()
    assert world.save is None, "not at once"
    world.run()
    assert world.disk is not None


def test_a_caught_up_client_reconnects_in_one_exchange_of_constant_size():
    sizes = []
    for n in (1, 1000):
        world = ClientWorld(Service())
        world.settings = ClientSettings()
        for i in range(n):
            world.register(f"object-{i}")
            world.subscribe(f"object-{i}")
        world.service.publish(DOMAIN, GROUP, "object-0")
        world.run()
        world.run(lambda world: world.service.acknowledged.get(KEY) == 1)
        world.cut()
        world.run()
        assert [frame.WhichOneof("frame") for frame in world.session.received] == ["hello"]
        sizes.append(world.session.received[0].ByteSize())
    assert sizes[0] == sizes[1] < 120


def test_a_callback_that_fails_holds_the_cursor_until_its_object_is_parked():
    world = ClientWorld(settings_=ClientSettings(tries_max=3, retry_min_s=1))
    for name in ("a", "b"):
        world.subscribe(name)
        world.register(name)
    world.run()
    publish(world, "a")
    publish(world, "b")
    world.network()
    times = []
    for _ in range(4):
        world.begin_job()
        if world.job.notification.object_id == "a":
            times.append(world.now)
            world.end_job(fails=True)
            assert (world.client.status(world.now).cursor or 0) == (0 if len(times) < 3 else 2)
        else:
            world.end_job()
        world.now = max(world.now, world.client.next_job_at()) if world.client.next_job_at() < 1e9 else world.now
    assert [b - a for a, b in pairwise(times)] == [1, 2]
    assert world.client.status(world.now).parked == ("a",)
    assert [type(report) for report in world.client.take_reports()][-1] is ObjectParked
    world.begin_save()
    document = decode(world.save.data, ME)
    assert (document.cursor, document.pending) == (2, {"a": OperationKind.REGISTER})
    world.end_save()
    world.crash()
    world.settle()


def test_a_refused_registration_leaves_the_wanted_set_and_is_reported():
    world = ClientWorld(Service(registrations_max=2))
    for name in ("a", "b", "c"):
        world.subscribe(name)
        world.register(name)
    world.run()
    refused = [report for report in world.reports if isinstance(report, RegistrationRefused)]
    assert [(report.object_id, report.reason) for report in refused] == [("c", "too many objects")]
    assert world.client.application.wanted == {"a", "b"}


def test_displaced_waits_a_minute_then_two_up_to_an_hour():
    world = ClientWorld()
    world.register("a")
    waits = []
    for _ in range(8):
        world.run()
        world.service.close_all(CloseCode.DISPLACED)
        world.run(lambda world: world.client.status(world.now).phase == "waiting")
        waits.append(world.client.status(world.now).next_connect_s)
    for wait, least in zip(waits, [60, 120, 240, 480, 960, 1920, 3600, 3600], strict=True):
        assert least <= wait <= least * 1.1


def test_a_code_from_64_on_stops_the_client_for_good():
    world = ClientWorld()
    world.register("a")
    world.run()
    world.service.close_all(99, "go away")
    world.run(lambda world: world.client.refused)
    world.now += 1
    world.begin_save()
    world.end_save()
    assert world.client.deadline() > world.now + 1e6
    report = world.reports[-1]
    assert isinstance(report, ServiceRefused)
    assert (report.code, report.reason) == (99, "go away")
    assert world.client.status(world.now).phase == "refused"


def test_stopping_waits_for_the_callback_then_saves_acknowledges_and_says_bye():
    world = ClientWorld()
    for name in ("a", "b"):
        world.subscribe(name)
        world.register(name)
    world.run()
    publish(world, "a")
    publish(world, "b")
    world.network()
    world.begin_job()
    world.client.stop()
    session = world.session
    world.network()
    assert not session.said_bye, "a callback still runs"
    world.end_job()
    world.begin_job()
    assert world.job is None, "no other callback begins"
    world.begin_save()
    world.end_save()
    world.network()
    world.network()
    assert session.said_bye
    assert world.service.acknowledged[KEY] == 1
    world.begin_save()  # what the gateway has answered meanwhile
    world.end_save()
    assert world.client.finished
    assert decode(world.disk, ME).cursor == 1


def test_stopping_does_not_wait_for_an_abandoned_callback():
    world = ClientWorld()
    world.subscribe("a")
    world.register("a")
    publish(world, "a")
    world.run(lambda world: world.client.next_job_at() < world.now)
    world.begin_job()
    world.client.stop(abandon=True)
    world.begin_save()
    world.end_save()
    world.network()
    assert world.client.finished
    assert decode(world.disk, ME).pending == {"a": OperationKind.REGISTER}


def failed_often(world: ClientWorld) -> None:
    """Its last tries have failed, at once each."""
    for _ in range(12):
        world.now += 1000
        assert world.client.connect_due(world.now) is not None
        world.client.link_down("unreachable", world.now)


def test_connect_while_it_backs_off_means_now_but_not_without_a_pause():
    world = ClientWorld()
    failed_often(world)
    down_at = world.now
    world.client.connect_now(world.now)
    assert world.client.connect_due(world.now) is None, "an application that asks all the time is no flood"
    assert world.client.deadline() == down_at + TRIES_APART_S
    world.now += TRIES_APART_S
    assert world.client.connect_due(world.now) is not None
    world.client.connect_now(world.now)  # it connects: no change
    assert world.client.connect_due(world.now) is None


def test_after_a_standstill_it_connects_at_once_and_the_backoff_begins_anew():
    world = ClientWorld()
    failed_often(world)
    world.now += 5
    world.client.doubt(world.now, 5)
    assert world.client.connect_due(world.now) is not None
    world.client.link_down("unreachable", world.now)
    assert world.client.status(world.now).next_connect_s <= world.settings.backoff_min_s


def test_a_displaced_client_does_not_reconnect_earlier_on_request():
    world = ClientWorld()
    world.register("a")
    world.run()
    world.service.close_all(CloseCode.DISPLACED)
    world.run(lambda world: world.client.status(world.now).next_connect_s is not None)
    due = world.client.deadline()
    world.client.connect_now(world.now)
    world.client.doubt(world.now, 30)
    assert world.client.deadline() == due


def test_a_client_that_stood_still_is_not_caught_up_before_a_pong():
    world = ClientWorld()
    world.register("a")
    world.run()
    assert world.client.caught_up(world.now)
    world.now += 200
    world.client.doubt(world.now, 200)
    assert not world.client.caught_up(world.now)
    world.run()
    assert world.client.caught_up(world.now)


@pytest.mark.parametrize("stands", [False, True], ids=["it connects", "its Hello waits for the disk"])
def test_a_connection_from_before_a_standstill_is_asked_behind_its_hello_and_given_up_within_the_grace(stands):
    world = ClientWorld()
    client = world.client
    client.application.register("a")
    assert client.connect_due(world.now) is not None
    if stands:
        client.link_up(world.now)
    world.now += 200
    client.doubt(world.now, 200)
    if not stands:
        client.link_up(world.now)
    world.begin_save()
    world.end_save()
    frames = FrameBuffer(CLIENT_FRAME_BYTES_MAX).feed(client.data_to_send(world.now))
    assert [parse_client_frame(one).WhichOneof("frame") for one in frames] == ["hello", "ping"]
    world.now += world.settings.silence_grace_s - 0.1
    client.tick(world.now)
    assert client.link_wanted
    world.now += 0.1
    client.tick(world.now)
    assert not client.link_wanted


def test_the_next_connection_is_not_doubted():
    world = ClientWorld()
    client = world.client
    assert client.connect_due(world.now) is not None
    client.doubt(world.now, 200)
    client.link_down("unreachable", world.now)
    world.now = client.deadline()
    assert client.connect_due(world.now) is not None
    client.link_up(world.now)
    world.begin_save()
    world.end_save()
    frames = FrameBuffer(CLIENT_FRAME_BYTES_MAX).feed(client.data_to_send(world.now))
    assert [parse_client_frame(one).WhichOneof("frame") for one in frames] == ["hello"]
