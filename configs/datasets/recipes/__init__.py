"""How the rows of the shipped datasets are made: one module a dataset."""
