"""The smallest model of each scale: examples, and what the contract's checks run over in tests.

Files here are models as a person would add them, found where `CROWDSWEEP_PLUGINS` names this folder; nothing of the
platform imports them.
"""
