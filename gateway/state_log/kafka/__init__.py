"""The state log as a compacted topic of the cluster itself."""
