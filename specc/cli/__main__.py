"""`python -m specc.cli`: the same as the `specc` script."""

from specc.cli.app import main

main()
