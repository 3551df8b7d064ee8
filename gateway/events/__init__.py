"""What happened, as an operator would ask about it: each event defined once, told in one place."""
