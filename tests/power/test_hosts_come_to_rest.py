"""Once nobody comes or goes any more, hosts come to rest, whatever it is that somebody waits for.

Stories are drawn: hosts with and without devices, VM groups, little space, leases and gangs that may ask for more than
there is. Whoever has a host woken that he does not go to would have it woken again and again.
"""

from __future__ import annotations

import random

import pytest
from msgspec.structs import replace

from one_preempt.core.model.power_sequence import PowerStepKind
from one_preempt.simulation.simulator.site import EXTERNALS, LOCALS, simulation_settings
from tests.power import power_play
from tests.power.power_play import ALL_IDLE_SLEEP, PowerPlay, with_policy
from tests.power.test_woken_for_hardware import ASKS, give_devices

STORIES = 12
# Found in more stories than are played here.
BESIDES = (90, 195, 332)
TYPES = ("BE-SUSPENDABLE", "BE-CANCELLABLE", "DC-MIGRATABLE", "DC-NON-PREEMPTABLE")
COMES_TO_REST_S, STAYS_AT_REST_S = 3600, 2700
ROLES = ({"POLICY": "AFFINED"}, {"POLICY": "ANTI_AFFINED"}, {"HOST_AFFINED": "0"}, {"HOST_ANTI_AFFINED": "0"})


class DrawnPlay:
    """A small cloud on which all sleep, and what is asked of it."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.told: list[str] = []
        policy = self.chance.choice(ALL_IDLE_SLEEP)
        self.play = PowerPlay(hosts=self.chance.randint(2, 4), rules=with_policy("look-ahead"))
        cloud = self.play.cloud
        give_devices(self.play, {host: self.chance.choice((0, 0, 1, 2)) for host in cloud.hosts})
        self.groups = [cloud.add_vm_group(f"group{number}", {"role": dict(role)}) for number, role in enumerate(ROLES)]
        (system,) = [one for one in cloud.datastores.values() if one.name == "shared"]
        if self.chance.random() < 0.5:
            cloud.space.fill(system.id, 3000)
        self.play.until(lambda: len(self.play.asleep()) == len(cloud.hosts))
        self.play.rules = with_policy(policy)
        self.play.start_daemon()
        self.told.append(f"policy {policy}, {len(cloud.hosts)} hosts")

    def submit(self) -> None:
        """A plain VM or a lease, of one VM or several."""
        chance, play = self.chance, self.play
        size = chance.choice((1, 1, 1, 2, 3, 5))
        asks = [f'CPU = "{chance.choice(("0.5", "1", "2", "3"))}"\nMEMORY = "{chance.choice((256, 2048, 5000))}"\n']
        if chance.random() < 0.3:
            asks.append(ASKS)
        if chance.random() < 0.3:
            asks.append(f'DISK = [ TYPE = "fs", FORMAT = "raw", SIZE = "{chance.choice((1000, 4000))}" ]\n')
        if chance.random() < 0.3:
            asks.append(f'VMGROUP = [ VMGROUP_ID = "{chance.choice(self.groups).id}", ROLE = "role" ]\n')
        is_lease = size > 1 or chance.random() < 0.5
        if is_lease:
            # Who may preempt is local, and the others are not.
            kind = chance.choice(TYPES)
            name, last = f"lease{len(play.cloud.vms)}", chance.choice(("", ', DURATION = "40:00:00"'))
            asks.append(f'LEASE = [ TYPE = "{kind}", NAME = "{name}", SIZE = "{size}"{last} ]\n')
        owner = play.user(LOCALS if not is_lease or "NON-PREEMPTABLE" in asks[-1] else EXTERNALS)
        template = "".join(asks)
        # Without a lease HOLD is its owner's wish.
        hold = is_lease or chance.random() < 0.2
        self.told.append(f"{size} x {' '.join(template.split())}{' on HOLD' * (hold and not is_lease)}")
        play.cloud.add_vms(owner if is_lease else play.user("oneadmin"), template, size, hold=hold)


@pytest.mark.parametrize("seed", sorted({*range(STORIES), *BESIDES}))
def test_hosts_come_to_rest_whatever_somebody_waits_for(seed: int) -> None:
    drawn = DrawnPlay(seed)
    play = drawn.play
    play.pace_s = 15
    for _ in range(drawn.chance.randint(1, 6)):
        drawn.submit()
        play.pass_time(drawn.chance.choice((0, 60, 300)))
    play.pass_time(COMES_TO_REST_S)
    began = len(play.reports)
    play.pass_time(STAYS_AT_REST_S)
    steps = [step for report in play.reports[began:] for step in (report.plan.power_steps if report.plan else ())]
    switched = [step.id for step in steps if step.kind is not PowerStepKind.READ_POWER]
    last = play.reports[-1].plan
    waits = [f"{one.vm_ids}: {one.reason.text}" for one in (last.refusals if last else ())]
    assert switched == [], "\n".join(["", *drawn.told, "", *waits])


def test_no_host_is_woken_for_who_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """`max_vm`: the first of the queue is larger than any host, and nobody behind it is looked at."""
    settings = simulation_settings()
    one_at_a_time = replace(settings, matchmaker=replace(settings.matchmaker, max_vm=1))
    monkeypatch.setattr(power_play, "simulation_settings", lambda: one_at_a_time)
    play = PowerPlay(hosts=1, rules=with_policy("look-ahead"))
    play.until(lambda: play.asleep() == [0])
    play.submit(cpu=8)
    play.submit()
    began, play.pace_s = len(play.reports), 15
    play.pass_time(900)
    steps = [step for report in play.reports[began:] for step in (report.plan.power_steps if report.plan else ())]
    assert [step.id for step in steps if step.kind is not PowerStepKind.READ_POWER] == []
