"""Models of other libraries: one file knows how to translate one kind of them."""
