"""Tables for people, of what services answer."""

from coldnotify_cli.tables import print_one, print_table

LARGE = 2**60 + 1


def test_a_number_that_is_a_text_too_is_shown_once(capsys) -> None:
    print_table([{"object": "a", "version": LARGE, "version_text": str(LARGE), "free_text": "b"}])
    head, row = capsys.readouterr().out.splitlines()
    assert (head.split(), row.split()) == (["object", "version", "free_text"], ["a", str(LARGE), "b"])
    print_one({"offset": LARGE, "offset_text": str(LARGE)})
    assert capsys.readouterr().out.split() == ["offset", str(LARGE)]
