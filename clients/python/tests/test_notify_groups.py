"""A client of several groups as far as it has no service; `tests/integration/test_groups.py` has the rest."""

import pytest
from coldnotify import Connection, NotifyGroups, State, StateMismatch, aio
from coldnotify._core.document.document import ClientIdentity, Document, encode

DOMAIN, CLIENT = "animal.observer", "unit"


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        ("solar", "group_ids: is one text"),
        ([], "group_ids: 0 groups, 1 to 64"),
        ([f"g{n}" for n in range(65)], "group_ids: 65 groups, 1 to 64"),
        (["a", "b", "a"], "group_ids: names a group twice"),
        (["a", "b/c"], "group_ids: "),
        (["a", ""], "group_ids: "),
    ],
)
@pytest.mark.parametrize("form", [NotifyGroups, aio.NotifyGroups])
def test_wrong_groups_are_named(form, groups, words):
    with pytest.raises(ValueError, match=f"^{words}"):
        form(DOMAIN, groups, CLIENT, State(None))


def test_other_wrong_arguments_are_named():
    with pytest.raises(ValueError, match=r"^client_id: "):
        NotifyGroups(DOMAIN, ["a"], "", State(None))
    with pytest.raises(ValueError, match=r"^directory: "):
        NotifyGroups(DOMAIN, ["a"], CLIENT, State(None), Connection(directory="http://localhost:1"))
    notify = NotifyGroups(DOMAIN, ["a", "b"], CLIENT, State(None))
    with pytest.raises(ValueError, match=r"^group_id: 'c' is not among group_ids: a, b"):
        notify.group("c")


def test_a_refusal_in_one_group_stops_all(tmp_path):
    path = tmp_path / "state.json"
    content = encode(Document(identity=ClientIdentity(DOMAIN, "other", CLIENT)))
    path.write_bytes(content)
    notify = NotifyGroups(DOMAIN, ["a", "b"], CLIENT, State(path), Connection("127.0.0.1", 1))
    with pytest.raises(StateMismatch, match=r"state\.json: belongs to animal\.observer/other/unit"):
        notify.connect()
    assert not notify.connected
    assert path.read_bytes() == content
    State(path).open()


def test_it_can_be_stopped_before_it_ran_and_while_nobody_is_there():
    notify = NotifyGroups(DOMAIN, ["a", "b"], CLIENT, State(None), Connection("127.0.0.1", 1))
    notify.disconnect()
    for _ in range(2):
        assert not notify.connect(0.0)
        assert not notify.caught_up
        notify.network_changed()
        notify.disconnect()
