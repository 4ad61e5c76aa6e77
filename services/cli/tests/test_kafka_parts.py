import pytest
from coldnotify_cli.kafka_parts import check_nodes
from coldnotify_common.settings import SettingError
from coldnotify_testkit.command import coldnotify


def test_one_and_three_are_allowed() -> None:
    for nodes in (1, 3):
        check_nodes(nodes, "--nodes")


@pytest.mark.parametrize("nodes", [2, 4, 5])
def test_another_number_is_told_with_its_setting(nodes: int) -> None:
    with pytest.raises(SettingError, match=rf"--kafka-nodes \(COLDNOTIFY_KAFKA_NODES\): {nodes} is neither 1 nor 3"):
        check_nodes(nodes, "--kafka-nodes")


@pytest.mark.parametrize(("command", "flag"), [("broker", "--nodes"), ("up", "--kafka-nodes")])
def test_the_commands_say_so_as_wrong_use(command: str, flag: str) -> None:
    done = coldnotify(command, flag, "2")
    assert done.returncode == 2, done.stderr
    assert f"{flag} " in done.stderr
    assert "2 is neither 1 nor 3" in done.stderr
