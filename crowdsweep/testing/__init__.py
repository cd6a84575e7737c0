"""The contract of models, as checks that run over a plug-in too; needs the `dev` extra."""
