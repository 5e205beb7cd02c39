"""`simulate`: a trace or a scenario played by the production scheduler, one policy or several side by side."""

from __future__ import annotations

from pathlib import Path

import click

from one_preempt.core.model.modes_and_limits import Verification
from one_preempt.entrypoints.cli.options import config_option, json_option, settings_or_shipped, write_json
from one_preempt.entrypoints.cli.progress import progress
from one_preempt.entrypoints.cli.simulated_files import SimulatedFiles, file_options
from one_preempt.entrypoints.cli.simulated_results import document, show
from one_preempt.entrypoints.cli.simulated_runs import Asked, Run, Study, play_all, study
from one_preempt.entrypoints.cli.trace_options import span_s, trace_options
from one_preempt.simulation.scenario.trace import TraceReading

_STEPS_PER_RUN = 1000


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
@trace_options
@click.option(
    "--verify", "verification", type=click.Choice([each.value for each in Verification]), default="full",
    help="Check all plans a second time; those that preempt, and a sample of the others; or none.",
)  # fmt: skip
@json_option
@file_options
def simulate_command(
    source: Path,
    config_path: Path | None,
    as_json: bool,
    files: SimulatedFiles,
    reading: TraceReading,
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
        reading=reading,
        verification=Verification(verification),
        keeps_stays=files.show_hosts,
    )
    chosen = study(asked)
    files.require_places([*chosen.reads, *([config_path] if config_path is not None else [])])
    runs = _played(chosen)
    # Files first: whoever reads what is printed may stop reading.
    files.write(chosen, runs)
    if as_json:
        write_json(document(chosen, runs))
    else:
        show(chosen, runs)
    return int(any(run.played.seen.refused_plans for run in runs))


def _played(chosen: Study) -> list[Run]:
    with progress(
        f"{chosen.runs} simulations" if chosen.runs > 1 else "simulation", _STEPS_PER_RUN * chosen.runs
    ) as tell:
        return list(play_all(chosen, lambda runs: tell(int(_STEPS_PER_RUN * runs))))
