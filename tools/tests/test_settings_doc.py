from pathlib import Path

from coldnotify_cli.every_setting import SECTIONS, all_settings
from coldnotify_cli.main import COMMANDS
from coldnotify_common.settings import describe
from coldnotify_tools.settings_doc import generate

DOC = Path(__file__).parents[2] / "docs" / "settings.md"


def test_the_document_is_up_to_date() -> None:
    assert DOC.read_text(encoding="utf-8") == generate(), (
        "docs/settings.md is out of date: python -m coldnotify_tools.settings_doc > docs/settings.md"
    )


def test_every_setting_is_in_it() -> None:
    text = DOC.read_text(encoding="utf-8")
    for cls in all_settings():
        for info in describe(cls):
            assert f"| `{info.flag}` | `{info.variable}` |" in text


def test_a_setting_means_the_same_wherever_it_is_taken() -> None:
    meanings: dict[str, set[object]] = {}
    for cls in all_settings():
        for info in describe(cls):
            # Not the default: `up`, which may run several of a kind, has its own for some.
            meanings.setdefault(info.name, set()).add((info.type, info.minimum, info.maximum))
    assert {name: kinds for name, kinds in meanings.items() if len(kinds) > 1} == {}


def test_every_section_is_a_command_of_ours() -> None:
    assert {section.title.split()[1] for section in SECTIONS} <= set(COMMANDS)
