"""What one takes from a sweep into a paper: its figures as files, and a paragraph on its methods."""
