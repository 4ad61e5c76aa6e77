"""Tests share one Kafka in each worker. This lists those that have one of their own, with the reason that they give.

That a test which starts one says so is a matter of the plugin `coldnotify_testkit.needs`.
"""

import ast
import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
REASONS = {
    "is about the embedded Kafka itself",
    "is about the Kafka that `coldnotify up` starts",
    "configures logins and rights in Kafka",
    "fills the disk that Kafka writes to",
    "kills Kafka",
    "kills Kafka beside the other parts",
    "kills Kafka with all other parts",
    "looks at the ports on which Kafka listens",
    "makes faults of Kafka, which the alerts are for",
    "release 0.1.0 can only start a Kafka of its own",
    "serves two numbers of partitions at once",
    "sets a quota for everybody",
    "stops and kills nodes of three",
    "stops Kafka",
    "stops nodes of three",
    "suspends Kafka",
    "writes batches that end the log cleaner of Kafka",
}
"""Each is a thing that would harm, or see, the stacks of other tests in the same Kafka."""


def own_brokers() -> Iterator[tuple[str, str]]:
    """(file and line, reason) of each mark; the reason is "" where it is not a text."""
    listed = subprocess.run(["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in listed.splitlines():
        text = (ROOT / name).read_text(encoding="utf-8")
        if "own_broker" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Attribute) and ast.unparse(node).endswith("mark.own_broker"):
                yield f"{name}:{node.lineno}", ""
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("mark.own_broker") and node.args:
                yield f"{name}:{node.lineno}", str(ast.literal_eval(node.args[0]))


def test_each_kafka_for_some_tests_alone_has_one_of_these_reasons() -> None:
    given: dict[str, str] = {}
    for place, reason in own_brokers():
        given[place] = given.get(place, "") or reason
    for place, reason in sorted(given.items()):
        print(f"{place}: {reason}")
    assert {place: reason for place, reason in given.items() if reason not in REASONS} == {}
    assert set(given.values()) == REASONS, "every reason is given somewhere"
