"""Requirement and rank expressions: read as oned reads them, for many hosts at once, within bounds for their owners."""
