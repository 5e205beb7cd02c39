"""What is right and wrong in a set-up, judged from oned's answers: one finding a question, with its mend."""

from __future__ import annotations

import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path

from msgspec import Struct

from one_preempt.adapters.opennebula.xml_document import parse_document
from one_preempt.clock_leaps import LEAP_S, dated_ahead
from one_preempt.configuration.settings import Settings
from one_preempt.core.matching.datastores import is_monitored
from one_preempt.core.model.access import ADMINISTRATORS_GID
from one_preempt.core.model.infrastructure import Datastore, DatastoreType
from one_preempt.core.model.pool_snapshot import PoolSnapshot, RaftState
from one_preempt.explanation.explain import printable

OLDEST = (6, 8)
NEWEST = (7, 4)
PLACER_OPTION = "-p"
IDLE_PLACERS = ("dummy", "one_preempt")
MATCHMAKER = "mm_sched"
FEDERATED = ("MASTER", "SLAVE")
NAMED = 5
_STORES_NAMED = 3


class Grade(StrEnum):
    """OK; WARN: it works, but look at it; FAIL: it cannot work."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


class Finding(Struct, frozen=True):
    """The answer to one question; `mend` says what to do where it is not OK."""

    subject: str
    grade: Grade
    text: str
    mend: str = ""


def first_of(found: Sequence[Finding], more: str, mend: str = "") -> Iterator[Finding]:
    """The first of many findings of one kind; of the others, how many there are, what is `more`, and their mend."""
    yield from found[:NAMED]
    if len(found) > NAMED:
        yield Finding(found[0].subject, found[0].grade, f"{len(found) - NAMED} {more}", mend)


def judge_version(version: str) -> Finding:
    """Is this a version that the scheduler knows?"""
    numbers = version.strip().split(".")[:2]
    if len(numbers) < 2 or not all(number.isascii() and number.isdigit() and len(number) < 9 for number in numbers):
        return Finding("version", Grade.WARN, f"oned calls itself {printable(version, 40)!r}", "is this OpenNebula?")
    release = (int(numbers[0]), int(numbers[1]))
    said = f"OpenNebula {printable(version.strip(), 40)}"
    if release < OLDEST:
        mend = "upgrade OpenNebula to 6.8 or newer: before, mm_sched also runs the scheduled actions of VMs"
        return Finding("version", Grade.FAIL, f"{said} is too old", mend)
    if release > NEWEST:
        mend = "look for a newer one_preempt; watch the first cycles with preemption: advise"
        return Finding("version", Grade.WARN, f"{said} is newer than what was tested (6.8 to 7.4)", mend)
    return Finding("version", Grade.OK, said)


def judge_clocks(ahead_s: int | None) -> Iterator[Finding]:
    """Do this machine and oned's agree on the time? `ahead_s`: so far is this one ahead; None: oned does not say."""
    if ahead_s is not None and abs(ahead_s) >= LEAP_S:
        word = "ahead of" if ahead_s > 0 else "behind"
        text = f"this machine's is {abs(ahead_s)} s {word} that of OpenNebula: the daemon sends nobody out meanwhile"
        yield Finding("clock", Grade.WARN, text, "set the one that is wrong, and check NTP on both machines")


def judge_dates(snapshot: PoolSnapshot, ahead_s: int | None, now_s: int) -> Iterator[Finding]:
    """Was anything written down in what is the future by this machine's clock? `ahead_s` as above: that tells more."""
    found = None if abs(ahead_s or 0) >= LEAP_S else dated_ahead(snapshot.vms.values(), now_s)
    if found is not None:
        mend = "set this machine's clock if it is wrong, and check NTP; if it is right, there is nothing to do"
        yield Finding("clock", Grade.WARN, found.text, mend)


def judge_secrecy(file: Path | None) -> Iterator[Finding]:
    """Can others on this machine read the password that commands the whole cloud?"""
    if file is not None and file.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH):
        mend = f"chmod 600 {printable(str(file))}"
        yield Finding("credentials", Grade.WARN, f"others on this machine may read {file}", mend)


def judge_rights(user_document: bytes) -> Finding:
    """May this user do all that a scheduler does? Members of the group oneadmin may."""
    user = parse_document(user_document, [], "one.user.info")
    name = printable(user.findtext("NAME") or "?", 40)
    group_ids = {user.findtext("GID") or "", *(group.text or "" for group in user.iterfind("GROUPS/ID"))}
    if str(ADMINISTRATORS_GID) in group_ids:
        return Finding("rights", Grade.OK, f"{name} is an administrator")
    mend = f"put it into the group oneadmin (oneuser chgrp {name} oneadmin), or let ONE_AUTH name an administrator"
    return Finding("rights", Grade.FAIL, f"{name} is no administrator: most of the cloud is hidden from it", mend)


def judge_daemon(path: str, answer: Mapping[str, object] | None, writer: str = "") -> Finding:
    """How does the daemon say it is? `answer`: what it said at the socket `path`, or None.

    `writer`: the process that is seen to hold the database's lock, '' for none.
    """
    subject = "daemon"
    if answer is None and writer:
        text = f"it runs ({printable(writer, 200)}) and does not answer at {path}: place and hooks do not reach it"
        return Finding(subject, Grade.FAIL, text, "see its log; correct socket.path or its folder, and restart it")
    if answer is None:
        return Finding(subject, Grade.OK, f"none answers at {path}: right, if it was not started yet")
    if not answer["ok"]:
        text = printable(str(answer.get("error")), 200)
        return Finding(subject, Grade.WARN, f"its state is not known: {text}", "run this as oneadmin")
    last = answer.get("last_cycle")
    if answer.get("schedules") is True or not isinstance(last, Mapping):
        return Finding(subject, Grade.OK, "it schedules" if last else "its first cycle is not over yet")
    if not last.get("error") and last.get("leads") is False:
        return Finding(subject, Grade.OK, "it runs, and waits for its front-end to lead")
    why = printable(str(last.get("error") or "its last cycle was long ago"), 200)
    return Finding(subject, Grade.WARN, f"it runs and does not schedule: {why}", "see its log")


def judge_zone(configuration: bytes) -> Iterator[Finding]:
    """Which zone of a federation is this? Nothing is said where there is none."""
    federation = parse_document(configuration, [], "one.system.config").find("FEDERATION")
    if federation is None or federation.findtext("MODE", "").upper() not in FEDERATED:
        return
    zone_id, mode = (printable(federation.findtext(name, ""), 40) for name in ("ZONE_ID", "MODE"))
    text = f"this is zone {zone_id} of a federation ({mode.lower()}): its VMs and hosts are scheduled, no others"
    yield Finding("zone", Grade.OK, text)


def judge_leadership(state: RaftState) -> Finding:
    """Would the daemon act on this front-end?"""
    if state.leads:
        return Finding("leadership", Grade.OK, f"this front-end is {state.name}")
    mend = "run the daemon on every front-end, each with its own endpoint: it waits until its front-end leads"
    return Finding("leadership", Grade.WARN, f"this front-end is {state.name}: the daemon does not act here", mend)


def judge_other_schedulers(version: str, configuration: bytes, processes: Collection[str]) -> Iterator[Finding]:
    """Does another scheduler place the same VMs? `processes`: names of what runs on this machine."""
    subject = "other schedulers"
    if MATCHMAKER in processes:
        mend = "systemctl disable --now opennebula-scheduler; systemctl mask opennebula-scheduler"
        yield Finding(subject, Grade.FAIL, f"{MATCHMAKER} runs on this machine and places as well", mend)
    elif version.startswith("6."):
        yield Finding(subject, Grade.OK, f"{MATCHMAKER} does not run on this machine; look on the other front-ends")
    arguments = parse_document(configuration, [], "one.system.config").findtext("SCHED_MAD/ARGUMENTS")
    if arguments is None:
        return
    words = arguments.split()
    placer = words[words.index(PLACER_OPTION) + 1] if PLACER_OPTION in words[:-1] else ""
    if placer in IDLE_PLACERS:
        yield Finding(subject, Grade.OK, f"oned's own placer is {placer}")
    else:
        mend = f"write {PLACER_OPTION} one_preempt into ARGUMENTS of SCHED_MAD in oned.conf and restart oned"
        yield Finding(subject, Grade.FAIL, f"oned's own placer {printable(placer, 40)!r} places VMs as well", mend)


def judge_names_in_rules(settings: Settings, snapshot: PoolSnapshot) -> Iterator[Finding]:
    """Do the users and groups that the rules name exist?"""
    users = {name for user in snapshot.directory.users.values() for name in (user.name, str(user.id))}
    groups = {name for group in snapshot.directory.groups.values() for name in (group.name, str(group.id))}
    named = [(f"rule '{rule.name}'", rule.match.user, rule.match.group) for rule in settings.leases.rules]
    named += [(f"right '{right.name}'", right.user, right.group) for right in settings.leases.rights]
    missing = [f"{where} names user '{user}'" for where, user, _group in named if user and user not in users]
    missing += [f"{where} names group '{group}'" for where, _user, group in named if group and group not in groups]
    for text in missing:
        yield Finding("rules", Grade.WARN, f"{text}, which does not exist", "correct the name in the configuration")
    if named and not missing:
        yield Finding("rules", Grade.OK, "every user and group in them exists")


def judge_shares(settings: Settings, snapshot: PoolSnapshot) -> Iterator[Finding]:
    """Do the groups exist that were given a share? Nothing is said where none was."""
    groups = {name for group in snapshot.directory.groups.values() for name in (group.name, str(group.id))}
    missing = [name for name in settings.fair_share.shares if name not in groups]
    for name in missing:
        text = f"fair_share.shares names group '{name}', which does not exist"
        yield Finding("shares", Grade.WARN, text, "correct the name in the configuration")
    if settings.fair_share.shares and not missing:
        yield Finding("shares", Grade.OK, "every group in fair_share.shares exists")


def judge_hosts(snapshot: PoolSnapshot) -> Finding:
    """Is there a host that takes VMs?"""
    taking = sum(host.accepts_vms for host in snapshot.hosts.values())
    said = f"{taking} of {len(snapshot.hosts)} hosts take VMs"
    if taking:
        return Finding("hosts", Grade.OK, said)
    return Finding("hosts", Grade.WARN, said, "see: one-preempt host list")


def judge_datastores(settings: Settings, snapshot: PoolSnapshot) -> Iterator[Finding]:
    """The clusters of whose system datastores none can be used, though hosts of theirs take VMs."""
    system = [one for one in snapshot.datastores.values() if one.type is DatastoreType.SYSTEM and one.enabled]
    for cluster_id in sorted({host.cluster_id for host in snapshot.hosts.values() if host.accepts_vms}):
        cluster = snapshot.clusters.get(cluster_id)
        where = f"cluster {printable(cluster.name) if cluster is not None else cluster_id}"
        stores = [one for one in system if cluster_id in one.cluster_ids]
        if not stores:
            said = f"{where} has hosts that take VMs, and no enabled system datastore: nothing is placed there"
            yield Finding(
                "datastores", Grade.WARN, said, "onedatastore list; onedatastore enable; onecluster adddatastore"
            )
        elif not settings.matchmaker.accept_unmonitored_datastores and all(map(_waits_for_monitoring, stores)):
            names = ", ".join(printable(one.name) for one in stores[:_STORES_NAMED])
            said = f"{where}: system datastore {names} was never measured, so nothing is placed there"
            mend = "wait until OpenNebula has measured it, some minutes; else see oned.log and onedatastore show"
            yield Finding("datastores", Grade.WARN, said, mend)


def _waits_for_monitoring(store: Datastore) -> bool:
    """Nobody knows how much room it has; that of one on the hosts' own disks is known from each host."""
    return store.shared and not is_monitored(store)


def judge_mode(settings: Settings) -> Finding:
    """What would the daemon do?"""
    if settings.preemption == "act":
        return Finding("mode", Grade.OK, f"leases are preempted by the policy {settings.preemption_policy}")
    return Finding("mode", Grade.OK, "preemption: advise; VMs are placed, preemptions only logged")
