"""Study templates: a question, the cells that answer it, and the summary of their results. Draw nothing."""
