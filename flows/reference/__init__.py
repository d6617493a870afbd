"""The pages of docs/reference and the doctor's part of docs/troubleshooting.md, written from the code itself.

`make docs` writes them (`python -m flows.reference`); a test writes them again and compares.
"""
