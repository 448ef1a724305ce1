"""The doctor: what a run would use, whether it would work, and what to set where it would not.

Looking is free and asks no model; asking makes one small call for each thing that only an endpoint can tell. It goes
through the parts that a run is made of, so that what is checked is what runs. This room changes nothing and decides
nothing: it never switches a run to a server that it found.
"""

from harness.doctor.calibration import Calibration, calibrate, calls_for
from harness.doctor.calibration_text import calibration_json, calibration_lines
from harness.doctor.checks import Check, Status
from harness.doctor.free_checks import Findings, look
from harness.doctor.labelled import bundled_pairs, read_pairs
from harness.doctor.live_checks import ask, calls_to_make, offer
from harness.doctor.local import ports_from
from harness.doctor.request import Asked

__all__ = [
    "Asked",
    "Calibration",
    "Check",
    "Findings",
    "Status",
    "ask",
    "bundled_pairs",
    "calibrate",
    "calibration_json",
    "calibration_lines",
    "calls_for",
    "calls_to_make",
    "look",
    "offer",
    "ports_from",
    "read_pairs",
]
