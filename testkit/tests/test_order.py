"""Another order each time, the same for the same seed, those that take longest first."""

import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from coldnotify_testkit import order
from coldnotify_testkit.order import ordered

ROOT = Path(__file__).parents[2]

MODULES = {"slow": "stack", "shares": "up", "middle": "kafka", **{f"fast-{number}": "pure" for number in range(20)}}


def items() -> list[Any]:
    """Ten tests a module; the first one of it is marked, the others are pure."""
    return [
        SimpleNamespace(
            nodeid=f"{module}.py::test_{number}",
            fixturenames=[mark] if number == 0 else [],
            get_closest_marker=lambda name, mark=mark if number == 0 else "pure": name if name == mark else None,
        )
        for module, mark in MODULES.items()
        for number in range(10)
    ]


def names(found: list[Any]) -> list[str]:
    return [item.nodeid for item in found]


def test_the_same_seed_gives_the_same_order_whatever_the_order_before() -> None:
    shuffled = items()
    assert names(ordered(items(), 7)) == names(ordered(items(), 7))
    assert sorted(names(ordered(shuffled, 7))) == sorted(names(items()))
    random.Random(1).shuffle(shuffled)
    assert {one.partition("::")[0] for one in names(ordered(shuffled, 7))[:30]} == {"shares.py", "slow.py", "middle.py"}


def test_another_seed_gives_another_order_of_modules_and_in_them() -> None:
    one, other = names(ordered(items(), 1)), names(ordered(items(), 2))
    assert one != other
    assert [name.partition("::")[0] for name in one] != [name.partition("::")[0] for name in other]
    assert [name for name in one if name.startswith("slow")] != [name for name in other if name.startswith("slow")]


def test_modules_stay_together_and_those_that_take_longest_come_first() -> None:
    modules = [name.partition(".py")[0] for name in names(ordered(items(), 3))]
    runs = [module for number, module in enumerate(modules) if number == 0 or modules[number - 1] != module]
    assert len(runs) == len(set(runs))
    assert runs[:3] == ["shares", "slow", "middle"]


def test_long_modules_come_in_front_of_stacks_and_there_are_such_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [module for module in order.long_modules() if not (ROOT / module).exists()] == []
    assert list(order.long_modules().values()) == sorted(order.long_modules().values(), reverse=True)
    monkeypatch.setattr(order, "long_modules", lambda: {"fast-7.py": 200.0, "middle.py": 300.0})
    modules = list(dict.fromkeys(name.partition(".py")[0] for name in names(ordered(items(), 3))))
    assert modules[:4] == ["shares", "middle", "fast-7", "slow"]
