"""`simulate`: traces and scenarios from the command line."""

from __future__ import annotations

import csv
import json
import os
import re
from math import ceil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from msgspec.structs import replace

from one_preempt.entrypoints.cli import simulate
from one_preempt.entrypoints.cli.command_line import cli
from one_preempt.simulation.workload.lwf_writing import write_lwf
from one_preempt.simulation.workload.workload import MachineSet, StartKind, Workload
from tests.simulation.simulator.small_stories import local, request

LINE = "{number} {submitted} -1 {runs} {processors} -1 -1 {processors} {asked} -1 1 1 1 -1 1 -1 -1 -1\n"


SCENARIO = "site: {hosts: [{count: 4, cpu: 1, memory_mib: 1024}]}\nworkload: {trace: {file: log.swf}}\n"


def swf(folder: Path, extra: str = "", header: str = "; MaxNodes: 4\n; MaxProcs: 4\n") -> Path:
    jobs = [(1, 0, 100, 3, 100), (2, 10, 100, 4, 100), (3, 20, 50, 1, 60)]
    lines = [
        LINE.format(number=number, submitted=submitted, runs=runs, processors=processors, asked=asked)
        for number, submitted, runs, processors, asked in jobs
    ]
    path = folder / "log.swf"
    path.write_text(header + "".join(lines) + extra)
    return path


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["simulate", *map(str, arguments)])


def answer(*arguments: object) -> dict[str, Any]:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    document: dict[str, Any] = json.loads(result.output)
    return document


def test_backfilling_policies_are_compared_on_a_log(tmp_path: Path) -> None:
    path = swf(tmp_path)
    document = answer(path, "--backfilling", "none", "--backfilling", "easy")
    none, easy = document["runs"]
    assert (none["backfilling"], easy["backfilling"]) == ("none", "easy")
    # Only with backfilling the third job may overtake the second, which needs all nodes.
    assert none["figures"]["wait_s_max.all"] == 180
    assert easy["figures"]["wait_s_max.all"] == 90
    table = run(path, "--backfilling", "none", "--backfilling", "easy", "--policy", "nop").output
    assert "NOP, none" in table
    assert "wait, mean" in table


def test_fewer_or_more_nodes_than_the_log_names(tmp_path: Path) -> None:
    assert answer(swf(tmp_path), "--nodes", 8)["runs"][0]["figures"]["wait_s_max.all"] == 0


def test_a_log_without_its_machine_needs_nodes(tmp_path: Path) -> None:
    path = swf(tmp_path, header="")
    result = run(path)
    assert (result.exit_code, "give --nodes" in result.stderr) == (2, True)
    assert answer(path, "--nodes", 4)["requests"] == 3


NEVER_RAN = LINE.format(number=1, submitted=0, runs=-1, processors=1, asked=9)


@pytest.mark.parametrize(
    ("content", "told"),
    [("", "it is empty"), ("; only a comment\n", "it is empty"), (NEVER_RAN, "1 jobs that never ran")],
)
def test_a_log_without_a_request_says_so_and_asks_for_no_nodes(content: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "log.swf"
    path.write_text(content)
    result = run(path)
    message = f"{path}: holds no request that can be played ({told}): name another trace"
    assert (result.exit_code, result.stderr) == (1, f"Error: {message}\n")


def test_a_lease_workload_without_a_request_is_called_by_its_file(tmp_path: Path) -> None:
    path = tmp_path / "empty.lwf"
    path.write_text("<lease-workload name='spring'><lease-requests/></lease-workload>")
    assert run(path).stderr.startswith(f"Error: {path}: holds no request that can be played")


@pytest.mark.parametrize(
    ("options", "requests", "waits_s", "left_out"),
    [
        (("--log-queue", 1), [1, 2, 3], 180, []),
        (("--submitted-from", "10s"), [2, 3], 90, ["jobs submitted earlier"]),
        (("--submitted-before", "20s"), [1, 2], 90, ["jobs submitted later"]),
        (("--load-factor", 0.1), [1, 2, 3], 0, []),
        (("--size-factor", 0.25), [1, 2, 3], 0, []),
        (("--duration-factor", 2), [1, 2, 3], 380, []),
    ],
)  # fmt: skip
def test_what_is_played_of_a_log_and_how_dense_it_is_can_be_said(
    options: tuple[object, ...], requests: list[int], waits_s: int, left_out: list[str], tmp_path: Path
) -> None:
    records = tmp_path / "records.jsonl"
    document = answer(swf(tmp_path), *options, "--backfilling", "none", "--records", records)
    assert [json.loads(line)["request_id"] for line in records.read_text().splitlines()] == requests
    assert document["runs"][0]["figures"]["wait_s_max.all"] == waits_s
    assert [one["reason"] for one in document["left_out"]] == left_out


def test_a_scenario_says_what_goes_wrong_and_every_policy_meets_the_same(tmp_path: Path) -> None:
    swf(tmp_path)
    scenario, records = tmp_path / "faults.yaml", tmp_path / "records.jsonl"
    scenario.write_text(
        SCENARIO + "policies: [nop, moml]\nfaults:\n"
        "- {operation: shutdown, count: 1}\n"
        "- {at_s: 400, host_dies: 0}\n"
        "- {at_s: 500, host_returns: 0, guests_survived: false}\n"
    )
    assert run(scenario, "--records", records, "--until", "1h").exit_code == 0
    lines = [json.loads(line) for line in records.read_text().splitlines()]
    # The third job has run at 70 s, cannot be shut down, and its owner tries again a minute later.
    assert [one["ended_at_ms"] for one in lines if one["request_id"] == 3] == [130_000, 130_000]


def test_bad_lines_are_named_by_file_line_and_field_or_counted(tmp_path: Path) -> None:
    path = swf(tmp_path, extra="4 30 -1 x 1 -1 -1 1 60 -1 1 1 1 -1 1 -1 -1 -1\n")
    result = run(path)
    assert result.exit_code == 1
    assert f"{path}:6: field 4 (run time)" in result.stderr
    assert "Mend the line, or leave bad lines out (--skip-bad-lines)" in result.stderr
    assert "Traceback" not in result.stderr
    scenario = tmp_path / "scenario.yaml"
    scenario.write_text(SCENARIO)
    assert "leave bad lines out (--skip-bad-lines)" in run(scenario).stderr
    document = answer(path, "--skip-bad-lines")
    assert document["left_out"] == [{"reason": "bad lines", "count": 1}]
    assert "1 bad lines" in run(path, "--skip-bad-lines").output


def test_annotations_are_added_to_the_leases_of_a_log(tmp_path: Path) -> None:
    path, more = swf(tmp_path), tmp_path / "more.lwfa"
    more.write_text(
        "<lease-annotations>\n"
        "<lease-annotation id='2'><start><now/></start></lease-annotation>\n"
        "<lease-annotation id='9'><start><now/></start></lease-annotation>\n"
        "</lease-annotations>"
    )
    document = answer(path, "--annotations", more)
    assert document["left_out"] == [{"reason": "annotations of leases that are not there", "count": 1}]
    # The second job needs all nodes and finds some taken: now or never.
    assert answer(path)["runs"][0]["figures"]["rejected.all"] == 0
    assert document["runs"][0]["figures"]["rejected.all"] == 1
    more.write_text("<lease-annotations>\n<lease-annotation id='x'/>\n</lease-annotations>")
    result = run(path, "--annotations", more)
    assert (result.exit_code, f"{more}:2: <lease-annotation> id='x'" in result.stderr) == (1, True)


def test_a_lease_workload_is_told_by_its_content_and_policies_compared(tmp_path: Path) -> None:
    workload = Workload((request(1, 0, 4, 300), local(2, 100, 2, 50)), site=(MachineSet(2, 200, 4096),))
    path = tmp_path / "leases"
    write_lwf(workload, path)
    document = answer(path, "--policy", "nop", "--policy", "MoMl", "--verify", "sampled")
    assert [one["policy"] for one in document["runs"]] == ["NOP", "MOML"]
    assert [one["figures"]["preempted.all"] for one in document["runs"]] == [0, 1]
    # The local request waits until 512 MiB are saved at the configured rate, and starts at the next whole second.
    assert document["runs"][1]["figures"]["wait_s_max.all"] == ceil(512 / 6.36)


def test_files_are_written_and_are_the_same_every_time(tmp_path: Path) -> None:
    def written(folder: Path) -> dict[str, bytes]:
        folder.mkdir()
        files = ("--csv", folder / "runs.csv", "--records", folder / "records.jsonl", "--html", folder / "report.html")
        result = run(swf(tmp_path), *files, "--plots", folder / "plots")
        assert result.exit_code == 0, result.output
        return {path.name: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}

    first = written(tmp_path / "first")
    assert first == written(tmp_path / "second")
    assert {"runs.csv", "records.jsonl", "report.html", "waits.svg", "hosts-0-moml.svg", "utilization.svg"} <= set(
        first
    )
    (row,) = csv.DictReader(first["runs.csv"].decode().splitlines())
    assert float(row["makespan_s"]) == 200
    records = [json.loads(line) for line in first["records.jsonl"].splitlines()]
    assert [(one["policy"], one["seed"], one["request_id"]) for one in records] == [
        ("MOML", 0, number) for number in (1, 2, 3)
    ]
    asked = ("lease_type", "start", "start_at_s", "deadline_at_s", "requested_duration_s", "actual_duration_s")
    assert [records[2][name] for name in asked] == ["BE-SUSPENDABLE", "best-effort", None, None, 60, 50]
    report = first["report.html"].decode()
    assert report.count("<svg") >= 3
    assert "http" not in report.replace("http://www.w3.org/2000/svg", "")


def test_a_scenario_is_run_with_its_policies_and_seeds(tmp_path: Path) -> None:
    path = tmp_path / "small.yaml"
    path.write_text(
        "name: small\nsite: {hosts: [{count: 4}]}\nworkload: {lublin99: {requests: 10}, span_s: 7200}\n"
        "leases: {local: 4}\npolicies: [nop, mov]\nbackfilling: [conservative]\nseeds: [1, 2]\nuntil_s: 90000\n"
    )
    document = answer(path)
    assert [(one["policy"], one["seed"]) for one in document["runs"]] == [
        ("NOP", 1),
        ("NOP", 2),
        ("MOV", 1),
        ("MOV", 2),
    ]
    assert "2 seeds, mean ± 95 %" in run(path, "--plots", tmp_path / "plots").output
    assert "Hosts under NOP, seed 1 alone, the first of 2" in (tmp_path / "plots" / "hosts-0-nop.svg").read_text()
    assert [one["seed"] for one in answer(path, "--seed", 7, "--policy", "nop")["runs"]] == [7]
    assert run(path, "--nodes", 4).exit_code == 2
    assert "workload.trace.annotations" in run(path, "--annotations", path).stderr


def test_nothing_to_replay_is_no_mistake(tmp_path: Path) -> None:
    path = tmp_path / "empty.swf"
    path.write_text("; MaxNodes: 4\n; MaxProcs: 4\n")
    files = ("--html", tmp_path / "report.html", "--csv", tmp_path / "runs.csv")
    assert "no request that can be played" in run(path).output
    document = answer(path, *files)
    assert (document["requests"], document["runs"][0]["figures"]["utilization"]) == (0, None)


def test_requests_that_the_site_can_never_hold_are_told(tmp_path: Path) -> None:
    path = swf(tmp_path)
    output = run(path, "--nodes", 2, "--html", tmp_path / "report.html").output
    told = "2 requests fit on no host of this site, or are larger than all of it: they never run"
    assert told in output
    assert told in (tmp_path / "report.html").read_text()
    assert answer(path, "--nodes", 2)["that_never_run"] == 2
    assert "never run" not in run(path).output


def test_an_end_before_the_first_request_is_told(tmp_path: Path) -> None:
    path = tmp_path / "late.swf"
    path.write_text("; MaxNodes: 4\n" + LINE.format(number=1, submitted=2000, runs=9, processors=1, asked=9))
    told = " ".join(run(path, "--until", "20m").output.split())
    assert "ends 1200 s after its start (--until, or until_s), and the first request is submitted after 2000 s" in told
    assert "To be looked at" not in run(path, "--until", "1h").output


def test_preemption_policies_that_had_nothing_to_decide_are_told(tmp_path: Path) -> None:
    both = ("--policy", "nop", "--policy", "mov")
    told = "the preemption policies had nothing to decide"
    assert told in run(swf(tmp_path), *both).output
    assert told not in run(swf(tmp_path)).output
    two = (request(1, 0, 4, 300), local(2, 100, 4, 50))
    write_lwf(Workload(two, site=(MachineSet(4, 100, 1024),)), tmp_path / "two.lwf")
    assert told not in run(tmp_path / "two.lwf", *both).output


@pytest.mark.parametrize(("lasts_s", "unit"), [(100, "seconds"), (1000, "minutes"), (20_000, "hours")])
def test_waits_are_drawn_in_a_unit_of_their_size(lasts_s: int, unit: str, tmp_path: Path) -> None:
    two = (request(1, 0, 4, lasts_s), request(2, 0, 4, lasts_s))
    write_lwf(Workload(two, site=(MachineSet(4, 100, 1024),)), tmp_path / "two.lwf")
    assert run(tmp_path / "two.lwf", "--plots", tmp_path / "pictures").exit_code == 0
    drawn = (tmp_path / "pictures" / "waits.svg").read_text()
    assert f">waited at most ({unit})</text>" in drawn
    # From 0 to 100 % of the requests, in steps of 5.
    assert [len(line.split()) for line in re.findall(r'<polyline points="([^"]*)"', drawn)] == [2, 21]


def test_hosts_on_which_nothing_ever_ran_have_their_row(tmp_path: Path) -> None:
    swf(tmp_path)
    # The last one is too small for any VM.
    scenario = tmp_path / "unlike.yaml"
    scenario.write_text(
        SCENARIO.replace("{count: 4, cpu: 1, memory_mib: 1024}", "{count: 4}, {count: 1, memory_mib: 9}")
    )
    assert run(scenario, "--plots", tmp_path / "pictures").exit_code == 0
    drawn = (tmp_path / "pictures" / "hosts-0-moml.svg").read_text()
    assert all(f">host {number}</text>" in drawn for number in range(5))


def test_what_differs_between_seeds_is_told_of_all_of_them(tmp_path: Path) -> None:
    path = tmp_path / "drawn.yaml"
    path.write_text(
        "site: {hosts: [{count: 4}]}\nworkload: {lublin99: {requests: 3}, span_s: 20000}\nseeds: [1, 2, 3]\n"
        "reservations: {share: 0.5, mean_duration_s: 900, fewest_vms: 1, most_vms: 8, tolerance: null}\n"
    )
    document = answer(path)
    never, drawn = ([one[name] for one in document["runs"]] for name in ("that_never_run", "seed"))
    requests = [one["figures"]["requests.all"] for one in document["runs"]]
    assert (drawn, len(set(never)) > 1, len(set(requests)) > 1) == ([1, 2, 3], True, True)
    assert (document["that_never_run"], document["requests"]) == (max(never), max(requests))
    assert all(any(f"(seed {seed})" in step for step in document["provenance"]) for seed in drawn)
    output, html = run(path, "--html", tmp_path / "report.html").output, (tmp_path / "report.html").read_text()
    for told in (
        f"{min(requests)} to {max(requests)} requests",
        f"{min(never)} to {max(never)} requests fit on no host",
    ):
        assert told in output
        assert told in html


def test_a_simulation_may_end_early(tmp_path: Path) -> None:
    figures = answer(swf(tmp_path), "--until", "2m")["runs"][0]["figures"]
    assert (figures["completed.all"], figures["unfinished.all"]) == (2, 1)


@pytest.mark.parametrize(
    ("arguments", "exit_code", "message"),
    [
        (("--until", "soon"), 2, "write 600, 10m, 2h or 30d"),
        (("--until", "0"), 2, "is not a time"),
        (("--policy", "best"), 1, "no preemption policy is named 'best'"),
        (("--backfilling", "best"), 1, "no backfilling policy is named 'best'"),
        (("--queue", "best"), 1, "no queue order is named 'best'"),
        (("--verify", "some"), 2, "sampled"),
        (("--log-queue", "7"), 1, "log.swf: no job is of queue 7; there are 1"),
        (("--submitted-from", "1h", "--submitted-before", "1h"), 1, "let the window end after its begin"),
        (("--load-factor", "0"), 2, "'--load-factor': 0.0 is not in the range"),
        (("--duration-factor", "nan"), 2, "is no number (NaN)"),
    ],
)
def test_mistakes_end_with_one_line(tmp_path: Path, arguments: tuple[str, ...], exit_code: int, message: str) -> None:
    result = run(swf(tmp_path), *arguments)
    assert result.exit_code == exit_code
    assert message in result.stderr


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    result = run(tmp_path / "none.swf")
    assert result.exit_code == 1
    assert "none.swf: cannot be read: No such file or directory\n" in result.stderr


@pytest.mark.parametrize("option", ["--csv", "--records", "--html"])
def test_a_place_where_nothing_can_be_written_is_told_before_anything_is_played(
    option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(simulate, "play_all", lambda *_: pytest.fail("it was played"))
    result = run(swf(tmp_path), option, tmp_path / "nowhere" / "out")
    assert result.exit_code == 1
    assert result.output.startswith(f"Error: {tmp_path / 'nowhere' / 'out'} cannot be written: ")
    result = run(swf(tmp_path), "--plots", swf(tmp_path) / "pictures")
    assert (result.exit_code, "Not a directory" in result.output) == (1, True)


def test_pictures_that_cannot_be_written_are_told_before_anything_is_played(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(simulate, "play_all", lambda *_: pytest.fail("it was played"))
    in_the_way = tmp_path / "pictures" / "waits.svg"
    in_the_way.mkdir(parents=True)
    result = run(swf(tmp_path), "--plots", in_the_way.parent)
    assert result.output == f"Error: {in_the_way} cannot be written over: name another folder, or remove it\n"
    monkeypatch.setattr(os, "access", lambda path, _: path != tmp_path / "locked")
    result = run(swf(tmp_path), "--plots", tmp_path / "locked")
    assert (result.exit_code, f"no pictures can be written into {tmp_path / 'locked'}" in result.output) == (1, True)


def test_nothing_is_written_over_what_is_read_or_was_just_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, scenario, settings = swf(tmp_path), tmp_path / "story.yaml", tmp_path / "settings.conf"
    scenario.write_text(SCENARIO)
    settings.write_text("")
    link = tmp_path / "link"
    link.symlink_to(log)
    before = log.read_bytes()
    with monkeypatch.context() as patched:
        patched.setattr(simulate, "play_all", lambda *_: pytest.fail("it was played"))
        for source, written in ((log, log), (log, link), (scenario, scenario), (scenario, log), (log, settings)):
            result = run(source, "--config", settings, "--csv", written)
            told = f"Error: {written} is read by this simulation, and would be written over: name another file\n"
            assert (result.exit_code, result.output) == (1, told)
        twice = tmp_path / "out"
        result = run(log, "--csv", twice, "--records", tmp_path / "." / "out")
        assert (result.exit_code, "is named for two answers" in result.output) == (1, True)
    assert log.read_bytes() == before
    assert run(log, "--csv", "/dev/null", "--html", "/dev/null").exit_code == 0


def test_a_plan_that_the_recount_refuses_ends_with_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from one_preempt import scheduling_cycle
    from one_preempt.core import fallback_plan
    from one_preempt.core.verify import Violation, recounter

    for module in (scheduling_cycle, fallback_plan, recounter):
        monkeypatch.setattr(module, "verify", lambda *_, **__: (Violation("broken", "always"),))
    result = run(swf(tmp_path), "--until", "5m")
    assert result.exit_code == 1
    assert run(swf(tmp_path), "--until", "5m", "--verify", "none").exit_code == 0


def test_nothing_but_the_answer_is_written_into_a_pipe(tmp_path: Path) -> None:
    assert run(swf(tmp_path)).stderr == ""
    assert simulate.simulate_command.name == "simulate"


POWER = """
power:
  mode: {mode}
  policy: look-ahead
  hosts: [{{host: "node[123]"}}]
  least_on_s: 0
  least_off_s: 0
  model: {{idle_w: 100, peak_w: 200, boot_s: 60, off_w: 5}}
  models: [{{host: node0, idle_w: 1000, peak_w: 1000}}]
"""


def with_power(folder: Path, mode: str) -> tuple[str, Path]:
    path = folder / f"{mode}.conf"
    path.write_text(POWER.format(mode=mode))
    return "--config", path


def quiet_afternoon(folder: Path) -> Path:
    """A job of an hour on a node, and one on all four nodes ten hours later."""
    jobs = [(1, 0, 3600, 1, 3600), (2, 36_000, 600, 4, 600)]
    lines = [
        LINE.format(number=number, submitted=submitted, runs=runs, processors=processors, asked=asked)
        for number, submitted, runs, processors, asked in jobs
    ]
    path = folder / "quiet.swf"
    path.write_text("; MaxNodes: 4\n; MaxProcs: 4\n" + "".join(lines))
    return path


def test_energy_is_told_where_hosts_may_be_switched(tmp_path: Path) -> None:
    path = quiet_afternoon(tmp_path)
    (played,) = answer(path, *with_power(tmp_path, "enforce"))["runs"]
    told = played["figures"]
    # The second job waits for the boot of two nodes: the floor stays on, and so does the node that is not handed over.
    assert 60 <= told["wait_s_max.all"] < 200
    assert told["boots"] == 2
    hours, used_kwh, booting_kwh = told["makespan_s"] / 3600, 0.1 + 0.1 * 3 * 600 / 3600, 0.2 * 2 * 60 / 3600
    assert told["energy_always_on_kwh"] == pytest.approx(1.3 * hours + used_kwh, rel=1e-6)
    assert told["energy_kwh"] == pytest.approx(1.11 * hours + used_kwh + booting_kwh, rel=0.01)
    assert told["energy_saved_share"] == pytest.approx(1 - told["energy_kwh"] / told["energy_always_on_kwh"])
    csv_file, plots = tmp_path / "runs.csv", tmp_path / "plots"
    table = run(path, *with_power(tmp_path, "enforce"), "--csv", csv_file, "--plots", plots).output
    assert "energy with all hosts on" in table
    assert "boots of hosts" in table
    assert "energy_kwh" in csv_file.read_text().splitlines()[0]
    assert "kWh" in (plots / "energy_kwh.svg").read_text()


def test_a_request_that_can_never_run_does_not_lengthen_what_is_measured(tmp_path: Path) -> None:
    path, power = quiet_afternoon(tmp_path), with_power(tmp_path, "enforce")
    without = answer(path, *power, "--until", "2h")["runs"][0]["figures"]
    log = path.read_text().splitlines()
    too_large = LINE.format(number=2, submitted=0, runs=60, processors=5, asked=60)
    path.write_text("\n".join((*log[:3], too_large)))
    told = answer(path, *power)["runs"][0]["figures"]
    assert (told["completed.all"], told["unfinished.all"]) == (1, 1)
    # An hour of one node of four, and the last one goes to sleep a moment later.
    assert told["utilization"] == pytest.approx(1 / 4, rel=0.01)
    assert told["energy_always_on_kwh"] == pytest.approx(1.3 + 0.1, rel=0.01)
    assert told["energy_kwh"] < without["energy_kwh"]


def test_energy_policies_are_compared_in_one_run(tmp_path: Path) -> None:
    path, power = quiet_afternoon(tmp_path), with_power(tmp_path, "enforce")
    named = ("--energy-policy", "always-on", "--energy-policy", "LOOK-AHEAD")
    always_on, look_ahead = answer(path, *power, *named)["runs"]
    assert (always_on["energy_policy"], look_ahead["energy_policy"]) == ("always-on", "look-ahead")
    assert always_on["figures"]["boots"] == 0 < look_ahead["figures"]["boots"]
    assert look_ahead["figures"]["energy_kwh"] < always_on["figures"]["energy_kwh"]
    csv_file, records = tmp_path / "runs.csv", tmp_path / "records"
    table = run(path, *power, *named, "--csv", csv_file, "--records", records).output
    assert "MOML, always-on" in table
    assert "MOML, look-ahead" in table
    rows = csv.DictReader(csv_file.read_text().splitlines())
    assert [row["energy_policy"] for row in rows] == ["always-on", "look-ahead"]
    assert json.loads(records.read_text().splitlines()[0])["energy_policy"] == "always-on"


@pytest.mark.parametrize("mode", [None, "advise"])
def test_energy_policies_need_hosts_that_may_sleep(mode: str | None, tmp_path: Path) -> None:
    power = with_power(tmp_path, mode) if mode is not None else ()
    result = run(quiet_afternoon(tmp_path), *power, "--energy-policy", "pemp")
    assert result.exit_code == 2
    assert "power.mode: enforce" in result.output


def test_hosts_handed_over_that_there_are_not_are_to_be_looked_at(tmp_path: Path) -> None:
    path, doubt = quiet_afternoon(tmp_path), "power.hosts matches no host, so none sleeps"
    configuration = tmp_path / "power.conf"
    configuration.write_text(POWER.format(mode="enforce").replace("node[123]", "gpu-*"))
    assert doubt in " ".join(run(path, "--config", configuration).output.split())
    assert "power.hosts" not in run(path, *with_power(tmp_path, "enforce")).output


def test_an_energy_policy_that_there_is_not_is_told(tmp_path: Path) -> None:
    result = run(quiet_afternoon(tmp_path), *with_power(tmp_path, "enforce"), "--energy-policy", "none-such")
    assert result.exit_code == 1
    assert "none-such" in result.output


def test_advice_takes_what_always_on_takes(tmp_path: Path) -> None:
    (played,) = answer(quiet_afternoon(tmp_path), *with_power(tmp_path, "advise"))["runs"]
    told = played["figures"]
    assert (told["energy_kwh"], told["boots"]) == (told["energy_always_on_kwh"], 0)


def test_no_energy_is_told_where_no_host_is_handed_over(tmp_path: Path) -> None:
    path = swf(tmp_path)
    assert not any("energy" in name for name in answer(path)["runs"][0]["figures"])
    assert "energy" not in run(path).output


def test_names_are_no_markup(tmp_path: Path) -> None:
    assert "log[a].swf" in run(swf(tmp_path).rename(tmp_path / "log[a].swf")).output
    swf(tmp_path)
    path = tmp_path / "scenario.yaml"
    path.write_text(f'name: "two [/] weeks"\n{SCENARIO}', encoding="utf-8")
    result = run(path)
    assert (result.exit_code, "two [/] weeks" in result.output) == (0, True)


def test_files_are_written_though_nobody_reads_the_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(*_: object) -> None:
        raise BrokenPipeError

    monkeypatch.setattr(simulate, "show", closed)
    run(swf(tmp_path), "--csv", tmp_path / "rows.csv", "--html", tmp_path / "report.html")
    assert (tmp_path / "rows.csv").stat().st_size > 0
    assert (tmp_path / "report.html").stat().st_size > 0


def test_a_file_whose_name_is_no_text_is_told_in_a_report(tmp_path: Path) -> None:
    path = swf(tmp_path).rename(tmp_path / b"caf\xe9.swf".decode("utf-8", "surrogateescape"))
    result = run(path, "--html", tmp_path / "report.html")
    assert (result.exit_code, (tmp_path / "report.html").stat().st_size > 0) == (0, True)


@pytest.mark.parametrize("option", [("--processors-per-vm", "8"), ("--cut-overruns",), ("--load-factor", "2")])
def test_a_scenario_says_how_its_trace_is_read(tmp_path: Path, option: tuple[str, ...]) -> None:
    swf(tmp_path)
    path = tmp_path / "scenario.yaml"
    path.write_text(SCENARIO, encoding="utf-8")
    result = run(path, *option)
    assert (result.exit_code, "write workload.trace.annotations, processors_per_vm" in result.stderr) == (2, True)


def test_requests_beyond_what_a_lease_can_ask_for_are_left_out_and_not_rejected(tmp_path: Path) -> None:
    extra = LINE.format(number=4, submitted=30, runs=100, processors=1, asked=400_000_000)
    extra += LINE.format(number=5, submitted=30, runs=100, processors=10_001, asked=60)
    document = answer(swf(tmp_path, extra))
    assert [one["count"] for one in document["left_out"]] == [1, 1]
    assert document["runs"][0]["figures"]["rejection_rate.all"] == 0


def test_a_makespan_is_of_those_that_ran(tmp_path: Path) -> None:
    requests = (local(1, 0, 4, 100), replace(local(2, 5000, 8, 100), start=StartKind.IMMEDIATE))
    write_lwf(Workload(requests, site=(MachineSet(4, 100, 1024),)), tmp_path / "leases.lwf")
    figures = answer(tmp_path / "leases.lwf", "--nodes", 4)["runs"][0]["figures"]
    assert (figures["rejection_rate.all"], figures["makespan_s"]) == (0.5, 100)


def a_heavy_user_and_a_light_one(folder: Path, *, known: bool = True) -> Path:
    """User 7 fills four nodes for an hour; after ten minutes user 8 asks for one of them for a minute."""
    jobs = [(number, 0, 600, 7) for number in range(1, 25)] + [(25, 610, 60, 8)]
    lines = [
        LINE.format(number=number, submitted=at_s, runs=runs, processors=1, asked=runs).replace(
            " 1 1 1 -1 1 ", f" 1 {user if known else -1} -1 -1 1 "
        )
        for number, at_s, runs, user in jobs
    ]
    path = folder / "users.swf"
    path.write_text("; MaxNodes: 4\n; MaxProcs: 4\n" + "".join(lines))
    return path


def test_orders_of_the_queue_are_compared_and_the_light_user_waits_less_by_fair_share(tmp_path: Path) -> None:
    path, records = a_heavy_user_and_a_light_one(tmp_path), tmp_path / "records.jsonl"
    orders = ("--queue", "user-priority", "--queue", "Fair-Share")
    document = answer(path, *orders, "--records", records)
    assert [one["queue"] for one in document["runs"]] == ["user-priority", "fair-share"]
    lines = [json.loads(line) for line in records.read_text().splitlines()]
    waits = {
        (line["queue"], line["user"]): line["started_at_ms"] // 1000 - 610 for line in lines if line["request_id"] == 25
    }
    assert waits == {("user-priority", 8): 2990, ("fair-share", 8): 590}
    assert {line["group"] for line in lines} == {None}
    assert "MOML, fair-share" in run(path, *orders).output


def test_one_order_is_that_of_all_and_has_no_column(tmp_path: Path) -> None:
    document = answer(a_heavy_user_and_a_light_one(tmp_path), "--queue", "fair-share")
    assert "queue" not in document["runs"][0]


def test_a_log_that_names_no_owner_is_to_be_looked_at_under_fair_share(tmp_path: Path) -> None:
    path = a_heavy_user_and_a_light_one(tmp_path, known=False)
    doubt = "no request names its user or group"
    assert doubt in run(path, "--queue", "fair-share").output
    assert doubt not in run(path, "--queue", "user-priority").output
    assert doubt not in run(a_heavy_user_and_a_light_one(tmp_path), "--queue", "fair-share").output


def test_shares_of_groups_that_the_log_does_not_have_are_to_be_looked_at(tmp_path: Path) -> None:
    path, configuration = a_heavy_user_and_a_light_one(tmp_path), tmp_path / "shares.conf"
    fair = ("--queue", "fair-share", "--config", configuration)
    configuration.write_text("fair_share: {shares: {astronomy: 5, locals: 2, '100': 3}}\n")
    assert "fair_share.shares has astronomy, and no request is of such a group" in " ".join(
        run(path, *fair).output.split()
    )
    configuration.write_text("fair_share: {shares: {locals: 2}}\n")
    assert "To be looked at" not in run(path, *fair).output


def test_the_accounting_of_a_cloud_is_replayed_on_the_hosts_that_it_names_or_on_others(tmp_path: Path) -> None:
    accounting = Path(__file__).parents[1] / "traces" / "accounting.xml"
    document = answer(accounting, "--policy", "nop", "--policy", "moml")
    assert (document["requests"], document["left_out"]) == (7, [{"reason": "VMs that never ran", "count": 1}])
    assert [run["figures"]["rejected.all"] for run in document["runs"]] == [0, 0]
    assert answer(accounting, "--nodes", 1)["runs"][0]["figures"]["wait_s_max.all"] > 0
    broken = tmp_path / "month.xml"
    broken.write_text("<HISTORY_RECORDS>\n<HISTORY><OID>3</OID></HISTORY></HISTORY_RECORDS>")
    assert f"{broken}:2: record 1 (VM 3): SEQ" in run(broken).stderr
    assert "leave bad lines out (--skip-bad-lines)" in run(broken).stderr
    assert answer(broken, "--skip-bad-lines", "--nodes", 1)["left_out"] == [{"reason": "bad records", "count": 1}]
