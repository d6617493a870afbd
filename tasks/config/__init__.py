"""From the YAML that a user wrote to a checked, complete experiment. Nothing heavier than pydantic is loaded here."""
