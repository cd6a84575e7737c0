"""The JSON Schema of the sweep files that run here, study templates among what they may name."""

from crowdsweep.studies.contract import find_template, template_names
from crowdsweep.sweepfile.schema import Schema, sweep_schema


def whole_schema() -> Schema:
    """Returns the schema, JSON-able; models, datasets and templates are those that can be named here."""
    return sweep_schema({name: find_template(name).knobs for name in template_names()})
