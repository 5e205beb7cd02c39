"""The XML of plans."""

from __future__ import annotations

from one_preempt.adapters.driver.plan_document import PlanAction, in_turns, plan_document


def test_an_empty_plan_has_an_id_alone() -> None:
    assert plan_document(-1) == "<PLAN><ID>-1</ID></PLAN>"


def test_an_action_has_all_that_oned_wants() -> None:
    plan = plan_document(100, [PlanAction(1, "deploy", 2, 3, ((0, 7), (1, 8)))])
    assert plan == (
        "<PLAN><ID>100</ID><ACTION><VM_ID>1</VM_ID><OPERATION>deploy</OPERATION><HOST_ID>2</HOST_ID><DS_ID>3</DS_ID>"
        "<NIC><NIC_ID>0</NIC_ID><NETWORK_ID>7</NETWORK_ID></NIC>"
        "<NIC><NIC_ID>1</NIC_ID><NETWORK_ID>8</NETWORK_ID></NIC></ACTION></PLAN>"
    )


def test_hosts_take_turns_and_keep_their_own_order() -> None:
    actions = [PlanAction(vm_id, "deploy", host_id, 0) for vm_id, host_id in ((1, 5), (2, 5), (3, 6), (4, 5), (5, 6))]
    assert [action.vm_id for action in in_turns(actions)] == [1, 3, 2, 5, 4]
