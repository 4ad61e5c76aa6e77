import subprocess
import zipfile
from pathlib import Path

import pytest
from coldnotify_kafka.broker import EmbeddedBroker
from coldnotify_kafka.broker.tools import CONSOLE_TOOLS, console_tool
from coldnotify_kafka.errors import BrokerSettingError
from confluent_kafka.admin import AdminClient, NewTopic


def test_an_unknown_tool_is_reported_with_the_known_ones() -> None:
    with pytest.raises(BrokerSettingError, match=r"kafka-tool: there is no 'kafka-topics'.*console-producer.*topics"):
        console_tool("kafka-topics", [])


@pytest.mark.kafka
def test_all_tools_are_in_the_jars() -> None:
    argv = console_tool("topics", [])
    classes = set()
    for jar in argv[argv.index("-cp") + 1].split(":"):
        with zipfile.ZipFile(Path(jar)) as archive:
            classes.update(archive.namelist())
    for main in CONSOLE_TOOLS.values():
        assert main.replace(".", "/") + ".class" in classes


@pytest.mark.kafka
def test_the_console_consumer_reads_the_console_producers_record(
    kafka: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JDK_JAVA_OPTIONS", raising=False)  # Java says that it has found it
    topic = "tools.hello"
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.create_topics([NewTopic(topic, 1)])[topic].result(30)
    produce = console_tool("console-producer", ["--bootstrap-server", kafka.bootstrap, "--topic", topic])
    done = subprocess.run(produce, input="hello\n", capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr == ""
    consume = console_tool(
        "console-consumer",
        ["--bootstrap-server", kafka.bootstrap, "--topic", topic, "--from-beginning", "--max-messages", "1"],
    )
    done = subprocess.run(consume, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "hello\n"
