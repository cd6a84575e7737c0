"""State of a running sweep: its progress, the time left and the best models so far. Makes no decisions."""
