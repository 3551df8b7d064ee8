"""Native members of a consumer group: ConsumerGroupHeartbeat, all that they ever send (KIP-848)."""
