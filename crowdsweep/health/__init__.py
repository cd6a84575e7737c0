"""Whether a sweep would run here, and what is missing for what; a file for each kind of thing that is looked at."""
