"""MLflow's copy of a run: built from the warehouse, kept in a spool until MLflow has all of it."""
