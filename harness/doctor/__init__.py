"""The doctor: what a run would use, whether it would work, and what to set where it would not.

The free checks ask no model. The live checks make one small call for each thing that only an endpoint can tell. Both
use the parts that a run is made of, so that what is checked is what runs. This room changes nothing and decides
nothing: it never switches a run to a server that it found.
"""
