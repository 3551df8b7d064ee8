"""Who may use how much of what the gateway has a limited amount of. Pure: no IO, no clock."""
