"""What training has found out about the data, as a report."""

from gradorder.reporting.report import DataReport as DataReport
from gradorder.reporting.report import data_report as data_report
