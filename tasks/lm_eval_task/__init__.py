"""A task of lm-evaluation-harness (its YAML) as a dataset config, as far as it goes."""
