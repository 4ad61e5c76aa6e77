"""A pytest plugin that runs tests in another order each time, because no test may depend on those that ran before it.

The order follows from a seed, which is printed at the beginning and may be given by `--seed`. Modules come in a random
order, and within each of them its tests. First come tests that share a stack, one after another, so that it can end
soon. Then come those that take longest, so that the last worker is not left alone with them: the modules in
`long_modules.txt`, then whole stacks, then Kafka's.
"""

import random
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

LONG_MODULES = Path(__file__).with_name("long_modules.txt")
"""Seconds and module, a line each: `python -m coldnotify_testkit.costs FILE --long` writes it."""
_SEEDS = 1_000_000
_SHARED_STACK = "up"
"""The fixture of tests/integration/conftest.py."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """--seed."""
    parser.addoption(
        "--seed", type=int, default=None, help="the order of modules and tests; default: another each time"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Draws the seed, once: a worker of pytest-xdist gets it from the process that started it."""
    given = getattr(config, "workerinput", {}).get("seed", config.option.seed)
    config.option.seed = random.randrange(_SEEDS) if given is None else given


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Hands the seed to a worker, which must find the same order."""
    node.workerinput["seed"] = node.config.option.seed


def pytest_report_header(config: pytest.Config) -> str:
    """Prints how to run the same order again."""
    return f"order of tests: --seed={config.option.seed}"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """pytest itself then brings those together again that share a parameter of a fixture of a module."""
    items[:] = ordered(items, config.option.seed)


def ordered(items: list[pytest.Item], seed: int) -> list[pytest.Item]:
    """Orders tests by module. The same seed and items give the same order."""
    modules: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        modules[item.nodeid.partition("::")[0]].append(item)
    names = sorted(modules)
    draw = random.Random(seed)
    draw.shuffle(names)
    long = long_modules()
    # By minutes, so that those that take about as long change places.
    names.sort(key=lambda name: (_rank(name, modules[name], long), -(long.get(name, 0.0) // 60)))
    for name in names:
        draw.shuffle(modules[name])
    return [item for name in names for item in modules[name]]


def long_modules() -> dict[str, float]:
    """Returns how long each of the long modules took once, in s."""
    lines = (line.split("\t") for line in LONG_MODULES.read_text(encoding="utf-8").splitlines())
    return {module: float(seconds) for seconds, module in lines}


def _rank(name: str, items: list[pytest.Item], long: Mapping[str, float]) -> int:
    """Returns the rank of a module; lower ranks run earlier."""
    if any(_SHARED_STACK in getattr(item, "fixturenames", ()) for item in items):
        return 0
    if name in long:
        return 1
    for rank, marker in enumerate(("stack", "kafka"), 2):
        if any(item.get_closest_marker(marker) is not None for item in items):
            return rank
    return 4
