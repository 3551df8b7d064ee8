"""Where the engine's durable records are kept. What a record means is not known here."""
