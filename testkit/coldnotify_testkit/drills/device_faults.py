"""Faults of devices: slow, reading nothing, too many, restless."""

from contextlib import ExitStack, suppress

from coldnotify import Notification
from coldnotify.publisher import Publisher

from coldnotify_testkit.device_frames import hello, register
from coldnotify_testkit.drills.scene import CONNECTIONS_MAX, DOMAIN, GROUP, WAIT_S, Scene
from coldnotify_testkit.raw_client import RawClient
from coldnotify_testkit.slow_link import slow_link
from coldnotify_testkit.stack import Recorder, notify
from coldnotify_testkit.waiting import wait_for


def a_device_reads_slowly(scene: Scene, stack: ExitStack) -> None:
    """one of two devices has a link of 40 kbit/s, and 60 of its objects are published twice"""
    link = stack.enter_context(slow_link(*scene.up.gateway, bits_per_s=40_000))
    ou = stack.enter_context(notify(scene.up, "slow", None, port=link.port))
    names = [f"picture-{n}" for n in range(60)]
    told = Recorder()
    for name in names:
        ou.register(name).subscribe(told)
    wait_for(lambda: ou.status.pending == 0, "registered over the slow link", WAIT_S)
    publisher = stack.enter_context(Publisher(kafka=scene.up.kafka))
    for version in range(2):
        for name in names:
            publisher.publish(DOMAIN, GROUP, name, version=version, payload="x" * 4000)


def an_application_raises(scene: Scene, stack: ExitStack) -> None:
    """the callback of one device raises on all that it is told"""

    def hear(_: Notification) -> None:
        raise ValueError("planted")

    ou = stack.enter_context(notify(scene.up, "raising", None))
    ou.register("picture-of-it").subscribe(hear)
    with Publisher(kafka=scene.up.kafka) as publisher:
        publisher.publish(DOMAIN, GROUP, "picture-of-it", version=1)
    wait_for(lambda: bool(ou.status.parked), "it is parked", WAIT_S)

    def mend() -> None:
        ou.unregister("picture-of-it")
        wait_for(lambda: ou.status.registrations == ou.status.pending == 0, "it wants it no more", WAIT_S)

    stack.callback(mend)


def devices_never_read(scene: Scene, stack: ExitStack) -> None:
    """12 devices ask for 18 MB together and read none of it; the gateway may hold 1 MiB"""
    names = [f"big-{n}" for n in range(64)]
    with Publisher(kafka=scene.up.kafka) as publisher:
        for name in names:
            publisher.publish(DOMAIN, GROUP, name, version=1, payload="x" * 4000)
    for number in range(12):
        client = stack.enter_context(RawClient(scene.up.gateway[1], receive_buffer_bytes=4096))
        client.send(hello(client=f"greedy-{number}"))
        client.until("caught_up")
        with suppress(OSError):  # cut off already
            client.send(*(register(request, *names) for request in range(1, 7)))


def too_many_connect(scene: Scene, stack: ExitStack) -> None:
    """five more clients connect than the gateway accepts"""
    for _ in range(CONNECTIONS_MAX + 5):
        stack.enter_context(RawClient(scene.up.gateway[1]))


def a_client_comes_and_goes(scene: Scene, _stack: ExitStack) -> None:
    """one client connects 150 times"""
    for _ in range(150):
        with RawClient(scene.up.gateway[1]) as client:
            client.send(hello(client="restless"))
            client.until("welcome")
