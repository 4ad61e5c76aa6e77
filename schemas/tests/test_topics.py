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
        "coldnotify.channels.1h",
        "coldnotify.channels.1d",
        "coldnotify.channels.30d",
        "coldnotify.channels_state",
        "coldnotify.tenants",
        "coldnotify.usage",
        "coldnotify.verdicts",
        "coldnotify.usage_history",
        "coldnotify.usage_state",
    }
    assert set(topics.ALL) == names


def test_what_one_matcher_owns_is_co_partitioned() -> None:
    inputs = (topics.OBJECTS, topics.REQUESTS, topics.REGISTRATIONS, topics.SESSIONS)
    assert (*inputs, *topics.CHANNELS, topics.CHANNELS_STATE) == topics.CO_PARTITIONED
