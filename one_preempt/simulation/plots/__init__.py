"""Figures as pictures: SVG written directly, so that the same figures give the same bytes and nothing is installed."""
