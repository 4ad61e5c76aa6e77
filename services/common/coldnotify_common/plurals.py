"""Puts a number and a noun together, in singular or plural."""


def number_of(number: int, one: str, many: str | None = None) -> str:
    """Returns "1 message" or "2 messages" for `one` = "message"; `many` is a plural that does not end in s alone."""
    return f"{number} {one if number == 1 else many or one + 's'}"
