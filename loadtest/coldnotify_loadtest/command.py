"""The command behind `make bench`: which experiments, how long, where to. Exit codes: 0 well, 1 not, 2 wrong use."""

import argparse
import json
import sys
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from coldnotify_loadtest import report
from coldnotify_loadtest.bench import BenchRun, Experiment, Progress, chosen
from coldnotify_loadtest.experiments import EXPERIMENTS
from coldnotify_loadtest.provenance import provenance

RESULTS = Path(__file__).parents[1] / "results"
"""Default directory of results: a JSON file for each experiment, plots, the report. Quick ones below it."""
_LOAD_WARNED = 0.5
"""Above this load average the machine is not quiet."""


def parameters_of(experiment: Experiment, quick: bool, changes: Sequence[str]) -> dict[str, Any]:
    """Its own, with NAME=VALUE where it has a parameter of that name. Raises ValueError."""
    parameters = {**experiment.parameters, **(experiment.quick if quick else {})}
    for change in changes:
        name, equals, value = change.partition("=")
        if not equals or not any(name in one.parameters for one in EXPERIMENTS.values()):
            raise ValueError(f"--set {change}: no NAME=VALUE of a parameter")
        if name in parameters:
            parameters[name] = _like(parameters[name], value, name)
    return parameters


def _like(default: Any, value: str, name: str) -> Any:
    try:
        if isinstance(default, tuple):
            return tuple(type(default[0])(one) for one in value.split(","))
        return type(default)(value)
    except ValueError:
        raise ValueError(f"--set {name}: {value!r} is not like {default!r}") from None


def duration(seconds: float) -> str:
    """For people."""
    return (
        f"{seconds:.0f} s"
        if seconds < 100
        else f"{seconds / 60:.0f} min"
        if seconds < 6000
        else f"{seconds / 3600:.1f} h"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the named experiments; returns the exit code."""
    parser = argparse.ArgumentParser(prog="make bench", description="Load tests, one after the other.")
    parser.add_argument("experiments", nargs="*", help=f"of {', '.join(EXPERIMENTS)} (all)")
    parser.add_argument("--quick", action="store_true", help="tiny loads: whether everything works, no figures")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="another parameter")
    parser.add_argument("--results", type=Path, help="directory (loadtest/results, or quick in it)")
    parser.add_argument("--list", action="store_true", help="only say what would be run, and how long")
    parser.add_argument("--report", action="store_true", help="only write the report of the results that are there")
    parser.add_argument("--docs", type=Path, help="put the tables, as CSV, and the plots into this directory")
    chosen_arguments = parser.parse_args(arguments)
    try:
        if unknown := [name for name in chosen_arguments.experiments if name not in EXPERIMENTS]:
            raise ValueError(f"{unknown[0]!r} is none of {', '.join(EXPERIMENTS)}")
        wanted = chosen_arguments.experiments or list(EXPERIMENTS)
        plans = [
            (EXPERIMENTS[name], parameters_of(EXPERIMENTS[name], chosen_arguments.quick, chosen_arguments.set))
            for name in wanted
        ]
        for experiment, parameters in plans:
            if "servers" in parameters:
                chosen(parameters)
            if "repeats" in parameters and parameters["repeats"] < 1:
                raise ValueError(f"--set repeats: {experiment.name} needs at least 1")
    except ValueError as error:
        parser.error(str(error))
    results = chosen_arguments.results or (RESULTS / "quick" if chosen_arguments.quick else RESULTS)
    clean = True
    if not chosen_arguments.report:
        _announce(plans)
        if chosen_arguments.list:
            return 0
        for experiment, parameters in plans:
            clean = _run(experiment, parameters, results, quick=chosen_arguments.quick) and clean
    written = report.write(results, chosen_arguments.docs)
    print(f"Report: {written}")
    return 0 if clean else 1


def _announce(plans: Sequence[tuple[Experiment, dict[str, Any]]]) -> None:
    for experiment, parameters in plans:
        print(f"{experiment.name:<11} {duration(experiment.seconds(parameters)):>8}  {experiment.title}")
    total = sum(experiment.seconds(parameters) for experiment, parameters in plans)
    print(f"This takes about {duration(total)}.", flush=True)
    machine = provenance()["machine"]
    if machine["load_before"] > _LOAD_WARNED:
        print(f"The machine is not quiet (load {machine['load_before']}): figures will be worse.", file=sys.stderr)
    missing = {
        program
        for _, parameters in plans
        if "servers" in parameters
        for kind in chosen(parameters)
        for program in kind.missing()
    }
    if missing:
        print(f"Not installed, left out: {', '.join(sorted(missing))} (loadtest/peers/install)", file=sys.stderr)


def _run(experiment: Experiment, parameters: dict[str, Any], results: Path, *, quick: bool) -> bool:
    """Returns true if it succeeded; what was measured before a failure is kept."""
    origin = provenance()
    progress = Progress(experiment.steps(parameters), experiment.name)
    error = ""
    with tempfile.TemporaryDirectory(prefix="coldnotify-bench-") as directory:
        bench = BenchRun(parameters, Path(directory), progress)
        try:
            experiment.run(bench)
        except KeyboardInterrupt:
            raise
        except Exception as trouble:
            traceback.print_exc()
            error = f"{type(trouble).__name__}: {trouble}"
        finally:
            progress.end()
    results.mkdir(parents=True, exist_ok=True)
    path = results / f"{experiment.name}.json"
    content = {
        "experiment": experiment.name,
        "title": experiment.title,
        "quick": quick,
        "error": error,
        "parameters": parameters,
        **origin,
        "rows": bench.rows,
    }
    path.write_text(json.dumps(content, indent=1) + "\n")
    print(
        f"{experiment.name}: {len(bench.rows)} rows in {path}" + (f"; ended early: {error}" if error else ""),
        flush=True,
    )
    return not error
