"""Estimators and rules where the truth is known: how often their intervals and promises hold."""
