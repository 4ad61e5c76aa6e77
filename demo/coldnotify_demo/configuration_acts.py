"""The first play, region-specific configuration: each OU is told its own, also after sleep, loss, and a change of
region.
"""

import shutil
from pathlib import Path

from coldnotify_demo.promises import Told, forwards_only, in_words, told
from coldnotify_demo.stage import DemoStage

DOMAIN = "animal.observer"
BACKEND = "back-end"
CAMERA, SAMPLING, HEATER = "camera-config", "sampling-config", "heater-config"
REGIONS = {"ou-1": "region-1", "ou-2": "region-1", "ou-3": "region-1", "ou-4": "region-2"}
OBJECTS = {"region-1": [CAMERA, HEATER, SAMPLING], "region-2": [CAMERA]}

_FILE_HEAD = "# {name} of {group}, revision {revision}\ninterval_minutes: {interval}\nwindows:\n"
_FILE_WINDOW = "  - {{from: '{hour:02}:00', to: '{hour:02}:30'}}\n"


class ConfigurationPlay:
    """The acts, in order."""

    def __init__(self, stage: DemoStage) -> None:
        self._stage = stage
        self._folder = stage.directory / "configurations"
        self._versions: dict[tuple[str, str], int] = {}
        """The newest version of each (region, object), which each OU is owed."""
        self._backend_url = ""
        self._new_card = 0
        """The number of ou-3's events when it lost its state."""

    def play(self) -> None:
        """All acts; every promise is in the stage's list afterwards. Raises Collapsed."""
        self.everybody_registers()
        self.one_change()
        self.asleep_during_three_changes()
        self.lost_state()
        self.the_other_region()
        self.removed()
        self.in_all()

    # The acts

    def everybody_registers(self) -> None:
        """An OU that registers gets the present versions."""
        stage = self._stage
        stage.act("Region-specific configuration: everybody registers")
        for group, names in OBJECTS.items():
            for name in names:
                self._write(group, name)
        backend = stage.start(BACKEND, "configuration_backend", str(self._folder), f"--kafka={stage.service.kafka}")
        self._backend_url = stage.url(backend)
        # Else a unit that is quicker is told first that an object was never published.
        for group, names in OBJECTS.items():
            for name in names:
                self._await_published(group, name)
        for unit, group in REGIONS.items():
            self._start_unit(unit, OBJECTS[group])
        stage.expect(
            "an OU that registers is told the newest version of each object, and can fetch it",
            lambda: all(self._owes_nothing(unit, OBJECTS[group]) for unit, group in REGIONS.items()),
            lambda: self._seen_by(*REGIONS),
        )

    def one_change(self) -> None:
        """A change reaches the region, once each."""
        stage = self._stage
        stage.act(f"{CAMERA} of region-1 changes")
        marks = self._marks()
        self._change("region-1", CAMERA)
        region = [unit for unit, group in REGIONS.items() if group == "region-1"]
        stage.expect(
            "a change is told to every OU of the region that is awake, which fetches exactly the new file",
            lambda: all(
                self._told(unit, marks[unit]) == [(CAMERA, 2)] and self._has_file(unit, CAMERA) for unit in region
            ),
            lambda: self._seen_by(*region, marks=marks),
        )

    def asleep_during_three_changes(self) -> None:
        """Only the newest is owed."""
        stage = self._stage
        stage.act("ou-2 is switched off during three changes")
        stage.company.stop("ou-2")
        mark = self._marks()["ou-2"]
        for _ in range(3):
            self._change("region-1", CAMERA)
            self._await_told("ou-1", CAMERA)
        stage.note("ou-2 wakes")
        self._start_unit("ou-2", OBJECTS["region-1"])
        stage.wait(lambda: self._caught_up("ou-2", mark))
        newest = self._versions["region-1", CAMERA]
        stage.expect(
            "an OU that slept through three changes is told one thing when it wakes, the newest version",
            lambda: self._told("ou-2", mark) == [(CAMERA, newest)] and self._has_file("ou-2", CAMERA),
            lambda: self._seen_by("ou-2", marks={"ou-2": mark}),
        )

    def lost_state(self) -> None:
        """Reg-sync: the service holds a registration that the wiped OU does not know of, and the digests tell."""
        stage, service = self._stage, self._stage.service
        stage.act("ou-3 loses power and its card; the new card's software has no heater any more")
        registered_before = service.registrations(DOMAIN, "region-1", "ou-3")
        syncs_before = service.reg_syncs()
        stage.company.kill("ou-3")
        shutil.rmtree(self._directory("ou-3"))
        mark = self._new_card = self._marks()["ou-3"]
        stage.note(f"the service still holds ou-3's registrations: {', '.join(sorted(registered_before))}")
        wanted = [CAMERA, SAMPLING]
        self._start_unit("ou-3", wanted)
        stage.wait(lambda: self._caught_up("ou-3", mark))
        owed = [(name, self._versions["region-1", name]) for name in wanted]
        stage.expect(
            "an OU that lost its state file is told everything that it wants again, the newest of each, once",
            lambda: sorted(self._told("ou-3", mark)) == owed and all(self._has_file("ou-3", name) for name in wanted),
            lambda: self._seen_by("ou-3", marks={"ou-3": mark}),
        )
        stage.expect(
            "its registrations are made whole by reg-sync: what the service holds is what the OU wants",
            lambda: (
                service.reg_syncs() > syncs_before
                and HEATER in registered_before
                and service.registrations(DOMAIN, "region-1", "ou-3") == set(wanted)
            ),
            lambda: (
                f"reg-syncs in the matcher's metrics {syncs_before} -> {service.reg_syncs()}; it held "
                f"{', '.join(sorted(registered_before))}; now it holds "
                f"{', '.join(sorted(service.registrations(DOMAIN, 'region-1', 'ou-3')))}"
            ),
        )

    def the_other_region(self) -> None:
        """Groups do not hear of each other."""
        stage = self._stage
        stage.act("ou-4 is in region-2")
        stage.note("ou-4 sleeps and wakes once, so that nothing can still be on its way to it")
        stage.company.stop("ou-4")
        mark = self._marks()["ou-4"]
        self._start_unit("ou-4", OBJECTS["region-2"])
        stage.wait(lambda: self._caught_up("ou-4", mark))
        stage.expect(
            "an OU of the other region hears nothing of region-1's changes",
            lambda: self._caught_up("ou-4", mark) and self._told("ou-4") == [(CAMERA, 1)],
            lambda: f"{self._seen_by('ou-4')} in all; region-1 is at {CAMERA} {self._versions['region-1', CAMERA]}",
        )
        marks = self._marks()
        self._change("region-2", CAMERA)
        stage.expect(
            "it is told of its own region's change",
            lambda: self._told("ou-4", marks["ou-4"]) == [(CAMERA, 2)] and self._has_file("ou-4", CAMERA),
            lambda: self._seen_by("ou-4", marks=marks),
        )

    def removed(self) -> None:
        """A removal is a version like any other; and an OU that has unregistered is not told of it."""
        stage = self._stage
        stage.act(f"{HEATER} of region-1 is removed")
        marks = self._marks()
        self._remove("region-1", HEATER)
        # The second change follows in the same order to all: who has been told of it will not be told of the first.
        self._change("region-1", SAMPLING)
        stage.expect(
            "a removal is told too, to those who are registered for the object",
            lambda: (
                self._told("ou-1", marks["ou-1"]) == self._told("ou-2", marks["ou-2"]) == [(HEATER, 2), (SAMPLING, 2)]
                and not self._copy("ou-1", HEATER).exists()
                and self._told("ou-3", marks["ou-3"]) == [(SAMPLING, 2)]
            ),
            lambda: self._seen_by("ou-1", "ou-2", "ou-3", marks=marks),
        )

    def in_all(self) -> None:
        """Checks the promises that hold from the beginning to the end."""
        # ou-3 was rightly told again what it had lost; from then on it must go forwards as the others do.
        self._stage.expect(
            "no OU is ever told a version twice, or an older one after a newer, unless it lost its state",
            lambda: all(forwards_only(items) for items in self._histories().values()),
            lambda: "; ".join(f"{unit} told {in_words(items)}" for unit, items in self._histories().items()),
        )
        self._stage.expect(
            "to the end, ou-4 has heard of nothing but its own region's versions",
            lambda: self._told("ou-4") == [(CAMERA, 1), (CAMERA, 2)],
            lambda: self._seen_by("ou-4"),
        )
        for unit in [*REGIONS, BACKEND]:
            self._stage.company.stop(unit)

    # Doing

    def _start_unit(self, unit: str, objects: list[str]) -> None:
        self._stage.start(
            unit,
            "configuration_unit",
            f"--domain={DOMAIN}",
            *("--group", REGIONS[unit]),
            f"--gateway={self._stage.service.gateway}",
            f"--backend={self._backend_url}",
            f"--directory={self._directory(unit)}",
            unit,
            *objects,
        )

    def _change(self, group: str, name: str) -> None:
        """Edits a file, and waits until the back-end has published it. Raises Collapsed."""
        self._stage.note(f"edits {group}/{name}.yaml")
        self._write(group, name)
        self._await_published(group, name)

    def _remove(self, group: str, name: str) -> None:
        """Likewise."""
        self._stage.note(f"removes {group}/{name}.yaml")
        self._file(group, name).unlink()
        self._versions[group, name] += 1
        self._await_published(group, name)

    def _write(self, group: str, name: str) -> None:
        revision = self._versions.get((group, name), 0) + 1
        path = self._file(group, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        head = _FILE_HEAD.format(name=name, group=group, revision=revision, interval=60 // revision)
        path.write_text(head + "".join(_FILE_WINDOW.format(hour=6 + 2 * i) for i in range(revision)))
        self._versions[group, name] = revision

    def _await_published(self, group: str, name: str) -> None:
        version = self._versions[group, name]
        backend = self._stage.company[BACKEND]
        self._stage.require(
            f"{BACKEND} has published {group}/{name} version {version}",
            lambda: backend.said("published", key=f"{group}/{name}", version=version),
        )

    def _await_told(self, unit: str, name: str) -> None:
        """Lets it be seen in passing; what must be is expected elsewhere."""
        newest = self._versions[REGIONS[unit], name]
        self._stage.wait(lambda: (name, newest) in self._told(unit))

    # Looking

    def _directory(self, unit: str) -> Path:
        return self._stage.directory / "units" / unit

    def _file(self, group: str, name: str) -> Path:
        return self._folder / group / f"{name}.yaml"

    def _copy(self, unit: str, name: str) -> Path:
        return self._directory(unit) / f"{name}.yaml"

    def _has_file(self, unit: str, name: str) -> bool:
        copy = self._copy(unit, name)
        return copy.exists() and copy.read_bytes() == self._file(REGIONS[unit], name).read_bytes()

    def _marks(self) -> dict[str, int]:
        """Returns the number of each OU's events so far."""
        self._stage.company.relay()
        return {unit: len(self._stage.company[unit].events) for unit in REGIONS}

    def _told(self, unit: str, mark: int = 0) -> list[Told]:
        return told(self._stage.company[unit].events[mark:])

    def _histories(self) -> dict[str, list[Told]]:
        """Returns everything each OU was told; ou-3 is two, before and after the loss of its state."""
        histories = {unit: self._told(unit) for unit in REGIONS}
        after = self._told("ou-3", self._new_card)
        before = histories.pop("ou-3")
        return {**histories, "ou-3": before[: len(before) - len(after)], "ou-3 with its new card": after}

    def _caught_up(self, unit: str, mark: int) -> bool:
        return bool(self._stage.company[unit].said("caught up", since=mark))

    def _owes_nothing(self, unit: str, names: list[str]) -> bool:
        owed = [(name, self._versions[REGIONS[unit], name]) for name in names]
        caught_up = self._caught_up(unit, 0)
        return caught_up and sorted(self._told(unit)) == owed and all(self._has_file(unit, name) for name in names)

    def _seen_by(self, *units: str, marks: dict[str, int] | None = None) -> str:
        return "; ".join(f"{unit} told {in_words(self._told(unit, (marks or {}).get(unit, 0)))}" for unit in units)
