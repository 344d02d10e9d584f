"""Tables from a finished run. They measure no speed."""
