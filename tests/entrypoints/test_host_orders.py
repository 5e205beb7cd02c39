"""`host list|on|off`: what administrators see and order of the power of hosts, carried out by cycles of the daemon."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result
from msgspec.structs import replace

from one_preempt.adapters.clock import FixedClock, SystemClock
from one_preempt.adapters.power_control import factory
from one_preempt.adapters.power_control.guarded import GuardedPowerControl
from one_preempt.adapters.power_control.in_background import BackgroundPowerCalls
from one_preempt.composition import open_cycle, open_reader, open_store
from one_preempt.configuration.chosen_policies import power_rules
from one_preempt.configuration.power_control_settings import PatienceSettings
from one_preempt.configuration.settings import load_settings
from one_preempt.core.host_power.observe_power import observe_power
from one_preempt.core.model.ledger import Ledger, LedgerChanges
from one_preempt.core.model.outcome import Outcome
from one_preempt.core.model.power_sequence import PowerPhase, PowerSequence
from one_preempt.core.model.power_standing import PowerAttempt, PowerStanding
from one_preempt.core.model.written_time import utc_text
from one_preempt.entrypoints.cli import host, host_power
from one_preempt.entrypoints.cli.command_line import cli
from one_preempt.simulation.emulator.process import shipped_cloud
from one_preempt.simulation.emulator.serving import running_emulator
from one_preempt.simulation.simulated_cloud.cloud import SimulatedCloud
from one_preempt.simulation.simulated_cloud.host_power import SimulatedHostPower
from one_preempt.simulation.simulated_cloud.objects import ONEADMIN
from one_preempt.simulation.simulated_cloud.states import HostState
from tests.stories.switched_hosts import put_and_wait

COMMAND = {"on": ["/bin/true"], "off": ["/bin/true"], "status": ["/bin/true"]}
POWER = {
    "mode": "enforce", "policy": "always-on", "hosts": [{"host": "node[12]"}], "least_on_s": 0,
    "control": {"method": "command", "command": COMMAND},
}  # fmt: skip
HOST_IDS = {"node1": 0, "node2": 1, "node3": 2}


@pytest.fixture
def cloud() -> SimulatedCloud:
    """Three machines, of which the second and the third have become empty."""
    built = shipped_cloud("demo")
    built.run_until(built.now_s + 86_400)
    for vm in list(built.vms.values()):
        if vm.history[-1].host_id != HOST_IDS["node1"]:
            built.vm_action(ONEADMIN, "terminate-hard", vm.id)
    built.advance(60)
    return built


@pytest.fixture
def site(cloud: SimulatedCloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The cloud behind a socket, and the environment that leads there; the configuration's file."""
    auth, configuration = tmp_path / "one_auth", tmp_path / "one_preempt.conf"
    auth.write_text("oneadmin:opennebula")
    auth.chmod(0o600)
    power = GuardedPowerControl(SimulatedHostPower(cloud), cloud.clock, PatienceSettings())
    monkeypatch.setattr(factory, "make_power_control", lambda *_given: power)
    with running_emulator(cloud) as url:
        monkeypatch.setenv("ONE_XMLRPC", url)
        monkeypatch.setenv("ONE_AUTH", str(auth))
        monkeypatch.setenv("ONE_PREEMPT_CONF", str(configuration))
        configure(configuration)
        yield configuration


def configure(file: Path, **more: object) -> None:
    store = {"url": f"sqlite:///{file.parent}/leases.db"}
    socket = {"path": str(file.parent / "no_daemon.sock")}
    file.write_text(yaml.dump({"store": store, "socket": socket, "power": {**POWER, **more}}))


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments)


def power_of(name: str) -> dict[str, object] | None:
    found: dict[str, object] | None = json.loads(run("host", "list", "--json").stdout)[HOST_IDS[name]]["power"]
    return found


@contextmanager
def passing_time(cloud: SimulatedCloud, configuration: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Whoever waits lets a cycle of a daemon with this configuration pass."""
    clock = FixedClock(int(cloud.now_s))
    with ExitStack() as stack:
        cycle = stack.enter_context(open_cycle(load_settings(configuration), clock))

        def pass_time() -> None:
            cloud.advance(15)
            clock.set(int(cloud.now_s))
            cycle.run()

        monkeypatch.setattr(host, "_pause", pass_time)
        yield


@pytest.fixture
def while_waiting(cloud: SimulatedCloud, site: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Whoever waits lets a cycle of the daemon pass."""
    monkeypatch.setattr(BackgroundPowerCalls, "put", put_and_wait)
    with passing_time(cloud, site, monkeypatch):
        yield


def test_a_host_is_ordered_off_and_on_and_waited_for(cloud: SimulatedCloud, while_waiting: None) -> None:
    asleep = run("host", "off", "node2", "--wait")
    assert asleep.exit_code == 0, asleep.output
    assert "Host node2 is ordered off." in asleep.stdout
    assert "asleep" in asleep.stdout
    assert not cloud.hosts[HOST_IDS["node2"]].alive
    assert run("host", "off", "node2").stdout == "Host node2 is off already, or on its way.\n"
    told = power_of("node2")
    assert told is not None
    assert (told["phase"], told["reason_code"], told["ordered"]) == ("asleep", "ordered", None)
    assert "asleep since" in run("host", "list").stdout
    awake = run("host", "on", str(HOST_IDS["node2"]), "--wait")
    assert awake.exit_code == 0, awake.output
    assert "Host node2: on since" in awake.stdout
    assert "not ours" not in awake.stdout
    assert cloud.hosts[HOST_IDS["node2"]].alive
    assert power_of("node1") != power_of("node3") is None


@pytest.mark.parametrize(
    "power",
    [{"mode": "off"}, {"mode": "advise"}, {"hosts": []}, {"quiet_hours": ["00:00-00:00"]}],
    ids=["off", "advise", "handed over no more", "quiet hours"],
)
def test_what_sleeps_is_woken_by_order_whatever_was_configured_since(
    power: dict[str, object], cloud: SimulatedCloud, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BackgroundPowerCalls, "put", put_and_wait)
    with passing_time(cloud, site, monkeypatch):
        assert run("host", "off", "node2", "--wait").exit_code == 0
    configure(site, **power)
    with passing_time(cloud, site, monkeypatch):
        awake = run("host", "on", "node2", "--wait")
        assert awake.exit_code == 0, awake.output
    assert cloud.hosts[HOST_IDS["node2"]].alive


def put_on(cloud: SimulatedCloud, name: str) -> int:
    """Somebody deploys a VM on a host."""
    (vm_id,) = cloud.add_vms(ONEADMIN, 'CPU = "1"\nMEMORY = "512"\n', 1, hold=True)
    cloud.vm_deploy(ONEADMIN, vm_id, HOST_IDS[name])
    return vm_id


def before_the_cycle(monkeypatch: pytest.MonkeyPatch, number: int, happens: Callable[[], object]) -> None:
    """Something happens just before a cycle of the daemon, counted from 1."""
    cycle, passed = host._pause, iter(range(1, 1000))

    def pass_time() -> None:
        if next(passed) == number:
            happens()
        cycle()

    monkeypatch.setattr(host, "_pause", pass_time)


@pytest.mark.parametrize(
    ("cycle", "told"),
    [
        pytest.param(1, "VMs are on it ({}): migrate them", id="before the daemon looked"),
        pytest.param(2, "VM {} was put on it: it is used again", id="on the way to sleep"),
    ],
)
def test_who_waits_is_told_which_vm_came(
    cloud: SimulatedCloud, while_waiting: None, monkeypatch: pytest.MonkeyPatch, cycle: int, told: str
) -> None:
    vm_ids: list[int] = []
    before_the_cycle(monkeypatch, cycle, lambda: vm_ids.append(put_on(cloud, "node2")))
    refused = run("host", "off", "node2", "--wait")
    assert refused.exit_code == 1
    assert f"Host node2 is not off: {told.format(vm_ids[0])}" in refused.stderr


def test_who_waits_is_told_that_somebody_else_disabled_the_host(
    cloud: SimulatedCloud, while_waiting: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    before_the_cycle(monkeypatch, 1, lambda: cloud.host_status(ONEADMIN, HOST_IDS["node2"], 1))
    refused = run("host", "off", "node2", "--wait")
    assert refused.exit_code == 1
    assert "Host node2 is not off: it is DISABLED, and not by this scheduler: onehost enable 1" in refused.stderr


def test_who_waits_is_told_that_the_floor_keeps_the_host(
    cloud: SimulatedCloud, while_waiting: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    before_the_cycle(monkeypatch, 1, lambda: cloud.host_status(ONEADMIN, HOST_IDS["node1"], 1))
    refused = run("host", "off", "node2", "--wait")
    assert refused.exit_code == 1
    assert "Host node2 is not off: 1 of the hosts handed over are on, and power.floor keeps 1" in refused.stderr


@pytest.fixture
def on_the_clouds_clock(cloud: SimulatedCloud, monkeypatch: pytest.MonkeyPatch) -> None:
    """Orders are given and looked at by the clock by which the daemon's cycles go."""
    for module in (host, host_power):
        monkeypatch.setattr(module, "SystemClock", lambda: FixedClock(int(cloud.now_s)))


@pytest.mark.usefixtures("on_the_clouds_clock")
def test_who_waits_is_told_that_a_host_was_on_though_it_sleeps_again(
    cloud: SimulatedCloud, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It came up and went to sleep between two looks of his."""
    monkeypatch.setattr(BackgroundPowerCalls, "put", put_and_wait)
    with passing_time(cloud, site, monkeypatch):
        assert run("host", "off", "node2", "--wait").exit_code == 0
    configure(site, policy="look-ahead", least_off_s=0, floor=0)
    with passing_time(cloud, site, monkeypatch):
        cycle, was_on = host._pause, []

        def look_away() -> None:
            for _ in range(60):
                cycle()
                was_on.append(cloud.hosts[HOST_IDS["node2"]].alive)

        monkeypatch.setattr(host, "_pause", look_away)
        awake = run("host", "on", "node2", "--wait")
    assert (True in was_on, was_on[-1]) == (True, False)
    assert awake.exit_code == 0, awake.output
    assert "Host node2: was on, and is asleep since" in awake.stdout


@pytest.mark.usefixtures("on_the_clouds_clock")
def test_who_waits_for_several_hosts_does_not_mind_that_the_first_sleeps_again(
    cloud: SimulatedCloud, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BackgroundPowerCalls, "put", put_and_wait)
    configure(site, hosts=[{}], policy="look-ahead", least_off_s=0, most_booting=1, floor=0)
    with passing_time(cloud, site, monkeypatch):
        assert run("host", "off", "node2", "node3", "--wait").exit_code == 0
        awake = run("host", "on", "node2", "node3", "--wait")
    assert awake.exit_code == 0, awake.output
    for name in ("node2", "node3"):
        assert f"Host {name}: was on, and is disabling since" in awake.stdout


def test_an_order_waits_for_the_daemon_and_is_seen(site: Path) -> None:
    assert run("db", "upgrade").exit_code == 0
    ordered = run("host", "off", "node2")
    assert ordered.exit_code == 0
    assert "the order waits for it" in ordered.stderr
    told = power_of("node2")
    assert told is not None
    assert (told["phase"], told["ordered"]) == ("awake", "off")
    assert "waits for the daemon" in run("host", "list").stdout


def test_an_order_makes_no_database_in_which_no_daemon_looks(site: Path) -> None:
    ordered = run("host", "off", "node2")
    assert ordered.exit_code == 1
    assert "there is no database of leases at" in ordered.stderr
    assert not list(site.parent.glob("*.db"))


def test_who_may_not_wake_the_daemon_is_told_that_the_order_waits(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refusal = {"ok": False, "error": "this user may not open the socket"}
    monkeypatch.setattr(host, "ask_daemon", lambda *_question: refusal)
    assert run("db", "upgrade").exit_code == 0
    ordered = run("host", "off", "node2")
    assert ordered.exit_code == 0
    assert "waits for the daemon's next cycle: this user may not open the socket" in ordered.stderr


@pytest.mark.parametrize(
    ("order", "power", "told"),
    [
        (("off", "node9"), {}, "there is no host 'node9'"),
        (("off", "node3"), {}, "host node3 is not switched off: it is not handed over"),
        (("off", "node1"), {}, "VMs are on it"),
        (("off", "node2", "node1"), {}, "host node1 is not switched off"),
        (("off", "node2"), {"mode": "advise"}, "power.mode is advise"),
        (("off", "node2"), {"floor": 2}, "power.floor keeps 2 of them"),
        (("off", "node2"), {"control": {"method": "none"}}, "power.control.method"),
        (("off", "node2"), {"quiet_hours": ["00:00-00:00"]}, "quiet hours"),
    ],
)
def test_what_cannot_be_switched_is_refused_with_the_reason(
    order: tuple[str, ...], power: dict[str, object], told: str, site: Path
) -> None:
    configure(site, **power)
    refused = run("host", *order)
    assert refused.exit_code == 1
    assert told in refused.stderr
    assert not _orders(site)


def test_a_host_of_an_odd_name_is_refused_and_never_disabled(
    cloud: SimulatedCloud, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = cloud.hosts[HOST_IDS["node2"]]
    odd.name = "node2 spare"
    configure(site, hosts=[{}])
    refused = run("host", "off", str(odd.id))
    assert refused.exit_code == 1
    assert "its name cannot be used for power control; a name may have only letters, digits" in refused.stderr
    monkeypatch.setattr(BackgroundPowerCalls, "put", put_and_wait)
    with passing_time(cloud, site, monkeypatch):
        # The idle ones would sleep by themselves, too.
        assert run("host", "off", "node3", "--wait").exit_code == 0
    assert odd.state is HostState.MONITORED


def test_a_paused_scheduler_takes_no_orders(site: Path) -> None:
    assert run("db", "upgrade").exit_code == 0
    assert run("pause").exit_code == 0
    assert "one-preempt resume" in run("host", "off", "node2").stderr


def test_a_host_that_somebody_disabled_is_not_enabled(cloud: SimulatedCloud, site: Path) -> None:
    cloud.host_status(ONEADMIN, HOST_IDS["node2"], 1)
    refused = run("host", "on", "node2")
    assert refused.exit_code == 1
    assert "it is DISABLED, and not by this scheduler: onehost enable 1" in refused.stderr


def test_a_host_that_somebody_set_offline_is_listed_as_not_ours(cloud: SimulatedCloud, site: Path) -> None:
    cloud.host_status(ONEADMIN, HOST_IDS["node2"], 2)
    rows = {cells[1]: cells for cells in map(str.split, run("host", "list").stdout.splitlines()) if len(cells) > 5}
    assert " ".join(rows["node2"]).endswith("takes no VMs not ours")
    assert rows["node1"][-1] == "on"


def test_a_host_that_was_woken_once_is_not_ours_since_when_nobody_wrote_down(cloud: SimulatedCloud, site: Path) -> None:
    with closing(open_store(load_settings(site))) as store:
        woken = PowerSequence(HOST_IDS["node2"], "node2", PowerPhase.AWAKE, 100, "woken", "the queue waited for room")
        store.apply(LedgerChanges(power_sequences=(woken,)))
    cloud.host_status(ONEADMIN, HOST_IDS["node2"], 1)
    row = next(line for line in run("host", "list").stdout.splitlines() if "node2" in line)
    assert " ".join(row.split()).endswith("takes no VMs not ours")


def test_a_host_that_failed_says_so_and_may_be_ordered_on_by_who_has_mended_it(
    cloud: SimulatedCloud, site: Path
) -> None:
    now_s = SystemClock().now_s()
    cloud.host_status(ONEADMIN, HOST_IDS["node2"], 2)
    failed = PowerSequence(
        HOST_IDS["node2"], "node2", PowerPhase.FAILED, now_s, "failed", "it has no power", failures=2,
        not_before_s=now_s + 900,
    )  # fmt: skip
    hung = PowerStanding("node2", PowerAttempt.BOOT, 3, now_s + 600, None, "it did not come up")
    over = PowerStanding("node2", PowerAttempt.OFF, 1, 1_000_000_000, None, "no answer")
    with closing(open_store(load_settings(site))) as store:
        store.apply(LedgerChanges(power_sequences=(failed,), power_standings=(hung, over)))
    listed = json.loads(run("host", "list", "--json").stdout)
    told = next(one["power"] for one in listed if one["name"] == "node2")
    assert (told["failures"], told["left_alone_until"]) == (2, now_s + 900)
    assert told["power_control_pauses"] == [
        {"attempt": "boot", "failures": 3, "until": now_s + 600, "why": "it did not come up"}
    ]
    table = " ".join(run("host", "list").stdout.split())
    assert f"not told to start until {utc_text(now_s + 600)}, after 3 failures in a row" in table, table
    assert run("host", "on", "node2").exit_code == 0
    assert _orders(site).keys() == {HOST_IDS["node2"]}


def test_a_host_is_said_to_be_left_alone_only_as_long_as_it_is(
    cloud: SimulatedCloud, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FixedClock(SystemClock().now_s())
    monkeypatch.setattr(host_power, "SystemClock", lambda: clock)
    cloud.host_status(ONEADMIN, HOST_IDS["node2"], 2)
    told = PowerSequence(
        HOST_IDS["node2"], "node2", PowerPhase.SWITCHING_OFF, clock.now_s() - 300, "idle", "nobody is on it",
        attempts=1, outcome=Outcome.ACCEPTED, outcome_at_s=clock.now_s() - 300,
    )  # fmt: skip
    with closing(open_store(load_settings(site))) as store:
        rules = replace(power_rules(load_settings(site).power), shutdown_timeout_s=200, first_pause_s=20)
        hosts = open_reader(load_settings(site)).read()
        seen = observe_power(hosts, Ledger(power_sequences={told.host_id: told}), {}, rules, clock.now_s())
        store.apply(LedgerChanges(power_sequences=seen.changed))
    rest = f"it is left alone until {utc_text(clock.now_s() + 20)}, after 1 failure in a row"
    assert rest in seen.discrepancies[0].text
    assert rest in " ".join(run("host", "list", "node2").stdout.split())
    clock.set(clock.now_s() + 20)
    table = run("host", "list", "node2").stdout
    assert "and did not within 200 s" in " ".join(table.split())
    assert "left alone" not in table


def test_a_host_is_not_told_of_by_what_became_of_another_that_had_its_id(site: Path) -> None:
    with closing(open_store(load_settings(site))) as store:
        gone = PowerSequence(HOST_IDS["node2"], "old2", PowerPhase.AWAKE, 100, "deleted-unpowered", "it is gone")
        store.apply(LedgerChanges(power_sequences=(gone,)))
    row, told = [line for line in run("host", "list").stdout.splitlines() if "node2" in line or "old2" in line]
    assert row.split()[-1] == "on"
    assert told == "old2 (id 1), 1970-01-01T00:01:40Z: it is gone"
    power = power_of("node2")
    assert power is not None
    assert (power["since"], power["reason"]) == (None, "")


def test_what_a_clock_set_back_has_put_far_off_stands_against_no_order_and_is_no_pause(site: Path) -> None:
    far_s = SystemClock().now_s() + 86_400
    awake = PowerSequence(HOST_IDS["node2"], "node2", PowerPhase.AWAKE, far_s, "failed", "", 0, not_before_s=far_s + 9)
    hung = PowerStanding("node2", PowerAttempt.OFF, 3, far_s, None, "no answer")
    with closing(open_store(load_settings(site))) as store:
        store.apply(LedgerChanges(power_sequences=(awake,), power_standings=(hung,)))
    told = power_of("node2")
    assert told is not None
    assert (told["left_alone_until"], told["power_control_pauses"]) == (None, [])
    assert "(the clock was set back since)" in " ".join(run("host", "list").stdout.split())
    assert run("host", "off", "node2").stdout == "Host node2 is ordered off.\n"


@pytest.mark.parametrize(
    ("name", "phase", "told"),
    [
        ("node2", PowerPhase.SWITCHING_OFF, "when it is mended, to try at once: one-preempt host on 1, and host off"),
        ("node1", PowerPhase.EMPTYING, "VMs are on it (0, 1, 2"),
        ("node2", PowerPhase.EMPTYING, "see the daemon's log; one-preempt host on 1 takes it back"),
        ("node2", PowerPhase.GOING_OFFLINE, "see the daemon's log; one-preempt host on 1 takes it back"),
        (
            "node2",
            PowerPhase.FAILED,
            "when it is mended, one-preempt host on 1; to keep it out of use, onehost disable 1",
        ),
        ("node2", PowerPhase.SWITCHING_ON, "it is on its way up: wait until it is on; to keep it out of use, onehost"),
        ("node2", PowerPhase.CUTTING_POWER, "it is on its way up: wait until it is on; to keep it out of use, onehost"),
    ],
)
def test_who_orders_a_host_off_that_is_stuck_is_told_what_to_do(
    name: str, phase: PowerPhase, told: str, cloud: SimulatedCloud, site: Path
) -> None:
    cloud.host_status(ONEADMIN, HOST_IDS[name], 1)
    now_s = SystemClock().now_s() - 600
    stuck = PowerSequence(HOST_IDS[name], name, phase, now_s, "idle", "nothing runs on it", 1, failures=1)
    with closing(open_store(load_settings(site))) as store:
        store.apply(LedgerChanges(power_sequences=(stuck,)))
    ordered = run("host", "off", name)
    assert told in ordered.output
    assert _orders(site) == {}


def test_a_long_reason_is_cut_in_the_list_and_whole_where_the_host_is_named(site: Path) -> None:
    answer = " ".join(f"word{number}" for number in range(400)) + "\x1b[31m the end"
    failed = PowerSequence(1, "node2", PowerPhase.FAILED, 1_800_000_000, "failed", "no power", answer_text=answer)
    with closing(open_store(load_settings(site))) as store:
        store.apply(LedgerChanges(power_sequences=(failed,)))
    table = " ".join(run("host", "list").stdout.split())
    assert "… (all of it: one-preempt host list 1)" in table
    assert "the end" not in table
    for named in ("node2", "1"):
        listed = run("host", "list", named, "node1").stdout
        assert listed.startswith("2 hosts")
        assert "\x1b" not in listed
        assert "word399" in listed
        assert "the end" in listed
    assert run("host", "list", "node3").stdout.splitlines()[0].strip() == "1 host"
    document = json.loads(run("host", "list", "--json").stdout)[1]["power"]
    assert document["answer"] == answer
    assert [host["id"] for host in json.loads(run("host", "list", "node3", "--json").stdout)] == [2]
    assert "there is no host 'node9'" in run("host", "list", "node9").stderr


def _orders(configuration: Path) -> dict[int, object]:
    with closing(open_store(load_settings(configuration))) as store:
        return dict(store.load(0).power_orders)
