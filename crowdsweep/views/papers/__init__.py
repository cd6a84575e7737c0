"""Parts of a sweep's report for papers: its figures as files, and a paragraph on its methods."""
