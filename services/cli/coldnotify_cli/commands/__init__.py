"""One module per family of commands; main.py names them all and imports one when it is called."""
