"""Files other than Python: one module a format, which finds the words; :mod:`checks` says what is wrong with them."""
