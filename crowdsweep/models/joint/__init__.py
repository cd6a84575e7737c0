"""Models that learn a network and the annotators together. What two of them share stands in a file of its own."""
