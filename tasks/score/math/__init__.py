"""Reading a mathematical answer, and deciding whether two of them are equal.

What is equal: docs/metrics-math-ifeval.md. Only build.py, equal.py and child.py touch sympy, and they run in a process
of their own.
"""
