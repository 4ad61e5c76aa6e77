from dataclasses import dataclass
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from coldnotify_common.settings import (
    ServiceSettings,
    SettingError,
    describe,
    load,
    markdown_table,
    setting,
    settings_options,
    unknown_variables,
)


@dataclass(frozen=True, kw_only=True)
class LampSettings(ServiceSettings):
    lamp_port: int = setting(55000, "where the lamp listens", minimum=0, maximum=65535)
    lamp_fade_s: float = setting(1.5, "how long it fades", minimum=0)
    lamp_colour: str = setting("red", "its colour", choices=("red", "green"))
    lamp_on: bool = setting(False, "whether it is on")
    lamp_file: Path = setting(Path("/tmp/lamp"), "where it keeps its state")


def test_defaults_hold_when_nothing_is_given() -> None:
    assert load(LampSettings, {}) == LampSettings()


def test_environment_outdoes_the_default_and_a_flag_outdoes_the_environment() -> None:
    environ = {"COLDNOTIFY_LAMP_PORT": "7", "COLDNOTIFY_LAMP_FADE_S": "2", "COLDNOTIFY_KAFKA": "k:1"}
    settings = load(LampSettings, environ, lamp_port=8, lamp_fade_s=None)
    assert (settings.lamp_port, settings.lamp_fade_s, settings.kafka) == (8, 2.0, "k:1")


def test_each_type_is_read_as_its_annotation_says() -> None:
    settings = load(
        LampSettings, {"COLDNOTIFY_LAMP_ON": "yes", "COLDNOTIFY_LAMP_FILE": "/x/y", "COLDNOTIFY_LAMP_COLOUR": "green"}
    )
    assert (settings.lamp_on, settings.lamp_file, settings.lamp_colour) == (True, Path("/x/y"), "green")


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("LAMP_PORT", "many", "'many' is not a whole number"),
        ("LAMP_PORT", "1.5", "not a whole number"),
        ("LAMP_PORT", "-1", "less than 0"),
        ("LAMP_PORT", "65536", "more than 65535"),
        ("LAMP_FADE_S", "nan", "not a finite number"),
        ("LAMP_PORT", "9" * 400, "is more than"),
        ("LAMP_FADE_S", "1e999", "not a finite number"),
        ("LAMP_COLOUR", "blue", "none of red, green"),
        ("LAMP_ON", "maybe", "neither yes nor no"),
        ("LAMP_FILE", "", "a path is wanted"),
        ("LOG_LEVEL", "loud", "none of debug, info"),
    ],
)
def test_a_bad_value_is_an_error_that_names_variable_and_flag(variable: str, value: str, words: str) -> None:
    with pytest.raises(SettingError) as caught:
        load(LampSettings, {f"COLDNOTIFY_{variable}": value})
    flag = "--" + variable.lower().replace("_", "-")
    assert str(caught.value).startswith(f"COLDNOTIFY_{variable} / {flag}: ")
    assert words in str(caught.value)


def test_an_override_that_is_no_setting_is_a_programming_error() -> None:
    with pytest.raises(TypeError, match="no settings lamp_prt"):
        load(LampSettings, {}, lamp_prt=1)


def test_a_field_that_is_not_made_with_setting_is_a_programming_error() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Bare(ServiceSettings):
        lamp: int = 3

    with pytest.raises(TypeError, match=r"Bare\.lamp"):
        describe(Bare)


@click.command()
@click.argument("word")
@settings_options(LampSettings)
def lamp(word: str, settings: LampSettings) -> None:
    click.echo(f"{word} {settings.lamp_port} {settings.lamp_on} {settings.lamp_fade_s}")


def test_a_command_gets_its_settings_from_flags_and_environment() -> None:
    result = CliRunner().invoke(lamp, ["hi", "--lamp-port", "7", "--lamp-on"], env={"COLDNOTIFY_LAMP_FADE_S": "3"})
    assert result.output == "hi 7 True 3.0\n"


def test_a_flag_can_say_no_to_the_environment() -> None:
    result = CliRunner().invoke(lamp, ["hi", "--no-lamp-on"], env={"COLDNOTIFY_LAMP_ON": "1"})
    assert result.output == "hi 55000 False 1.5\n"


@pytest.mark.parametrize(
    ("flags", "environ"), [(["--lamp-port", "x"], {}), ([], {"COLDNOTIFY_LAMP_PORT": "x"})], ids=["flag", "environment"]
)
def test_a_command_with_a_bad_setting_is_wrong_use(flags: list[str], environ: dict[str, str]) -> None:
    result = CliRunner().invoke(lamp, ["hi", *flags], env=environ)
    assert result.exit_code == 2
    assert "COLDNOTIFY_LAMP_PORT / --lamp-port: 'x' is not a whole number" in result.output


def test_variables_that_nobody_knows_are_told_with_the_name_that_was_meant() -> None:
    environ = {"COLDNOTIFY_LAMP_PROT": "1", "COLDNOTIFY_KAFKA": "x", "HOME": "/", "COLDNOTIFY_DATA": "d"}
    (warning,) = unknown_variables(environ, [LampSettings], others=["COLDNOTIFY_DATA"])
    assert warning == "COLDNOTIFY_LAMP_PROT: no setting has this name; did you mean COLDNOTIFY_LAMP_PORT?"


def test_the_table_says_flag_variable_default_limits_and_meaning() -> None:
    table = markdown_table(describe(LampSettings))
    assert (
        "| `--lamp-port` | `COLDNOTIFY_LAMP_PORT` | `55000` | whole number, 0 to 65535 | where the lamp listens |\n"
    ) in table
    assert "| `--lamp-on` | `COLDNOTIFY_LAMP_ON` | `no` | yes or no | whether it is on |\n" in table
