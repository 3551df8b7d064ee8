"""What a group is: its state, how records change it, and the step that decides on a copy of it."""
