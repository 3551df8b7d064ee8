"""Runs the hosted groups: drivers, clock, topics and lookups in the cluster."""
