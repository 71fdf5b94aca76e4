"""What searches work on: the task, among contexts or codes, and the report of their progress."""
