"""Template text and XML as oned reads them, with the trap in the text form."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from one_preempt.simulation.simulated_cloud.errors import ErrorCode, OnedError
from one_preempt.simulation.simulated_cloud.objects import ONEADMIN
from one_preempt.simulation.simulated_cloud.templates import (
    TemplateSyntaxError,
    merged,
    parse_template,
    vectors_of,
    write_template,
)

if TYPE_CHECKING:
    from tests.simulation.simulated_cloud.conftest import Stage

_WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"], exclude_characters="\\"), max_size=20)
_NAMES = st.from_regex(r"[A-Z][A-Z0-9_]{0,8}", fullmatch=True)
_VALUES = st.one_of(
    _WORDS.map(str.strip), st.dictionaries(_NAMES, _WORDS.map(str.strip), min_size=1, max_size=3)
)  # fmt: skip


def test_text_is_read_with_comments_vectors_bare_words_and_repeated_names() -> None:
    text = '# note\ncpu = 2 \nNIC = [ network = "a, b", MODEL=virtio ]\nNIC=[NETWORK="c"]\nEMPTY =\nLAST = "x \\" y"'
    assert parse_template(text) == {
        "CPU": ["2"],
        "NIC": [{"NETWORK": "a, b", "MODEL": "virtio"}, {"NETWORK": "c"}],
        "EMPTY": [""],
        "LAST": ['x " y'],
    }


def test_a_quote_in_a_value_ends_it_and_the_rest_are_attributes() -> None:
    words = 'bad" \nUSER_PRIORITY="999'
    assert parse_template(f'SCHED_MESSAGE = "{words}"') == {"SCHED_MESSAGE": ["bad"], "USER_PRIORITY": ["999"]}


def test_xml_is_read_without_entities_and_keeps_words_as_words() -> None:
    words = 'bad" \nUSER_PRIORITY="999'
    xml = f"<VM><SCHED_MESSAGE><![CDATA[{words}]]></SCHED_MESSAGE><LEASE><TYPE>BE</TYPE><SIZE>2</SIZE></LEASE></VM>"
    assert parse_template(xml) == {"SCHED_MESSAGE": [words], "LEASE": [{"TYPE": "BE", "SIZE": "2"}]}
    bomb = '<!DOCTYPE a [<!ENTITY e "boom">]><VM><A>&e;</A></VM>'
    assert "boom" not in str(parse_template(bomb))


def test_an_empty_element_changes_nothing_and_an_empty_cdata_section_empties() -> None:
    old = parse_template('A = "1"')
    for nothing in ("<VM><A></A></VM>", "<VM><A/></VM>", "<VM><A><!-- --></A></VM>"):
        assert merged(old, parse_template(nothing)) == {"A": ["1"]}
    for empty in ("<VM><A><![CDATA[]]></A></VM>", "<VM><A> </A></VM>"):
        assert merged(old, parse_template(empty)) == {"A": [""]}
    assert parse_template("<VM><A><B/><C>1</C></A></VM>") == {"A": [{"C": "1"}]}


@pytest.mark.parametrize(
    "text", ["A=[B", "A", "A = [ B = ", "= x", "A = [ B = 1 C = 2 ]", "<VM><A></VM>", "<", "A = ["]
)
def test_what_is_no_template_is_refused_and_says_where(text: str) -> None:
    with pytest.raises(TemplateSyntaxError, match=r"^Parse error: "):
        parse_template(text)


@given(st.dictionaries(_NAMES, st.lists(_VALUES, min_size=1, max_size=3), max_size=5))
def test_what_is_written_is_read_back(template: dict[str, list[str | dict[str, str]]]) -> None:
    assert parse_template(write_template(template)) == template


@given(st.text(max_size=60))
def test_any_text_is_a_template_or_a_syntax_error(text: str) -> None:
    try:
        read = parse_template(text)
    except TemplateSyntaxError:
        return
    assert all(name == name.upper() and values for name, values in read.items())


def test_appending_replaces_namesakes_and_an_empty_vector_removes() -> None:
    old = parse_template('A = "1"\nNIC = [ X = "1" ]\nNIC = [ X = "2" ]')
    assert merged(old, parse_template('NIC = [ X = "3" ]\nB = "2"')) == {
        "A": ["1"], "B": ["2"], "NIC": [{"X": "3"}],
    }  # fmt: skip
    assert "NIC" not in merged(old, parse_template("NIC = []"))


def test_an_update_injects_for_oneadmin_and_survives_the_owner_s_replace(stage: Stage) -> None:
    vm = stage.create('CPU = "1"\nMEMORY = "64"\nLEASE = [ TYPE = "BE-SUSPENDABLE" ]\nNOTE = "mine"')
    assert vm.user_template == {"LEASE": [{"TYPE": "BE-SUSPENDABLE"}], "NOTE": ["mine"]}
    stage.cloud.vm_update(ONEADMIN, vm.id, 'SCHED_MESSAGE = "bad" \nUSER_PRIORITY="999"', 1)
    assert vm.user_template["USER_PRIORITY"] == ["999"]
    stage.cloud.vm_update(stage.alice, vm.id, 'NOTE = "new"', 0)
    assert vm.user_template == {"NOTE": ["new"], "USER_PRIORITY": ["999"]}


def test_an_owner_cannot_write_restricted_attributes(stage: Stage) -> None:
    vm = stage.create()
    for append, words in ((1, "User Template includes a restricted attribute"), (0, "Tried to change restricted")):
        with pytest.raises(OnedError, match=words) as refused:
            stage.cloud.vm_update(stage.alice, vm.id, 'USER_PRIORITY = "999"', append)
        assert refused.value.code == ErrorCode.INTERNAL
    with pytest.raises(OnedError, match="VM Template includes a restricted attribute USER_PRIORITY"):
        stage.create('CPU = "1"\nMEMORY = "64"\nUSER_PRIORITY = "999"')


def test_anybody_may_ask_for_devices_though_pci_is_restricted_because_oned_looks_for_a_text(stage: Stage) -> None:
    vm = stage.create('CPU = "1"\nMEMORY = "64"\nPCI = [ CLASS = "0302" ]')
    assert vectors_of(vm.template, "PCI")[0]["CLASS"] == "0302"
    with pytest.raises(OnedError, match="VM Template includes a restricted attribute PCI"):
        stage.create('CPU = "1"\nMEMORY = "64"\nPCI = "0302"')


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('CPU = "1"', "MEMORY attribute must be a positive integer value."),
        ('CPU = "1"\nMEMORY = "-5"', "MEMORY attribute must be a positive integer value."),
        ('CPU = "nan"\nMEMORY = "5"', "CPU attribute must be a positive float or integer value."),
        ('CPU = "0"\nMEMORY = "5"', "CPU attribute must be a positive float or integer value."),
        ('CPU = "1"\nMEMORY = "5"\nVCPU = "x"', "VCPU attribute must be a positive integer value."),
        ('CPU = "1"\nMEMORY = "5"\nNAME = "a<b"', "Invalid NAME, char '<' is not allowed"),
    ],
)
def test_numbers_and_names_that_oned_refuses_leave_no_trace(stage: Stage, text: str, words: str) -> None:
    with pytest.raises(OnedError) as refused:
        stage.create(text)
    assert refused.value.message == words
    assert stage.cloud.vms == {}
    assert stage.cloud.audit() == []


def test_a_vm_keeps_image_address_and_context_until_it_is_done(stage: Stage) -> None:
    store = stage.cloud.add_datastore("images")
    image, network = stage.cloud.add_image("os", store.id), stage.cloud.add_network("net", size=2)
    text = 'CPU = "1"\nMEMORY = "64"\nDISK = [ IMAGE = "os" ]\nNIC = [ NETWORK = "net" ]\nCONTEXT = [ NETWORK = "YES" ]'
    vm = stage.create(text)
    stage.create(text)
    assert (
        vectors_of(vm.template, "NIC")[0]["IP"] == vectors_of(vm.template, "CONTEXT")[0]["ETH0_IP"] == "192.168.150.10"
    )
    assert (image.vm_ids, network.used_leases) == ([0, 1], 2)
    with pytest.raises(OnedError, match="Cannot get IP/MAC lease"):
        stage.create(text)
    assert image.vm_ids == [0, 1]
    stage.do(vm, "terminate")
    assert (image.vm_ids, network.used_leases) == ([1], 1)


def test_an_automatic_nic_gets_its_address_at_deploy_where_one_was_chosen(stage: Stage) -> None:
    network = stage.cloud.add_network("net")
    text = 'CPU = "1"\nMEMORY = "64"\nNIC = [ NETWORK_MODE = "auto" ]'
    chosen, left = stage.create(text), stage.create(text)
    stage.cloud.vm_deploy(ONEADMIN, chosen.id, 0, extra=f"NIC = [ NIC_ID = 0, NETWORK_ID = {network.id} ]")
    stage.cloud.vm_deploy(ONEADMIN, left.id, 0)
    assert vectors_of(chosen.template, "NIC")[0]["NETWORK"] == "net"
    assert "NETWORK_ID" not in vectors_of(left.template, "NIC")[0]
