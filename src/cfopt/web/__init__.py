"""The explorer: a page and an HTTP interface to ask "why not?" (`cfopt serve`)."""
