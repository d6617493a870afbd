"""What goes wrong with MLflow."""

from schemas.errors import RunError


class TrackingError(RunError):
    """MLflow could not be written to; the message says why. What was to be written lies in the spool."""


class TrackingUnreachable(TrackingError):
    """No answer, or none in time: whatever else is asked of this server now would end alike."""
