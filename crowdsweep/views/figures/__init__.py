"""Every figure, drawn with matplotlib's objects. No other package imports matplotlib."""
