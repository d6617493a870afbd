"""IFEval's instructions (Zhou et al. 2023): what each asks for, checked by a program. Written from their definitions.

What is counted and how: docs/metrics-math-ifeval.md.
"""
