"""Reports: an archive's records as tables, figures and one HTML page. Reads only the archive; judges nothing."""

from harness.report.page import write_page

__all__ = ["write_page"]
