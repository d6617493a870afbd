"""Two finished runs, or two arms of one, on the same samples: effects, verdicts, what flipped, what else differs."""
