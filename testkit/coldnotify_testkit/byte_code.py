"""`keeping_byte_code` is an environment in which Python keeps what it compiles, whatever ours says of it.

An installed ColdNotify has its byte code. From a checkout whose user has Python keep none, each start of a matcher
compiles a hundred modules, 0.2 to 0.3 s, and each worker of the tests 280.
"""

from collections.abc import Mapping


def keeping_byte_code(ours: Mapping[str, str]) -> dict[str, str]:
    """For processes that are measured, or that start many: `ours` without PYTHONDONTWRITEBYTECODE."""
    return {name: value for name, value in ours.items() if name != "PYTHONDONTWRITEBYTECODE"}
