"""Tuning: a search over engine options by Optuna, and the winner held against the plan and vLLM's defaults."""
