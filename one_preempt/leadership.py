"""Whether this front-end is the one that acts, and the lock on the ledger that goes with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from one_preempt.core.model.pool_snapshot import RaftState
from one_preempt.ports import CloudUnavailable, LeaseStore, PoolReader

Told = TypeVar("Told")


class Leadership:
    """Of the front-ends of a cloud one leads, and the daemon there schedules. That may change at any time.

    Who only decides and explains (`acts` False) works on a copy of the ledger: on any front-end, and without a lock.
    """

    def __init__(
        self, reader: PoolReader, store: LeaseStore, let_go: Sequence[Callable[[], None]], *, acts: bool
    ) -> None:
        """`let_go` is called before the daemon of another front-end may go on."""
        self._reader, self._store, self._let_go, self._acts = reader, store, let_go, acts
        self._silence: CloudUnavailable | None = None

    @property
    def is_lost_in_silence(self) -> bool:
        """Did oned, asked in this cycle whether we still lead, give no answer?"""
        return self._silence is not None

    def begin_cycle(self) -> RaftState | None:
        """The state of this front-end where another one acts, else None: the cycle goes on. Raises as `told`."""
        self._silence = None
        if not self._acts:
            return None
        state = self.told(self._reader.read_raft_state)
        return state if self.is_elsewhere(state) else None

    def is_elsewhere(self, raft_state: RaftState) -> bool:
        """Is it for another front-end to act, where this one is in that state?"""
        return self._acts and not raft_state.leads

    def told(self, question: Callable[[], Told]) -> Told:
        """What the cloud answers now; where it does not, the daemon of another front-end may go on.

        Raises `CloudUnavailable`.
        """
        try:
            return question()
        except CloudUnavailable:
            # Its oned may be gone, and another front-end lead by now: that one's daemon must be able to write.
            self.step_down()
            raise

    def take_up(self) -> None:
        """Lock the ledger: nobody else writes to it from now on. Raises `AnotherDaemonWrites`."""
        if self._acts:
            self._store.acquire_writer()

    def is_still_here(self) -> bool:
        """Ask oned again: calls are sent only as long as this front-end leads.

        Where there is no answer none is sent in this cycle, and at its end another front-end's daemon may go on.
        """
        if self._silence is None:
            try:
                return self._reader.read_raft_state().leads
            except CloudUnavailable as error:
                self._silence = error
        return False

    def step_down_in_silence(self, *, was_called: bool) -> None:
        """Let another front-end's daemon go on, which may act before this one's next cycle.

        Raises `CloudUnavailable` where nothing was called: then no answer to a call says why.
        """
        if self._silence is None:
            return
        self.step_down()
        if not was_called:
            raise self._silence

    def step_down(self) -> None:
        """Let the daemon of another front-end schedule."""
        if self._acts:
            for let_go in self._let_go:
                let_go()
            self._store.release_writer()
