"""The output of an inspection: what its findings mean for the user, and how they are shown.

Pure: `verdict` (exit status, comparison with a baseline), `text` (for people), `junit` and `github` (for build
systems). With I/O: `progress` (runs the checks) and `output` (prints and writes). `run` decides which checks run.
"""

from accord.acp_tools.inspect.report.output import ReportOutput, write_list, write_report
from accord.acp_tools.inspect.report.progress import run_with_progress
from accord.acp_tools.inspect.report.verdict import InspectionVerdict, VerdictRules

__all__ = ["InspectionVerdict", "ReportOutput", "VerdictRules", "run_with_progress", "write_list", "write_report"]
