"""What a plugin of assay can bring: a metric, datasets, a reasoning parser."""
