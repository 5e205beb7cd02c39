"""one.template.instantiate: whose rights count, what replaces what, and how the VM is named."""

from __future__ import annotations

import pytest

from one_preempt.simulation.simulated_cloud.cloud import SimulatedCloud
from one_preempt.simulation.simulated_cloud.errors import ErrorCode, OnedError
from one_preempt.simulation.simulated_cloud.objects import Caller
from one_preempt.simulation.simulated_cloud.states import VmState

EXTRA = "<TEMPLATE><LEASE><TYPE>BE-SUSPENDABLE</TYPE></LEASE><CPU>2</CPU></TEMPLATE>"


@pytest.fixture
def clouds_user() -> tuple[SimulatedCloud, Caller, int]:
    """A cloud with a template that everybody may use, and a member of the group users."""
    built = SimulatedCloud()
    pattern = built.add_vm_template("worker", {"CPU": ["1"], "MEMORY": ["512"], "LEASE": ["old"], "OWNER": ["kept"]})
    pattern.permissions.other_u = True
    return built, built.caller(built.add_user("ana", 1).id), pattern.id


def test_what_is_added_replaces_its_namesakes_and_the_rest_stays(
    clouds_user: tuple[SimulatedCloud, Caller, int],
) -> None:
    cloud, ana, template_id = clouds_user
    vm = cloud.vms[cloud.template_instantiate(ana, template_id, "", True, EXTRA, False)]
    assert (vm.uid, vm.name, vm.state) == (ana.uid, "worker-0", VmState.HOLD)
    assert vm.user_template == {"LEASE": [{"TYPE": "BE-SUSPENDABLE"}], "OWNER": ["kept"]}
    assert (vm.template["CPU"], vm.template["MEMORY"], vm.template["TEMPLATE_ID"]) == (["2"], ["512"], ["0"])
    named = cloud.vms[cloud.template_instantiate(ana, template_id, "render", False, "", False)]
    assert (named.name, named.state) == ("render", VmState.PENDING)


def refusal_code(cloud: SimulatedCloud, caller: Caller, template_id: int, extra: str) -> ErrorCode:
    with pytest.raises(OnedError) as caught:
        cloud.template_instantiate(caller, template_id, "", True, extra, False)
    assert not cloud.vms
    return caught.value.code


def test_rights_restricted_attributes_and_unknown_ids_are_refused(
    clouds_user: tuple[SimulatedCloud, Caller, int],
) -> None:
    cloud, ana, template_id = clouds_user
    assert refusal_code(cloud, ana, 99, "") == ErrorCode.NO_EXISTS
    assert refusal_code(cloud, ana, template_id, 'USER_PRIORITY="1"') == ErrorCode.AUTHORIZATION
    assert refusal_code(cloud, ana, template_id, "LEASE=[") == ErrorCode.INTERNAL
    stranger = cloud.caller(cloud.add_user("zoe", cloud.add_group("guests", may_create_vms=False).id).id)
    assert refusal_code(cloud, stranger, template_id, EXTRA) == ErrorCode.AUTHORIZATION, "may not create templates"
    cloud.vm_templates[template_id].permissions.other_u = False
    assert refusal_code(cloud, ana, template_id, "") == ErrorCode.AUTHORIZATION
