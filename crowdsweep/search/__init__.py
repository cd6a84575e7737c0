"""Search spaces of hyper-parameters, and searchers, which propose points in them. Reads no data and runs no trials."""
