"""Calibrators that learn the law of the success probability from the PRM's hidden states, which are not changed.

Heads that predict a temperature are in `ats`, and what changes the PRM is in `lora`.
"""
