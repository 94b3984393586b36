"""Pages for a browser, made only from records: the report of a folder, and the dashboard that follows running ones."""
