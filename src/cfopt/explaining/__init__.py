"""From a question to verified answers: posed as a task, searched, settled row by row."""
