"""The second play, observation data on demand: OUs that have the requested data upload it, the others stay silent."""

import json
import urllib.request
from collections.abc import Iterable
from typing import Any

from coldnotify_demo import mqtt_unit
from coldnotify_demo.company import Collapsed
from coldnotify_demo.penguins import observations
from coldnotify_demo.stage import DemoStage

DOMAIN, GROUP = "penguin.observations", "palmer-archipelago"
BACKEND = "institute"
ISLANDS = {
    "biscoe": ["culmen-length", "body-mass", "flipper-length", "delta-15-n"],
    "dream": ["culmen-length", "body-mass", "flipper-length"],
    "torgersen": ["culmen-length", "flipper-length"],
}
"""OU -> the kinds that it measures. All have culmen-length."""
BUOY = "buoy"
"""It measures nothing and shows what is asked, by a program that only knows MQTT."""
BUOY_FILTERS = ["requests/+", "instructions"]
EVERYBODY_HAS = "culmen-length"
ASK_S_MAX = 30.0
INSTRUCTIONS = ["calibrate the scales", "count the nests", "send the diary"]


class ObservationPlay:
    """The acts, in order."""

    def __init__(self, stage: DemoStage) -> None:
        self._stage = stage
        self._backend_url = ""

    def play(self) -> None:
        """All acts; every promise is in the stage's list afterwards. Raises Collapsed."""
        self._begin()
        self._some_have_it()
        self._one_sleeps()
        self._a_survey()
        self._nobody_has_it()
        for name in [*ISLANDS, BUOY, BACKEND]:
            self._stage.company.stop(name)

    def _begin(self) -> None:
        stage = self._stage
        stage.act("Observation data on demand: penguins, measured on three islands")
        backend = stage.start(
            BACKEND,
            "observation_backend",
            f"--domain={DOMAIN}",
            f"--group={GROUP}",
            f"--coldnotify={stage.service.http}",
        )
        self._backend_url = stage.url(backend)
        for unit in ISLANDS:
            self._start_unit(unit)
        stage.require(
            "the OUs of the islands have registered",
            lambda: all(stage.company[unit].said("caught up") for unit in ISLANDS),
        )

    def _some_have_it(self) -> None:
        self._stage.act("The institute asks for body-mass, which torgersen does not measure")
        marks = self._marks()
        self._ask("body-mass")
        self._expect_uploads("the OUs that have what is asked for upload all of it", "body-mass", marks)
        self._start_buoy()
        self._stage.require("the buoy is told what is asked", lambda: self._told_buoy())

    def _one_sleeps(self) -> None:
        stage = self._stage
        stage.act("The institute asks for flipper-length while dream and the buoy sleep")
        stage.company.stop("dream")
        stage.company.stop(BUOY)
        marks = self._marks()
        self._ask("flipper-length")
        for text in INSTRUCTIONS:
            self._post("instruct", text)
        stage.note("dream and the buoy wake")
        self._start_unit("dream")
        self._start_buoy()
        self._expect_uploads("an OU that slept when it was asked uploads when it wakes", "flipper-length", marks)
        numbers = list(range(1, len(INSTRUCTIONS) + 1))
        stage.expect(
            "of a channel every message is told, in order, also to an OU that slept",
            lambda: all(self._instructed(unit) == numbers for unit in ISLANDS),
            lambda: "; ".join(f"{unit}: {self._instructed(unit)}" for unit in ISLANDS),
        )
        # It subscribes again when it wakes, so by MQTT's rule what is retained is told once more.
        stage.expect(
            "an MQTT device that slept is told every message once, in order, and the newest of each object",
            lambda: (
                [json.loads(payload)["number"] for topic, payload in self._told_buoy() if topic == "instructions"]
                == numbers
                and "requests/flipper-length" in self._topics_of_buoy()
            ),
            lambda: f"{mqtt_unit.program()} told {', '.join(self._topics_of_buoy())}",
        )

    def _a_survey(self) -> None:
        stage = self._stage
        stage.act("The institute opens a survey about body-mass; OUs find it by a query. biscoe sleeps")
        stage.company.stop("biscoe")
        self._post("survey/1/body-mass")
        stage.expect(
            "an OU uploads for a survey whose name it cannot know, by what it is about",
            lambda: [unit for _, unit, _ in self._received(["survey-1"])] == ["dream"],
            lambda: f"from {self._units('survey-1')}",
        )
        self._post("close/1")
        stage.expect(
            "an OU is told that a survey is no longer open",
            lambda: [event["removed"] for event in self._surveys("dream")][-1:] == [["surveys/1"]],
            lambda: ", ".join(f"+{event['added']} -{event['removed']}" for event in self._surveys("dream")),
        )
        stage.note("biscoe wakes")
        self._start_unit("biscoe")

    def _nobody_has_it(self) -> None:
        stage = self._stage
        stage.act(f"The institute asks for humidity, which nobody measures, then for {EVERYBODY_HAS}, which all do")
        marks = self._marks()
        self._ask("humidity")
        self._ask(EVERYBODY_HAS)
        self._expect_uploads("all OUs have it: all upload", EVERYBODY_HAS, marks)
        # All of one group is told in the order of its publishing: who has answered to the last request has nothing
        # of the earlier ones before it any more.
        stage.expect(
            "OUs that do not have what is asked for stay silent",
            lambda: (
                not self._received(["humidity"])
                and {unit for _, unit, _ in self._received(["body-mass"])} == {"biscoe", "dream"}
                and not stage.company["torgersen"].said("uploaded", kind="body-mass")
            ),
            lambda: (
                f"humidity from {self._units('humidity')}; body-mass from {self._units('body-mass')}; "
                f"{EVERYBODY_HAS}, asked last, from {self._units(EVERYBODY_HAS)}"
            ),
        )
        stage.expect(
            "an OU that slept while a survey was open is not asked for it, nor is one that has nothing for it",
            lambda: (
                {unit for _, unit, _ in self._received(["survey-1"])} == {"dream"}
                and not self._surveys("biscoe")
                and not self._surveys("torgersen")
            ),
            lambda: f"from {self._units('survey-1')} only",
        )
        counts = self._received(["body-mass", "flipper-length", EVERYBODY_HAS])
        stage.expect(
            "each request is answered once by each OU",
            lambda: len(counts) == len({(kind, unit) for kind, unit, _ in counts}),
            lambda: f"{len(counts)} uploads, {sum(count for _, _, count in counts)} observations in all",
        )

    # Doing

    def _start_unit(self, unit: str) -> None:
        self._stage.start(
            unit,
            "observation_unit",
            f"--domain={DOMAIN}",
            f"--group={GROUP}",
            f"--gateway={self._stage.service.gateway}",
            f"--directory={self._stage.directory / 'units' / unit}",
            unit.capitalize(),
            *ISLANDS[unit],
        )

    def _start_buoy(self) -> None:
        client_id = f"{DOMAIN}/{GROUP}/{BUOY}"
        self._stage.company.run(BUOY, mqtt_unit.command(self._stage.service.mqtt, client_id, BUOY_FILTERS))

    def _ask(self, kind: str) -> None:
        self._post(f"ask/{kind}")

    def _post(self, what: str, body: str = "") -> None:
        request = urllib.request.Request(f"{self._backend_url}/{what}", body.encode(), method="POST")
        try:
            with urllib.request.urlopen(request, timeout=ASK_S_MAX):
                pass
        except OSError as error:
            raise Collapsed(f"{BACKEND} could not do {what}: {error}") from error

    def _expect_uploads(self, words: str, kind: str, marks: dict[str, int]) -> None:
        owed = sorted(
            (kind, unit, len(observations(unit.capitalize(), kind))) for unit, kinds in ISLANDS.items() if kind in kinds
        )
        self._stage.expect(
            words,
            lambda: sorted(self._received([kind], marks[BACKEND])) == owed,
            lambda: (
                "; ".join(f"{count} from {unit}" for _, unit, count in self._received([kind], marks[BACKEND]))
                + f" (the data set has {sum(count for _, _, count in owed)})"
            ),
        )

    # Looking

    def _marks(self) -> dict[str, int]:
        self._stage.company.relay()
        return {name: len(self._stage.company[name].events) for name in (*ISLANDS, BACKEND)}

    def _received(self, kinds: Iterable[str], mark: int = 0) -> list[tuple[str, str, int]]:
        """(kind, OU, number of observations) of each upload."""
        uploads = self._stage.company[BACKEND].said("received", since=mark)
        return [(e["kind"], e["unit"], e["count"]) for e in uploads if e["kind"] in kinds]

    def _instructed(self, unit: str) -> list[int]:
        return [event["number"] for event in self._stage.company[unit].said("instructed")]

    def _told_buoy(self) -> list[tuple[str, str]]:
        """(topic, payload) of all that it was told, in order."""
        words = [event["words"].split(" ", 2) for event in self._stage.company[BUOY].events]
        return [(said[1], said[2]) for said in words if said[0] == "told"]

    def _topics_of_buoy(self) -> list[str]:
        return [topic for topic, _ in self._told_buoy()]

    def _surveys(self, unit: str) -> list[dict[str, Any]]:
        return self._stage.company[unit].said("surveys")

    def _units(self, kind: str) -> str:
        return ", ".join(sorted(unit for _, unit, _ in self._received([kind]))) or "nobody"
