"""Runs the hosted groups: drivers, clock, topics and looks at the cluster."""
