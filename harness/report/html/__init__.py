"""A run as one self-contained HTML page.

The archive's texts were written by agents, users and judges: what is hidden in each is marked, as on a terminal, and it
is escaped and set apart from the text around it. The page asks for nothing over the network and runs no script.
"""
