"""The topics' names are part of the outer contract: back-ends write to one of them."""

from coldnotify_schemas import topics


def test_the_names() -> None:
    names = {value for name, value in vars(topics).items() if name.isupper() and isinstance(value, str)}

    assert names == {
        "coldnotify.objects",
        "coldnotify.requests",
        "coldnotify.registrations",
        "coldnotify.sessions",
        "coldnotify.notifications",
        "coldnotify.rejected",
    }


def test_what_one_matcher_owns_is_co_partitioned() -> None:
    assert topics.CO_PARTITIONED == (topics.OBJECTS, topics.REQUESTS, topics.REGISTRATIONS, topics.SESSIONS)
