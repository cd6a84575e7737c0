"""Exports of labels in the forms of other tools: a module per form, `registry` with all of them, `asked` with those
that the user requests."""
