"""Templates, cells, payloads and descriptions of rows.

Stands for: cells, changes, row_rules, json_payloads
"""

import msgspec
import pytest
from coldnotify_auto.cells import Cell, Row, number_of, text_cell
from coldnotify_auto.changes import KnownNewest, Put, RowRejected, description_digest, digest, is_changed
from coldnotify_auto.row_rules import Naming, description_of, payload_of
from coldnotify_auto.sources.json_payloads import payload_from
from coldnotify_auto.templates import Template
from coldnotify_schemas.names import ObjectKey

ROW: Row = {
    "id": Cell("7", 7),
    "region": text_cell("north"),
    "on": Cell("t", True),
    "price": Cell("1.50", msgspec.Raw(b"1.50")),
    "none": None,
}


def test_a_template_is_filled() -> None:
    assert Template("camera-{id}{{x}}").fill(ROW, "object") == "camera-7{x}"
    with pytest.raises(RowRejected, match="object: column none is null"):
        Template("{none}").fill(ROW, "object")
    with pytest.raises(RowRejected, match="object: column other is not known"):
        Template("{other}").fill(ROW, "object")


def test_a_name_that_is_not_allowed_rejects_the_row() -> None:
    naming = Naming(Template("d"), Template("{region} pole"), Template("{id}"))
    with pytest.raises(RowRejected, match="group: 'north pole' is not a name"):
        naming.key(ROW)
    assert naming.columns == {"region", "id"}


def test_a_payload_has_the_columns_in_the_rules_order() -> None:
    columns = {"on": "on", "cost": "price", "n": "none", "id": "id"}
    assert payload_of(ROW, columns) == b'{"on":true,"cost":1.50,"n":null,"id":7}'
    with pytest.raises(RowRejected, match="payload: column other is not known"):
        payload_of(ROW, {"x": "other"})


def test_a_description_has_no_nulls_and_numbers_are_numbers() -> None:
    assert description_of(ROW, {"on": "on", "cost": "price", "n": "none", "Region": "region"}) == {
        "on": True,
        "cost": 1.5,
        "Region": "north",
    }
    with pytest.raises(RowRejected, match="description: "):
        description_of({"x": text_cell("y" * 300)}, {"x": "x"})


def test_numbers_are_finite() -> None:
    assert [number_of(one) for one in (Cell("t", True), text_cell("x"), text_cell("NaN"), Cell("2", 2))] == [
        *(None, None, None),
        2.0,
    ]


def test_the_newest_versions_content_is_not_published_again() -> None:
    key = ObjectKey("d", "g", "o")
    newest = KnownNewest(0, 5, digest(b"x"), False, "", description_digest({"a": 1}))
    same = Put(key=key, version=9, payload=b"x")
    assert not is_changed(newest, same)
    assert is_changed(newest, Put(key=key, version=9, payload=b"y"))
    assert is_changed(newest, Put(key=key, version=9, payload=b"x", description={"a": 2}))
    assert not is_changed(newest, Put(key=key, version=9, payload=b"x", description={"a": 1}))
    assert is_changed(newest, Put(key=key, version=9, deleted=True))
    assert not is_changed(newest._replace(deleted=True), Put(key=key, version=9, deleted=True))
    assert is_changed(newest._replace(deleted=True), same)
    assert is_changed(None, same)
    assert not is_changed(None, Put(key=key, version=9, deleted=True))


def test_white_space_around_json_is_left_out() -> None:
    assert payload_from(b' {"a": 1}\n') == b'{"a": 1}'
    assert payload_from(b" not json\n") == b" not json\n"
    assert payload_from(b"\xff\n") == b"\xff\n"
