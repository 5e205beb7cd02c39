"""Many ask for a START at once: what each needs of images is found once or twice, and few plans are made for all."""

from __future__ import annotations

from collections import Counter
from unittest.mock import Mock

import pytest

from one_preempt.core.image_staging.staging_plan import staging_plan
from one_preempt.core.model.reservation import Verdict
from one_preempt.core.phases.images import promised_images
from one_preempt.core.verify import image_rules, verify
from tests import scenario_reader

WISHES = 30


@pytest.mark.parametrize("pool_mib", [None, 600 * WISHES])
def test_neither_needs_nor_plans_are_found_anew_for_each_wish(
    monkeypatch: pytest.MonkeyPatch, pool_mib: int | None
) -> None:
    found, planned = Mock(wraps=promised_images.needs_at), Mock(wraps=staging_plan)
    monkeypatch.setattr(promised_images, "needs_at", found)
    monkeypatch.setattr("one_preempt.core.phases.images.image_draft.staging_plan", planned)
    lease = {"TYPE": "DC-NON-PREEMPTABLE", "START_IN_S": 9000, "DURATION_S": 3600}
    wish = {"user": "lea", "state": "HOLD", "cpu": 1, "lease": lease}
    decided = scenario_reader.play(
        {
            "settings": {"image_staging": {"mode": "act", "pool_mib": pool_mib}},
            "hosts": {0: {"cpu": WISHES, "memory": 99_000}},
            "datastore": {"shared": False},
            "vms": {number: wish | {"disks": [{"size": 600, "image": number}]} for number in range(WISHES)},
        }
    )
    assert [one.verdict for one in decided.plan.verdicts] == [Verdict.ACCEPTED] * WISHES
    assert max(Counter(call.args[1].id for call in found.call_args_list).values()) <= 2
    assert planned.call_count <= 2


def test_many_pools_without_room_are_not_each_a_plan_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """What may come ahead is looked for among all who are expected, as long as no host has room for it."""
    planned = Mock(wraps=staging_plan)
    monkeypatch.setattr("one_preempt.core.image_staging.ahead.staging_plan", planned)
    guest = {"user": "lea", "cpu": 1, "running_for_s": 600, "lease": {"TYPE": "DC-NON-PREEMPTABLE", "DURATION_S": 3600}}
    start = {"TYPE": "DC-NON-PREEMPTABLE", "START_IN_S": 9000, "DURATION_S": 3600}
    waits = {"user": "eva", "state": "HOLD", "cpu": 1, "lease": {"TYPE": "BE-SUSPENDABLE", "DURATION_S": 600}}
    decided = scenario_reader.play(
        {
            "settings": {
                "image_staging": {"mode": "act", "pool_mib": 500, "ahead_s": 3600},
                "time": {"backfilling": "conservative"},
            },
            "hosts": {host: {"cpu": 1, "memory": 9000} for host in range(WISHES)},
            "datastore": {"shared": False},
            "vms": {number: guest | {"host": number} for number in range(WISHES)}
            | {50: {"user": "lea", "state": "HOLD", "cpu": 1, "lease": start, "disks": [{"size": 400, "image": 1}]}}
            | {100 + number: waits | {"disks": [{"size": 600, "image": 2}]} for number in range(WISHES)},
        }
    )
    assert [one.verdict for one in decided.plan.verdicts] == [Verdict.ACCEPTED]
    assert (decided.plan.image_orders, decided.violations) == ((), ())
    assert planned.call_count == 1


def test_the_recount_looks_at_each_promise_a_few_times_however_many_images_are_removed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start = {"TYPE": "DC-NON-PREEMPTABLE", "START_IN_S": 9000, "DURATION_S": 3600}
    waits = {"user": "lea", "state": "HOLD", "cpu": 1, "lease": start, "disks": [{"size": 600, "image": 7}]}
    decided = scenario_reader.play(
        {
            "settings": {
                "image_staging": {"mode": "act", "policy": "EDF", "link_megabit_per_s": 10_000, "pool_mib": 1000}
            },
            "hosts": {host: {"cpu": 1} for host in range(WISHES)},
            "datastore": {"shared": False},
            "images": {"held": {host: {9: 800} for host in range(WISHES)}},
            "vms": dict.fromkeys(range(WISHES), waits),
            "ledger": {
                "leases": {number: {"verdict": "accepted"} for number in range(WISHES)},
                "reservations": {
                    number: [{"start_in_s": 9000, "end_in_s": 12_600, "hosts": [number], "firm": True}]
                    for number in range(WISHES)
                },
            },
        }
    )
    assert len(decided.plan.image_orders) == WISHES
    looked_at = Mock(wraps=image_rules._promised_places)
    monkeypatch.setattr(image_rules, "_promised_places", looked_at)
    assert verify(decided.state, decided.plan, rules=decided.recount_rules) == ()
    assert looked_at.call_count <= 4 * WISHES
