"""The archive: `runs/<id>/`, append-only, from which everything later is read.

A record is on disk before it counts. This room knows records and files; it must not know how rollouts are made,
judged or ranked.
"""
