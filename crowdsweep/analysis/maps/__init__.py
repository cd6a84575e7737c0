"""Maps of annotators, items and clusters: the numbers, from what trials kept."""
