"""A real Prometheus sees what goes on: the dashboards' queries have data, faults make their alerts fire and clear."""

import secrets
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from coldnotify_parts.panels import RANGE
from coldnotify_testkit.drills.drill import Times, drill, table
from coldnotify_testkit.drills.faults import DRILLS, FAULTS
from coldnotify_testkit.drills.scene import SETTINGS, WAIT_S, Fault, Scene, Traffic
from coldnotify_testkit.prometheus import WINDOW, available, prometheus
from coldnotify_testkit.stack import Recorder, notify, running
from coldnotify_testkit.waiting import wait_for
from coldnotify_tools.dashboards import DASHBOARDS

pytestmark = [
    pytest.mark.own_broker("makes faults of Kafka, which the alerts are for"),
    pytest.mark.kafka,
    pytest.mark.skipif(not available(), reason="there is no prometheus (Debian's package of this name)"),
]


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    directory = tmp_path_factory.mktemp("monitoring")
    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        for name, value in SETTINGS.items():
            patch.setenv(name, value)
        (directory / "revoked").write_text("")
        patch.setenv("COLDNOTIFY_AUTH_REVOKED", str(directory / "revoked"))
        (directory / "hooks.key").write_text(secrets.token_hex(32))
        up = stack.enter_context(running(directory, hooks_key_file=str(directory / "hooks.key")))
        targets = {"matcher": up.report["matchers"], "gateway": up.report["gateways_http"]}
        targets |= {job: [up.report[job]] for job in ("http", "hooks")}
        watcher = stack.enter_context(prometheus(directory / "prometheus", targets))
        told = Recorder()
        ou = stack.enter_context(notify(up, "watched", None))
        ou.register("camera-config").subscribe(told)
        traffic = Traffic(up)
        traffic.start()
        stack.callback(traffic.join, 60)
        stack.callback(traffic.stopping.set)
        wait_for(lambda: len(told.seen) > 5, "the client is told")
        # A counter that has risen before it was scraped once rises for Prometheus only the next time.
        wait_for(
            lambda: len(watcher.query("up == 1")) == len(targets) and not watcher.firing(),
            "Prometheus sees all is well",
            WAIT_S,
        )
        yield Scene(up, watcher, directory)


@pytest.mark.parametrize("name", DASHBOARDS)
def test_every_query_of_a_dashboard_returns_data(scene: Scene, name: str) -> None:
    for panel in DASHBOARDS[name][1]:
        for query in panel.queries.values():
            asked = query.replace(RANGE, WINDOW)

            def data(asked: str = asked) -> bool:
                return any(sample["value"][1] != "NaN" for sample in scene.watcher.query(asked))

            wait_for(data, f"{name}, {panel.title}: {asked}", WAIT_S)


@pytest.fixture(scope="module")
def times() -> Iterator[dict[Fault, dict[str, Times]]]:
    """Of the faults so far; shown at the end."""
    found: dict[Fault, dict[str, Times]] = {}
    yield found
    print(f"\n\n{table(found)}")


@pytest.mark.parametrize(
    "fault",
    [*FAULTS, *(pytest.param(fault, marks=pytest.mark.drill) for fault in DRILLS)],
    ids=lambda fault: fault.__name__,
)
def test_a_fault_makes_its_alerts_fire_and_they_clear_after_it(
    scene: Scene, times: dict[Fault, dict[str, Times]], fault: Fault
) -> None:
    times[fault] = drill(scene, fault)
