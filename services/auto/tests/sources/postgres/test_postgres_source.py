"""A database as a source, with a real PostgreSQL: rows, moves, transactions, outboxes, snapshots, refusals.

Stands for: catalogue, pg_connections, table_rules, pg_cells, row
"""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread, Timer
from typing import Any

import pytest
from coldnotify_auto.auto_file import read_auto_file
from coldnotify_auto.changes import Put, PutMessage
from coldnotify_auto.source import RunStopped, Source, SourceFailed, SourceRefused
from coldnotify_auto.sources.postgres import postgres_source, transactions
from coldnotify_auto.yaml_sections import AutoFileError
from coldnotify_testkit.collecting_outlet import CollectingOutlet
from coldnotify_testkit.postgres import Postgres, postgres
from coldnotify_testkit.waiting import wait_for

RULES = """\
      - table: public.cameras
        domain: d
        group: "{region}"
        object: "camera-{id}"
        payload: {fps, exposure}
        description: {model, region}
        when: status changes
      - table: outbox
        domain: d
        group: g
        channel: "{channel}"
        id: "{id}"
        payload: {words}
"""
TABLES = (
    "CREATE TABLE cameras (id int PRIMARY KEY, region text, fps int, exposure numeric, model text, status text,"
    " big text)",
    "ALTER TABLE cameras REPLICA IDENTITY FULL",
    "CREATE TABLE outbox (id bigserial PRIMARY KEY, channel text, words text)",
)


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with postgres() as running:
        yield running


@pytest.fixture
def pg(server: Postgres) -> Postgres:
    """The server with the tables, empty, and without slots."""
    wait_for(lambda: not server.do("SELECT 1 FROM pg_replication_slots WHERE active"), "no slot is read")
    server.do(
        "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots",
        "DROP SCHEMA public CASCADE",
        "CREATE SCHEMA public",
        "DROP PUBLICATION IF EXISTS coldnotify_plant",
        *TABLES,
    )
    return server


def source(pg: Postgres, tmp_path: Path, rules: str = RULES, more: str = "") -> Source:
    file = tmp_path / "auto.yaml"
    file.write_text(
        f'sources:\n  plant:\n    kind: postgres\n    connection: "{pg.connection}"\n{more}    rules:\n{rules}'
    )
    (one,) = read_auto_file(file)
    return one


class Steps:
    """Does one thing after the other, each once what was done before is told."""

    def __init__(self, *steps: tuple[int, Callable[[], object]]) -> None:
        """Each step: how many changes and rows set aside there are before it."""
        self._steps = list(steps)
        self.outlet: CollectingOutlet | None = None

    def __call__(self, _wait: int) -> None:
        assert self.outlet is not None
        if self._steps and len(self.outlet.changes) + len(self.outlet.aside) >= self._steps[0][0]:
            self._steps.pop(0)[1]()

    @property
    def done(self) -> bool:
        return not self._steps


def followed(one: Source, count: int, *steps: tuple[int, Callable[[], object]]) -> CollectingOutlet:
    """Follows the source until there are so many changes and rows set aside, and all steps are done."""
    doing = Steps(*steps)

    def enough(outlet: CollectingOutlet) -> bool:
        return doing.done and outlet.reason is None and len(outlet.changes) + len(outlet.aside) >= count

    doing.outlet = outlet = CollectingOutlet(enough, doing)
    with pytest.raises(RunStopped):
        one.run(outlet)
    return outlet


def again(one: Source, before: CollectingOutlet, count: int) -> CollectingOutlet:
    outlet = before.again(lambda outlet: outlet.reason is None and len(outlet.changes) >= count)
    with pytest.raises(RunStopped):
        one.run(outlet)
    return outlet


def shown(outlet: CollectingOutlet) -> list[tuple[str, Any]]:
    """Group/object and payload of each version, None: deleted; channel and id of each message."""
    return [
        (f"{one.channel} {one.id}", json.loads(one.payload))
        if isinstance(one, PutMessage)
        else ("/".join(one.key[1:]), None if one.deleted else json.loads(one.payload))
        for one in outlet.changes
    ]


def insert(number: int, region: str = "north", status: str = "on", fps: int = 5) -> str:
    return f"INSERT INTO cameras VALUES ({number}, '{region}', {fps}, 1.50, 'm1', '{status}')"


def test_rows_are_objects_from_the_first_snapshot_on(pg: Postgres, tmp_path: Path) -> None:
    pg.do(insert(1), insert(2, region="south"), "INSERT INTO outbox (channel, words) VALUES ('tasks', 'before')")
    outlet = followed(
        source(pg, tmp_path),
        10,
        (3, lambda: pg.do(insert(3, fps=7))),
        (4, lambda: pg.do("UPDATE cameras SET fps = 8 WHERE id = 3")),  # its status has not changed
        (4, lambda: pg.do("UPDATE cameras SET fps = 9, status = 'off' WHERE id = 3")),
        (5, lambda: pg.do("UPDATE cameras SET region = 'west' WHERE id = 1")),
        (7, lambda: pg.do("DELETE FROM cameras WHERE id = 2")),
        (8, lambda: pg.do("INSERT INTO outbox (channel, words) VALUES ('tasks', 'after')")),
        (9, lambda: pg.do("UPDATE cameras SET id = 33 WHERE id = 3; DELETE FROM outbox")),
    )
    assert shown(outlet) == [
        ("north/camera-1", {"fps": 5, "exposure": 1.5}),
        ("south/camera-2", {"fps": 5, "exposure": 1.5}),
        ("tasks 1", {"words": "before"}),
        ("north/camera-3", {"fps": 7, "exposure": 1.5}),
        ("north/camera-3", {"fps": 9, "exposure": 1.5}),
        ("north/camera-1", None),
        ("west/camera-1", {"fps": 5, "exposure": 1.5}),
        ("south/camera-2", None),
        ("tasks 2", {"words": "after"}),
        ("north/camera-3", None),
        ("north/camera-33", {"fps": 9, "exposure": 1.5}),
    ]
    puts = [one for one in outlet.changes if isinstance(one, Put)]
    assert puts[0].description == {"model": "m1", "region": "north"}
    assert puts[-2].description == {}
    versions = [one.version for one in puts]
    assert versions == sorted(versions)
    assert {one.incarnation for one in puts} == {1}
    assert {one.source for one in puts} == {"auto.plant.cameras"}
    assert puts[-1].version == puts[-2].version  # one transaction


def test_the_last_change_of_an_object_in_a_transaction_counts(pg: Postgres, tmp_path: Path) -> None:
    """Savepoints that are rolled back have changed nothing."""

    def change() -> None:
        pg.do(
            f"BEGIN; {insert(1)}; {insert(2)}; UPDATE cameras SET fps = 6, status = 'a' WHERE id = 1;"
            "SAVEPOINT s; UPDATE cameras SET fps = 99, status = 'b' WHERE id = 1; ROLLBACK TO s;"
            "DELETE FROM cameras WHERE id = 2; UPDATE cameras SET fps = 7, status = 'c' WHERE id = 1; COMMIT"
        )

    outlet = followed(source(pg, tmp_path), 2, (0, change))
    assert shown(outlet) == [("north/camera-2", None), ("north/camera-1", {"fps": 7, "exposure": 1.5})]


def test_changes_while_it_does_not_run_are_published_after_it(pg: Postgres, tmp_path: Path) -> None:
    one = source(pg, tmp_path)
    first = followed(one, 1, (0, lambda: pg.do(insert(1))))
    pg.do(insert(2), "DELETE FROM cameras WHERE id = 1", "INSERT INTO outbox (channel, words) VALUES ('c', 'x')")
    second = again(one, first, 3)
    assert [words for words in shown(second) if words != shown(first)[0]] == [
        ("north/camera-2", {"fps": 5, "exposure": 1.5}),
        ("north/camera-1", None),
        ("c 1", {"words": "x"}),
    ]
    third = again(one, second, 0)
    assert [put for put in third.changes if put not in second.changes] == []


def test_a_transaction_that_is_open_across_the_snapshot_is_not_lost(pg: Postgres, tmp_path: Path) -> None:
    pg.do(insert(1))
    open_ = pg.connect()
    with open_.cursor() as cursor:
        cursor.execute(insert(2))
    started = time.monotonic()

    def commit() -> None:
        open_.commit()
        open_.close()

    timer = Timer(1.5, commit)
    timer.start()
    outlet = followed(source(pg, tmp_path), 2)
    timer.join()
    assert time.monotonic() - started > 1
    assert sorted(shown(outlet), key=str) == [
        ("north/camera-1", {"fps": 5, "exposure": 1.5}),
        ("north/camera-2", {"fps": 5, "exposure": 1.5}),
    ]


def test_a_slot_that_was_lost_is_made_again_and_the_tables_compared(pg: Postgres, tmp_path: Path) -> None:
    one = source(pg, tmp_path)
    first = followed(one, 3, (0, lambda: pg.do(insert(1), insert(2), insert(3))))
    wait_for(lambda: not pg.do("SELECT 1 FROM pg_replication_slots WHERE active"), "the slot is free")
    pg.do("SELECT pg_drop_replication_slot('coldnotify_plant')")
    pg.do("DELETE FROM cameras WHERE id = 1", "UPDATE cameras SET fps = 6, status = 'x' WHERE id = 2", insert(4))
    second = again(one, first, 3)
    assert sorted(shown(second), key=str) == [
        ("north/camera-1", None),
        ("north/camera-2", {"fps": 6, "exposure": 1.5}),
        ("north/camera-4", {"fps": 5, "exposure": 1.5}),
    ]
    assert min(one.version for one in second.changes if isinstance(one, Put)) > max(
        one.version for one in first.changes if isinstance(one, Put)
    )


def test_a_truncated_table_has_no_objects(pg: Postgres, tmp_path: Path) -> None:
    outlet = followed(
        source(pg, tmp_path),
        5,
        (0, lambda: pg.do(insert(1), insert(2))),
        (2, lambda: pg.do(f"BEGIN; {insert(3)}; TRUNCATE cameras; {insert(2, fps=6)}; COMMIT")),
    )
    assert shown(outlet)[2:] == [
        ("north/camera-3", None),
        ("north/camera-2", {"fps": 6, "exposure": 1.5}),
        ("north/camera-1", None),
    ]


def test_a_row_that_cannot_be_mapped_is_set_aside_with_its_position(pg: Postgres, tmp_path: Path) -> None:
    outlet = followed(
        source(pg, tmp_path),
        4,
        (0, lambda: pg.do(insert(1, region="no such name"), insert(2))),
        (2, lambda: pg.do("UPDATE cameras SET region = NULL WHERE id = 2")),
    )
    assert shown(outlet) == [("north/camera-2", {"fps": 5, "exposure": 1.5}), ("north/camera-2", None)]
    (first, second) = outlet.aside
    assert first[0].startswith("public.cameras at 0/")
    assert "id=1" in first[0]
    assert first[1].startswith("group: 'no such name' is not a name")
    assert second[1] == "group: column region is null"


def test_a_column_that_is_added_changes_nothing_and_a_long_value_is_never_a_placeholder(
    pg: Postgres, tmp_path: Path
) -> None:
    rules = RULES.replace("{fps, exposure}", "{fps, size: big}").replace("        when: status changes\n", "")
    outlet = followed(
        source(pg, tmp_path, rules),
        4,
        (0, lambda: pg.do("INSERT INTO cameras SELECT 1, 'north', 5, 1, 'm', 'on', string_agg(md5(i::text), '') "
                          "FROM generate_series(1, 110) i")),
        (1, lambda: pg.do("ALTER TABLE cameras ADD COLUMN more int DEFAULT 3", "UPDATE cameras SET fps = 6")),
        (2, lambda: pg.do("ALTER TABLE cameras REPLICA IDENTITY DEFAULT", "UPDATE cameras SET fps = 7")),
        (3, lambda: pg.do("UPDATE cameras SET big = 'short', fps = 8")),
    )  # fmt: skip
    assert [(payload["fps"], len(payload["size"])) for _, payload in shown(outlet)] == [(5, 3520), (6, 3520), (8, 5)]
    ((_, reason),) = outlet.aside
    assert reason == ("payload: column big is not known (ALTER TABLE public.cameras REPLICA IDENTITY FULL has it sent)")


def test_more_objects_than_are_held_are_compared(pg: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactions, "OBJECTS_MAX", 10)
    one = source(pg, tmp_path)
    many = "INSERT INTO cameras SELECT i, 'north', 5, 1, 'm', 'on' FROM generate_series(1, 50) i"

    def steps(wait: int) -> None:
        if wait == 0:
            pg.do(many)

    outlet = CollectingOutlet(lambda _: False, steps)
    with pytest.raises(SourceFailed, match="too many objects: every table is compared"):
        one.run(outlet)
    after = outlet.again(lambda outlet: outlet.reason is None and len(outlet.changes) >= 50)
    with pytest.raises(RunStopped):
        one.run(after)
    assert len(after.changes) == 50
    last = after.again(lambda outlet: outlet.reason is None and bool(outlet.changes))
    last_steps = Steps((0, lambda: pg.do(insert(51))))
    last_steps.outlet = last
    last._steps = last_steps
    with pytest.raises(RunStopped):
        one.run(last)
    assert shown(last) == [("north/camera-51", {"fps": 5, "exposure": 1.5})]


def test_a_column_that_is_gone_stops_the_source_and_its_rows_are_compared_later(pg: Postgres, tmp_path: Path) -> None:
    one = source(pg, tmp_path)
    pg.do(insert(1))
    first = followed(one, 1)
    pg.do("ALTER TABLE cameras RENAME fps TO rate", "UPDATE cameras SET rate = 8, status = 'off'")
    with pytest.raises(SourceRefused, match="no column 'fps' that is replicated"):
        one.run(first.again(lambda _: False))
    pg.do("ALTER TABLE cameras RENAME rate TO fps")
    with pytest.raises(SourceFailed, match=r"public\.cameras had no column 'fps' in a transaction.*is compared"):
        one.run(first.again(lambda _: False))
    assert shown(again(one, first, 1)) == [("north/camera-1", {"fps": 8, "exposure": 1.5})]


def test_a_column_that_goes_while_its_table_is_followed_stops_the_source(pg: Postgres, tmp_path: Path) -> None:
    pg.do(insert(1))
    steps = Steps((1, lambda: pg.do("ALTER TABLE cameras DROP fps", "UPDATE cameras SET status = 'off'")))
    steps.outlet = outlet = CollectingOutlet(lambda _: False, steps)
    with pytest.raises(SourceFailed, match=r"public\.cameras had no column 'fps'"):
        source(pg, tmp_path).run(outlet)
    assert not outlet.aside


def test_all_tables_are_compared_when_that_is_asked_for(
    pg: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_source, "_LOOK_S", 0.1)
    one = source(pg, tmp_path)
    with pytest.raises(SourceRefused, match="it was not followed yet"):
        one.resync()
    pg.do(insert(1), insert(2))
    steps = Steps((2, lambda: one.resync()))
    steps.outlet = outlet = CollectingOutlet(lambda _: False, steps)
    with pytest.raises(SourceFailed, match="every table is compared, as was asked for"):
        one.run(outlet)
    (name,) = [key for key in outlet._newest if key.object == "camera-2"]
    outlet._newest[name] = outlet._newest[name]._replace(payload=b"another publisher's")
    assert shown(again(one, outlet, 1)) == [("north/camera-2", {"fps": 5, "exposure": 1.5})]


def test_a_second_reader_waits_for_the_first(pg: Postgres, tmp_path: Path) -> None:
    one = source(pg, tmp_path)
    followed(one, 1, (0, lambda: pg.do(insert(1))))

    def has_second(outlet: CollectingOutlet) -> bool:
        return any(name == "north/camera-2" for name, _ in shown(outlet))

    first_outlet = CollectingOutlet(has_second)
    second_outlet = CollectingOutlet(lambda outlet: outlet.reason is None)
    first = Thread(target=lambda: run_quietly(one, first_outlet))
    first.start()
    wait_for(lambda: pg.do("SELECT 1 FROM pg_replication_slots WHERE active"), "the first reads")
    second = Thread(target=lambda: run_quietly(source(pg, tmp_path), second_outlet))
    second.start()
    wait_for(lambda: "another reader" in (second_outlet.reason or ""), "the second waits")
    pg.do(insert(2))
    first.join()
    second.join()
    assert has_second(first_outlet)


def run_quietly(one: Source, outlet: CollectingOutlet) -> None:
    with pytest.raises(RunStopped):
        one.run(outlet)


@pytest.mark.parametrize(
    ("statement", "old", "new", "words"),
    [
        ("ALTER TABLE cameras REPLICA IDENTITY DEFAULT", "", "", "needs the old row: ALTER TABLE public.cameras"),
        ("ALTER TABLE cameras REPLICA IDENTITY DEFAULT", "status changes", "fps > 1", "old value of fps, region is"),
        ("ALTER TABLE cameras REPLICA IDENTITY NOTHING", "", "", "has no primary key"),
        ("SELECT 1", "public.cameras", "public.camras", r":6: sources\.plant\.rules\[0\]\.table: table public"),
        ("SELECT 1", "{fps, exposure}", "{fpss}", "no column 'fpss' that is replicated, expected one of big"),
        ("CREATE VIEW seen AS SELECT * FROM cameras", "public.cameras", "seen", "is not an ordinary table"),
        ("CREATE PUBLICATION coldnotify_plant WITH (publish = 'insert')", "", "", "does not publish insert, update"),
    ],
)  # fmt: skip
def test_rules_that_the_log_cannot_follow_are_refused_at_the_start(
    pg: Postgres, tmp_path: Path, statement: str, old: str, new: str, words: str
) -> None:
    pg.do(statement)
    outlet = CollectingOutlet(lambda _: True)
    with pytest.raises(SourceRefused, match=words):
        source(pg, tmp_path, RULES.replace(old, new) if old else RULES).run(outlet)


@pytest.mark.parametrize("is_same", [False, True])
def test_an_object_whose_newest_version_is_above_is_refused_until_the_epoch_rises(
    pg: Postgres, tmp_path: Path, *, is_same: bool
) -> None:
    """As after a dump was restored: the places in its log are lower, and so are those of what changes later."""
    pg.do(insert(1))
    one = source(pg, tmp_path)
    first = followed(one, 1)
    (key,) = first._newest
    payload = first._newest[key].payload if is_same else b"another"
    first._newest[key] = first._newest[key]._replace(version=1 << 62, payload=payload)
    pg.do("COMMENT ON PUBLICATION coldnotify_plant IS NULL")
    with pytest.raises(SourceRefused, match="set `epoch: 1`"):
        one.run(first.again(lambda _: False))
    outlet = first.again(lambda outlet: outlet.reason is None and len(outlet.changes) >= (not is_same))
    with pytest.raises(RunStopped):
        source(pg, tmp_path, more="    epoch: 1\n").run(outlet)
    incarnations = [put.incarnation for put in outlet.changes if isinstance(put, Put)]
    assert incarnations == ([] if is_same else [(1 << 16) | 1])


def test_a_plan_leaves_no_trace(pg: Postgres, tmp_path: Path) -> None:
    pg.do(insert(1), insert(2))
    outlet = CollectingOutlet(lambda _: False)
    outlet.is_plan = True
    with pytest.raises(RunStopped):
        source(pg, tmp_path).run(outlet)
    assert len(outlet.changes) == 2
    assert pg.do("SELECT count(*) FROM pg_publication") == [(0,)]
    wait_for(lambda: pg.do("SELECT count(*) FROM pg_replication_slots") == [(0,)], "the plan's slot is gone")


def test_the_slot_is_confirmed_behind_acknowledgements_only(pg: Postgres, tmp_path: Path) -> None:
    def confirmed() -> int:
        ((text,),) = pg.do("SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = 'coldnotify_plant'")
        return transactions.parse_lsn(text)

    one = source(pg, tmp_path)

    def steps(wait: int) -> None:
        if wait < 2:
            pg.do(insert(wait))

    outlet = CollectingOutlet(lambda outlet: len(outlet.changes) >= 2, steps)
    outlet.passed = lambda mark: None  # type: ignore[method-assign]
    with pytest.raises(RunStopped):
        one.run(outlet)
    versions = [put.version for put in outlet.changes if isinstance(put, Put)]
    assert confirmed() <= min(versions)
    second = again(one, outlet, 2)
    assert [put.version for put in second.changes if isinstance(put, Put)] == versions


def test_a_wrong_connection_is_named_and_nobody_there_is_a_reason(tmp_path: Path, server: Postgres) -> None:
    file = tmp_path / "auto.yaml"
    file.write_text(f"sources:\n  p:\n    kind: postgres\n    connection: 'hst=x'\n    rules:\n{RULES}")
    with pytest.raises(AutoFileError, match=r"auto\.yaml:4: sources\.p\.connection: expected libpq's parameters"):
        read_auto_file(file)
    file.write_text(f"sources:\n  p:\n    kind: postgres\n    connection: 'host=127.0.0.1 port=1'\n    rules:\n{RULES}")
    (one,) = read_auto_file(file)
    with pytest.raises(SourceFailed, match=r"PostgreSQL: .*refused"):
        one.run(CollectingOutlet(lambda _: False))


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("status changes", "status", 12, "rules[0].when: expected conditions such as"),
        ("camera-{id}", "camera", 9, "rules[0].object: expected a column in braces"),
        ('id: "{id}"', "id: x", 17, "rules[1].id: expected a column in braces"),
        ("table: outbox", "table: outbox\n        when: id > 1", 14, "rules[1].when: unknown key"),
        ("table: outbox", "table: outbox\n        name: cameras", 5, "rules: expected a `name` of its own"),
        ("table: outbox", "table: 'out box'", 13, "rules[1].name: expected a name for the rule"),
        ("payload: {fps, exposure}", "payload: fps", 10, "rules[0].payload: expected columns such as {fps, exposure}"),
    ],
)
def test_an_error_in_a_rule_has_its_place(
    tmp_path: Path, server: Postgres, old: str, new: str, line: int, words: str
) -> None:
    assert old in RULES
    with pytest.raises(AutoFileError) as raised:
        source(server, tmp_path, RULES.replace(old, new, 1))
    assert str(raised.value).startswith(f"{tmp_path / 'auto.yaml'}:{line}: sources.plant.{words}")
