"""The Python API: what `import harness` gives, over the same pipeline as the commands. It prints nothing."""
