"""Public datasets from where they lie: downloaded, checked, made into dataset folders (`data.public` lists them)."""
