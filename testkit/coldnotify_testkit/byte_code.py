"""`keeping_byte_code` returns an environment in which Python keeps its byte code, whatever our own environment demands.

An installed ColdNotify has its byte code. From a checkout whose user has Python keep none, each start of a matcher
compiles a hundred modules, which takes 0.2 to 0.3 s, and each worker of the tests compiles 280.
"""

from collections.abc import Mapping


def keeping_byte_code(ours: Mapping[str, str]) -> dict[str, str]:
    """For processes that are measured, or that start many: `ours` without PYTHONDONTWRITEBYTECODE."""
    return {name: value for name, value in ours.items() if name != "PYTHONDONTWRITEBYTECODE"}
