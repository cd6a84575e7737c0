"""The results that people take away: labels of items, a table of annotators, what to label next, a classifier."""
