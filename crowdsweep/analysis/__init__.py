"""The findings of a sweep, as records that are computed once from its journal. Runs nothing, renders nothing."""
