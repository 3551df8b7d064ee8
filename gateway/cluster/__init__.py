"""The gateway's own client of the upstream cluster; it must not know the data path, or
what a group is beyond the id that its coordinator is asked for by."""
