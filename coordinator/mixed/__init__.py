"""Classic members of a consumer group: their calls, translated onto its epochs."""
