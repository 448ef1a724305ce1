"""Kinds of hostile input, a module each: `prepare(rng, room)` lays it out in a room's folders."""
