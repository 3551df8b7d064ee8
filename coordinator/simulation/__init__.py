"""The simulator: plays one group under faults, in simulated time, from a seed.

It is test equipment, and the only part of `coordinator/` that uses randomness.
"""
