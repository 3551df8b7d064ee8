"""What crosses the border of the engine: settings and events in, records and replies out."""
