"""A corpus of schemas against every grammar backend: read, asked, recorded, counted."""
