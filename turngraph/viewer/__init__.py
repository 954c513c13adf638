"""The turn report and the local web page."""
