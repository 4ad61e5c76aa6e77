"""The MQTT device of the demo: by mosquitto_sub or by paho-mqtt, it says the same and ends in order."""

import shutil
from pathlib import Path

import pytest
from coldnotify.http_publisher import HttpPublisher
from coldnotify_demo import mqtt_unit
from coldnotify_demo.company import Company
from coldnotify_testkit.stack import Stacks

LIMIT_S = 60


@pytest.mark.kafka
@pytest.mark.parametrize("program", [mqtt_unit.MOSQUITTO, "paho-mqtt"])
def test_it_says_what_it_is_told(stacks: Stacks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    if program != mqtt_unit.MOSQUITTO:
        monkeypatch.setattr(shutil, "which", lambda _: None)
    elif shutil.which(program) is None:
        pytest.skip(f"there is no {program} here (make tools)")
    with stacks.running(tmp_path) as up, HttpPublisher(up.http_url) as publisher:
        company = Company(tmp_path, lambda *_: None)
        publisher.publish("d", "g", "lamp", payload=1)
        buoy = company.run("buoy", mqtt_unit.command(str(up.report["mqtt"]), "d/g/buoy", ["lamp", "other"]))
        try:
            assert company.wait_until(lambda: [said["words"] for said in buoy.events] == ["told lamp 1"], LIMIT_S)
            company.stop("buoy")
        finally:
            company.close()
    assert mqtt_unit.program() == program
