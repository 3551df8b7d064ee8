"""The simulator: plays one group under faults, in simulated time, from a seed. Test equipment."""
