"""Workspaces that start as soon as possible on the testbed of VW07 8.2, with and without a cache of images."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from heapq import heappop, heappush

from msgspec import Struct, field

from one_preempt.core.image_staging.fifo import POLICY as FIFO
from one_preempt.core.image_staging.link import link_from
from one_preempt.core.image_staging.transfer import Span, Transfer
from one_preempt.simulation.experiments.vw07_datastar import Submission
from one_preempt.simulation.experiments.vw07_site import IMAGE_MB, PLACES, TRANSFER_MS
from one_preempt.simulation.vw07_model.image_pool import ImagePool, PoolRules


class Deployed(Struct, frozen=True):
    """An image that a VM was given: when its deployment began, when it was there, and whether by a transfer."""

    began_ms: int
    ready_ms: int
    was_transferred: bool

    @property
    def lasted_ms(self) -> int:
        """From the beginning of the deployment until the VM is ready to run."""
        return self.ready_ms - self.began_ms


class DeploymentSite(Struct):
    """Eight nodes with two places each, and one link.

    `cache` is what each node keeps; None: every VM has a transfer of its own. `together`: the VMs of a workspace begin
    at the same time and run at the same time, else each by itself. `by_image`: a VM goes where its image is, if it can
    (VW07 6.3), else to the node with the most places free, as the paper's testbed did. Nobody overtakes.
    """

    cache: PoolRules | None
    together: bool
    by_image: bool = False
    deployed: list[Deployed] = field(default_factory=list)
    _free: dict[int, int] = field(default_factory=lambda: dict(PLACES))
    _pools: dict[int, ImagePool] = field(default_factory=dict)
    _busy_until_ms: int = 0
    # When a VM ends: its id, which is its turn, and its node.
    _ends: list[tuple[int, int, int]] = field(default_factory=list)
    _vms: int = 0

    def run(self, submissions: Sequence[Submission]) -> list[Deployed]:
        """All of them to the end; what was deployed, in the order in which it began."""
        self._pools = {node: ImagePool(self.cache) for node in PLACES} if self.cache is not None else {}
        to_come = deque(sorted(submissions, key=lambda one: one.at_ms))
        queue: deque[Submission] = deque()
        while to_come or queue:
            now_ms = min([*(one.at_ms for one in list(to_come)[:1]), *(end[0] for end in self._ends[:1])])
            while self._ends and self._ends[0][0] == now_ms:
                self._leave(*heappop(self._ends))
            while to_come and to_come[0].at_ms == now_ms:
                queue += self._parts(to_come.popleft())
            while queue and queue[0].vms <= sum(self._free.values()):
                self._start(queue.popleft(), now_ms)
        return self.deployed

    def _parts(self, submission: Submission) -> list[Submission]:
        if self.together:
            return [submission]
        return [Submission(submission.at_ms, 1, submission.lasts_ms, submission.image)] * submission.vms

    def _leave(self, now_ms: int, vm: int, node: int) -> None:
        self._free[node] += 1
        if node in self._pools:
            self._pools[node] = self._pools[node].left(vm).expired(now_ms)

    def _start(self, wanted: Submission, now_ms: int) -> None:
        """All VMs of it; they run once all of their images are there."""
        begun = []
        for _ in range(wanted.vms):
            node = self._node_for(wanted.image, now_ms)
            self._free[node] -= 1
            self._vms += 1
            begun.append((self._vms, node, self._deploy(wanted.image, node, self._vms, now_ms)))
        end_ms = max(one.ready_ms for _, _, one in begun) + wanted.lasts_ms
        for vm, node, one in begun:
            self.deployed.append(one)
            heappush(self._ends, (end_ms, vm, node))

    def _node_for(self, image: str, now_ms: int) -> int:
        """By image where it is, else where it is on its way; else where most places are free; ties: the least id."""

        def order(node: int) -> tuple[int, int, int]:
            pool = self._pools.get(node)
            if pool is None or not self.by_image:
                return 0, -self._free[node], node
            far = 0 if pool.is_there(image, now_ms) else 1 if pool.on_its_way(image, now_ms) else 2
            return far, -self._free[node], node

        return min((node for node, free in self._free.items() if free), key=order)

    def _deploy(self, image: str, node: int, vm: int, now_ms: int) -> Deployed:
        pool = self._pools.get(node)
        if pool is not None and image in pool.templates:
            joined = pool.joined(image, vm, now_ms)
            assert joined is not None
            self._pools[node] = joined
            return Deployed(now_ms, max(now_ms, pool.templates[image].arrives_ms), was_transferred=False)
        one = Transfer(vm, image, (node,), TRANSFER_MS, now_ms, None, vm)
        (staged,) = FIFO.stage([one], link_from(now_ms, [Span(now_ms, max(now_ms, self._busy_until_ms))]))
        self._busy_until_ms = staged.end_ms
        if pool is not None:
            # Without room for it the image goes with its VM.
            self._pools[node] = pool.brought(image, IMAGE_MB, staged.end_ms, vm, now_ms) or pool
        return Deployed(now_ms, staged.end_ms, was_transferred=True)
