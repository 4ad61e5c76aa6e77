"""However far an object's versions were driven, `coldnotify object reset` begins them over, and devices are told."""

from coldnotify_testkit.command import coldnotify
from coldnotify_testkit.stack import Recorder, Up, notify
from coldnotify_testkit.waiting import wait_for
from confluent_kafka import Producer

DOMAIN, GROUP = "animal.observer", "driven"
VERSION_MAX = 2**63 - 1


def drive(up: Up, partition: int) -> None:
    """As somebody would who may write to Kafka: up to the highest of all, a million at a time, and beyond."""
    producer = Producer({"bootstrap.servers": up.kafka, "acks": "all"})
    steps = [*range(1_000_000, 2**31, 1_000_000), 2**31 - 1, 2**40, VERSION_MAX]
    for incarnation in steps:
        value = b'{"version":%d,"incarnation":%d}' % (VERSION_MAX, incarnation)
        producer.produce(up.topics.objects, value, f"{DOMAIN}/{GROUP}/lamp".encode(), partition)
    assert producer.flush(120) == 0


def test_a_reset_outdoes_the_highest_version_of_the_highest_incarnation(up: Up) -> None:
    told = Recorder()
    settings = {**up.in_kafka, "http": up.report["http"], "matcher": ",".join(up.report["matchers"])}
    with (
        notify(up, "unit", None, group=GROUP) as ou,
        up.publisher(timeout_s=60, http=up.report["http"]) as publisher,
    ):
        ou.register("lamp").subscribe(told)
        assert ou.wait_caught_up(60)
        drive(up, publisher.publish(DOMAIN, GROUP, "lamp", version=1).partition)
        wait_for(lambda: told.newest("lamp") == VERSION_MAX, "driven to the end")
        assert publisher.publish(DOMAIN, GROUP, "lamp").outcome(60).outcome == "stale"

        for begins in (5, 3):
            reset = coldnotify("object", "reset", DOMAIN, GROUP, "lamp", "--version", str(begins), "--yes", **settings)
            assert (reset.returncode, reset.stdout.split()[-1]) == (0, "published"), reset.stderr
            wait_for(lambda: told.newest("lamp") == begins, "the reset is told")  # noqa: B023
        assert publisher.publish(DOMAIN, GROUP, "lamp", version=4).applied_by(1.0, timeout_s=60) == (1, 0)
        assert told.newest("lamp") == 4
