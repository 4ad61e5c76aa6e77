import inspect

from coldnotify_kafka import errors


def test_the_docstring_shows_the_whole_tree() -> None:
    drawn = errors.__doc__ or ""
    for name, kind in inspect.getmembers(errors, inspect.isclass):
        assert issubclass(kind, errors.ColdNotifyKafkaError)
        assert name in drawn
