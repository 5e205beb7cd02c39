"""What oned matched, under the name that matching knows it by."""

from __future__ import annotations

from one_preempt.core.model.prematch import Prematch

__all__ = ["Prematch"]
