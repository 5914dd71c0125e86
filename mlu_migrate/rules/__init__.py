"""One rule a file; see mlu_migrate/rule.py."""
