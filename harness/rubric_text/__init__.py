"""Rubric text: a stranger's file is taken apart and its template rendered, in a child process within limits.

What comes out is plain: texts, numbers, lists. This room must not know what a rubric means, and loads neither
pydantic nor the SDK: the child has to start quickly.
"""
