"""The doctor: what a run would use, whether it would work, and what to set where it would not.

The free checks ask no model. The live checks make one small call for each thing that only an endpoint can tell. Both
use the parts that a run is made of, so that what is checked is what runs. This room changes nothing and decides
nothing: it never switches a run to a server that it found.
"""

from harness.doctor.calibration import Calibration, ClassResult, calibrate, count_calibration_calls
from harness.doctor.calibration_summary import calibration_json, calibration_lines
from harness.doctor.checks import Check, Status
from harness.doctor.free_checks import Findings, run_free_checks
from harness.doctor.from_python import check_judge, check_judge_sync, check_setup, check_setup_sync, judge_to_check
from harness.doctor.live_checks import count_live_calls, offer_live_checks, run_live_checks
from harness.doctor.local_servers import parse_ports
from harness.doctor.packaged_pairs import bundled_pairs
from harness.doctor.request import DoctorRequest

__all__ = [
    "Calibration",
    "Check",
    "ClassResult",
    "DoctorRequest",
    "Findings",
    "Status",
    "bundled_pairs",
    "calibrate",
    "calibration_json",
    "calibration_lines",
    "check_judge",
    "check_judge_sync",
    "check_setup",
    "check_setup_sync",
    "count_calibration_calls",
    "count_live_calls",
    "judge_to_check",
    "offer_live_checks",
    "parse_ports",
    "run_free_checks",
    "run_live_checks",
]
