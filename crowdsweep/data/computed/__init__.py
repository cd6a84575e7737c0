"""Features of items that are computed of what a dataset's folder knows of them: texts (`tfidf`, `sentences`)
and images (`images`)."""
