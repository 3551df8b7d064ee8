"""Consumer groups: members, epochs, target and current assignments (KIP-848)."""
