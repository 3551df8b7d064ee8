"""The gateway's own client of the upstream cluster; it must not know the data path or groups."""
