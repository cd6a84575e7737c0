"""Labels in the forms of other tools: a file a form, `registry` with all of them, `asked` with what a person wants."""
