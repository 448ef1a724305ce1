"""The Python API: what `import harness` gives, over the same pipeline as the commands.

This room parses no command line and prints nothing; what runs are made of is for harness.pipeline to know.
"""
