"""Generic (classic) groups: JoinGroup, SyncGroup, Heartbeat and a leader that assigns."""
