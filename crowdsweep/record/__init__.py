"""The record of a sweep: events written once, durably, and what they add up to.

Knows no MLflow, no terminal, no plan.
"""
