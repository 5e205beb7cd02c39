"""What power control learns of hosts from oned, how often that is asked for, and what counts while oned is silent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from xmlrpc.client import dumps

import pytest

from one_preempt.adapters.clock import FixedClock
from one_preempt.adapters.opennebula.host_attributes import KEPT_S, HostAttributes
from one_preempt.adapters.opennebula.transport import OnedTransport
from one_preempt.core.model.power import ListedHost
from one_preempt.ports import CloudUnavailable
from tests.adapters.opennebula.conftest import reply

TEMPLATES = {
    "node1": "<IM_MAD>kvm</IM_MAD><POWER_ADDRESS>10.0.0.1</POWER_ADDRESS><POWER_PASSWORD>c2VjcmV0</POWER_PASSWORD>",
    "node2": "<IM_MAD>kvm</IM_MAD>",
    "node3": "<IM_MAD>kvm</IM_MAD>",
}


class Hosts:
    """Three hosts, of which the template of the first says where its controller is. Each may be deleted."""

    def __init__(self, endpoint: Any) -> None:
        self.endpoint = endpoint
        self.first_id = 7
        self.templates = dict(TEMPLATES)
        endpoint.answer = self.answer

    def answer(self, method: str, parameters: tuple[Any, ...]) -> Any:
        documents = [
            f"<HOST><ID>{host_id}</ID><NAME>{name}</NAME><CLUSTER>batch</CLUSTER><TEMPLATE>{template}</TEMPLATE></HOST>"
            for host_id, (name, template) in enumerate(self.templates.items(), self.first_id)
        ]
        if method == "one.hostpool.info":
            return reply(True, f"<HOST_POOL>{''.join(documents)}</HOST_POOL>")
        place = parameters[0] - self.first_id
        if place not in range(len(documents)):
            return reply(False, "no such host", 0x400, parameters[0], -1)
        return reply(True, documents[place].replace("c2VjcmV0", "secret"))

    def is_silent(self) -> None:
        self.endpoint.answer = lambda *_asked: dumps(("garbage",), methodresponse=True).encode()

    @property
    def asked(self) -> list[str]:
        return [method for method, _ in self.endpoint.calls]


@pytest.fixture
def hosts(endpoint: Any) -> Hosts:
    return Hosts(endpoint)


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock(1000)


@pytest.fixture
def attributes(hosts: Hosts, transport: OnedTransport, clock: FixedClock) -> HostAttributes:
    return HostAttributes(transport, clock, lambda name, cluster: (name, cluster) == ("node2", "batch"))


def test_attributes_are_read_decrypted_and_the_pool_of_hosts_once_in_a_while(
    hosts: Hosts, clock: FixedClock, attributes: HostAttributes
) -> None:
    for _ in range(3):
        assert attributes.of("node1")["POWER_PASSWORD"] == "secret"
    assert ("one.host.info", (7, True)) in hosts.endpoint.calls
    assert hosts.asked == ["one.hostpool.info"] + ["one.host.info"] * 3
    clock.set(1000 + KEPT_S)
    attributes.of("node1")
    assert hosts.asked.count("one.hostpool.info") == 2


def test_a_host_of_which_oned_knows_nothing_about_power_is_not_asked_for(
    hosts: Hosts, attributes: HostAttributes
) -> None:
    assert [attributes.of(name) for name in ("node2", "node3")] == [{}, {}]
    assert hosts.asked == ["one.hostpool.info"]


def test_all_hosts_are_told_with_what_the_pool_says_of_their_power(attributes: HostAttributes) -> None:
    known = attributes.hosts_with("node1")
    assert known == {
        "node1": ListedHost(attributes={"POWER_ADDRESS": "10.0.0.1", "POWER_PASSWORD": "c2VjcmV0"}),
        "node2": ListedHost(handed_over=True),
        "node3": ListedHost(),
    }
    assert attributes.hosts_with("node2") is known


@pytest.mark.parametrize("question", [HostAttributes.of, HostAttributes.hosts_with])
def test_a_host_that_was_created_since_the_pool_was_read_is_looked_for_in_it_once_more(
    hosts: Hosts, clock: FixedClock, attributes: HostAttributes, question: Callable[[HostAttributes, str], Any]
) -> None:
    attributes.of("node1")
    hosts.templates["node4"] = "<POWER_ADDRESS>10.0.0.4</POWER_ADDRESS>"
    clock.set(1010)
    assert question(attributes, "node4")
    assert attributes.of("node4") == {"POWER_ADDRESS": "10.0.0.4"}
    assert hosts.asked.count("one.hostpool.info") == 2


@pytest.mark.parametrize("question", [HostAttributes.of, HostAttributes.hosts_with])
def test_of_a_host_that_oned_does_not_list_nobody_knows_where_its_controller_is(
    hosts: Hosts, clock: FixedClock, attributes: HostAttributes, question: Callable[[HostAttributes, str], Any]
) -> None:
    known = attributes.of("node1")
    for _ in range(2):
        clock.set(1010)
        with pytest.raises(CloudUnavailable, match=r"one\.hostpool\.info lists no host named nobody"):
            question(attributes, "nobody")
    assert hosts.asked.count("one.hostpool.info") == 2
    hosts.is_silent()
    clock.set(1020)
    with pytest.raises(CloudUnavailable):
        question(attributes, "nobody")
    assert attributes.of("node1") == known


def test_what_was_never_read_is_not_taken_for_nothing_while_oned_is_silent(
    hosts: Hosts, clock: FixedClock, attributes: HostAttributes
) -> None:
    hosts.is_silent()
    for question in (attributes.hosts_with, attributes.of):
        with pytest.raises(CloudUnavailable, match=r"one\.hostpool\.info"):
            question("node1")
    hosts.endpoint.answer = hosts.answer
    known, listed = attributes.of("node1"), attributes.hosts_with("node1")
    hosts.is_silent()
    clock.set(1000 + KEPT_S)
    assert (attributes.of("node1"), attributes.hosts_with("node1")) == (known, listed)


def test_a_host_that_was_made_anew_is_found_again(hosts: Hosts, attributes: HostAttributes) -> None:
    attributes.of("node1")
    hosts.first_id = 20
    with pytest.raises(CloudUnavailable, match="no such host"):
        attributes.of("node1")
    assert attributes.of("node1")["POWER_PASSWORD"] == "secret"
    assert hosts.endpoint.calls[-1] == ("one.host.info", (20, True))
