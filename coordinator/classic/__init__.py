"""Classic groups: JoinGroup, SyncGroup, Heartbeat and a leader that assigns."""
