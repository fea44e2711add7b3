"""What people look at: an HTML page over many images, a picture that explains one."""

from meantime.report.explain import explain
from meantime.report.html import ReportWriter, write_report

__all__ = ["ReportWriter", "explain", "write_report"]
