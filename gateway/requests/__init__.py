"""Group requests: each module answers some apis, with the groups, the cluster or both."""
