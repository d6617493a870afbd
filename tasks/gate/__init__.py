"""Gates: what a run's metrics must hold, against earlier runs or numbers, judged from what is in the warehouse."""
