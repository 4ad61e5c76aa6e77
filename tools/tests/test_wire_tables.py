"""The browser client's tables are those of the descriptor."""

from coldnotify_tools.wire_tables import TYPESCRIPT, generate


def test_the_tables_are_the_generated_ones() -> None:
    assert TYPESCRIPT.read_text(encoding="utf-8") == generate(), "make docs"


def test_a_table_stands_below_those_that_it_names() -> None:
    text = generate()
    assert (
        text.index("export const INTEREST ")
        < text.index("export const HELLO ")
        < text.index("export const CLIENT_FRAME ")
    )
    assert 'held: { number: 6, type: "fixed64", label: "optional" },' in text
    assert 'since: { number: 4, type: "uint32", names: SINCE },' in text
