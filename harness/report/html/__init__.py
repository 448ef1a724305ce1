"""A run as one self-contained HTML page.

The archive's texts were written by agents, users and judges: each is cleaned, escaped, and set apart from the text
around it. The page asks for nothing over the network and runs no script.
"""
