"""How many leases the simulator plays a CPU second: the production cycle on 30 days of a real log.

Best-effort jobs only, on 144 and on 512 nodes, with EASY and with conservative backfilling, once with a recount of
every plan and once of a sample; and with advance reservations of 15 % of the nodes that preempt. Beside it AccaSim on
the same jobs and nodes, installed for the purpose into an environment that is thrown away. With --log a whole log of
SDSC Blue. Each measurement is a process of its own: CPU time with reading and building in it, peak memory. What the
simulation imports is imported before its clock starts, as AccaSim's imports are before AccaSim's. The build of Python
counts: one with profile-guided optimisation, as Debian's, played 1.19 times as many as one without on the machine where
both were tried (median of ten pairs, 144 nodes, EASY, full). Compiling `one_preempt/core` with mypyc, tried by hand
when its values were dataclasses, made native and no longer frozen, gained nothing: 0.5 to 1.3 times as many in the
pairs run. Nor did the core, the simulated cloud, the simulator and the store compiled by Cython 3.3 as they are: 0.8 to
0.95 times. Nor does mypyc 2.4 now that the values are Structs: with 178 modules compiled that define none and are not
of the simulation, decisions are the same and take 0.95 times the instructions, but no more leases are played: 0.97
times as many, the median of twelve pairs (144 nodes, EASY, sampled). Modules that define Structs it cannot compile as
they are: it drops `frozen=True` and the other keywords of a class. And 40 % of all instructions are the interpreter's
own loop: if it cost nothing at all, 1.7 times as many would be played.

    python benchmarks/simulator.py [--jobs 1000] [--reserved-jobs 1000] [--reservations FILE.lwf]
                                   [--log SDSC-BLUE.swf.gz] [--repeat 3] [--no-accasim]
"""

from __future__ import annotations

import argparse
import importlib
import json
import multiprocessing
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import msgspec
from msgspec.structs import replace

from one_preempt.composition import simulated_cycle
from one_preempt.configuration.settings import Settings, TimeSettings
from one_preempt.core.model.modes_and_limits import Verification
from one_preempt.errors import OnePreemptError
from one_preempt.simulation.scenario.overheads import planned_overhead, simulated_durations
from one_preempt.simulation.simulator.scheduler import Report
from one_preempt.simulation.simulator.simulator import Simulator
from one_preempt.simulation.simulator.site import Site, build_cloud, simulation_settings
from one_preempt.simulation.workload.inject import ReservationRecipe, merged, with_reservations
from one_preempt.simulation.workload.lwf_text import read_lwf_text
from one_preempt.simulation.workload.swf import read_swf, write_swf
from one_preempt.simulation.workload.swf_workload import SwfReading, swf_from_workload, workload_from_swf
from one_preempt.simulation.workload.workload import MachineSet, Workload

SLICE = Path(__file__).parents[1] / "tests" / "traces" / "haizea-blue-30days.swf.gz"
PROCESSORS_PER_NODE_OF_BLUE = 8
SHARE = 0.15
LEAST_PER_S = {Verification.FULL: 1000.0, Verification.SAMPLED: 2500.0}
LEAST_PER_S_PREEMPTING = 300.0
MOST_S, MOST_MIB = 600.0, 1024.0
ACCASIM_DISPATCHERS = {"EASY": "EASYBackfilling", "FIFO": "FirstInFirstOut"}
ACCASIM_PATIENCE_S = 900

# AccaSim 1.1 imports names that Python 3.10 has moved; nothing else of it is touched.
PLAY_ACCASIM = """
import collections, collections.abc, json, sys, time
collections.Mapping = collections.abc.Mapping
from accasim.base import allocator_class, scheduler_class
from accasim.base.simulator_class import Simulator
log, site, results, dispatcher = sys.argv[1:]
began_s = time.process_time()
silent = dict.fromkeys(("scheduling_output", "statistics_output", "show_statistics"), False)
chosen = getattr(scheduler_class, dispatcher)(allocator_class.FirstFit())
simulator = Simulator(log, site, chosen, RESULTS_FOLDER_PATH=results, LOG_LEVEL="ERROR", **silent)
simulator.start_simulation()
print(json.dumps([simulator.dispatched_jobs, time.process_time() - began_s]))
"""


@dataclass(frozen=True, slots=True)
class Case:
    """One measurement. `jobs` None: all; `reserved`: with reservations, from a file or drawn."""

    nodes: int
    backfilling: str
    verification: Verification
    jobs: int | None
    reserved: bool = False
    reservations: Path | None = None
    log: Path | None = None

    @property
    def name(self) -> str:
        what = "whole log, " if self.log is not None else f"{SHARE:.0%} reserved, " if self.reserved else ""
        return f"{what}{self.nodes} nodes, {self.backfilling}, {self.verification}"


@dataclass(frozen=True, slots=True)
class Measured:
    """What a simulation took and did."""

    leases: int
    cpu_s: float
    wall_s: float
    peak_mib: float
    suspensions: int
    refused_plans: int

    @property
    def per_s(self) -> float:
        return self.leases / self.cpu_s


def workload_of(case: Case) -> Workload:
    if case.log is not None:
        return workload_from_swf(read_swf(case.log), SwfReading(processors_per_vm=PROCESSORS_PER_NODE_OF_BLUE))
    log = workload_from_swf(read_swf(SLICE))
    jobs = log.after("the first jobs", log.requests[: case.jobs])
    if not case.reserved:
        return jobs
    # Reservations are of this site, jobs come from others: they may preempt nobody.
    jobs = jobs.mapped("jobs from elsewhere", lambda request: replace(request, external=True))
    if case.reservations is not None:
        given = read_lwf_text(case.reservations)
        meanwhile = (request for request in given.requests if request.ready_at_s <= jobs.span_s)
        return merged(jobs, given.after("while jobs arrive", meanwhile))
    recipe = ReservationRecipe(
        SHARE, case.nodes, jobs.span_s, mean_duration_s=7200, fewest_vms=12, most_vms=60, tolerance=0.1
    )
    return with_reservations(jobs, recipe, seed=1)


def measure(case: Case) -> Measured:
    """Play it in this process, which has done nothing else but import."""
    import_what_is_played(case)
    began_s, cpu_began_s = time.perf_counter(), time.process_time()
    workload = workload_of(case)
    given = Settings(time=TimeSettings(backfilling=case.backfilling))
    durations = simulated_durations(given.overhead, {})
    settings = msgspec.structs.replace(simulation_settings(given), overhead=planned_overhead(given.overhead, durations))
    cloud = build_cloud(Site((MachineSet(case.nodes, cpu_centi=100, memory_mib=1024),), durations))
    refused = 0

    def on_cycle(_: int, report: Report) -> None:
        nonlocal refused
        refused += report.is_refused

    cycle = simulated_cycle(settings, cloud, verification=case.verification, tells_owners=False)
    records = Simulator(cloud, cycle, workload, on_cycle=on_cycle).run().records
    return Measured(
        leases=len(records),
        cpu_s=time.process_time() - cpu_began_s,
        wall_s=time.perf_counter() - began_s,
        peak_mib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        suspensions=sum(record.suspensions for record in records),
        refused_plans=refused,
    )


def import_what_is_played(case: Case) -> None:
    """A cycle, which imports what it is made of, over a cloud that nothing is played on."""
    given = Settings(time=TimeSettings(backfilling=case.backfilling))
    durations = simulated_durations(given.overhead, {})
    cloud = build_cloud(Site((MachineSet(1, cpu_centi=100, memory_mib=1024),), durations))
    simulated_cycle(simulation_settings(given), cloud, verification=case.verification, tells_owners=False)
    if case.reserved:
        # What reservations are drawn with.
        importlib.import_module("numpy.random")


def fastest(case: Case, times: int) -> Measured:
    """The fastest of so many runs, each in a new process: whoever else uses the machine only ever makes it slower."""
    found = []
    for _ in range(times):
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as alone:
            found.append(alone.submit(measure, case).result())
    return min(found, key=lambda measured: measured.cpu_s)


def cases(options: argparse.Namespace) -> Iterator[Case]:
    for nodes in (144, 512):
        for backfilling in ("easy", "conservative"):
            for verification in (Verification.FULL, Verification.SAMPLED):
                yield Case(nodes, backfilling, verification, options.jobs)
    # On 512 nodes there is so much room that reservations need not preempt.
    for backfilling in ("easy", "conservative"):
        yield Case(144, backfilling, Verification.FULL, options.reserved_jobs, True, options.reservations)
    if options.log is not None:
        yield Case(144, "easy", Verification.FULL, None, log=options.log)


def failures(case: Case, measured: Measured) -> Iterator[str]:
    """The limits that are missed."""
    if case.log is not None:
        if measured.wall_s > MOST_S or measured.peak_mib > MOST_MIB:
            yield f"more than {MOST_S:.0f} s or {MOST_MIB:.0f} MiB"
    elif measured.per_s < least_per_s(case):
        yield f"fewer than {least_per_s(case):.0f} leases a CPU second"
    if measured.refused_plans:
        yield f"{measured.refused_plans} plans were refused"
    if case.reserved and not measured.suspensions:
        yield "the reservations preempted nobody"


def least_per_s(case: Case) -> float:
    return LEAST_PER_S_PREEMPTING if case.reserved else LEAST_PER_S[case.verification]


def line(case: Case, measured: Measured, missed: list[str]) -> str:
    limit = f"{MOST_S:.0f} s" if case.log is not None else f"{least_per_s(case):.0f}/s"
    return (
        f"{case.name:<46}{measured.leases:>8}{measured.cpu_s:>9.1f}{measured.per_s:>10.0f}{limit:>8}"
        f"{measured.wall_s:>9.1f}{measured.peak_mib:>7.0f}{measured.suspensions:>9}  {'FAIL' if missed else 'PASS'}"
    )


# -- AccaSim -----------------------------------------------------------------------------------------------------


def install_accasim(folder: Path) -> Path | str:
    """The Python of a new environment with AccaSim in it, or why there is none."""
    try:
        subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True, capture_output=True, text=True)
        python = folder / "venv" / "bin" / "python"
        pip: list[str | Path] = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "accasim"]
        subprocess.run(pip, check=True, capture_output=True, text=True, timeout=ACCASIM_PATIENCE_S)
    except (subprocess.SubprocessError, OSError) as error:
        return f"AccaSim cannot be installed: {_last_line(error)}"
    return python


def play_accasim(python: Path, folder: Path, nodes: int, jobs: int | None, dispatcher: str) -> tuple[int, float] | str:
    """Jobs and CPU seconds, or why it does not play."""
    log, site = folder / "log.swf", folder / "site.json"
    write_swf(swf_from_workload(workload_of(Case(nodes, "easy", Verification.NONE, jobs))), log)
    machines = {"groups": {"node": {"core": 1}}, "resources": {"node": nodes}}
    site.write_text(json.dumps(machines | {"equivalence": {"processor": {"core": 1}}, "start_time": 1}))
    command: list[str | Path] = [python, "-c", PLAY_ACCASIM, log, site, folder / "results", dispatcher]
    try:
        ran = subprocess.run(command, check=True, capture_output=True, text=True, timeout=ACCASIM_PATIENCE_S)
        played, cpu_s = json.loads(ran.stdout.splitlines()[-1])
    except (subprocess.SubprocessError, OSError, ValueError, IndexError) as error:
        return f"AccaSim does not run: {_last_line(error)}"
    return int(played), float(cpu_s)


def _last_line(error: Exception) -> str:
    told = (getattr(error, "stderr", None) or str(error)).strip().splitlines()
    return told[-1] if told else type(error).__name__


def compare_with_accasim(ours: dict[tuple[int, str], Measured], jobs: int | None, repeat: int) -> None:
    """Print the ratios; where AccaSim is not to be had, say so and go on."""
    print("\nAccaSim, FirstFit                       jobs    CPU s    jobs/s   ours, easy, full, to it")
    with tempfile.TemporaryDirectory() as name:
        python = install_accasim(Path(name))
        if isinstance(python, str):
            print(f"no ratio: {python}")
            return
        for nodes in (144, 512):
            for told, dispatcher in ACCASIM_DISPATCHERS.items():
                played = [play_accasim(python, Path(name), nodes, jobs, dispatcher) for _ in range(repeat)]
                failed = [one for one in played if isinstance(one, str)]
                if failed:
                    print(f"no ratio: {failed[0]}")
                    return
                dispatched, cpu_s = min((one for one in played if not isinstance(one, str)), key=lambda one: one[1])
                per_s = dispatched / cpu_s
                ratio = ours[nodes, "easy"].per_s / per_s
                print(f"{nodes} nodes, {told:<26}{dispatched:>9}{cpu_s:>9.2f}{per_s:>10.0f}{ratio:>9.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1000, help="so many jobs of the slice; 0: all 5,108")
    parser.add_argument("--reserved-jobs", type=int, default=1000, help="as many with reservations; 0: all")
    parser.add_argument("--reservations", type=Path, help="Haizea's plain-text reservations instead of drawn ones")
    parser.add_argument("--log", type=Path, help="play a whole log of SDSC Blue too")
    parser.add_argument("--repeat", type=int, default=3, help="the fastest of so many runs counts (the log: one run)")
    parser.add_argument("--no-accasim", action="store_true", help="do not install AccaSim, print no ratio")
    options = parser.parse_args()
    if options.repeat < 1:
        parser.error(f"--repeat {options.repeat}: at least 1 run is needed")
    for path in (options.reservations, options.log):
        if path is not None and not path.is_file():
            # Said before minutes are spent on the rest.
            parser.error(f"{path}: there is no such file")
    options.jobs, options.reserved_jobs = options.jobs or None, options.reserved_jobs or None

    missed: list[str] = []
    recounted: dict[tuple[int, str], Measured] = {}
    print(f"Python {platform.python_version()}, {platform.python_compiler()}: {sys.executable}")
    print(f"{'':<46}  leases    CPU s  leases/s   limit   wall s    MiB  suspens.")
    for case in cases(options):
        measured = fastest(case, 1 if case.log is not None else options.repeat)
        failed = list(failures(case, measured))
        missed += [f"{case.name}: {what}" for what in failed]
        if case.verification is Verification.FULL and not case.reserved and case.log is None:
            recounted[case.nodes, case.backfilling] = measured
        print(line(case, measured, failed), flush=True)
    if not options.no_accasim:
        compare_with_accasim(recounted, options.jobs, options.repeat)
    if missed:
        raise SystemExit("\n".join(missed))


if __name__ == "__main__":
    try:
        main()
    except OnePreemptError as error:
        raise SystemExit(str(error)) from None
