"""Rollouts: find an agent, run it N times on a query, capture what it did.

A rollout that fails is a record like any other. This room must not know how rollouts are judged or ranked.
"""
