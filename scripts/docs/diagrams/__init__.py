"""The diagrams of docs/diagrams/, each drawn from a table of the code or from what the code decides."""
