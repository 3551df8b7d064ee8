"""The board: how every group stands, for people and machines that watch a roll."""
