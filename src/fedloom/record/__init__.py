"""The run folder, tables and the HTML report."""

from fedloom.record.folder import FolderError, record

__all__ = ["FolderError", "record"]
