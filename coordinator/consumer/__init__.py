"""Consumer groups: ConsumerGroupHeartbeat, epochs, target and current assignments (KIP-848)."""
