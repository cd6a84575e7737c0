"""How good a result is: functions of arrays, and the table of their names. Know no models."""
