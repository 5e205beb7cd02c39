"""Which objects of a cloud changed, for those who keep a picture of it and look only at what is new."""

from __future__ import annotations

from msgspec import Struct, field


class ChangeLog(Struct):
    """What changed since the log was last emptied.

    `vms` and `hosts` by id; `usage` are hosts of which only the load changed: what they are charged with, who is on
    them, what their monitoring says. `holders` are users (True, uid) and groups (False, gid) whose quotas were used.
    `datastores` and `networks` (VM groups too) are told as a whole, `surroundings` stands for all of these, clusters,
    users, groups and rules.
    """

    vms: set[int] = field(default_factory=set)
    hosts: set[int] = field(default_factory=set)
    usage: set[int] = field(default_factory=set)
    holders: set[tuple[bool, int]] = field(default_factory=set)
    datastores: bool = False
    networks: bool = False
    surroundings: bool = False

    def clear(self) -> None:
        """Begin anew."""
        for ids in (self.vms, self.hosts, self.usage):
            ids.clear()
        self.holders.clear()
        self.datastores = self.networks = self.surroundings = False


class ChangeLogs(Struct):
    """The logs that are being kept, none at first: then telling of a change costs next to nothing."""

    logs: list[ChangeLog] = field(default_factory=list)

    def open(self) -> ChangeLog:
        """A log of everything that changes from now on."""
        self.logs.append(ChangeLog())
        return self.logs[-1]

    def vm(self, vm_id: int) -> None:
        """A VM changed."""
        for log in self.logs:
            log.vms.add(vm_id)

    def host(self, host_id: int) -> None:
        """A host changed."""
        for log in self.logs:
            log.hosts.add(host_id)

    def usage(self, host_id: int) -> None:
        """The load of a host changed."""
        for log in self.logs:
            log.usage.add(host_id)

    def holder(self, is_user: bool, holder_id: int) -> None:
        """The quotas of a user or a group were used."""
        for log in self.logs:
            log.holders.add((is_user, holder_id))

    def datastores(self) -> None:
        """Space of a datastore was taken or given back."""
        for log in self.logs:
            log.datastores = True

    def surroundings(self) -> None:
        """Something else changed."""
        for log in self.logs:
            log.surroundings = True
