"""The registry: finds models, datasets and study templates by name, and reads what parameters a record takes.

It imports what it finds only when asked, and depends on no model or dataset.
"""
