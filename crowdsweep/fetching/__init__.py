"""Downloads public datasets, checks them, and converts them to dataset folders (`data.public` lists them)."""
