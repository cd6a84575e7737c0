"""Tables as text, for papers and programs."""
