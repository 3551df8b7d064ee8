"""Native members of a consumer group: ConsumerGroupHeartbeat, their only request (KIP-848)."""
