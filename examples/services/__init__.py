"""Small services, each in one file that runs by itself; README.md says what each one teaches."""
