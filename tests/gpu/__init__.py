"""What assay says of GPUs, measured: `make gpu` on any machine with one. See docs/benchmarks.md for what came out."""
