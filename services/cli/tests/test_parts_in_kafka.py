"""What rows of parts bring to the command: topics, rights in Kafka, ports of `up`, addresses for `doctor`.

Stands for: up_ports, every_setting
"""

import subprocess
import sys
from dataclasses import replace

import pytest
from coldnotify_cli import every_setting, parts_in_kafka, service_checks, up_ports
from coldnotify_cli.settings import UpSettings
from coldnotify_common.errors import SettingError
from coldnotify_common.settings import describe, settings_options
from coldnotify_kafka.errors import AclsFileError
from coldnotify_parts.registry import PARTS
from coldnotify_schemas.topics import TopicNames

PLANTED = replace(
    next(row for row in PARTS if row.name == "usage"),
    name="planted",
    port=51999,
    doctor="",
    topics="coldnotify.planted: {co_partitioned: true, settings: {cleanup.policy: compact}}",
    rights="{topics: {coldnotify.planted: [read], coldnotify.objects: [read]}, groups: {coldnotify-planted*: [read]}}",
)


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (service_checks, parts_in_kafka):
        monkeypatch.setattr(module, "PARTS", (*PARTS, PLANTED))


@pytest.mark.usefixtures("planted")
def test_the_topics_of_a_row_have_the_number_of_partitions_that_others_have() -> None:
    found = {spec.name: spec.partitions for spec in parts_in_kafka.topics(3, 1, TopicNames())}
    assert found["coldnotify.planted"] == found["coldnotify.objects"] == 3


@pytest.mark.usefixtures("planted")
def test_a_row_has_a_role_in_kafka() -> None:
    said = {str(acl) for acl in parts_in_kafka.acls("User:{role}", TopicNames()) if acl.principal == "User:planted"}
    assert said == {
        "User:planted: read topic coldnotify.planted",
        "User:planted: read topic coldnotify.objects",
        "User:planted: read group coldnotify-planted*",
    }


def test_a_role_may_not_name_a_topic_that_no_row_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts_in_kafka, "PARTS", (replace(PLANTED, topics=""),))
    with pytest.raises(AclsFileError, match=r"planted: coldnotify\.planted"):
        parts_in_kafka.acls("User:{role}", TopicNames())


@pytest.mark.usefixtures("planted")
@pytest.mark.parametrize(("text", "at"), [("", "127.0.0.1:51999"), ("planted=far:1", "far:1")])
def test_a_part_without_a_setting_is_looked_for_where_parts_says(text: str, at: str) -> None:
    assert service_checks._added(text) == {"planted": at}


@pytest.mark.parametrize("text", ["nobody=here:1", "nobody", "usage=here:1"])
def test_the_address_of_a_part_that_is_not_there_is_refused(text: str) -> None:
    with pytest.raises(SettingError, match="--parts"):
        service_checks._added(text)


def test_up_has_one_setting_for_each_port() -> None:
    names = [info.name for cls in [*up_ports.PORTS] for info in describe(cls)] + [
        info.name for info in describe(UpSettings)
    ]
    assert len(set(names)) == len(names)
    assert {row.port_setting for row in PARTS} <= set(names)


def test_a_port_that_ups_settings_do_not_name_is_a_setting_of_its_own() -> None:
    (info,) = describe(up_ports._alone("planted_port", "port of it; 0: 51999"))
    assert (info.flag, info.default, info.maximum) == ("--planted-port", 0, 65535)


def test_each_part_has_a_section_of_settings() -> None:
    titles = {section.title for section in every_setting.SECTIONS}
    assert {f"coldnotify {row.name}" for row in PARTS} <= titles


def test_a_command_with_several_classes_is_given_an_object_of_each() -> None:
    given: dict[str, object] = {}
    more = up_ports._alone("planted_port", "port")
    command = settings_options(UpSettings, more)(lambda **kwargs: given.update(kwargs))
    flags = {info.name: None for info in (*describe(UpSettings), *describe(more))}
    command(**{**flags, "planted_port": "7"})
    assert isinstance(given["settings"], UpSettings)
    assert [vars(one) for one in given["others"]] == [{"planted_port": 7}]  # type: ignore[attr-defined]


def test_the_table_imports_nothing_of_the_parts() -> None:
    code = "import sys, coldnotify_parts.registry; print(*[name for name in sys.modules if name[:11] == 'coldnotify_'])"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60).stdout
    packages = {name.partition(".")[0] for name in said.split()}
    assert packages == {"coldnotify_parts", "coldnotify_schemas"}
