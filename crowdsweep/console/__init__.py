"""What a person sees of a sweep in a terminal while it runs. Reads events and journal, decides nothing."""
