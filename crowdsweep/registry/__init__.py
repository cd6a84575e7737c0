"""What can be named and where it is found: models, datasets and templates, and what parameters a record takes.

Imports none of what it finds until asked; knows neither data nor models.
"""
