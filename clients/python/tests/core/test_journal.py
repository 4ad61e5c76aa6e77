"""Revisions and what is durable of them."""

from coldnotify._core.journal import Journal


def test_a_revision_is_durable_once_it_or_a_later_one_is_saved():
    journal = Journal()
    first, second = journal.changed(), journal.changed(urgent=True)
    assert journal.urgent == second
    assert not journal.is_durable(first)
    journal.durable = first
    assert journal.is_durable(first)
    assert not journal.is_durable(second)
