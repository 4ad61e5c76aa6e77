"""Hostile records are drawn for all topics, each kind of batch soon for each topic; and nothing that is believed."""

from coldnotify_kafka import topics
from coldnotify_schemas.tenants import InvalidTenant, parse_tenant
from coldnotify_testkit.hostile_records.batch_kinds import AS_DRAWN, BOMBS, HEADER_NO_TEXT, KINDS
from coldnotify_testkit.hostile_records.generator import WEIGHTS, Generator
from coldnotify_testkit.hostile_records.records import DOMAIN, Hostile, KnownToAttacker
from coldnotify_testkit.record_batches import encoded

SHORT_RUN = 3_000
"""As many as tests/integration/test_hostile_records.py writes."""
NOW_MS = 1_800_000_000_000
KNOWN = KnownToAttacker(
    8, 16, ("g-1", "g-2"), ("ou-1",), ("o-1",), NOW_MS, spared_domains=("other",), spared_tenants=("other",)
)
LIGHT = [kind for kind in KINDS if kind not in BOMBS]


def drawn(seed: int, count: int, *only: str, kinds: list[str] = LIGHT) -> list[Hostile]:
    generator = Generator(seed, only or tuple(WEIGHTS), kinds=kinds)
    return [generator.record(KNOWN) for _ in range(count)]


def test_all_topics_of_the_file_are_written_to() -> None:
    assert WEIGHTS.keys() == {spec.name for spec in topics.load()}
    assert {record.topic for record in drawn(1, 1_000)} == WEIGHTS.keys()


def test_a_short_run_has_each_kind_in_each_topic() -> None:
    dealt = Generator(1)
    found = set()
    for _ in range(SHORT_RUN // 3):
        found.add(dealt.next_dealt())
    assert found == {(topic, kind) for topic in WEIGHTS for kind in KINDS}
    assert len(found) <= SHORT_RUN // 3


def test_kinds_are_dealt_to_the_records_of_a_run() -> None:
    records = drawn(3, 600, kinds=[HEADER_NO_TEXT])
    assert {(one.topic, one.kind) for one in records if one.kind != AS_DRAWN} == {(t, HEADER_NO_TEXT) for t in WEIGHTS}
    for one in records:
        if one.kind == HEADER_NO_TEXT:
            assert any(not is_text(name or b"") for name, _ in one.batch.records[0].headers)


def test_a_seed_draws_the_same() -> None:
    assert drawn(7, 500) == drawn(7, 500)
    assert drawn(7, 500) != drawn(8, 500)


def test_drawn_records_can_be_encoded() -> None:
    assert all(encoded(record.batch) for record in drawn(5, 3_000))


def test_nothing_is_agreed_with_honest_tenants() -> None:
    agreed = 0
    for record in drawn(2, 3_000, "coldnotify.tenants", kinds=[AS_DRAWN]):
        (one,) = record.batch.records
        if one.value is None:
            assert one.key not in (b"other", b"default")
            continue
        try:
            tenant = parse_tenant(one.key, one.value)
        except InvalidTenant:
            continue
        agreed += 1
        assert not {DOMAIN, "other"} & set(tenant.domains)
        assert tenant.name not in ("default", "other")
    assert agreed > 100


def is_text(name: bytes) -> bool:
    try:
        name.decode()
    except UnicodeDecodeError:
        return False
    return True
