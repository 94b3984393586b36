"""Pages for a browser, made from records alone: the report of a folder, and the dashboard that follows running ones."""
