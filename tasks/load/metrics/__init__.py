"""Speed metrics, one a module, each with golden cases beside it."""
