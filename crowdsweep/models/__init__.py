"""Models behind one contract, and the arithmetic that they share.

They see training data and seeds; no gold, no scores, no engine.
"""
