"""An engine that is a server: a process that answers assay's requests by asking any that speaks OpenAI's API."""
