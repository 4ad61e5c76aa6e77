"""Quotas of Kafka's own: how many bytes a second a principal may write. Set by Kafka's tool, `kafka-configs`.

confluent-kafka has no call for them, because librdkafka has none. The tool comes from the embedded Kafka's jars.
"""

import subprocess
from collections.abc import Sequence

from coldnotify_kafka.broker import console_tool
from coldnotify_kafka.errors import QuotaNotAppliedError

_QUOTA = "producer_byte_rate"
_NOT_THERE = "Invalid config(s)"
"""The tool's message if there is no quota to remove."""
_SHOWN_CHARS_MAX = 500


def set_producer_quota(
    bootstrap: str, principal: str, bytes_per_s: int, *, command_config: str = "", timeout_s: float = 60
) -> None:
    """From now on each Kafka node slows this principal's writes down to so many bytes a second.

    `principal`: the user's name, without "User:". `command_config`: file with properties of a Java client. Raises
    QuotaNotAppliedError, and BrokerError if the tool cannot be run.
    """
    _alter(bootstrap, principal, ["--add-config", f"{_QUOTA}={bytes_per_s}"], command_config, timeout_s)


def remove_producer_quota(bootstrap: str, principal: str, *, command_config: str = "", timeout_s: float = 60) -> None:
    """Its writes have no quota any more; nothing, where they had none. Raises as set_producer_quota."""
    try:
        _alter(bootstrap, principal, ["--delete-config", _QUOTA], command_config, timeout_s)
    except QuotaNotAppliedError as error:
        if _NOT_THERE not in str(error):
            raise


def _alter(bootstrap: str, principal: str, change: Sequence[str], command_config: str, timeout_s: float) -> None:
    arguments = ["--bootstrap-server", bootstrap, "--alter", "--entity-type", "users", "--entity-name", principal]
    if command_config:
        arguments += ["--command-config", command_config]
    command = console_tool("configs", [*arguments, *change])
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired:
        raise QuotaNotAppliedError(f"Kafka's tool did not set the quota of {principal} in {timeout_s:g} s") from None
    if done.returncode:
        lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
        # Java's trace, and its note of options that it found, help nobody here.
        words = "; ".join(line for line in lines if not line.startswith(("\t", "NOTE:")))[:_SHOWN_CHARS_MAX]
        raise QuotaNotAppliedError(f"the quota of {principal}: {words}")
