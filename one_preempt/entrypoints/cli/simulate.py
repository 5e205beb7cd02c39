"""`simulate`: a trace or a scenario played by the production scheduler, one policy or several side by side."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

import click

from one_preempt.core.model.modes_and_limits import Verification
from one_preempt.entrypoints.cli.options import config_option, json_option, settings_or_shipped, write_json
from one_preempt.entrypoints.cli.progress import progress
from one_preempt.entrypoints.cli.simulated_results import document, record_lines, report, rows_of, show, write_pictures
from one_preempt.entrypoints.cli.simulated_runs import Asked, Run, Study, play_all, study
from one_preempt.errors import OnePreemptError
from one_preempt.simulation.probes.writing import csv_text
from one_preempt.simulation.scenario.trace import TraceReading

_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_STEPS_PER_RUN = 1000


def span_s(_context: click.Context, _parameter: click.Parameter, text: str | None) -> int | None:
    """A time as 600, 600s, 10m, 2h or 30d in seconds."""
    if text is None:
        return None
    found = re.fullmatch(r"([0-9]{1,9})([smhd]?)", text.strip())
    if found is None or not int(found[1]):
        raise click.BadParameter(f"{text!r} is not a time: write 600, 10m, 2h or 30d")
    return int(found[1]) * _SECONDS[found[2]]


@click.command("simulate")
@click.argument("source", type=click.Path(path_type=Path))
@config_option
@click.option("--nodes", type=click.IntRange(1, 1_000_000), help="Number of nodes, instead of those the trace names.")
@click.option("--policy", "policies", multiple=True, metavar="NAME", help="Preemption policy; repeat it to compare.")
@click.option("--backfilling", multiple=True, metavar="NAME", help="Backfilling policy; repeat it to compare.")
@click.option(
    "--energy-policy", "energy_policies", multiple=True, metavar="NAME",
    help="Energy policy for the hosts in power.hosts; repeat it to compare.",
)  # fmt: skip
@click.option("--queue", "queues", multiple=True, metavar="NAME", help="Order of the queue; repeat it to compare.")
@click.option(
    "--suspension", type=click.Choice(["none", "serial-only", "all"]), help="Who may be suspended for reservations."
)
@click.option("--seed", type=click.IntRange(0, 2**31), help="Use this seed instead of those of the scenario.")
@click.option(
    "--until", "until_s", callback=span_s, metavar="TIME", help="End this long after the start: 600, 10m, 2h, 30d."
)
@click.option(
    "--processors-per-vm",
    type=click.IntRange(1, 1_000_000),
    default=1,
    help="SWF: how many processors a VM stands for.",
)
@click.option(
    "--annotations", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
    help="Haizea's annotations (LWFA) for the leases of the trace.",
)  # fmt: skip
@click.option(
    "--cut-overruns", is_flag=True, help="End jobs after the time they asked for, even if they ran longer in the log."
)
@click.option("--skip-bad-lines", is_flag=True, help="Skip and count lines, or records, that do not have the format.")
@click.option(
    "--verify", "verification", type=click.Choice([each.value for each in Verification]), default="full",
    help="Check all plans a second time; those that preempt, and a sample of the others; or none.",
)  # fmt: skip
@json_option
@click.option("--csv", "csv_file", type=click.Path(path_type=Path, dir_okay=False), help="Write one row per run.")
@click.option("--records", type=click.Path(path_type=Path, dir_okay=False), help="Write one line of JSON per request.")
@click.option("--plots", type=click.Path(path_type=Path, file_okay=False), metavar="DIR", help="Write pictures (SVG).")
@click.option("--html", "html_file", type=click.Path(path_type=Path, dir_okay=False), help="Write a report.")
def simulate_command(
    source: Path,
    config_path: Path | None,
    as_json: bool,
    csv_file: Path | None,
    records: Path | None,
    plots: Path | None,
    html_file: Path | None,
    processors_per_vm: int,
    annotations: Path | None,
    cut_overruns: bool,
    skip_bad_lines: bool,
    verification: str,
    nodes: int | None,
    policies: tuple[str, ...],
    backfilling: tuple[str, ...],
    energy_policies: tuple[str, ...],
    queues: tuple[str, ...],
    suspension: str | None,
    seed: int | None,
    until_s: int | None,
) -> int:
    """Replay SOURCE, and show the results.

    It is a log (SWF), a lease workload (LWF), the accounting of an OpenNebula (oneacct -x) or a scenario (YAML). The
    production scheduler decides, on a virtual clock. The exit code is 1 if the independent check refused a plan.
    """
    asked = Asked(
        source=source,
        settings=settings_or_shipped(config_path),
        nodes=nodes,
        policies=policies,
        backfilling=backfilling,
        energy_policies=energy_policies,
        queues=queues,
        suspension=suspension,
        seed=seed,
        until_s=until_s,
        reading=TraceReading(processors_per_vm, cut_overruns, skip_bad_lines, annotations),
        verification=Verification(verification),
        keeps_stays=plots is not None or html_file is not None,
    )
    chosen = study(asked)
    written = [file for file in (csv_file, records, html_file) if file is not None]
    _require_folders(written)
    _require_others([*chosen.reads, *([config_path] if config_path is not None else [])], written)
    if plots is not None:
        _require_pictures(plots)
    runs = _played(chosen)
    # Files first: whoever reads what is printed may stop reading.
    if csv_file is not None:
        csv_file.write_text(csv_text(rows_of(runs)), encoding="utf-8")
    if records is not None:
        records.write_bytes(b"".join(record_lines(runs)))
    if plots is not None:
        write_pictures(chosen, runs, plots)
    if html_file is not None:
        html_file.write_text(report(chosen, runs), encoding="utf-8")
    if as_json:
        write_json(document(chosen, runs))
    else:
        show(chosen, runs)
    return int(any(run.played.seen.refused_plans for run in runs))


def _require_folders(files: Sequence[Path]) -> None:
    """Before hours are spent: is there where to write what comes of them?"""
    for file in files:
        if not os.access(file if file.exists() else file.parent, os.W_OK):
            raise OnePreemptError(f"{file} cannot be written: make the folder {file.parent}, or name one of yours")


def _require_others(read: Sequence[Path], written: Sequence[Path]) -> None:
    """What is written is written over nothing that was read, nor over what was written just before."""
    taken = {_file_of(path): "is read by this simulation" for path in read}
    for path in written:
        if path.exists() and not path.is_file():
            # A device or a pipe takes whatever comes.
            continue
        if (why := taken.get(_file_of(path))) is not None:
            raise OnePreemptError(f"{path} {why}, and would be written over: name another file")
        taken[_file_of(path)] = "is named for two answers"


def _file_of(path: Path) -> tuple[int, int] | Path:
    """The same for all names of a file, where there is one."""
    try:
        there = path.stat()
    except OSError:
        return path.resolve()
    return there.st_dev, there.st_ino


def _require_pictures(folder: Path) -> None:
    """The folder is there, and pictures can be written into it and over those that are there."""
    folder.mkdir(parents=True, exist_ok=True)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise OnePreemptError(f"no pictures can be written into {folder}: name a folder of yours")
    for picture in sorted(folder.glob("*.svg")):
        if not (picture.is_file() and os.access(picture, os.W_OK)):
            raise OnePreemptError(f"{picture} cannot be written over: name another folder, or remove it")


def _played(chosen: Study) -> list[Run]:
    with progress(
        f"{chosen.runs} simulations" if chosen.runs > 1 else "simulation", _STEPS_PER_RUN * chosen.runs
    ) as tell:
        return list(play_all(chosen, lambda runs: tell(int(_STEPS_PER_RUN * runs))))
