"""What a sweep found, for people: tables, comparisons, figures, the page. Reads the journal, runs nothing."""
