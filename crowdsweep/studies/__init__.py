"""Study templates: a question, the cells that answer it, and a summary of their results. Templates draw nothing."""
