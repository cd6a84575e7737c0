"""The record of a sweep: a journal of events, each written durably once, and the state that they add up to.

Independent of MLflow, the terminal and the planning of sweeps.
"""
