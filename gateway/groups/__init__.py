"""Hosted groups: the engine answers their requests. The engine's rules live in `coordinator/`."""
