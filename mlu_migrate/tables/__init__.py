"""Renames as data, generated from the reference with its evidence kept: see generate.py."""
