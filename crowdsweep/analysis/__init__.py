"""What a sweep found, as records: computed from its journal, once. Runs nothing, renders nothing."""
