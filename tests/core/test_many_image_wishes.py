"""Many ask for a START at once: what each of them needs of images is found once or twice, however many there are."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from one_preempt.core.availability.timeline import Stay
from one_preempt.core.image_staging.staging_plan import ImageNeed
from one_preempt.core.model.lease import Lease
from one_preempt.core.model.reservation import Verdict
from one_preempt.core.model.virtual_machine import VirtualMachine
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.images import promised_images
from tests import scenario_reader

WISHES = 30


def test_what_others_need_is_not_found_anew_for_each_wish(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[int] = []
    needs_at = promised_images.needs_at

    def counted(draft: PlanDraft, lease: Lease, vms: Sequence[VirtualMachine], stay: Stay) -> tuple[ImageNeed, ...]:
        found.append(lease.id)
        return needs_at(draft, lease, vms, stay)

    monkeypatch.setattr(promised_images, "needs_at", counted)
    lease = {"TYPE": "DC-NON-PREEMPTABLE", "START_IN_S": 9000, "DURATION_S": 3600}
    wish = {"user": "lea", "state": "HOLD", "cpu": 1, "lease": lease}
    decided = scenario_reader.play(
        {
            "settings": {"image_staging": {"mode": "act"}},
            "hosts": {0: {"cpu": WISHES, "memory": 99_000}},
            "datastore": {"shared": False},
            "vms": {number: wish | {"disks": [{"size": 600, "image": number}]} for number in range(WISHES)},
        }
    )
    assert [one.verdict for one in decided.plan.verdicts] == [Verdict.ACCEPTED] * WISHES
    assert max(map(found.count, range(WISHES))) <= 2
