"""The simulator: one group under faults, in simulated time, from a seed. Test equipment.

The only place in `coordinator/` that rolls dice; nothing else there may import it.
"""
