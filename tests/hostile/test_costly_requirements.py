"""Requirements and ranks within all limits that are meant to keep the cycle busy: they cost their owner his own VMs."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from one_preempt.core.matching import reasons
from one_preempt.core.matching.expressions import owners_trials
from one_preempt.core.matching.expressions.attributes import HOST_LAYOUT, AttributeTable, FloatArray
from one_preempt.core.matching.expressions.rank import parse_rank
from one_preempt.core.matching.expressions.requirements import parse_requirement
from one_preempt.core.matching.placement import Matchmaker
from one_preempt.core.matching.reasons import Unplaced
from one_preempt.core.model.virtual_machine import Nic, VirtualMachine
from tests.core.matching.small_cloud import cloud, host, matchmaker, network, vm
from tests.core.matching.test_following import table_after
from tests.counted_work import lines_run
from tests.hostile.front_row import front_row

MALLORY = 77
CROWDED = [host(number, vm_ids=tuple(range(number * 500, number * 500 + 500))) for number in range(4)]


def asking(vm_id: int, requirements: str, uid: int = MALLORY) -> VirtualMachine:
    return replace(vm(vm_id), uid=uid, sched_requirements=requirements)


def patterns(vm_id: int, count: int) -> str:
    """So many that no host meets, each tried on every VM of every host, and different for every VM that asks."""
    return " | ".join(f'"VMS/ID" @> "*[0-9]*[!0-9]*{vm_id}x{number}*"' for number in range(count))


def told(maker: Matchmaker, machine: VirtualMachine) -> str:
    """Why no host suits it; "" where one does."""
    refusal = maker.match(machine).refusal
    return refusal.reason.text if refusal else ""


@pytest.mark.parametrize("operator", ["@>", "=", "!="])
def test_patterns_that_would_take_too_long_are_refused_in_words_before_any_is_tried(operator: str) -> None:
    hosts = [host(number, attributes={"TEMPLATE/NOTE": ("a" * 100 + str(number),)}) for number in range(100)]
    costly = " & ".join(f'NOTE {operator} "*[!b]a[!b]a[!b]*{number}"' for number in range(200))
    parse_requirement(costly)  # What Python compiles of it is remembered from now on.
    maker = matchmaker(cloud(hosts))

    work = lines_run(lambda: maker.match(asking(1, costly)))

    refusal = maker.match(asking(1, costly)).refusal
    assert refusal is not None
    assert refusal.reason.code == reasons.UNREADABLE
    assert refusal.reason.text.startswith("SCHED_REQUIREMENTS takes too long: its patterns (texts with * ? or [) ")
    assert len(refusal.reason.text) < 250
    # Most of it is reading the text.
    assert work < 1.1 * lines_run(lambda: matchmaker(cloud(hosts[:1])).match(asking(1, costly)))
    assert told(maker, asking(2, 'NOTE = "a*7"')) == ""


def test_many_vms_of_one_owner_take_no_longer_than_he_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owners_trials, "OWNER_TRIALS", 100_000)

    def work(crowd: int) -> int:
        maker = matchmaker(cloud(CROWDED))
        return lines_run(lambda: [maker.match(asking(vm_id, patterns(vm_id, 2))) for vm_id in range(crowd)])

    assert work(160) < 1.1 * work(80)


def test_many_owners_who_act_as_one_take_little_more_than_all_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owners_trials, "OWNER_TRIALS", 100_000)
    monkeypatch.setattr(owners_trials, "TRIALS_FOR_ALL", 200_000)
    monkeypatch.setattr(owners_trials, "FEW_TRIALS", 500)

    def work(owners: int) -> int:
        maker = matchmaker(cloud(CROWDED))
        wishes = [asking(vm_id, patterns(vm_id, 8), uid=vm_id // 4) for vm_id in range(4 * owners)]
        taken = lines_run(lambda: [maker.match(wish) for wish in wishes])
        # Whoever writes what people write is looked at all the same.
        assert told(maker, asking(9000, 'NAME = "node[12]"', uid=9000)) == ""
        assert told(maker, asking(9001, 'NAME = "node[23]"', uid=9000)) == ""
        return taken

    assert work(32) < 1.5 * work(8)


@pytest.mark.parametrize(
    "text",
    [
        " | ".join(f"CURRENT_VMS = {number}" for number in range(1000)),
        " | ".join(f"ID = {number}" for number in range(1000)),
        " | ".join(f'NAME = "x{number}"' for number in range(1000)),
        'NAME = "' + "[ab]*" * 200 + '"',
    ],
)
def test_long_texts_count_as_well_as_patterns(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(owners_trials, "OWNER_TRIALS", 100_000)
    maker = matchmaker(cloud(CROWDED))
    put_off = ["waits for a later" in told(maker, asking(vm_id, f"{text} | ID = {vm_id}")) for vm_id in range(20)]

    assert put_off == sorted(put_off)
    assert 0 < sum(put_off) < 20


def test_who_took_long_keeps_only_himself_waiting_and_is_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owners_trials, "OWNER_TRIALS", 10_000)
    snapshot = cloud(CROWDED)
    maker = matchmaker(snapshot)
    assert told(maker, asking(1, patterns(1, 4))).endswith("Change SCHED_REQUIREMENTS, or wait for such a host.")

    late = asking(2, 'NAME = "node[12]"')
    assert told(maker, late).startswith("SCHED_REQUIREMENTS waits for a later cycle: the expressions of its owner's ")
    assert len(told(maker, late)) < 250
    assert told(maker, asking(3, late.sched_requirements, uid=5)) == ""
    assert told(maker, asking(4, "")) == ""

    assert maker.follow(snapshot, maker.hosts, maker.options)
    assert maker.match(late).mask.tolist() == [False, True, True, False]


def test_what_was_found_before_is_put_off_where_changed_hosts_cannot_be_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(owners_trials, "OWNER_TRIALS", 10_000)
    first = cloud(CROWDED)
    maker, known = matchmaker(first), asking(2, 'NAME = "node[12]"')
    assert maker.match(known).mask.tolist() == [False, True, True, False]

    second = replace(first, hosts={**first.hosts, 3: replace(CROWDED[3], name="node1")})
    assert maker.follow(second, table_after(second.hosts, maker.hosts), maker.options)
    told(maker, asking(1, patterns(1, 4)))
    assert "waits for a later cycle" in told(maker, known)

    assert maker.follow(second, maker.hosts, maker.options)
    assert maker.match(known).mask.tolist() == [False, True, True, True]


def test_no_network_or_datastore_is_given_to_who_asks_again_and_took_too_long_since() -> None:
    wish = Nic(0, None, True, "ID < 5")
    picky = replace(asking(1, ""), nics=(wish,), sched_datastore_requirements="FREE_MB > 1")
    maker = matchmaker(cloud([host(0)], [picky], networks=[network(1)]))
    maker.expressions.trials.spend(MALLORY, owners_trials.OWNER_TRIALS)

    assert maker.with_store_and_networks(picky, [0], maker.new_room()) == []
    refused = maker.place(picky, maker.new_room())
    assert isinstance(refused, Unplaced)
    assert refused.reason.text.startswith("SCHED_DS_REQUIREMENTS waits for a later cycle")


def test_ranks_that_took_too_long_make_all_hosts_equal_until_the_next_cycle() -> None:
    snapshot = cloud(CROWDED)
    maker = matchmaker(snapshot)
    wish = replace(asking(1, ""), sched_rank="0 - ID")
    maker.expressions.trials.spend(MALLORY, owners_trials.OWNER_TRIALS)

    assert maker.preference(wish).tolist() == [3, 2, 1, 0]
    assert maker.preference(replace(wish, uid=5)).tolist() == [0, 1, 2, 3]
    assert maker.rank_problem(replace(wish, sched_rank="ID ID")) == ""

    assert maker.follow(snapshot, maker.hosts, maker.options)
    assert maker.preference(wish).tolist() == [0, 1, 2, 3]
    assert "cannot be read" in maker.rank_problem(replace(wish, sched_rank="ID ID"))


def test_many_ranks_of_one_owner_take_no_longer_than_he_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owners_trials, "OWNER_TRIALS", 20_000)

    def work(crowd: int) -> int:
        maker = matchmaker(cloud(CROWDED))
        wishes = [replace(asking(1, ""), sched_rank=f"{'ID + ' * 200} {number}") for number in range(crowd)]
        return lines_run(lambda: [maker.preference(wish) for wish in wishes])

    assert work(160) < 1.1 * work(80)


def test_a_name_that_stands_in_a_rank_a_thousand_times_is_read_of_the_hosts_once() -> None:
    asked: list[str] = []

    class Watched(AttributeTable):
        def numbers(self, name: str) -> FloatArray:
            asked.append(name)
            return super().numbers(name)

    table = Watched(HOST_LAYOUT, [{"ID": ("1",)}, {"ID": ("2",)}])

    assert parse_rank(" + ".join(["ID"] * 1000)).scores(table).tolist() == [1000, 2000]
    assert asked == ["ID"]


def test_who_was_put_off_has_his_turn_once_the_others_were_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reader makes all pools anew for each cycle; what an owner's texts took to be read is spent once."""

    def names(number: int) -> str:
        return " | ".join(f'HOSTNAME = \\"node{(number * 7 + one) % 10000:04d}\\"' for one in range(120))

    monkeypatch.setattr(owners_trials, "OWNER_TRIALS", 60_000)
    with front_row(tmp_path, instant=True) as row:
        for number in range(25):
            row.submit("eva", cpu="50", more=f'SCHED_REQUIREMENTS="{names(number)} | ID < 100"')
        last = row.submit("eva", more='SCHED_REQUIREMENTS="ID < 100"')
        row.run(4)
        assert row.is_running(last)
