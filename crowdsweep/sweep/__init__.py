"""Runs what a sweep file asks for: plan, driver, executors, resuming. Shows nothing; `views` do."""
