"""A plan as a document: complete, plain, and with nothing that a user's text could break."""

from __future__ import annotations

import io
import json

import pytest
from msgspec.structs import replace
from rich.console import Console

from one_preempt.core.model.cluster_state import ClusterState
from one_preempt.core.model.image_transfer import ImageOrder, ImageOrderKind
from one_preempt.core.model.lease import PreemptionMethod
from one_preempt.core.model.plan import (
    Action,
    ActionKind,
    CandidateSet,
    Placement,
    Plan,
    Preemption,
    PreemptionEnd,
    Reason,
    Refusal,
    Victim,
)
from one_preempt.core.model.reservation import Booking, Reservation, Verdict, VerdictGiven
from one_preempt.explanation.explain import plan_document, printable
from one_preempt.explanation.tables import plan_tables
from tests.core.recounted_cluster import cluster, host, waiting

PREEMPTION = Preemption(
    id="p-7",
    preemptor_lease_id=7,
    victims=(
        Victim(vm_id=6, lease_id=6, host_id=2, method=PreemptionMethod.STOP),
        Victim(vm_id=5, lease_id=5, host_id=1, method=PreemptionMethod.MIGRATE, target_host_id=3),
    ),
    placements=(Placement(vm_id=7, host_id=1, datastore_id=100),),
    policy="MOML",
    overhead_ms=27_800,
    optimal=True,
    bound_ms=27_800,
    decided_at_s=1_000,
    considered=(CandidateSet((2, 3, 5), 27_800, 3), CandidateSet((5, 6), 27_800, 2)),
    candidate_count=9,
    median_overhead_ms=50_000,
)
PLAN = Plan(
    made_at_s=1_000,
    policy="MOML",
    actions=(
        Action("stop-6", ActionKind.STOP, 6, 6, Reason("victim", "makes room for lease 7"), preemption_id="p-7"),
        Action(
            "deploy-7",
            ActionKind.DEPLOY,
            7,
            7,
            Reason("preemptor", "the room is free"),
            host_id=1,
            datastore_id=100,
            after=("stop-6",),
        ),
    ),
    preemptions=(PREEMPTION,),
    ended_preemptions=(PreemptionEnd("p-3", False, Reason("host-lost", "host 9 failed")),),
    refusals=(Refusal((8, 9), 8, Reason("no-capacity", "needs 4 CPU, 2 are free")),),
    wake_at_s=1_060,
)


RESERVED = replace(
    PLAN,
    bookings=(
        Booking(4, (Reservation(4, 5_000, None),)),
        Booking(7),
        Booking(8, (Reservation(8, 3_600, 7_200, (1, 2), firm=True), Reservation(8, 9_000, 9_900, (2, 2), firm=True))),
        Booking(9),
    ),
    verdicts=(
        VerdictGiven(8, Verdict.ACCEPTED, "reserved from 1970-01-01T01:00:00Z on"),
        VerdictGiven(9, Verdict.REFUSED, "there is no room for it"),
    ),
)


def a_state(*reserved: Reservation, vm_name: str = "urgent") -> ClusterState:
    hosts = [replace(host(number), name=f"node0{number}") for number in (1, 2)]
    state = cluster(hosts, [replace(waiting(7), name=vm_name)])
    return replace(state, reservations={one.lease_id: (one,) for one in reserved})


def shown(plan: Plan, state: ClusterState | None = None) -> str:
    output = io.StringIO()
    console = Console(file=output, width=200, force_terminal=False, color_system=None)
    for part in plan_tables(plan, state or a_state()):
        console.print(part)
    return output.getvalue()


def test_the_document_names_everything_that_the_plan_holds() -> None:
    document = json.loads(json.dumps(plan_document(PLAN)))
    assert (document["made_at"], document["policy"], document["wake_at"]) == (1_000, "MOML", 1_060)
    assert document["actions"][1] == {
        "id": "deploy-7",
        "kind": "deploy",
        "vm_id": 7,
        "lease": 7,
        "host_id": 1,
        "datastore_id": 100,
        "after": ["stop-6"],
        "reason": {"code": "preemptor", "text": "the room is free"},
        "preemption": None,
    }
    assert document["refusals"] == [
        {"vm_ids": [8, 9], "lease": 8, "code": "no-capacity", "text": "needs 4 CPU, 2 are free"}
    ]
    assert document["ended_preemptions"] == [
        {"id": "p-3", "fulfilled": False, "reason": {"code": "host-lost", "text": "host 9 failed"}}
    ]


def test_a_preemption_is_told_with_its_victims_methods_and_price_in_seconds() -> None:
    (preemption,) = json.loads(json.dumps(plan_document(PLAN)))["preemptions"]
    assert preemption["preemptor"] == 7
    assert preemption["victim_leases"] == [5, 6]
    assert [(victim["lease"], victim["method"], victim["target_host_id"]) for victim in preemption["victims"]] == [
        (6, "stop", None),
        (5, "migrate", 3),
    ]
    assert (preemption["overhead_s"], preemption["optimal"], preemption["bound_s"]) == (27.8, True, 27.8)
    assert preemption["candidates"][1] == {"leases": [5, 6], "overhead_s": 27.8, "frees_vms": 2}


def test_what_is_only_advised_stands_apart_from_what_is_done() -> None:
    advised = Plan(made_at_s=1, policy="MOV", advised=(PREEMPTION,), advised_actions=PLAN.actions)
    document = json.loads(json.dumps(plan_document(advised)))
    assert document["actions"] == []
    assert [(found["preemptor"], found["advised_only"]) for found in document["preemptions"]] == [(7, True)]
    assert len(document["advised_actions"]) == 2
    assert "would preempt" in shown(advised)


def test_the_tables_mark_the_chosen_set_and_name_hosts_and_vms() -> None:
    text = shown(PLAN)
    (chosen,) = [line for line in text.splitlines() if "chosen" in line]
    assert "{5, 6}" in chosen
    assert "27.8 s" in chosen
    deploy = next(line for line in text.splitlines() if " deploy " in line)
    assert "7 urgent" in deploy
    assert "node01" in deploy
    assert "needs 4 CPU, 2 are free" in text
    assert "Preemption p-3 is given up: host 9 failed" in text


def test_bookings_and_verdicts_stand_in_the_document() -> None:
    document = json.loads(json.dumps(plan_document(RESERVED)))
    assert document["bookings"][:3] == [
        {"lease": 4, "reservations": [{"start_at": 5_000, "end_at": None, "host_ids": [], "firm": False}]},
        {"lease": 7, "reservations": []},
        {
            "lease": 8,
            "reservations": [
                {"start_at": 3_600, "end_at": 7_200, "host_ids": [1, 2], "firm": True},
                {"start_at": 9_000, "end_at": 9_900, "host_ids": [2, 2], "firm": True},
            ],
        },
    ]
    assert document["verdicts"][1] == {"lease": 9, "verdict": "refused", "text": "there is no room for it"}
    assert (plan_document(PLAN)["bookings"], plan_document(PLAN)["verdicts"]) == ([], [])


def test_the_tables_tell_what_is_reserved_changed_withdrawn_or_starts() -> None:
    text = shown(RESERVED, a_state(Reservation(8, 3_000, 3_600, (1, 1), firm=True)))
    lines = [" ".join(line.split()) for line in text.splitlines()]
    first = lines.index("Room over time") + 2
    assert lines[first : first + 5] == [
        "4 reserved 1970-01-01 01:23:20 UTC open picked at the start promise",
        "7 starts now",
        "8 changed 1970-01-01 01:00:00 UTC 1970-01-01 02:00:00 UTC node01, node02 firm",
        "1970-01-01 02:30:00 UTC 1970-01-01 02:45:00 UTC node02, node02 firm",
        "9 withdrawn",
    ]
    assert "2 verdicts" in lines[0]
    assert "9 refused there is no room for it" in lines


def test_an_empty_plan_is_one_line() -> None:
    assert shown(Plan(made_at_s=0, policy="NOP")).strip().splitlines() == [
        "Plan of 1970-01-01 00:00:00 UTC, preemption policy NOP: 0 actions, 0 preemptions, 0 refusals"
    ]


def test_a_choice_that_is_not_proven_best_says_so() -> None:
    unsure = replace(PREEMPTION, optimal=False, bound_ms=20_000)
    assert "at least 20.0 s whatever is chosen" in shown(replace(PLAN, preemptions=(unsure,)))


@pytest.mark.parametrize("name", ["[bold red]me[/]", "\x1b[31mred\x1b[0m", "a\nb", "\x9b31m", "\u202egnp.exe"])
def test_a_users_name_is_neither_markup_nor_control(name: str) -> None:
    text = shown(PLAN, a_state(vm_name=name))
    assert not set(text) & set("\x1b\x9b\u202e")
    if name.isprintable():
        assert name in text


def test_a_name_of_any_length_is_cut() -> None:
    assert printable("x" * 1_000_000, 10) == "x" * 9 + "…"


def test_images_that_are_brought_to_hosts_are_told_and_shown() -> None:
    bring = ImageOrder(ImageOrderKind.BRING, 7, 3, "node-3", 1, 600, 0, 50, 80, (4,), "START", "for lease 4")
    drop = replace(bring, kind=ImageOrderKind.DROP, image_id=8, needed_at_s=None, lease_ids=())
    plan = Plan(made_at_s=0, policy="MOML", image_orders=(bring,), advised_image_orders=(drop,))
    document = json.loads(json.dumps(plan_document(plan)))
    assert document["image_orders"] == [
        {
            "id": "stage/7/3", "kind": "stage", "image_id": 7, "host_id": 3, "host": "node-3", "size_mib": 600,
            "begin_at": 0, "due_at": 50, "needed_at": 80, "leases": [4],
            "reason": {"code": "START", "text": "for lease 4"},
        }
    ]  # fmt: skip
    assert [one["id"] for one in document["advised_image_orders"]] == ["drop/8/3"]
    text = shown(plan)
    assert "Images on hosts" in text
    assert "1970-01-01 00:01:20 UTC" in text
    assert "as it would be" in text
