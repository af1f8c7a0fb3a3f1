"""The run folder, comparisons and the HTML report."""
