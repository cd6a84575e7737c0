"""Networks on a leading axis of replicas, and what replicas are made of. They know no annotators and no loss."""
