"""Metrics for Prometheus: what is counted, and the small HTTP server that it is read from."""
