"""State logs: storage for the engine's durable records, independent of their meaning."""
