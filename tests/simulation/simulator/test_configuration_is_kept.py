"""What of the scheduler's configuration a simulation plays with."""

from __future__ import annotations

from one_preempt.configuration.settings import Settings, parse_settings
from one_preempt.simulation.experiments.trial import Trial, play
from one_preempt.simulation.simulator.site import simulation_settings
from one_preempt.simulation.workload.workload import Workload
from tests.simulation.simulator.small_stories import TWO_HOSTS, request


def hosts_taken(configuration: str) -> list[int]:
    """Where two VMs run of which each host could take both."""
    settings = simulation_settings(parse_settings(configuration, "one_preempt.conf"))
    workload = Workload((request(1, 0, 1, 100), request(2, 10, 1, 100)))
    stays = play(Trial(workload, TWO_HOSTS, settings, keeps_stays=True)).seen.stays
    return [stay.host_id for stay in sorted(stays, key=lambda stay: stay.vm_id)]


def test_a_host_policy_is_rehearsed_as_it_is_configured() -> None:
    assert hosts_taken("matchmaker: {host_policy: packing}") == [1, 1]
    assert hosts_taken("matchmaker: {host_policy: Custom, host_rank: '- ID'}") == [0, 0]
    assert hosts_taken("matchmaker: {host_policy: custom, host_rank: '- RUNNING_VMS'}") == [1, 0]


def test_the_shipped_host_policy_takes_the_highest_of_equal_hosts() -> None:
    assert hosts_taken("matchmaker: {host_policy: striping}") == hosts_taken("") == [1, 1]
    assert simulation_settings(Settings()) == simulation_settings()


def test_what_paces_a_live_cloud_is_off_and_the_rest_is_kept() -> None:
    given = "{limits: {cooldown_s: 7, enumerated_leases: 5}, matchmaker: {max_host: 9}, time: {grace_s: 60}}"
    settings = simulation_settings(parse_settings(given, "one_preempt.conf"))
    assert (settings.limits.cooldown_s, settings.limits.enumerated_leases) == (0, 5)
    assert (settings.matchmaker.max_host, settings.time.grace_s) == (0, 60)
